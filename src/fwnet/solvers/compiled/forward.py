"""FastForward: many steps at once in machine code, up to an iterate that the loop must judge."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, final

import numpy as np
import torch
from torch import Tensor

from fwnet.directions import Away, Blended, Pairwise, Toward
from fwnet.domains import L1Ball, Simplex
from fwnet.iterates import ActiveSet, Iterate
from fwnet.numerics.compiled import machine_code
from fwnet.numerics.linear_maps import DenseMap
from fwnet.oracles import Exact
from fwnet.problems import LeastSquares, Problem, Quadratic, SVMDual
from fwnet.solvers.loop import SlotStates
from fwnet.solvers.watch import Watch
from fwnet.steps import LineSearch, OverRelaxed, Scheduled, ShortStep
from fwnet.trace import Number
from fwnet.vertices import OneHot

if TYPE_CHECKING:
    from fwnet.solvers.compiled.steps import Log, Plan, Position
    from fwnet.solvers.frank_wolfe import FrankWolfe

# Between two looks at the clock: multiplications for a few tenths of a second, and records.
_CHUNK, _RECORDS = 2**30, 2**14


class Chunk(NamedTuple):
    """Where the steps in machine code led, and whether an observer asked to stop there."""

    it: Iterate
    state: SlotStates
    t: int
    stopped: bool = False


@final
class FastForward:
    """Takes the steps of one solve in machine code, until a problem needs the loop's judgement.

    The loop goes on from there: it certifies, ends or takes its own next step, so that a solve
    begins and ends as any other. Steps run in chunks of a few tenths of a second, which end where
    `max_steps` do and where Ax is computed anew. In a batch each problem takes its steps of a
    chunk in a row, while its matrix is in the processor's cache, on as many threads as torch has.

    Arguments:
        solver: whose steps.
        problem: dense, on the CPU.
        it, rule: the first iterate, and the first state of the step rule.
    """

    def __init__(self, solver: FrankWolfe, problem: Problem, it: Iterate, rule: Any) -> None:
        form, matrix = _dense(problem)
        self.solver, self.code = solver, _machine_code()
        self.single, self.n = form.batch_dims == 0, it.x.shape[-1]
        self.batch = 1 if self.single else it.x.shape[0]
        self.work = self.batch * self.n
        ridge = None
        if isinstance(form, Quadratic):
            shift = it.x.new_zeros(self.n) if form.c is None else form.c
        else:
            shift, ridge = form.b, form.ridge
            self.work *= matrix.shape[-2]
        ridge = it.x.new_zeros(0) if ridge is None else ridge.expand(self.n)
        self.matrix = _array(matrix.reshape(-1, *matrix.shape[-2:]))
        self.shift, self.ridge = _array(shift.expand(self.batch, -1)), _array(ridge)
        self.plan = self._make_plan(isinstance(form, Quadratic), rule, matrix.dtype)
        self._take(it, np.zeros(1), problems=0)  # compile now, before the clock runs

    def __call__(self, it: Iterate, state: SlotStates, t: int, watch: Watch) -> Chunk:
        """From iterate t to a later one; to the same where the loop has to act."""
        if t == self.solver.max_steps:
            return Chunk(it, state, t)
        every, schedule, rule = self.solver.refresh_every, self.solver.rule, state.rule
        budget = max(1, min(_CHUNK // self.work, _RECORDS))
        count = min(budget, self.solver.max_steps - t, every - t % every)
        began, sizes = watch.clock.seconds, np.zeros(count)
        if isinstance(schedule, Scheduled):
            sizes[:] = [schedule.at(rule + k) for k in range(count)]
        there, log = self._take(it, sizes)
        taken = int(log.taken.max())
        if taken == 0:
            return Chunk(it, state, t)
        best = self._point(log.best_x)
        atoms = None if it.active is None else ActiveSet(*self.solver.domain.decompose(best))
        watch.keep_best(Iterate(best, None, atoms), self._number(log.best))
        seen = watch.record_chunk(t, self._rows(log, taken), began)
        if seen < taken:  # an observer stops at an iterate that is behind us: go there again
            there, _ = self._take(it, sizes[:seen])
        active = None if it.active is None else self._active(there)
        arrived = Iterate(self._point(there.x), self._point(there.image), active)
        if (t + seen) % every == 0:
            arrived = watch.problem.refreshed(arrived)
        if isinstance(schedule, Scheduled):
            state = state._replace(rule=rule + seen)
        return Chunk(arrived, state, t + seen, stopped=seen < taken)

    def _make_plan(self, quadratic: bool, rule: Any, dtype: torch.dtype) -> Plan:
        code, domain, eps = self.code, self.solver.domain, torch.finfo(dtype).eps
        assert isinstance(domain, Simplex | L1Ball)
        kinds = {
            Toward: code.TOWARD,
            Away: code.AWAY,
            Pairwise: code.PAIRWISE,
            Blended: code.BLENDED,
        }
        kind, number = code.GIVEN, 1.0
        if isinstance(self.solver.rule, ShortStep):
            kind, number = code.SHORT, rule
        elif isinstance(self.solver.rule, LineSearch | OverRelaxed):
            kind, number = code.SEARCH, getattr(self.solver.rule, "omega", 1.0)
        plan: Plan = code.Plan(
            quadratic=quadratic,
            direction=kinds[type(self.solver.direction)],
            signed=isinstance(domain, L1Ball),
            radius=domain.radius,
            rule=kind,
            number=float(number),
            tol=self.solver.tol,
            dust=4 * eps,  # as in `ActiveSet.moved`
            whole=eps ** (1 / 3),  # as in `Away`
        )
        return plan

    def _take(
        self, it: Iterate, sizes: np.ndarray, problems: int | None = None
    ) -> tuple[Position, Log]:
        """Steps from an iterate, which stays as it is."""
        code, batch, count = self.code, self.batch, len(sizes)
        assert it.image is not None
        x, image = _array(it.x.reshape(batch, -1)), _array(it.image.reshape(batch, -1))
        data = code.Data(self.matrix, self.shift, self.ridge, sizes)
        state = code.Position(x.copy(), image.copy(), self._weights(it))
        log = code.Log(
            *np.zeros((3, batch, count)),
            np.zeros(batch, np.int64),
            np.full(batch, np.inf),
            x.copy(),
        )
        last = batch if problems is None else problems
        threads = min(torch.get_num_threads(), last)
        if threads <= 1:
            code.take_steps(data, self.plan, state, log, 0, last)
        else:
            ends = [last * k // threads for k in range(threads + 1)]
            with ThreadPoolExecutor(threads) as pool:
                parts = [
                    pool.submit(code.take_steps, data, self.plan, state, log, low, high)
                    for low, high in pairwise(ends)
                ]
            for part in parts:
                part.result()
        return state, log

    def _rows(self, log: Log, taken: int) -> list[tuple[Number, Number, Number]]:
        """Value, gap and step size of each step: numbers, or tensors `(batch,)`."""
        parts = (log.value, log.gap, log.step_size)
        if self.single:
            return list(zip(*(part[0, :taken].tolist() for part in parts), strict=True))
        dtype = torch.from_numpy(self.shift).dtype
        columns = (torch.from_numpy(part[:, :taken].T.copy()).to(dtype) for part in parts)
        return list(zip(*columns, strict=True))

    def _number(self, values: np.ndarray) -> Number:
        if self.single:
            return float(values[0])
        return torch.from_numpy(values.astype(self.shift.dtype))

    def _point(self, values: np.ndarray) -> Tensor:
        return torch.from_numpy(values[0] if self.single else values)

    def _weights(self, it: Iterate) -> np.ndarray:
        """Weights of the vertices +radius e_i and, in the l1 ball, −radius e_i."""
        sides = 0 if it.active is None else 2 if self.plan.signed else 1
        weights = it.x.new_zeros(self.batch, sides * self.n)
        if it.active is not None:
            atoms, own = it.active.atoms, it.active.weights
            size = torch.full_like(own, self.plan.radius)
            if not isinstance(atoms, OneHot) or bool((atoms.value.abs() != size)[own > 0].any()):
                atoms, own = self.solver.domain.decompose(it.x)  # atoms of another domain
                assert isinstance(atoms, OneHot)
            place = atoms.index + self.n * (atoms.value < 0)
            weights.scatter_add_(-1, place.reshape(self.batch, -1), own.reshape(self.batch, -1))
        return weights.reshape(self.batch, sides, self.n).numpy()

    def _active(self, state: Position) -> ActiveSet:
        """The vertices that any problem uses, as atoms."""
        weights = torch.from_numpy(state.weights).flatten(1)
        used = weights.gt(0).any(0).nonzero().squeeze(-1)
        own, index = weights[:, used], (used % self.n).repeat(self.batch, 1)
        value = torch.full_like(own, self.plan.radius)
        value[:, used >= self.n] *= -1
        unit = self.plan.radius == 1 and not self.plan.signed
        if self.single:
            own, index, value = own[0], index[0], value[0]
        return ActiveSet(OneHot(index, value, self.n, unit), own)


def check_slots(solver: FrankWolfe) -> None:
    """Raise unless the solver's slots have machine code, and Numba is there."""
    for slot, kinds in (
        (solver.domain, (Simplex, L1Ball)),
        (solver.oracle, (Exact,)),
        (solver.direction, (Toward, Away, Pairwise, Blended)),
        (solver.rule, (Scheduled, LineSearch, OverRelaxed, ShortStep)),
    ):
        if not isinstance(slot, kinds) or getattr(slot, "second_order", False):
            _refuse(str(slot))
    _machine_code()


def _dense(problem: Problem) -> tuple[Quadratic | LeastSquares, Tensor]:
    """The problem as a quadratic of a dense matrix, and the matrix."""
    form = problem.form if isinstance(problem, SVMDual) else problem
    name = type(problem).__name__
    if not isinstance(form, Quadratic | LeastSquares):
        _refuse(name)
    if not isinstance(form.matrix, DenseMap):
        _refuse(f"{name} with a {type(form.matrix).__name__}")
    if form.matrix.device.type != "cpu":
        _refuse(f"{name} on {form.matrix.device}")
    return form, form.matrix.matrix


def _refuse(what: str) -> NoReturn:
    raise TypeError(
        f"compiled=True has no machine code for {what}. It takes the steps of LeastSquares, "
        "Quadratic and SVMDual with dense matrices on the CPU, over Simplex or L1Ball, with the "
        "exact oracle, directions Toward, Away, Pairwise (first order) and Blended, and rules "
        "OpenLoop, LogOpenLoop, Constant, LineSearch, OverRelaxed and ShortStep. Leave it out."
    )


def _machine_code() -> ModuleType:
    code = machine_code("fwnet.solvers.compiled.steps")
    if code is None:
        raise ImportError(
            'compiled=True needs Numba: pip install "fwnet[fast]", or leave compiled out.'
        )
    return code


def _array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().contiguous().numpy()
