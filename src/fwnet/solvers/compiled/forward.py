"""FastForward: many steps at once on arrays, up to an iterate that the loop must judge."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, NoReturn, final

import numpy as np
import torch
from torch import Tensor

from fwnet.directions import Away, Blended, Pairwise, Toward
from fwnet.domains import L1Ball, Simplex
from fwnet.iterates import ActiveSet, Iterate
from fwnet.numerics.compiled import is_ready, machine_code
from fwnet.numerics.linear_maps import DenseMap
from fwnet.oracles import Exact
from fwnet.problems import LeastSquares, Problem, Quadratic, SVMDual
from fwnet.solvers.compiled import steps
from fwnet.solvers.compiled.arrays import Data, KeptGradients, Log, Plan, Position
from fwnet.solvers.loop import SlotStates
from fwnet.solvers.watch import Watch
from fwnet.steps import LineSearch, OverRelaxed, Scheduled, ShortStep
from fwnet.trace import Number
from fwnet.vertices import OneHot

if TYPE_CHECKING:
    from fwnet.solvers.frank_wolfe import FrankWolfe

# Between two looks at the clock: multiplications for some hundredths of a second, and records.
_CHUNK, _RECORDS, _FIRST = 2**27, 2**14, 2**9
_STORE, _FEW = 2**26, 4  # bytes of kept gradients at vertices; fewer of them are not worth it
# Rows of A, and multiplications of a product (machine code, NumPy), that make it worth keeping one.
_ROWS, _PRODUCT, _NUMPY_PRODUCT = 32, 2**13, 2**16
_WORTH = 8  # steps that pay for the arrays
_LARGE = 2**22  # multiplications a step above which torch's own calls cost little
# What more threads save of them must stay below this; where gradients are kept, few steps take any.
_THREADED, _THREADED_KEPT = 2**18, 2**19
# NumPy steps that take as long as loading machine code from the disk, or as compiling it.
_LOADING, _COMPILING = 20_000, 200_000


class Chunk(NamedTuple):
    """Where the steps on arrays led, and whether an observer asked to stop there."""

    it: Iterate
    state: SlotStates
    t: int
    stopped: bool = False


class CodeUse:
    """What this process has used so far: machine code for some dtypes, and steps by NumPy."""

    loaded: ClassVar[set[torch.dtype]] = set()
    numpy_steps = 0


@final
class FastForward:
    """Takes the steps of one solve on arrays, until a problem needs the loop's judgement.

    The loop goes on from there: it certifies, ends or takes its own next step, so that a solve
    begins and ends as any other. Steps run in chunks of some hundredths of a second, which end
    where `max_steps` do and where Ax is computed anew. In a batch each problem takes its steps of
    a chunk in a row, while its matrix is in the processor's cache, on as many threads as torch has.

    Arguments:
        solver: whose steps.
        problem: dense, on the CPU.
        it, rule: the first iterate, and the first state of the step rule.
    """

    def __init__(self, solver: FrankWolfe, problem: Problem, it: Iterate, rule: Any) -> None:
        form, matrix = _dense(solver, problem)
        self.solver, self.taken = solver, 0
        self.code: Any = None  # the module of steps
        self.single, self.n = form.batch_dims == 0, it.x.shape[-1]
        self.batch = 1 if self.single else it.x.shape[0]
        self.shared = matrix.ndim == 2 and isinstance(form, LeastSquares)  # one product for all
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
        self.store = self._make_store(False)
        self.most = _FIRST  # steps of the next chunk

    @classmethod
    def of(cls, solver: FrankWolfe, problem: Problem, it: Iterate, rule: Any) -> FastForward | None:
        """The steps on arrays as `solver.compiled` wants them; None for the plain loop."""
        if solver.compiled is False:
            return None
        if solver.compiled == "auto":
            few = solver.max_steps < _WORTH
            if few or torch.compiler.is_compiling() or _lacking(solver, problem):
                return None
        ahead = cls(solver, problem, it, rule)
        if solver.compiled == "auto" and not ahead.pays():
            return None
        ahead.code = _machine_code() if solver.compiled is True else ahead._best_code(it)
        if ahead.code is None:
            return None
        least = _NUMPY_PRODUCT if ahead.code is steps else _PRODUCT
        rows, columns = ahead.matrix.shape[1:]
        ahead.store = ahead._make_store(rows >= _ROWS and rows * columns >= least)
        if ahead.code is not steps and it.x.dtype not in CodeUse.loaded:
            ahead._take(it, np.zeros(1), problems=0)  # compile now, before the clock runs
            CodeUse.loaded.add(it.x.dtype)
        return ahead

    def pays(self) -> bool:
        """Whether steps on arrays are at least as fast as torch's, which may use more threads."""
        threads = torch.get_num_threads()
        if not self.single:
            return not self.shared and self.batch >= threads
        keeps = not self.plan.quadratic and self.matrix.shape[1] >= _ROWS
        most = _THREADED_KEPT if keeps else _THREADED
        return self.work <= _LARGE and self.work * (1 - 1 / threads) <= most

    def _best_code(self, it: Iterate) -> Any:
        """Machine code once the steps so far would have paid for loading it, NumPy until then."""
        slow, loaded = steps if self.single else None, it.x.dtype in CodeUse.loaded
        if not loaded and CodeUse.numpy_steps < _LOADING:
            return slow
        code = machine_code("fwnet.solvers.compiled.steps")
        if code is None or loaded or CodeUse.numpy_steps >= _COMPILING:
            return code or slow
        ready = is_ready(code.take_steps, *self._arguments(it, np.zeros(1)), 0, 0)
        return code if ready else slow

    @property
    def name(self) -> str:
        """What takes the steps, for the message of a result."""
        return "NumPy" if self.code is steps else "machine code"

    def __call__(self, it: Iterate, state: SlotStates, t: int, watch: Watch) -> Chunk:
        """From iterate t to a later one; to the same where the loop has to act."""
        if t == self.solver.max_steps:
            return Chunk(it, state, t)
        every, schedule, rule = self.solver.refresh_every, self.solver.rule, state.rule
        budget = max(1, min(_CHUNK // self.work, _RECORDS, self.most))
        count = min(budget, self.solver.max_steps - t, every - t % every)
        began, sizes = watch.clock.seconds, np.zeros(count)
        if isinstance(schedule, Scheduled):
            sizes = np.fromiter((schedule.at(rule + k) for k in range(count)), float, count)
        if watch.recorder.observers:  # who may stop: the same steps again start from the same
            self._forget()
        there, log = self._take(it, sizes)
        taken = int(log.taken.max())
        if taken == 0:
            return Chunk(it, state, t)
        self.most *= 2
        before = watch.taken
        try:
            seen = watch.record_chunk(t, self._columns(log, taken), began)
        except KeyboardInterrupt:  # in an observer: what is behind its record was not asked for
            self._forget()
            self._keep_best(it, self._take(it, sizes[: watch.taken - before + 1])[1], watch)
            raise
        self._keep_best(it, log, watch)
        if seen < taken:  # an observer stops at an iterate that is behind us: go there again
            self._forget()
            there, _ = self._take(it, sizes[:seen])
        self.taken += seen
        if self.code is steps:
            CodeUse.numpy_steps += seen
        active = None if it.active is None else self._active(there)
        arrived = Iterate(self._point(there.x), self._point(there.image), active)
        if (t + seen) % every == 0:
            arrived = watch.problem.refreshed(arrived)
        if isinstance(schedule, Scheduled):
            state = state._replace(rule=rule + seen)
        return Chunk(arrived, state, t + seen, stopped=seen < taken)

    def _keep_best(self, it: Iterate, log: Log, watch: Watch) -> None:
        best = self._point(log.best_x)
        atoms = None if it.active is None else ActiveSet(*self.solver.domain.decompose(best))
        watch.keep_best(Iterate(best, None, atoms), self._number(log.best))

    def _make_plan(self, quadratic: bool, rule: Any, dtype: torch.dtype) -> Plan:
        domain, eps = self.solver.domain, torch.finfo(dtype).eps
        assert isinstance(domain, Simplex | L1Ball)
        kinds = {
            Toward: steps.TOWARD,
            Away: steps.AWAY,
            Pairwise: steps.PAIRWISE,
            Blended: steps.BLENDED,
        }
        kind, number = steps.GIVEN, 1.0
        if isinstance(self.solver.rule, ShortStep):
            kind, number = steps.SHORT, rule
        elif isinstance(self.solver.rule, LineSearch | OverRelaxed):
            kind, number = steps.SEARCH, getattr(self.solver.rule, "omega", 1.0)
        return Plan(
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

    def _make_store(self, worth: bool) -> KeptGradients:
        """An empty store, with room if it is worth it; pages are taken as they are written."""
        (m, n), dtype = self.matrix.shape[1:], self.matrix.dtype
        vertices, size = 2 * n if self.plan.signed else n, 0 if self.plan.quadratic else n + m
        room = min(vertices, _STORE // (self.batch * max(size, 1) * dtype.itemsize))
        room = room if worth and size and room >= _FEW else 0
        row_of, owner = np.full((self.batch, vertices), -1), np.full((self.batch, room), -1)
        # Not NumPy's memory: it asks for huge pages, which take longer than a few vertices.
        rows = torch.empty(self.batch, room, size, dtype=torch.from_numpy(self.shift).dtype)
        last, count = np.zeros((self.batch, room), np.int64), np.zeros((self.batch, 4), np.int64)
        return KeptGradients(rows.numpy(), row_of, owner, last, count)

    def _forget(self) -> None:
        """Empty the store."""
        self.store.row_of.fill(-1)
        self.store.count.fill(0)

    def _take(
        self, it: Iterate, sizes: np.ndarray, problems: int | None = None
    ) -> tuple[Position, Log]:
        """Steps from an iterate, which stays as it is."""
        arguments = self._arguments(it, sizes)
        last = self.batch if problems is None else problems
        threads = min(torch.get_num_threads(), last)
        if threads <= 1:
            self._run(*arguments, 0, last)
        else:
            ends = [last * k // threads for k in range(threads + 1)]
            with ThreadPoolExecutor(threads) as pool:
                parts = [pool.submit(self._run, *arguments, *end) for end in pairwise(ends)]
            for part in parts:
                part.result()
        return arguments[2:]

    def _run(self, *arguments: Any) -> None:
        with np.errstate(all="ignore"):  # what is not finite is left to the loop
            self.code.take_steps(*arguments)

    def _arguments(self, it: Iterate, sizes: np.ndarray) -> tuple[Data, Plan, Position, Log]:
        batch, count = self.batch, len(sizes)
        assert it.image is not None
        x, image = _array(it.x.reshape(batch, -1)), _array(it.image.reshape(batch, -1))
        value, gap, step_size = np.zeros((3, batch, count))
        taken, best = np.zeros(batch, np.int64), np.full(batch, np.inf)
        log = Log(value, gap, step_size, taken, best, x.copy())
        data = Data(self.matrix, self.shift, self.ridge, self.store, sizes)
        return data, self.plan, Position(x.copy(), image.copy(), self._weights(it)), log

    def _columns(self, log: Log, taken: int) -> list[np.ndarray] | list[Tensor]:
        """Values, gaps and step sizes of the steps: arrays `(steps,)`, tensors `(steps, batch)`."""
        parts = (log.value, log.gap, log.step_size)
        if self.single:
            return [part[0, :taken] for part in parts]
        dtype = torch.from_numpy(self.shift).dtype
        return [torch.from_numpy(part[:, :taken].T.copy()).to(dtype) for part in parts]

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
    lacking = _lacking(solver, None)
    if lacking:
        _refuse(lacking)
    _machine_code()


def _lacking(solver: FrankWolfe, problem: Problem | None) -> str:
    """What has no steps on arrays: a slot, or the problem if one is given; "" if nothing."""
    for slot, kinds in (
        (solver.domain, (Simplex, L1Ball)),
        (solver.oracle, (Exact,)),
        (solver.direction, (Toward, Away, Pairwise, Blended)),
        (solver.rule, (Scheduled, LineSearch, OverRelaxed, ShortStep)),
    ):
        if not isinstance(slot, kinds) or getattr(slot, "second_order", False):
            return str(slot)
    if problem is None:
        return ""
    form = problem.form if isinstance(problem, SVMDual) else problem
    name = type(problem).__name__
    if not isinstance(form, Quadratic | LeastSquares):
        return name
    if not isinstance(form.matrix, DenseMap):
        return f"{name} with a {type(form.matrix).__name__}"
    if form.matrix.device.type != "cpu":
        return f"{name} on {form.matrix.device}"
    return ""


def _dense(solver: FrankWolfe, problem: Problem) -> tuple[Quadratic | LeastSquares, Tensor]:
    """The problem as a quadratic of a dense matrix, and the matrix."""
    lacking = _lacking(solver, problem)
    if lacking:
        _refuse(lacking)
    form = problem.form if isinstance(problem, SVMDual) else problem
    assert isinstance(form, Quadratic | LeastSquares)
    assert isinstance(form.matrix, DenseMap)
    return form, form.matrix.matrix


def _refuse(what: str) -> NoReturn:
    raise TypeError(
        f"compiled=True has no machine code for {what}. It takes the steps of LeastSquares, "
        "Quadratic and SVMDual with dense matrices on the CPU, over Simplex or L1Ball, with the "
        "exact oracle, directions Toward, Away, Pairwise (first order) and Blended, and rules "
        "OpenLoop, LogOpenLoop, Constant, LineSearch, OverRelaxed and ShortStep. Leave it out."
    )


def _machine_code() -> Any:
    code = machine_code("fwnet.solvers.compiled.steps")
    if code is None:
        raise ImportError(
            'compiled=True needs Numba: pip install "fwnet[fast]", or leave compiled out.'
        )
    return code


def _array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().contiguous().numpy()
