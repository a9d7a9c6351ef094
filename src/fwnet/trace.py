"""Trace: what each step saw; Result: what a solve returns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, final, overload

import numpy as np
from torch import Tensor

from fwnet.active_set import ActiveSet

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

Number = float | Tensor


class StepRecord(NamedTuple):
    """One step: numbers for one problem, tensors `(batch,)` for a batch.

    `gap` is the true duality gap, NaN on steps where an inexact oracle left it unknown; `value`
    is f(x) before the step, NaN where only a minibatch was seen; `step_size` is 0 in the record
    of the last iterate, from which no step was taken (`on_step` may stop before a step: then it
    is the size of that one).
    """

    t: int
    value: Number
    gap: Number
    step_size: Number
    seconds: float


@final
class Trace(Sequence[StepRecord]):
    """The records of a solve, in order."""

    def __init__(self) -> None:
        self._records: list[StepRecord] = []

    def append(self, record: StepRecord) -> None:
        """Add the next record."""
        self._records.append(record)

    @overload
    def __getitem__(self, index: int) -> StepRecord: ...
    @overload
    def __getitem__(self, index: slice) -> list[StepRecord]: ...
    def __getitem__(self, index: int | slice) -> StepRecord | list[StepRecord]:
        return self._records[index]

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[StepRecord]:
        return iter(self._records)

    def __repr__(self) -> str:
        if not self._records:
            return "Trace(empty)"
        return f"Trace({len(self)} records, last {self._records[-1]})"

    def column(self, name: str) -> np.ndarray:
        """One field over all records: `(records,)`, or `(records, batch)`."""
        return np.asarray([_plain(getattr(record, name)) for record in self._records])

    def to_numpy(self) -> np.ndarray:
        """A structured array with the fields of `StepRecord`, one row a record."""
        columns = {name: self.column(name) for name in StepRecord._fields}
        fields = [(name, data.dtype, data.shape[1:]) for name, data in columns.items()]
        table = np.empty(len(self), dtype=fields)
        for name, data in columns.items():
            table[name] = data
        return table

    def to_pandas(self) -> pandas.DataFrame:
        """A data frame, one row a record; a batch gives a column for each problem."""
        try:
            import pandas
        except ImportError:
            raise ImportError(
                'Trace.to_pandas() needs pandas. Install it with: pip install "fwnet[pandas]"'
            ) from None
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
        from fwnet.plotting import plot_trace

        return plot_trace(self, against, ax)


@final
@dataclass(frozen=True, eq=False)
class Result:
    """What every solve returns.

    Arguments:
        x: the last iterate (the best one where the run was cut short), `(*batch, *shape)`.
        value: f(x), `(*batch,)`.
        gap: duality gap at x, from the true gradient and the exact oracle, `(*batch,)`. On a
            convex problem f(x) − min f is at most this.
        status: why it stopped: "converged", "max_steps", "max_seconds", "stopped" (by
            `on_step`), "interrupted" (Ctrl-C), "non_finite" or "stalled"; for a batch, a tuple.
        steps: how many steps were taken; for a batch, a tuple.
        trace: the records.
        message: the status as a sentence.
        active: atoms and weights of x, if the solver keeps them.
    """

    x: Tensor
    value: Tensor
    gap: Tensor
    status: str | tuple[str, ...]
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


def _plain(value: Any) -> Any:
    return value.detach().cpu().numpy() if isinstance(value, Tensor) else value
