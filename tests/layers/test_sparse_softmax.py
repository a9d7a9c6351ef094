"""NeuralSparseSoftmax: the paper's step in closed form, gradients by finite differences."""

from __future__ import annotations

import io
import itertools

import pytest
import torch
from torch import Tensor, nn

import fwnet
from fwnet import learned
from fwnet.layers import NeuralSparseSoftmax

F64 = torch.float64


def batch(n: int = 30, d: int = 6, m: int = 4, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn(n, d, generator=generator, dtype=F64)
    return X, torch.randint(0, m, (n,), generator=generator)


def layer(**options: object) -> NeuralSparseSoftmax:
    options = {"radius": 5.0, "step_size": 0.2, "oracle": fwnet.PowerIteration(300)} | options
    return NeuralSparseSoftmax(6, 4, **options).double()


def step(W: Tensor, X: Tensor, y: Tensor) -> Tensor:
    """The paper's update with a full SVD."""
    P = torch.softmax(X @ W, 1) - nn.functional.one_hot(y, 4)
    u, _, vh = torch.linalg.svd(X.T @ P / len(X))
    return 0.8 * W - 0.2 * 5.0 * torch.outer(u[:, 0], vh[0])


@pytest.mark.parametrize("cells", [1, 3])
def test_the_update_of_the_paper(cells: int) -> None:
    sparse = layer(cells=cells)
    W = torch.zeros(6, 4, dtype=F64)
    for seed in range(4):
        X, y = batch(seed=seed)
        loss = sparse.loss(X, y)
        for _ in range(cells):
            W = step(W, X, y)
        torch.testing.assert_close(sparse.weight, W, rtol=0, atol=1e-8)
        logits = X @ W
        expected = (torch.logsumexp(logits, 1) - logits[torch.arange(30), y]).mean()
        assert float(loss) == pytest.approx(float(expected), abs=1e-8)
        torch.testing.assert_close(sparse(X), logits, rtol=0, atol=1e-7)


def test_the_weights_stay_in_the_ball_and_have_low_rank() -> None:
    sparse = NeuralSparseSoftmax(6, 4, radius=3.0, step_size=0.5)
    for t in range(1, 60):
        X, y = batch(seed=t)
        sparse.loss(X.float(), y)
        s = torch.linalg.svdvals(sparse.weight.double())
        assert float(s.sum()) <= 3.0 * (1 + 1e-6)
        assert int((s > 1e-5).sum()) <= t


def value_and_layer(features: Tensor, y: Tensor, unrolled: bool) -> tuple[Tensor, Tensor]:
    """The loss, and the weights after it, from a start that is not 0."""
    sparse = layer(unrolled=unrolled, oracle=fwnet.PowerIteration(3), cells=2)
    generator = torch.Generator().manual_seed(1)
    sparse.weight = torch.randn(6, 4, generator=generator, dtype=F64) / 10
    return sparse.loss(features, y), sparse.weight


def test_the_gradient_of_the_features_at_fixed_weights() -> None:
    X, y = batch()
    leaf = X.clone().requires_grad_()
    loss, W = value_and_layer(leaf, y, unrolled=False)
    loss.backward()
    errors = torch.softmax(X @ W, 1) - nn.functional.one_hot(y, 4)
    torch.testing.assert_close(leaf.grad, errors @ W.T / 30, rtol=0, atol=1e-12)


def test_the_gradient_of_the_features_through_the_steps() -> None:
    X, y = batch()
    leaf = X.clone().requires_grad_()
    value_and_layer(leaf, y, unrolled=True)[0].backward()
    for i, j in ((0, 0), (7, 3), (29, 5)):
        shift = torch.zeros_like(X)
        shift[i, j] = 1e-6
        right, left = (value_and_layer(X + sign * shift, y, True)[0] for sign in (1, -1))
        assert float(leaf.grad[i, j]) == pytest.approx(
            float(right - left) / 2e-6, rel=1e-5, abs=1e-9
        )


def test_a_network_below_is_trained_with_it() -> None:
    """Classes that no linear layer separates: the quadrants of the plane, by sign products."""
    torch.manual_seed(0)
    X = torch.randn(400, 2)
    y = (X[:, 0] * X[:, 1] > 0).long()
    net = nn.Sequential(nn.Linear(2, 16), nn.Tanh())
    head = NeuralSparseSoftmax(16, 2, radius=20.0, step_size=0.02)
    opt = torch.optim.Adam(net.parameters(), lr=0.02)
    for _ in range(200):
        opt.zero_grad()
        head.loss(net(X), y).backward()
        opt.step()
    assert float((head(net(X)).argmax(1) == y).float().mean()) >= 0.97
    file = io.BytesIO()
    torch.save(head.state_dict(), file)
    file.seek(0)
    again = NeuralSparseSoftmax(16, 2)
    again.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(again.weight, head.weight)


def test_what_the_slots_remember_is_carried_and_saved() -> None:
    """Two minibatches, a file, two more: the same weights as four in a row."""
    batches = [batch(seed=seed, n=20 + seed) for seed in range(4)]
    for options in (
        {"oracle": fwnet.PowerIteration(1)},
        {"oracle": fwnet.PowerIteration(1, start="random")},
        {"oracle": fwnet.PowerIteration(lambda t: 1 + t, start="fixed"), "rule": fwnet.OpenLoop()},
        {"oracle": learned.LSTMPowerIteration(hidden=3, layers=1, steps=2).double()},
        {"oracle": learned.LearnedPowerIteration(2).double()},
        {"rule": learned.LSTMStep(hidden=3, layers=1).double(), "bias": True},
        {"rule": fwnet.Monotonic()},
        {"oracle": fwnet.Stochastic(7)},
    ):
        whole, half, again = (layer(cells=2, **options) for _ in range(3))
        for X, y in batches:
            whole.loss(X, y)
        for X, y in batches[:2]:
            half.loss(X, y)
        file = io.BytesIO()
        torch.save(half.state_dict(), file)
        file.seek(0)
        again.load_state_dict(torch.load(file, weights_only=True))
        forgetful = layer(cells=2, **options)
        forgetful.weight = half.weight
        for X, y in batches[2:]:
            again.loss(X, y)
            forgetful.loss(X, y)
        assert torch.equal(again.weight, whole.weight)
        assert not torch.equal(forgetful.weight, whole.weight)


@pytest.mark.parametrize("options", [{"rule": fwnet.Monotonic()}, {"oracle": fwnet.Stochastic(7)}])
def test_what_is_remembered_carries_no_graph(options: dict[str, object]) -> None:
    """Unrolled steps of one minibatch after the other, each with its own backward pass."""
    sparse = layer(unrolled=True, cells=2, **options)
    for seed in range(3):
        X, y = batch(seed=seed)
        X.requires_grad_()
        sparse.loss(X, y).backward()
        assert X.grad is not None


def test_an_oracle_that_remembers_vertices_is_refused() -> None:
    with pytest.raises(TypeError, match="must be tensors and numbers in tuples; got a LazyState"):
        layer(oracle=fwnet.Lazy()).loss(*batch())


def test_the_last_v_is_where_the_next_minibatch_begins() -> None:
    """One power iteration a minibatch is as good as many in one: the v is carried."""
    X, y = batch()
    sparse = layer(oracle=fwnet.PowerIteration(1), step_size=1e-9)
    for _ in range(300):
        sparse.loss(X, y)
    expected = step(torch.zeros(6, 4, dtype=F64), X, y)  # W is still 0 up to 1e-9
    before = sparse.weight
    sparse.loss(X, y)
    vertex = (sparse.weight - (1 - 1e-9) * before) / 1e-9
    torch.testing.assert_close(vertex, expected / 0.2, rtol=0, atol=1e-5)


def test_starts_and_a_bias() -> None:
    normal = layer(start="normal", generator=torch.Generator().manual_seed(3))
    drawn = torch.randn(6, 4, generator=torch.Generator().manual_seed(3))
    assert torch.equal(normal.weight, drawn.double())
    X, y = batch()
    far = [float(torch.linalg.svdvals(normal.weight).sum())]
    for _ in range(5):
        normal.loss(X, y)
        far.append(float(torch.linalg.svdvals(normal.weight).sum()))
    assert far[0] > 5.0  # outside of the ball
    assert all(b - 5.0 <= 0.8 * max(a - 5.0, 0.0) + 1e-9 for a, b in itertools.pairwise(far))
    own = layer(start=torch.full((7, 4), 0.1, dtype=F64), bias=True)
    ones = torch.cat([X, torch.ones(30, 1, dtype=F64)], 1)
    torch.testing.assert_close(own(X), ones @ own.weight)
    wide = NeuralSparseSoftmax(
        7,
        4,
        radius=5.0,
        step_size=0.2,
        oracle=fwnet.PowerIteration(300),
        start=torch.full((7, 4), 0.1, dtype=F64),
    )
    assert float(own.loss(X, y)) == pytest.approx(float(wide.loss(ones, y)))
    assert torch.equal(own.weight, wide.weight)
    for wrong in ("ones", torch.zeros(6, 4)):
        with pytest.raises(
            ValueError, match=r'must be "zeros", "normal" or a tensor \(7, 4\); got'
        ):
            NeuralSparseSoftmax(6, 4, start=wrong, bias=True)


def test_in_eval_the_loss_only_measures() -> None:
    X, y = batch()
    sparse = layer(step_size=0.5)
    sparse.loss(X, y)
    before = sparse.weight.clone()
    measured = sparse.eval().loss(X, y.int())
    assert torch.equal(sparse.weight, before)
    torch.testing.assert_close(measured, nn.functional.cross_entropy(X @ before, y))
    sparse.train().loss(X, y)
    assert not torch.equal(sparse.weight, before)


def test_autocast_below_it() -> None:
    X, y = batch()
    torch.manual_seed(0)
    net, sparse = nn.Linear(6, 6), NeuralSparseSoftmax(6, 4, radius=5.0, step_size=0.1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        features = net(X.float())
        loss = sparse.loss(features, y)
    loss.backward()
    assert features.dtype == torch.bfloat16
    assert sparse.weight.dtype == loss.dtype == torch.float32
    scores = features.detach().float() @ sparse.weight
    torch.testing.assert_close(loss.detach(), nn.functional.cross_entropy(scores, y))
    assert bool(net.weight.grad.any())


def test_bad_input_raises_a_clear_error() -> None:
    X, y = batch()
    with pytest.raises(ValueError, match=r"X must be a tensor of features \(n, 6\); got \(30, 5\)"):
        layer().loss(X[:, :5], y)
    for wrong in ([[1.0] * 6], torch.ones(30, 5)):
        with pytest.raises(ValueError, match=r"X must be a tensor of features \(n, 6\); got"):
            layer()(wrong)
    with pytest.raises(ValueError, match=r"SoftmaxRegression\(y\) must lie in 0..3; got 0..7"):
        layer().loss(X, y + 4 * (y == 3))
    with pytest.raises(ValueError, match=r"TraceNormBall\(radius=...\) must be a positive"):
        NeuralSparseSoftmax(6, 4, radius=0.0)
    with pytest.raises(ValueError, match=r"NeuralSparseSoftmax\(cells=...\) must be a whole"):
        NeuralSparseSoftmax(6, 4, cells=0)
