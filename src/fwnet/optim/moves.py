"""One step of parameters of the same shape and kind of domain, in one batch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, final

import torch
from torch import Tensor

from fwnet.domains import Domain, NormBall, SpectralBall, TraceNormBall
from fwnet.numerics.tensors import expand
from fwnet.optim.layouts import Place
from fwnet.optim.weights import gathered, read, write
from fwnet.oracles import CostOracle
from fwnet.vertices import Dense, OneHot, Rank1, Sign, Vertex

Group = dict[str, Any]
StepSize = float | Tensor  # a number, or (members, *batch)
MATRIX_BALLS = (SpectralBall, TraceNormBall)  # their norms cost a decomposition


class Held(NamedTuple):
    """A parameter, its group, and where it lives."""

    parameter: Tensor
    group: Group
    place: Place
    oracle: CostOracle


@final
class Bucket:
    """Parameters that move together.

        V = vertices of the stacked costs,   X <- X + γ (V − X)

    Arguments:
        members: parameters of one shape, dtype and device, in domains that differ at most in
            their radius.
        feasible: whether they must never leave their domains.
    """

    def __init__(self, members: Sequence[Held], feasible: bool) -> None:
        self.members, self.feasible = tuple(members), feasible
        first = members[0]
        self.group, self.oracle, self.domain = first.group, first.oracle, first.place.domain
        self.batched = batches(first)
        self.shape = tuple(first.place.points(_shaped(first.parameter)).shape)
        self.event_dim = self.domain.event_dim
        self.drifts = feasible and drifts(self.domain, first.parameter)
        side = min(self.shape[-2:])
        self.rounding = torch.finfo(_precision(first.parameter)).eps * math.sqrt(side)
        matrices = feasible and isinstance(self.domain, MATRIX_BALLS)
        self.margin = margin(self.domain, first.parameter, self.shape) if feasible else 0.0
        self.radii: list[float] | None = None  # to scale the vertices of `asked` by
        self.asked = self.domain
        if isinstance(self.domain, NormBall):
            radii = [member.place.domain.radius for member in members]  # type: ignore[attr-defined]
            if len(set(radii)) > 1:
                self.asked = replace(self.domain, radius=1.0)  # type: ignore[type-var]
                self.radii = [radius * (1 - self.margin) for radius in radii]
            elif matrices:  # the vertices keep a distance from the sphere
                self.asked = replace(self.domain, radius=radii[0] * (1 - self.margin))  # type: ignore[type-var]
        entries = math.prod(self.shape[-self.event_dim :])
        widths = [member.place.domain.diameter(self.shape) for member in members]
        self.per_rate = [math.sqrt(entries) / width if width > 0 else 0.0 for width in widths]
        self.entries = entries

    def move(self, costs: Sequence[Tensor], state: Any, live: Tensor | None) -> None:
        """One step of every member.

        Arguments:
            costs: gradients or their averages, one per member.
            live: which members may move, `(members,)`; None for all.
        """
        owns = [state[member.parameter] for member in self.members]
        tensors = [read(m.parameter, own) for m, own in zip(self.members, owns, strict=True)]
        views = [m.place.points(x) for m, x in zip(self.members, tensors, strict=True)]
        for member, own, view in zip(self.members, owns, views, strict=True):
            self._begin(member, own, view)
        x = self._joined(views)
        cost = self._joined(
            [m.place.points(gathered(c)) for m, c in zip(self.members, costs, strict=True)]
        )
        vertex, _, answered = self.oracle.answer(self.asked, cost, self._states(owns))
        self._keep_states(owns, answered)
        if self.radii is not None:
            vertex = scaled(vertex, self._per_member(self.radii, x))
        step_size = self._step_size(x, vertex)
        if live is not None:
            step_size = step_size * self._per_member(live, x)
        self._advance(x, vertex, step_size, owns)
        parts = x.unbind(0) if self.batched else (x,)
        for member, own, tensor, part in zip(self.members, owns, tensors, parts, strict=True):
            moved = member.place.tensor(part, tuple(tensor.shape))
            write(member.parameter, own, moved, member.place)

    def _begin(self, member: Held, own: dict[str, Any], view: Tensor) -> None:
        """The state before the first step; also after the user changed the weights or a radius."""
        if "oracle" not in own:
            own["oracle"] = self.oracle.begin(self.domain, view)
        radius = getattr(member.place.domain, "radius", None)
        if self.feasible and own.get("radius", math.nan) != radius:
            own["radius"], own["bound"] = radius, self.settle(member, view)

    def _joined(self, tensors: Sequence[Tensor]) -> Tensor:
        if not self.batched:
            return tensors[0]
        return torch.stack(list(tensors)) if len(tensors) > 1 else tensors[0].unsqueeze(0)

    def _states(self, owns: Sequence[dict[str, Any]]) -> Any:
        states = [own["oracle"] for own in owns]
        return self._joined(states) if isinstance(states[0], Tensor) else states[0]

    def _keep_states(self, owns: Sequence[dict[str, Any]], states: Any) -> None:
        parts = [states] * len(owns)
        if self.batched and isinstance(states, Tensor):
            parts = list(states.unbind(0))
        for own, part in zip(owns, parts, strict=True):
            own["oracle"] = part

    def _per_member(self, values: Sequence[float] | Tensor, x: Tensor) -> Tensor:
        """`(members, 1, …)`, to multiply numbers `(members, *batch)`."""
        numbers = values if isinstance(values, Tensor) else None
        if numbers is None:
            numbers = torch.tensor(values, dtype=x.dtype).to(x.device, non_blocking=True)
        extra = x.ndim - self.event_dim - 1
        return numbers.reshape(-1, *(1,) * extra) if self.batched else numbers.reshape(())

    def _step_size(self, x: Tensor, vertex: Vertex) -> StepSize:
        rates = [rate_of(member.group) for member in self.members]
        rescale = self.group["rescale"]
        if rescale == "gradient":
            distance = _lengths(vertex.dense() - x, self.event_dim)
            slopes = [gathered(m.parameter.grad).to(x.dtype) for m in self.members]
            slope = _lengths(
                self._joined(
                    [m.place.points(g) for m, g in zip(self.members, slopes, strict=True)]
                ),
                self.event_dim,
            )
            share = torch.where(distance > 0, slope / distance.clamp_min(_tiny(x)), 0.0)
            return (self._rates(rates, x) * share).clamp_max(1.0)
        inside = isinstance(self.domain, TraceNormBall) and not isinstance(vertex, Rank1)
        if rescale == "vertex" and inside:  # soft and spectral vertices lie deep inside
            width = 2 * _lengths(vertex.dense(), 2)
            share = torch.where(width > 0, math.sqrt(self.entries) / width.clamp_min(_tiny(x)), 0.0)
            least = self._per_member(self.per_rate, x)
            return (self._rates(rates, x) * torch.maximum(share, least)).clamp_max(1.0)
        shares = self.per_rate if rescale is not None else [1.0] * len(rates)
        known = [lr * share for lr, share in zip(rates, shares, strict=True)]
        if any(isinstance(lr, Tensor) for lr in known):
            return self._rates(known, x).clamp_max(1.0)
        sizes = [min(float(lr), 1.0) for lr in known]
        return sizes[0] if len(set(sizes)) == 1 else self._per_member(sizes, x)

    def _rates(self, rates: Sequence[float | Tensor], x: Tensor) -> Tensor:
        if any(isinstance(lr, Tensor) for lr in rates):
            return self._per_member(torch.stack([torch.as_tensor(lr).to(x) for lr in rates]), x)
        return self._per_member([float(lr) for lr in rates], x)

    def _advance(
        self, x: Tensor, vertex: Vertex, step_size: StepSize, owns: Sequence[dict[str, Any]]
    ) -> None:
        """x <- x + γ (vertex − x), and back inside if rounding crossed the boundary."""
        if not self.group.get("constrained", True):
            vertex.add_to(x, step_size)
        elif self.drifts:
            zeros = torch.zeros(self.shape, dtype=x.dtype, device=x.device)
            rest = self._joined([own.get("rest", zeros) for own in owns])
            rest = mix_doubled(x, rest, vertex, step_size)
            for own, part in zip(owns, rest.unbind(0) if self.batched else (rest,), strict=True):
                own["rest"] = part
        else:
            mix(x, vertex, step_size)
            if self.feasible:
                self._settle_all(x, step_size, owns)

    def _settle_all(self, x: Tensor, step_size: StepSize, owns: Sequence[dict[str, Any]]) -> None:
        if not isinstance(self.domain, MATRIX_BALLS):
            if isinstance(self.domain, NormBall):
                radii = [member.place.domain.radius for member in self.members]  # type: ignore[attr-defined]
                limit = radii[0] if len(set(radii)) == 1 else self._per_member(radii, x)
                x.div_(expand((self.domain.norm(x) / limit).clamp_min_(1.0), self.event_dim))
            return
        parts = x.unbind(0) if self.batched else (x,)
        sizes = self._known(step_size)
        for member, own, part, (least, most) in zip(self.members, owns, parts, sizes, strict=True):
            own["bound"] = self._bound(member, own["bound"], least, most)
            if own["bound"] > member.place.domain.radius:  # type: ignore[attr-defined]
                own["bound"] = self.settle(member, part)

    def _known(self, step_size: StepSize) -> list[tuple[float, float]]:
        """The least and the largest γ of each member; 0 and 1 if only a device knows them."""
        if not isinstance(step_size, Tensor):
            return [(step_size, step_size)] * len(self.members)
        if step_size.device.type != "cpu":
            return [(0.0, 1.0)] * len(self.members)
        flat = step_size.reshape(len(self.members), -1)
        return list(zip(flat.amin(1).tolist(), flat.amax(1).tolist(), strict=True))

    def _bound(self, member: Held, bound: float, least: float, most: float) -> float:
        """An upper bound on the norm after a step; while it is small, no decomposition is due.

            bound <- bound + γ (radius (1 − margin) − bound) + 2 eps √k · radius

        The rounding of one update has Frobenius norm at most 2 eps ‖W‖_F and full rank k, so its
        trace norm is up to √k times that.
        """
        radius: float = member.place.domain.radius  # type: ignore[attr-defined]
        distance = radius * (1 - self.margin) - bound
        return bound + (most if distance > 0 else least) * distance + 2 * self.rounding * radius

    def settle(self, member: Held, x: Tensor) -> float:
        """Undo outward rounding in place; return a bound on the norm, 0 where there is none."""
        return settle(member.place.domain, x, self.margin)


def settle(domain: Domain, x: Tensor, margin: float) -> float:
    """Scale back in balls, project elsewhere, in place; a bound on the norm in matrix balls."""
    if isinstance(domain, MATRIX_BALLS):
        limit = domain.radius * (1 - margin)
        size = domain.norm(x.double())
        x.mul_(expand((limit / size).clamp_max_(1.0).to(x.dtype), 2))
        return min(limit, float(size.max())) if x.device.type == "cpu" else limit
    if isinstance(domain, NormBall):
        x.div_(expand((domain.norm(x) / domain.radius).clamp_min_(1.0), domain.event_dim))
        return domain.radius
    projected = domain.project(x)
    if projected is not None:
        x.copy_(projected)
    return 0.0


def margin(domain: Domain, parameter: Tensor, shape: tuple[int, ...]) -> float:
    """Share of the radius that rounding can use up between two decompositions.

        period · eps · √k,   k = min(d, m)

    Computing singular values at every step would cost too much, so vertices and weights keep this
    distance from the sphere; see `Bucket._bound`. Other balls need none.
    """
    if not isinstance(domain, MATRIX_BALLS):
        return 0.0
    side = min(shape[-2:])
    period = min(max(32, side), 4096)
    return period * torch.finfo(_precision(parameter)).eps * math.sqrt(side)


def drifts(domain: Domain, parameter: Tensor) -> bool:
    """Whether rounding would accumulate, because there is no norm to scale x back by.

    A sum over a simplex, or a row sum of a Birkhoff matrix, drifts by 1e-4 in 10,000 float32 steps.
    """
    return _precision(parameter) == torch.float32 and not isinstance(domain, NormBall)


def mix(x: Tensor, vertex: Vertex, step_size: StepSize) -> None:
    """x <- x + γ (vertex − x), in place."""
    if isinstance(vertex, Rank1) and x.ndim <= 3 and not isinstance(step_size, Tensor):
        u, v = vertex.u.unsqueeze(-1), vertex.v.unsqueeze(-2)
        add = x.addmm_ if x.ndim == 2 else x.baddbmm_  # one pass over x
        add(u, v, beta=1 - step_size, alpha=step_size)
    elif isinstance(vertex, Dense | Sign):
        dims = vertex.event_dim
        x.lerp_(vertex.dense(), expand(step_size, dims))
    else:
        if isinstance(step_size, Tensor):
            x.mul_(expand(1 - step_size, vertex.event_dim))
        else:
            x.mul_(1 - step_size)
        vertex.add_to(x, step_size)


def mix_doubled(x: Tensor, rest: Tensor | float, vertex: Vertex, step_size: StepSize) -> Tensor:
    """x + rest <- (1 − γ)(x + rest) + γ · vertex; returns the rest, digits that x cannot hold."""
    full = x.double() + rest
    size = step_size.double() if isinstance(step_size, Tensor) else step_size
    mix(full, vertex.each(_in_double), size)
    x.copy_(full)
    return (full - x).to(x.dtype)


def scaled(vertex: Vertex, factor: Tensor) -> Vertex:
    """factor · vertex, a factor `(members, *batch)` for each."""
    if isinstance(vertex, Rank1):
        return Rank1(vertex.u * expand(factor, 1), vertex.v)
    if isinstance(vertex, OneHot):
        return OneHot(vertex.index, vertex.value * factor, vertex.size)
    return Dense(vertex.dense() * expand(factor, vertex.event_dim), vertex.event_dim)


def rate_of(group: Group) -> float | Tensor:
    """The learning rate: a number, or a tensor that lives on an accelerator."""
    lr = group["lr"]
    if isinstance(lr, Tensor):
        lr = lr.reshape(())
        return float(lr) if lr.device.type == "cpu" else lr
    return float(lr)


def batches(held: Held) -> bool:
    """Whether parameters like this one may be stacked: fwnet's domains and oracles know batches."""
    return all(
        type(part).__module__.startswith("fwnet.") for part in (held.place.domain, held.oracle)
    )


def bucket_key(held: Held) -> Any:
    """Parameters with equal keys move together."""
    if not batches(held):
        return id(held.parameter)
    domain, parameter = held.place.domain, held.parameter
    kind = replace(domain, radius=1.0) if isinstance(domain, NormBall) else domain  # type: ignore[type-var]
    options = (held.group["rescale"], held.group.get("constrained", True))
    shape = tuple(held.place.points(_shaped(parameter)).shape)
    return (
        kind,
        held.place.kind,
        shape,
        parameter.dtype,
        parameter.device,
        id(held.oracle),
        options,
    )


def _in_double(part: Tensor, _: int) -> Tensor:
    return part.double() if part.is_floating_point() else part


def _lengths(points: Tensor, event_dim: int) -> Tensor:
    length: Tensor = torch.linalg.vector_norm(points, dim=tuple(range(-event_dim, 0)))
    return length


def _precision(parameter: Tensor) -> torch.dtype:
    """The dtype in which the parameter moves."""
    return torch.float64 if parameter.dtype == torch.float64 else torch.float32


def _shaped(parameter: Tensor) -> Tensor:
    return torch.empty(parameter.shape, device="meta")


def _tiny(x: Tensor) -> float:
    return torch.finfo(x.dtype).tiny
