"""Steps in machine code: the plain step is what they are compared with, and closed forms."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import fwnet
from fwnet.optim import ConditionalGradient, FrankWolfe, constrain, fused
from fwnet.optim.fused import WORTH

F32, F64 = torch.float32, torch.float64
Build = Callable[..., FrankWolfe]
BALLS: dict[str, Any] = {
    "spectral": (fwnet.SpectralBall("2x init"), None),  # type: ignore[arg-type]
    "trace norm": (fwnet.TraceNormBall("2x init"), None),  # type: ignore[arg-type]
    "three steps": (fwnet.SpectralBall("init"), fwnet.oracles.NewtonSchulz(3)),  # type: ignore[arg-type]
    "rank 1": (fwnet.TraceNormBall("2x init"), fwnet.PowerIteration(1)),  # type: ignore[arg-type]
}
SHAPES = [(16, 16), (3, 50), (40, 7), (1, 5), (6, 1), (70, 90), (8, 4, 3, 3)]
balls = pytest.mark.parametrize("ball", BALLS)


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def network(shape: tuple[int, ...], dtype: torch.dtype = F64, seed: int = 0) -> nn.ParameterDict:
    noise = torch.Generator().manual_seed(seed)
    return nn.ParameterDict(
        {name: torch.randn(shape, generator=noise, dtype=dtype) for name in ("a", "b")}
    )


def optimizer(net: nn.Module, ball: str, lost: float, **options: Any) -> FrankWolfe:
    domain, oracle = BALLS[ball]
    opt = FrankWolfe(constrain(net, {"*": domain}), oracle=oracle, **options)
    opt.load_state_dict(opt.state_dict() | {"seconds_lost": lost})
    return opt


def pair(shape: tuple[int, ...], ball: str, dtype: torch.dtype = F64, **options: Any) -> Any:
    """Two equal networks with optimizers, of which the second uses machine code."""
    nets = network(shape, dtype), network(shape, dtype)
    lost = (-1e9, WORTH)
    return [(net, optimizer(net, ball, s, **options)) for net, s in zip(nets, lost, strict=True)]


def train(net: nn.Module, opt: Any, steps: int, seed: int = 1, size: float = 1.0) -> None:
    noise = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        for p in net.parameters():
            p.grad = size * torch.randn(p.shape, generator=noise, dtype=p.dtype)
        opt.step()


def is_fused(opt: Any) -> bool:
    return all(bucket.fused is not None for bucket in opt._plan_kept.buckets)


def assert_alike(a: nn.Module, b: nn.Module, dtype: torch.dtype = F64) -> None:
    tolerance = 1e-11 if dtype == F64 else 1e-4
    for p, q in zip(a.parameters(), b.parameters(), strict=True):
        size = float(p.detach().abs().max())
        torch.testing.assert_close(p, q, rtol=0, atol=tolerance * size)


@balls
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_plain_step_up_to_rounding(ball: str, dtype: torch.dtype, shape: Any) -> None:
    (plain, slow), (net, fast) = pair(shape, ball, dtype)
    for one, opt in ((plain, slow), (net, fast)):
        train(one, opt, 30)
    assert is_fused(fast)
    assert not is_fused(slow)
    assert_alike(plain, net, dtype)
    assert fast.is_feasible()
    for own, other in zip(slow.state.values(), fast.state.values(), strict=True):
        assert own.keys() == other.keys()
        assert other["bound"] == pytest.approx(own["bound"], rel=1e-5)


@balls
@pytest.mark.parametrize(
    "options",
    [
        {"momentum": 0.3},
        {"momentum": 0.99, "rescale": "diameter"},
        {"rescale": None, "lr": 0.4},
        {"rescale": None, "lr": 7.0},
        {"maximize": True, "averaging": 8},
        {"lr": torch.tensor([0.02])},
    ],
    ids=str,
)
def test_with_every_option(ball: str, options: dict[str, Any]) -> None:
    (plain, slow), (net, fast) = pair((12, 9), ball, **options)
    for one, opt in ((plain, slow), (net, fast)):
        train(one, opt, 20)
    assert is_fused(fast)
    assert_alike(plain, net)


@balls
@pytest.mark.parametrize("size", [1e-200, 1e-40, 1e-13, 1e13, 1e40, 1e150])
def test_gradients_of_any_size(ball: str, size: float) -> None:
    """Where squares leave the range of the machine code, only the oracle's own step is plain."""
    (plain, slow), (net, fast) = pair((12, 9), ball)
    for one, opt in ((plain, slow), (net, fast)):
        train(one, opt, 3)
        train(one, opt, 5, seed=2, size=size)
        train(one, opt, 3, seed=3)
    assert is_fused(fast)
    assert_alike(plain, net)


def test_a_layer_of_its_own_radius_and_rate() -> None:
    """Members of one bucket differ in both."""
    nets = network((12, 9)), network((12, 9))
    opts = []
    for net, lost in zip(nets, (-1e9, WORTH), strict=True):
        groups = constrain(net, {"a": fwnet.SpectralBall(9.0), "b": fwnet.SpectralBall(30.0)})
        groups[0]["lr"] = 0.05
        opts.append(FrankWolfe(groups))
        opts[-1].load_state_dict(opts[-1].state_dict() | {"seconds_lost": lost})
    for net, opt in zip(nets, opts, strict=True):
        train(net, opt, 10)
        opt.param_groups[1]["lr"] = 0.02
        train(net, opt, 10)
    assert is_fused(opts[1])
    assert len(opts[1]._plan_kept.buckets) == 1
    assert_alike(*nets)


def test_a_step_in_closed_form() -> None:
    """W <- (1 − γ) W − γ · 3 U Vᵀ."""
    net = network((5, 8))
    weights = [p.detach().clone() for p in net.parameters()]
    options = {"rescale": None, "lr": 0.25, "domain": fwnet.SpectralBall(30.0)}
    opt = FrankWolfe(net.parameters(), **options, oracle=fwnet.oracles.NewtonSchulz(9))
    opt.load_state_dict(opt.state_dict() | {"seconds_lost": WORTH})
    train(net, opt, 1)
    assert is_fused(opt)
    for p, before in zip(net.parameters(), weights, strict=True):
        assert p.grad is not None
        u, _, vh = torch.linalg.svd(p.grad, full_matrices=False)
        torch.testing.assert_close(p.detach(), 0.75 * before - 7.5 * u @ vh, rtol=0, atol=1e-8)


def test_steps_that_do_not_come_back_to_the_same_memory() -> None:
    """Weights that move, gradients with other strides, a radius that shrinks, weights set."""
    (plain, slow), (net, fast) = pair((12, 9), "spectral")
    for one, opt in ((plain, slow), (net, fast)):
        train(one, opt, 4)
        for p in one.parameters():
            p.data = p.data.clone()
        train(one, opt, 4)
        for p in one.parameters():
            p.grad = torch.linspace(-1, 1, 108, dtype=F64).reshape(9, 12).mT
        opt.step()
        radius = opt.param_groups[0]["domain"].radius / 2
        opt.param_groups[0]["domain"] = fwnet.SpectralBall(radius)
        train(one, opt, 4)
        with torch.no_grad():
            next(one.parameters()).mul_(3.0)
        train(one, opt, 4)
        assert opt.is_feasible()
    assert is_fused(fast)
    assert_alike(plain, net)


def test_a_gradient_that_is_not_finite_changes_nothing() -> None:
    net = network((12, 9))
    opt = optimizer(net, "spectral", WORTH)
    train(net, opt, 3)
    before = copy.deepcopy((net.state_dict(), opt.state_dict()["state"]))
    for p in net.parameters():
        p.grad = torch.ones_like(p)
    net["b"].grad[3, 4] = torch.nan
    with pytest.raises(ValueError, match="the gradient of b"):
        opt.step()
    torch.testing.assert_close(
        (net.state_dict(), opt.state_dict()["state"]), before, rtol=0, atol=0
    )


def test_gradients_of_zeros_leave_a_layer_where_it_is() -> None:
    (plain, slow), (net, fast) = pair((12, 9), "rank 1")
    for one, opt in ((plain, slow), (net, fast)):
        for p in one.parameters():
            p.grad = torch.zeros_like(p)
        one["a"].grad += 1.0
        before = one["b"].detach().clone()
        for _ in range(3):
            opt.step()
        assert torch.equal(one["b"], before)
        train(one, opt, 3)
    assert_alike(plain, net)


def test_autograd_notices_that_the_weights_moved() -> None:
    net = network((4, 4))
    opt = optimizer(net, "spectral", WORTH)
    loss = (net["a"] * net["b"]).square().sum()
    loss.backward(retain_graph=True)
    opt.step()
    assert is_fused(opt)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@balls
def test_a_saved_run_resumes_to_the_bit_before_and_after_it_pays(ball: str) -> None:
    net = network((12, 9))
    opt = optimizer(net, ball, WORTH - 20 * fused._CALLS)  # two weights
    train(net, opt, 2)
    for steps in (3, 30):
        other, again = copy.deepcopy((net, opt))
        loaded = copy.deepcopy(net)
        resumed = optimizer(loaded, ball, 0.0)
        resumed.load_state_dict(copy.deepcopy(opt.state_dict()))
        for one, its in ((net, opt), (other, again), (loaded, resumed)):
            train(one, its, steps)
            assert is_fused(its) == (steps == 30)
            for p, q in zip(net.parameters(), one.parameters(), strict=True):
                assert torch.equal(p, q)


def test_it_is_used_once_it_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    net = network((64, 64))
    opt = optimizer(net, "spectral", 0.0)
    train(net, opt, 1)
    seconds = opt.state_dict()["seconds_lost"]
    assert 1e-5 < seconds < 1e-2
    monkeypatch.setattr("fwnet.optim.base.WORTH", 4.5 * seconds)
    train(net, opt, 3)
    assert not is_fused(opt)
    train(net, opt, 1)
    assert is_fused(opt)


def test_without_numba_and_with_deterministic_algorithms_steps_are_plain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    net = network((12, 9))
    opt = optimizer(net, "spectral", WORTH)
    torch.use_deterministic_algorithms(True)
    try:
        train(net, opt, 1)
    finally:
        torch.use_deterministic_algorithms(False)
    assert not is_fused(opt)
    monkeypatch.setattr(fused, "machine_code", lambda name: None)
    opt = optimizer(net, "spectral", WORTH)
    train(net, opt, 2)
    assert not is_fused(opt)


def test_what_it_has_no_code_for() -> None:
    """Other oracles and domains, stacks, half precision, steps by the gradient, no momentum."""
    half = nn.Parameter(torch.zeros(4, 4, dtype=torch.bfloat16))
    kinds: list[tuple[Tensor, dict[str, Any]]] = [
        (half, {"domain": fwnet.SpectralBall(1.0)}),
        (nn.Parameter(torch.zeros(4, 4)), {"domain": fwnet.RowBall(1.0)}),
        (nn.Parameter(torch.zeros(4, 4)), {"domain": fwnet.SpectralBall(1.0), "momentum": 0.0}),
        (
            nn.Parameter(torch.zeros(4, 4)),
            {"domain": fwnet.TraceNormBall(1.0), "oracle": fwnet.PowerIteration(2)},
        ),
        (
            nn.Parameter(torch.zeros(4, 4)),
            {"domain": fwnet.SpectralBall(1.0), "rescale": "gradient"},
        ),
        (
            nn.Parameter(torch.zeros(3, 4, 4)),
            {"domain": fwnet.optim.stack(fwnet.SpectralBall(1.0))},
        ),
    ]
    for parameter, options in kinds:
        opt = FrankWolfe([parameter], **options)
        opt.load_state_dict(opt.state_dict() | {"seconds_lost": WORTH})
        parameter.grad = torch.ones_like(parameter)
        opt.step()
        assert not is_fused(opt)
    scion = ConditionalGradient([nn.Parameter(torch.zeros(4, 4))], constrained=False)
    scion.load_state_dict(scion.state_dict() | {"seconds_lost": WORTH})
    scion.param_groups[0]["params"][0].grad = torch.ones(4, 4)
    scion.step()
    assert not is_fused(scion)


def test_scion_has_it_too() -> None:
    nets = network((12, 9)), network((12, 9))
    for net, lost in zip(nets, (-1e9, WORTH), strict=True):
        opt = ConditionalGradient(net.parameters(), lr=0.05)
        opt.load_state_dict(opt.state_dict() | {"seconds_lost": lost})
        train(net, opt, 20)
        assert is_fused(opt) == (lost == WORTH)
    assert_alike(*nets)
