"""Support vector machines on graphs, strings and sparse points."""

from __future__ import annotations

import pickle
from collections import Counter
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.model_selection import cross_val_score
from sklearn.svm import SVC

from fwnet.estimators import FWSVC, FWSVR, FWOneClassSVM
from fwnet.kernels import ShortestPath, WeisfeilerLehman, make_graphs

GRAPHS, Y = make_graphs(80, seed=2)


@pytest.mark.parametrize("kernel", [WeisfeilerLehman(3), ShortestPath()], ids=repr)
def test_a_graph_kernel_is_its_matrix(kernel: Any) -> None:
    train, test = GRAPHS[:60], GRAPHS[60:]
    machine = FWSVC(10.0, kernel=kernel, tol=1e-8).fit(train, Y[:60])
    given = FWSVC(10.0, kernel="precomputed", tol=1e-8).fit(kernel(train, train), Y[:60])
    expected = given.decision_function(kernel(test, train))
    np.testing.assert_allclose(machine.decision_function(test), expected, atol=1e-3)
    assert machine.duality_gap_ <= 1e-8
    again = pickle.loads(pickle.dumps(machine))
    np.testing.assert_array_equal(again.predict(test), machine.predict(test))
    assert kernel.__dict__.keys() == type(kernel)().__dict__.keys()  # the parameter is not fitted


def test_other_estimators_and_cross_validation_take_graphs() -> None:
    kernel = WeisfeilerLehman(3)
    assert cross_val_score(FWSVC(10.0, kernel=kernel), GRAPHS, Y).mean() > 0.8
    sizes = np.array([len(graph.labels) for graph in GRAPHS], float)
    regressor = FWSVR(100.0, kernel=WeisfeilerLehman(0, normalize=False), epsilon=0.01)
    assert regressor.fit(GRAPHS, sizes).score(GRAPHS, sizes) > 0.99
    inside = FWOneClassSVM(kernel=kernel).fit(GRAPHS).predict(GRAPHS)
    assert set(inside) <= {-1, 1}
    sure = FWSVC(10.0, kernel=kernel, probability=True).fit(GRAPHS, Y).predict_proba(GRAPHS)
    np.testing.assert_allclose(sure.sum(axis=1), 1.0)


def letters(left: Any, right: Any) -> np.ndarray:
    """Counts of letters that two words share."""
    a, b = ([Counter(word) for word in words] for words in (left, right))
    return np.array([[sum(x[c] * y[c] for c in x) for y in b] for x in a], float)


def test_a_callable_kernel_takes_points_of_any_kind() -> None:
    words = ["aab", "aba", "baa", "abab", "xyx", "yxx", "xxy", "yyxx"]
    kinds = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    machine = FWSVC(kernel=letters).fit(words, kinds)
    assert machine.predict(["ba", "xy", "aaa"]).tolist() == [0, 1, 0]
    lists = [list(word) for word in words]  # of different lengths
    assert FWSVC(kernel=letters).fit(lists, kinds).predict([["b"]]).tolist() == [0]
    even = [list("ab"), list("ba"), list("xy"), list("yx")]  # and of one
    assert FWSVC(kernel=letters).fit(even, [0, 0, 1, 1]).predict([["x", "x"]]).tolist() == [1]
    with pytest.raises(ValueError, match="each of the 8 points; got 7"):
        FWSVC(kernel=letters).fit(words, kinds[:7])


def test_a_callable_kernel_takes_sparse_points() -> None:
    rng = np.random.default_rng(0)
    X = sparse.random(60, 20, 0.3, format="csr", random_state=0)
    y = (rng.normal(size=20) @ X.T > 0).astype(int)

    def product(a: Any, b: Any) -> Any:
        return a @ b.T  # sparse as well

    machine = FWSVC(kernel=product, tol=1e-8).fit(X, y)
    expected = FWSVC(kernel="linear", tol=1e-8).fit(X, y).decision_function(X)
    np.testing.assert_allclose(machine.decision_function(X), expected, atol=1e-3)
    assert (machine.predict(X) == SVC(kernel="linear").fit(X, y).predict(X)).mean() > 0.8


def test_one_class_of_graphs_raises_a_clear_error() -> None:
    with pytest.raises(ValueError, match="at least two classes"):
        FWSVC(kernel=WeisfeilerLehman()).fit(GRAPHS, np.zeros(len(GRAPHS), int))
    with pytest.raises(ValueError, match=r"graphs\[1\]: a Graph needs at least one node"):
        FWSVC(kernel=WeisfeilerLehman()).fit([GRAPHS[0], ([], [])], [0, 1])
