"""One list of every domain, with minimisers and constraints by brute force."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from fwnet.domains import (
    Birkhoff,
    Box,
    ConvexHull,
    Domain,
    GroupL1Ball,
    HyperSimplex,
    KSparseBall,
    L1Ball,
    L2Ball,
    LInfBall,
    LpBall,
    Polytope,
    Product,
    RowBall,
    SchattenBall,
    Simplex,
    SpectralBall,
    Spectraplex,
    TraceNormBall,
    TransportPolytope,
)

Function = Callable[[Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Case:
    """A domain and what is known about it without asking it; all in float64."""

    domain: Domain
    shape: tuple[int, ...]
    minimum: Function  # costs (N, *shape) -> min over the domain of ⟨cost, x⟩, (N,)
    violation: Function  # points (N, *shape) -> by how much they leave the domain, (N,)
    sample: Callable[[int, torch.Generator], Tensor]  # feasible points (N, *shape)
    diameter: float
    bound_only: bool = False  # the domain's own diameter is an upper bound

    def __str__(self) -> str:
        return f"{type(self.domain).__name__}{'x'.join(map(str, self.shape))}"


def normal(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=generator)


def uniform(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.rand(*shape, dtype=torch.float64, generator=generator)


def polytope(
    domain: Domain, vertices: Tensor, violation: Function, bound_only: bool = False
) -> Case:
    """A domain whose vertices (K, *shape) are all known."""
    flat = vertices.flatten(1)

    def sample(count: int, generator: torch.Generator) -> Tensor:
        weights = uniform(generator, count, len(flat)).log().neg() ** 3  # some near the boundary
        weights /= weights.sum(-1, keepdim=True)
        return (weights @ flat).reshape(count, *vertices.shape[1:])

    return Case(
        domain,
        tuple(vertices.shape[1:]),
        lambda cost: (cost.flatten(1) @ flat.T).amin(-1),
        violation,
        sample,
        float((flat[:, None] - flat).norm(dim=-1).max()),
        bound_only,
    )


def ball(
    domain: Domain,
    shape: tuple[int, ...],
    radius: float,
    gauge: Function,
    dual: Function,
    far: float,
) -> Case:
    """A ball {x : gauge(x) <= radius}; the minimum of a cost is −radius · dual(cost)."""

    def sample(count: int, generator: torch.Generator) -> Tensor:
        x = normal(generator, count, *shape)
        length = radius * uniform(generator, count) ** 0.2 / gauge(x)
        return x * length.reshape(-1, *(1 for _ in shape))

    return Case(
        domain,
        shape,
        lambda cost: -radius * dual(cost),
        lambda x: gauge(x) - radius,
        sample,
        far,
    )


def lp(p: float) -> Function:
    def norm(x: Tensor) -> Tensor:
        largest = x.abs().amax(-1, keepdim=True).clamp_min(torch.finfo(x.dtype).tiny)
        scaled = (x / largest).abs()  # large powers of large numbers are infinite
        return largest.squeeze(-1) * (scaled**p).sum(-1) ** (1 / p)

    return norm


def signs(n: int) -> Tensor:
    return torch.tensor(list(itertools.product((-1.0, 1.0), repeat=n)), dtype=torch.float64)


def subsets(n: int, k: int) -> Tensor:
    rows = torch.zeros(0, n, dtype=torch.float64)
    for chosen in itertools.combinations(range(n), k):
        row = torch.zeros(1, n, dtype=torch.float64)
        row[0, list(chosen)] = 1.0
        rows = torch.cat([rows, row])
    return rows


def corners(A: Tensor, b: Tensor, equal: int) -> Tensor:
    """Vertices of {x : A x <= b, the first `equal` rows with =}, from all n-subsets of rows."""
    n = A.shape[1]
    found = []
    for chosen in itertools.combinations(range(equal, len(A)), n - equal):
        rows = [*range(equal), *chosen]
        if torch.linalg.matrix_rank(A[rows]) == n:
            x = torch.linalg.solve(A[rows], b[rows])
            if bool((A @ x <= b + 1e-9).all()) and bool(((A @ x - b)[:equal].abs() < 1e-9).all()):
                found.append(x)
    return torch.stack(found)


def above(x: Tensor) -> Tensor:
    """The largest entry of each point (N, *shape)."""
    return x.flatten(1).amax(-1)


def transport_corners(rows: Tensor, columns: Tensor) -> Tensor:
    d, m = len(rows), len(columns)
    row_of = torch.eye(d, dtype=torch.float64).repeat_interleave(m, 1)
    column_of = torch.eye(m, dtype=torch.float64).repeat(1, d)
    equalities = torch.cat([row_of, column_of])[:-1]
    A = torch.cat([equalities, -torch.eye(d * m, dtype=torch.float64)])
    b = torch.cat([torch.cat([rows, columns])[:-1], torch.zeros(d * m, dtype=torch.float64)])
    return corners(A, b, d + m - 1).reshape(-1, d, m)


def singular_values(x: Tensor) -> Tensor:
    values: Tensor = torch.linalg.svdvals(x)
    return values


def group_norms(labels: Tensor) -> Function:
    return lambda x: torch.stack([x[:, labels == g].norm(dim=-1) for g in labels.unique()], -1)


def spectraplex(n: int, radius: float) -> Case:
    def sample(count: int, generator: torch.Generator) -> Tensor:
        root = normal(generator, count, n, 2)
        x = root @ root.mT
        return radius * x / x.diagonal(dim1=-2, dim2=-1).sum(-1)[:, None, None]

    def violation(x: Tensor) -> Tensor:
        trace = (x.diagonal(dim1=-2, dim2=-1).sum(-1) - radius).abs()
        skew = above((x - x.mT).abs())
        negative = -torch.linalg.eigvalsh((x + x.mT) / 2)[:, 0]
        return torch.stack([trace, skew, negative]).amax(0)

    return Case(
        Spectraplex(radius),
        (n, n),
        lambda cost: radius * torch.linalg.eigvalsh((cost + cost.mT) / 2)[:, 0],
        violation,
        sample,
        radius * 2**0.5,
    )


def trace_norm(d: int, m: int, radius: float) -> Case:
    def gauge(x: Tensor) -> Tensor:
        return singular_values(x).sum(-1)

    return ball(
        TraceNormBall(radius), (d, m), radius, gauge, lambda c: singular_values(c)[:, 0], 2 * radius
    )


def all_cases() -> list[Case]:
    generator = torch.Generator().manual_seed(5)
    eye = torch.eye(6, dtype=torch.float64)
    labels = torch.tensor([4, 0, 4, 9, 0, 9, 4])
    norms = group_norms(labels)
    low, high = (
        torch.tensor([-1.0, 0, -2, 1, -1]).double(),
        torch.tensor([1.0, 2, -1, 1, 3]).double(),
    )
    rows, columns = torch.tensor([1.0, 2.5, 0.5]).double(), torch.tensor([0.75, 1.25, 2.0]).double()
    A = torch.cat([normal(generator, 7, 3), torch.eye(3).double(), -torch.eye(3).double()])
    b = torch.cat([uniform(generator, 7) + 0.5, torch.full((6,), 2.0).double()])
    slanted = corners(A, b, 0)
    slice_A = torch.cat([torch.tensor([[1.0, 2.0, 3.0, 1.0]]).double(), -torch.eye(4).double()])
    slice_b = torch.tensor([3.0, 0, 0, 0, 0]).double()
    cut = corners(slice_A, slice_b, 1)
    points = normal(generator, 9, 2, 3)
    hull = ConvexHull(points)
    small, one = Simplex(2.0), L1Ball(1.5)
    grid = [
        torch.cat([2 * x, 1.5 * s * y]) for x in eye[:2, :2] for y in eye[:3, :3] for s in (-1, 1)
    ]
    permutations = [eye[list(order), :4] for order in itertools.permutations(range(4))]
    doubly = torch.stack([p[:, :4] for p in permutations])

    def plan_violation(x: Tensor) -> Tensor:
        errors = [above(-x), above((x.sum(-1) - rows).abs()), above((x.sum(-2) - columns).abs())]
        return torch.stack(errors).amax(0)

    def sum_violation(total: float, cap: float) -> Function:
        def violation(x: Tensor) -> Tensor:
            return torch.stack([above(-x), above(x - cap), (x.sum(-1) - total).abs()]).amax(0)

        return violation

    def product_violation(x: Tensor) -> Tensor:
        left = sum_violation(2.0, 2.0)(x[:, :2])
        return torch.maximum(left, x[:, 2:].abs().sum(-1) - 1.5)

    def hull_violation(x: Tensor) -> Tensor:
        from scipy.optimize import nnls

        flat = points.flatten(1)
        result = []
        for point in x.flatten(1):
            lifted = torch.cat([flat - point, torch.full((9, 1), 1e-3).double()], 1).T
            target = torch.tensor([0.0] * 6 + [1e-3]).double()
            w = torch.from_numpy(nnls(lifted.numpy(), target.numpy())[0])
            result.append(((w / w.sum()) @ flat - point).norm())
        return torch.stack(result)

    mixed = Product((TraceNormBall(1.5), Simplex(2.0)), ((2, 3), (4,)))
    left, right = trace_norm(2, 3, 1.5), polytope(small, 2 * eye[:4, :4], sum_violation(2.0, 2.0))

    def parts(x: Tensor) -> tuple[Tensor, Tensor]:
        return x[:, :6].reshape(-1, 2, 3), x[:, 6:]

    return [
        polytope(small, 2 * eye, sum_violation(2.0, 2.0)),
        polytope(HyperSimplex(2, 0.5), 0.5 * subsets(5, 2), sum_violation(1.0, 0.5)),
        polytope(HyperSimplex(4, 1.5), 1.5 * subsets(6, 4), sum_violation(6.0, 1.5)),
        polytope(one, 1.5 * torch.cat([eye, -eye]), lambda x: x.abs().sum(-1) - 1.5),
        polytope(LInfBall(1.5), 1.5 * signs(5), lambda x: above(x.abs()) - 1.5),
        polytope(
            Box(low, high),
            torch.where(signs(5) > 0, high, low),
            lambda x: torch.maximum(above(x - high), above(low - x)),
        ),
        polytope(
            Box(-0.5, 1.25),
            torch.where(signs(4) > 0, 1.25, -0.5).double(),
            lambda x: torch.maximum(above(x - 1.25), above(-0.5 - x)),
        ),
        polytope(
            KSparseBall(2, 1.5),
            1.5 * (subsets(5, 2)[:, None] * signs(5)).reshape(-1, 5).unique(dim=0),
            lambda x: torch.maximum(x.abs().sum(-1) - 3.0, above(x.abs()) - 1.5),
        ),
        polytope(
            Birkhoff(4),
            doubly,
            lambda x: torch.stack(
                [above(-x), above((x.sum(-1) - 1).abs()), above((x.sum(-2) - 1).abs())]
            ).amax(0),
        ),
        polytope(
            TransportPolytope(rows, columns), transport_corners(rows, columns), plan_violation, True
        ),
        polytope(Polytope(A, b), slanted, lambda x: above(x @ A.T - b), True),
        polytope(
            Polytope(A_eq=slice_A[:1], b_eq=slice_b[:1], bounds=(0.0, None)),
            cut,
            lambda x: torch.maximum(above(-x), (x @ slice_A[0] - 3.0).abs()),
            True,
        ),
        polytope(hull, points, hull_violation),
        polytope(Product((small, one), ((2,), (3,))), torch.stack(grid), product_violation),
        ball(L2Ball(1.5), (6,), 1.5, lp(2), lp(2), 3.0),
        ball(LpBall(3.0, 1.5), (6,), 1.5, lp(3), lp(1.5), 3.0 * 6 ** (1 / 2 - 1 / 3)),
        ball(LpBall(1.25, 0.5), (6,), 0.5, lp(1.25), lp(5), 1.0),
        ball(
            GroupL1Ball(labels, 1.5),
            (7,),
            1.5,
            lambda x: norms(x).sum(-1),
            lambda c: norms(c).amax(-1),
            3.0,
        ),
        trace_norm(4, 6, 1.5),
        trace_norm(7, 3, 2.0),
        trace_norm(150, 140, 1.5),
        ball(
            SpectralBall(1.5),
            (4, 3),
            1.5,
            lambda x: singular_values(x)[:, 0],
            lambda c: singular_values(c).sum(-1),
            3.0 * 3**0.5,
        ),
        *(
            ball(
                SchattenBall(p, 1.5),
                (4, 3),
                1.5,
                lambda x, p=p: lp(p)(singular_values(x)),
                lambda c, p=p: lp(p / (p - 1))(singular_values(c)),
                3.0 * 3 ** max(0.0, 1 / 2 - 1 / p),
            )
            for p in (1.5, 2.0, 4.0)
        ),
        ball(
            RowBall(1.5),
            (4, 3),
            1.5,
            lambda x: lp(2)(x).amax(-1),
            lambda c: lp(2)(c).sum(-1),
            3.0 * 4**0.5,
        ),
        spectraplex(5, 1.5),
        spectraplex(140, 1.0),
        Case(
            mixed,
            (10,),
            lambda c: left.minimum(parts(c)[0]) + right.minimum(parts(c)[1]),
            lambda x: torch.maximum(left.violation(parts(x)[0]), right.violation(parts(x)[1])),
            lambda count, g: torch.cat(
                [left.sample(count, g).flatten(1), right.sample(count, g)], 1
            ),
            (left.diameter**2 + right.diameter**2) ** 0.5,
        ),
    ]


CASES = all_cases()
