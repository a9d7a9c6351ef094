"""Traces: a sequence, a table, a data frame, a picture."""

from __future__ import annotations

import sys

import matplotlib

matplotlib.use("Agg")

import numpy as np
import pytest
import torch
from matplotlib import pyplot

import fwnet
from cases import L1, normal, problem_for
from fwnet.plotting import plot_trace

ONE = fwnet.FrankWolfe(L1.domain, max_steps=12, tol=0.0)(problem_for(L1))
MANY = fwnet.FrankWolfe(L1.domain, max_steps=12, tol=0.0)(
    fwnet.LeastSquares(normal(1, 3, 12, 8), normal(2, 3, 12))
)
SAMPLED = fwnet.StochasticFrankWolfe(L1.domain, batch_size=4, max_steps=25, tol=0.0)(
    problem_for(L1)
)
FIELDS = ("t", "value", "gap", "step_size", "seconds")


def test_a_sequence_of_records() -> None:
    trace = ONE.trace
    assert len(trace) == 13
    assert trace[0].t == 0
    assert trace[-1] is list(trace)[-1]
    assert [record.t for record in trace[3:6]] == [3, 4, 5]
    assert trace[0]._fields == FIELDS
    assert all(isinstance(value, float) for value in trace[4][1:])
    assert repr(trace).startswith("Trace(13 records, last StepRecord(t=12, ")
    assert repr(fwnet.Trace()) == "Trace(empty)"
    assert trace.index(trace[5]) == 5


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
    with pytest.raises(ValueError, match="the trace is empty: there is nothing to plot"):
        fwnet.Trace().plot()


def test_sampled_values_are_unknown_between_certificates() -> None:
    known = ~np.isnan(SAMPLED.trace.column("gap"))
    assert list(known.nonzero()[0]) == [0, 10, 20, 25]
    np.testing.assert_array_equal(known, ~np.isnan(SAMPLED.trace.column("value")))
