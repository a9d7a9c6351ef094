"""Averages: NumPy's weighted means, inside the domains, swapped in and out exactly."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import fwnet
from fwnet.optim import ConditionalGradient, FrankWolfe, constrain

# A domain of vectors holds the whole weight here, and None means AdamW: test_constrain.py and
# test_layouts.py test the warnings.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.* holds vectors, so all", "ignore:FrankWolfe. no parameter has a domain"
)


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def walk(opt: torch.optim.Optimizer, steps: int, seed: int = 0) -> list[list[Tensor]]:
    """The weights after every step with random gradients."""
    noise = seeded(seed)
    parameters = [p for group in opt.param_groups for p in group["params"]]
    seen = []
    for _ in range(steps):
        for p in parameters:
            p.grad = torch.randn(p.shape, generator=noise, dtype=p.dtype)
        opt.step()
        seen.append([p.detach().clone() for p in parameters])
    return seen


WEIGHTS = [  # of the k-th of n iterates, k = 1, 2, …
    (0, lambda k: np.ones_like(k)),
    (1, lambda k: k),
    (2, lambda k: k * (k + 1)),
    (3, lambda k: k * (k + 1) * (k + 2)),
]


@pytest.mark.parametrize(("exponent", "weights"), WEIGHTS, ids=lambda value: str(value)[:9])
@pytest.mark.parametrize("domain", [fwnet.TraceNormBall(5.0), fwnet.LInfBall(1.0), None], ids=str)
def test_the_average_is_numpys_weighted_mean(exponent, weights, domain) -> None:
    parts = [nn.Parameter(torch.zeros(4, 6, dtype=torch.float64)) for _ in range(2)]
    opt = FrankWolfe(parts, 0.1, domain, averaging=exponent, rescale=None)
    seen = walk(opt, 12)
    expected = np.average(
        [[w.numpy() for w in now] for now in seen], axis=0, weights=weights(np.arange(1.0, 13))
    )
    with opt.averaged():
        for part, mean in zip(parts, expected, strict=True):
            np.testing.assert_allclose(part.detach().numpy(), mean, rtol=0, atol=1e-13)


BALLS = [
    fwnet.TraceNormBall(2.0),
    fwnet.SpectralBall(0.3),
    fwnet.RowBall(0.5),
    fwnet.L1Ball(2.0),
    fwnet.L2Ball(1.5),
    fwnet.LInfBall(0.1),
    fwnet.KSparseBall(5, 0.5),
]


@pytest.mark.parametrize("ball", BALLS, ids=str)
def test_averages_stay_in_the_ball(ball: fwnet.Domain) -> None:
    """In float32, with a gradient that holds the weights on the sphere."""
    net = nn.Linear(24, 16, bias=False)
    with torch.no_grad():
        net.weight.copy_(10 * torch.randn(16, 24, generator=seeded(1)))
    opt = FrankWolfe(constrain(net, {"weight": ball}), lr=1e-3, rescale=None, averaging=8)
    net.weight.grad = -net.weight.detach().clone()
    for t in range(1000):
        opt.step()
        if t % 50 == 0:
            with opt.averaged():
                x = net.weight.detach().double()
            size = float(ball.norm(x if ball.event_dim == 2 else x.flatten()))
            assert 0 < size <= ball.radius * (1 + 1e-6)


def test_averages_in_polytopes_do_not_drift() -> None:
    net = nn.ParameterDict({"square": torch.rand(8, 8), "large": torch.rand(30)})
    domains = {"square": fwnet.Birkhoff(8), "large": fwnet.Simplex(1e4)}
    opt = FrankWolfe(constrain(net, domains), lr=1e-3, rescale=None, averaging=8)
    walk(opt, 500)
    with opt.averaged():
        x, large = net["square"].detach().double(), net["large"].detach().double()
    assert float((torch.cat([x.sum(0), x.sum(1)]) - 1).abs().max()) <= 3e-7
    assert float(x.min()) >= 0
    assert float(large.sum()) == pytest.approx(1e4, rel=1e-7)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_averages_keep_small_updates(dtype: torch.dtype) -> None:
    """Late shares of 1/3000 are below the last digit of an average of 1."""
    w = nn.Parameter(torch.full((2,), 1.0, dtype=dtype))
    opt = FrankWolfe([w], lr=0.0, averaging=0)
    values = np.where(np.arange(3000) < 1500, 1.0, 2.0)
    for value in values:
        w.grad = torch.ones_like(w)
        with torch.no_grad():
            w.fill_(value)
        opt.step()
    with opt.averaged():
        assert w.float().tolist() == pytest.approx([values.mean()] * 2, rel=1 / 256)


def test_a_shrinking_radius_moves_the_average_too() -> None:
    w = nn.Parameter(torch.zeros(40, 30))
    opt = FrankWolfe([w], 0.1, fwnet.TraceNormBall(5.0), rescale=None, averaging=0)
    walk(opt, 30)
    opt.param_groups[0]["domain"] = fwnet.TraceNormBall(0.5)
    walk(opt, 1)
    with opt.averaged():
        assert float(torch.linalg.svdvals(w.detach().double()).sum()) <= 0.5


def test_the_weights_come_back_to_the_bit_even_after_an_error() -> None:
    plain = nn.Conv2d(2, 4, 3)
    net = nn.Conv2d(2, 4, 3).to(memory_format=torch.channels_last)
    for one in (plain, net):
        with torch.no_grad():
            for p in one.parameters():
                p.copy_(torch.randn(p.shape, generator=seeded(3)))
    opts = [
        FrankWolfe(constrain(one, {"weight": fwnet.SpectralBall("init")}), lr=0.1, averaging=2)
        for one in (plain, net)
    ]
    for opt in opts:
        walk(opt, 5)
    before = [p.detach().clone() for p in net.parameters()]
    with opts[0].averaged(), opts[1].averaged():
        assert not torch.equal(net.weight, before[0])
        torch.testing.assert_close(net.weight, plain.weight, rtol=0, atol=1e-6)
    with pytest.raises(RuntimeError, match="channels"), opts[1].averaged():
        net(torch.ones(1, 5, 1, 1))
    for p, value in zip(net.parameters(), before, strict=True):
        assert torch.equal(p, value)
    walk(opts[1], 1)


def test_averages_of_noisy_steps_beat_the_last_weights() -> None:
    """min E‖w − (target + noise)‖² over a ball that holds the target: excess = squared distance."""
    target = 0.1 * torch.randn(10, 8, generator=seeded(4))
    w = nn.Parameter(torch.zeros(10, 8))
    opt = FrankWolfe([w], 0.05, fwnet.SpectralBall(5.0), momentum=0.0, averaging=8)
    noise = seeded(5)
    last, mean = 0.0, 0.0
    for t in range(400):
        w.grad = w.detach() - target + torch.randn(10, 8, generator=noise)
        opt.step()
        if t >= 300:
            last += float((w.detach() - target).square().sum())
            with opt.averaged():
                mean += float((w.detach() - target).square().sum())
    assert mean < 0.5 * last


def test_conditional_gradient_averages_too() -> None:
    w = nn.Parameter(torch.full((3, 4), 2.0, dtype=torch.float64))
    opt = ConditionalGradient([w], 0.25, averaging=0)
    seen = walk(opt, 6)
    with opt.averaged():
        expected = torch.stack([now[0] for now in seen]).mean(0)
        torch.testing.assert_close(w.detach(), expected, rtol=0, atol=1e-13)


def test_a_group_can_join_later_and_another_have_no_domain() -> None:
    first, second, third = (nn.Parameter(torch.zeros(3, dtype=torch.float64)) for _ in range(3))
    opt = FrankWolfe([{"params": [first]}, {"params": [third], "averaging": None}], averaging=0)
    early = walk(opt, 3)
    opt.add_param_group({"params": [second]})
    late = walk(opt, 2)
    with opt.averaged():
        torch.testing.assert_close(
            first.detach(), torch.stack([now[0] for now in early + late]).mean(0)
        )
        torch.testing.assert_close(second.detach(), torch.stack([now[2] for now in late]).mean(0))
        assert torch.equal(third.detach(), late[-1][1])


def test_a_state_without_averages_starts_them() -> None:
    layer = nn.Linear(3, 2)
    adam = torch.optim.Adam(layer.parameters())
    walk(adam, 2)
    opt = FrankWolfe(layer.parameters(), domain=fwnet.TraceNormBall(9.0), averaging=8)
    opt.load_state_dict(adam.state_dict())
    weight, bias = walk(opt, 1)[0]
    with opt.averaged():
        torch.testing.assert_close(layer.weight.detach(), weight)
        torch.testing.assert_close(layer.bias.detach(), bias)


def test_wrong_moments_raise_a_clear_error() -> None:
    w = nn.Parameter(torch.zeros(3))
    w.grad = torch.ones(3)
    with (
        pytest.raises(RuntimeError, match="averages: pass averaging=8 to"),
        FrankWolfe([w]).averaged(),
    ):
        pass
    opt = FrankWolfe([w], averaging=8)
    with opt.averaged():  # no step yet: the weights as they are
        assert not w.any()
        with pytest.raises(RuntimeError, match=r"step\(\) inside averaged\(\) would move the"):
            opt.step()
        with pytest.raises(RuntimeError, match="the weights are already averages"), opt.averaged():
            pass
    opt.step()
    assert bool(w.any())
