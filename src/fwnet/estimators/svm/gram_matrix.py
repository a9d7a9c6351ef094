"""The kernel matrix: rows are made when they are needed and kept while they fit."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from fwnet.estimators.svm.kernels import Array, KernelRows
from fwnet.estimators.svm.pairwise import add_rows
from fwnet.numerics.linear_maps import LinearMap

_KEPT = 128 * 2**20  # bytes of a store that stay for the next fit
_DEAR = 3 * 10**8  # kernel values whose evaluation takes about a second
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


class GramMatrix(ABC):
    """K, K_ij = k(x_i, x_j): vectors in float64, kernel values in the precision of `kernel`.

    Attributes:
        kernel: evaluates rows.
        fits: whether the whole matrix may be kept.
        complete: whether it is there already.
        transient: whether rows are evaluated again each time, which takes no longer than to keep
            and read them.
    """

    kernel: KernelRows
    fits = complete = transient = False

    def __init__(self, kernel: KernelRows) -> None:
        self.kernel, self.n = kernel, kernel.n

    @abstractmethod
    def combine(self, index: Array, weights: Array) -> Array:
        """Return Σ_j weights_j k(x_j, ·) (n,) in float64 over j in index."""

    @abstractmethod
    def entries(self, index: Array, columns: Array) -> Array:
        """Return k(x_i, x_j) (len(index), len(columns))."""

    def ridged(self, u: Array, bias: float, box: Array) -> Array:
        """Return (K + bias + diag(1/C))u (n,) in float64, by rows of the entries that are not 0."""
        support = np.flatnonzero(u)
        some = u[support]
        total = self.combine(support, some)
        total += bias * some.sum()
        total[support] += some / box[support]
        return total


@final
class DualMatrix(LinearMap):
    """Q = yyᵀ∘(K + bias) + diag(1/C), the matrix of `fwnet.SVMDual`, for a K that makes its rows.

    Arguments:
        y: labels; ones for a regression.
        working_set: what the slots of a solver keep for this problem.
    """

    def __init__(
        self, gram: GramMatrix, y: Array, box: Array, bias: float, working_set: object = None
    ) -> None:
        self.gram, self.y, self.box, self.bias, self.working_set = gram, y, box, bias, working_set
        self.shape, self.dtype = torch.Size((gram.n, gram.n)), torch.float64
        self.device = torch.device("cpu")

    def apply(self, x: Tensor) -> Tensor:
        total = self.gram.ridged(self.y * x.numpy(), self.bias, self.box)
        return torch.from_numpy(self.y * total)

    def adjoint(self, z: Tensor) -> Tensor:
        return self.apply(z)


@final
class StoredGramMatrix(GramMatrix):
    """Rows of the kernel matrix: evaluated once, kept while `megabytes` allow.

    Pages of the store are touched only when a row is put there, so a large limit costs nothing
    until it is used. Where room is short, rows outside `keep` are dropped first.
    """

    def __init__(self, kernel: KernelRows, megabytes: float) -> None:
        super().__init__(kernel)
        self.limit = min(self.n, int(megabytes * 2**20 // (self.n * kernel.dtype.itemsize)))
        self.fits = bool(self.limit == self.n)
        self.transient = kernel.cheap and not self.fits
        self.limit = 0 if self.transient else self.limit
        self.slot = np.full(self.n, -1, dtype=np.int64)
        self._owner = np.full(self.limit, -1, dtype=np.int64)
        size = self.limit * self.n * kernel.dtype.itemsize
        self._bytes = _memory(size)
        self._store = self._bytes[:size].view(kernel.dtype).reshape(self.limit, self.n)
        self._used = 0
        self._whole: Array | None = None
        self.keep = np.empty(0, np.int64)
        self._made, self._again = np.zeros(self.n, bool), 0

    def square(self) -> Array:
        """Return the whole matrix (n, n); only where `fits`."""
        if self._whole is None:
            self._whole = self._store = self.kernel.square(self._store)
            self.slot = self._owner = np.arange(self.n)
            self._used, self.complete = self.n, True
        return self._whole

    def _fetch(self, index: Array) -> None:
        """Put the rows `index` into the store, dropping rows outside `keep` if they need room."""
        missing = index[self.slot[index] < 0]
        if len(missing) > self.limit - self._used:
            self._drop(np.concatenate([index, self.keep]))
        missing = missing[: self.limit - self._used]
        if len(missing):
            span = slice(self._used, self._used + len(missing))
            self._count(missing)
            self.kernel.rows(missing, out=self._store[span])
            self._owner[span], self._used = missing, span.stop
            self.slot[missing] = np.arange(span.start, span.stop)

    def _count(self, index: Array) -> None:
        """Count the rows that are evaluated again."""
        self._again += int(np.count_nonzero(self._made[index]))
        self._made[index] = True

    def warn_if_short(self) -> None:
        """Warn if rows were evaluated again and again, for seconds, because they had no room."""
        rows = int(np.count_nonzero(self._made))
        if self.transient or self._again < rows or self._again * self.n < _DEAR:
            return
        row = self.n * self.kernel.dtype.itemsize / 2**20
        warnings.warn(
            f"cache_size is short: {self.limit * row:.0f} MB hold {self.limit} of the {rows} "
            f"kernel rows that were needed, and rows were evaluated again {self._again} times. "
            f"With memory for it, cache_size={np.ceil(rows * row):.0f} is faster.",
            UserWarning,
            stacklevel=5,
        )

    def entries(self, index: Array, columns: Array) -> Array:
        """Return k(x_i, x_j) (len(index), len(columns)) from the store or, where missing, anew."""
        slots = self.slot[index]
        if (slots < 0).any():
            return self.kernel.rows(index, columns)
        return self._store[slots[:, None], columns]

    def combine(self, index: Array, weights: Array) -> Array:
        """Return Σ_j weights_j k(x_j, ·) (n,) in float64 over j in index."""
        self._fetch(index)
        slots, total = self.slot[index], np.zeros(self.n)
        if len(slots) and slots.min() < 0:  # some rows have no room
            away = slots < 0
            self._count(index[away])
            self.kernel.add_product(index[away], weights[away], total)
            slots, weights = slots[~away], weights[~away]
        add_rows(self._store, slots, weights, total)
        return total

    def release(self) -> None:
        """Leave the memory to the next store; this one must not be asked again."""
        if self._bytes.nbytes <= _KEPT:
            _spare[:] = [self._bytes]
        self._bytes = self._store = np.empty((0, 0), np.uint8)
        self._whole, self._used, self.complete = None, 0, False

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
class FeatureGramMatrix(GramMatrix):
    """K = XXᵀ through feature space, without a store.

    Σ_j c_j k(x_j, ·) = X (Σ_j c_j x_j)
    """

    def __init__(self, kernel: KernelRows, X: Any) -> None:
        super().__init__(kernel)
        self._X = X

    def entries(self, index: Array, columns: Array) -> Array:
        """Return ⟨x_i, x_j⟩ (len(index), len(columns))."""
        return self.kernel.rows(index, columns)

    def combine(self, index: Array, weights: Array) -> Array:
        """Return Σ_j weights_j ⟨x_j, ·⟩ (n,) in float64 over j in index."""
        return np.asarray(self._X @ (weights @ self._X[index]))
