"""Small data with a known answer, written as shards; teams of real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from fwnet.distributed import write_shards

WORKERS = Path(__file__).parent / "workers.py"
SOURCES = str(Path(__file__).parents[2] / "src")


def rows(n: int, d: int, m: int, dtype: type = np.float64) -> tuple[np.ndarray, np.ndarray]:
    """Labels drawn from a softmax model of rank 2, features of different lengths."""
    generator = np.random.default_rng(7)
    W = generator.standard_normal((d, 2)) @ generator.standard_normal((2, m))
    X = generator.standard_normal((n, d)) * generator.uniform(0.2, 1.0, size=(n, 1))
    y = (X @ W + generator.gumbel(size=(n, m))).argmax(1)
    return X.astype(dtype), y


def folder(path: Path, n: int, d: int, m: int, dtype: type = np.float64, size: int = 100) -> Path:
    """Shards of `size` rows."""
    return write_shards(path / "parts", *rows(n, d, m, dtype), rows=size)


def by_hand(data: Path) -> Path:
    """The same shards without a manifest, as somebody else would write them."""
    (data / "manifest.json").unlink()
    return data


def sparse_rows(n: int, d: int, m: int, dtype: type = np.float64) -> tuple[Any, np.ndarray]:
    """Rows of which two thirds are zeros, some whole rows too, and labels of the full ones."""
    X, y = rows(n, d, m, dtype)
    X[np.random.default_rng(8).uniform(size=X.shape) < 2 / 3] = 0.0
    X[3:40] = 0.0  # a whole block of nothing
    return sparse.csr_matrix(X), y


def teams(*runs: tuple[int, list[str]]) -> tuple[list[list[int]], subprocess.CompletedProcess[str]]:
    """Exit codes of each worker of each run, and what was printed."""
    done = subprocess.run(
        [sys.executable, str(WORKERS), json.dumps(runs)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=180,  # of a busy machine; a team that hangs is found all the same
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1]), done


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": SOURCES, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "error"}


def fit_arguments(data: Path, out: Path, classes: int, *more: str) -> list[str]:
    """A short fit in blocks of 16 rows."""
    given = ["--data", str(data), "--out", str(out), "--classes", str(classes), "--block", "16"]
    return ["fit", *given, *more]
