"""What every run shares: Clock, Status, the records of its steps (Trace, Recorder), its Result."""

from __future__ import annotations

import math
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, final, overload

import numpy as np
import torch
from torch import Tensor

from fwnet.iterates import ActiveSet
from fwnet.numerics import checks
from fwnet.numerics.compiled import Compilation
from fwnet.numerics.optional import optional
from fwnet.show.html import result_html, trace_html
from fwnet.show.plotting import plot_trace

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

Number = float | Tensor
Status = Literal[
    "converged",
    "max_steps",
    "max_seconds",
    "stopped",
    "interrupted",
    "non_finite",
    "oracle_failed",
    "stalled",
]

MESSAGES: dict[str, str] = {
    "converged": "the duality gap is at most tol",
    "max_steps": "max_steps were taken before the gap reached tol",
    "max_seconds": "max_seconds passed before the gap reached tol",
    "stopped": "on_step asked to stop",
    "interrupted": "interrupted from the keyboard; x is the best iterate so far",
    "non_finite": "f or its gap became NaN or infinite; x is the best iterate before that",
    "oracle_failed": "the oracle's vertex is worse than x itself, so no gap is known",
    "stalled": "steps of size 0 at the precision of this dtype; try float64 or another rule",
}


@final
class Clock:
    """Seconds of wall-clock time since a run began, and its limit.

    The compilation of machine code, which happens once on a machine, does not count.

    Arguments:
        max_seconds: the limit; None for none.
        elapsed: seconds already used, for a run that is resumed.
    """

    def __init__(self, max_seconds: float | None = None, elapsed: float = 0.0) -> None:
        self.max_seconds = math.inf if max_seconds is None else max_seconds
        self._began = time.perf_counter() - elapsed - Compilation.seconds

    @property
    def seconds(self) -> float:
        """Seconds since the run began."""
        return time.perf_counter() - self._began - Compilation.seconds

    @property
    def left(self) -> float:
        """Seconds until the limit, at least 0; infinite without one."""
        return max(0.0, self.max_seconds - self.seconds)

    @property
    def is_over(self) -> bool:
        """Whether the limit is reached."""
        return self.max_seconds < math.inf and self.seconds >= self.max_seconds


class StepRecord(NamedTuple):
    """One step: numbers for one problem, tensors `(batch,)` for a batch.

    `value` is f(x) before the step, NaN if only a minibatch was evaluated. `gap` is the duality
    gap, NaN if the oracle was inexact and the gap was not checked; the last record's gap is
    certified, like that of the `Result`. `step_size` is 0 in the record of the last iterate, from
    which no step was taken; if `on_step` stopped the solve, it is the size of the step it stopped.
    """

    t: int
    value: Number
    gap: Number
    step_size: Number
    seconds: float


Observer = Callable[[StepRecord], object]


@final
class Trace(Sequence[StepRecord]):
    """The records of a solve, in order, stored by column: about 43 bytes per record.

    Arguments:
        every: keep the records whose t is a multiple of this, and always the first and the last.
        records: a list to use as the storage, for records whose tensors carry gradients.
    """

    def __init__(self, every: int = 1, records: list[StepRecord] | None = None) -> None:
        self.every = checks.at_least("Trace(every=...)", every, 1)
        self._records: _Table | list[StepRecord] = _Table() if records is None else records

    def append(self, record: StepRecord) -> None:
        """Add a record; it replaces the previous one unless `every` keeps that."""
        self._drop_last()
        self._records.append(record)

    def extend(self, t: int, columns: Sequence[np.ndarray]) -> None:
        """As `append` of records t, t + 1, …, of one problem.

        Arguments:
            columns: values, gaps, step sizes and seconds, `(records,)` each.
        """
        steps = np.arange(t, t + len(columns[0]))
        kept = steps % self.every == 0
        kept[-1] = True
        kept[0] |= len(self) == 0
        self._drop_last()
        some = [column[kept] for column in (steps, *columns)]
        if isinstance(self._records, _Table):
            self._records.extend(*some)
        else:
            rows = zip(*(column.tolist() for column in some), strict=True)
            self._records.extend(StepRecord(*row) for row in rows)

    def _drop_last(self) -> None:
        """Remove the last record if it was kept only for being the last."""
        if self.every > 1 and len(self) > 1:
            table = self._records
            last = table.steps[-1] if isinstance(table, _Table) else table[-1].t
            if last % self.every:
                table.pop()

    def replace_last(self, record: StepRecord) -> None:
        """Put a record in the place of the last one."""
        self._records.pop()
        self._records.append(record)

    @overload
    def __getitem__(self, index: int) -> StepRecord: ...
    @overload
    def __getitem__(self, index: slice) -> list[StepRecord]: ...
    def __getitem__(self, index: int | slice) -> StepRecord | list[StepRecord]:
        rows = range(len(self))[index]  # raises like a list
        return self._records[rows] if isinstance(rows, int) else [self._records[k] for k in rows]

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[StepRecord]:
        return (self._records[k] for k in range(len(self)))

    def __repr__(self) -> str:
        if len(self) == 0:
            return "Trace(empty)"
        return f"Trace({len(self)} records, last {self[-1]})"

    def _repr_html_(self) -> str:
        return trace_html(self)

    def column(self, name: str) -> np.ndarray:
        """One field over all records: `(records,)`, or `(records, batch)`."""
        if name not in StepRecord._fields:
            raise ValueError(
                f"Trace.column(name) must be one of {StepRecord._fields}; got {name!r}."
            )
        if isinstance(self._records, _Table):
            return self._records.column(name)
        return np.asarray([_plain(getattr(record, name)) for record in self._records])

    def to_numpy(self) -> np.ndarray:
        """A structured array with the fields of `StepRecord`, one row per record."""
        columns = {name: self.column(name) for name in StepRecord._fields}
        fields = [(name, data.dtype, data.shape[1:]) for name, data in columns.items()]
        table = np.empty(len(self), dtype=fields)
        for name, data in columns.items():
            table[name] = data
        return table

    def to_pandas(self) -> pandas.DataFrame:
        """A data frame, one row per record; a batch gives a column for each problem."""
        pandas = optional("pandas", "Trace.to_pandas()", "pandas")
        columns: dict[str, np.ndarray] = {}
        for name in StepRecord._fields:
            data = self.column(name)
            if data.ndim == 1:
                columns[name] = data
            else:
                columns.update({f"{name}[{i}]": data[:, i] for i in range(data.shape[1])})
        return pandas.DataFrame(columns)

    def plot(self, against: str = "t", ax: Axes | None = None) -> Axes:
        """Gap and value against steps (`"t"`) or time (`"seconds"`); needs matplotlib."""
        return plot_trace(self, against, ax)


@final
class Recorder:
    """The clock, the trace and the observers of one run.

    Arguments:
        observers: called with every record; one that returns True asks to stop.
        max_seconds: the limit of the clock; None for none.
        every: of the trace.
    """

    def __init__(
        self, observers: Sequence[Observer], max_seconds: float | None = None, every: int = 1
    ) -> None:
        self.observers, self.trace, self.clock = observers, Trace(every), Clock(max_seconds)

    def __call__(self, record: StepRecord) -> bool:
        """Keep a record and show it to every observer; return whether one asks to stop."""
        self.trace.append(record)
        if self.observers and isinstance(record.value, Tensor) and record.value.ndim == 0:
            record = self.trace[-1]  # of one problem, as numbers
        stop = False
        for observer in self.observers:
            stop = _is_true(observer(record)) or stop
        return stop


@final
@dataclass(frozen=True, eq=False)
class Result:
    """What every solve returns.

    Arguments:
        x: the last iterate (the best one where the run was cut short), `(*batch, *shape)`; on the
            device "meta", without data, if only its atoms are kept.
        value: f(x), `(*batch,)`.
        gap: duality gap at x, from the true gradient and a bound on what the oracle may miss,
            `(*batch,)`. On a convex problem f(x) − min f is at most this, up to rounding. It is
            infinite where the oracle failed.
        status: why it stopped: "converged", "max_steps", "max_seconds", "stopped" (by
            `on_step`), "interrupted" (Ctrl-C), "non_finite", "stalled" or "oracle_failed" (its
            vertex is worse than x, by more than rounding); for a batch, a tuple.
        steps: how many steps were taken; for a batch, a tuple.
        trace: the records.
        message: the status as a sentence, and what took the steps if that was not torch.
        active: atoms and weights of x, if the solver keeps them.

    Example:
        >>> result = Corrective(Simplex(), tol=1e-4)(Quadratic(torch.diag(torch.arange(1.0, 4.0))))
        >>> result.status, result.trace[-1].gap <= 1e-4  # the last StepRecord of its Trace
        ('converged', True)
    """

    x: Tensor
    value: Tensor
    gap: Tensor
    status: Status | tuple[Status, ...]
    steps: int | tuple[int, ...]
    trace: Trace
    message: str = ""
    active: ActiveSet | None = None

    def __repr__(self) -> str:
        if isinstance(self.status, str):
            return (
                f"Result(status={self.status!r}, steps={self.steps}, "
                f"value={self.value.item():.6g}, gap={self.gap.item():.3g}, "
                f"x={tuple(self.x.shape)})"
            )
        counts = {name: self.status.count(name) for name in dict.fromkeys(self.status)}
        return f"Result(batch={len(self.status)}, status={counts}, x={tuple(self.x.shape)})"

    def _repr_html_(self) -> str:
        return result_html(self)


class _Table:
    """A list of records without an object for each: a column for each field."""

    def __init__(self) -> None:
        self.steps = array("q")
        self._columns = {name: _Column() for name in StepRecord._fields[1:]}

    def __len__(self) -> int:
        return len(self.steps)

    def __getitem__(self, row: int) -> StepRecord:
        value, gap, step_size, seconds = (column[row] for column in self._columns.values())
        return StepRecord(self.steps[row], value, gap, step_size, float(seconds))

    def append(self, record: StepRecord) -> None:
        for column, value in zip(self._columns.values(), record[1:], strict=True):
            column.append(value)
        self.steps.append(record.t)  # last: a record that Ctrl-C interrupts does not count

    def extend(self, t: np.ndarray, *columns: np.ndarray) -> None:
        for column, values in zip(self._columns.values(), columns, strict=True):
            column.extend(values)
        self.steps.frombytes(t.astype(np.int64).tobytes())

    def pop(self) -> None:
        self.steps.pop()
        for column in self._columns.values():
            column.pop()

    def column(self, name: str) -> np.ndarray:
        if name == "t":
            return np.array(self.steps)
        return self._columns[name].to_numpy()[: len(self)]


class _Column:
    """A list of floats, or of tensors of one shape, without an object for each.

    Floats are kept in an `array`, tensors in one tensor of rows, on their device. Values of
    different kinds turn it into a plain list, and so do tensors with gradients.
    """

    def __init__(self) -> None:
        self._data: array[float] | Tensor | list[Number] = array("d")
        self._length = 0

    def __getitem__(self, row: int) -> Number:
        if isinstance(self._data, Tensor):
            value = self._data[row]
            return value.clone() if value.ndim else value.item()  # a view would keep all rows alive
        number: Number = self._data[row]
        # Always the same NaN object, so that a record equals itself: tuples compare identity first.
        return math.nan if isinstance(number, float) and math.isnan(number) else number

    def append(self, value: Number) -> None:
        plain = type(value) is float and type(self._data) is array  # nearly always
        if self._length == 0 and not plain:
            self._data = _storage(value)
        elif not (plain or _fits(value, self._data)):
            self._data = [self[row] for row in range(self._length)]
        if isinstance(self._data, Tensor):
            if self._length == len(self._data):
                room = max(16, self._length // 8)
                free = self._data.new_empty(room, *self._data.shape[1:])
                self._data = torch.cat([self._data, free])
            self._data[self._length] = value
        else:
            self._data.append(value)  # type: ignore[arg-type]  # `_fits` has checked it
        self._length += 1

    def extend(self, values: np.ndarray) -> None:
        if self._length == 0:
            self._data = array("d")
        if isinstance(self._data, array):
            self._data.frombytes(values.astype(np.float64).tobytes())
            self._length += len(values)
        else:
            for value in values.tolist():
                self.append(value)

    def pop(self) -> None:
        self._length -= 1
        if not isinstance(self._data, Tensor):
            self._data.pop()

    def to_numpy(self) -> np.ndarray:
        if isinstance(self._data, list):
            return np.asarray([_plain(value) for value in self._data])
        return np.array(_plain(self._data[: self._length]))


def _storage(value: Number) -> array[float] | Tensor | list[Number]:
    """Where values like this one are kept."""
    if not isinstance(value, Tensor):
        return array("d")
    return [] if value.requires_grad else value.new_empty(0, *value.shape)


def _fits(value: Number, data: array[float] | Tensor | list[Number]) -> bool:
    if isinstance(data, list):
        return True
    if isinstance(data, array) or not isinstance(value, Tensor):
        return isinstance(data, array) and not isinstance(value, Tensor)
    alike = (value.dtype, value.device, value.shape) == (data.dtype, data.device, data.shape[1:])
    return alike and not value.requires_grad


def _plain(value: Any) -> Any:
    return value.detach().cpu().numpy() if isinstance(value, Tensor) else value


def _is_true(answer: object) -> bool:
    """Whether an observer returned True, of Python, NumPy or torch, and not None or a number."""
    if isinstance(answer, Tensor):
        return answer.dtype == torch.bool and bool(answer.all())
    return isinstance(answer, (bool, np.bool_)) and bool(answer)
