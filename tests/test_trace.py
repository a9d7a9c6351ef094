"""Traces: a sequence, a table, a data frame, a picture."""

from __future__ import annotations

import math
import pickle
import sys
import tracemalloc
from typing import get_args

import matplotlib

matplotlib.use("Agg")

import numpy as np
import pytest
import torch
from matplotlib import pyplot

import fwnet
from cases import L1, normal, problem_for
from fwnet.plotting import plot_trace
from fwnet.trace import MESSAGES, Clock, Status, StepRecord, Trace, _Column

ONE = fwnet.FrankWolfe(L1.domain, max_steps=12, tol=0.0)(problem_for(L1))
BATCH = fwnet.LeastSquares(normal(1, 3, 12, 8), normal(2, 3, 12))
MANY = fwnet.FrankWolfe(L1.domain, max_steps=12, tol=0.0)(BATCH)
SAMPLED = fwnet.StochasticFrankWolfe(L1.domain, batch_size=4, max_steps=25, tol=0.0)(
    problem_for(L1)
)
FIELDS = ("t", "value", "gap", "step_size", "seconds")


def test_a_sequence_of_records() -> None:
    trace = ONE.trace
    assert len(trace) == 13
    assert trace[0].t == 0
    assert trace[-1] == list(trace)[-1]
    assert [record.t for record in trace[3:6]] == [3, 4, 5]
    assert trace[0]._fields == FIELDS
    assert all(isinstance(value, float) for value in trace[4][1:])
    assert repr(trace).startswith("Trace(13 records, last StepRecord(t=12, ")
    assert repr(fwnet.Trace()) == "Trace(empty)"
    assert trace.index(trace[5]) == 5


def test_records_are_those_of_the_observer() -> None:
    """Numbers and rows of a batch come back as they were, NaN included."""
    for result, problem in ((ONE, problem_for(L1)), (MANY, BATCH)):
        seen: list[fwnet.StepRecord] = []
        solver = fwnet.FrankWolfe(L1.domain, max_steps=12, tol=0.0)
        trace = solver(problem, on_step=seen.append).trace
        assert len(trace) == len(seen) == len(result.trace)
        for record, observed in zip(trace, seen, strict=True):
            for mine, other in zip(record, observed, strict=True):
                assert type(mine) is type(other)
                torch.testing.assert_close(mine, other, rtol=0, atol=0)
        copied = pickle.loads(pickle.dumps(trace))
        np.testing.assert_array_equal(copied.column("gap"), trace.column("gap"))
    assert SAMPLED.trace[3] == SAMPLED.trace[3]  # the gap is NaN there
    assert SAMPLED.trace.index(SAMPLED.trace[3]) == 3


def test_indices_are_those_of_a_list() -> None:
    trace, steps = ONE.trace, list(range(13))
    for part in (slice(None), slice(2, None, 3), slice(-4, None), slice(None, None, -5)):
        assert [record.t for record in trace[part]] == steps[part]
    assert trace[-13].t == 0
    for index in (13, -14):
        with pytest.raises(IndexError):
            trace[index]
    column = trace.column("value")
    column[:] = 0  # a copy
    assert trace[0].value != 0


def test_values_of_different_kinds_are_kept() -> None:
    trace = fwnet.Trace()
    weight = torch.tensor(2.0, requires_grad=True)
    for value in (torch.zeros(()), weight, 1.0, torch.ones(2)):
        trace.append(fwnet.StepRecord(len(trace), value, 0.0, 0.0, 0.0))
    assert trace[1].value is weight
    assert trace[2].value == 1.0
    assert trace[3].value.shape == (2,)


def kept_bytes(steps: int) -> int:
    """Bytes that Python holds for so many steps; the first solves make other things, too."""
    return min(_held(steps) for _ in range(3))


def _held(steps: int) -> int:
    solver = fwnet.FrankWolfe(L1.domain, max_steps=steps, tol=0.0)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        result = solver(problem_for(L1))
        after = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert len(result.trace) > 2
    return after - before


def test_a_step_takes_at_most_48_bytes() -> None:
    few, many = kept_bytes(100), kept_bytes(2100)
    assert many - few <= 48 * 2000


def test_records_that_are_not_kept_take_no_bytes() -> None:
    """By the file of a trace: of memory, a few hundred bytes depend on what ran before."""

    def size(steps: int) -> int:
        solver = fwnet.FrankWolfe(L1.domain, max_steps=steps, tol=0.0, trace_every=100)
        return len(pickle.dumps(solver(problem_for(L1)).trace))

    assert size(2100) - size(100) <= 48 * 20


def test_rows_of_a_batch_take_at_most_48_bytes_each() -> None:
    """Tensors are not Python's memory: a file of the trace shows what it holds."""

    def size(steps: int) -> int:
        return len(pickle.dumps(solver(steps)(BATCH).trace))

    def solver(steps: int) -> fwnet.FrankWolfe:
        return fwnet.FrankWolfe(L1.domain, max_steps=steps, tol=0.0)

    assert size(600) - size(100) <= 48 * 3 * 500


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("steps", [0, 1, 2, 20, 23])
def test_records_of_every_kth_step(steps: int, compiled: bool) -> None:
    seen: list[int] = []
    solver = fwnet.FrankWolfe(L1.domain, max_steps=steps, tol=0.0, trace_every=5, compiled=compiled)
    result = solver(problem_for(L1), on_step=lambda record: seen.append(record.t))
    assert seen == list(range(steps + 1))
    assert list(result.trace.column("t")) == sorted({*range(0, steps + 1, 5), steps})
    assert result.trace[-1].gap == pytest.approx(result.gap.item())
    assert result.steps == steps


def test_every_solver_keeps_records_of_every_kth_step() -> None:
    trace = fwnet.minimize(problem_for(L1), L1.domain, trace_every=3, max_steps=7, tol=0.0).trace
    assert list(trace.column("t")) == [0, 3, 6, 7]
    trace = fwnet.FrankWolfe(L1.domain, max_steps=7, tol=0.0, trace_every=3)(BATCH).trace
    assert list(trace.column("t")) == [0, 3, 6, 7]
    assert trace.column("value").shape == (4, 3)
    with pytest.raises(
        ValueError, match=r"trace_every must be a whole number of at least 1; got 0\."
    ):
        fwnet.FrankWolfe(L1.domain, trace_every=0)


def test_to_numpy() -> None:
    table = ONE.trace.to_numpy()
    assert table.dtype.names == FIELDS
    assert table.shape == (13,)
    np.testing.assert_array_equal(table["t"], np.arange(13))
    np.testing.assert_allclose(table["step_size"][:12], 2 / (np.arange(12) + 2))
    assert table["value"][0] == ONE.trace[0].value
    batch = MANY.trace.to_numpy()
    assert batch["value"].shape == (13, 3)
    assert batch["t"].shape == (13,)
    np.testing.assert_array_equal(batch["gap"][4], MANY.trace[4].gap.numpy())
    assert fwnet.Trace().to_numpy().shape == (0,)
    with pytest.raises(ValueError, match=r"Trace\.column\(name\) must be one of .*; got 'gaps'\."):
        ONE.trace.column("gaps")


def test_without_pandas_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r'needs pandas\..* pip install "fwnet\[pandas\]"'):
        ONE.trace.to_pandas()


def test_to_pandas() -> None:
    frame = ONE.trace.to_pandas()
    assert tuple(frame.columns) == FIELDS
    assert len(frame) == 13
    assert frame["gap"].iloc[3] == ONE.trace[3].gap
    batch = MANY.trace.to_pandas()
    assert "value[2]" in batch.columns
    assert "t" in batch.columns
    assert batch["value[2]"].iloc[5] == float(MANY.trace[5].value[2])


@pytest.mark.parametrize("against", ["t", "seconds"])
@pytest.mark.parametrize("result", [ONE, MANY, SAMPLED], ids=["one", "batch", "sampled"])
def test_plot(result: fwnet.Result, against: str) -> None:
    ax = result.trace.plot(against)
    assert ax.get_yscale() == "log"
    assert ax.get_xlabel() == {"t": "step", "seconds": "seconds"}[against]
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names == ["gap", "value − best value"]
    line = ax.get_lines()[0]
    gaps = result.trace.column("gap")
    drawn = np.asarray(line.get_ydata(), dtype=float)
    if gaps.ndim == 1:
        np.testing.assert_allclose(drawn, gaps[~np.isnan(gaps)])
    else:
        np.testing.assert_allclose(drawn, np.median(gaps, axis=1))
    pyplot.close(ax.figure)


def test_plot_on_given_axes_and_of_a_network() -> None:
    _, ax = pyplot.subplots()
    assert plot_trace(ONE.trace, ax=ax, label="mine") is ax
    assert ax.get_legend().get_texts()[0].get_text() == "mine gap"
    net = fwnet.FWNet(fwnet.FrankWolfe(fwnet.Simplex(), max_steps=5))
    K = torch.eye(3).requires_grad_()
    trace = net(fwnet.Quadratic(K)).trace
    names = [text.get_text() for text in trace.plot().get_legend().get_texts()]
    assert names == ["value − best value"]  # a network certifies its end only
    assert trace.to_numpy()["value"].shape == (5,)
    assert len(trace.to_pandas()) == 5
    pyplot.close("all")


def test_plot_errors() -> None:
    with pytest.raises(ValueError, match=r'against must be "t" or "seconds"; got \'steps\'\.'):
        ONE.trace.plot("steps")
    with pytest.raises(ValueError, match="the trace is empty; there is nothing to plot"):
        fwnet.Trace().plot()


def test_sampled_values_are_unknown_between_certificates() -> None:
    known = ~np.isnan(SAMPLED.trace.column("gap"))
    assert list(known.nonzero()[0]) == [0, 10, 20, 25]
    np.testing.assert_array_equal(known, ~np.isnan(SAMPLED.trace.column("value")))


def test_a_clock_counts_from_where_the_run_was_resumed() -> None:
    clock = Clock(max_seconds=10.0, elapsed=7.0)
    assert 7.0 <= clock.seconds < 8.0
    assert 2.0 < clock.left <= 3.0
    assert not clock.is_over
    assert Clock(max_seconds=10.0, elapsed=12.0).is_over
    assert Clock(max_seconds=10.0, elapsed=12.0).left == 0.0
    assert Clock().left == math.inf


def test_every_status_has_its_message() -> None:
    assert set(MESSAGES) == set(get_args(Status))


def test_a_record_that_is_interrupted_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C may arrive between two columns."""
    trace = Trace()
    trace.append(StepRecord(0, 1.0, 2.0, 0.5, 0.1))
    append, calls = _Column.append, iter(range(10))

    def interrupted(self: _Column, value: float) -> None:
        if next(calls) == 2:
            raise KeyboardInterrupt
        append(self, value)

    monkeypatch.setattr(_Column, "append", interrupted)
    with pytest.raises(KeyboardInterrupt):
        trace.append(StepRecord(1, 0.5, 1.0, 0.5, 0.2))
    assert list(trace) == [StepRecord(0, 1.0, 2.0, 0.5, 0.1)]
    assert {len(trace.column(name)) for name in StepRecord._fields} == {1}


def test_a_notebook_shows_results_and_traces() -> None:
    problem = fwnet.Quadratic(torch.diag(torch.arange(1.0, 6.0)))
    result = fwnet.minimize(problem, fwnet.Simplex(), tol=1e-4)
    assert "converged" in result._repr_html_()
    assert "<svg" in result._repr_html_()
    assert f"<td style='text-align:left'>{len(result.trace)}</td>" in result.trace._repr_html_()
    two = fwnet.FrankWolfe(fwnet.Simplex())(fwnet.Quadratic(torch.eye(3).expand(2, 3, 3)))
    assert "problems" in two._repr_html_()
    assert "records" in fwnet.Trace()._repr_html_()


def test_problems_have_a_short_name() -> None:
    assert repr(fwnet.Quadratic(torch.eye(3))) == "Quadratic(shape=(3,), dtype=torch.float32)"
    assert repr(fwnet.Function(torch.sum)) == "Function()"


def test_minimize_starts_from_a_shape_or_an_array() -> None:
    goal = np.array([0.5, 0.3, 0.2])

    def f(x: torch.Tensor) -> torch.Tensor:
        return (x - torch.as_tensor(goal, dtype=x.dtype)).square().sum()

    for x0 in ((3,), np.eye(3)[0]):
        result = fwnet.minimize(f, fwnet.Simplex(), x0, tol=1e-5)
        np.testing.assert_allclose(result.x.numpy(), goal, atol=5e-3)
