"""Laws that hold for every domain."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

import fwnet
from fwnet.domains import (
    Box,
    Domain,
    HyperSimplex,
    KSparseBall,
    L1Ball,
    Polytope,
    Simplex,
    TransportPolytope,
)
from fwnet.vertices import Dense

from .cases import CASES, Case, normal

COSTS = 200
FEASIBLE = {torch.float32: 1e-6, torch.float64: 1e-10}
every = pytest.mark.parametrize("case", CASES, ids=str)
both = pytest.mark.parametrize("dtype", FEASIBLE, ids=["float32", "float64"])


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def number(case: Case) -> int:
    """Brute force on large matrices and linear programs are slow: fewer costs there."""
    if max(case.shape) >= 100:
        return 8
    return 40 if isinstance(case.domain, TransportPolytope | Polytope) else COSTS


def random_costs(case: Case, seed: int = 0) -> Tensor:
    return normal(seeded(seed), number(case), *case.shape)


def inner(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).flatten(1).sum(-1)


def size(case: Case) -> float:
    """Scale of the points, for tolerances that are relative to it."""
    return max(1.0, case.diameter)


@every
@both
def test_vertices_are_feasible_and_optimal(case: Case, dtype: torch.dtype) -> None:
    costs = random_costs(case).to(dtype)
    vertices = case.domain.lmo(costs).dense()
    assert vertices.dtype == dtype
    assert vertices.shape == costs.shape
    tol = FEASIBLE[dtype] * size(case)
    assert float(case.violation(vertices.double()).max()) <= tol
    assert bool(case.domain.contains(vertices).all())
    wanted = case.minimum(costs.double())
    excess = inner(vertices.double(), costs.double()) - wanted
    # a sum of n products in this precision; the scale of one is |cost| · |vertex|
    scale = costs.double().flatten(1).norm(dim=-1) * size(case)
    assert float((excess / scale).abs().max()) <= FEASIBLE[dtype]


@every
def test_inner_of_the_vertex_is_the_minimum(case: Case) -> None:
    costs = random_costs(case, 1)[:20]
    value = case.domain.lmo(costs).inner(costs)
    torch.testing.assert_close(value, case.minimum(costs), rtol=1e-9, atol=1e-10)


@every
@both
def test_ties_and_zero_give_one_feasible_minimiser(case: Case, dtype: torch.dtype) -> None:
    shape = (min(number(case), 50), *case.shape)
    tied = torch.randint(-1, 2, shape, generator=seeded(2)).to(dtype)
    tied[0] = 0.0
    tied[1] = 1.0
    tied[2] = -1.0
    vertices = case.domain.lmo(tied).dense().double()
    assert float(case.violation(vertices).max()) <= FEASIBLE[dtype] * size(case)
    excess = inner(vertices, tied.double()) - case.minimum(tied.double())
    scale = tied.double().flatten(1).norm(dim=-1).clamp_min(1.0) * size(case)
    assert float((excess / scale).abs().max()) <= FEASIBLE[dtype]


@every
def test_the_vertex_for_zero_lies_on_the_boundary(case: Case) -> None:
    zero = torch.zeros(case.shape, dtype=torch.float64)
    vertex = case.domain.lmo(zero).dense()
    centre = case.sample(200, seeded(3)).mean(0)
    beyond = vertex + 1e-3 * (vertex - centre)
    assert float(case.violation(beyond[None])) > 0 or torch.equal(vertex, centre)


@every
def test_beats_random_feasible_points(case: Case) -> None:
    points = case.sample(100, seeded(4))
    assert float(case.violation(points).max()) <= 1e-10 * size(case)
    assert bool(case.domain.contains(points).all())
    costs = random_costs(case, 5)[:8]
    best = case.domain.lmo(costs).inner(costs)
    values = costs.flatten(1) @ points.flatten(1).T
    assert bool((best[:, None] <= values + 1e-9).all())


@every
@both
def test_unmoved_by_positive_scaling(case: Case, dtype: torch.dtype) -> None:
    costs = random_costs(case, 6)[:5].to(dtype)
    vertices = case.domain.lmo(costs).dense()
    # eigenvectors of a rounded matrix move by rounding / distance of the eigenvalues
    tol = 1e-2 if dtype == torch.float32 else 1e-5
    for scale in (2.0**-60, 1e-3, 2.0**50):
        moved = case.domain.lmo(scale * costs).dense()
        torch.testing.assert_close(moved, vertices, atol=tol, rtol=0)
        value, wanted = inner(moved, costs), inner(vertices, costs)
        precision = 1e-5 if dtype == torch.float32 else 1e-10
        torch.testing.assert_close(value, wanted, rtol=precision, atol=precision)


@every
@both
def test_a_batch_equals_a_loop(case: Case, dtype: torch.dtype) -> None:
    costs = random_costs(case, 7)[:6].to(dtype).reshape(2, 3, *case.shape)
    vertices = case.domain.lmo(costs)
    assert vertices.leading == (2, 3)
    for i in range(2):
        for j in range(3):
            alone = case.domain.lmo(costs[i, j])
            assert alone.leading == ()
            tol = 1e-2 if dtype == torch.float32 else 1e-5  # as for scaling
            torch.testing.assert_close(alone.dense(), vertices.dense()[i, j], atol=tol, rtol=0)
            precision = 1e-5 if dtype == torch.float32 else 1e-10
            value, wanted = alone.inner(costs[i, j]), vertices.inner(costs)[i, j]
            torch.testing.assert_close(value, wanted, rtol=precision, atol=precision)


@every
def test_the_cost_is_not_changed(case: Case) -> None:
    costs = random_costs(case, 8)[:3]
    kept = costs.clone()
    case.domain.lmo(costs)
    assert torch.equal(costs, kept)


@every
@both
def test_the_start_is_feasible(case: Case, dtype: torch.dtype) -> None:
    start = case.domain.start((2, 3, *case.shape), dtype)
    assert start.shape == (2, 3, *case.shape)
    assert start.dtype == dtype
    flat = start.reshape(6, *case.shape)
    assert float(case.violation(flat.double()).max()) <= FEASIBLE[dtype] * size(case)
    assert bool(case.domain.contains(start).all())
    start.add_(1.0)  # the caller owns it: no memory is shared between problems
    assert torch.equal(start[0, 0], start[1, 2])


@every
def test_contains_rejects_points_outside(case: Case) -> None:
    inside = case.sample(20, seeded(9))
    outside = inside + 3.0 * size(case) * normal(seeded(10), 20, *case.shape).sign()
    mixed = torch.stack([inside, outside], 1)
    wanted = torch.stack([case.violation(inside) <= 1e-9, case.violation(outside) <= 1e-9], 1)
    assert not bool(wanted[:, 1].all())
    assert torch.equal(case.domain.contains(mixed), wanted)


@every
def test_contains_needs_a_tensor(case: Case) -> None:
    text = r"x must be a torch.Tensor; got list. Convert with torch.as_tensor\(...\)."
    with pytest.raises(TypeError, match=text):
        case.domain.contains([0.5, 0.5])  # type: ignore[arg-type]


@every
def test_contains_obeys_its_tolerance(case: Case) -> None:
    vertex = case.domain.lmo(random_costs(case, 11)[0]).dense()
    centre = case.sample(200, seeded(3)).mean(0)
    beyond = vertex + 1e-4 * (vertex - centre)
    assert not bool(case.domain.contains(beyond))
    assert bool(case.domain.contains(beyond, tol=1e-2 * size(case)))


@every
def test_the_diameter_is_that_of_the_vertices(case: Case) -> None:
    diameter = case.domain.diameter(case.shape)
    if case.bound_only:
        assert diameter >= case.diameter - 1e-9
        assert diameter <= 3.0 * case.diameter
    else:
        assert diameter == pytest.approx(case.diameter, abs=1e-9)


@every
@both
def test_project_gives_the_nearest_point(case: Case, dtype: torch.dtype) -> None:
    generator = seeded(12)
    count = min(number(case), 40)
    near, far = case.sample(count, generator), 2.0 * normal(generator, count, *case.shape)
    x = torch.cat([near, far, near + 0.05 * far]).to(dtype)
    projected = case.domain.project(x)
    if projected is None:
        without = ("LpBall", "SchattenBall", "Birkhoff", "TransportPolytope", "Polytope")
        assert type(case.domain).__name__ in without
        return
    assert projected.dtype == dtype
    points, x = projected.double(), x.double()
    tol = FEASIBLE[dtype] * 10 * size(case)
    assert float(case.violation(points).max()) <= tol
    # p is nearest if and only if ⟨p − x, s⟩ >= ⟨p − x, p⟩ for every s of the domain
    away = points - x
    excess = inner(away, points) - case.minimum(away)
    scale = (1.0 + away.flatten(1).norm(dim=-1)) * size(case)
    assert float((excess / scale).max()) <= FEASIBLE[dtype] * 10
    others = case.sample(50, generator)
    nearest = torch.cdist(x.flatten(1), others.flatten(1)).amin(-1)
    assert bool((away.flatten(1).norm(dim=-1) <= nearest + tol).all())
    unmoved = (points[:count] - x[:count]).abs().max()
    assert float(unmoved) <= tol


@every
@pytest.mark.parametrize("scale", [1e12, 1e40, 1e200])
def test_projections_of_far_points_are_inside(case: Case, scale: float) -> None:
    """Also where their entries are tied but for rounding: there all digits of x are lost."""
    generator = seeded(15)
    far = scale * normal(generator, 20, *case.shape)
    tied = far.flatten(1)[:, :1].abs() * (1 + 1e-13 * normal(generator, 20, far[0].numel()))
    projected = case.domain.project(torch.cat([far, tied.reshape(far.shape)]))
    if projected is not None:
        assert float(case.violation(projected).max()) <= 1e-12 * size(case)


@pytest.mark.parametrize(
    "domain", [Simplex(2.0), L1Ball(), HyperSimplex(2), KSparseBall(2), Box(-1.0, 1.0)], ids=repr
)
def test_projections_of_the_largest_numbers_are_inside(domain: Domain) -> None:
    """Their sums overflow."""
    x = 8e307 * normal(seeded(16), 20, 5).clamp(-1, 1)
    assert bool(domain.contains(domain.project(x), 1e-12).all())


@every
@both
def test_decompose_gives_atoms_and_weights(case: Case, dtype: torch.dtype) -> None:
    generator = seeded(13)
    start = case.domain.start((1, *case.shape), torch.float64)
    vertex = case.domain.lmo(random_costs(case, 14)[:1]).dense()
    few = torch.cat([case.sample(2, generator), start, vertex]).to(dtype)
    alone = [few[i] for i in range(4)]
    for x in (few.reshape(2, 2, *case.shape), *alone):
        atoms, weights = case.domain.decompose(x)
        batch = x.shape[: x.ndim - len(case.shape)]
        assert weights.dtype == dtype
        assert weights.shape == atoms.leading == (*batch, weights.shape[-1])
        assert float(weights.min()) >= 0.0
        ones = torch.ones(batch, dtype=dtype)
        tol = FEASIBLE[dtype] * 10
        torch.testing.assert_close(weights.sum(-1), ones, atol=tol, rtol=0)
        torch.testing.assert_close(atoms.combine(weights), x, atol=tol * size(case), rtol=0)
        flat = atoms.dense().double().reshape(-1, *case.shape)
        assert float(case.violation(flat).max()) <= tol * size(case)


@every
def test_decompose_gives_vertices_where_it_promises(case: Case) -> None:
    promised = ("Simplex", "L1Ball", "TraceNormBall", "Spectraplex", "ConvexHull")
    if type(case.domain).__name__ not in promised:
        return
    atoms, _ = case.domain.decompose(case.sample(1, seeded(15))[0])
    kind = type(case.domain.lmo(random_costs(case, 15)[0]))
    assert type(atoms) is kind
    if kind is Dense:
        return
    extreme = atoms.dense()
    centre = case.sample(200, seeded(3)).mean(0)
    beyond = extreme + 1e-3 * (extreme - centre)
    assert float(case.violation(beyond).min()) > 0


@every
def test_polyhedral_domains_are_those_with_known_vertices(case: Case) -> None:
    curved = {"L2Ball", "LpBall", "GroupL1Ball", "RowBall", "TraceNormBall", "SpectralBall"}
    curved |= {"Spectraplex", "SchattenBall"}
    parts = getattr(case.domain, "domains", [case.domain])
    assert case.domain.polyhedral == all(type(part).__name__ not in curved for part in parts)


@pytest.mark.parametrize("scale", [1e-30, 1e38])
def test_vertices_of_a_schatten_ball_at_the_ends_of_float32(scale: float) -> None:
    """⟨C, v⟩ = −(Σ σ_i^q)^(1/q), 1/p + 1/q = 1; the largest σ may exceed float32."""
    cost = scale * torch.randn(6, 6, generator=torch.Generator().manual_seed(0))
    vertex = fwnet.SchattenBall(3.0).lmo(cost).dense().double()
    s = np.linalg.svd(cost.double().numpy(), compute_uv=False)
    wanted = -s[0] * ((s / s[0]) ** 1.5).sum() ** (2 / 3)
    assert float((vertex * cost.double()).sum()) == pytest.approx(wanted, rel=1e-5)
