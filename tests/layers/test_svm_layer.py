"""SVMLayer against scikit-learn's liblinear, its own optimality and finite differences."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.svm import LinearSVC
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from fwnet.layers.svm_layer import SVMLayer


def episodes(n: int, d: int, ways: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    g = torch.Generator().manual_seed(seed)
    y = torch.arange(n).remainder(ways).repeat(2, 1)
    x = torch.randn(2, n, d, generator=g, dtype=torch.float64)
    x[..., 0] += y
    return x, y, torch.randn(2, 5, d, generator=g, dtype=torch.float64)


@pytest.mark.parametrize("C", [0.5, 20.0])
@pytest.mark.parametrize(("n", "d"), [(40, 3), (12, 9)])
def test_scores_of_liblinear(n: int, d: int, C: float) -> None:
    x, y, queries = episodes(n, d, 3)
    scores = SVMLayer(C)(x, y, queries)
    assert scores.shape == (2, 5, 3)
    for b in range(2):
        peer = LinearSVC(C=C / 2, tol=1e-12, max_iter=10000, dual=False)
        peer.fit(x[b].numpy(), y[b].numpy())
        expected = peer.decision_function(queries[b].numpy())
        assert np.abs(scores[b].numpy() - expected).max() < 1e-6


def test_binary_labels_and_no_bias() -> None:
    x, y, queries = episodes(14, 3, 2)
    scores = SVMLayer(3.0, bias=False)(x, 2 * y - 1, queries)
    assert scores.shape == (2, 5)
    peer = LinearSVC(C=1.5, tol=1e-12, max_iter=10000, dual=False, fit_intercept=False)
    expected = peer.fit(x[0].numpy(), y[0].numpy()).decision_function(queries[0].numpy())
    assert np.abs(scores[0].numpy() - expected).max() < 1e-6
    both = SVMLayer(3.0, bias=False)(x, y, queries)
    assert torch.allclose(both[..., 1], scores)
    assert torch.allclose(both[..., 0], -scores)
    assert torch.equal(SVMLayer(3.0, bias=False)(x, (2 * y - 1).double(), queries), scores)


def test_rbf_satisfies_the_optimality_of_the_squared_hinge() -> None:
    """f = Σ β_i y_i (k + 1) with β_i = C max(0, 1 − y_i f(x_i)): score the support itself."""
    x, y, queries = episodes(20, 3, 2)
    C, gamma = 5.0, 0.4
    layer = SVMLayer(C, kernel="rbf", gamma=gamma)
    signs = (2 * y - 1).double()
    beta = C * (1 - signs * layer(x, 2 * y - 1, x)).clamp_min(0)
    kernel = torch.exp(-gamma * torch.cdist(queries, x).square()) + 1
    expected = (kernel @ (beta * signs).unsqueeze(-1)).squeeze(-1)
    assert torch.allclose(layer(x, 2 * y - 1, queries), expected, atol=1e-10)
    default = SVMLayer(C, kernel="rbf")(x, y, queries)
    assert torch.equal(default, SVMLayer(C, kernel="rbf", gamma=1 / 3)(x, y, queries))


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize(("n", "d"), [(9, 2), (6, 4)])
def test_derivatives(kernel: str, n: int, d: int) -> None:
    x, y, queries = episodes(n, d, 3)
    inputs = (x.requires_grad_(), queries[:, :2].clone().requires_grad_())

    def score(x: Tensor, queries: Tensor) -> Tensor:
        return SVMLayer(2.0, kernel=kernel)(x, y, queries)

    assert gradcheck(score, inputs)
    assert gradgradcheck(score, inputs)


def test_contradictory_and_repeated_points() -> None:
    """The same point with both labels: score 0 by symmetry, finite gradients."""
    x = torch.ones(1, 4, 2, dtype=torch.float64, requires_grad=True)
    y = torch.tensor([[-1, 1, -1, 1]])
    scores = SVMLayer()(x, y, torch.ones(1, 1, 2, dtype=torch.float64))
    assert scores.abs().max() < 1e-12
    scores.sum().backward()
    assert bool(x.grad.isfinite().all())


def test_trains_in_float32() -> None:
    x, y, queries = (v.float() if v.is_floating_point() else v for v in episodes(15, 4, 3))
    net = torch.nn.Linear(4, 2)
    SVMLayer()(net(x), y, net(queries)).square().sum().backward()
    assert bool(net.weight.grad.isfinite().all())
    assert net.weight.grad.abs().max() > 0


def test_bad_input_raises_a_clear_error() -> None:
    x, y, queries = episodes(6, 2, 2)
    layer = SVMLayer()
    with pytest.raises(ValueError, match="problem 1 has no point of class 0"):
        layer(x, torch.stack((y[0], torch.ones_like(y[0]))), queries)
    with pytest.raises(ValueError, match="problem 0 has no point of class 1"):
        layer(x, torch.zeros_like(y), queries)
    with pytest.raises(ValueError, match="problem 0 has no point of class 1"):
        layer(x, -torch.ones_like(y), queries)
    with pytest.raises(ValueError, match=r"−1 and 1, or 0, .*from -2 to 1"):
        layer(x, torch.where(y == 0, -2, y), queries)
    with pytest.raises(ValueError, match="must be whole numbers"):
        layer(x, y + 0.5, queries)
    with pytest.raises(ValueError, match="go up to 900, but a problem has only 6 points"):
        layer(x, 900 * y, queries)
    with pytest.raises(ValueError, match=r"support_labels must have shape \(2, 6\).*got \(2, 5\)"):
        layer(x, y[:, :5], queries)
    with pytest.raises(TypeError, match=r"support_labels must be a torch\.Tensor; got list"):
        layer(x, y.tolist(), queries)
    with pytest.raises(ValueError, match=r"support_features must have shape \(batch, points, d\)"):
        layer(x[0], y[0], queries)
    with pytest.raises(ValueError, match="query_features must be finite"):
        layer(x, y, queries * torch.nan)
    with pytest.raises(TypeError, match="query_features must be float32 or float64"):
        layer(x, y, queries.long())
    with pytest.raises(TypeError, match="must share a dtype"):
        layer(x, y, queries.float())
    with pytest.raises(ValueError, match="must have the batch and the d of support_features"):
        layer(x, y, queries[..., :1])
    with pytest.raises(ValueError, match="support_features must not be empty"):
        layer(x[:, :0], y[:, :0], queries)
    with pytest.raises(ValueError, match=r"SVMLayer\(C=\.\.\.\) must be a positive finite number"):
        SVMLayer(-1.0)
    with pytest.raises(ValueError, match='must be "linear" or "rbf"; got \'poly\''):
        SVMLayer(kernel="poly")
