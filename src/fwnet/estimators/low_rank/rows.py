"""Rows: the data X as blocks of rows, in memory, on disk, sparse, or streamed."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

_HEIGHT = 1024  # rows of a block by default


class Block:
    """Some rows of X, dense or CSR, with a constant column behind them if there is an intercept.

    Arguments:
        data: a tensor `(h, d)`, or a SciPy CSR matrix.
        constant: the entry of the last column; None for no such column.
    """

    def __init__(self, data: Any, constant: float | None) -> None:
        self.data, self.constant = data, constant

    def __len__(self) -> int:
        return int(self.data.shape[0])

    def double(self) -> Any:
        """The rows in float64, without the constant column."""
        return self.data.double() if isinstance(self.data, Tensor) else self.data.astype("float64")

    def dense(self) -> Tensor:
        """The rows as one tensor, with the constant column."""
        data = self.data if isinstance(self.data, Tensor) else torch.from_numpy(self.data.toarray())
        if self.constant is None:
            return data
        return torch.cat([data, data.new_full((len(data), 1), self.constant)], 1)

    def times(self, U: Tensor) -> Tensor:  # (d, k) -> (h, k)
        """X U."""
        if self.constant is None:
            return self._product(U)
        return self._product(U[:-1]).add_(U[-1], alpha=self.constant)

    def add_adjoint(self, R: Tensor, total: Tensor) -> None:  # (h, k), (k, d)
        """total += (Xᵀ R)ᵀ: thin rows times X read X once; Xᵀ times thin columns would not."""
        rows = R.mT.contiguous()
        if self.constant is not None:
            total[:, -1].add_(rows.sum(-1), alpha=self.constant)
            total = total[:, :-1]
        if isinstance(self.data, Tensor) and len(rows) == 1:
            total[0].addmv_(self.data.mT, rows[0])  # half the time of a product of matrices
        elif isinstance(self.data, Tensor):
            total.addmm_(rows, self.data)
        else:
            total += torch.from_numpy(self.data.T @ R.numpy()).mT

    def _product(self, U: Tensor) -> Tensor:
        if isinstance(self.data, Tensor):
            return self.data @ U
        return torch.from_numpy(self.data @ np.ascontiguousarray(U.numpy()))


class Rows(ABC):
    """X `(n, d)` known by its blocks; products with thin matrices read it once.

    Attributes:
        n, d: rows and columns, the constant one included.
        dtype: of the products.

    Example:
        >>> from fwnet.low_rank import ArrayRows, Rows
        >>> rows: Rows = ArrayRows(torch.eye(3))
        >>> [block.dense().shape for _, block in rows.blocks(height=2)]
        [torch.Size([2, 3]), torch.Size([1, 3])]
    """

    n: int
    d: int
    dtype: torch.dtype
    constant: float | None = None

    @abstractmethod
    def blocks(self, height: int = _HEIGHT) -> Iterator[tuple[int, Block]]:
        """All rows in order, about `height` at a time: the number of the first, the block."""

    def some(self, index: Tensor) -> Block:
        """The rows of these numbers, in one pass over all."""
        order = torch.argsort(index)
        wanted, found = index[order], []
        for lo, block in self.blocks():
            here = wanted[(wanted >= lo) & (wanted < lo + len(block))] - lo
            if len(here):
                found.append(block.data[_index(block.data, here)])
        data = _stacked(found)
        return Block(data[_index(data, torch.argsort(order))], self.constant)

    def batches(self, size: int, generator: torch.Generator) -> Iterator[tuple[Tensor, Block]]:
        """All rows once, in batches and in random order: their numbers, and the block."""
        order = torch.randperm(self.n, generator=generator)
        for lo in range(0, self.n, size):
            index = order[lo : lo + size]
            yield index, self.some(index)

    def times(self, U: Tensor) -> Tensor:  # (d, k) -> (n, k)
        """X U."""
        out = torch.empty(self.n, U.shape[1], dtype=self.dtype)
        for lo, block in self.blocks():
            out[lo : lo + len(block)] = block.times(U)
        return out


@final
class ArrayRows(Rows):
    """Rows of a dense array, of a memory map (read block by block) or of a CSR matrix.

    Arguments:
        data: `(n, d)`, a tensor, a NumPy array or a SciPy CSR matrix.
        constant: the entry of a column behind the others; None for no such column.

    Example:
        >>> from fwnet.low_rank import ArrayRows
        >>> rows = ArrayRows(torch.eye(3), constant=1.0)
        >>> rows.n, rows.d, rows.times(torch.ones(4, 1)).ravel()
        (3, 4, tensor([2., 2., 2.]))
    """

    def __init__(self, data: Any, constant: float | None = None) -> None:
        self.data = _as_tensor(data)
        self.constant = constant
        self.n, width = data.shape
        self.d = width + (constant is not None)
        double = str(data.dtype).endswith("float64")
        self.dtype = torch.float64 if double else torch.float32

    def blocks(self, height: int = _HEIGHT) -> Iterator[tuple[int, Block]]:
        for lo in range(0, self.n, height):
            yield lo, self._block(self.data[lo : lo + height])

    def some(self, index: Tensor) -> Block:
        return self._block(self.data[_index(self.data, index)])

    def _block(self, part: Any) -> Block:
        if isinstance(part, np.ndarray):  # of a type that products do not take
            part = torch.from_numpy(np.array(part, dtype=_numpy_type(self.dtype)))
        return Block(part, self.constant)


@final
class StreamedRows(Rows):
    """Rows that a function yields block by block, anew for every pass.

    Arguments:
        source: () -> blocks `(h, d)`, the same ones in the same order each time.
        n, d: how many rows and columns there are.
        dtype: of the products.
        constant: as in `ArrayRows`.

    Example:
        >>> from fwnet.low_rank import StreamedRows
        >>> parts = torch.eye(4).split(2)  # in earnest: read from files
        >>> rows = StreamedRows(lambda: iter(parts), (4, 4), torch.float32)
        >>> rows.times(torch.ones(4, 1)).ravel()
        tensor([1., 1., 1., 1.])
    """

    def __init__(
        self,
        source: Callable[[], Iterable[Any]],
        shape: tuple[int, int],
        dtype: torch.dtype,
        constant: float | None = None,
    ) -> None:
        self.source, self.dtype, self.constant = source, dtype, constant
        self.n, self.d = shape[0], shape[1] + (constant is not None)

    def blocks(self, height: int = _HEIGHT) -> Iterator[tuple[int, Block]]:
        for lo, part in self._parts():
            for start, block in part.blocks(height):
                yield lo + start, block

    def batches(self, size: int, generator: torch.Generator) -> Iterator[tuple[Tensor, Block]]:
        for lo, part in self._parts():
            for index, block in part.batches(size, generator):
                yield lo + index, block

    def _parts(self) -> Iterator[tuple[int, ArrayRows]]:
        """The blocks and the numbers of their first rows; an error if they have changed."""
        lo = 0
        for data in self.source():
            part = ArrayRows(self._typed(data), self.constant)
            if part.d != self.d or lo + part.n > self.n:
                raise self._changed(lo + part.n, part.d)
            yield lo, part
            lo += part.n
        if lo != self.n:
            raise self._changed(lo, self.d)

    def _changed(self, rows: int, columns: int) -> ValueError:
        extra = self.constant is not None
        return ValueError(
            f"The blocks held {self.n} rows of {self.d - extra} columns at first and {rows} of "
            f"{columns - extra} now; they must be the same ones in every pass."
        )

    def _typed(self, part: Any) -> Any:
        if hasattr(part, "tocsr"):
            return part.tocsr().astype(_numpy_type(self.dtype))
        return np.asarray(part, dtype=_numpy_type(self.dtype))


def _index(data: Any, rows: Tensor) -> Any:
    """Row numbers as a tensor or an array, as the data need them."""
    return rows if isinstance(data, Tensor) else rows.numpy()


def _stacked(parts: list[Any]) -> Any:
    """Dense rows as one tensor; with a CSR matrix among them, all as one."""
    if all(isinstance(part, Tensor) for part in parts):
        return torch.cat(parts)
    from scipy import sparse

    return sparse.vstack(parts, format="csr")


def _as_tensor(data: Any) -> Any:
    """An array as a tensor where torch needs no copy of it; anything else as it is."""
    if not isinstance(data, np.ndarray) or data.dtype not in (np.float32, np.float64):
        return data
    with warnings.catch_warnings():  # a read-only map: nothing here writes into X
        warnings.simplefilter("ignore", UserWarning)
        return torch.from_numpy(data)


def _numpy_type(dtype: torch.dtype) -> Any:
    return np.float64 if dtype == torch.float64 else np.float32
