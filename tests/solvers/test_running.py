"""Running: why a solve stops, what it shows, what it returns, how it continues."""

from __future__ import annotations

import math
import sys
import time
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import fwnet
from cases import DOMAINS, F64, L1, DomainCase, normal, problem_for
from fwnet.iterates import Iterate, Move
from fwnet.solvers.watch import Watch
from fwnet.vertices import OneHot

SOLVER = fwnet.PairwiseFrankWolfe(L1.domain, tol=1e-6, max_steps=500)
PROBLEM = problem_for(L1)


def test_converged() -> None:
    result = SOLVER(PROBLEM)
    assert result.status == "converged"
    assert result.message.startswith("the duality gap is at most tol")
    assert float(result.gap) <= 1e-6
    assert isinstance(result.steps, int)
    assert len(result.trace) == result.steps + 1
    assert [record.t for record in result.trace] == list(range(result.steps + 1))
    assert result.trace[-1].step_size == 0
    assert result.trace[-1].value == pytest.approx(float(result.value), rel=1e-12)
    seconds = result.trace.column("seconds")
    assert bool((np.diff(seconds) >= 0).all())


def test_max_steps() -> None:
    result = fwnet.FrankWolfe(L1.domain, max_steps=7, tol=0.0)(PROBLEM)
    assert (result.status, result.steps, len(result.trace)) == ("max_steps", 7, 8)
    assert "max_steps" in result.message
    assert fwnet.FrankWolfe(L1.domain, max_steps=0)(PROBLEM).steps == 0


def test_max_seconds() -> None:
    solver = fwnet.FrankWolfe(L1.domain, max_steps=10**6, tol=0.0, max_seconds=0.05)
    started = time.perf_counter()
    result = solver(PROBLEM)
    assert result.status == "max_seconds"
    assert time.perf_counter() - started < 2.0
    assert result.trace[-1].seconds >= 0.05


def test_a_frozen_problem_is_judged_again() -> None:
    """Its gap may pass `tol` by rounding when Ax is computed anew: then it has to go on."""
    problem = fwnet.LeastSquares(normal(1, 3, 12, 8), normal(2, 3, 12))
    watch = Watch(fwnet.FrankWolfe(L1.domain, tol=1.0), problem, [])
    ones = torch.ones(3, dtype=F64)
    assert watch.freeze(torch.tensor([0.5, 2.0, 2.0]), ones).tolist() == [0, 1, 1]
    assert watch.freeze(torch.tensor([1.1, 2.0, 0.9]), ones).tolist() == [1, 1, 0]
    assert watch.freeze(None, ones).tolist() == [1, 1, 0]


TRUE = [True, np.True_, torch.tensor(True), torch.tensor([True, True])]


@pytest.mark.parametrize("answer", TRUE, ids=["bool", "numpy", "torch", "batch"])
def test_on_step_stops(answer: object) -> None:
    result = SOLVER(PROBLEM, on_step=lambda record: answer if record.t == 3 else None)
    assert (result.status, result.steps, len(result.trace)) == ("stopped", 3, 4)
    free = SOLVER(PROBLEM)
    assert [r.value for r in result.trace] == [r.value for r in free.trace[:4]]
    assert float(result.value) == pytest.approx(free.trace[3].value, rel=1e-12)


@pytest.mark.parametrize("answer", [None, False, 1, "yes", torch.tensor([True, False]), 0.5])
def test_on_step_continues(answer: object) -> None:
    assert SOLVER(PROBLEM, on_step=lambda record: answer).status == "converged"


def test_on_step_stops_a_batch() -> None:
    problem = fwnet.LeastSquares(normal(1, 3, 12, 8), normal(2, 3, 12))
    result = fwnet.FrankWolfe(L1.domain)(problem, on_step=lambda record: record.t == 5)
    assert result.status == ("stopped",) * 3
    assert result.steps == (5, 5, 5)


def test_errors_of_on_step_reach_the_caller() -> None:
    def broken(record: fwnet.StepRecord) -> None:
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        SOLVER(PROBLEM, on_step=broken)


def interrupt_at(t: int) -> object:
    def on_step(record: fwnet.StepRecord) -> None:
        if record.t == t:
            raise KeyboardInterrupt

    return on_step


@pytest.mark.parametrize("rule", [fwnet.LineSearch(), fwnet.OpenLoop(), lambda t: 1.0])
@pytest.mark.parametrize("make", [fwnet.FrankWolfe, fwnet.PairwiseFrankWolfe])
def test_ctrl_c_returns_the_best_iterate(make: type, rule: object) -> None:
    result = make(L1.domain, rule, max_steps=100)(PROBLEM, on_step=interrupt_at(9))
    assert (result.status, result.steps, len(result.trace)) == ("interrupted", 9, 10)
    best = min(record.value for record in result.trace)
    assert float(result.value) == pytest.approx(best, rel=1e-12)
    assert "best iterate so far" in result.message


def test_ctrl_c_inside_the_objective() -> None:
    calls = 0

    def objective(x: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        if calls == 12:
            raise KeyboardInterrupt
        return (x - 0.3).square().sum() + x[0]

    result = fwnet.FrankWolfe(fwnet.Simplex(), max_steps=100)(
        objective, torch.ones(4, dtype=F64) / 4
    )
    assert result.status == "interrupted"
    assert len(result.trace) == result.steps
    assert bool(fwnet.Simplex().contains(result.x))


def test_ctrl_c_in_a_batch_takes_the_best_of_each() -> None:
    problem = fwnet.LeastSquares(normal(1, 3, 12, 8), normal(2, 3, 12))
    for make in (fwnet.FrankWolfe, fwnet.PairwiseFrankWolfe):
        result = make(L1.domain, lambda t: 1.0)(problem, on_step=interrupt_at(9))
        assert result.status == ("interrupted",) * 3
        assert result.steps == (9, 9, 9)
        best = torch.stack([record.value for record in result.trace]).amin(0)
        torch.testing.assert_close(result.value, best)


def test_the_best_iterate_keeps_its_atoms_although_slots_are_reused() -> None:
    """Atoms of the best iterate are dropped, and others take their slots, before Ctrl-C."""
    gradients = [torch.tensor(row, dtype=F64) for row in ([5, 0, -9, 0, 0], [0, 1, 5, -9, 0])]
    gradients += [torch.tensor([0, 3, 1, 2, -9], dtype=F64)] * 5
    calls = iter(range(100))

    def gradient(x: Tensor) -> Tensor:
        return gradients[min(next(calls), 6)]

    start = torch.tensor([0.5, 0.5, 0, 0, 0], dtype=F64)
    atoms = OneHot(torch.tensor([0, 1, 0, 0]), torch.tensor([1.0, 1, 0, 0]).double(), 5, True)
    active = fwnet.ActiveSet(atoms, torch.tensor([0.5, 0.5, 0, 0], dtype=F64))
    nothing = torch.zeros((), dtype=F64)
    warm = fwnet.Result(start, nothing, nothing, "max_steps", 0, fwnet.Trace(), "", active)
    problem = fwnet.Function(lambda x: (x - start).square().sum(), gradient)
    solver = fwnet.PairwiseFrankWolfe(fwnet.Simplex(), lambda t: 1.0)
    result = solver(problem, warm, on_step=interrupt_at(4))
    assert result.status == "interrupted"
    assert torch.equal(result.x, start)
    assert torch.equal(warm.x, start)
    assert torch.equal(active.point(), start)


@pytest.mark.parametrize("case", DOMAINS, ids=str)
def test_non_finite(case: DomainCase) -> None:
    target = normal(3, *case.shape)

    class Breaks:
        calls = 0

        def __call__(self, x: Tensor) -> Tensor:
            self.calls += 1
            return (x - target).square().sum() * (math.nan if self.calls == 6 else 1.0)

    solver = fwnet.FrankWolfe(case.domain, max_steps=50, tol=0.0)
    result = solver(Breaks(), case.domain.lmo(normal(4, *case.shape)).dense())
    assert result.status == "non_finite"
    assert result.steps == 5
    assert result.message.endswith("(step 5)")
    best = min(record.value for record in result.trace[:5])
    assert float(result.value) == pytest.approx(best, rel=1e-12)
    assert math.isnan(result.trace[-1].value)


def test_non_finite_at_once_and_infinite() -> None:
    x0 = torch.ones(3, dtype=F64) / 3
    result = fwnet.FrankWolfe(fwnet.Simplex())(lambda x: x.sum() * math.inf, x0)
    assert (result.status, result.steps) == ("non_finite", 0)
    assert torch.equal(result.x, x0)


def test_non_finite_in_a_batch_leaves_the_others_alone() -> None:
    calls = 0

    def objective(x: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        spoil = torch.tensor([1.0, math.nan if calls == 4 else 1.0], dtype=F64)
        return (x.square().sum(-1) + x[:, 0]) * spoil

    x0 = torch.ones(2, 3, dtype=F64) / 3
    solver = fwnet.FrankWolfe(fwnet.Simplex(), tol=1e-2)
    result = solver(fwnet.Function(objective, batched=True), x0)
    alone = solver(lambda x: x.square().sum() + x[0], x0[0])
    assert result.status == ("converged", "non_finite")
    assert result.steps == (alone.steps, 3)
    assert "in problems [1]: f or its gap became NaN" in result.message
    torch.testing.assert_close(result.x[0], alone.x)
    best = torch.stack([record.value[1] for record in result.trace[:3]]).amin()
    torch.testing.assert_close(result.value[1], best)


def test_stalled() -> None:
    lazy = fwnet.FrankWolfe(fwnet.Simplex(), lambda t: 0.0, max_steps=1000)
    result = lazy(fwnet.Quadratic(torch.eye(3)), torch.tensor([1.0, 0.0, 0.0]))
    assert (result.status, result.steps) == ("stalled", 10)
    assert "steps of size 0" in result.message


def test_idle_blocks_are_no_stall() -> None:
    """39 of 40 blocks have nothing to do."""
    shapes = [(5,)] + [(1,)] * 39
    domain = fwnet.Product([fwnet.Simplex()] * 40, shapes)
    x0 = torch.ones(44, dtype=F64)
    x0[:5] = torch.tensor([1.0, 0, 0, 0, 0])
    for shuffle in (True, False):
        solver = fwnet.BlockCoordinateFrankWolfe(domain, shuffle=shuffle, tol=1e-6, max_steps=5000)
        result = solver(fwnet.Quadratic(torch.eye(44, dtype=F64)), x0)
        assert result.status == "converged"
        torch.testing.assert_close(
            result.x[:5], torch.full((5,), 0.2, dtype=F64), rtol=0, atol=1e-3
        )


def test_problems_frozen_by_rounding_resume() -> None:
    """The cached image of one problem drifts: its gap looks like 0, but not to the certificate."""

    class Drifting(fwnet.Problem):
        shape, batch_dims, dtype, device = torch.Size((2, 3)), 1, F64, torch.device("cpu")
        quadratic = True
        drift = 0

        def image(self, x: Tensor) -> Tensor:
            return x.clone()

        def at(self, x: Tensor) -> Iterate:
            self.drift = 0
            return super().at(x)

        def value(self, it: Iterate) -> Tensor:
            return 0.5 * it.x.square().sum(-1)

        def gradient(self, it: Iterate) -> Tensor:
            self.drift += 1
            wrong = torch.tensor([[0.0 if 2 <= self.drift < 8 else 1.0], [1.0]], dtype=F64)
            return it.x * wrong

        def curvature(self, it: Iterate, move: Move) -> Tensor:
            return move.direction.square().sum(-1)

    start = torch.tensor([[0.0, 0.3, 0.7], [0.9, 0.1, 0.0]], dtype=F64)
    result = fwnet.FrankWolfe(fwnet.Simplex(), fwnet.LineSearch(), tol=1e-3)(Drifting(), start)
    assert result.status == ("converged", "converged")
    assert bool((result.gap <= 1e-3).all())


# Warm starts ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [fwnet.AwayFrankWolfe, fwnet.PairwiseFrankWolfe, fwnet.BlendedPairwise, fwnet.FrankWolfe],
)
def test_warm_start_continues_where_it_stopped(make: type) -> None:
    # A line search has no state: two halves are the whole, up to the refreshed image.
    rule = fwnet.OverRelaxed(1.5)
    whole = make(L1.domain, rule, max_steps=20, tol=0.0)(PROBLEM, torch.zeros(8, dtype=F64))
    half = make(L1.domain, rule, max_steps=10, tol=0.0)
    first = half(PROBLEM, torch.zeros(8, dtype=F64))
    kept = first.x.clone()
    weights = None if first.active is None else first.active.weights.clone()
    second = half(PROBLEM, first)
    torch.testing.assert_close(second.x, whole.x, rtol=0, atol=1e-10)
    assert torch.equal(first.x, kept)
    if first.active is not None:
        assert weights is not None
        assert torch.equal(first.active.weights, weights)
        torch.testing.assert_close(first.active.point(), kept, rtol=0, atol=1e-14)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (fwnet.L1Ball(5.0), fwnet.L1Ball(0.2)),
        (fwnet.L1Ball(0.2), fwnet.L1Ball(5.0)),
        (fwnet.LInfBall(1.0), fwnet.LInfBall(2.0)),
        (fwnet.LInfBall(2.0), fwnet.LInfBall(0.3)),
        (fwnet.Simplex(), fwnet.L1Ball(1.0)),
        (fwnet.L1Ball(1.0), fwnet.L2Ball(2.0)),
    ],
    ids=str,
)
def test_warm_start_on_another_domain_stays_in_it(old: fwnet.Domain, new: fwnet.Domain) -> None:
    inside = fwnet.LeastSquares(normal(4, 12, 6), normal(5, 12) * 0.02)
    outside = fwnet.LeastSquares(normal(6, 12, 6), normal(7, 12) * 10)
    first = fwnet.PairwiseFrankWolfe(old, max_steps=200, tol=1e-7)(inside)
    for make in (fwnet.PairwiseFrankWolfe, fwnet.AwayFrankWolfe, fwnet.BlendedPairwise):
        solver = make(new, max_steps=400, tol=5e-5)
        result = solver(outside, first)
        fresh = solver(outside)
        assert bool(new.contains(result.x, 1e-10))
        assert float(result.value) == pytest.approx(float(fresh.value), abs=1e-4)
        assert result.active is not None
        torch.testing.assert_close(result.active.point(), result.x, rtol=0, atol=1e-12)


# Showing ----------------------------------------------------------------------------------------


def test_verbose_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    result = fwnet.FrankWolfe(L1.domain, max_steps=25, tol=0.0)(PROBLEM, verbose=True)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["step", "value", "gap", "step", "size", "seconds"]
    assert [int(line.split()[0]) for line in lines[1:]] == [*range(11), 20, 25]
    last = lines[-1].split()
    assert float(last[1]) == pytest.approx(float(result.value), rel=1e-6)
    assert float(last[3]) == 0


def test_verbose_shows_a_batch(capsys: pytest.CaptureFixture[str]) -> None:
    problem = fwnet.LeastSquares(normal(1, 3, 12, 8), normal(2, 3, 12))
    fwnet.FrankWolfe(L1.domain, max_steps=3)(problem, verbose=True)
    assert len(capsys.readouterr().out.splitlines()) == 5


def test_silent_unless_asked(capsys: pytest.CaptureFixture[str]) -> None:
    SOLVER(PROBLEM)
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""


def test_progress_bar(capsys: pytest.CaptureFixture[str]) -> None:
    result = SOLVER(PROBLEM, progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert "gap" in err
    assert "/500" in err
    assert result.status == "converged"
    sampled = fwnet.StochasticFrankWolfe(L1.domain, batch_size=4, max_steps=5)
    sampled(PROBLEM, progress=True)
    with pytest.raises(ZeroDivisionError):  # and closes the progress bar
        SOLVER(PROBLEM, progress=True, on_step=lambda record: 1 / 0)
    SOLVER(PROBLEM, progress=True)


def test_repr() -> None:
    one = SOLVER(PROBLEM)
    assert repr(one).startswith("Result(status='converged', steps=")
    problem = fwnet.LeastSquares(normal(1, 3, 12, 8), normal(2, 3, 12))
    many = fwnet.FrankWolfe(L1.domain, max_steps=3)(problem)
    assert repr(many) == "Result(batch=3, status={'max_steps': 3}, x=(3, 8))"
    assert "domain=L1Ball(radius=1.3), max_steps=500" in repr(SOLVER)


# minimize ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [fwnet.Away, fwnet.Pairwise, fwnet.Blended])
def test_directions_over_atoms_search_the_line_by_default(kind: Any) -> None:
    """Σ iᵢxᵢ²/2 has its minimum 1/(2 Σ 1/i) at x ∝ 1/i; steps of 2/(t + 2) take thousands."""
    order = torch.arange(1.0, 9.0, dtype=torch.float64)
    solver = fwnet.FrankWolfe(fwnet.Simplex(), direction=kind(), tol=1e-8, max_steps=300)
    result = solver(fwnet.Quadratic(torch.diag(order)))
    assert result.status == "converged"
    assert float(result.value) == pytest.approx(0.5 / float((1 / order).sum()), abs=1e-8)


def test_minimize_with_all_defaults() -> None:
    n = 10
    A, b = normal(8, 20, n), normal(9, 20)
    result = fwnet.minimize(
        lambda x: ((A @ x - b) ** 2).sum(), fwnet.Simplex(), x0=torch.ones(n).double() / n, tol=1e-6
    )
    assert result.status == "converged"
    problem = fwnet.minimize(fwnet.LeastSquares(A, b), fwnet.Simplex(), tol=1e-9)
    assert float(result.value) == pytest.approx(2 * float(problem.value), abs=1e-6)
    torch.testing.assert_close(result.x, problem.x, rtol=0, atol=1e-3)
    ball = fwnet.minimize(fwnet.LeastSquares(A, b), fwnet.L2Ball(0.3), tol=1e-4)
    assert ball.status == "converged"
    assert ball.active is None


@pytest.mark.parametrize(
    ("domain", "shape"),
    [
        (fwnet.L2Ball(0.7), (12,)),
        (fwnet.LpBall(3.0, 0.7), (12,)),
        (fwnet.GroupL1Ball(torch.arange(12) // 3, 0.7), (12,)),
        (fwnet.TraceNormBall(0.7), (4, 3)),
        (fwnet.SpectralBall(0.7), (4, 3)),
        (fwnet.SchattenBall(3.0, 0.7), (4, 3)),
        (fwnet.RowBall(0.7), (4, 3)),
    ],
    ids=lambda case: str(case),
)
def test_quadratics_on_round_domains_are_solved_in_few_steps(
    domain: fwnet.Domain, shape: tuple[int, ...]
) -> None:
    """Completion of all entries, or its like for vectors; plain steps would take thousands."""
    goal = normal(8, 12)
    if len(shape) == 1:
        problem: fwnet.Problem = fwnet.LeastSquares(torch.eye(12).double(), goal)
    else:
        place = torch.arange(12)
        problem = fwnet.MatrixCompletion(place // 3, place % 3, goal, (4, 3))
    result = fwnet.minimize(problem, domain, tol=1e-7, max_steps=150)
    assert result.status == "converged"
    nearest = domain.project(goal.reshape(shape))
    if nearest is not None:  # ½‖x − goal‖² is 1-strongly convex: ‖x − x*‖² ≤ 2 gap
        assert float((result.x - nearest).norm()) <= (2e-7) ** 0.5 + 1e-9


def test_minimize_in_float32() -> None:
    A, b = normal(8, 20, 10).float(), normal(9, 20).float()
    result = fwnet.minimize(
        lambda x: ((A @ x - b) ** 2).sum(), fwnet.Simplex(), x0=torch.ones(10) / 10, tol=1e-4
    )
    assert result.status == "converged"
    assert result.x.dtype == torch.float32


def test_a_step_visits_twelve_files() -> None:
    files: set[str] = set()
    stepping = False

    def note(frame: Any, event: str, argument: object) -> None:
        nonlocal stepping
        path, name = frame.f_code.co_filename, frame.f_code.co_name
        if "/fwnet/" not in path:
            return
        stepping = (stepping or name == "look") and (event, name) != ("return", "settled")
        if stepping:
            files.add(path.split("/fwnet/")[-1])

    problem = fwnet.Quadratic(torch.diag(torch.arange(1.0, 6.0)))
    solver = fwnet.FrankWolfe(fwnet.Simplex(), fwnet.LineSearch(), max_steps=3, compiled=False)
    sys.setprofile(note)
    try:
        solver(problem)
    finally:
        sys.setprofile(None)
    assert "solvers/watch.py" in files
    assert len(files) <= 12, sorted(files)
