"""One pass over X and its logits Z: move Z, and multiply its errors E = ∇φ(Z) from both sides.

    Z ← keep · Z + left rightᵀ;     image = X u,   pulled = Eᵀ image = Gᵀu,   pushed = Xᵀ(E right)

In torch, block by block, or compiled, row by row: two functions that do the same.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from fwnet.estimators.low_rank.losses import SoftmaxLoss
from fwnet.estimators.low_rank.problems import RowProblem
from fwnet.estimators.low_rank.rows import ArrayRows
from fwnet.numerics.compiled import numba_or_none

_WORTH_COMPILING = 1 << 20  # logits; with fewer the first call of compiled code takes longer
_HEIGHT = 1024  # rows of a block of the compiled code

Array = np.ndarray[Any, np.dtype[Any]]


class LogitMove(NamedTuple):
    """Z ← keep · Z + left rightᵀ."""

    keep: float
    left: Tensor  # (n,)
    right: Tensor  # (m,)


class Sweep(NamedTuple):
    """What a pass found, at the logits where it arrived."""

    value: float  # f
    image: Tensor  # X u, (n,)
    pushed: Tensor  # G · right, (d,)
    pulled: Tensor  # Gᵀ · u, (m,)


def sweep(problem: RowProblem, Z: Tensor, move: LogitMove, u: Tensor) -> Sweep:
    """LogitMove the logits in place, and ask the gradient there in both directions.

    A large softmax over float32 rows in memory, dense or CSR, runs in compiled code if Numba is
    installed (`pip install "fwnet[fast]"`); everything else in torch.

    Arguments:
        problem: f.
        Z: its logits `(n, m)`.
        move: where they go.
        u: `(d,)`.
    """
    if len(Z) * Z.shape[1] >= _WORTH_COMPILING and numba_or_none() is not None:
        rows, loss = problem.rows, problem.loss
        if isinstance(loss, SoftmaxLoss) and isinstance(rows, ArrayRows) and _fits(rows, loss):
            return compiled_sweep(rows, loss, Z, move, u)
    return torch_sweep(problem, Z, move, u)


def torch_sweep(problem: RowProblem, Z: Tensor, move: LogitMove, u: Tensor) -> Sweep:
    """A few operations on each block, which stays near between them."""
    image, pulled = torch.empty_like(move.left), torch.zeros_like(move.right)
    pushed = torch.zeros(1, problem.shape[0], dtype=problem.dtype)
    errors = torch.empty(problem.height, problem.shape[1], dtype=problem.dtype)
    value = 0.0
    for lo, block in problem.rows.blocks(problem.height):
        rows = slice(lo, lo + len(block))
        here, E = Z[rows], errors[: len(block)]
        here.addmm_(move.left[rows, None], move.right[None], beta=move.keep)
        value += problem.loss.errors_(here, rows, out=E)
        image[rows] = block.times(u[:, None])[:, 0]
        pulled.addmv_(E.mT, image[rows])
        block.add_adjoint((E @ move.right).unsqueeze(1), pushed)
    return Sweep(value, image, pushed[0], pulled)


def compiled_sweep(
    rows: ArrayRows, loss: SoftmaxLoss, Z: Tensor, move: LogitMove, u: Tensor
) -> Sweep:
    """X and Z pass through the caches once, in as many threads as torch has.

    Sums over blocks of rows are added up in order and in float64: the same bits for any number of
    threads, on one kind of processor.
    """
    from benchmarks.trace import compiled_softmax

    X: Any = rows.data
    dense = isinstance(X, Tensor)
    code = compiled_softmax.sweep_dense if dense else compiled_softmax.sweep_sparse
    image = torch.empty(rows.n)
    whole = (
        X.numpy() if dense else (X.data, X.indices, X.indptr),
        np.float32(rows.constant or 0.0),
        u.numpy(),
        Z.numpy(),
        (np.float32(move.keep), move.left.numpy(), move.right.numpy()),
        loss.y.numpy(),
        loss.weight.numpy(),
        image.numpy(),
    )

    def part(start: int) -> tuple[float, Array, Array]:
        pushed, pulled = np.zeros(rows.d, np.float32), np.zeros(loss.m, np.float32)
        stop = min(rows.n, start + _HEIGHT)
        return code((start, stop), *whole, pushed, pulled), pushed, pulled

    value, pushed, pulled = 0.0, np.zeros(rows.d), np.zeros(loss.m)
    threads = torch.get_num_threads()
    with ThreadPoolExecutor(threads) as pool:
        run = map if threads == 1 else pool.map  # a thread of its own would cost a tenth
        for loss_here, pushed_here, pulled_here in run(part, range(0, rows.n, _HEIGHT)):
            value += loss_here
            pushed += pushed_here
            pulled += pulled_here
    return Sweep(value, image, torch.from_numpy(pushed).float(), torch.from_numpy(pulled).float())


def _fits(rows: ArrayRows, loss: SoftmaxLoss) -> bool:
    """Whether the compiled code can take the data as they lie."""
    if isinstance(rows.data, Tensor) and not rows.data.is_contiguous():
        return False
    single = str(rows.data.dtype).endswith("float32") and loss.weight.dtype == torch.float32
    return single and not isinstance(rows.data, np.ndarray)
