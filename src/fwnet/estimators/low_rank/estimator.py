"""LowRankEstimator: what the low-rank estimators share."""

from __future__ import annotations

import math
import os
import warnings
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, TypeVar

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from fwnet.estimators.inputs import check_switches
from fwnet.estimators.low_rank.factors import Factors
from fwnet.estimators.low_rank.inputs import Array, generator_of, matrix, radius_of, rows_of
from fwnet.estimators.low_rank.problems import FactoredProblem, certify
from fwnet.estimators.low_rank.radius import choose_radius, natural_radius
from fwnet.estimators.low_rank.solve import Budget, as_result, solve
from fwnet.estimators.model_files import load_model, save_model
from fwnet.numerics import checks
from fwnet.numerics.files import ForeignFile
from fwnet.trace import Clock, Result, Trace

_Model = TypeVar("_Model", bound="LowRankMatrix")
_CHOICE = 1500, 20_000  # between these, a quarter of the rows chooses a radius
_REACH = 1e4  # natural radii; in larger balls, steps are lost in the rounding errors of W


class LowRankMatrix(BaseEstimator):
    """The fitted W = U diag(s) Vᵀ, which is stored, saved and loaded."""

    U_: Array
    s_: Array
    V_: Array

    @property
    def rank_(self) -> int:
        """Rank of W."""
        return int((self.s_ > 0).sum())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file, as `fwnet.estimators.save_model` does."""
        check_is_fitted(self)
        save_model(self, path)

    @classmethod
    def load(cls: type[_Model], path: str | os.PathLike[str]) -> _Model:
        """Read a model that `save` wrote; its trace is empty."""
        model = load_model(path)
        if not isinstance(model, cls):
            raise ForeignFile(
                f"{str(path)!r} holds a {type(model).__name__}, not a {cls.__name__}. Load it with "
                "that class, or with fwnet.estimators.load_model."
            )
        model.trace_ = Trace()
        return model

    def _factors(self, dtype: torch.dtype) -> Factors:
        U, s, V = (torch.as_tensor(x).to(dtype) for x in (self.U_, self.s_, self.V_))
        return Factors(U, s, V)

    def _store_factors(self, W: Factors) -> None:
        self.U_, self.s_, self.V_ = W.U.numpy(), W.s.numpy(), W.V.numpy()


class LinearLowRankMatrix(LowRankMatrix):
    """X · W, with a column of ones behind X if `fit_intercept` asks for it."""

    offset_: Any = 0.0  # taken off the targets

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    @property
    def coef_(self) -> Array:
        """Wᵀ without the intercept, `(outputs, features)`, computed when asked for."""
        return ((self.V_ * self.s_) @ self.U_[: self.n_features_in_].T).astype(self.s_.dtype)

    @property
    def intercept_(self) -> Array:
        """The intercepts, `(outputs,)`: the last row of W, and what was taken off the targets."""
        if not self._has_intercept:
            return np.zeros(len(self.V_), dtype=self.s_.dtype)
        return np.asarray((self.V_ * self.s_) @ self.U_[-1]) + self.offset_

    @property
    def _has_intercept(self) -> bool:
        """Whether the fitted W has a row of intercepts; `fit_intercept` is about the next fit."""
        return len(self.U_) > self.n_features_in_

    def _scores(self, X: Any) -> Array:
        """X · W, `(n, outputs)`."""
        check_is_fitted(self)
        X = matrix(self, X, reset=False)
        rows = rows_of(X, self._has_intercept)
        W = self._factors(rows.dtype)
        return (rows.times(W.left) @ W.V.mT).numpy()


@dataclass(eq=False, repr=False)
class LowRankEstimator(LowRankMatrix):
    """The smallest f on the trace-norm ball; a subclass says what f is.

    The parameters are explained in `LowRankSoftmaxClassifier`.
    """

    radius: Any = "auto"
    _: KW_ONLY
    max_rank: int | None = None
    tol: float = 1e-3
    max_iter: int = 500
    max_time: float | None = None
    warm_start: bool = False
    progress: bool = False
    verbose: int = 0
    random_state: Any = None

    def _budget(self) -> Budget:
        check_switches(self)
        checks.verbosity("verbose", self.verbose)
        checks.at_least("max_iter", self.max_iter, 1)
        if self.max_time is not None:
            checks.positive("max_time", self.max_time)
        return Budget(self.tol, self.max_iter, self.max_time, self.max_rank)

    def _start(self, problem: FactoredProblem) -> Factors | None:
        """The last solution, if it is wanted and fits."""
        if not self.warm_start or not hasattr(self, "U_"):
            return None
        fits = (len(self.U_), len(self.V_)) == problem.shape
        return self._factors(problem.dtype) if fits else None

    def _choose_radius(self, problem: FactoredProblem, budget: Budget) -> float:
        """The radius that was given, or one chosen on held-out rows in half of the time."""
        radius = radius_of(self.radius)
        if radius is not None:
            return radius
        if problem.n < 10:  # too few to hold some out
            return natural_radius(problem)
        generator = generator_of(self.random_state)
        rows = min(max(problem.n // 4, _CHOICE[0]), _CHOICE[1])
        train, held_out = problem.split(rows, 0.2, generator)
        half = None if budget.max_seconds is None else budget.max_seconds / 2
        try:
            return choose_radius(train, held_out, replace(budget, max_seconds=half), generator)
        except torch.linalg.LinAlgError as error:  # type: ignore[attr-defined]
            raise ValueError(
                f"products of these numbers are out of the range of {problem.dtype}. Scale the "
                "features and targets."
            ) from error

    def _minimize(self, problem: FactoredProblem, budget: Budget) -> None:
        """Solve, and store what was found."""
        clock = Clock(budget.max_seconds)
        self.radius_ = self._choose_radius(problem, budget)
        found = self._solve(problem, self.radius_, self._start(problem), budget.after(clock))
        if found is None or found.status != "converged":
            found = self._no_worse_than_zero(problem, budget.after(clock), found)
        self._store(found)
        if found.status in ("max_steps", "stalled"):
            gap, value = float(found.gap), float(found.value)
            share = gap / value if value > 0 else math.inf
            warnings.warn(
                f"{type(self).__name__} stopped ({found.status}) at a duality gap of "
                f"{gap:.2g}, {share:.2g} of the loss, above tol={self.tol:g}. Raise "
                "max_iter, tol or max_rank, scale the features, or use float64.",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _solve(
        self, problem: FactoredProblem, radius: float, start: Factors | None, budget: Budget
    ) -> Result | None:
        """The solution, or None where it left the range of floating-point numbers."""
        try:
            return solve(
                problem,
                radius,
                start,
                budget,
                generator=generator_of(self.random_state),
                progress=bool(self.progress),
                verbose=bool(self.verbose),
            )
        except torch.linalg.LinAlgError:  # type: ignore[attr-defined]
            return None

    def _no_worse_than_zero(
        self, problem: FactoredProblem, budget: Budget, found: Result | None
    ) -> Result:
        """`found`, or what is better: the solution in a smaller ball, or W = 0.

        In a ball that is far too large for the features, steps are lost in the rounding errors of
        W. The solution in the smaller ball is certified in the larger one.
        """
        zero = Factors.zero(*problem.shape, problem.dtype)
        at_zero, gap, _ = certify(problem, zero, self.radius_)
        inner = min(self.radius_, _REACH * natural_radius(problem))
        best = as_result(zero, at_zero, gap, "stalled", 1, Trace())
        if found is not None and found.value <= at_zero:
            best = found
            if inner == self.radius_ or found.status != "stalled":
                return found
        smaller = self._solve(problem, inner, None, budget)
        if smaller is not None and smaller.value <= best.value:
            gap = certify(problem, Factors.of_result(smaller), self.radius_).gap
            best = replace(smaller, gap=best.gap.new_tensor(gap))
        converged = bool(best.gap <= budget.tol * best.value)
        return replace(best, status="converged" if converged else "stalled")

    def _store(self, found: Result) -> None:
        self._store_factors(Factors.of_result(found))
        self.value_, self.duality_gap_ = float(found.value), max(0.0, float(found.gap))
        self.n_iter_, self.trace_ = max(1, found.steps), found.trace
        self.status_: Any = found.status
