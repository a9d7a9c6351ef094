"""Watch: the certificate, the budgets, the records and the observers of one solve."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np
import torch
from torch import Tensor

from fwnet.iterates import Iterate
from fwnet.oracles import Linearization, linearize
from fwnet.problems import Problem
from fwnet.solvers.loop import Ending
from fwnet.trace import MESSAGES, Number, Observer, Recorder, Status, StepRecord

if TYPE_CHECKING:
    from fwnet.solvers.frank_wolfe import FrankWolfe


class Judgement(NamedTuple):
    """What is known of an iterate.

    Arguments:
        it: the iterate to continue from.
        lin: the linearisation to continue with; None after the last step.
        value, gap: f and the duality gap; None for an unknown gap.
        status: why to stop, or None.
        certified: the refreshed iterate and its true linearisation, if computed.
    """

    it: Iterate
    lin: Linearization | None
    value: Number
    gap: Number | None
    status: Status | None
    certified: tuple[Iterate, Linearization] | None = None


@final
class Watch:
    """Decides at each step whether to go on, for every problem of a batch.

    A problem whose gap reached `tol`, whose numbers are no longer finite or whose oracle failed is
    frozen: its steps have size 0 from then on, while the others continue. On an accelerator, where
    each number that Python reads waits for the device, numbers stay there, single problems freeze
    as those of a batch do, and the reasons to stop are read together every `check_every` steps.

    Arguments:
        device: where the numbers are.
    """

    def __init__(
        self,
        solver: FrankWolfe,
        problem: Problem,
        observers: Sequence[Observer],
        device: torch.device | None = None,
    ) -> None:
        self.solver, self.problem = solver, problem
        self.domain, self.tol, self.max_steps = solver.domain, solver.tol, solver.max_steps
        self.sampled = not solver.oracle.reads_image  # the oracle sees only a part of f
        self.patience = solver.oracle.patience(solver.domain)
        self.recorder = Recorder(observers, solver.max_seconds, solver.trace_every)
        self.trace, self.clock = self.recorder.trace, self.recorder.clock
        self.best: Iterate | None = None
        self.best_value: Number = math.inf
        self.remote = device is not None and device.type != "cpu"
        self.masked = self.remote or problem.batch_dims > 0  # problems freeze
        self.done: Tensor | None = None  # which problems are finished
        self.broken: Tensor | None = None  # which problems became NaN or infinite
        self.failed: Tensor | None = None  # where the oracle failed at the last certificate
        self.taken = 0  # steps
        self.steps: Tensor | None = None  # where problems freeze: steps of each
        self.idle: int | Tensor = 0  # steps of size 0 in a row

    def plain(self, value: Tensor) -> Number:
        """The number of a single problem as a float, which is cheaper to compare."""
        return value if self.masked else value.item()

    def certify(self, it: Iterate) -> tuple[Iterate, Linearization]:
        """The true linearisation with its certified gap, at a refreshed iterate."""
        it, lin = self.solver.oracle.certify(self.problem, self.domain, it)
        assert lin.gap is not None
        if self.problem.batch_dims or not math.isfinite(lin.gap):
            self.failed = lin.gap.isinf() & lin.decrease.isfinite()
        else:
            self.failed = None
        return it, lin

    def judge(self, t: int, it: Iterate, lin: Linearization | None) -> Judgement:
        """f and the gap at an iterate, and why to stop there; `lin` is None after the last step."""
        if lin is None:
            seen = self._certified(it, None)
            return self._kept(seen._replace(status=seen.status or "max_steps"))
        bound = lin.decrease if lin.gap is None else lin.gap
        value, gap = self.plain(lin.value), self.plain(bound) if lin.exact else None
        if gap is None and t % self.solver.check_every == 0 and not self.solver.oracle.certifies:
            fresh = self.problem.refreshed(it)
            here = linearize(self.problem, self.domain, fresh)
            value, gap = self.plain(here.value), self.plain(here.decrease)
            it = it if self.sampled else fresh
        status = self.verdict(value, gap, due=not self.remote or t % self.solver.check_every == 0)
        if status in (None, "non_finite"):
            return self._kept(Judgement(it, lin, value, gap, status))
        # The step's oracle may have missed the best vertex, and steps accumulate rounding.
        return self._kept(self._certified(it, lin))

    def _certified(self, it: Iterate, lin: Linearization | None) -> Judgement:
        fresh, true = self.certify(it)
        assert true.gap is not None
        value, gap = self.plain(true.value), self.plain(true.gap)
        status = self.verdict(value, gap)
        lin = true if lin is not None and lin.exact else lin
        return Judgement(it if self.sampled else fresh, lin, value, gap, status, (fresh, true))

    def _kept(self, seen: Judgement) -> Judgement:
        """The same judgement, after remembering the iterate if it is the best so far."""
        if self.sampled and seen.gap is None:
            return seen._replace(value=seen.value * math.nan)  # only a minibatch was seen
        if seen.status != "non_finite":
            self.keep_best(seen.it, seen.value)
        return seen

    def ending(self, t: int, seen: Judgement) -> Ending:
        """The last record, and the end of the solve."""
        assert seen.status is not None
        self.record(t, seen.value, seen.gap, None)
        if seen.certified is None:
            return Ending(self.best or seen.it, seen.status, t)
        fresh, true = seen.certified
        return Ending(fresh, seen.status, t, true)

    def settled(self, it: Iterate, t: int) -> Iterate:
        """The iterate, its image recomputed every `refresh_every` steps."""
        due = t % self.solver.refresh_every == 0 and not self.sampled
        return self.problem.refreshed(it) if due else it

    def verdict(self, value: Number, gap: Number | None, due: bool = True) -> Status | None:
        """Why to stop before the next step, judged by f and, if known, the gap.

        Arguments:
            due: else masks are brought up to date, and only the clock is read.
        """
        status: Status | None
        if isinstance(value, Tensor):
            status = self._masked_verdict(value, gap, due)
        elif self.failed is not None and bool(self.failed):
            status = "oracle_failed"
        elif not (math.isfinite(value) and (gap is None or math.isfinite(gap))):
            status = "non_finite"
        else:
            goal = self.tol * abs(value) if self.solver.oracle.relative_tol else self.tol
            status = "converged" if gap is not None and gap <= goal else None
        if status is not None:
            return status
        if self.clock.is_over:
            return "max_seconds"
        idle = not isinstance(self.idle, Tensor) and self.idle >= self.patience
        return "stalled" if idle else None

    def _masked_verdict(self, value: Tensor, gap: Number | None, due: bool) -> Status | None:
        failed = torch.zeros_like(value, dtype=torch.bool) if self.failed is None else self.failed
        numbers = value + gap.masked_fill(failed, 0.0) if isinstance(gap, Tensor) else value
        bad = ~torch.isfinite(numbers)
        self.broken = bad if self.broken is None else self.broken | bad
        if not due:
            return None
        lost = self.broken | failed
        solved = (gap <= self.tol) | lost if isinstance(gap, Tensor) else torch.zeros_like(lost)
        reasons = [lost.all(), failed.any(), solved.all()]
        if isinstance(self.idle, Tensor):
            reasons.append(self.idle >= self.patience)
        all_lost, any_failed, all_solved, *idle = torch.stack(reasons).tolist()  # one read
        if all_lost:
            return "oracle_failed" if any_failed else "non_finite"
        if all_solved:
            return "converged"
        return "stalled" if any(idle) and not self.clock.is_over else None

    def freeze(self, gap: Number | None, step_size: Tensor) -> Tensor:
        """Step sizes, 0 for the finished problems of a batch."""
        if isinstance(gap, Tensor):  # a frozen problem's gap can change only by rounding
            self.done = gap <= self.tol
        for lost in (self.broken, self.failed) if self.masked else ():
            if lost is not None:
                self.done = lost if self.done is None else self.done | lost
        return step_size if self.done is None else step_size.masked_fill(self.done, 0.0)

    def keep_best(self, it: Iterate, value: Number) -> None:
        """Remember the iterate with the smallest f, for each problem separately."""
        if self.remote and self.best is None:
            # Without atoms: later iterates write into their slots.
            self.best, self.best_value = Iterate(it.x, it.image), value
            return
        better = value <= self.best_value
        if self.best is None or self._is_better(better):
            self.best, self.best_value = it, value
        elif isinstance(better, Tensor):
            mask = better.reshape(*better.shape, *(1,) * (it.x.ndim - better.ndim))
            self.best = Iterate(torch.where(mask, it.x, self.best.x))
            self.best_value = torch.where(better, value, self.best_value)
        elif self.best.active is not None:  # later iterates write into its slots
            self.best = Iterate(self.best.x, self.best.image)

    def _is_better(self, better: bool | Tensor) -> bool:
        """Whether every problem is; not asked of a device."""
        if isinstance(better, Tensor):
            return not self.remote and bool(better.all())
        return better

    def record(self, t: int, value: Number, gap: Number | None, step_size: Tensor | None) -> bool:
        """Write the record and call the observers; return whether one asks to stop."""
        size: Number
        if isinstance(value, Tensor):
            gap = torch.full_like(value, math.nan) if gap is None else gap
            size = torch.zeros_like(value) if step_size is None else step_size
            zero = (size == 0).all()
            still = zero if self.remote else bool(zero)
        else:
            gap = math.nan if gap is None else gap
            size = 0.0 if step_size is None else step_size.item()
            still = size == 0
        self.idle = (self.idle + 1) * still if step_size is not None else 0
        stop = self.recorder(StepRecord(t, value, gap, size, self.clock.seconds))
        if step_size is not None and not stop:
            moved = None
            if isinstance(value, Tensor):
                moved = torch.ones_like(value) if self.done is None else (~self.done).to(value)
            self.count(1, moved)
        return stop

    def record_chunk(
        self, t: int, columns: Sequence[np.ndarray] | Sequence[Tensor], began: float
    ) -> int:
        """Record steps already taken; return how many, up to the one where an observer stops.

        Arguments:
            columns: values, gaps and step sizes: arrays `(steps,)`, or tensors `(steps, batch)`.
            began: the time when they began; the time since then is divided evenly.
        """
        taken, self.idle = len(columns[0]), 0
        seconds = np.linspace(began, self.clock.seconds, taken + 1)[1:]
        if isinstance(columns[0], np.ndarray) and not self.recorder.observers:
            self.trace.extend(t, (*columns, seconds))
            self.count(taken, None)
            return taken
        plain = [c.tolist() if isinstance(c, np.ndarray) else c for c in columns]
        rows = zip(*plain, seconds.tolist(), strict=True)
        for k, (value, gap, size, when) in enumerate(rows):
            if self.recorder(StepRecord(t + k, value, gap, size, when)):
                return k
            self.count(1, size.ne(0).to(size) if isinstance(size, Tensor) else None)
        return taken

    def count(self, taken: int, moved: Tensor | None) -> None:
        """Add to the steps taken; for a batch, `moved` holds the steps of each problem."""
        self.taken += taken
        if moved is not None:
            self.steps = moved if self.steps is None else self.steps + moved

    def outcomes(
        self, gap: Tensor, status: Status
    ) -> tuple[tuple[Status, ...], tuple[int, ...], str]:
        """Status and steps of each problem of a batch, and a note on those that were lost.

        Arguments:
            gap: certified, `(batch,)`.
            status: of the solve, for the problems that neither converged nor were lost.
        """
        each: list[Status] = ["converged" if solved else status for solved in gap <= self.tol]
        note = ""
        masks: dict[Status, Tensor | None] = {
            "oracle_failed": self.failed,
            "non_finite": self.broken,
        }
        for name, mask in masks.items():
            indices = [] if mask is None else mask.nonzero().flatten().tolist()
            for k in indices:
                each[k] = name
            if indices and name != status:
                note += f"; in problems {indices}: {MESSAGES[name]}"
        steps = [0] * len(each) if self.steps is None else self.steps.int().tolist()
        return tuple(each), tuple(steps), note

    def sound(self, it: Iterate) -> Iterate:
        """The iterate, replaced by the best earlier one where it is NaN or infinite."""
        best, broken = self.best, self.broken
        if broken is None or not bool(broken.any()) or best is None:
            return it
        mask = broken.reshape(*broken.shape, *(1,) * (it.x.ndim - broken.ndim))
        return Iterate(torch.where(mask, best.x, it.x))
