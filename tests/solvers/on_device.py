"""Solvers on an accelerator: the same answers as on the CPU, and how often they wait for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import fwnet
from cases import normal
from pretend import accelerator, on_device, on_host

SOLVERS: dict[str, tuple[Callable[..., fwnet.FrankWolfe], float]] = {
    "plain": (lambda **o: fwnet.FrankWolfe(fwnet.Simplex(), **o), 1.0),
    "line search": (lambda **o: fwnet.FrankWolfe(fwnet.L1Ball(), fwnet.LineSearch(), **o), 1.0),
    "away": (lambda **o: fwnet.AwayFrankWolfe(fwnet.L1Ball(), **o), 1.0),
    "pairwise": (lambda **o: fwnet.PairwiseFrankWolfe(fwnet.L1Ball(), **o), 1.0),
    "blended": (lambda **o: fwnet.BlendedPairwise(fwnet.Simplex(), **o), 1.0),
    "stochastic": (
        lambda **o: fwnet.StochasticFrankWolfe(fwnet.Simplex(), batch_size=5, **o),
        1.0,
    ),
}
SOLVERS["corrective"] = (lambda **o: fwnet.Corrective(fwnet.Simplex(), **o), 3.0)
SHAPES = {"one": (), "batch": (3,)}


def data(batch: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    return normal(1, *batch, 13, 8), normal(2, *batch, 13)


def solve(make: Callable[..., fwnet.FrankWolfe], A: Tensor, b: Tensor, **options: Any) -> Any:
    return make(compiled=False, **options)(fwnet.LeastSquares(A, b))


@pytest.mark.parametrize("batch", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("name", SOLVERS)
def test_the_same_answer_as_on_the_cpu(name: str, batch: tuple[int, ...]) -> None:
    make, _ = SOLVERS[name]
    A, b = data(batch)
    here = solve(make, A, b, max_steps=60, tol=1e-4)
    with accelerator():
        there = solve(make, on_device(A), on_device(b), max_steps=60, tol=1e-4)
        assert there.x.device.type == "pretend"
        x, gap = on_host(there.x), on_host(there.gap)
        statuses = there.status
    assert statuses == here.status
    assert bool((gap <= 1e-4).all()) or "max_steps" in str(statuses)
    torch.testing.assert_close(x, here.x, rtol=0, atol=1e-2)  # it may stop some steps later
    if "max_steps" in str(statuses):
        torch.testing.assert_close(x, here.x, rtol=0, atol=1e-10)


@pytest.mark.parametrize("batch", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("name", SOLVERS)
def test_waits_a_step(name: str, batch: tuple[int, ...]) -> None:
    """Between two numbers of steps, so that the beginning and the end do not count."""
    make, most = SOLVERS[name]
    A, b = normal(3, *batch, 60, 40), normal(4, *batch, 60)
    waits, ends = [], (20, 60) if name != "corrective" else (3, 9)  # it needs few
    for steps in ends:
        with accelerator() as log:
            result = solve(make, on_device(A), on_device(b), max_steps=steps, tol=0.0)
            waits.append(sum(log.waits.values()))
        assert "max_steps" in str(result.status)
    assert (waits[1] - waits[0]) / (ends[1] - ends[0]) <= most


def test_records_are_numbers_and_observers_get_them() -> None:
    A, b = data(())
    seen: list[fwnet.StepRecord] = []
    with accelerator():
        problem = fwnet.LeastSquares(on_device(A), on_device(b))
        solver = fwnet.FrankWolfe(fwnet.Simplex(), fwnet.LineSearch(), max_steps=20, tol=0.0)
        result = solver(problem, on_step=seen.append)
        records = list(result.trace)
    plain = fwnet.FrankWolfe(
        fwnet.Simplex(), fwnet.LineSearch(), max_steps=20, tol=0.0, compiled=False
    )(fwnet.LeastSquares(A, b))
    assert seen == records
    for mine, theirs in zip(records, plain.trace, strict=True):
        assert mine[:4] == pytest.approx(theirs[:4], rel=1e-9, abs=1e-12)


def test_a_problem_that_is_solved_between_checks_stays_solved() -> None:
    A, b = data(())
    make, _ = SOLVERS["pairwise"]
    here = solve(make, A, b, tol=1e-6, check_every=25)
    with accelerator():
        there = solve(make, on_device(A), on_device(b), tol=1e-6, check_every=25)
        assert there.status == here.status == "converged"
        assert float(there.gap) <= 1e-6
        steps = there.steps
    assert here.steps <= steps <= here.steps + 2


def test_numbers_that_are_not_finite() -> None:
    A, b = data(())
    with accelerator():
        problem = fwnet.LeastSquares(on_device(A * 1e200), on_device(b))
        result = fwnet.FrankWolfe(fwnet.Simplex())(problem)
        assert result.status == "non_finite"
        assert bool(fwnet.Simplex().contains(result.x))


def test_a_solve_that_stalls() -> None:
    A, b = data(())
    with accelerator():
        problem = fwnet.LeastSquares(on_device(A.float()), on_device(b.float()))
        result = fwnet.FrankWolfe(fwnet.Simplex(), fwnet.ShortStep(1e60))(problem)
        assert result.status == "stalled"
