"""Directions against their formulas, written out in dense arithmetic."""

from __future__ import annotations

import cvxpy as cp
import pytest
import torch
from torch import Tensor

import fwnet
from cases import DOMAINS, F64, L1, SIMPLEX, DomainCase, normal, problem_for, solved, walk
from fwnet.oracles import linearize

CASES = [case for case in DOMAINS if len(case.shape) == 1]


def atoms_of(active: fwnet.ActiveSet) -> tuple[Tensor, Tensor]:
    """The atoms that are used, dense, and their weights."""
    used = active.weights > 0
    return active.atoms.dense()[used], active.weights[used]


def worst(costs: Tensor) -> list[int]:
    """The atoms of largest cost: those that tie but for rounding, among which any may be chosen."""
    largest = costs.max()
    return (costs >= largest - 1e-12 * costs.abs().max()).nonzero().flatten().tolist()


def is_close(x: Tensor, y: Tensor) -> bool:
    return bool(torch.allclose(x, y, rtol=1e-7, atol=1e-7))


def start(case: DomainCase) -> Tensor:
    return case.domain.lmo(normal(1, 5, *case.shape)).dense().mean(0)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_toward(case: DomainCase) -> None:
    solver = fwnet.FrankWolfe(case.domain, fwnet.LineSearch())
    for it, lin, move, _, _ in walk(solver, problem_for(case), start(case), 10):
        torch.testing.assert_close(move.direction, lin.vertex.dense() - it.x)
        assert move.max_step == 1.0
        assert float(move.slope) == pytest.approx(-float(lin.decrease))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_away_takes_the_steeper_of_two(case: DomainCase) -> None:
    solver = fwnet.AwayFrankWolfe(case.domain)
    kinds = set()
    for it, lin, move, _, _ in walk(solver, problem_for(case), start(case), 60):
        assert it.active is not None
        atoms, weights = atoms_of(it.active)
        costs = atoms @ lin.gradient
        toward, away = lin.vertex.dense() - it.x, it.x - atoms[costs.argmax()]
        steepest = min(float(lin.gradient @ toward), float(lin.gradient @ away))
        assert float(move.slope) == pytest.approx(steepest, abs=1e-9)
        assert float(lin.gradient @ move.direction) == pytest.approx(steepest, abs=1e-9)
        forward = is_close(move.direction, toward)
        kinds.add(forward)
        if not forward:
            left = [k for k in worst(costs) if is_close(move.direction, it.x - atoms[k])]
            limits = [float(weights[k] / (1 - weights[k])) for k in left]
            assert any(float(move.max_step) == pytest.approx(limit, rel=1e-9) for limit in limits)
    assert kinds == {True, False} or not case.domain.polyhedral


def test_away_never_leaves_its_only_atom() -> None:
    """x is all of one atom: (x − λa)/(1 − λ) is 0/0."""
    problem = fwnet.Quadratic(torch.eye(3, dtype=F64))
    direction = fwnet.Away()
    x = torch.tensor([1.0, 0.0, 0.0], dtype=F64)
    for rest in (0.0, 1e-16, 1e-12):
        it, _ = fwnet.AwayFrankWolfe(fwnet.Simplex()).begin(problem, x)
        assert it.active is not None
        lin = linearize(problem, fwnet.Simplex(), it)
        doubtful = fwnet.oracles.Linearization(
            lin.value,
            lin.gradient,
            lin.along - 1e-9,
            lin.vertex,
            torch.tensor(-1e-9).double(),
            True,
        )
        weights = it.active.weights - rest
        it = fwnet.iterates.Iterate(it.x, it.image, fwnet.ActiveSet(it.active.atoms, weights))
        move, _ = direction(problem, it, doubtful, None)
        assert move.scale == -1.0  # toward the vertex
        assert float(move.max_step) == 1.0


@pytest.mark.parametrize("case", CASES, ids=str)
def test_pairwise(case: DomainCase) -> None:
    solver = fwnet.PairwiseFrankWolfe(case.domain)
    for it, lin, move, _, _ in walk(solver, problem_for(case), start(case), 30):
        assert it.active is not None
        atoms, weights = atoms_of(it.active)
        vertex = lin.vertex.dense()
        left = [
            k
            for k in worst(atoms @ lin.gradient)
            if is_close(move.direction, vertex - atoms[k])
            and float(move.max_step) == pytest.approx(float(weights[k]), rel=1e-12)
        ]
        assert left
        assert float(move.slope) == pytest.approx(float(lin.gradient @ move.direction), abs=1e-9)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_blended(case: DomainCase) -> None:
    solver = fwnet.BlendedPairwise(case.domain)
    kinds = set()
    for it, lin, move, _, _ in walk(solver, problem_for(case), start(case), 60):
        assert it.active is not None
        atoms, weights = atoms_of(it.active)
        costs = atoms @ lin.gradient
        excess = float(costs.max() - costs.min() - lin.decrease)
        pairs = [(atoms[i] - atoms[k], weights[k]) for i in worst(-costs) for k in worst(costs)]
        toward = (lin.vertex.dense() - it.x, torch.ones(()))
        allowed = pairs if excess > 1e-12 else [toward] if excess < -1e-12 else [*pairs, toward]
        chosen = [
            (direction, limit)
            for direction, limit in allowed
            if is_close(move.direction, direction)
            and float(move.max_step) == pytest.approx(float(limit), rel=1e-12)
        ]
        assert chosen
        kinds.add(excess > 0)
        direction = chosen[0][0]
        assert float(move.slope) == pytest.approx(float(lin.gradient @ direction), abs=1e-9)
    assert kinds == {True, False}


def test_blended_is_sparser_than_pairwise() -> None:
    problem = fwnet.LeastSquares(normal(2, 60, 30), normal(3, 60))
    counts = []
    for make in (fwnet.PairwiseFrankWolfe, fwnet.BlendedPairwise):
        result = make(fwnet.KSparseBall(5, 0.2), tol=1e-4, max_steps=3000)(problem)
        assert result.status == "converged"
        assert result.active is not None
        counts.append(int(result.active.used.sum()))
    assert counts[1] <= counts[0]


@pytest.mark.parametrize("memory", [0, 1, 6])
def test_corrections_minimise_over_the_hull(memory: int) -> None:
    """Against CVXPY on the hull of x, the vertex and the points that were kept."""
    problem = problem_for(SIMPLEX)
    A, b = normal(30, 12, 8).numpy(), normal(31, 12).numpy()
    solver = fwnet.Corrective(SIMPLEX.domain, memory=memory)
    kept: list[Tensor] = []
    before = None
    for it, lin, move, _, there in walk(solver, problem, start(SIMPLEX), 6):
        points = [it.x, lin.vertex.dense(), *kept]
        weights = cp.Variable(len(points), nonneg=True)
        x = torch.stack(points).numpy().T @ weights
        program = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(A @ x - b)), [cp.sum(weights) == 1])
        hull = solved(program)
        reached = float(problem.value(problem.at(there.x)))
        assert reached <= hull + 1e-8  # the projected step may do better still
        assert float(move.slope) <= 1e-12
        if before is not None:
            assert reached <= before + 1e-12
        before = reached
        kept = [lin.vertex.dense(), *kept][: min(memory, 1)]


def test_corrections_need_few_steps() -> None:
    problem = fwnet.LeastSquares(normal(4, 60, 30), normal(5, 60))
    fast = fwnet.Corrective(fwnet.Simplex(), tol=1e-8, max_steps=2000)(problem)
    slow = fwnet.PairwiseFrankWolfe(fwnet.Simplex(), tol=1e-8, max_steps=2000)(problem)
    assert fast.status == slow.status == "converged"
    assert fast.steps < 0.5 * slow.steps
    assert float(fast.value) == pytest.approx(float(slow.value), abs=1e-7)


def test_second_order_needs_no_more_steps_than_first_order() -> None:
    points = normal(6, 60, 5)
    y = torch.sign(points[:, 0] + 0.3 * normal(7, 60))
    problem = fwnet.SVMDual(torch.exp(-(torch.cdist(points, points) ** 2)), y, C=10.0)
    steps = []
    for second_order in (False, True):
        solver = fwnet.PairwiseFrankWolfe(
            fwnet.Simplex(), second_order=second_order, tol=1e-8, max_steps=20_000
        )
        result = solver(problem)
        assert result.status == "converged"
        steps.append(result.steps)
    assert steps[1] <= steps[0]


@pytest.mark.parametrize("second_order", [False, True])
def test_second_order_on_any_matrix_and_in_a_batch(second_order: bool) -> None:
    from cases import forms

    A, b = normal(8, 12, 8), normal(9, 12)
    wanted = fwnet.PairwiseFrankWolfe(L1.domain, tol=1e-9, max_steps=5000)(fwnet.LeastSquares(A, b))
    solver = fwnet.PairwiseFrankWolfe(
        L1.domain, second_order=second_order, tol=1e-9, max_steps=5000
    )
    for matrix in forms(A).values():
        result = solver(fwnet.LeastSquares(matrix, b))
        assert result.status == "converged"
        torch.testing.assert_close(result.value, wanted.value, rtol=1e-8, atol=1e-9)
    As, bs = torch.stack([A, normal(10, 12, 8)]), torch.stack([b, normal(11, 12)])
    both = solver(fwnet.LeastSquares(As, bs))
    assert both.status == ("converged", "converged")
    torch.testing.assert_close(both.value[0], wanted.value, rtol=1e-8, atol=1e-9)
    places = torch.cartesian_prod(torch.arange(4), torch.arange(3))
    completion = fwnet.MatrixCompletion(*places.T, normal(12, 12), (4, 3))
    ball = fwnet.PairwiseFrankWolfe(
        fwnet.TraceNormBall(1.3), second_order=second_order, tol=1e-3, max_steps=3000
    )
    assert ball(completion).status == "converged"
