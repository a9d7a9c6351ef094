"""WorkerRows: the blocks of one worker, looked through once."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from typing import Any, NoReturn, final

import numpy as np
import torch
from torch import Tensor

from fwnet.estimators.low_rank.distributed.matrix_files import DenseFile
from fwnet.estimators.low_rank.distributed.shards import Shards, Span
from fwnet.estimators.low_rank.distributed.team import Team
from fwnet.estimators.low_rank.rows import Block, Rows

_SMALLEST_NORM = 1e-150


@final
class WorkerRows(Rows):
    """This worker's blocks, every number in them checked, and what is true of all rows.

    The blocks depend only on the files and on `block`. Worker r of p takes the r-th of p nearly
    equal runs of them; a worker without a block adds zeros to every sum.

    Arguments:
        shards: where the rows are.
        classes: m; labels are 0, …, m − 1.
        block: rows of a block, at most.
        team: the workers.

    Attributes:
        spans: the blocks of this worker, neighbours in the global list.
        labels: of each of its blocks, int64.
        count: n, of all workers; `n` is that of this one.
        total_blocks: of all workers.
        reach: the largest Euclidean norm of a row, of all workers.
        checksum: of rows and labels in their blocks, of all workers.
    """

    def __init__(self, shards: Shards, classes: int, block: int, team: Team) -> None:
        if team.device.type != "cpu" and not all(isinstance(X, DenseFile) for X in shards.X):
            raise ValueError("sparse shards are computed on the CPU; fit with --device cpu.")
        every = shards.blocks(block)
        first, last = (len(every) * r // team.size for r in (team.rank, team.rank + 1))
        self.shards, self.spans, self.block = shards, every[first:last], block
        self.device, self.d, self.dtype = team.device, shards.features, shards.dtype
        self.count, self.total_blocks = shards.rows, len(every)
        team.together(lambda: shards.check_hashes({span.shard for span in self.spans}))
        looked = team.together(lambda: [_look(shards, span, classes) for span in self.spans])
        self.labels = [y.to(team.device) for y, _, _ in looked]
        self.n = sum(map(len, self.labels))
        squares = torch.tensor([0.0, *(square for _, square, _ in looked)], dtype=torch.float64)
        self.reach = float(team.max(squares.max().reshape(1).to(team.device)).sqrt())
        if 0.0 < self.reach < _SMALLEST_NORM:
            raise ValueError(
                f"the largest norm of a row of X must be 0 or at least {_SMALLEST_NORM:.0e}, or "
                "its square underflows; it is smaller. Scale the features up."
            )
        checksum = sum(k * crc for k, (_, _, crc) in enumerate(looked, first + 1)) % (1 << 52)
        self.checksum = int(team.sum(torch.tensor([checksum], device=team.device)))

    def blocks(self, height: int = 0) -> Iterator[tuple[int, Block]]:
        """X of each block, whatever the height: they are the unit of every sum.

        On the CPU a block is a view of its file.
        """
        lo = 0
        for span in self.spans:
            block, _ = self.shards.read(span)
            on_cpu = self.device.type == "cpu"
            yield lo, block if on_cpu else Block(block.data.to(self.device), None)
            lo += len(block)


def _look(shards: Shards, block: Span, classes: int) -> tuple[Tensor, float, int]:
    """Labels, the largest squared norm of a row, and a checksum of a block without faults."""
    read, y = shards.read(block)
    X = read.data
    dense = isinstance(X, Tensor)
    if not dense:
        _check_sparse(X, shards.where(block, 0))
    squares = X.double().square().sum(-1) if dense else _squares(X)
    if not bool(torch.isfinite(squares).all()):
        _refuse_row(shards, block, X, int((~torch.isfinite(squares)).nonzero()[0]))
    outside = ((y < 0) | (y >= classes)).nonzero().flatten()
    if len(outside):
        row = int(outside[0])
        raise ValueError(
            f"labels must lie in 0..{classes - 1}; {shards.where(block, row)} has label "
            f"{int(y[row])}. Pass a larger number of classes, or number the labels from 0."
        )
    crc = 0
    for part in (X.numpy(),) if dense else (X.data, X.indices, X.indptr):
        crc = zlib.crc32(part.data, crc)
    largest = float(squares.max())
    if largest == 0.0 and bool((X != 0).any() if dense else X.count_nonzero()):
        largest = torch.finfo(torch.float64).tiny  # the squares underflow; this bounds them
    return y, largest, zlib.crc32(y.numpy().data, crc)


def _refuse_row(shards: Shards, block: Span, X: Any, row: int) -> NoReturn:
    """Raise for a row whose squared norm is not finite."""
    numbers = X[row] if isinstance(X, Tensor) else torch.from_numpy(X[row].toarray()[0])
    column = int(numbers.abs().nan_to_num(nan=torch.inf).argmax())
    where = f"{shards.where(block, row)}, column {column}, is {numbers[column].item()}"
    if math.isfinite(float(numbers[column])):
        raise ValueError(
            f"X must have rows whose squared norm is finite in float64; {where}. Scale the "
            "features down."
        )
    raise ValueError(f"X must be finite; {where}. Repair or drop that row.")


def _squares(X: Any) -> Tensor:
    """Squared norms of the rows of a CSR matrix."""
    return torch.from_numpy(np.asarray(X.astype(np.float64).power(2).sum(1)).ravel())


def _check_sparse(X: Any, where: str) -> None:
    """A bad index would read past the end of a vector; entries that come twice hide a norm."""
    try:
        X.check_format(full_check=True)
        fault = "" if X.has_canonical_format else "an entry comes twice, or columns are unsorted"
    except ValueError as error:
        fault = str(error)
    if fault:
        raise ValueError(
            f"X is not a CSR matrix from {where} on: {fault}. Write it with write_shards."
        )
