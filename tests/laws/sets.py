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
from domains import cases
from domains.cases import Case, all_cases, capped_sums, polytope
from fwnet.numerics.singular import SMALL
from laws import faces
from laws.projections import by_eigh, by_svd, to_l1, to_l2, to_simplex

Array = np.ndarray
F64 = torch.float64
VECTOR_SIZES = (1, 2, 3, 5, 8, 12)
# Sides around those at which extreme singular vectors are found and bounded by another method: 16
# and 128 for implicit matrices, SMALL for dense ones, 256 for the restarts of Lanczos.
SIDES = (1, 2, 3, 4, 7, 15, 16, 17, 24)
LARGE_SIDES = (97, 127, 128, 129, 160, SMALL - 1, SMALL, SMALL + 1, 200, 255, 260)


@dataclass(frozen=True, eq=False)
class Set:
    """A domain and what NumPy says about it."""

    case: Case
    reach: float  # no point is longer, in the Euclidean norm
    projection: Callable[[Array], Array] | None = None
    parts: tuple[Set, ...] = ()  # of a product

    def __str__(self) -> str:
        radius = getattr(self.case.domain, "radius", None)
        return f"{self.case}" if radius is None else f"{self.case}(radius={radius!r})"

    @property
    def domain(self) -> fwnet.Domain:
        return self.case.domain

    @property
    def shape(self) -> tuple[int, ...]:
        return self.case.shape

    def blocks(self, x: Array) -> list[tuple[Set, Array]]:
        """The factors of a product, each with its block of x; or the set itself, with x."""
        if not self.parts:
            return [(self, x)]
        cuts = np.cumsum([np.prod(part.shape) for part in self.parts])[:-1]
        pairs = zip(self.parts, np.split(x, cuts), strict=True)
        return [(part, block.reshape(part.shape)) for part, block in pairs]

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


# Families ---------------------------------------------------------------------------------------


def _simplex(generator: np.random.Generator, radius: float) -> Set:
    n = int(generator.choice(VECTOR_SIZES))
    return Set(cases.simplex(n, radius), radius, lambda x: to_simplex(x, radius))


def _hyper_simplex(generator: np.random.Generator, radius: float) -> Set:
    n = int(generator.choice(VECTOR_SIZES))
    k = int(generator.integers(1, n + 1))

    def minimum(cost: Tensor) -> Tensor:
        return radius * cost.sort(-1).values[:, :k].sum(-1)

    def sample(count: int, seeded: torch.Generator) -> Tensor:
        order = torch.rand(count, 3, n, dtype=F64, generator=seeded).argsort(-1)
        return (order < k).to(F64).mean(1) * radius

    far = radius * (2.0 * min(k, n - k)) ** 0.5
    case = Case(
        fwnet.HyperSimplex(k, radius), (n,), minimum, capped_sums(k * radius, radius), sample, far
    )
    return Set(case, radius * k**0.5)


def _k_sparse(generator: np.random.Generator, radius: float) -> Set:
    n = int(generator.choice(VECTOR_SIZES))
    case = cases.k_sparse(n, int(generator.integers(1, n + 1)), radius)
    return Set(case, case.diameter / 2)


def _l1(generator: np.random.Generator, radius: float) -> Set:
    n = int(generator.choice(VECTOR_SIZES))
    return Set(cases.l1(n, radius), radius, lambda x: to_l1(x, radius))


def l2(generator: np.random.Generator, radius: float) -> Set:
    n = int(generator.choice(VECTOR_SIZES))
    return Set(cases.l2(n, radius), radius, lambda x: to_l2(x, radius))


def _l_inf(generator: np.random.Generator, radius: float) -> Set:
    case = cases.l_inf(int(generator.choice(VECTOR_SIZES)), radius)
    return Set(case, case.diameter / 2, lambda x: np.clip(x, -radius, radius))


def _lp(generator: np.random.Generator, radius: float) -> Set:
    n, p = int(generator.choice(VECTOR_SIZES)), float(generator.choice([1.05, 1.5, 3.0, 20.0]))
    case = cases.lp_ball(n, p, radius)
    return Set(case, case.diameter / 2)


def _box(generator: np.random.Generator, radius: float) -> Set:
    n = int(generator.choice(VECTOR_SIZES))
    low = torch.from_numpy(radius * generator.uniform(-1, 0.5, n))
    width = radius * generator.uniform(0, 1, n) * (generator.random(n) < 0.8)  # some are points
    high = low + torch.from_numpy(width)
    reach = float(torch.maximum(low.abs(), high.abs()).norm())
    return Set(cases.box(n, low, high), reach, lambda x: np.clip(x, low.numpy(), high.numpy()))


def _groups(generator: np.random.Generator, radius: float) -> Set:
    n = int(generator.choice(VECTOR_SIZES[1:]))
    labels = torch.from_numpy(generator.integers(0, 3, n))
    return Set(cases.group_l1(labels, radius), radius)


def draw_sides(generator: np.random.Generator) -> tuple[int, int]:
    """Both sides small, or both around the sizes at which the method changes."""
    large = generator.random() < 0.3
    d, m = (int(side) for side in generator.choice(LARGE_SIDES if large else SIDES, 2))
    return d, d if generator.random() < 0.4 else m


def _small_sides(generator: np.random.Generator) -> tuple[int, int]:
    d, m = generator.choice(SIDES, 2).tolist()
    return d, m


def _trace_norm(generator: np.random.Generator, radius: float) -> Set:
    case = cases.trace_norm(*draw_sides(generator), radius)
    return Set(case, radius, by_svd(lambda s: to_l1(s, radius)))


def _spectral(generator: np.random.Generator, radius: float) -> Set:
    case = cases.spectral(*_small_sides(generator), radius)
    return Set(case, case.diameter / 2, by_svd(lambda s: np.minimum(s, radius)))


def _schatten(generator: np.random.Generator, radius: float) -> Set:
    sides, p = _small_sides(generator), float(generator.choice([1.05, 1.5, 2.0, 3.0, 20.0]))
    case = cases.schatten(*sides, p, radius)
    return Set(case, case.diameter / 2)


def _spectraplex(generator: np.random.Generator, radius: float) -> Set:
    n, _ = draw_sides(generator)
    case = cases.spectraplex(n, radius)
    return Set(case, radius, by_eigh(lambda values: to_simplex(values, radius)))


def _rows(generator: np.random.Generator, radius: float) -> Set:
    case = cases.row_ball(*_small_sides(generator), radius)
    return Set(case, case.diameter / 2, lambda x: np.stack([to_l2(row, radius) for row in x]))


# Polytopes by their vertices ----------------------------------------------------------------------


def _polytope(generator: np.random.Generator, radius: float) -> Set:
    """Rows of very unlike lengths, some twice; vertices are found at size 1, with a tolerance."""
    family = faces.slanted if generator.random() < 0.6 else faces.plane
    unit, radius = family(generator, int(generator.integers(1, 5)), 1.0), max(radius, 1e-3)
    kept = [*range(len(unit.rows)), *generator.integers(unit.equal, len(unit.rows), 2)]
    scale = torch.from_numpy(10.0 ** generator.uniform(-4, 4, len(kept)))
    rows = scale[:, None] * torch.from_numpy(unit.rows[kept])
    limits = scale * radius * torch.from_numpy(unit.limits[kept])
    lengths = rows.norm(dim=1)
    e = unit.equal
    domain = fwnet.Polytope(
        rows[e:], limits[e:], *((rows[:e], limits[:e]) if e else ()), bounds=(None, None)
    )

    def violation(x: Tensor) -> Tensor:
        apart = (x @ rows.T - limits) / lengths
        return torch.cat([apart, -apart[:, :e]], 1).amax(-1)

    vertices = radius * torch.from_numpy(unit.vertices)
    return Set(polytope(domain, vertices, violation), float(vertices.norm(dim=1).max()))


def _hull(generator: np.random.Generator, radius: float) -> Set:
    """Of vectors or of matrices; some points twice, some inside, or one only."""
    count, n = int(generator.integers(1, 9)), int(generator.choice(VECTOR_SIZES[:4]))
    shape = (n,) if generator.random() < 0.6 else (n, int(generator.choice(VECTOR_SIZES[:4])))
    points = generator.standard_normal((count, *shape)) + generator.choice([0.0, 3.0])
    points = torch.from_numpy(points[generator.integers(0, count, count + 1)])
    return Set(cases.hull(points, radius), radius * float(points.flatten(1).norm(dim=1).max()))


def _transport(generator: np.random.Generator, radius: float) -> Set:
    """Sums of unlike sizes, some of them 0."""
    radius = max(radius, 1e-3)
    d, m = (int(side) for side in generator.integers(1, 4, 2))
    rows, columns = (
        generator.dirichlet(np.ones(side)) * (generator.random(side) < 0.8) for side in (d, m)
    )
    rows[0], columns[0] = rows[0] + 0.1, columns[0] + 0.1
    a, b = (torch.from_numpy(x / x.sum()) for x in (rows, columns))
    vertices = cases.transport_corners(a, b).flatten(1)
    return Set(cases.transport(a, b, radius), radius * float(vertices.norm(dim=1).max()))


def _birkhoff(generator: np.random.Generator, radius: float) -> Set:
    n = int(generator.integers(1, 6))
    return Set(cases.birkhoff(n), n**0.5)


# Of pieces, and fixed -----------------------------------------------------------------------------


def _product(generator: np.random.Generator, radius: float) -> Set:
    """One to three vectors or small matrices side by side, of unlike radii."""
    families = [*VECTORS, *MATRICES, *POLYTOPES]
    parts: list[Set] = []
    while not parts or (len(parts) < 3 and generator.random() < 0.6):
        family = families[int(generator.integers(len(families)))]
        drawn = family(generator, draw_radius(generator))
        parts += [drawn] if np.prod(drawn.shape) <= 60 else []
    reach = float(np.linalg.norm([part.reach for part in parts]))
    return Set(cases.product([part.case for part in parts]), reach, parts=tuple(parts))


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
    l2,
    _l_inf,
    _lp,
    _box,
    _groups,
]
MATRICES: list[Family] = [_trace_norm, _spectral, _schatten, _spectraplex, _rows]
POLYTOPES: list[Family] = [_polytope, _hull, _transport, _birkhoff]
FAMILIES: list[Family] = [
    *VECTORS,
    *MATRICES,
    *POLYTOPES,
    _simplex,  # most slots are made for it, as are compiled loops, which the l1 ball has too
    _simplex,
    _simplex,
    _l1,
    _trace_norm,
    _trace_norm,
    _spectraplex,
    _product,
    _product,
    _known,
    _known,
]


def draw_set(generator: np.random.Generator) -> Set:
    """A random domain."""
    family = FAMILIES[int(generator.integers(len(FAMILIES)))]
    return family(generator, draw_radius(generator))
