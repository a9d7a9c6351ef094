"""solve: the smallest f on the trace-norm ball, by a method that suits the size, certified."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, final

import torch

from fwnet.estimators.low_rank.dense_projection import DenseProjection, is_small
from fwnet.estimators.low_rank.descent import RATE, FactoredDescent
from fwnet.estimators.low_rank.factors import Factors
from fwnet.estimators.low_rank.problems import Certificate, FactoredProblem, RowProblem, certify
from fwnet.estimators.low_rank.projection import AcceleratedProjection, FactoredProjection
from fwnet.numerics import checks
from fwnet.solvers.observers import observers
from fwnet.trace import MESSAGES, Clock, Observer, Recorder, Result, Status, StepRecord, Trace

_WIDTH = 32  # columns of the factors while minibatches move them
_MANY_TERMS = 4096  # from here on, minibatches are worth a start
_PATIENCE = 10  # steps in a row within rounding errors


@final
@dataclass(frozen=True)
class Budget:
    """When to stop, and how large to grow.

    Arguments:
        tol: stop once gap <= tol · max(f(W), f(0)/1000).
        max_steps: passes over the data, those of minibatches included.
        max_seconds: None for no limit; certifying the result takes additional time.
        max_rank: None for no limit.
        epochs: passes of minibatches, where there are many terms and columns and no start.

    Example:
        >>> from fwnet.low_rank import ArrayRows, Budget, RowProblem, SquaredLoss, solve
        >>> loss = SquaredLoss(torch.eye(2), torch.ones(2))
        >>> problem = RowProblem(ArrayRows(torch.eye(2)), loss)
        >>> solve(problem, radius=1.0, budget=Budget(tol=1e-6, max_steps=100)).status
        'converged'
    """

    tol: float = 1e-3
    max_steps: int = 500
    max_seconds: float | None = None
    max_rank: int | None = None
    epochs: int = 4

    def __post_init__(self) -> None:
        checks.positive("tol", self.tol)
        checks.at_least("max_steps", self.max_steps, 1)
        checks.at_least("epochs", self.epochs, 0)
        if self.max_seconds is not None:
            checks.positive("max_seconds", self.max_seconds)
        if self.max_rank is not None:
            checks.at_least("max_rank", self.max_rank, 1)

    def after(self, clock: Clock) -> Budget:
        """The same with the seconds that the clock leaves, enough for one step at least."""
        if self.max_seconds is None:
            return self
        return replace(self, max_seconds=max(self.max_seconds - clock.seconds, 1e-9))


def solve(
    problem: FactoredProblem,
    radius: float,
    start: Factors | None = None,
    budget: Budget | None = None,
    *,
    generator: torch.Generator | None = None,
    on_step: Observer | None = None,
    progress: bool = False,
    verbose: bool = False,
) -> Result:
    """min f(W) over ‖W‖_* <= radius; `Factors.of_result` is W.

    Few columns or rows of W, few terms, or a start: only accelerated projection. Otherwise
    minibatch descent on two factors in the ball finds a start first. In both cases the steps end
    with the gap of the exact oracle; where the gap is too large, the oracle's vertex joins the
    directions that the next steps correct.

    In the trace, `value` is f where the step took its gradient (NaN for a pass of minibatches),
    `gap` the certified one where it was asked for. `x` of the result has no data: W is never
    formed, its singular triples are the atoms.

    Arguments:
        problem: f.
        radius: of the ball, above 0.
        start: where to begin; scaled into the ball.
        budget: see `Budget`.
        generator: of batches and bases; seed 0 if left out.
        on_step, progress, verbose: as in `fwnet.FrankWolfe.forward`.

    Example:
        >>> from fwnet.low_rank import ArrayRows, Factors, RowProblem, SquaredLoss, solve
        >>> loss = SquaredLoss(torch.eye(2), torch.ones(2))
        >>> problem = RowProblem(ArrayRows(torch.eye(2)), loss)
        >>> result = solve(problem, radius=1.0)
        >>> bool(Factors.of_result(result).s.sum() <= 1 + 1e-6)
        True
    """
    checks.positive("radius", radius)
    if start is not None and (len(start.U), len(start.V)) != problem.shape:
        raise ValueError(f"start must be {problem.shape} as W; got {(len(start.U), len(start.V))}.")
    budget = budget or Budget()
    generator = generator or torch.Generator().manual_seed(0)
    with ExitStack() as stack, torch.no_grad():
        watching = observers(stack, on_step, progress, verbose, budget.max_steps, budget.tol)
        return _FactoredRun(problem, radius, budget, generator, watching).run(start)


@final
class _FactoredRun:
    def __init__(
        self,
        problem: FactoredProblem,
        radius: float,
        budget: Budget,
        generator: torch.Generator,
        watching: Sequence[Observer],
    ) -> None:
        self.problem, self.radius, self.budget = problem, radius, budget
        self.generator = generator
        self.rank = min(budget.max_rank or min(problem.shape), *problem.shape)
        self.recorder, self.steps = Recorder(watching, budget.max_seconds), 0
        self.clock = self.recorder.clock
        self.stage: FactoredDescent | AcceleratedProjection[Any] | None = None
        self.best: tuple[Factors, Certificate] | None = None
        zero = Factors.zero(*problem.shape, problem.dtype)
        self.at_zero = problem.value(problem.scores(zero.left), zero.V)  # f(0)
        if not math.isfinite(self.at_zero):
            raise ValueError(
                f"f(0) is {self.at_zero}: the targets are too large for {problem.dtype}; scale "
                "them down."
            )

    def run(self, start: Factors | None) -> Result:
        W = Factors.zero(*self.problem.shape, self.problem.dtype)
        W = W if start is None else start.to(self.problem.dtype)
        try:
            status: Status | None = None if start is not None else self._descend(W)
            W = W if self.stage is None else self.stage.point()
            status = status or self._project(W.into(self.radius))
        except KeyboardInterrupt:
            if self.stage is None:  # there is nothing to keep yet
                raise
            status = "interrupted"
        if status != "converged" and self.stage is not None:
            self._certify(self.stage.point(), 1e-6)
        assert self.best is not None
        W, (value, gap, _) = self.best
        if gap <= self._goal(value):
            status = "converged"
        self._record(value, gap, 0.0)
        return as_result(W, value, gap, status, self.steps, self.recorder.trace)

    def _descend(self, W: Factors) -> Status | None:
        """Passes of minibatches; why to stop, or None."""
        size = self.problem.batch_size
        few = min(self.problem.shape) <= _WIDTH or self.problem.n < _MANY_TERMS
        if size is None or few or self.budget.epochs == 0:
            return None
        width = min(_WIDTH, self.rank)
        self.stage = descent = FactoredDescent(W, self.radius, width, self.generator)
        total, t = self.budget.epochs * math.ceil(self.problem.n / size), 0
        for _ in range(self.budget.epochs):
            for batch in self.problem.batches(size, self.generator):
                descent.step(batch(*descent.factors), max(0.05, 1 - 0.95 * t / total))
                t += 1
                if self.clock.is_over:
                    return "max_seconds"
            status = self._advance(math.nan, math.nan, RATE)
            if status is not None:
                return status
        return None

    def _project(self, W: Factors) -> Status:
        """Accelerated projections until the certificate is good enough; why they stopped."""
        self.stage = stage = _projection(self.problem, self.radius, W, self.rank, self.generator)
        due, idle = 0, 0
        while True:
            stage.step()
            gap = math.nan
            if stage.estimate <= self._goal(stage.value) and self.steps >= due:
                found = self._certify(stage.point(), min(1e-4, 1e-3 * self.budget.tol))
                if found.gap <= self._goal(found.value):
                    return "converged"
                gap = found.gap
                stage.follow(found.v)
                due = self.steps + max(3, self.steps // 5)
            status = self._advance(stage.value, gap, stage.length)
            if status is not None:
                return status
            idle = idle + 1 if stage.is_still else 0
            if idle >= _PATIENCE:
                return "stalled"

    def _certify(self, W: Factors, accuracy: float) -> Certificate:
        """The certificate at W, which is kept if it is the best point so far."""
        found = certify(self.problem, W, self.radius, accuracy)
        if self.best is None or found.value <= self.best[1].value:
            self.best = W, found
        return found

    def _goal(self, value: float) -> float:
        """The gap that is small enough; f(0) counts where f itself goes to 0."""
        return self.budget.tol * max(value, 1e-3 * self.at_zero)

    def _advance(self, value: float, gap: float, size: float) -> Status | None:
        """Record a step; why to stop, or None."""
        stop = self._record(value, gap, size)
        self.steps += 1
        if stop:
            return "stopped"
        if self.clock.is_over:
            return "max_seconds"
        return "max_steps" if self.steps >= self.budget.max_steps else None

    def _record(self, value: float, gap: float, size: float) -> bool:
        return self.recorder(StepRecord(self.steps, value, gap, size, self.clock.seconds))


def rough_fit(
    problem: FactoredProblem,
    radius: float,
    start: Factors,
    budget: Budget,
    generator: torch.Generator,
    clock: Clock,
) -> tuple[Factors, int]:
    """W by accelerated projection, without a certificate, and how many steps it took.

    It ends where the estimate of the gap is small enough, or with the budget or the clock.
    """
    rank = min(budget.max_rank or min(problem.shape), *problem.shape)
    stage, steps = _projection(problem, radius, start.into(radius), rank, generator), 0
    while steps < budget.max_steps and not clock.is_over:
        stage.step()
        steps += 1
        if stage.is_still or stage.estimate <= budget.tol * stage.value:
            break
    return stage.point(), steps


def _projection(
    problem: FactoredProblem, radius: float, W: Factors, rank: int, generator: torch.Generator
) -> AcceleratedProjection[Any]:
    """Accelerated projection from W, dense where that is faster."""
    if isinstance(problem, RowProblem) and is_small(problem, rank):
        return DenseProjection(problem, radius, W)
    return FactoredProjection(problem, radius, W, rank, generator)


def as_result(
    W: Factors, value: float, gap: float, status: Status, steps: int, trace: Trace
) -> Result:
    """W as the `Result` that every solver returns: its singular triples are the atoms."""
    return Result(
        x=torch.empty(len(W.U), len(W.V), dtype=W.U.dtype, device="meta"),
        value=torch.tensor(value, dtype=torch.float64),
        gap=torch.tensor(gap, dtype=torch.float64),
        status=status,
        steps=steps,
        trace=trace,
        message=MESSAGES[status],
        active=W.atoms(float(W.s.double().sum()) or 1.0),
    )
