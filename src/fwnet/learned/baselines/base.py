"""Baseline: a method to compare with, as a stream of values; Trajectory: what it did."""

from __future__ import annotations

import copy
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor

from fwnet.domains import Domain
from fwnet.iterates import Iterate
from fwnet.layers.unrolled import all_steps_taken
from fwnet.problems import Problem
from fwnet.trace import Result, StepRecord
from fwnet.vertices import OneHot

Report = Callable[..., bool]
"""report(f(x_t), x_t) -> whether to stop: at the target, or when all steps are taken.

f(x_t) is a number or `(*batch,)`; x_t may be left out by a method that is never called for its x.
"""


@final
@dataclass(frozen=True, eq=False)
class Trajectory:
    """One run: f at each iterate, and what it had cost until then.

    A gradient evaluation is a gradient and the image of one dense point: FISTA pays one a step,
    and so does a pairwise step, whose image is one column. A method that asks for the images of
    two dense points a step pays two. A method that computes gradients itself, without calling the
    problem, counts one a step.

    Arguments:
        values: f(x_t) of feasible iterates, `(steps + 1, *batch)`.
        gradients: gradient evaluations before that value was known, `(steps + 1,)`.
        seconds: processor time before that value was known, `(steps + 1,)`.
        x: the last iterate, if the method reports its points.

    Example:
        >>> from fwnet.learned import baselines
        >>> problem = fwnet.learned.families.QuadraticFamily(n=8).sample(1, torch.Generator())
        >>> run: baselines.Trajectory = baselines.FISTA().run(problem, Simplex(), 3)
        >>> run.gradients
        tensor([1, 3, 4, 5])
    """

    values: Tensor
    gradients: Tensor
    seconds: Tensor
    x: Tensor | None = None

    def first(self, target: Tensor) -> Tensor:
        """The first t with f(x_t) <= target, of each problem `(*batch,)`; −1 if there is none."""
        below = self.values <= target
        return torch.where(below.any(0), below.to(torch.int8).argmax(0), -1)


class Baseline(ABC):
    """A method that minimises a problem over a domain.

    `evaluate` gives it one problem at a time, as a batch of one: x is `(1, n)`.

    Attributes:
        name: in tables.

    Example:
        >>> from fwnet import learned
        >>> class Projected(learned.baselines.Baseline):
        ...     name = "projected gradient"
        ...     def follow(self, problem, domain, max_steps, report):
        ...         it = problem.at(domain.start(problem.shape, problem.dtype))
        ...         for _ in range(max_steps):
        ...             if report(problem.value(it), it.x):
        ...                 break
        ...             it = problem.at(domain.project(it.x - 0.1 * problem.gradient(it)))
        >>> problem = fwnet.Quadratic(torch.diag(torch.arange(1.0, 6.0)))
        >>> Projected()(problem, fwnet.Simplex(), max_steps=100).gap < 1e-6
        tensor(True)
    """

    name: str

    @abstractmethod
    def follow(self, problem: Problem, domain: Domain, max_steps: int, report: Report) -> None:
        """Call `report` with f(x_t) and x_t, t = 0, 1, …, feasible, until it answers True."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def fits(self, problem: Problem, domain: Domain) -> bool:
        """Whether the method can run on this problem and domain."""
        return True

    @torch.no_grad()
    def __call__(self, problem: Problem, domain: Domain, max_steps: int = 1000) -> Result:
        """Minimise as a solver does: x, its value and a certified gap.

        Example:
            >>> from fwnet import learned
            >>> problem = fwnet.Quadratic(torch.diag(torch.arange(1.0, 6.0)))
            >>> learned.baselines.FISTA()(problem, fwnet.Simplex(), max_steps=50).x.shape
            torch.Size([5])
        """
        found = self.run(problem, domain, max_steps)
        if found.x is None:
            raise TypeError(f"{self.name}.follow must report its points too: report(f(x), x).")
        records = [
            StepRecord(t, value, torch.nan, torch.nan, float(seconds))
            for t, (value, seconds) in enumerate(zip(found.values, found.seconds, strict=True))
        ]
        message = f"all steps of {self.name} were taken"
        steps = len(records) - 1
        return all_steps_taken(problem, domain, Iterate(found.x), steps, records, message)

    @torch.no_grad()
    def run(
        self, problem: Problem, domain: Domain, max_steps: int, target: Tensor | None = None
    ) -> Trajectory:
        """Run for `max_steps` steps, or until every problem of the batch is at its target."""
        if not self.fits(problem, domain):
            raise TypeError(f"{self.name} does not fit {type(problem).__name__} over {domain}.")
        counter = _Counter(problem)
        recorder = _Recorder(counter, max_steps, target)
        self.follow(counter.problem, domain, max_steps, recorder)
        if not recorder.values:
            raise ValueError(f"{self.name}.follow must call report at least once, with f(x_0).")
        return recorder.trajectory()


def start_of(problem: Problem, domain: Domain) -> Iterate:
    """The domain's own start."""
    assert problem.shape is not None
    return problem.at(domain.start(tuple(problem.shape), problem.dtype, problem.device))


class _Counter:
    """A copy of the problem that counts: its gradients, and the images of dense points."""

    def __init__(self, problem: Problem) -> None:
        self.gradients = self.images = 0
        self.problem = copy.copy(problem)
        # Set on the copy, so that it keeps its type and all else that it can do.
        for name in ("gradient", "first_order", "image", "vertex_image", "hessian_vertex"):
            vars(self.problem)[name] = self._counted(name, getattr(problem, name))

    def _counted(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(at: Any, *image: Any) -> Any:
            found = call(at, *image)
            if name == "image" or (name == "vertex_image" and not isinstance(at, OneHot)):
                self.images += 1
            elif name in ("gradient", "first_order"):
                self.gradients += 1
            elif name == "hessian_vertex":
                self.gradients += found is not image[0]  # one pass over A, unless the image is it
            return found

        return counted


class _Recorder:
    """Records each value with its cost so far; asks to stop at the target or the budget."""

    def __init__(self, counter: _Counter, max_steps: int, target: Tensor | None) -> None:
        self.counter, self.max_steps, self.target = counter, max_steps, target
        self.values: list[Tensor] = []
        self.costs: list[tuple[int, float]] = []  # gradient evaluations and seconds
        self.x: Tensor | None = None
        self.spent, self.since = 0.0, time.process_time()

    def __call__(self, value: Tensor | float, x: Tensor | None = None) -> bool:
        if len(self.values) > self.max_steps:
            return True  # the method did not stop when asked to
        self.spent += time.process_time() - self.since  # recording is not the method's work
        value = torch.as_tensor(value, dtype=torch.float64)
        self.values.append(value)
        self.costs.append((max(self.counter.gradients, self.counter.images), self.spent))
        self.x = x
        done = self.target is not None and bool((value <= self.target).all())
        broken = not bool(torch.isfinite(value).all())
        self.since = time.process_time()
        return len(self.values) > self.max_steps or done or broken

    def trajectory(self) -> Trajectory:
        gradients, seconds = map(torch.tensor, zip(*self.costs, strict=True))
        if not bool(gradients.any()):  # the method computes its own
            gradients = torch.arange(len(gradients))
        return Trajectory(torch.stack(self.values), gradients, seconds, self.x)
