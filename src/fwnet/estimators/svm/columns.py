"""Kernel rows that are kept: a bounded store, shared by all binary problems on the same points."""

from __future__ import annotations

from typing import Any, final

import numpy as np
import torch

from fwnet.estimators.svm.kernels import Array, KernelRows
from fwnet.estimators.svm.pairwise import add_rows, gather

_BATCH = 64  # rows that are evaluated at a time when the store has no room for them
_KEPT = 128 * 2**20  # bytes of a store that stay for the next fit
_spare: list[Array] = []  # one store's memory at most; a list, as its pop and append are atomic


def _memory(size: int) -> Array:
    """Return `size` bytes: those of the last fit, if they are enough, or fresh ones.

    The system clears a fresh page when it is first touched, and a virtual machine may have to ask
    its host for it: for the matrix of 5000 points that took 0.02 to 0.3 s, as long as the rest.
    NumPy asks for huge pages, which such a machine has given back to its host as soon as they are
    free; PyTorch takes small ones, which it keeps: 0.3 instead of 1.3 s for 400 MB.
    """
    try:
        last = _spare.pop()
    except IndexError:
        last = np.empty(0, np.uint8)
    return last if last.nbytes >= size else torch.empty(size, dtype=torch.uint8).numpy()


@final
class Columns:
    """Rows k(x_i, ·) of the kernel matrix: evaluated once, kept while `megabytes` allow.

    Pages of the store are touched only when a row is put there, so a large limit costs nothing
    until it is used.
    """

    def __init__(self, kernel: KernelRows, megabytes: float) -> None:
        self.kernel, self.n = kernel, kernel.n
        self.limit = min(self.n, int(megabytes * 2**20 // (self.n * kernel.dtype.itemsize)))
        self.slot = np.full(self.n, -1, dtype=np.int64)
        self._owner = np.full(self.limit, -1, dtype=np.int64)
        size = self.limit * self.n * kernel.dtype.itemsize
        self._bytes = _memory(size)
        self._store = self._bytes[:size].view(kernel.dtype).reshape(self.limit, self.n)
        self._used = 0
        self._whole: Array | None = None

    @property
    def fits(self) -> bool:
        """Whether the whole kernel matrix fits into the store."""
        return bool(self.limit == self.n)

    @property
    def complete(self) -> bool:
        """Whether the whole kernel matrix is there already."""
        return self._whole is not None

    def square(self) -> Array:
        """Return the whole matrix (n, n); only where `fits`."""
        if self._whole is None:
            self._whole = self._store = self.kernel.square(self._store)
            self.slot = self._owner = np.arange(self.n)
            self._used = self.n
        return self._whole

    def fetch(self, index: Array, keep: Array) -> None:
        """Put the rows `index` into the store, dropping rows outside `keep` if they need room."""
        missing = index[self.slot[index] < 0]
        if len(missing) > self.limit - self._used:
            self._drop(np.concatenate([index, keep]))
        missing = missing[: self.limit - self._used]
        if len(missing):
            span = slice(self._used, self._used + len(missing))
            self.kernel.rows(missing, out=self._store[span])
            self._owner[span], self._used = missing, span.stop
            self.slot[missing] = np.arange(span.start, span.stop)

    def rows(self, index: Array, columns: Array) -> Array:
        """Return k(x_i, x_j) (len(index), len(columns)) from the store or, where missing, anew."""
        slots = self.slot[index]
        if (slots < 0).any():
            return self.kernel.rows(index, columns)
        out = np.empty((len(index), len(columns)), self.kernel.dtype)
        gather(self._store, slots, columns, out)
        return out

    def combine(self, index: Array, weights: Array) -> Array:
        """Return Σ_j weights_j k(x_j, ·) (n,) in float64 over j in index."""
        slots, total = self.slot[index], np.zeros(self.n)
        kept = slots >= 0
        if kept.any():
            add_rows(self._store, slots[kept], weights[kept], total)
        lost, lost_weights = index[~kept], weights[~kept]
        for lo in range(0, len(lost), _BATCH):
            part = self.kernel.rows(lost[lo : lo + _BATCH])
            add_rows(part, np.arange(len(part)), lost_weights[lo : lo + _BATCH], total)
        return total

    def release(self) -> None:
        """Leave the memory to the next store; this one must not be asked again."""
        if self._bytes.nbytes <= _KEPT:
            _spare[:] = [self._bytes]
        self._bytes = self._store = np.empty((0, 0), np.uint8)
        self._whole, self._used = None, 0

    def _drop(self, keep: Array) -> None:
        wanted = np.zeros(self.n, bool)
        wanted[keep] = True
        stay = np.flatnonzero(wanted[self._owner[: self._used]])
        for place, slot in enumerate(stay):  # rows only move down, so none is overwritten
            self._store[place] = self._store[slot]
        self._owner[: len(stay)] = self._owner[stay]
        self._used = len(stay)
        self.slot[:] = -1
        self.slot[self._owner[: self._used]] = np.arange(self._used)


@final
class LinearColumns:
    """The same questions for a linear kernel, answered in feature space without a store.

    Σ_j c_j k(x_j, ·) = X (Σ_j c_j x_j)
    """

    fits = complete = False

    def __init__(self, kernel: KernelRows, X: Any) -> None:
        self.kernel, self._X = kernel, X

    def fetch(self, index: Array, keep: Array) -> None:
        """Nothing is kept."""

    def square(self) -> Array:
        """Return the whole matrix (n, n)."""
        return self.kernel.square()

    def rows(self, index: Array, columns: Array) -> Array:
        """Return ⟨x_i, x_j⟩ (len(index), len(columns))."""
        return self.kernel.rows(index, columns)

    def combine(self, index: Array, weights: Array) -> Array:
        """Return Σ_j weights_j ⟨x_j, ·⟩ (n,) in float64 over j in index."""
        return np.asarray(self._X @ (weights @ self._X[index]))
