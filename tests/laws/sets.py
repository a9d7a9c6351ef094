"""Drawn domains, each beside its formulas: what minimises a cost, and by how much a point leaves.

The formulas are those of `domains.cases`; here sizes and radii are random. A class joins by a line
of `FAMILIES`, or of `domains.cases.all_cases`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch import Tensor

import fwnet
from domains.cases import Case, above, all_cases, ball, group_norms, lp, polytope, singular_values
from domains.cases import spectraplex as spectraplex_case
from domains.cases import trace_norm as trace_norm_case

Array = np.ndarray
F64 = torch.float64
SMALL = (1, 2, 3, 5, 8, 12)
# Sides around those at which the top singular vectors are found by another method.
SIDES = (1, 2, 3, 4, 7, 15, 16, 17, 24)
LARGE_SIDES = (97, 127, 128, 129, 140, 160, 200, 260)


@dataclass(frozen=True, eq=False)
class Set:
    """A domain and what NumPy says about it."""

    case: Case
    reach: float  # no point is longer, in the Euclidean norm
    projection: Callable[[Array], Array] | None = None

    def __str__(self) -> str:
        radius = getattr(self.case.domain, "radius", None)
        return f"{self.case}" if radius is None else f"{self.case}(radius={radius!r})"

    @property
    def domain(self) -> fwnet.Domain:
        return self.case.domain

    @property
    def shape(self) -> tuple[int, ...]:
        return self.case.shape

    def minimum(self, cost: Array) -> float:
        """min over the set of ⟨cost, v⟩."""
        return float(self.case.minimum(torch.from_numpy(cost)[None])[0])

    def violation(self, x: Array) -> float:
        """By how much x leaves the set."""
        return float(self.case.violation(torch.from_numpy(x)[None])[0])

    def point(self, generator: np.random.Generator) -> Array:
        """Some point of the set."""
        seeded = torch.Generator().manual_seed(int(generator.integers(2**31)))
        return np.asarray(self.case.sample(1, seeded)[0].numpy())


def draw_radius(generator: np.random.Generator) -> float:
    """Mostly of order 1, else tiny or huge."""
    kind = generator.random()
    low, high = (-1, 1) if kind < 0.6 else (-9, -3) if kind < 0.8 else (3, 9)
    return float(10.0 ** generator.uniform(low, high))


# Projections ------------------------------------------------------------------------------------


def to_simplex(x: Array, radius: float) -> Array:
    """Nearest point of {v >= 0, Σ v = radius}, by sorting (Held, Wolfe and Crowder, 1974)."""
    ordered = np.sort(x)[::-1]
    means = (np.cumsum(ordered) - radius) / np.arange(1, len(x) + 1)
    shift = means[np.flatnonzero(ordered > means)[-1]] if (ordered > means).any() else means[0]
    return np.maximum(x - shift, 0.0)


def to_l1(x: Array, radius: float) -> Array:
    if np.abs(x).sum() <= radius:
        return x.copy()
    return np.sign(x) * to_simplex(np.abs(x), radius)


def to_l2(x: Array, radius: float) -> Array:
    return x * min(1.0, radius / max(np.linalg.norm(x), 1e-300))


def _by_svd(shrink: Callable[[Array], Array]) -> Callable[[Array], Array]:
    def project(x: Array) -> Array:
        u, s, vh = np.linalg.svd(x, full_matrices=False)
        return (u * shrink(s)) @ vh

    return project


def _by_eigh(shrink: Callable[[Array], Array]) -> Callable[[Array], Array]:
    def project(x: Array) -> Array:
        values, vectors = np.linalg.eigh((x + x.T) / 2)
        return (vectors * shrink(values)) @ vectors.T

    return project


# Families ---------------------------------------------------------------------------------------


def _sums(total: float, cap: float) -> Callable[[Tensor], Tensor]:
    return lambda x: torch.stack([above(-x), above(x - cap), (x.sum(-1) - total).abs()]).amax(0)


def _simplex(generator: np.random.Generator, radius: float) -> Set:
    n = int(generator.choice(SMALL))
    case = polytope(fwnet.Simplex(radius), radius * torch.eye(n, dtype=F64), _sums(radius, radius))
    return Set(case, radius, lambda x: to_simplex(x, radius))


def _hyper_simplex(generator: np.random.Generator, radius: float) -> Set:
    n = int(generator.choice(SMALL))
    k = int(generator.integers(1, n + 1))

    def minimum(cost: Tensor) -> Tensor:
        return radius * cost.sort(-1).values[:, :k].sum(-1)

    def sample(count: int, seeded: torch.Generator) -> Tensor:
        order = torch.rand(count, 3, n, dtype=F64, generator=seeded).argsort(-1)
        return (order < k).to(F64).mean(1) * radius

    far = radius * (2.0 * min(k, n - k)) ** 0.5
    case = Case(
        fwnet.HyperSimplex(k, radius), (n,), minimum, _sums(k * radius, radius), sample, far
    )
    return Set(case, radius * k**0.5)


def _k_sparse(generator: np.random.Generator, radius: float) -> Set:
    n = int(generator.choice(SMALL))
    k = int(generator.integers(1, n + 1))
    case = ball(
        fwnet.KSparseBall(k, radius),
        (n,),
        radius,
        lambda x: torch.maximum(x.abs().sum(-1) / k, above(x.abs())),
        lambda cost: cost.abs().sort(-1, descending=True).values[:, :k].sum(-1),
        2 * radius * k**0.5,
    )
    return Set(case, radius * k**0.5)


def _l1(generator: np.random.Generator, radius: float) -> Set:
    n = int(generator.choice(SMALL))
    case = ball(fwnet.L1Ball(radius), (n,), radius, lp(1), lambda c: above(c.abs()), 2 * radius)
    return Set(case, radius, lambda x: to_l1(x, radius))


def _l2(generator: np.random.Generator, radius: float) -> Set:
    n = int(generator.choice(SMALL))
    case = ball(fwnet.L2Ball(radius), (n,), radius, lp(2), lp(2), 2 * radius)
    return Set(case, radius, lambda x: to_l2(x, radius))


def _l_inf(generator: np.random.Generator, radius: float) -> Set:
    n = int(generator.choice(SMALL))
    case = ball(
        fwnet.LInfBall(radius), (n,), radius, lambda x: above(x.abs()), lp(1), 2 * radius * n**0.5
    )
    return Set(case, radius * n**0.5, lambda x: np.clip(x, -radius, radius))


def _lp(generator: np.random.Generator, radius: float) -> Set:
    n, p = int(generator.choice(SMALL)), float(generator.choice([1.25, 1.5, 3.0, 4.0]))
    far = 2 * radius * n ** max(0.0, 1 / 2 - 1 / p)
    case = ball(fwnet.LpBall(p, radius), (n,), radius, lp(p), lp(p / (p - 1)), far)
    return Set(case, far / 2)


def _box(generator: np.random.Generator, radius: float) -> Set:
    n = int(generator.choice(SMALL))
    low = torch.from_numpy(radius * generator.uniform(-1, 0.5, n))
    width = radius * generator.uniform(0, 1, n) * (generator.random(n) < 0.8)  # some are points
    high = low + torch.from_numpy(width)

    def sample(count: int, seeded: torch.Generator) -> Tensor:
        return low + (high - low) * torch.rand(count, n, dtype=F64, generator=seeded)

    case = Case(
        fwnet.Box(low, high),
        (n,),
        lambda cost: torch.minimum(cost * low, cost * high).sum(-1),
        lambda x: torch.maximum(above(x - high), above(low - x)),
        sample,
        float((high - low).norm()),
    )
    reach = float(torch.maximum(low.abs(), high.abs()).norm())
    return Set(case, reach, lambda x: np.clip(x, low.numpy(), high.numpy()))


def _groups(generator: np.random.Generator, radius: float) -> Set:
    n = int(generator.choice(SMALL[1:]))
    labels = torch.from_numpy(generator.integers(0, 3, n))
    norms = group_norms(labels)
    case = ball(
        fwnet.GroupL1Ball(labels, radius),
        (n,),
        radius,
        lambda x: norms(x).sum(-1),
        lambda cost: norms(cost).amax(-1),
        2 * radius,
    )
    return Set(case, radius)


def draw_sides(generator: np.random.Generator) -> tuple[int, int]:
    """Both sides small, or both around the sizes at which the method changes."""
    large = generator.random() < 0.3
    d, m = (int(side) for side in generator.choice(LARGE_SIDES if large else SIDES, 2))
    return d, m


def _trace_norm(generator: np.random.Generator, radius: float) -> Set:
    case = trace_norm_case(*draw_sides(generator), radius)
    return Set(case, radius, _by_svd(lambda s: to_l1(s, radius)))


def _spectral(generator: np.random.Generator, radius: float) -> Set:
    d, m = (int(side) for side in generator.choice(SIDES, 2))
    case = ball(
        fwnet.SpectralBall(radius),
        (d, m),
        radius,
        lambda x: singular_values(x)[:, 0],
        lambda cost: singular_values(cost).sum(-1),
        2 * radius * min(d, m) ** 0.5,
    )
    return Set(case, radius * min(d, m) ** 0.5, _by_svd(lambda s: np.minimum(s, radius)))


def _spectraplex(generator: np.random.Generator, radius: float) -> Set:
    n, _ = draw_sides(generator)
    case = spectraplex_case(n, radius)
    return Set(case, radius, _by_eigh(lambda values: to_simplex(values, radius)))


def _rows(generator: np.random.Generator, radius: float) -> Set:
    d, m = (int(side) for side in generator.choice(SIDES, 2))
    case = ball(
        fwnet.RowBall(radius),
        (d, m),
        radius,
        lambda x: lp(2)(x).amax(-1),
        lambda cost: lp(2)(cost).sum(-1),
        2 * radius * d**0.5,
    )
    return Set(case, radius * d**0.5, lambda x: np.stack([to_l2(row, radius) for row in x]))


def _product(generator: np.random.Generator, radius: float) -> Set:
    """Two vectors side by side, of unlike radii."""
    choice = generator.integers(0, len(VECTORS), 2)
    left, right = (VECTORS[int(k)](generator, draw_radius(generator)) for k in choice)
    n = left.shape[0]
    case = Case(
        fwnet.Product((left.domain, right.domain), (left.shape, right.shape)),
        (n + right.shape[0],),
        lambda c: left.case.minimum(c[:, :n]) + right.case.minimum(c[:, n:]),
        lambda x: torch.maximum(left.case.violation(x[:, :n]), right.case.violation(x[:, n:])),
        lambda count, g: torch.cat([left.case.sample(count, g), right.case.sample(count, g)], 1),
        float(np.hypot(left.case.diameter, right.case.diameter)),
    )
    return Set(case, float(np.hypot(left.reach, right.reach)))


def _known(generator: np.random.Generator, radius: float) -> Set:
    """One of the domains that the tests of `fwnet.domains` keep."""
    case = fixed_cases()[int(generator.integers(len(fixed_cases())))]
    point = case.sample(1, torch.Generator().manual_seed(0))[0]
    return Set(case, float(point.norm()) + case.diameter)


@cache
def fixed_cases() -> list[Case]:
    return all_cases()


Family = Callable[[np.random.Generator, float], Set]
VECTORS: list[Family] = [
    _simplex,
    _hyper_simplex,
    _k_sparse,
    _l1,
    _l2,
    _l_inf,
    _lp,
    _box,
    _groups,
]
MATRICES: list[Family] = [_trace_norm, _spectral, _spectraplex, _rows]
FAMILIES: list[Family] = [
    *VECTORS,
    *MATRICES,
    _trace_norm,
    _spectraplex,
    _product,
    _product,
    _known,
    _known,
    _known,
    _known,
]


def draw_set(generator: np.random.Generator) -> Set:
    """A random domain."""
    family = FAMILIES[int(generator.integers(len(FAMILIES)))]
    return family(generator, draw_radius(generator))
