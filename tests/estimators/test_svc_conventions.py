"""FWSVC and scikit-learn's conventions: checks, shapes, sparse input, pickling, classes, starts."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, make_moons
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import brier_score_loss
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import check_estimator

import fwnet
from fwnet.estimators import FWSVC, FWSVR, FWOneClassSVM
from fwnet.estimators.svm import linear


@pytest.mark.parametrize(
    "parameters",
    [{}, {"kernel": "linear", "multi_class": "ovo"}],
)
@pytest.mark.filterwarnings("ignore")
def test_check_estimator(parameters: dict[str, str]) -> None:
    # "skipped" is a check that needs an environment variable of SciPy, not a failure.
    report = check_estimator(FWSVC(**parameters), on_fail=None, on_skip=None)
    wrong = [r["check_name"] for r in report if r["status"] not in ("passed", "skipped")]
    assert wrong == []


@pytest.mark.slow
def test_without_its_packages_the_extra_is_named() -> None:
    code = """
import sys
sys.modules["sklearn"] = None
try:
    from fwnet.estimators import FWSVC
except ImportError as error:
    print(error)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    text = 'fwnet.estimators needs sklearn. Install it with: pip install "fwnet[svm]"'
    assert run.stdout.strip() == text


@pytest.mark.slow
def test_only_kernel_machines_need_numba() -> None:
    code = """
import sys
sys.modules["numba"] = None
from sklearn.datasets import load_iris
from fwnet.estimators import FWSVC, DeepSVC, LowRankSoftmaxClassifier
X, y = load_iris(return_X_y=True)
for model in (
    FWSVC(kernel="linear", solver="newton"), DeepSVC(max_iter=1), LowRankSoftmaxClassifier(5.0)
):
    assert model.fit(X, y).score(X, y) > 0.6
FWSVC().fit(X, y)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    last = run.stderr.strip().splitlines()[-1]
    text = 'is machine code, which needs Numba. Install it with: pip install "fwnet[fast]"'
    assert last.startswith("ImportError: ")
    assert last.endswith(text)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("scheme", ["ovr", "ovo"])
def test_multiclass_equals_one_binary_fit_after_the_other(kernel: str, scheme: str) -> None:
    X, y = load_iris(return_X_y=True)
    X, y = np.repeat(X, 4, axis=0), np.repeat(y, 4)
    X = X + 0.05 * np.random.default_rng(0).normal(size=X.shape)
    wrap = OneVsRestClassifier if scheme == "ovr" else OneVsOneClassifier
    binary = FWSVC(kernel=kernel, gamma=0.5, tol=1e-9)
    model = FWSVC(kernel=kernel, gamma=0.5, tol=1e-9, multi_class=scheme).fit(X, y)
    peer = wrap(binary).fit(X, y)
    assert np.array_equal(model.predict(X), peer.predict(X))
    if scheme == "ovr":
        assert model.decision_function(X) == pytest.approx(peer.decision_function(X), abs=1e-3)
    assert model.dual_coef_.shape == (3, len(model.support_))
    assert model.duality_gap_ == max(model.duality_gaps_) <= 1e-9


def test_one_vs_one_pairs_match_fits_on_two_classes() -> None:
    X, y = load_digits(return_X_y=True)
    X, y = X[y < 4] / 16, y[y < 4]
    model = FWSVC(kernel="linear", multi_class="ovo", tol=1e-8).fit(X, y)
    for k, (i, j) in enumerate([(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]):
        pair = (y == i) | (y == j)
        single = FWSVC(kernel="linear", tol=1e-8).fit(X[pair], y[pair] == i)
        assert model.coef_[k] == pytest.approx(single.coef_[0], abs=1e-4)


@pytest.mark.parametrize("size", [0.5, "auto"])  # rows that come and go, or the whole matrix
@pytest.mark.parametrize("classes", [2, 10])
def test_threads_change_nothing(classes: int, size: float | str) -> None:
    X, y = load_digits(return_X_y=True)
    one, two, three = (
        FWSVC(gamma=0.001, cache_size=size, n_jobs=n).fit(X, y % classes) for n in (None, 2, 3)
    )
    assert two.decision_function(X) == pytest.approx(one.decision_function(X), abs=0.05)
    assert np.array_equal(two.dual_coef_, three.dual_coef_)
    assert two.duality_gap_ <= 1e-3


def test_threads_of_one_problem_change_nothing() -> None:
    X = np.random.default_rng(0).normal(
        size=(1200, 40)
    )  # several tiles, whose values are certified in float64
    for model in (FWSVR(epsilon=0.5), FWOneClassSVM(), FWSVC(kernel="poly", gamma=0.02)):
        alone, two, three, every = (
            clone(model).set_params(n_jobs=n).fit(X, X[:, 0] > 0) for n in (None, 2, 3, -1)
        )
        assert np.array_equal(two.dual_coef_, three.dual_coef_)
        assert two.predict(X) == pytest.approx(alone.predict(X), abs=0.01)
        assert max(two.duality_gap_, every.duality_gap_) <= 1e-3


def test_threads_stop_at_the_limit() -> None:
    X = np.random.default_rng(0).normal(size=(3000, 40))
    with pytest.warns(ConvergenceWarning, match="max_time"):
        model = FWSVC(max_time=1e-3, n_jobs=2).fit(X, X[:, 0] > 0)
    assert 0 < model.duality_gap_ < np.inf


def test_no_threads_is_no_number_of_threads() -> None:
    with pytest.raises(ValueError, match="n_jobs"):
        FWSVC(n_jobs=0).fit([[0.0], [1.0]], [0, 1])


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
@pytest.mark.parametrize("make", [sparse.csr_matrix, sparse.csr_array, sparse.coo_matrix])
def test_sparse_equals_dense(kernel: str, make: type) -> None:
    X, y = load_digits(return_X_y=True)
    X, y = X[:600] / 16, y[:600] % 2
    dense = FWSVC(kernel=kernel, tol=1e-8, gamma=0.1).fit(X, y)
    thin = FWSVC(kernel=kernel, tol=1e-8, gamma=0.1).fit(make(X), y)
    assert thin.decision_function(make(X)) == pytest.approx(dense.decision_function(X), abs=1e-3)
    assert sparse.issparse(thin.support_vectors_)


def test_wide_sparse_data_goes_to_liblinear_and_is_certified(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    X = sparse.random(2500, 4000, density=0.005, random_state=0, format="csr")
    y = np.asarray(X @ rng.normal(size=4000)) > 0
    model = FWSVC(kernel="linear").fit(X, y)
    assert model.solver_ == "liblinear"
    assert model.duality_gap_ <= 1e-3
    monkeypatch.setattr(linear, "_LIBLINEAR", 1)  # as where C is large: the dual takes over
    other = FWSVC(kernel="linear").fit(X, y)
    assert other.solver_ == "corrective"
    assert other.duality_gap_ <= 1e-3
    assert (other.predict(X) == model.predict(X)).mean() > 0.99


def test_a_warm_start_of_wide_data_takes_no_newton_steps() -> None:
    X = sparse.random(80, 6000, density=0.01, random_state=0, format="csr")
    model = FWSVC(kernel="linear", warm_start=True)
    for C in (1.0, 2.0):
        model.set_params(C=C).fit(X, np.arange(80) % 2)
        assert model.solver_ != "newton"  # a step would factorise a matrix of 6000 × 6000


def test_precomputed_equals_rbf() -> None:
    X, y = make_moons(700, noise=0.2, random_state=0)
    train, test = X[:600], X[600:]
    plain = FWSVC(gamma=1.0, tol=1e-8).fit(train, y[:600])
    model = FWSVC(kernel="precomputed", tol=1e-8).fit(rbf_kernel(train, gamma=1.0), y[:600])
    there = rbf_kernel(test, train, gamma=1.0)
    assert model.decision_function(there) == pytest.approx(plain.decision_function(test), abs=1e-3)
    scores = cross_val_score(FWSVC(kernel="precomputed"), rbf_kernel(X, gamma=1.0), y)
    assert scores.mean() > 0.9


def test_pickle_clone_grid_search_and_pipeline() -> None:
    X, y = make_moons(300, noise=0.2, random_state=0)
    names = np.array(["left", "right"])[y]
    model = FWSVC(probability=True).fit(X, names)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    assert set(again.predict(X)) == {"left", "right"}
    assert clone(model).get_params() == model.get_params()
    search = GridSearchCV(make_pipeline(StandardScaler(), FWSVC()), {"fwsvc__C": [0.1, 10.0]}, cv=3)
    assert search.fit(X, names).best_score_ > 0.9


def test_accuracy_is_that_of_libsvm() -> None:
    X, y = load_digits(return_X_y=True)
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    ours = cross_val_score(FWSVC(C=2.0, multi_class="ovo"), X, y, cv=folds).mean()
    # Another loss, so not the same answer; one standard error of 1797 trials at .987 is .0027.
    assert ours >= cross_val_score(SVC(), X, y, cv=folds).mean() - 0.0027


def test_probabilities_are_calibrated() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 2))
    truth = 1.0 / (1.0 + np.exp(-2.0 * X[:, 0]))
    y = rng.random(2000) < truth
    model = FWSVC(kernel="linear", probability=True).fit(X[:1000], y[:1000])
    p = model.predict_proba(X[1000:])
    assert p.sum(axis=1) == pytest.approx(np.ones(1000))
    assert np.abs(p[:, 1] - truth[1000:]).mean() < 0.05
    assert brier_score_loss(y[1000:], p[:, 1]) < 0.21
    many = FWSVC(probability=True).fit(*load_iris(return_X_y=True))
    assert many.predict_proba(load_iris().data).sum(axis=1) == pytest.approx(np.ones(150))


def test_predict_proba_says_what_it_needs() -> None:
    X, y = make_moons(50, random_state=0)
    with pytest.raises(AttributeError, match="predict_proba"):
        FWSVC().fit(X, y).predict_proba(X)
    with pytest.raises(NotFittedError):
        FWSVC(probability=True).predict_proba(X)


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_warm_start_needs_fewer_steps(kernel: str) -> None:
    X, y = make_moons(1500, noise=0.3, random_state=0)
    warm = FWSVC(C=1.0, kernel=kernel, warm_start=True).fit(X, y)
    cold = FWSVC(C=1.2, kernel=kernel).fit(X, y)
    warm.set_params(C=1.2).fit(X, y)
    assert warm.n_iter_ < cold.n_iter_
    assert warm.duality_gap_ <= 1e-3
    other = warm.fit(X[:900], 1 - y[:900])  # another size: a cold start, not an error
    assert other.score(X[:900], 1 - y[:900]) > 0.85


def test_trace_and_verbose(caplog: pytest.LogCaptureFixture) -> None:
    X, y = make_moons(900, noise=0.3, random_state=0)
    model = FWSVC(verbose=2).fit(X, y)
    assert isinstance(model.trace_, fwnet.Trace)
    gaps, values = model.trace_.column("gap"), model.trace_.column("value")
    assert gaps[-1] <= 1e-3 < gaps[0]
    assert (np.diff(values) < 0).all()
    beta = np.abs(model.dual_coef_).sum()  # D = ½Σβ at the best multiple of β
    assert values[-1] == pytest.approx(-0.5 * beta, rel=1e-4)
    assert caplog.text.count("FWSVC problem 0:") == len(model.trace_)
    assert list(model.trace_.to_pandas()) == ["t", "value", "gap", "step_size", "seconds"]
    assert model.trace_.plot("seconds").get_yscale() == "log"


def test_a_bar_shows_the_gap_on_its_way_to_tol(capsys: pytest.CaptureFixture[str]) -> None:
    X, y = make_moons(120, noise=0.3, random_state=0)
    for model in (
        FWSVC(),
        FWSVC(kernel="linear"),
        FWSVR(),
        FWSVR(kernel="linear"),
        FWOneClassSVM(),
    ):
        model.set_params(progress=True).fit(X, y)
        shown = capsys.readouterr().err
        assert "100/100" in shown, model
        gap = f"{model.duality_gap_:.1e}" if model.kernel == "rbf" else r"\S+"
        assert re.search(rf"gap {gap} \(target 1e-03\)", shown), model
    X, y = load_iris(return_X_y=True)
    FWSVC(progress=True, probability=True).fit(X, y)  # the fits of the cross-validation are silent
    assert "300/300" in capsys.readouterr().err


def test_the_trace_of_a_whole_kernel_matrix_has_a_record_for_each_digit_down_to_a_percent() -> None:
    X, y = make_moons(900, noise=0.3, random_state=0)
    gaps = FWSVC(solver="pairwise").fit(X, y).trace_.column("gap")
    assert len(gaps) >= 3
    assert (np.diff(gaps) < 0).all()


def test_the_trace_is_that_of_the_problem_with_the_largest_gap() -> None:
    model = FWSVC(kernel="linear").fit(*load_iris(return_X_y=True))
    assert len(model.traces_) == 3
    assert model.trace_[-1].gap == max(trace[-1].gap for trace in model.traces_)


def test_two_fits_agree_to_the_last_bit() -> None:
    X, y = make_moons(900, noise=0.3, random_state=0)
    first, second = FWSVC().fit(X, y), FWSVC().fit(X, y)
    assert np.array_equal(first.dual_coef_, second.dual_coef_)
