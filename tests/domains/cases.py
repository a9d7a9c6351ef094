"""One list of every domain, with minimisers and constraints by brute force."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import nnls
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
from fwnet.numerics.tensors import ImplicitMatrix

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


def capped_sums(total: float, cap: float) -> Function:
    """By how much points leave {0 <= x <= cap, Σ x = total}."""
    return lambda x: torch.stack([above(-x), above(x - cap), (x.sum(-1) - total).abs()]).amax(0)


def plan_errors(rows: Tensor, columns: Tensor) -> Function:
    """By how much matrices leave {x >= 0, with these sums}."""

    def violation(x: Tensor) -> Tensor:
        sums = (above((x.sum(-1) - rows).abs()), above((x.sum(-2) - columns).abs()))
        return torch.stack([above(-x), *sums]).amax(0)

    return violation


def hull(points: Tensor, radius: float = 1.0) -> Case:
    """The hull of radius · points (K, *shape); distances by non-negative least squares."""
    flat = points.flatten(1)
    target = np.append(np.zeros(flat.shape[1]), 1e-3)

    def distance(point: Tensor) -> Tensor:
        lifted = torch.cat([flat - point, torch.full((len(flat), 1), 1e-3).double()], 1).T
        w = torch.from_numpy(nnls(lifted.numpy(), target)[0])
        return ((w / w.sum()) @ flat - point).norm()

    def violation(x: Tensor) -> Tensor:
        return radius * torch.stack([distance(point) for point in x.flatten(1) / radius])

    return polytope(ConvexHull(radius * points), radius * points, violation)


def implicit(matrix: Tensor) -> ImplicitMatrix:
    """The same matrix, known by its products."""
    return ImplicitMatrix(
        matrix.shape,
        lambda v: matrix @ v,
        lambda u: matrix.mT @ u,
        lambda: matrix,
        matrix.dtype,
        matrix.device,
    )


def simplex(n: int, radius: float) -> Case:
    vertices = radius * torch.eye(n, dtype=torch.float64)
    return polytope(Simplex(radius), vertices, capped_sums(radius, radius))


def hyper_simplex(n: int, k: int, radius: float) -> Case:
    vertices = radius * subsets(n, k)
    return polytope(HyperSimplex(k, radius), vertices, capped_sums(k * radius, radius))


def l1(n: int, radius: float) -> Case:
    eye = torch.eye(n, dtype=torch.float64)
    vertices = radius * torch.cat([eye, -eye])
    return polytope(L1Ball(radius), vertices, lambda x: x.abs().sum(-1) - radius)


def l2(n: int, radius: float) -> Case:
    return ball(L2Ball(radius), (n,), radius, lp(2), lp(2), 2 * radius)


def l_inf(n: int, radius: float) -> Case:
    far = 2 * radius * n**0.5
    return ball(LInfBall(radius), (n,), radius, lambda x: above(x.abs()), lp(1), far)


def k_sparse(n: int, k: int, radius: float) -> Case:
    return ball(
        KSparseBall(k, radius),
        (n,),
        radius,
        lambda x: torch.maximum(x.abs().sum(-1) / k, above(x.abs())),
        lambda cost: cost.abs().sort(-1, descending=True).values[:, :k].sum(-1),
        2 * radius * k**0.5,
    )


def box(n: int, lower: Tensor | float, upper: Tensor | float) -> Case:
    low, high = (torch.as_tensor(end, dtype=torch.float64).expand(n) for end in (lower, upper))

    def sample(count: int, generator: torch.Generator) -> Tensor:
        return low + (high - low) * uniform(generator, count, n)

    return Case(
        Box(lower, upper),
        (n,),
        lambda cost: torch.minimum(cost * low, cost * high).sum(-1),
        lambda x: torch.maximum(above(x - high), above(low - x)),
        sample,
        float((high - low).norm()),
    )


def lp_ball(n: int, p: float, radius: float) -> Case:
    far = 2 * radius * n ** max(0.0, 1 / 2 - 1 / p)
    return ball(LpBall(p, radius), (n,), radius, lp(p), lp(p / (p - 1)), far)


def group_l1(labels: Tensor, radius: float) -> Case:
    def norms(x: Tensor) -> Tensor:
        return torch.stack([x[:, labels == g].norm(dim=-1) for g in labels.unique()], -1)

    return ball(
        GroupL1Ball(labels, radius),
        (len(labels),),
        radius,
        lambda x: norms(x).sum(-1),
        lambda cost: norms(cost).amax(-1),
        2 * radius,
    )


def birkhoff(n: int) -> Case:
    eye, one = torch.eye(n, dtype=torch.float64), torch.ones(n, dtype=torch.float64)
    vertices = torch.stack([eye[list(order)] for order in itertools.permutations(range(n))])
    return polytope(Birkhoff(n), vertices, plan_errors(one, one))


def transport(rows: Tensor, columns: Tensor, radius: float = 1.0) -> Case:
    """Plans with the sums radius · rows and radius · columns."""
    vertices = radius * transport_corners(rows, columns)
    rows, columns = radius * rows, radius * columns
    return polytope(TransportPolytope(rows, columns), vertices, plan_errors(rows, columns), True)


def product(parts: Sequence[Case]) -> Case:
    """The parts side by side, flattened."""
    shapes = [part.shape for part in parts]
    sizes = [math.prod(shape) for shape in shapes]

    def each(x: Tensor, what: str) -> Tensor:
        blocks = zip(parts, x.split(sizes, dim=1), shapes, strict=True)
        return torch.stack([getattr(p, what)(b.reshape(-1, *s)) for p, b, s in blocks])

    return Case(
        Product([part.domain for part in parts], shapes),
        (sum(sizes),),
        lambda cost: each(cost, "minimum").sum(0),
        lambda x: each(x, "violation").amax(0),
        lambda count, g: torch.cat([part.sample(count, g).flatten(1) for part in parts], 1),
        math.hypot(*(part.diameter for part in parts)),
    )


def spectral(d: int, m: int, radius: float) -> Case:
    return ball(
        SpectralBall(radius),
        (d, m),
        radius,
        lambda x: singular_values(x)[:, 0],
        lambda cost: singular_values(cost).sum(-1),
        2 * radius * min(d, m) ** 0.5,
    )


def schatten(d: int, m: int, p: float, radius: float) -> Case:
    return ball(
        SchattenBall(p, radius),
        (d, m),
        radius,
        lambda x: lp(p)(singular_values(x)),
        lambda cost: lp(p / (p - 1))(singular_values(cost)),
        2 * radius * min(d, m) ** max(0.0, 1 / 2 - 1 / p),
    )


def row_ball(d: int, m: int, radius: float) -> Case:
    return ball(
        RowBall(radius),
        (d, m),
        radius,
        lambda x: lp(2)(x).amax(-1),
        lambda cost: lp(2)(cost).sum(-1),
        2 * radius * d**0.5,
    )


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
    labels = torch.tensor([4, 0, 4, 9, 0, 9, 4])
    low, high = (
        torch.tensor([-1.0, 0, -2, 1, -1]).double(),
        torch.tensor([1.0, 2, -1, 1, 3]).double(),
    )
    rows, columns = torch.tensor([1.0, 2.5, 0.5]).double(), torch.tensor([0.75, 1.25, 2.0]).double()
    A = torch.cat([normal(generator, 7, 3), torch.eye(3).double(), -torch.eye(3).double()])
    b = torch.cat([uniform(generator, 7) + 0.5, torch.full((6,), 2.0).double()])
    slice_A = torch.cat([torch.tensor([[1.0, 2.0, 3.0, 1.0]]).double(), -torch.eye(4).double()])
    slice_b = torch.tensor([3.0, 0, 0, 0, 0]).double()
    return [
        simplex(6, 2.0),
        hyper_simplex(5, 2, 0.5),
        hyper_simplex(6, 4, 1.5),
        l1(6, 1.5),
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
        birkhoff(4),
        transport(rows, columns),
        polytope(Polytope(A, b), corners(A, b, 0), lambda x: above(x @ A.T - b), True),
        polytope(
            Polytope(A_eq=slice_A[:1], b_eq=slice_b[:1], bounds=(0.0, None)),
            corners(slice_A, slice_b, 1),
            lambda x: torch.maximum(above(-x), (x @ slice_A[0] - 3.0).abs()),
            True,
        ),
        hull(normal(generator, 9, 2, 3)),
        product([simplex(2, 2.0), l1(3, 1.5)]),
        l2(6, 1.5),
        lp_ball(6, 3.0, 1.5),
        lp_ball(6, 1.25, 0.5),
        group_l1(labels, 1.5),
        trace_norm(4, 6, 1.5),
        trace_norm(7, 3, 2.0),
        trace_norm(150, 140, 1.5),
        spectral(4, 3, 1.5),
        *(schatten(4, 3, p, 1.5) for p in (1.5, 2.0, 4.0)),
        row_ball(4, 3, 1.5),
        spectraplex(5, 1.5),
        spectraplex(140, 1.0),
        product([trace_norm(2, 3, 1.5), simplex(4, 2.0)]),
    ]


CASES = all_cases()
