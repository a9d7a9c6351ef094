"""Laws that hold for every solver, on every domain, with every rule that suits."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import fwnet
from cases import (
    DOMAINS,
    F64,
    FEASIBLE,
    L1,
    PAIRS,
    PRODUCT,
    RULES,
    SIMPLEX,
    SOLVERS,
    TRACE_NORM,
    DomainCase,
    RuleCase,
    SolverCase,
    best_value,
    labels,
    normal,
    problem_for,
    seeded,
    suited_problem,
    walk,
)
from fwnet.iterates import Iterate

every = pytest.mark.parametrize(("solver", "case"), PAIRS, ids=lambda value: str(value))
both = pytest.mark.parametrize("dtype", FEASIBLE, ids=["float32", "float64"])


def inner_start(case: DomainCase, dtype: torch.dtype = F64, seed: int = 0) -> Tensor:
    """A point inside: a mean of vertices."""
    costs = normal(seed + 500, 5, *case.shape).to(dtype)
    return case.domain.lmo(costs).dense().mean(0)


def half_of_the_rules(solver: SolverCase, case: DomainCase) -> list[RuleCase]:
    """Every other rule: each meets every solver on some domain, and every domain with some."""
    first = (SOLVERS.index(solver) + DOMAINS.index(case)) % 2
    return list(solver.rules())[first::2]


@every
@both
def test_every_iterate_is_feasible(
    solver: SolverCase, case: DomainCase, dtype: torch.dtype
) -> None:
    problem = suited_problem(solver, case, dtype)
    x0 = inner_start(case, dtype)
    kept = x0.clone()
    rules = half_of_the_rules(solver, case)
    if dtype == torch.float32:
        rules = [r for r in solver.rules() if r.name in ("OpenLoop", "LineSearch", "too_far")]
    for rule in rules:
        made = solver.make(case.domain, rule.make())
        points = []
        for _, _, move, step_size, there in walk(made, problem, x0, 10):
            assert 0 <= float(step_size) <= float(move.max_step), rule
            points.append(there.x)
        assert there.x.dtype == dtype
        violation = float(case.violation(torch.stack(points).double()).max())
        assert violation <= FEASIBLE[dtype] * case.size, rule
        check_caches(problem, there, 1e-12 if dtype == F64 else 2e-6)
    assert torch.equal(x0, kept)


def check_caches(problem: fwnet.Problem, it: Iterate, tol: float) -> None:
    """The image and the atoms belong to x."""
    if it.image is not None:
        image = problem.image(it.x)
        assert image is not None
        torch.testing.assert_close(it.image, image, rtol=10 * tol, atol=10 * tol)
    if it.active is not None:
        assert bool((it.active.weights >= 0).all())
        assert float(it.active.weights.sum()) == pytest.approx(1, abs=tol)
        torch.testing.assert_close(it.active.point(), it.x, rtol=0, atol=tol)


@pytest.mark.parametrize("solver", SOLVERS, ids=str)
def test_image_and_atoms_stay_accurate_over_many_steps(solver: SolverCase) -> None:
    for case in (L1, PRODUCT, TRACE_NORM):
        if solver.suits(case):
            problem = suited_problem(solver, case)
            rule = fwnet.OverRelaxed(1.7) if solver.looks else fwnet.OpenLoop()
            *_, last = walk(solver.make(case.domain, rule), problem, inner_start(case), 150)
            check_caches(problem, last[-1], 1e-11)


@every
def test_gap_bounds_the_primal_gap(solver: SolverCase, case: DomainCase) -> None:
    if solver.looks:
        best = best_value(case)
        made = solver.make(case.domain, max_steps=30, tol=0.0)
        result = made(problem_for(case), inner_start(case))
        for record in result.trace:
            primal_gap = record.value - best
            assert primal_gap >= -1e-9
            assert not record.gap < primal_gap - 1e-9  # NaN where it is unknown
        assert float(result.gap) >= float(result.value) - best - 1e-9


@every
def test_reaches_the_optimum(solver: SolverCase, case: DomainCase) -> None:
    if solver.looks:
        linear = solver.precise and case.domain.polyhedral
        tol = 1e-8 if linear else 3e-2
        made = solver.make(case.domain, fwnet.LineSearch(), max_steps=3000, tol=tol)
        result = made(problem_for(case))
        assert result.status == "converged"
        assert float(result.gap) <= tol
        assert float(result.value) - best_value(case) <= tol + 1e-9
        assert float(result.value) - best_value(case) >= -1e-9
        assert float(case.violation(result.x[None])) <= 1e-10 * case.size


@every
def test_two_solves_share_nothing(solver: SolverCase, case: DomainCase) -> None:
    problem = suited_problem(solver, case)
    made = solver.make(case.domain, fwnet.OpenLoop(10.0), max_steps=8, tol=0.0)
    first = made(problem, inner_start(case))
    other = made(problem, inner_start(case, seed=7))
    again = made(problem, inner_start(case))
    assert torch.equal(first.x, again.x)
    assert torch.equal(first.value, again.value)
    assert [r.step_size for r in first.trace] == [r.step_size for r in again.trace]
    assert not torch.equal(first.x, other.x)
    assert made.state_dict() == {}


@every
def test_results_do_not_alias_the_start(solver: SolverCase, case: DomainCase) -> None:
    x0 = inner_start(case)
    kept = x0.clone()
    result = solver.make(case.domain, max_steps=0)(suited_problem(solver, case), x0)
    result.x.mul_(2.0)
    assert torch.equal(x0, kept)


@every
def test_starts_without_x0(solver: SolverCase, case: DomainCase) -> None:
    result = solver.make(case.domain, max_steps=3)(suited_problem(solver, case))
    assert result.x.shape == case.shape
    assert float(case.violation(result.x[None])) <= 1e-10 * case.size


BATCHES = [
    (solver, case)
    for solver in SOLVERS
    for case in (SIMPLEX, L1, PRODUCT, TRACE_NORM, DOMAINS[-1])
    if solver.suits(case)
]


def batch_of_problems(case: DomainCase, size: int) -> tuple[fwnet.Problem, list[fwnet.Problem]]:
    if len(case.shape) == 1:
        A, b = normal(80, size, 12, *case.shape), normal(81, size, 12)
        ones = [fwnet.LeastSquares(one, right) for one, right in zip(A, b, strict=True)]
        return fwnet.LeastSquares(A, b), list(ones)
    d, m = case.shape
    X = normal(82, size, 12, d)
    y = torch.randint(0, m, (size, 12), generator=seeded(83))
    many = [fwnet.SoftmaxRegression(one, right, m) for one, right in zip(X, y, strict=True)]
    return fwnet.SoftmaxRegression(X, y, m), list(many)


@pytest.mark.parametrize(("solver", "case"), BATCHES, ids=str)
def test_a_batch_equals_a_loop(solver: SolverCase, case: DomainCase) -> None:
    if solver.name == "Lazy" or (solver.name == "SecondOrder" and len(case.shape) == 2):
        return  # Lazy asks for all if one problem must ask; second order needs quadratics
    together, ones = batch_of_problems(case, 3)
    # An exact line search between atoms leaves them tied, and rounding chooses among them; the
    # smoothness of a batch is the largest of all.
    tied = {"ShortStep", "LineSearch"} if solver.precise else {"ShortStep"}
    steps = 3 if solver.name == "Corrective" else 8  # before all of a face is tied
    for rule in half_of_the_rules(solver, case):
        if rule.name in tied or (solver.name == "Corrective" and not rule.monotone):
            continue  # at the optimum of a hull, rounding says which way an open loop jumps
        made = solver.make(case.domain, rule.make())
        starts = torch.stack([inner_start(case, seed=i) for i in range(3)])
        *_, last = (there for *_, there in walk(made, together, starts, steps))
        for i, one in enumerate(ones):
            *_, alone = (there for *_, there in walk(made, one, starts[i], steps))
            message = f"{rule}, problem {i}"
            torch.testing.assert_close(
                last.x[i], alone.x, rtol=1e-7, atol=1e-7, msg=lambda text, m=message: f"{m}: {text}"
            )


def test_problems_of_a_batch_stop_each_at_its_own_step() -> None:
    together, ones = batch_of_problems(L1, 4)
    solver = fwnet.PairwiseFrankWolfe(L1.domain, fwnet.OverRelaxed(1.5), tol=1e-6, max_steps=500)
    result = solver(together)
    alone = [solver(one) for one in ones]
    assert result.status == ("converged",) * 4
    assert result.steps == tuple(one.steps for one in alone)
    assert len(set(result.steps)) > 1
    for i, one in enumerate(alone):
        torch.testing.assert_close(result.x[i], one.x, rtol=1e-9, atol=1e-9)
    assert len(result.trace) == max(result.steps) + 1
    sizes = torch.stack([record.step_size for record in result.trace])
    for i, steps in enumerate(result.steps):
        assert bool((sizes[steps:, i] == 0).all())  # frozen from then on
    assert solver(together, result).steps == (0, 0, 0, 0)


def test_a_batch_mixes_statuses() -> None:
    together, _ = batch_of_problems(L1, 4)
    solver = fwnet.PairwiseFrankWolfe(L1.domain, tol=1e-6, max_steps=90)
    result = solver(together)
    assert set(result.status) == {"converged", "max_steps"}
    for status, gap, steps in zip(result.status, result.gap, result.steps, strict=True):
        assert (gap <= 1e-6) == (status == "converged")
        assert steps <= 90
        assert status == "converged" or steps == 90


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.monotone], ids=str)
@pytest.mark.parametrize("name", ["FrankWolfe", "Away", "Pairwise", "Blended", "Corrective"])
def test_monotone_rules_are_monotone(rule: object, name: str) -> None:
    (solver,) = (s for s in SOLVERS if s.name == name)
    logistic = fwnet.LogisticRegression(normal(84, 20, 8), labels(85, 20))
    for problem in (problem_for(L1), logistic) if rule.everywhere else (problem_for(L1),):
        made = solver.make(L1.domain, rule.make(), max_steps=100, tol=1e-12)
        values = made(problem, inner_start(L1)).trace.column("value")
        rise = values[1:] - values[:-1]
        assert rise.max() <= 1e-14 * abs(values[0])  # rounding of f
        assert values[-1] < values[0]


@pytest.mark.parametrize("case", DOMAINS, ids=str)
@pytest.mark.parametrize("offset", [2.0])
def test_open_loop_rate(case: DomainCase, offset: float) -> None:
    """f(x_t) − f* <= 2 L D² / (t + 2) for γ = 2/(t + 2), t >= 1 (Jaggi, 2013, theorem 1)."""
    problem = problem_for(case)
    if isinstance(problem, fwnet.LeastSquares):
        smoothness = float(torch.linalg.matrix_norm(normal(30, 12, *case.shape), 2)) ** 2
    else:
        smoothness = 1.0
    bound = 2 * smoothness * case.domain.diameter(case.shape) ** 2
    solver = fwnet.FrankWolfe(case.domain, fwnet.OpenLoop(offset), max_steps=200, tol=0.0)
    result = solver(problem, inner_start(case))
    for record in result.trace[1:]:
        assert record.value - best_value(case) <= bound / (record.t + 2) + 1e-10


def test_dropped_atoms_do_not_come_back() -> None:
    problem = problem_for(L1)
    for solver in SOLVERS:
        if solver.name not in ("Away", "Pairwise", "SecondOrder", "Blended"):
            continue
        dropped = 0
        made = solver.make(L1.domain)
        for it, _, move, step_size, there in walk(made, problem, inner_start(L1), 60):
            assert it.active is not None
            assert there.active is not None
            entering = {int(term.slot) for term in move.terms if term.slot is not None}
            count = it.active.weights.shape[-1]
            for slot in range(count):
                before, after = float(it.active.weights[slot]), float(there.active.weights[slot])
                if before == 0 and slot not in entering:
                    assert after == 0
                dropped += before > 0 and after == 0
            if float(step_size) == float(move.max_step) and float(move.max_step) < 1:
                assert bool((there.active.weights == 0).any())
        assert dropped > 0, solver


def test_the_second_order_partner_is_the_best_one() -> None:
    """Against the decrease of every atom's own line search, computed one by one."""
    problem = problem_for(SIMPLEX)
    made = fwnet.PairwiseFrankWolfe(SIMPLEX.domain, second_order=True)
    for it, lin, move, _, _ in walk(made, problem, inner_start(SIMPLEX), 15):
        assert it.active is not None
        chosen = lin.vertex.dense() - move.direction
        best, best_atom = -1.0, None
        for k in range(it.active.weights.shape[-1]):
            weight = float(it.active.weights[k])
            if weight == 0:
                continue
            atom = it.active.atoms.select(torch.tensor(k)).dense()
            direction = lin.vertex.dense() - atom
            slope = float(lin.gradient @ direction)
            curvature = float((normal(30, 12, 8) @ direction).square().sum())
            step = 0.0 if curvature == 0 else min(max(-slope / curvature, 0.0), weight)
            decrease = -step * slope - 0.5 * step**2 * curvature
            if decrease > best:
                best, best_atom = decrease, atom
        assert best_atom is not None
        torch.testing.assert_close(chosen, best_atom)


def test_pairwise_reaches_1e_9_on_l1_least_squares() -> None:
    A, b = normal(86, 200, 40), normal(87, 200)
    truth = torch.zeros(40, dtype=F64)
    truth[:5] = 1.0
    problem = fwnet.LeastSquares(A, A @ truth + 0.1 * b)
    for second_order in (False, True):
        solver = fwnet.PairwiseFrankWolfe(
            fwnet.L1Ball(4.0), tol=1e-9, max_steps=10_000, second_order=second_order
        )
        result = solver(problem)
        assert result.status == "converged"
        assert float(result.gap) <= 1e-9


def test_corrective_survives_rounding() -> None:
    """Low rank, optima at vertices, no tolerance: small Gram matrices are all rounding."""
    for dtype in (torch.float32, F64):
        for seed in range(6):
            root, c = normal(seed, 8, 3).to(dtype), normal(100 + seed, 8).to(dtype) * (seed % 3)
            problem = fwnet.Quadratic(root @ root.T, c)
            for domain in (fwnet.Simplex(), fwnet.Box(-1.0, 1.0), fwnet.L2Ball()):
                result = fwnet.Corrective(domain, tol=0.0, max_steps=60)(problem)
                assert result.status in ("stalled", "max_steps", "converged")
                scale = float(c.abs().max()) + float(root.square().sum())
                assert float(result.gap) <= 30 * torch.finfo(dtype).eps ** 0.5 * scale


@pytest.mark.parametrize("name", ["Away", "Pairwise", "Blended", "Corrective", "FrankWolfe"])
def test_an_optimum_at_a_vertex_without_tolerance(name: str) -> None:
    (solver,) = (s for s in SOLVERS if s.name == name)
    for seed in range(10):
        c = normal(seed, 5)
        c[0] -= 50
        problem = fwnet.Quadratic(normal(seed, 5, 5) @ normal(seed, 5, 5).T, c)
        result = solver.make(fwnet.Simplex(), fwnet.LineSearch(), tol=0.0, max_steps=100)(problem)
        wanted = torch.zeros(5, dtype=F64)
        wanted[0] = 1.0
        torch.testing.assert_close(result.x, wanted, rtol=0, atol=1e-12)
