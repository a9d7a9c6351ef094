"""solve: the optimum of an outside solver, the certificate of the core, always in the ball."""

from __future__ import annotations

import cvxpy
import numpy as np
import pytest
import torch

import fwnet
from fwnet.estimators.low_rank.dense_projection import DenseProjection
from fwnet.estimators.low_rank.descent import FactoredDescent
from fwnet.estimators.low_rank.projection import FactoredProjection
from fwnet.estimators.low_rank.rows import ArrayRows
from fwnet.estimators.low_rank.solve import solve
from fwnet.estimators.low_rank.solve import solve as solve_function
from fwnet.low_rank import (
    Budget,
    Factors,
    RowProblem,
    SoftmaxLoss,
    SquaredLoss,
    certify,
)
from fwnet.oracles.base import linearize
from fwnet.trace import StepRecord
from low_rank import cases

factors = Factors.of_result


def trace_norm(W: Factors) -> float:
    return float(torch.linalg.svdvals(W.dense().double()).sum())


@pytest.mark.parametrize("radius", [0.5, 5.0, 20.0])
def test_the_optimum_is_that_of_a_conic_solver(radius: float) -> None:
    rows, columns, classes = 60, 6, 5
    X, y = cases.data()
    X, y = X[:rows, :columns], y[:rows] % classes
    W = cvxpy.Variable((columns, classes))
    Z = X.numpy() @ W
    chosen = cvxpy.sum(cvxpy.multiply(np.eye(classes)[y.numpy()], Z))
    loss = (cvxpy.sum(cvxpy.log_sum_exp(Z, axis=1)) - chosen) / rows
    outside = cvxpy.Problem(cvxpy.Minimize(loss), [cvxpy.normNuc(W) <= radius])
    outside.solve(solver=cvxpy.SCS, eps=1e-7)
    problem = RowProblem(ArrayRows(X), cases.SoftmaxLoss(y, classes, torch.ones(rows).double()))
    found = solve(problem, radius, budget=Budget(tol=1e-6, max_steps=3000))
    assert found.status == "converged"
    assert float(found.value) == pytest.approx(outside.value, rel=1e-5)  # what SCS gives
    assert trace_norm(factors(found)) <= radius


@pytest.mark.parametrize("radius", [1.0, 20.0])
def test_the_certificate_is_that_of_the_core(radius: float) -> None:
    X, y = cases.data()
    found = solve(cases.softmax_problem(), radius, budget=Budget(tol=1e-2))
    core = fwnet.SoftmaxRegression(X, y, cases.M)
    truth = linearize(core, fwnet.TraceNormBall(radius), core.at(factors(found).dense()))
    assert float(found.value) == pytest.approx(float(truth.value))
    assert float(truth.decrease) <= found.gap <= float(truth.decrease) * 1.01 + 1e-4


def test_a_certificate_never_misses_a_larger_tied_value() -> None:
    """W holds the second singular vector of a gradient whose first two are nearly tied."""
    generator = torch.Generator().manual_seed(0)
    n, rows = 200, ArrayRows(torch.eye(200, dtype=torch.float64))
    for tie in (1e-3, 1e-4, 1e-6) * 10:
        random = torch.randn(2, n, n, generator=generator, dtype=torch.float64)
        left, right = torch.linalg.qr(random)[0]
        values = 0.9 * torch.rand(n, generator=generator, dtype=torch.float64)
        values[:2] = torch.tensor([1 + tie, 1.0])
        loss = SquaredLoss((left * values) @ right.mT, torch.ones(n, dtype=torch.float64))
        problem = RowProblem(rows, loss)
        W = Factors(left[:, 1:2], torch.tensor([1e-9], dtype=torch.float64), right[:, 1:2])
        look = problem.look(problem.scores(W.left), W.V, W.V)
        top = float(torch.linalg.svdvals(look.gradient.dense())[0])
        along = float((look.product * W.left).sum())
        found = certify(problem, W, 1.0, 1e-6)
        assert found.gap >= along + top * (1 - 1e-13)
        assert found.gap <= 1.01 * (along + top) + 2e-6 * top


def test_least_squares_inside_the_ball_is_the_plain_solution() -> None:
    X, _ = cases.data()
    Y = X[:, :5].sin()
    best = torch.linalg.lstsq(X, Y).solution
    problem = RowProblem(ArrayRows(X), SquaredLoss(Y, torch.ones(cases.N).double()))
    found = solve(problem, 100.0, budget=Budget(tol=1e-9, max_steps=5000))
    torch.testing.assert_close(factors(found).dense(), best, atol=1e-4, rtol=0)


def test_many_columns_start_with_minibatches_and_end_certified() -> None:
    generator = torch.Generator().manual_seed(0)
    n, d, m = 4500, 50, 60
    X = torch.randn(n, d, generator=generator)
    truth = torch.randn(d, 3, generator=generator) @ torch.randn(3, m, generator=generator)
    y = (X @ truth + torch.randn(n, m, generator=generator)).argmax(-1)
    problem = RowProblem(ArrayRows(X), cases.SoftmaxLoss(y, m, torch.ones(n)))
    found = solve(problem, 60.0, budget=Budget(tol=5e-3))
    core = fwnet.SoftmaxRegression(X.double(), y, m)
    there = linearize(core, fwnet.TraceNormBall(60.0), core.at(factors(found).dense().double()))
    assert found.status == "converged"
    assert np.isnan(found.trace.column("value")[:4]).all()  # four passes of minibatches
    assert float(found.value) == pytest.approx(float(there.value), rel=1e-5)
    assert float(there.decrease) <= 5e-3 * float(there.value) + 1e-5
    assert trace_norm(factors(found)) <= 60.0 * (1 + 1e-6)


@pytest.mark.parametrize(
    ("kind", "loss", "radius"),
    [
        ("tensor", "softmax", 1.0),
        ("sparse", "softmax", 10.0),
        ("streamed", "softmax", 1e3),  # the rows are separable: f goes to 0
        ("tensor", "squared", 1.0),
        ("streamed sparse", "squared", 1e3),
    ],
)
def test_small_problems_have_the_same_optimum_dense_and_by_factors(
    kind: str, loss: str, radius: float
) -> None:
    problem = RowProblem(cases.all_rows()[kind], cases.losses()[loss])
    start = Factors.zero(*problem.shape, problem.dtype)
    by_factors = FactoredProjection(problem, radius, start, 20, torch.Generator().manual_seed(0))
    dense = DenseProjection(problem, radius, start)
    for stage in (by_factors, dense):
        for _ in range(400):
            stage.step()
    (first, _, _), (second, gap, _) = (
        certify(problem, s.point(), radius) for s in (by_factors, dense)
    )
    enough = 1e-3 * max(second, 1e-3 * certify(problem, start, radius).value)
    assert gap <= enough
    assert trace_norm(dense.point()) <= radius * (1 + 1e-9)
    assert abs(first - second) <= gap + 1e-12
    assert dense.value == pytest.approx(second, abs=2 * gap)  # f where the gradient was taken
    assert -1e-12 <= dense.estimate <= 1.01 * gap + enough


def test_a_dense_projection_of_float32_rows_is_computed_in_float64() -> None:
    problem = cases.softmax_problem(torch.float32)
    stage = DenseProjection(problem, 10.0, Factors.zero(*problem.shape, problem.dtype))
    for _ in range(300):
        stage.step()
    W = stage.point()
    assert W.U.dtype == W.s.dtype == W.V.dtype == torch.float32
    assert trace_norm(W) <= 10.0 * (1 + 1e-6)
    assert certify(cases.softmax_problem(), W.to(torch.float64), 10.0).gap <= 1e-4


def test_a_start_may_be_of_another_type() -> None:
    problem = cases.softmax_problem()
    rough = factors(solve(problem, 10.0, budget=Budget(tol=0.1))).to(torch.float32)
    found = solve(problem, 10.0, rough)
    assert factors(found).U.dtype == torch.float64
    assert found.status == "converged"


def test_a_start_saves_steps() -> None:
    problem = cases.softmax_problem()
    cold = solve(problem, 10.0)
    warm = solve(problem, 10.5, factors(solve(problem, 10.0)))
    assert warm.steps < cold.steps


def test_a_largest_rank_is_kept() -> None:
    found = solve(cases.softmax_problem(), 20.0, budget=Budget(max_rank=2, max_steps=200))
    free = solve(cases.softmax_problem(), 20.0)
    assert factors(found).rank == 2 < factors(free).rank
    assert free.value < found.value
    assert found.gap >= found.value - free.value  # the bound holds all the same


def test_descent_stays_in_the_ball() -> None:
    problem, generator = cases.softmax_problem(), torch.Generator().manual_seed(0)
    start = Factors.zero(cases.D, cases.M, torch.float64)
    descent = FactoredDescent(start, 7.0, 6, generator)
    values = []
    for _ in range(30):
        for batch in problem.batches(64, generator):
            left, right = descent.factors
            values.append(problem.value(problem.scores(left), right))
            descent.step(batch(left, right))
            product = descent.factors[0] @ descent.factors[1].mT
            assert float(torch.linalg.svdvals(product).sum()) <= 7.0 * (1 + 1e-9)
    assert np.mean(values[-5:]) < 0.8 * values[0]


def test_budgets_and_observers(capsys: pytest.CaptureFixture[str]) -> None:
    problem, seen = cases.softmax_problem(), []

    def watch(record: StepRecord) -> bool:
        seen.append(record)
        return record.t == 3

    stopped = solve(problem, 10.0, on_step=watch, verbose=True)
    assert stopped.status == "stopped"
    assert [record.t for record in seen] == [0, 1, 2, 3, 4]
    assert "step size" in capsys.readouterr().out
    assert solve(problem, 10.0, budget=Budget(max_steps=2)).status == "max_steps"
    late = solve(problem, 10.0, budget=Budget(tol=1e-12, max_seconds=0.05, max_steps=10**6))
    assert late.status == "max_seconds"
    assert certify(problem, factors(late), 10.0).gap == pytest.approx(float(late.gap))


def test_the_result_is_that_of_every_solver() -> None:
    X, y = cases.data()
    found = solve(cases.softmax_problem(), 10.0, on_step=lambda record: np.bool_(record.t == 4))
    assert (found.status, found.message) == ("stopped", "on_step asked to stop")
    assert found.x.is_meta  # W is never formed
    assert found.x.shape == (cases.D, cases.M)
    assert found.active is not None
    assert float(found.active.weights.sum()) == pytest.approx(1.0)
    W = found.active.point()
    torch.testing.assert_close(W, factors(found).dense())
    core = fwnet.SoftmaxRegression(X, y, cases.M)
    assert float(core.value(core.at(W))) == pytest.approx(float(found.value))
    ball = fwnet.TraceNormBall(10.0)
    assert all(bool(ball.contains(atom)) for atom in found.active.atoms.dense())


def test_an_interrupt_loses_nothing() -> None:
    def interrupt(record: StepRecord) -> None:
        if record.t == 5 and record.step_size > 0:
            raise KeyboardInterrupt

    found = solve(cases.softmax_problem(), 10.0, on_step=interrupt)
    assert found.status == "interrupted"
    assert found.value < np.log(cases.M)
    assert found.gap > 0


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda p: solve_function(p, 0.0), "radius must be a positive finite number; got 0.0"),
        (lambda p: solve_function(p, float("nan")), "radius must be a positive finite number"),
        (
            lambda p: solve_function(p, 1.0, Factors.zero(3, 2, torch.float64)),
            rf"start must be \({cases.D}, {cases.M}\) as W; got \(3, 2\)",
        ),
        (
            lambda p: SoftmaxLoss(torch.tensor([0, 3]), 3, torch.ones(2)),
            "y must lie in 0..2; got 0..3",
        ),
        (
            lambda p: RowProblem(p.rows, SoftmaxLoss(torch.arange(3), 3, torch.ones(3))),
            "X has 300 rows, and the loss has 3",
        ),
        (lambda p: Budget(tol=0.0), "tol must be a positive finite number"),
        (lambda p: Budget(max_steps=0), "max_steps must be a whole number of at least 1"),
        (lambda p: Budget(max_rank=0), "max_rank must be a whole number of at least 1"),
        (lambda p: Budget(max_seconds=-1.0), "max_seconds must be a positive finite number"),
    ],
)
def test_errors(call: object, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        call(cases.softmax_problem())
