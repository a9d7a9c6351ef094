"""What torch's own tests ask of every optimizer, as laws over both of ours.

They follow torch/test/test_optim.py: each case has a matrix and a bias, so that every step has a
part in a domain and a part by AdamW.
"""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

import fwnet
from fwnet.optim import ConditionalGradient, FrankWolfe, rows, sign, spectral

pytestmark = pytest.mark.filterwarnings("ignore:FrankWolfe. no parameter has a domain")

Build = Callable[..., torch.optim.Optimizer]


def frank_wolfe(domain: Any, **options: Any) -> Build:
    def build(params: Any, **more: Any) -> FrankWolfe:
        return FrankWolfe(params, **({"lr": 0.01, "domain": domain} | options | more))

    return build


def conditional_gradient(norm: Any, **options: Any) -> Build:
    def build(params: Any, **more: Any) -> ConditionalGradient:
        return ConditionalGradient(params, **({"lr": 0.01, "norm": norm} | options | more))

    return build


KINDS: dict[str, Build] = {
    "spectral": frank_wolfe(fwnet.SpectralBall(9.0)),
    "trace norm": frank_wolfe(fwnet.TraceNormBall(30.0), averaging=8),
    "rank 1": frank_wolfe(fwnet.TraceNormBall(30.0), oracle=fwnet.PowerIteration(1)),
    "rows": frank_wolfe(rows(fwnet.L2Ball(9.0)), momentum=0.0, rescale=None),
    "Adam only": frank_wolfe(None, weight_decay=0.1),
    "scion": conditional_gradient(spectral(3.0)),
    "scion, free": conditional_gradient(sign(10.0), constrained=False, averaging=2),
}
each = pytest.mark.parametrize("build", KINDS.values(), ids=KINDS)


def network(dtype: torch.dtype = torch.float64) -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(4, 3, dtype=dtype)


def loss_of(net: nn.Module, seed: int = 1) -> Tensor:
    dtype = next(net.parameters()).dtype
    noise = torch.Generator().manual_seed(seed)
    X = torch.randn(8, 4, generator=noise, dtype=torch.float64).to(dtype)
    y = torch.randn(8, 3, generator=noise, dtype=torch.float64).to(dtype)
    return (net(X) - y).square().mean()


def train(net: nn.Module, opt: torch.optim.Optimizer, steps: int, seed: int = 1) -> None:
    for _ in range(steps):
        opt.zero_grad()
        loss_of(net, seed).backward()
        opt.step()


def weights(net: nn.Module) -> list[Tensor]:
    return [p.detach().clone() for p in net.parameters()]


def assert_same(first: nn.Module, second: nn.Module) -> None:
    for a, b in zip(weights(first), weights(second), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0)


@each
@pytest.mark.parametrize("schedule", ["none", "step", "plateau", "cosine and warm-up"])
def test_the_loss_falls(build: Build, schedule: str) -> None:
    net = network()
    opt = build(net.parameters())
    schedulers: dict[str, Callable[[], Any]] = {
        "none": lambda: None,
        "step": lambda: torch.optim.lr_scheduler.StepLR(opt, 10, gamma=0.9),
        "plateau": lambda: torch.optim.lr_scheduler.ReduceLROnPlateau(opt),
        "cosine and warm-up": lambda: torch.optim.lr_scheduler.OneCycleLR(
            opt, 0.02, 60, cycle_momentum=False
        ),
    }
    scheduler = schedulers[schedule]()
    before = float(loss_of(net).detach())
    for _ in range(50):
        train(net, opt, 1)
        if scheduler is not None:
            scheduler.step(*([loss_of(net).detach()] if schedule == "plateau" else []))
    assert float(loss_of(net).detach()) < 0.8 * before


@each
@pytest.mark.parametrize("maximize", [False, True])
def test_maximize_is_minimize_of_the_negative(build: Build, maximize: bool) -> None:
    first, second = network(), network()
    opts = [build(first.parameters(), maximize=maximize), build(second.parameters())]
    for _ in range(3):
        for net, opt, factor in zip((first, second), opts, (1, -1 if maximize else 1), strict=True):
            opt.zero_grad()
            (factor * loss_of(net)).backward()
            opt.step()
    assert_same(first, second)


@each
@pytest.mark.parametrize("shape", [(), (1,)])
def test_a_rate_as_a_tensor_is_the_rate_as_a_number(build: Build, shape: tuple[int, ...]) -> None:
    plain, tensor = network(), network()
    opts = (
        build(plain.parameters(), lr=0.25),
        build(tensor.parameters(), lr=torch.full(shape, 0.25)),
    )
    for net, opt in zip((plain, tensor), opts, strict=True):
        train(net, opt, 3)
        opt.param_groups[0]["lr"] /= 2
        train(net, opt, 1)
    assert_same(plain, tensor)


@each
def test_groups_have_their_own_rates(build: Build) -> None:
    net = network()
    groups = [{"params": [net.weight], "lr": 0.0}, {"params": [net.bias]}]
    opt = build(groups)
    weight, bias = weights(net)
    train(net, opt, 2)
    if opt.param_groups[0]["domain"] is not None or opt.param_groups[0]["weight_decay"] == 0:
        torch.testing.assert_close(net.weight.detach(), weight, rtol=0, atol=1e-15)
    assert not torch.equal(net.bias.detach(), bias)


@each
@pytest.mark.parametrize("how", ["state_dict", "deepcopy", "pickle", "file"])
def test_a_copy_continues_to_the_bit(build: Build, how: str) -> None:
    net = network()
    opt = build(net.parameters())
    train(net, opt, 3)
    if how == "deepcopy":
        other, again = copy.deepcopy((net, opt))
    elif how == "pickle":
        other, again = pickle.loads(pickle.dumps((net, opt)))
    else:
        other = copy.deepcopy(net)
        state = copy.deepcopy(opt.state_dict())
        if how == "file":
            file = io.BytesIO()
            torch.save(opt.state_dict(), file)
            file.seek(0)
            state = torch.load(file, weights_only=True)
        again = build(other.parameters())
        again.load_state_dict(state)
    train(net, opt, 3)
    train(other, again, 3)
    assert_same(net, other)


@each
def test_a_loaded_state_is_not_shared(build: Build) -> None:
    net, other = network(), network()
    opt, again = build(net.parameters()), build(other.parameters())
    train(net, opt, 2)
    other.load_state_dict(net.state_dict())
    again.load_state_dict(opt.state_dict())
    before = weights(net)
    train(other, again, 2, seed=2)
    for a, b in zip(weights(net), before, strict=True):
        assert torch.equal(a, b)
    train(net, opt, 2, seed=2)  # from its own state, not from one that `again` has moved
    assert_same(net, other)


@each
def test_names_of_parameters_may_come_and_go_in_a_state(build: Build) -> None:
    net, other = network(), network()
    named, plain = build(net.named_parameters()), build(other.parameters())
    train(net, named, 2)
    other.load_state_dict(net.state_dict())
    plain.load_state_dict(named.state_dict())
    named.load_state_dict(plain.state_dict())
    train(net, named, 2)
    train(other, plain, 2)
    assert_same(net, other)
    assert named.param_groups[0]["param_names"] == ["weight", "bias"]


@each
def test_a_state_belongs_to_the_parameters_with_gradients(build: Build) -> None:
    net = network()
    opt = build(net.parameters())
    before = weights(net)
    opt.step()  # no gradients
    assert all(torch.equal(a, b) for a, b in zip(weights(net), before, strict=True))
    net.bias.grad = torch.ones_like(net.bias)
    opt.step()
    assert torch.equal(net.weight.detach(), before[0])
    assert not torch.equal(net.bias.detach(), before[1])
    train(net, opt, 2)  # the weight joins
    net.bias.grad = None
    late = weights(net)
    opt.step()
    assert torch.equal(net.bias.detach(), late[1])
    assert not torch.equal(net.weight.detach(), late[0])


@each
def test_parameters_that_join_late_take_their_own_first_steps(build: Build) -> None:
    net, single = network(), network()
    opt, later = build(net.parameters()), build([single.bias])
    for t in range(6):
        opt.zero_grad()
        loss_of(net).backward()
        if t < 3:
            net.bias.grad = None
        opt.step()
        if t >= 3:
            single.bias.grad = net.bias.grad.clone()
            later.step()
    torch.testing.assert_close(net.bias.detach(), single.bias.detach(), rtol=0, atol=0)


@each
def test_gradients_of_zero_move_nothing(build: Build) -> None:
    net = network()
    opt = build(net.parameters())
    if opt.param_groups[0]["weight_decay"]:
        pytest.skip("weight decay moves the weights by itself")
    before = weights(net)
    for p in net.parameters():
        p.grad = torch.zeros_like(p)
    opt.step()
    assert all(torch.equal(a, b) for a, b in zip(weights(net), before, strict=True))


@each
def test_a_closure_is_called_once_with_gradients(build: Build) -> None:
    first, second = network(), network()
    opts = build(first.parameters()), build(second.parameters())
    calls = []

    def closure() -> Tensor:
        assert torch.is_grad_enabled()
        calls.append(1)
        opts[0].zero_grad()
        loss = loss_of(first)
        loss.backward()
        return loss

    value = opts[0].step(closure)
    assert float(value.detach()) == float(loss_of(second).detach())
    train(second, opts[1], 1)
    assert len(calls) == 1
    assert_same(first, second)


@each
def test_hooks_run_around_steps_and_states(build: Build) -> None:
    net = network()
    opt = build(net.parameters())
    seen: list[str] = []
    handles = [
        register_optimizer_step_pre_hook(lambda *_: seen.append("all, before")),
        register_optimizer_step_post_hook(lambda *_: seen.append("all, after")),
        opt.register_step_pre_hook(lambda *_: seen.append("before")),
        opt.register_step_post_hook(lambda *_: seen.append("after")),
        opt.register_state_dict_pre_hook(lambda _: seen.append("saving")),
        opt.register_state_dict_post_hook(lambda _, state: state | {"note": "mine"}),
        opt.register_load_state_dict_pre_hook(lambda *_: seen.append("loading")),
        opt.register_load_state_dict_post_hook(lambda *_: seen.append("loaded")),
    ]
    train(net, opt, 1)
    state = opt.state_dict()
    opt.load_state_dict(state)
    assert state["note"] == "mine"
    steps = ["all, before", "before", "after", "all, after"]
    assert seen == [*steps, "saving", "loading", "loaded"]
    for handle in handles:
        handle.remove()
    train(net, opt, 1)
    assert len(seen) == 7


@each
def test_attributes_survive_a_deepcopy(build: Build) -> None:
    opt = build(network().parameters())

    def public(one: torch.optim.Optimizer) -> set[str]:
        return {name for name in vars(one) if not name.startswith("_")}

    assert public(copy.deepcopy(opt)) == public(opt)
    assert repr(opt) == repr(copy.deepcopy(opt))
    assert type(opt).__name__ in repr(opt)


@each
@pytest.mark.parametrize("layout", ["contiguous", "transposed", "strided"])
def test_any_memory_layout_takes_the_same_steps(build: Build, layout: str) -> None:
    plain, other = network(), network()
    with torch.no_grad():
        w = other.weight
        if layout == "transposed":
            other.weight = nn.Parameter(w.mT.contiguous().mT)
        elif layout == "strided":
            other.weight = nn.Parameter(torch.stack([w, w], -1)[..., 0])
    opts = build(plain.parameters()), build(other.parameters())
    train(plain, opts[0], 4)
    train(other, opts[1], 4)
    for a, b in zip(weights(plain), weights(other), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-14)


@each
def test_weights_may_be_replaced_between_steps(build: Build) -> None:
    """Loading a network copies into the weights; `.data = ` puts them elsewhere."""
    plain, other = network(), network()
    opts = build(plain.parameters()), build(other.parameters())
    for _ in range(3):
        train(plain, opts[0], 1)
        train(other, opts[1], 1)
        for p in other.parameters():
            p.data = p.data.clone()
    assert_same(plain, other)


@each
def test_the_default_dtype_may_change(build: Build) -> None:
    plain, other = network(torch.float32), network(torch.float32)
    train(plain, build(plain.parameters()), 3)
    torch.set_default_dtype(torch.float64)
    try:
        train(other, build(other.parameters()), 3)
    finally:
        torch.set_default_dtype(torch.float32)
    assert_same(plain, other)


@each
def test_a_state_is_deleted_with_opt_state(build: Build) -> None:
    """Users start again by `opt.state.clear()`."""
    net, other = network(), network()
    opt = build(net.parameters())
    train(net, opt, 2)
    other.load_state_dict(net.state_dict())
    opt.state.clear()
    train(net, opt, 2)
    train(other, build(other.parameters()), 2)
    assert_same(net, other)


@pytest.mark.parametrize("foreach", [None, True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_without_a_domain_it_is_adamw_to_the_bit(foreach: bool | None, dtype: torch.dtype) -> None:
    """Many small parameters of odd sizes, which are joined, and a large one, which is not.

    Parameters in half precision are those of an AdamW in float32, rounded.
    """
    shapes = [(3,), (5, 7), (1,), (33,), (2, 3, 4), (150, 110)]
    noise = torch.Generator().manual_seed(0)
    begin = [torch.randn(shape, generator=noise).to(dtype) for shape in shapes]
    ours = [nn.Parameter(w.clone()) for w in begin]
    precise = torch.float64 if dtype == torch.float64 else torch.float32
    theirs = [nn.Parameter(w.to(precise, copy=True)) for w in begin]
    options: dict[str, Any] = {"lr": 0.01, "betas": (0.8, 0.95), "weight_decay": 0.1}
    opt = FrankWolfe([{"params": ours, "domain": None}], foreach=foreach, **options)
    adamw = torch.optim.AdamW(theirs, foreach=False, **options)
    for t in range(6):
        for a, b in zip(ours, theirs, strict=True):
            a.grad = torch.randn(a.shape, generator=noise).to(dtype)
            b.grad = a.grad.to(precise, copy=True)
        if t == 3:  # these are one step behind from here on
            ours[1].grad = theirs[1].grad = ours[3].grad = theirs[3].grad = None
        opt.step()
        adamw.step()
        for a, b in zip(ours, theirs, strict=True):
            torch.testing.assert_close(a, b.to(dtype), rtol=0, atol=0)


def test_groups_with_equal_options_are_adamw_to_the_bit_also_when_one_changes() -> None:
    shapes = [(3,), (5, 7), (150, 110), (33,), (2, 3, 4), (150, 110)]
    noise = torch.Generator().manual_seed(0)
    begin = [torch.randn(shape, generator=noise) for shape in shapes]
    ours, theirs = ([nn.Parameter(w.clone()) for w in begin] for _ in range(2))
    opts = (
        FrankWolfe([{"params": part, "domain": None} for part in (ours[:3], ours[3:])], lr=0.01),
        torch.optim.AdamW(
            [{"params": theirs[:3]}, {"params": theirs[3:]}], lr=0.01, weight_decay=0.0
        ),
    )
    changes: dict[int, dict[str, Any]] = {
        2: {"lr": 0.03},
        4: {"lr": 0.01},
        6: {"weight_decay": 0.1},
    }
    for t in range(8):
        for a, b in zip(ours, theirs, strict=True):
            b.grad = torch.randn(a.shape, generator=noise)
            a.grad = b.grad.clone()
        for opt in opts:
            opt.param_groups[1].update(changes.get(t, {}))
            opt.step()
        for a, b in zip(ours, theirs, strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=0)


def test_complex_parameters_without_a_domain_are_those_of_adamw() -> None:
    noise = torch.Generator().manual_seed(0)
    ours = nn.Parameter(torch.randn(5, 2, generator=noise, dtype=torch.complex64))
    theirs = nn.Parameter(ours.detach().clone())
    opts = FrankWolfe([ours], lr=0.1), torch.optim.AdamW([theirs], lr=0.1, weight_decay=0.0)
    for _ in range(4):
        ours.grad = torch.randn(5, 2, generator=noise, dtype=torch.complex64)
        theirs.grad = ours.grad.clone()
        for opt in opts:
            opt.step()
    assert torch.equal(ours.detach(), theirs.detach())


def test_empty_parameters_without_a_domain_are_left_alone() -> None:
    empty, full = nn.Parameter(torch.zeros(0, 3)), nn.Parameter(torch.ones(2))
    opt = FrankWolfe([empty, full], averaging=8)
    empty.grad, full.grad = torch.zeros(0, 3), torch.ones(2)
    opt.step()
    assert float(full.detach().max()) < 1


REFUSALS: list[tuple[Callable[[Build], object], type[Exception], str]] = [
    (lambda build: build(nn.Parameter(torch.ones(1, 1))), TypeError, "should be an iterable of"),
    (lambda build: build([]), ValueError, "optimizer got an empty parameter list"),
    (
        lambda build: build([{"params": p} for p in [nn.Parameter(torch.ones(1, 1))] * 2]),
        ValueError,
        "some parameters appear in more than one parameter group",
    ),
    (
        lambda build: build([("w", nn.Parameter(torch.ones(1, 1))), nn.Parameter(torch.ones(1))]),
        ValueError,
        "should be with/without names",
    ),
    (lambda build: build(network().parameters(), lr=-1.0), ValueError, "lr must be a finite"),
    (
        lambda build: build(network().parameters(), lr=torch.tensor([0.1, 0.1])),
        TypeError,
        "lr must be a number",
    ),
    (lambda build: build(network().parameters(), fused=True), TypeError, "'fused'"),
    (lambda build: build(network().parameters(), differentiable=True), TypeError, "'differen"),
    (lambda build: build(network().parameters(), capturable=True), TypeError, "'capturable'"),
    (lambda build: build([torch.ones(2, requires_grad=True) * 2]), ValueError, "non-leaf"),
]


@each
@pytest.mark.parametrize(("call", "kind", "text"), REFUSALS, ids=[r[2][:25] for r in REFUSALS])
def test_what_torch_refuses_is_refused(build: Build, call: Any, kind: Any, text: str) -> None:
    with pytest.raises(kind) as error:
        call(build)
    assert text in str(error.value)


@each
def test_a_duplicate_in_a_group_warns(build: Build) -> None:
    w = nn.Parameter(torch.zeros(1, 1))
    with pytest.warns(UserWarning, match="duplicate parameters"):
        build([w, w])


@each
def test_sparse_gradients_are_refused_in_words(build: Build) -> None:
    table = nn.Embedding(5, 3, sparse=True)
    opt = build(table.parameters())
    table(torch.tensor([1])).sum().backward()
    with pytest.raises(RuntimeError, match=r"^parameter 0 of shape \(5, 3\) has a sparse gradient"):
        opt.step()
