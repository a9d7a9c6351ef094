"""One process: the optimum, the certificate, the ball, the files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from scipy import sparse

from distributed.cases import folder, rows
from fwnet.distributed import FitConfig, Report, load_model
from fwnet.estimators import LowRankSoftmaxClassifier
from fwnet.estimators.low_rank.distributed.fit import fit


def loss(X: np.ndarray, y: np.ndarray, W: np.ndarray) -> float:
    """Mean of log Σ exp z − z_y."""
    z = X @ W
    top = z.max(1, keepdims=True)
    norm = top[:, 0] + np.log(np.exp(z - top).sum(1))
    return float((norm - z[np.arange(len(y)), y]).mean())


def projected(W: np.ndarray, radius: float) -> np.ndarray:
    """The nearest matrix whose singular values sum to at most `radius`."""
    u, s, vh = np.linalg.svd(W, full_matrices=False)
    if s.sum() <= radius:
        return W
    sums = np.cumsum(s) - radius
    count = int((s > sums / np.arange(1, len(s) + 1)).sum())
    return (u * np.clip(s - sums[count - 1] / count, 0, None)) @ vh


def reference(X: np.ndarray, y: np.ndarray, classes: int, radius: float) -> float:
    """The smallest loss on the ball: projected gradients with momentum, on dense matrices."""
    n = len(y)
    smoothness = np.linalg.norm(X, 2) ** 2 / (2 * n)
    W = V = np.zeros((X.shape[1], classes))
    momentum = 1.0
    for _ in range(1000):
        z = X @ V
        P = np.exp(z - z.max(1, keepdims=True))
        P /= P.sum(1, keepdims=True)
        P[np.arange(n), y] -= 1.0
        ahead = projected(V - X.T @ P / n / smoothness, radius)
        following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        V = ahead + (momentum - 1) / following * (ahead - W)
        W, momentum = ahead, following
    return loss(X, y, W)


@pytest.mark.parametrize(("shape", "radius"), [((300, 8, 5), 6.0), ((200, 25, 20), 10.0)])
def test_the_gap_is_a_certificate_and_the_loss_near_the_optimum(
    shape: tuple[int, int, int], radius: float, tmp_path: Path
) -> None:
    X, y = rows(*shape)
    best = reference(X, y, shape[2], radius)
    config = FitConfig(shape[2], radius, max_steps=300, tol=0.03, block=64)
    reports: list[Report] = []
    model = fit(folder(tmp_path, *shape), tmp_path / "m", config, on_report=reports.append)
    W = ((model.U * model.s) @ model.V.mT).numpy()
    assert model.value == pytest.approx(loss(X, y, W), abs=1e-9)
    assert best - 1e-9 <= model.value <= best + model.gap
    assert model.gap <= 0.03 * model.value
    for report in reports:  # true at every pause, not only at the end
        assert report.value - report.gap <= best + 1e-9
    assert np.linalg.svd(W, compute_uv=False).sum() <= radius * (1 + 1e-9)


def test_the_gap_is_that_of_the_dense_gradient(tmp_path: Path) -> None:
    X, y = rows(200, 25, 20)
    model = fit(folder(tmp_path, 200, 25, 20), tmp_path / "m", FitConfig(20, 10.0, max_steps=20))
    W = ((model.U * model.s) @ model.V.mT).numpy()
    P = np.exp(X @ W)
    P /= P.sum(1, keepdims=True)
    P[np.arange(len(y)), y] -= 1.0
    gradient = X.T @ P / len(y)
    gap = (gradient * W).sum() + 10.0 * np.linalg.norm(gradient, 2)
    assert model.gap == pytest.approx(gap, rel=1e-8)


def test_float32_shards_stay_in_the_ball(tmp_path: Path) -> None:
    config = FitConfig(20, 10.0, max_steps=40, checkpoint_every=20)
    model = fit(folder(tmp_path, 200, 25, 20, np.float32), tmp_path / "m", config)
    assert model.U.dtype == torch.float32
    W = (model.U.double() * model.s) @ model.V.double().mT
    assert float(torch.linalg.svdvals(W).sum()) <= 10.0 * (1 + 1e-6)


def test_a_saved_model_predicts(tmp_path: Path) -> None:
    X, _ = rows(300, 8, 5)
    made = fit(folder(tmp_path, 300, 8, 5), tmp_path / "m", FitConfig(5, 20.0, max_steps=20))
    model = load_model(tmp_path / "m")
    W = ((made.U * made.s) @ made.V.mT).numpy()
    assert (model.predict(torch.from_numpy(X)).numpy() == (X @ W).argmax(1)).all()
    assert torch.equal(model.predict(X), model.predict(torch.from_numpy(X)))  # NumPy's rows too
    assert (model.gap, model.steps, model.classes) == (made.gap, made.steps, 5)
    notes = json.loads((tmp_path / "m" / "model.json").read_text())
    assert notes["gap"] == model.gap
    assert notes["config"]["radius"] == 20.0
    with safe_open(tmp_path / "m" / "model.safetensors", "pt") as file:  # as another program would
        assert set(file.keys()) == {"U", "s", "V"}
        assert json.loads(file.metadata()["LowRankModel"])["config"]["radius"] == 20.0
    torch.testing.assert_close(model.scores(sparse.csc_matrix(X)), model.scores(X))
    with pytest.raises(ValueError, match=r"X must be \(n, 8\) for this model; got \(3, 7\)\."):
        model.predict(torch.zeros(3, 7))


@pytest.mark.parametrize("fault", ["cut off", "one bit"])
def test_a_damaged_model_file_is_refused(tmp_path: Path, fault: str) -> None:
    model = fit(folder(tmp_path, 100, 5, 3), tmp_path / "m", FitConfig(3, 5.0, max_steps=2))
    path = tmp_path / "m" / "model.safetensors"
    bytes_ = bytearray(path.read_bytes())
    bytes_[bytes_.index(model.V.numpy().tobytes())] ^= 1
    path.write_bytes(bytes_[:300] if fault == "cut off" else bytes_)
    with pytest.raises(
        ValueError, match=r"model\.safetensors' is not a whole model of a distributed fit: it"
    ):
        load_model(tmp_path / "m")


def test_models_of_other_kinds_are_distinguished(tmp_path: Path) -> None:
    X, y = rows(100, 5, 3)
    fit(folder(tmp_path, 100, 5, 3), tmp_path / "m", FitConfig(3, 5.0, max_steps=2))
    with pytest.raises(ValueError, match="holds a LowRankModel, not a fitted model"):
        LowRankSoftmaxClassifier.load(tmp_path / "m" / "model.safetensors")
    LowRankSoftmaxClassifier(radius=5.0).fit(X, y).save(tmp_path / "m" / "model.safetensors")
    with pytest.raises(ValueError, match="holds a fwnet_model, not a model of a d"):
        load_model(tmp_path / "m")
    with pytest.raises(FileNotFoundError, match=r"nowhere/model\.safetensors' does not exist\."):
        load_model(tmp_path / "nowhere")


def test_a_line_search_on_a_sample_still_descends(tmp_path: Path) -> None:
    """Every tenth row: the value of the certificate is that of all rows."""
    reports: list[Report] = []
    config = FitConfig(3, 10.0, max_steps=60, checkpoint_every=20, search_rows=60, tol=0.0)
    fit(folder(tmp_path, 600, 6, 3), tmp_path / "m", config, on_report=reports.append)
    X, y = rows(600, 6, 3)
    best = reference(X, y, 3, 10.0)
    assert reports[0].value == pytest.approx(np.log(3))
    assert reports[-1].value - best < 0.2 * (reports[0].value - best)
