"""DeepSVC: that it trains, its results, and scikit-learn's conventions."""

import pickle

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits, make_blobs, make_circles
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import check_estimator
from torch import nn

import fwnet
from fwnet.estimators import FWSVC, DeepSVC

torch.set_num_threads(1)


def circles(seed: int, n: int = 1000) -> tuple[np.ndarray, np.ndarray]:
    X, y = make_circles(n, factor=0.2, noise=0.1, random_state=seed)
    return 2 * (X - X.min(0)) / (X.max(0) - X.min(0)) - 1, y


def kernel_net() -> nn.Sequential:
    net = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 2), nn.Tanh())
    for layer in (net[0], net[2]):
        nn.init.xavier_uniform_(layer.weight, gain=nn.init.calculate_gain("tanh"))
    return net


def convnet() -> nn.Sequential:
    layers: list[nn.Module] = []
    for before, after in ((1, 4), (4, 8), (8, 8)):
        layers += [nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU()]
        layers += [nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(8, 32), nn.BatchNorm1d(32), nn.ReLU())


def digits(classes: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    images, y = load_digits(n_class=classes, return_X_y=True)
    return (images[:n] / 16).astype(np.float32).reshape(-1, 1, 8, 8), y[:n]


def same(a: DeepSVC, b: DeepSVC) -> None:
    """Two fits that ended in the same classifier, to the last bit."""
    for x, y in zip(a.module_.parameters(), b.module_.parameters(), strict=True):
        torch.testing.assert_close(x, y, atol=0, rtol=0)
    np.testing.assert_array_equal(a.coef_, b.coef_)
    np.testing.assert_array_equal(a.support_, b.support_)
    assert [r[:4] for r in a.history_[1:]] == [r[:4] for r in b.history_[1:]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "updates", "target", "seeds"),
    [("exact", 100, 0.99, 2), ("forward", 500, 0.95, 1), ("unrolled", 60, 0.9, 2)],
)
def test_the_circles_are_separated(mode, updates, target, seeds):
    for seed in range(seeds):
        X, y = circles(seed, 2000)
        clf = DeepSVC(kernel_net, mode=mode, lr=0.05, max_iter=updates, random_state=seed)
        clf.fit(X[:1000], y[:1000])
        assert clf.score(X[1000:], y[1000:]) >= target
        assert clf.duality_gap_ <= 1e-9
        assert clf.n_iter_ == updates
        assert clf.stopped_ == "max_iter"


def test_the_head_is_the_svm_of_liblinear_on_the_features():
    X, y = circles(0)
    clf = DeepSVC(kernel_net, C=2.0, max_iter=20, random_state=0).fit(X, y)
    with torch.no_grad():
        features = clf.module_(torch.tensor(X, dtype=torch.float32)).double().numpy()
    peer = LinearSVC(C=1.0, tol=1e-9, max_iter=100_000, random_state=0).fit(features, y)
    np.testing.assert_allclose(clf.coef_, peer.coef_, atol=1e-5)
    np.testing.assert_allclose(clf.intercept_, peer.intercept_, atol=1e-5)
    np.testing.assert_allclose(
        clf.decision_function(X), peer.decision_function(features), atol=1e-4
    )
    # The same classifier from its support vectors only.
    kernel = features @ features[clf.support_].T + 1.0
    np.testing.assert_allclose(clf.decision_function(X), kernel @ clf.dual_coef_[0], atol=1e-6)
    assert clf.n_support_.sum() == len(clf.support_)
    assert bool((np.sign(clf.dual_coef_[0]) == 2 * y[clf.support_] - 1).all())


def test_the_best_round_is_kept():
    X, y = circles(1, 400)
    clf = DeepSVC(max_iter=40, random_state=0).fit(X, y)
    assert clf.score(X, y) >= 0.98
    losses = [record.loss for record in clf.history_]
    assert losses[0] <= 1 + 1e-9
    assert min(losses) < 0.2
    margins = (2 * y - 1) * clf.decision_function(X)
    weights = np.append(clf.coef_, clf.intercept_)
    found = (weights @ weights + (np.maximum(0, 1 - margins) ** 2).sum()) / len(y)
    assert found == pytest.approx(min(losses), rel=1e-5)  # features in float32


@pytest.mark.parametrize("mode", ["exact", "forward", "unrolled"])
def test_a_convolutional_network_with_batches_and_many_classes(mode):
    X, y = digits(4, 400)
    clf = DeepSVC(convnet, C=0.1, mode=mode, batch_size=64, max_iter=30, lr=0.01, random_state=0)
    clf.fit(torch.from_numpy(X), torch.from_numpy(y))
    assert clf.score(X, y) >= 0.97
    assert clf.decision_function(X).shape == (400, 4)
    assert clf.coef_.shape == (4, 32)
    assert [record.t for record in clf.history_] == [0, 6, 12, 18, 24, 30]
    assert not clf.module_.training
    with pytest.raises(ValueError, match=r"points of shape \(1, 8, 8\) as at fit; got \(1, 8, 4\)"):
        clf.predict(X[..., :4])


def test_fewer_points_than_features_and_two_points():
    X, y = make_blobs(20, centers=3, random_state=0)
    clf = DeepSVC(lambda: nn.Linear(2, 50), max_iter=10, random_state=0).fit(X, y)
    assert clf.score(X, y) == 1.0
    assert clf.duality_gap_ <= 1e-9
    assert DeepSVC(max_iter=5, random_state=0).fit([[0.0], [1.0]], [1, 0]).score([[0.0]], [1]) == 1


def test_a_solver_of_ones_own():
    X, y = circles(2, 400)
    solver = fwnet.Corrective(fwnet.Simplex())
    clf = DeepSVC(
        kernel_net, mode="forward", solver=solver, fw_steps=8, max_iter=40, lr=0.05, random_state=0
    ).fit(X, y)
    assert clf.score(X, y) >= 0.99
    assert solver.max_steps == 1000  # a copy was shortened
    default = DeepSVC(kernel_net, mode="forward", max_iter=40, lr=0.05, random_state=0).fit(X, y)
    assert clf.history_[1].gap < default.history_[1].gap  # more and better steps, closer


def test_the_module_stays_as_it_was_and_randomness_is_an_argument():
    X, y = circles(0, 200)
    net = nn.Sequential(nn.Linear(2, 8), nn.Dropout(0.3), nn.Tanh())
    before = net[0].weight.clone()
    state = torch.get_rng_state()
    first = DeepSVC(net, max_iter=10, batch_size=50, random_state=3).fit(X, y)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(net[0].weight, before)
    assert first.module is net
    same(first, DeepSVC(net, max_iter=10, batch_size=50, random_state=3).fit(X, y))
    other = DeepSVC(net, max_iter=10, batch_size=50, random_state=4).fit(X, y)
    assert not np.array_equal(first.coef_, other.coef_)
    again = pickle.loads(pickle.dumps(first))
    np.testing.assert_array_equal(again.decision_function(X), first.decision_function(X))
    copy = clone(first)
    assert not hasattr(copy, "module_")


def test_lazy_layers_double_precision_and_other_optimizers():
    X, y = circles(0, 200)
    lazy = nn.Sequential(nn.LazyLinear(4), nn.Tanh()).double()
    clf = DeepSVC(lazy, max_iter=30, optimizer=torch.optim.SGD, lr=0.5, random_state=0).fit(X, y)
    assert next(clf.module_.parameters()).dtype == torch.float64
    assert clf.history_[-1].loss < clf.history_[0].loss


def test_validation_and_patience():
    X, y = circles(0, 400)
    clf = DeepSVC(
        kernel_net, validation_fraction=0.25, patience=3, check_every=5, max_iter=2000, lr=0.05
    )
    clf.set_params(random_state=0).fit(X, y)
    assert clf.stopped_ == "patience"
    assert clf.n_iter_ < 2000
    scores = [record.validation_accuracy for record in clf.history_]
    assert max(scores[:-3]) == max(scores)
    assert len(clf.support_) <= 300


@pytest.mark.slow
def test_check_estimator():
    done = check_estimator(DeepSVC(max_iter=10), on_skip=None, on_fail=None)
    failed = {
        check["check_name"]: check["exception"] for check in done if check["status"] == "failed"
    }
    assert failed == {}


@pytest.mark.parametrize("mode", ["exact", "forward", "unrolled"])
def test_whole_weights_are_repeated_points(mode: str) -> None:
    X, y = make_circles(80, factor=0.3, noise=0.1, random_state=0)
    weight = np.random.default_rng(0).integers(0, 3, 80)
    clf = DeepSVC(C=2.0, mode=mode, fw_steps=None if mode == "exact" else 3, max_iter=5)
    clf.set_params(random_state=0)
    weighted = clone(clf).fit(X, y, sample_weight=weight)
    if mode == "exact":  # Frank-Wolfe steps on repeated points are other steps
        repeated = clone(clf).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
        expected = repeated.decision_function(X)
        np.testing.assert_allclose(weighted.decision_function(X), expected, atol=1e-7)
    features = weighted.module_(torch.tensor(X)).detach().numpy()
    inner = features @ features.T  # the head is the exact SVM of the weighted points
    peer = FWSVC(C=2.0, kernel="precomputed", tol=1e-10).fit(inner, y, sample_weight=weight)
    np.testing.assert_allclose(
        weighted.decision_function(X), peer.decision_function(inner), atol=1e-6
    )
    assert not np.isin(np.flatnonzero(weight == 0), weighted.support_).any()


def test_bad_sample_weights() -> None:
    X, y = make_circles(20, random_state=0)
    with pytest.raises(ValueError, match="sample_weight must be finite and at least 0"):
        DeepSVC().fit(X, y, sample_weight=-np.ones(20))
    with pytest.raises(ValueError, match="at least two classes; got one class, 1"):
        DeepSVC().fit(X, y, sample_weight=y)


def test_probabilities_are_calibrated() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1600, 2))
    truth = 1.0 / (1.0 + np.exp(-2.0 * X[:, 0]))
    y = rng.random(1600) < truth
    clf = DeepSVC(probability=True, max_iter=5, random_state=0).fit(X[:800], y[:800])
    p = clf.predict_proba(X[800:])
    np.testing.assert_allclose(p.sum(1), 1.0)
    assert np.abs(p[:, 1] - truth[800:]).mean() < 0.06
    with pytest.raises(AttributeError, match="predict_proba"):
        DeepSVC().fit(X[:50], y[:50]).predict_proba(X)
    X, y = load_digits(n_class=3, return_X_y=True)
    many = DeepSVC(probability=True, max_iter=5, random_state=0).fit(X, y)
    np.testing.assert_allclose(many.predict_proba(X).sum(1), 1.0)
    assert (many.predict_proba(X).argmax(1) == y).mean() > 0.95


def test_learned_updates_train_the_network() -> None:
    """As the torch optimizer that `learned.Optimizer` makes of them; they need no lr."""
    X, y = circles(0, 60)
    torch.manual_seed(0)
    updates = fwnet.learned.LSTMUpdates(hidden=3)
    options = {"max_iter": 3, "random_state": 0}
    one = DeepSVC(kernel_net, optimizer=updates, **options).fit(X, y)

    def build(parameters: list[torch.Tensor], lr: float) -> torch.optim.Optimizer:
        return fwnet.learned.Optimizer(parameters, updates)

    same(one, DeepSVC(kernel_net, optimizer=build, **options).fit(X, y))
