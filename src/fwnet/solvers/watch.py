"""Watch: the certificate, the budgets, the records and the observers of one solve."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import final

import torch
from torch import Tensor

from fwnet.domains import Domain
from fwnet.iterates import Iterate
from fwnet.oracles import Linearization, linearize
from fwnet.problems import Problem
from fwnet.trace import StepRecord, Trace

Observer = Callable[[StepRecord], object]

SENTENCES = {
    "converged": "the duality gap is at most tol",
    "max_steps": "max_steps were taken before the gap reached tol",
    "max_seconds": "max_seconds went by before the gap reached tol",
    "stopped": "on_step asked to stop",
    "interrupted": "interrupted from the keyboard; x is the best iterate so far",
    "non_finite": "f or its gap became NaN or infinite; x is the best iterate before that",
    "stalled": "steps of size 0 at the precision of this dtype; try float64 or another rule",
}
_STALL = 10  # steps of size 0 in a row


@final
class Watch:
    """Decides at each step whether to go on, for every problem of a batch.

    A problem whose gap reached `tol` is frozen: its steps have size 0 from then on.
    """

    def __init__(
        self,
        problem: Problem,
        domain: Domain,
        tol: float,
        max_seconds: float | None,
        observers: Sequence[Observer],
    ) -> None:
        self.problem, self.domain = problem, domain
        self.tol, self.max_seconds, self.observers = tol, max_seconds, observers
        self.trace = Trace()
        self.started = time.perf_counter()
        self.best: Iterate | None = None
        self.best_value: Tensor | float = math.inf
        self.gap: Tensor | None = None  # of the last certified iterate
        self.done: Tensor | None = None  # a batch: which problems are finished
        self.steps: Tensor | None = None
        self.idle = 0

    def refreshed(self, it: Iterate) -> Iterate:
        """The iterate with x from its atoms and its image from x: rounding starts anew."""
        active = None if it.active is None else it.active.normalized()
        x = it.x if active is None else active.point()
        fresh = self.problem.at(x)
        return Iterate(fresh.x, fresh.image, active)

    def certify(self, it: Iterate) -> tuple[Iterate, Linearization]:
        """The true linearisation at a refreshed iterate."""
        it = self.refreshed(it)
        return it, linearize(self.problem, self.domain, it)

    def verdict(self, value: Tensor, gap: Tensor | None) -> str | None:
        """Why to stop before the next step, judging by f and, where it is known, the gap."""
        if value.ndim == 0:
            if not math.isfinite(value) or not (gap is None or math.isfinite(gap)):
                return "non_finite"
            if gap is not None and gap <= self.tol:
                return "converged"
        else:
            known = torch.isfinite(value) if gap is None else torch.isfinite(value + gap)
            if not bool(known.all()):
                return "non_finite"
            if gap is not None and bool((gap <= self.tol).all()):
                return "converged"
        if self.max_seconds is not None and self.seconds() >= self.max_seconds:
            return "max_seconds"
        return "stalled" if self.idle >= _STALL else None

    def freeze(self, gap: Tensor, step_size: Tensor) -> Tensor:
        """Step sizes with 0 for the problems of a batch that are finished."""
        done = gap <= self.tol
        self.done = done if self.done is None else self.done | done
        return torch.where(self.done, 0.0, step_size)

    def keep_best(self, it: Iterate, value: Tensor) -> None:
        """Remember the iterate with the smallest f, each problem for itself."""
        if value.ndim == 0:
            number = float(value)
            if number < self.best_value or self.best is None:
                self.best, self.best_value = it, number
        elif self.best is None:
            self.best, self.best_value = it, value
        else:
            better = value < self.best_value
            if bool(better.all()):
                self.best, self.best_value = it, value
                return
            shape = better.reshape(-1, *(1,) * (it.x.ndim - 1))
            self.best = Iterate(torch.where(shape, it.x, self.best.x))
            self.best_value = torch.minimum(value, torch.as_tensor(self.best_value))

    def record(self, t: int, value: Tensor, gap: Tensor | None, step_size: Tensor | None) -> bool:
        """Write the record, tell the observers; whether one of them asks to stop."""
        nothing = math.nan
        if value.ndim == 0:
            numbers = (
                float(value),
                nothing if gap is None else float(gap),
                0.0 if step_size is None else float(step_size),
            )
            self.idle = self.idle + 1 if step_size is not None and numbers[2] == 0 else 0
            record = StepRecord(t, *numbers, self.seconds())
        else:
            unknown = torch.full_like(value, nothing)
            zeros = torch.zeros_like(value)
            record = StepRecord(
                t,
                value,
                unknown if gap is None else gap,
                zeros if step_size is None else step_size,
                self.seconds(),
            )
            moving = step_size is not None and bool((step_size > 0).any())
            self.idle = 0 if moving or step_size is None else self.idle + 1
            if step_size is not None:
                taken = torch.ones_like(value) if self.done is None else (~self.done).to(value)
                self.steps = taken if self.steps is None else self.steps + taken
        self.trace.append(record)
        answers = [observer(record) for observer in self.observers]
        return any(answer is True for answer in answers)

    def seconds(self) -> float:
        """Since the solve began."""
        return time.perf_counter() - self.started
