"""to_onnx: the runtime's answers are those of `predict` and of the scores."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from fwnet.estimators import FWSVC, FWSVR, LowRankSoftmaxClassifier, TableEncoder, to_onnx

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("skl2onnx")
X, y = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])[y]
MODELS = {
    "rbf": (FWSVC(), y),
    "rbf, two classes": (FWSVC(), NAMES == "virginica"),
    "poly, names": (FWSVC(kernel="poly", coef0=0.5), NAMES),
    "linear, pairs": (FWSVC(kernel="linear", multi_class="ovo"), y),
    "probability": (FWSVC(probability=True), y),
    "probability, two classes": (FWSVC(probability=True), (y == 1).astype(int)),
    "pipeline": (make_pipeline(StandardScaler(), FWSVC()), y),
    "softmax": (LowRankSoftmaxClassifier(radius=5.0), y),
    "softmax, no intercept": (LowRankSoftmaxClassifier(radius=5.0, fit_intercept=False), NAMES),
}


def answers(model: object, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    session = onnxruntime.InferenceSession(to_onnx(model, points[:1]).SerializeToString())
    label, scores = session.run(None, {session.get_inputs()[0].name: points})
    return np.asarray(label), np.asarray(scores)


@pytest.mark.parametrize("name", MODELS)
def test_the_graph_answers_as_the_model(name: str) -> None:
    model, target = MODELS[name]
    model.fit(X, target)
    proba = "probability" in name or "softmax" in name
    scores = model.predict_proba(X) if proba else model.decision_function(X)
    scores = np.column_stack([-scores, scores]) if scores.ndim == 1 else scores
    for dtype, error in ((np.float64, 1e-12), (np.float32, 1e-3)):
        label, found = answers(model, X.astype(dtype))
        assert (label == model.predict(X)).all()
        assert np.abs(found - scores).max() <= error * np.abs(scores).max()


def test_distances_survive_a_large_mean() -> None:
    points = (X + 1000.0).astype(np.float32)
    model = FWSVC().fit(points, y)
    assert (answers(model, points)[0] == model.predict(points)).mean() > 0.99


def test_what_has_no_graph_is_refused() -> None:
    with pytest.raises(TypeError, match=r"must be a FWSVC.*got SVC"):
        to_onnx(SVC().fit(X, y), X)
    with pytest.raises(TypeError, match="got FWSVR"):
        to_onnx(FWSVR().fit(X, y), X)
    model = FWSVC(kernel=lambda A, B: A @ B.T).fit(X, y)
    with pytest.raises(ValueError, match="must have a kernel of linear, rbf, poly, sigmoid"):
        to_onnx(model, X)


def test_a_table_encoder_is_refused_in_words() -> None:
    X, y = np.eye(4), ["a", "a", "b", "b"]
    with pytest.raises(TypeError, match="ColumnTransformer, StandardScaler and OneHotEncoder"):
        to_onnx(make_pipeline(TableEncoder(), FWSVC()).fit(X, y), X)
