"""One fit: all binary problems on shared points, starts, warnings."""

from __future__ import annotations

import math
import warnings
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from typing import Any, final

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.parallel import Parallel, delayed
from threadpoolctl import ThreadpoolController

from fwnet.estimators.svm.kernel_machine import Points, solve_kernel
from fwnet.estimators.svm.kernels import Array, KernelSpec
from fwnet.estimators.svm.limits import Limits, OutOfTime
from fwnet.estimators.svm.linear import solve_linear
from fwnet.estimators.svm.margin_problem import BinaryProblem, Expansion
from fwnet.estimators.svm.multiclass import Split
from fwnet.estimators.svm.neural import is_network, solve_network
from fwnet.numerics.log import logger
from fwnet.show.progress import progress_bar
from fwnet.trace import Observer, StepRecord


@final
@dataclass(frozen=True, eq=False)
class SVMTask:
    """What to solve, and how: all problems of a fit, on shared points."""

    X: Any
    spec: KernelSpec
    splits: list[Split]
    solver: Any  # a name, or a network
    progress: bool


def solve_all(task: SVMTask, limits: Limits) -> list[Expansion]:
    """Solve the problems, all with one kernel matrix.

    Threads evaluate kernel values; once the matrix is complete, they solve several problems at
    once. BLAS takes one thread in each of them.
    """
    points = _prepare(task, limits)
    whole = points is None or points.gram.fits
    count = len(task.splits)
    # Rows of a shared matrix may be dropped, so threads need one that fits as a whole.
    several = limits.threads > 1 and count > 1 and whole
    with ExitStack() as stack:
        if several or (limits.threads > 1 and points is not None):
            stack.enter_context(_libraries().limit(limits=1, user_api="blas"))
        if points is not None and whole and count > 2:
            _make_all(points, limits)
        jobs = list(zip(task.splits, _shown(stack, task.progress, limits, count), strict=True))
        solve = partial(_solve, task, points)
        if several:
            each = [delayed(solve)(split, replace(shown, threads=1)) for split, shown in jobs]
            found = list(Parallel(n_jobs=limits.threads, prefer="threads")(each))
        else:
            found = [solve(split, shown.share(count - k)) for k, (split, shown) in enumerate(jobs)]
    if points is not None:
        points.gram.warn_if_short()
        points.gram.release()
    return found


def _make_all(points: Points, limits: Limits) -> None:
    """Evaluate the whole kernel matrix before several problems, which may take a thread each.

    Together they need most of its rows, and by symmetry all rows at once are half the work.
    """
    kernel = points.gram.kernel
    with suppress(OutOfTime), kernel.limited(limits.clock):
        points.gram.square()
    kernel.threads = 1


@cache
def _libraries() -> ThreadpoolController:
    """The libraries with threads of their own; to look for them takes as long as a small fit."""
    return ThreadpoolController()


def _shown(stack: ExitStack, progress: bool, limits: Limits, problems: int) -> list[Limits]:
    """Return the limits of each problem; with `progress`, the gaps of all move one bar.

    share of a problem that is done = log(gap) / log(tol)
    """
    if not progress:
        return [limits] * problems
    advance, done = progress_bar(stack, 100 * problems), [0] * problems

    def watch(k: int) -> Observer:
        def show(record: StepRecord) -> None:
            gap = float(record.gap)
            share = math.log(gap) / math.log(limits.tol) if limits.tol < gap < 1.0 else gap < 1.0
            done[k] = max(done[k], int(100 * share))
            advance(sum(done), f"gap {gap:.1e} (target {limits.tol:.0e})")

        return show

    return [replace(limits, observers=(watch(k),)) for k in range(problems)]


def _prepare(task: SVMTask, limits: Limits) -> Points | None:
    """Return the points with their kernel matrix; None where features take its place."""
    solver, network = task.solver, is_network(task.solver)
    # There the bias is a feature.
    linear = task.spec.name == "linear" and task.splits[0].problem.bias == 1.0
    if linear and solver != "pairwise" and not network:
        return None
    points = Points.prepare(task.X, task.spec, limits)
    if (solver == "pairwise" or network) and not points.gram.fits:
        size = points.gram.kernel.megabytes
        name = solver if isinstance(solver, str) else "fwnet"
        raise ValueError(
            f"solver={name!r} keeps the whole kernel matrix, {size:.0f} MB, but "
            f"cache_size={limits.room(size):g} MB. Raise cache_size or use solver='auto'."
        )
    return points


def trial_order(random_state: Any, n: int) -> Array:
    """Return a permutation (n,), a fixed one for None, so that two fits agree."""
    if random_state is None:
        return _fixed_order(n)
    return np.asarray(check_random_state(random_state).permutation(n))


@lru_cache(maxsize=8)
def _fixed_order(n: int) -> Array:
    order = np.random.default_rng(0).permutation(n)
    order.flags.writeable = False  # the next fit gets the same array
    return order


def _solve(task: SVMTask, points: Points | None, split: Split, limits: Limits) -> Expansion:
    index, problem, start, solver = split.points, split.problem, split.start, task.solver
    if points is not None:
        some = points if index is None else points.part(index, limits)
        if is_network(solver):
            assert isinstance(problem, BinaryProblem)
            return solve_network(some, problem, limits, solver)
        return solve_kernel(some, problem, limits, solver, start)
    X = task.X if index is None else task.X[index]
    vector = None
    if start is not None and start.any():
        vector = np.append(start @ X, start.sum())
    return solve_linear(X, problem, limits, solver, vector)


_ROUNDING = (
    "precision",
    "Double precision allows no more: centre and scale X, e.g. with StandardScaler, lower C, or "
    "accept a larger tol",
)
_ADVICE = {  # what stopped the fit, in the estimator's words, and what to do
    "max_steps": ("max_iter", "Raise max_iter, or accept a larger tol"),
    "max_seconds": ("max_time", "Raise max_time, or accept a larger tol"),
    "stalled": _ROUNDING,
    "non_finite": _ROUNDING,
}


def report(name: str, expansions: list[Expansion], tol: float, verbose: int) -> None:
    """Warn about a gap above tol; with `verbose`, log what was reached."""
    for k, solved in enumerate(expansions):
        lines = solved.trace if verbose > 1 else solved.trace[-1:] if verbose else []
        for r in lines:
            logger.info(
                f"{name} problem {k}: {r.t} steps, dual {-r.value:.6g}, gap {r.gap:.2e}, "
                f"{r.seconds:.3f} s"
            )
    worst = max(expansions, key=lambda solved: solved.gap)
    if worst.gap > tol:
        reason, advice = _ADVICE[worst.status]
        warnings.warn(
            f"{name} stopped after {worst.steps} steps ({reason}) at a relative duality gap "
            f"of {worst.gap:.2e}, above tol={tol:g}. {advice}.",
            ConvergenceWarning,
            stacklevel=4,
        )
