"""Compiled functions, whether or not there is a folder to keep them in."""

from __future__ import annotations

import importlib
import pickle
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba import __version__ as numba_version
from numba import njit

import fwnet
from fwnet.numerics import compiled as loader
from fwnet.numerics.compiled import compiled, machine_code, numba_or_none
from fwnet.trace import Clock


def test_seconds_of_compilation_are_no_seconds_of_a_run(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loader, "_LONG", loader.Compilation.seconds)
    names: dict[str, Any] = {}
    exec("def third(x):\n    return x / 3.0", names)
    before, began = loader.Compilation.seconds, time.perf_counter()
    clock = Clock()
    assert compiled("contract")(names["third"])(3.0) == 1.0
    compiling = loader.Compilation.seconds - before
    assert 0 < compiling <= time.perf_counter() - began
    assert clock.seconds <= time.perf_counter() - began - compiling
    assert "`fwnet warm-up` does it in advance" in caplog.text


def test_without_a_folder_to_write_to_it_compiles_all_the_same() -> None:
    """Numba keeps nothing of a function without a file, and says so as in a read-only container."""
    names: dict[str, Any] = {}
    exec("def half(x):\n    return x / 2.0", names)
    with pytest.raises(RuntimeError, match="no locator available"):
        njit(cache=True)(names["half"])
    assert compiled("contract")(names["half"])(3.0) == 1.5


def test_machine_code_of_an_older_version_is_forgotten(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its index may name a class that has another name today."""
    (tmp_path / "halves.py").write_text("def half(x):\n    return x / 2.0")
    monkeypatch.syspath_prepend(tmp_path)
    half = importlib.import_module("halves").half
    assert compiled()(half)(3.0) == 1.5
    (index,) = tmp_path.rglob("*.nbi")
    version = pickle.dumps(numba_version)
    index.write_bytes(version + b"cfwnet.numerics.compiled\nRenamed\n.")
    with pytest.raises(AttributeError, match="Renamed"):
        njit(cache=True)(half)(3.0)
    assert compiled()(half)(3.0) == 1.5


def test_nan_and_division_by_zero_keep_their_meaning() -> None:
    def mean(x, count):  # type: ignore[no-untyped-def]
        return x.sum() / count

    fast = compiled("reassoc", "contract")(mean)
    assert np.isnan(fast(np.array([1.0, np.nan]), 2.0))
    assert fast(np.ones(2), 0.0) == np.inf


@pytest.fixture
def broken_numba(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A Numba that does not fit the NumPy that is installed: it raises an ImportError."""
    (tmp_path / "numba.py").write_text("raise ImportError('Numba needs NumPy 2.0 or less')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "numba")
    for function in (numba_or_none, machine_code):
        function.cache_clear()
    yield
    for function in (numba_or_none, machine_code):
        function.cache_clear()


@pytest.mark.usefixtures("broken_numba")
def test_without_a_numba_that_works_there_is_no_machine_code() -> None:
    assert machine_code("fwnet.quadratic.scalar") is None
    with pytest.raises(ImportError, match="compiled=True needs Numba: pip install"):
        fwnet.FrankWolfe(fwnet.Simplex(), compiled=True)


def test_a_module_that_is_not_there_is_no_missing_numba() -> None:
    assert machine_code("fwnet.numerics.compiled") is loader
    with pytest.raises(ModuleNotFoundError, match="nothing"):
        machine_code("fwnet.numerics.nothing")
