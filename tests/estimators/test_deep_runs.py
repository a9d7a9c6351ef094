"""DeepSVC's long runs: checkpoints, interruptions, budgets, bars; and bad input."""

import io
import re

import numpy as np
import pytest
import torch
from sklearn.datasets import make_blobs, make_circles
from sklearn.exceptions import ConvergenceWarning
from torch import nn

import fwnet
import scripts
from fwnet.estimators import DeepSVC
from fwnet.numerics.files import FileFormat, rebuilt

torch.set_num_threads(1)
SETTINGS = {"lr": 0.05, "batch_size": 50, "check_every": 6, "max_iter": 40, "random_state": 0}
SCRIPT = """
import os, sys, torch
from torch import nn
from sklearn.datasets import make_circles
from fwnet.estimators import DeepSVC
X, y = make_circles(200, factor=0.2, noise=0.1, random_state=0)
torch.manual_seed(1)
net = nn.Sequential(nn.Linear(2, 8), nn.Dropout(0.2), nn.Tanh(), nn.Linear(8, 2), nn.Tanh())
calls = [0]
def count(module, inputs, output):
    calls[0] += module.training
    if calls[0] == 22:
        os._exit(9)
net.register_forward_hook(count)
DeepSVC(net, checkpoint=sys.argv[1], **{settings}).fit(X, y)
"""


def points() -> tuple[np.ndarray, np.ndarray]:
    return make_circles(200, factor=0.2, noise=0.1, random_state=0)


class Stopping(nn.Module):
    """Raises at one of its calls in training, once."""

    def __init__(self, at: int, error: type[BaseException]) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.net = nn.Sequential(nn.Linear(2, 8), nn.Dropout(0.2), nn.Tanh(), nn.Linear(8, 2))
        self.at, self.error, self.calls = at, error, 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += self.training
        if self.training and self.calls == self.at:
            raise self.error
        return torch.tanh(self.net(x))

    def __repr__(self) -> str:
        return "Stopping"


def same(a: DeepSVC, b: DeepSVC) -> None:
    for x, y in zip(a.module_.parameters(), b.module_.parameters(), strict=True):
        assert torch.equal(x, y)
    np.testing.assert_array_equal(a.dual_coef_, b.dual_coef_)
    drop = len(a.history_[0]) - 1  # all but the seconds
    np.testing.assert_array_equal([r[:drop] for r in a.history_], [r[:drop] for r in b.history_])
    assert a.n_iter_ == b.n_iter_


@pytest.mark.parametrize("mode", ["exact", "forward", "unrolled"])
def test_a_broken_run_goes_on_to_the_same_result(mode, tmp_path):
    X, y = points()
    file = tmp_path / "fit.pt"
    settings = SETTINGS | {"mode": mode, "validation_fraction": 0.2, "fw_steps": 2}
    whole = DeepSVC(Stopping(-1, OSError), **settings).fit(X, y)
    with pytest.raises(ZeroDivisionError):
        DeepSVC(Stopping(22, ZeroDivisionError), checkpoint=file, **settings).fit(X, y)
    assert [p.name for p in tmp_path.iterdir()] == ["fit.pt"]
    resumed = DeepSVC(Stopping(-1, OSError), checkpoint=str(file), **settings).fit(X, y)
    same(whole, resumed)
    assert resumed.module_.calls == 40 - 18  # three rounds of six were kept
    again = DeepSVC(Stopping(-1, OSError), checkpoint=file, **settings).fit(X, y)
    same(whole, again)
    assert again.module_.calls == 0
    longer = DeepSVC(Stopping(-1, OSError), checkpoint=file, **settings | {"max_iter": 50})
    assert longer.fit(X, y).n_iter_ == 50


@pytest.mark.slow
def test_a_killed_process_goes_on(tmp_path):
    file = tmp_path / "fit.pt"
    script = tmp_path / "fit.py"
    script.write_text(SCRIPT.replace("{settings}", repr(SETTINGS)))
    killed = scripts.start([str(script), str(file)], tmp_path / "run")
    assert scripts.finish(killed) == 9
    facts, tensors = FileFormat("fwnet DeepSVC checkpoint", 1, "", "").read(file)
    assert rebuilt(facts["contents"], tensors)["t"] == 18
    X, y = points()
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(2, 8), nn.Dropout(0.2), nn.Tanh(), nn.Linear(8, 2), nn.Tanh())
    whole = DeepSVC(net, **SETTINGS).fit(X, y)
    same(whole, DeepSVC(net, checkpoint=file, **SETTINGS).fit(X, y))


def test_a_network_that_cannot_take_the_points_raise_clear_errors():
    X, y = np.random.default_rng(0).normal(size=(20, 5)), np.arange(20) % 2
    with pytest.raises(ValueError, match=r"must take points of shape \(5,\), as in X; it fails"):
        DeepSVC(nn.Linear(4, 2), max_iter=2).fit(X, y)
    fitted = DeepSVC(nn.Linear(5, 2), max_iter=2, check_every=1).fit(X, y)
    with pytest.raises(ValueError, match="X has 3 features, but DeepSVC is expecting 5"):
        fitted.predict(X[:, :3])


def test_bad_checkpoints_raise_clear_errors(tmp_path):
    with pytest.raises(TypeError, match=r"checkpoint=\.\.\.\) must be the path of a file.* got 3"):
        DeepSVC(checkpoint=3).fit(np.eye(4), [0, 1, 0, 1])
    X, y = points()
    file = tmp_path / "fit.pt"
    settings = SETTINGS | {"max_iter": 6}
    DeepSVC(checkpoint=file, **settings).fit(X, y)
    with pytest.raises(ValueError, match=r"belongs to another fit: C was 1\.0 there and is 2\.0"):
        DeepSVC(C=2.0, checkpoint=file, **settings).fit(X, y)
    with pytest.raises(ValueError, match="belongs to another fit: X was"):
        DeepSVC(checkpoint=file, **settings).fit(X + 1, y)
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.raises(
        ValueError, match=r"not a whole checkpoint of DeepSVC: .* Delete it to start"
    ):
        DeepSVC(checkpoint=file, **settings).fit(X, y)
    file.write_bytes(b"")
    with pytest.raises(ValueError, match="is not a whole checkpoint of DeepSVC"):
        DeepSVC(checkpoint=file, **settings).fit(X, y)
    torch.save({"weights": torch.ones(2)}, file)
    with pytest.raises(ValueError, match="is not a whole checkpoint of DeepSVC"):
        DeepSVC(checkpoint=file, **settings).fit(X, y)
    torch.save(io.BytesIO, file)  # a file that would run code is not read
    with pytest.raises(ValueError, match="is not a whole checkpoint of DeepSVC"):
        DeepSVC(checkpoint=file, **settings).fit(X, y)
    with pytest.raises(
        OSError, match=r"cannot be written: .* Choose a path in a folder that exists"
    ):
        DeepSVC(checkpoint=tmp_path / "none" / "fit.pt", **settings).fit(X, y)


def test_an_interrupt_keeps_the_best_so_far():
    X, y = points()
    clf = DeepSVC(Stopping(20, KeyboardInterrupt), **SETTINGS).fit(X, y)
    assert clf.stopped_ == "interrupted"
    assert clf.n_iter_ == 19
    short = DeepSVC(Stopping(-1, OSError), **SETTINGS | {"max_iter": 18}).fit(X, y)
    np.testing.assert_array_equal(clf.coef_, short.coef_)


def test_budgets_of_time_and_numbers_that_explode():
    X, y = points()
    clf = DeepSVC(max_iter=10**6, max_time=0.3, random_state=0).fit(X, y)
    assert clf.stopped_ == "max_time"
    assert clf.history_[-1].seconds < 3
    exploding = DeepSVC(
        lambda: nn.Linear(2, 3), optimizer=torch.optim.SGD, lr=1e38, max_iter=50, random_state=0
    )
    with pytest.warns(ConvergenceWarning, match=r"became infinite.*Lower lr, or scale X"):
        exploding.fit(X, y)
    assert exploding.stopped_ == "non_finite"
    assert np.isfinite(exploding.decision_function(X)).all()
    broken = nn.Linear(2, 3)
    nn.init.constant_(broken.bias, torch.nan)
    with pytest.raises(FloatingPointError, match=r"infinite or NaN features. Scale X"):
        DeepSVC(broken).fit(X, y)
    with (
        pytest.warns(ConvergenceWarning, match="too large to solve"),
        pytest.warns(ConvergenceWarning, match=r"gap of \S+ only, above 1e-06. The features are"),
    ):
        DeepSVC(lambda: nn.Linear(2, 3), max_iter=2, random_state=0).fit(1e30 * np.sign(X), y)


def test_what_is_shown(capsys, caplog):
    X, y = points()
    DeepSVC(max_iter=20, verbose=1, validation_fraction=0.2, random_state=0).fit(X, y)
    rows = caplog.messages
    assert len(rows) == 3
    form = r"DeepSVC update 20: loss 0\.\d+, gap \S+, accuracy \S+, validation \S+, \d+\.\d\d s"
    assert re.fullmatch(form, rows[-1])
    DeepSVC(max_iter=20, progress=True, random_state=0).fit(X, y)
    shown = capsys.readouterr().err
    assert "20/20" in shown
    assert "accuracy" in shown


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"C": -1.0}, r"DeepSVC\(C=...\) must be a positive finite number; got -1.0"),
        ({"lr": 0.0}, r"DeepSVC\(lr=...\) must be a positive"),
        ({"mode": "dual"}, "mode=...\\) must be one of 'exact', 'forward', 'unrolled'; got 'dual'"),
        ({"max_iter": 0}, r"DeepSVC\(max_iter=...\) must be a whole number of at least 1; got 0"),
        ({"batch_size": 1}, r"DeepSVC\(batch_size=...\) must be a whole number of at least 2"),
        ({"validation_fraction": 1.0}, "must be at least 0 and below 1; got 1.0"),
        ({"validation_fraction": 0.999}, "must leave a point of each class on both sides"),
        ({"solver": fwnet.Corrective(fwnet.Simplex())}, 'is for mode="forward"'),
        ({"module": nn.Flatten()}, "must have parameters to train; got Flatten"),
        ({"module": lambda: nn.Unflatten(1, (1, 2))}, "must have parameters to train"),
        ({"module": nn.Conv1d(2, 2, 1)}, r"must map 2 points to features of shape \(2, d\)"),
    ],
)
def test_bad_parameters_raise_clear_errors(settings, message):
    X, y = points()
    if isinstance(settings.get("module"), nn.Conv1d):
        X = X[:, :, None]
    with pytest.raises(ValueError, match=message):
        DeepSVC(**settings).fit(X, y)


def test_bad_types_raise_clear_errors():
    X, y = points()
    with pytest.raises(TypeError, match=r"DeepSVC\(module=...\) must be a torch.nn.Module"):
        DeepSVC(module=3).fit(X, y)
    with pytest.raises(TypeError, match=r"DeepSVC\(solver=...\) must be a FrankWolfe"):
        DeepSVC(mode="forward", solver="pairwise").fit(X, y)
    with pytest.raises(TypeError, match=r"must be a FrankWolfe over Simplex\(\); got FrankWolfe"):
        DeepSVC(mode="forward", solver=fwnet.FrankWolfe(fwnet.L1Ball())).fit(X, y)
    with pytest.raises(TypeError, match=r"must be a function of parameters and lr=.*; got 'adam'"):
        DeepSVC(optimizer="adam").fit(X, y)
    with pytest.raises(TypeError, match=r"must build a torch.optim.Optimizer"):
        DeepSVC(optimizer=lambda p, lr: None).fit(X, y)


def test_bad_points_raise_clear_errors():
    X, y = points()
    with pytest.raises(ValueError, match="at least two classes; got one class, 0"):
        DeepSVC().fit(X, 0 * y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        DeepSVC().fit(X, y[:-1])
    bad = X.copy()
    bad[3, 1] = np.nan
    with pytest.raises(ValueError, match="contains NaN"):
        DeepSVC().fit(bad, y)
    with pytest.raises(ValueError, match=r"builds a network for points \(n, d\); got X of shape"):
        DeepSVC().fit(X[:, :, None], y)


def test_duplicated_contradictory_and_constant_points():
    X, y = make_blobs(30, centers=2, random_state=0)
    twice = DeepSVC(max_iter=5, random_state=0).fit(np.r_[X, X], np.r_[y, 1 - y])
    assert twice.duality_gap_ <= 1e-9
    assert np.abs(twice.decision_function(X)).max() < 0.2  # nothing can be known
    X[:, 1] = 7.0
    assert DeepSVC(max_iter=5, random_state=0).fit(X, y).duality_gap_ <= 1e-9
