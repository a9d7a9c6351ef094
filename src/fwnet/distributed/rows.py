"""Rows: the blocks of one worker, looked through once."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from fwnet.distributed.shards import Block, Shards
from fwnet.distributed.team import Team


@final
@dataclass(frozen=True, eq=False)
class Rows:
    """This worker's blocks, and what is true of the rows of all workers.

    Arguments:
        shards: where the rows are.
        blocks: of this worker, neighbours in the global list.
        labels: of each block, int64.
        block: rows of a block, at most.
        count: n, of all workers.
        reach: the largest Euclidean norm of a row, of all workers.
        checksum: of rows and labels in their blocks, of all workers.
    """

    shards: Shards
    blocks: tuple[Block, ...]
    labels: tuple[Tensor, ...]
    block: int
    count: int
    reach: float
    checksum: int

    def matrix(self, index: int, device: torch.device) -> Tensor:
        """X of a block, `(rows, d)`: on the CPU a view of the file."""
        return self.shards.read(self.blocks[index])[0].to(device)


def take_rows(shards: Shards, classes: int, block: int, team: Team) -> Rows:
    """Give each worker its part of the blocks, and check every number in it.

    The blocks depend on the files and on `block` alone. Worker r of p takes the r-th of p nearly
    equal runs of them; a worker without a block adds zeros to every sum.
    """
    every = shards.blocks(block)
    first, last = (len(every) * r // team.size for r in (team.rank, team.rank + 1))
    mine = tuple(every[first:last])
    looked = team.together(lambda: [_look(shards, b, classes) for b in mine])
    squares = torch.tensor([0.0, *(square for _, square, _ in looked)], dtype=torch.float64)
    reach = float(team.max(squares.max().reshape(1).to(team.device)).sqrt())
    checksum = sum(k * crc for k, (_, _, crc) in enumerate(looked, first + 1)) % (1 << 52)
    total = int(team.sum(torch.tensor([checksum], device=team.device)))
    labels = tuple(y.to(team.device) for y, _, _ in looked)
    return Rows(shards, mine, labels, block, shards.rows, reach, total)


def _look(shards: Shards, block: Block, classes: int) -> tuple[Tensor, float, int]:
    """Labels, the largest squared norm of a row, and a checksum of a block without faults."""
    X, y = shards.read(block)
    squares = X.to(torch.float64).square().sum(-1)
    if not bool(torch.isfinite(squares).all()):
        row = int((~torch.isfinite(squares)).nonzero()[0])
        column = int((~torch.isfinite(X[row])).nonzero().flatten()[:1].sum())
        raise ValueError(
            f"X must be finite; {shards.where(block, row)}, column {column}, is "
            f"{X[row, column].item()}. Repair or drop that row."
        )
    y = y.to(torch.int64)
    outside = ((y < 0) | (y >= classes)).nonzero().flatten()
    if len(outside):
        row = int(outside[0])
        raise ValueError(
            f"labels must lie in 0..{classes - 1}; {shards.where(block, row)} has label "
            f"{int(y[row])}. Pass a larger number of classes, or number the labels from 0."
        )
    crc = zlib.crc32(y.numpy().tobytes(), zlib.crc32(X.numpy().data))
    return y, float(squares.max()), crc
