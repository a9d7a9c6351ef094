"""One step of parameters of the same shape and kind of domain, in one batch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, final

import torch
from torch import Tensor

from fwnet.domains import Domain, NormBall, TraceNormBall
from fwnet.numerics import checks
from fwnet.numerics.tensors import expand
from fwnet.optim.fused import FusedStep
from fwnet.optim.groups import Held, State, gradient_of, name_of, rate_of
from fwnet.optim.mixing import (
    MATRIX_BALLS,
    StepSize,
    drifts,
    margin,
    mix,
    mix_doubled,
    precision,
    settle,
)
from fwnet.optim.momenta import Momenta
from fwnet.optim.weights import (
    HALF,
    gathered,
    is_sharded,
    local,
    norm_of_shards,
    precise,
    read,
    write,
)
from fwnet.vertices import Dense, OneHot, Rank1, Vertex


@final
class Bucket:
    """Parameters that move together.

        m <- β m + (1 − β) g,   V = vertices of the stacked m,   x <- x + γ (v − x) for each

    Arguments:
        members: parameters of one shape, dtype and device, with equal options but for the learning
            rate, in domains that differ at most in their radius.
        feasible: whether they must never leave their domains.

    Attributes:
        asked, factors: the domain that the oracle is asked about, and what its vertices are
            multiplied by if the radii differ.
        by_diameter: γ / lr of each member if vertices lie on the sphere, √n / diameter.
        views: the points of parameters that move in place; empty if they are read and written.
        plain: whether each parameter is one tensor of the dtype in which it moves.
        drifts, matrices: how members are kept inside; see `drifts` and `stay_inside`.
        fused: the same step in machine code, once it pays.
    """

    fused: FusedStep | None = None

    def __init__(self, members: Sequence[Held], feasible: bool) -> None:
        self.members, self.feasible = tuple(members), feasible
        self.parameters = [member.parameter for member in members]
        first = members[0]
        self.group, self.oracle, self.domain = first.group, first.oracle, first.place.domain
        self.batched = len(members) > 1
        self.on_cpu, self.sharded = first.parameter.is_cpu, is_sharded(first.parameter)
        self.plain = not self.sharded and first.parameter.dtype not in HALF
        self.shape = first.place.shape(first.parameter)
        self.event_dim = self.domain.event_dim
        self.drifts = feasible and drifts(self.domain, first.parameter)
        self.matrices = feasible and isinstance(self.domain, MATRIX_BALLS)
        self.rounding = torch.finfo(precision(first.parameter)).eps * math.sqrt(
            min(self.shape[-2:])
        )
        self.margin = margin(self.domain, first.parameter, self.shape) if feasible else 0.0
        self.radii = [getattr(member.place.domain, "radius", None) for member in members]
        self.asked, self.factors = self._asked()
        self.root = math.sqrt(math.prod(self.shape[-self.event_dim :]))
        self.by_diameter = [self._by_diameter(member.place.domain) for member in members]
        self.views: list[Tensor] = []  # of parameters that are moved in place
        if self.plain and all(parameter.is_contiguous() for parameter in self.parameters):
            self.views = [m.place.points(m.parameter.detach()) for m in members]
        self.addresses = [parameter.data_ptr() for parameter in self.parameters]
        self.momenta = Momenta(self.members)

    def _asked(self) -> tuple[Domain, Tensor | None]:
        """`asked` and `factors`."""
        if not isinstance(self.domain, NormBall):
            return self.domain, None
        # in balls of matrices the vertices keep a distance from the sphere
        radii = [m.place.domain.radius * (1 - self.margin) for m in self.members]  # type: ignore[attr-defined]
        if len(set(radii)) == 1:
            return replace(self.domain, radius=radii[0]), None  # type: ignore[type-var]
        return replace(self.domain, radius=1.0), self._per_member(radii)  # type: ignore[type-var]

    def _by_diameter(self, domain: Domain) -> float:
        width = domain.diameter(self.shape)
        return self.root / width if width > 0 else 0.0

    def is_current(self) -> bool:
        """Whether the weights still are where the views are."""
        return self.addresses == [p.data_ptr() for p in self.parameters]

    def look(self) -> tuple[Tensor, bool] | None:
        """The gradients, and whether every member has one; None if machine code has seen that."""
        if self.fused is not None and self.fused.reads():
            return None
        gradient = self.gradient()
        return gradient, self.has_gradients(gradient)

    def gradient(self) -> Tensor:
        """The gradients as points, stacked; of shards, those of this worker as they are."""
        gradients: list[Any] = [p.grad for p in self.parameters]
        if not self.plain:
            gradients = [precise(local(gradient)) for gradient in gradients]
        if self.sharded:
            return torch.cat([gradient.reshape(-1) for gradient in gradients])
        if self.members[0].place.kind == "columns":
            gradients = [gradient.flatten(1).mT for gradient in gradients]
        stacked = self._joined(gradients)  # other points are parts of a weight as it is stored
        return stacked.reshape(*(len(gradients),) * self.batched, *self.shape)

    def has_gradients(self, gradient: Tensor) -> bool:
        """Whether every member is one point whose gradient is not 0; False also if unknown.

        On the CPU a gradient that is not finite raises. On an accelerator nothing is read, since
        that would wait for it; see `_only_finite`.
        """
        if not self.on_cpu:
            return False
        if self.sharded:
            sizes = [_size(member) for member in self.members]
        else:
            sizes = gradient.reshape(len(self.members), -1).sum(1).tolist()
            if not all(map(math.isfinite, sizes)):  # sums of finite numbers may overflow
                sizes = [_size(member) for member in self.members]
        return all(sizes) and len(self.shape) == self.event_dim

    def move(self, seen: tuple[Tensor, bool] | None, owns: Sequence[State]) -> None:
        """One step of every member, after a look at the gradients.

        Points whose gradients were all 0 so far stay where they are, since every vertex is optimal
        for them: rows of tokens that no minibatch had, experts that had no inputs.
        """
        xs = self.views or [
            m.place.points(read(m.parameter, own))
            for m, own in zip(self.members, owns, strict=True)
        ]
        finite: Sequence[Any] = [1.0] * len(self.members)
        if seen is None:
            assert self.fused is not None
            if self.fused.move(owns, xs):
                return
            assert self.momenta.joint is not None  # up to date, of a size for `orthogonalize` alone
            cost, has_gradients = self.momenta.joint, True
        else:
            self.begin(owns, xs)
            gradient, has_gradients = self.signed(seen[0]), seen[1]
            if not self.on_cpu:
                gradient, finite = self._only_finite(gradient)
            cost = self.momenta.update(gradient, float(self.group["momentum"]), owns)
        vertex, states = self.oracle.ask(self.asked, cost, self._states(owns))
        self._keep_states(owns, states)
        if self.factors is not None:
            vertex = scaled(vertex, self.factors)
        sizes = self._step_sizes(vertex, xs)
        if not has_gradients:
            live = zip(sizes, self._have_directions(cost), finite, strict=True)
            sizes = [size * has * part for size, has, part in live]
        self._advance(owns, xs, vertex, sizes)
        if not self.views:
            for m, own, x in zip(self.members, owns, xs, strict=True):
                write(m.parameter, own, m.place.tensor(x, tuple(m.parameter.shape)), m.place)

    def signed(self, gradient: Tensor) -> Tensor:
        """The gradient of what is minimised."""
        return -gradient if self.group["maximize"] else gradient

    def begin(self, owns: Sequence[State], xs: Sequence[Tensor]) -> None:
        """The state before the first step; also after the user changed the weights or a radius."""
        for member, own, x, radius in zip(self.members, owns, xs, self.radii, strict=True):
            if "oracle" not in own:
                own["oracle"] = self.oracle.begin(self.domain, x)
            if self.feasible and own.get("radius", math.nan) != radius:
                own["radius"] = radius
                own["bound"] = settle(member.place.domain, x, self.margin)

    def _have_directions(self, cost: Tensor) -> Sequence[StepSize]:
        """1 for points of each member with a momentum, 0 for those whose gradients were all 0."""
        some = cost.abs().amax(tuple(range(-self.event_dim, 0))) > 0
        parts = some.to(cost.dtype).unbind(0) if self.batched else [some.to(cost.dtype)]
        return [1.0 if self.on_cpu and bool(part.all()) else part for part in parts]

    def _only_finite(self, gradient: Tensor) -> tuple[Tensor, Sequence[Tensor]]:
        """0 instead of gradients that are not finite; which are, 1 or 0 for each member."""
        counts = [local(parameter).numel() for parameter in self.parameters]
        parts = gradient.reshape(-1).split(counts)
        if self.sharded:
            sizes = [norm_of_shards(gradient_of(parameter)) for parameter in self.parameters]
        else:
            sizes = [part.abs().amax() for part in parts]
        finite = [torch.isfinite(size) for size in sizes]
        zeroed = [torch.where(is_so, part, 0.0) for is_so, part in zip(finite, parts, strict=True)]
        return torch.cat(zeroed).reshape(gradient.shape), finite

    def _joined(self, tensors: Sequence[Tensor]) -> Tensor:
        return torch.stack(list(tensors)) if self.batched else tensors[0]

    def _states(self, owns: Sequence[State]) -> Any:
        states = [own["oracle"] for own in owns]
        return self._joined(states) if isinstance(states[0], Tensor) else states[0]

    def _keep_states(self, owns: Sequence[State], states: Any) -> None:
        stacked = self.batched and isinstance(states, Tensor)
        parts = states.unbind(0) if stacked else [states] * len(owns)
        for own, part in zip(owns, parts, strict=True):
            own["oracle"] = part

    def _per_member(self, values: Sequence[float]) -> Tensor:
        """`(members, 1, …)`, to multiply numbers `(members, *batch)`."""
        kind, device = precision(self.parameters[0]), self.parameters[0].device
        numbers = torch.tensor(values, dtype=kind).to(device, non_blocking=True)
        extra = len(self.shape) - self.event_dim
        return numbers.reshape(-1, *(1,) * extra) if self.batched else numbers.reshape(())

    def _step_sizes(self, vertex: Vertex, xs: Sequence[Tensor]) -> Sequence[StepSize]:
        """γ of each member: a number, or a tensor `(*batch)` if its points differ."""
        rates = [rate_of(member.group) for member in self.members]
        rescale = self.group["rescale"]
        if rescale is None:
            shares: Sequence[StepSize] = [1.0] * len(rates)
        elif rescale == "gradient":
            shares = [
                _by_gradient(member, part, x)
                for member, part, x in zip(self.members, self._each(vertex), xs, strict=True)
            ]
        elif rescale == "vertex" and isinstance(self.domain, TraceNormBall):
            shares = self._by_length(vertex)
        else:
            shares = self.by_diameter
        return [_at_most_one(lr * share) for lr, share in zip(rates, shares, strict=True)]

    def _by_length(self, vertex: Vertex) -> Sequence[StepSize]:
        """√n / (2 ‖v‖): soft and spectral vertices lie deep inside the trace-norm ball."""
        if isinstance(vertex, Rank1):
            return self.by_diameter
        lengths = torch.linalg.vector_norm(vertex.dense(), dim=(-2, -1))
        half = self.root / 2
        if lengths.ndim == self.batched and self.on_cpu:
            numbers = lengths.tolist() if self.batched else [lengths.item()]
            return [
                max(half / length, least) if length > 0 else least
                for length, least in zip(numbers, self.by_diameter, strict=True)
            ]
        shares = torch.where(lengths > 0, half / lengths.clamp_min(_tiny(lengths)), 0.0)
        parts = shares.unbind(0) if self.batched else (shares,)
        return [s.clamp_min(least) for s, least in zip(parts, self.by_diameter, strict=True)]

    def _advance(
        self,
        owns: Sequence[State],
        xs: Sequence[Tensor],
        vertex: Vertex,
        step_sizes: Sequence[StepSize],
    ) -> None:
        """x <- x + γ (vertex − x), and back inside if rounding crossed the boundary."""
        moves = zip(owns, xs, self._each(vertex), step_sizes, strict=True)
        if not self.group.get("constrained", True):
            for _, x, part, step_size in moves:
                part.add_to(x, step_size)
        elif self.drifts:
            for own, x, part, step_size in moves:
                own["rest"] = mix_doubled(x, own.get("rest", 0.0), part, step_size)
        else:
            for _, x, part, step_size in moves:
                mix(x, part, step_size)
            if self.matrices:
                self.stay_inside(owns, xs, step_sizes)
            elif self.feasible and isinstance(self.domain, NormBall):
                for member, x in zip(self.members, xs, strict=True):
                    settle(member.place.domain, x, self.margin)

    def _each(self, vertex: Vertex) -> Sequence[Vertex]:
        return unbound(vertex) if self.batched else [vertex]

    def stay_inside(
        self, owns: Sequence[State], xs: Sequence[Tensor], step_sizes: Sequence[StepSize]
    ) -> None:
        """Carry an upper bound on the norms; only if it reaches the radius decompose a matrix.

            bound <- bound + γ (radius (1 − margin) − bound) + (1 + 2γ) eps √k · radius

        The rounding of one update has Frobenius norm at most (1 + 2γ) eps ‖W‖_F and full rank k, so
        its trace norm is up to √k times that. Steps of γ > 1/1000 outweigh it for good.
        """
        for member, own, x, step_size in zip(self.members, owns, xs, step_sizes, strict=True):
            radius, bound = own["radius"], own["bound"]
            least, most = _extremes(step_size)
            distance = radius * (1 - self.margin) - bound
            bound += (most if distance > 0 else least) * distance
            bound += (1 + 2 * most) * self.rounding * radius
            if bound > radius:
                bound = settle(member.place.domain, x, self.margin)
            own["bound"] = bound


def scaled(vertex: Vertex, factor: Tensor) -> Vertex:
    """factor · vertex, a factor `(members, *batch)` for each."""
    if isinstance(vertex, Rank1):
        return Rank1(vertex.u * expand(factor, 1), vertex.v)
    if isinstance(vertex, OneHot):
        return OneHot(vertex.index, vertex.value * factor, vertex.size)
    return Dense(vertex.dense() * expand(factor, vertex.event_dim), vertex.event_dim)


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
    names = ("rescale", "momentum", "maximize", "constrained")
    options = tuple(held.group.get(name) for name in names)
    stored = (parameter.shape, parameter.dtype, parameter.device, is_sharded(parameter))
    return kind, held.place.kind, stored, id(held.oracle), options


def unbound(vertex: Vertex) -> Sequence[Vertex]:
    """The vertices of a stack, one by one."""
    if isinstance(vertex, Dense):
        return [Dense(x, vertex.dims) for x in vertex.x.unbind(0)]
    if isinstance(vertex, Rank1):
        return list(map(Rank1, vertex.u.unbind(0), vertex.v.unbind(0)))
    fields = vars(vertex)
    parts = {name: fields[name].unbind(0) for name in vertex.tensors}
    count = len(next(iter(parts.values())))
    return [
        type(vertex)(**(fields | {name: own[k] for name, own in parts.items()}))
        for k in range(count)
    ]


def _by_gradient(member: Held, vertex: Vertex, x: Tensor) -> Tensor:
    """‖g‖ / ‖v − x‖, `(*batch,)`; 0 if x is the vertex."""
    dims = tuple(range(-vertex.event_dim, 0))
    distance = torch.linalg.vector_norm(vertex.dense() - x, dim=dims)
    gradient = member.place.points(gathered(gradient_of(member.parameter))).to(x.dtype)
    slope = torch.linalg.vector_norm(gradient, dim=dims)
    return torch.where(distance > 0, slope / distance.clamp_min(_tiny(x)), 0.0)


def _at_most_one(step_size: StepSize) -> StepSize:
    return min(step_size, 1.0) if isinstance(step_size, float) else step_size.clamp_max(1.0)


def _extremes(step_size: StepSize) -> tuple[float, float]:
    """The least and the largest γ of a parameter's points; 0 and 1 if only a device knows them."""
    if isinstance(step_size, float):
        return step_size, step_size
    if step_size.device.type != "cpu":
        return 0.0, 1.0
    least, most = step_size.aminmax()
    return float(least), float(most)


def _size(held: Held) -> float:
    """The size of a gradient on this machine, 0 only if it is 0; raise if it is not finite."""
    gradient = gradient_of(held.parameter)
    size = float(norm_of_shards(gradient) if is_sharded(gradient) else gradient.abs().max())
    if not math.isfinite(size):  # or its square overflows
        checks.finite(f"the gradient of {name_of(held.parameter, held.group)}", gathered(gradient))
    return size if size > 0 else float(gathered(gradient).abs().max())


def _tiny(x: Tensor) -> float:
    return torch.finfo(x.dtype).tiny
