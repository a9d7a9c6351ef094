"""What the optimizers share: groups with a domain, the step, a state_dict of plain data."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any

import torch
from torch import Tensor

from fwnet.domains import Domain, SpectralBall, TraceNormBall
from fwnet.numerics import checks
from fwnet.optim.adam import adam_step
from fwnet.optim.averages import average_in, averages_in_place
from fwnet.optim.points import (
    as_point,
    check_fits,
    check_kind,
    check_known,
    domain_of,
    drifts,
    margin,
    mix,
    mix_doubled,
    name_of,
    settle,
)
from fwnet.optim.records import check_shapes, packed, unpacked
from fwnet.oracles import CostOracle, Exact, NewtonSchulz
from fwnet.vertices import Rank1, Vertex

Closure = Callable[[], Any]
Group = dict[str, Any]
Held = tuple[Tensor, Domain]
RESCALES = (None, "vertex", "diameter", "gradient")


class VertexOptimizer(torch.optim.Optimizer):
    """An optimizer that moves parameters toward vertices of their domains, or by Adam.

        m <- β m + (1 − β) g,   v = argmin over the domain of ⟨m, v⟩,   w <- (1 − γ) w + γ v

    Attributes:
        feasible: whether weights start in their domains and must never leave them.
    """

    feasible: bool
    _loaded = False  # whether domains were loaded and the weights not checked since
    _shown = False  # whether the parameters currently hold their averages

    def add_param_group(self, param_group: Group) -> None:
        """Add parameters with their own options; an invalid group raises and is not added."""
        super().add_param_group(param_group)
        try:
            self._check_names(self.param_groups[-1])
            self.check_group(self.param_groups[-1])
        except (TypeError, ValueError):
            self.param_groups.pop()
            raise

    def check_group(self, group: Group) -> None:
        """Raise a clear error if the options do not fit each other or the parameters."""
        for name in ("lr", "eps", "weight_decay"):
            checks.non_negative(name, group[name])
        _below_one("momentum", group["momentum"])
        if group["averaging"] is not None:
            checks.non_negative("averaging", group["averaging"])
        betas = group["betas"]
        if not isinstance(betas, tuple | list) or len(betas) != 2:
            raise TypeError(f"betas must be two numbers in [0, 1); got {betas!r}.")
        for k, beta in enumerate(betas):
            _below_one(f"betas[{k}]", beta)
        if group["rescale"] not in RESCALES:
            raise ValueError(f"rescale must be one of {RESCALES}; got {group['rescale']!r}.")
        domain, oracle = group["domain"], group["oracle"]
        check_kind(domain)
        if oracle is not None and not isinstance(oracle, CostOracle):
            raise TypeError(
                "oracle must be PowerIteration(), SoftTraceNorm(), NewtonSchulz() or Exact(); "
                f"got {oracle!r}."
            )
        for parameter in group["params"] if domain is not None else ():
            check_known(name_of(parameter, group), parameter)
            own = domain_of(parameter, domain)
            if own is not None:
                check_fits(name_of(parameter, group), parameter, own)
                oracle_of(own, oracle).begin(own, as_point(parameter.detach(), own))

    def _check_names(self, group: Group) -> None:
        """Reject a misspelt option: it would be ignored, and its weights left to Adam."""
        known = [*self.defaults, "params", "param_names", "norm"]
        for name in group:
            close = get_close_matches(name, known, n=1, cutoff=0.82)
            if close and name not in known:  # schedulers and users may add other options
                raise TypeError(f"a group has the option {name!r}; did you mean {close[0]!r}?")

    @torch.compiler.disable  # type: ignore[untyped-decorator]  # Python numbers decide each step
    @torch.no_grad()
    def step(self, closure: Closure | None = None) -> Any:
        """One step of every parameter that has a gradient.

        Arguments:
            closure: computes the loss and its gradients again; its value is returned.
        """
        if self._shown:
            raise RuntimeError("step() inside averaged() would move the average; leave it first.")
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if self._loaded:
            for group in self.param_groups:
                self.check_group(group)
            self._loaded = False
        plans = [self._plan(group) for group in self.param_groups]  # errors come before changes
        for group, (free, moving) in zip(self.param_groups, plans, strict=True):
            if free:
                adam_step(free, [_gradient(p) for p in free], group, self.state)
            if moving:
                self._move_all(moving, group)
            if group["averaging"] is not None:
                average_in(group, self.state)
        return loss

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Within the block the network has its averaged weights, to be evaluated or saved.

        They lie in their domains as the weights do. Buffers, of a batch norm for example, are not.

        Example:
            >>> from fwnet.optim import FrankWolfe
            >>> net = torch.nn.Linear(3, 2)
            >>> opt = FrankWolfe(net.parameters(), 0.1, TraceNormBall(9.0), averaging=8)
            >>> net(torch.ones(1, 3)).square().sum().backward()
            >>> opt.step()
            >>> with opt.averaged():
            ...     loss = net(torch.ones(1, 3)).square().sum()
        """
        if self._shown:
            raise RuntimeError("averaged() inside averaged(): the weights are already averages.")
        if all(group["averaging"] is None for group in self.param_groups):
            raise RuntimeError("averaged() needs averages: pass averaging=8 to the optimizer.")
        self._shown = True
        try:
            with averages_in_place(self.param_groups, self.state, self.feasible):
                yield
        finally:
            self._shown = False

    def _plan(self, group: Group) -> tuple[list[Tensor], list[Held]]:
        """The parameters that Adam moves, and those that move in their domains."""
        checks.non_negative("lr", group["lr"])  # a schedule may have changed it
        free: list[Tensor] = []
        held: list[Held] = []
        for parameter in group["params"]:
            if parameter.grad is None:
                continue
            if parameter.grad.layout is not torch.strided:
                raise RuntimeError(
                    f"{name_of(parameter, group)} has a sparse gradient, which this optimizer does "
                    "not support. Use nn.Embedding(sparse=False), or torch.optim.SparseAdam for it."
                )
            domain = domain_of(parameter, group["domain"])
            if domain is None:
                free.append(parameter)
            else:
                held.append((parameter, domain))
        if not held:
            return free, held
        # While all gradients were 0 there is no direction: every vertex would be optimal.
        known = _moving([parameter for parameter, _ in held], group)
        started = ["momentum" in self.state[parameter] for parameter, _ in held]
        return free, [held[k] for k in range(len(held)) if known[k] or started[k]]

    def _move_all(self, moving: list[Held], group: Group) -> None:
        costs = [_gradient(parameter) for parameter, _ in moving]
        if group["maximize"]:
            costs = list(torch._foreach_neg(costs))
        if group["momentum"] > 0:
            costs = self._averaged([parameter for parameter, _ in moving], costs, group["momentum"])
        for (parameter, domain), cost in zip(moving, costs, strict=True):
            self._move(parameter, domain, cost, group)

    def _averaged(self, parameters: list[Tensor], costs: list[Tensor], beta: float) -> list[Tensor]:
        """m <- β m + (1 − β) g; the first m is g."""
        for parameter, cost in zip(parameters, costs, strict=True):
            if "momentum" not in self.state[parameter]:
                self.state[parameter]["momentum"] = cost.clone()
        averages = [self.state[parameter]["momentum"] for parameter in parameters]
        torch._foreach_lerp_(averages, costs, 1 - beta)
        return averages

    def _move(self, parameter: Tensor, domain: Domain, cost: Tensor, group: Group) -> None:
        own = self.state[parameter]
        x, cost = as_point(parameter, domain), as_point(cost, domain)
        oracle = oracle_of(domain, group["oracle"])
        if "steps" not in own:  # not Adam's "step": a parameter may gain or lose its domain
            own["steps"], own["oracle"] = 0, oracle.begin(domain, x)
        vertex, _, own["oracle"] = oracle.answer(domain, cost, own["oracle"])
        step_size = _step_size(group, domain, x, vertex, parameter)
        if step_size == 0:
            return
        if not self.feasible:
            mix(x, 1 - step_size if group["constrained"] else 1.0, vertex, step_size)
        else:
            radius = getattr(domain, "radius", None)
            if own.get("radius", math.nan) != radius:  # the first step, or the user changed it
                settle(domain, x, 0)
                own["radius"] = radius
            if drifts(domain, x):
                own["rest"] = mix_doubled(x, own.get("rest", 0.0), vertex, step_size)
            else:
                mix(x, 1 - step_size, vertex, step_size * (1 - margin(domain, x)))
                settle(domain, x, own["steps"] + 1)
        own["steps"] += 1
        if x.data_ptr() != parameter.data_ptr():  # channels last: the point is a copy
            parameter.copy_(x.view(parameter.shape))

    def state_dict(self) -> dict[str, Any]:
        """The state as numbers, strings and tensors, domains included."""
        state = super().state_dict()
        return state | {"param_groups": [packed(group) for group in state["param_groups"]]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a `state_dict()`; its domains and oracles replace those of the groups.

        The weights must be those that belong to it; the next step checks that they fit.
        """
        saved = state_dict["param_groups"]
        now = [*self.param_groups, *({} for _ in saved)]
        groups = [unpacked(group, mine) for group, mine in zip(saved, now, strict=False)]
        for group, mine in zip(saved, self.param_groups, strict=False):
            check_shapes(state_dict["state"], group, mine)
        super().load_state_dict(state_dict | {"param_groups": groups})
        self._loaded = True


def oracle_of(domain: Domain, chosen: CostOracle | None) -> CostOracle:
    """Exact for vectors; for matrices the chosen oracle, by default one that suits minibatches.

    Minibatch gradients agree a little in many singular directions but hardly in the first one, so
    rank-1 vertices cancel each other.
    """
    if domain.event_dim == 1:
        return _EXACT
    if chosen is not None:
        return chosen
    return _SPECTRAL if isinstance(domain, SpectralBall | TraceNormBall) else _EXACT


_EXACT, _SPECTRAL = Exact(), NewtonSchulz()


def _step_size(group: Group, domain: Domain, x: Tensor, vertex: Vertex, parameter: Tensor) -> float:
    lr = float(group["lr"])
    if group["rescale"] in ("vertex", "diameter"):
        width = domain.diameter(tuple(x.shape))
        if group["rescale"] == "vertex" and isinstance(domain, TraceNormBall):
            width = min(width, 2 * _length(vertex))  # soft and spectral vertices lie deep inside
        lr = lr * math.sqrt(x.numel()) / width if width > 0 else 0.0
    elif group["rescale"] == "gradient":
        distance = float(torch.linalg.vector_norm(vertex.dense() - x))
        slope = float(torch.linalg.vector_norm(_gradient(parameter)))
        lr = lr * slope / distance if distance > 0 else 0.0
    return min(lr, 1.0)


def _length(vertex: Vertex) -> float:
    if isinstance(vertex, Rank1):
        return float(torch.linalg.vector_norm(vertex.u) * torch.linalg.vector_norm(vertex.v))
    return float(torch.linalg.vector_norm(vertex.dense()))


def _below_one(name: str, value: float) -> None:
    if not checks.non_negative(name, value) < 1:
        raise ValueError(f"{name} must lie in [0, 1); got {value!r}.")


def _gradient(parameter: Tensor) -> Tensor:
    assert parameter.grad is not None
    return parameter.grad


def _moving(parameters: list[Tensor], group: Group) -> list[bool]:
    """Which gradients are not 0; raise if one is not finite."""
    norms = torch._foreach_norm([_gradient(p) for p in parameters])
    sizes: list[float] = torch.stack([norm.cpu() for norm in norms]).tolist()
    for k, (parameter, size) in enumerate(zip(parameters, sizes, strict=True)):
        if not math.isfinite(size):  # or its square overflows
            checks.finite(f"the gradient of {name_of(parameter, group)}", _gradient(parameter))
        elif size == 0:  # or its square underflows
            sizes[k] = float(_gradient(parameter).abs().max())
    return [size != 0 for size in sizes]
