"""Blocks of points in turn, for a kernel matrix that has no room and rows that are cheap.

First all points take a turn, in random order, so that the machine is at any time about that of the
points so far; then blocks that are drawn with a chance that grows with the violation. The worst
violators together would be outliers of one kind, which the next block has to take back.
"""

from __future__ import annotations

from typing import final

import numpy as np

from fwnet.estimators.svm.kernels import Array

NEGLIGIBLE = 1e-20  # a violation that counts for nothing
_BLOCKS, _LEAST, _MOST = 25, 512, 4096  # in which all points take a turn; points of a block


@final
class BlockTurns:
    """Whose turn it is.

    Arguments:
        queue: indices of the points that had no turn yet.
        n: how many points there are.
    """

    def __init__(self, queue: Array, n: int) -> None:
        self.queue, self.size = queue, min(max(_LEAST, n // _BLOCKS), _MOST)
        self.gaps: list[float] = []
        self.random = np.random.default_rng(0)

    def next(self, violations: Array, gap: float) -> Array | None:
        """Return the points of the next block; None where nothing is left to do.

        The k largest log(chance)/violation^½ are k draws without replacement with chances
        proportional to the square root of the violation.
        """
        if len(self.queue):
            block, self.queue = self.queue[: self.size], self.queue[self.size :]
            return block[violations[block] > NEGLIGIBLE]
        self.gaps.append(gap)
        last = self.gaps[-2 * _BLOCKS :]
        wanting = np.flatnonzero(violations > NEGLIGIBLE)
        if not len(wanting) or (len(last) == 2 * _BLOCKS and gap > 0.9 * last[0]):
            return None
        draws = np.log(self.random.random(len(wanting))) / np.sqrt(violations[wanting])
        size = min(self.size, len(wanting))
        return wanting[np.argpartition(draws, -size)[-size:]]
