"""A hierarchical RNN where the paper's optimizers have one LSTM per coordinate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, final

import torch
from torch import Tensor, nn

from fwnet.learned.controllers.entrywise import log_and_sign
from fwnet.learned.controllers.l2l import LogitDirection
from fwnet.learned.controllers.lstm import SoftminDirection
from fwnet.numerics import checks


class Memories(NamedTuple):
    """Hidden states: coordinates `(*batch, n, h)`, blocks `(*batch, B, h)`, whole `(*batch, h)`."""

    coordinates: Tensor
    blocks: Tensor
    whole: Tensor


@final
class HierarchicalRNN(nn.Module):
    """Three levels of recurrent cells over the entries of a gradient.

        c_i <- GRU_c(log|g_i| and sign g_i, b_block(i); c_i)    for every coordinate
        b_j <- GRU_b(mean of its c_i, w; b_j)                   for every block
        w   <- GRU_w(mean of the b_j; w)                        once
        out_i = head(c_i) · exp(rate(b_block(i)))

    All coordinates share one cell and all blocks another, so the network fits any size; coordinates
    influence each other through the means. Permuting the coordinates of a block permutes the
    answers. Unlike an `EntrywiseLSTM`, it takes the last dimension for the problem, the others for
    a batch.

    Arguments:
        hidden: units of each level.
        blocks: number of equal blocks of consecutive coordinates, unless a call gives sizes.

    Reference: Wichrowska et al., Learned optimizers that scale and generalize (2017).
    """

    def __init__(self, hidden: int = 10, blocks: int = 1) -> None:
        super().__init__()
        self.hidden = checks.at_least("HierarchicalRNN(hidden=...)", hidden, 1)
        self.blocks = checks.at_least("HierarchicalRNN(blocks=...)", blocks, 1)
        self.coordinate = nn.GRUCell(2 + hidden, hidden)
        self.block = nn.GRUCell(2 * hidden, hidden)
        self.whole = nn.GRUCell(hidden, hidden)
        self.head = nn.Linear(hidden, 1)
        self.rate = nn.Linear(hidden, 1)
        nn.init.zeros_(self.rate.weight)
        nn.init.zeros_(self.rate.bias)

    def forward(
        self, entries: Tensor, memory: Memories | None, sizes: Sequence[int] | None = None
    ) -> tuple[Tensor, Memories]:
        """One step: `(*batch, n)` -> `(*batch, n)`.

        Arguments:
            sizes: of the blocks, Σ = n; equal ones if left out.
        """
        *batch, n = entries.shape
        place = self._places(n, sizes).to(entries.device)  # (n,) the block of each coordinate
        count = int(place[-1]) + 1
        seen = log_and_sign(entries.to(self.head.weight.dtype).unsqueeze(-1), dim=-1)
        if memory is None:
            zeros = seen.new_zeros
            sides = ((*batch, n), (*batch, count), tuple(batch))
            memory = Memories(*(zeros(*side, self.hidden) for side in sides))
        memory = Memories(*memory)  # an optimizer that was saved has plain tuples
        from_blocks = memory.blocks.index_select(-2, place)
        c = _cell(self.coordinate, torch.cat([seen, from_blocks], -1), memory.coordinates)
        share = torch.nn.functional.one_hot(place, count).to(c)
        means = (share / share.sum(0)).mT @ c  # (*batch, B, h)
        above = memory.whole.unsqueeze(-2).expand_as(means)
        b = _cell(self.block, torch.cat([means, above], -1), memory.blocks)
        w = _cell(self.whole, b.mean(-2), memory.whole)
        rate = self.rate(b).clamp(-5.0, 5.0).exp().index_select(-2, place)
        answer = (self.head(c) * rate).squeeze(-1).to(entries.dtype)
        return answer, Memories(c, b, w)

    def _places(self, n: int, sizes: Sequence[int] | None) -> Tensor:
        if sizes is None:
            return torch.arange(n) * min(self.blocks, n) // n
        if sum(sizes) != n or min(sizes) < 1:
            raise ValueError(
                f"HierarchicalRNN(sizes) must be positive and sum to {n}; got {list(sizes)}."
            )
        return torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))


@final
class HierarchicalDirection(SoftminDirection):
    """L2LC_∇ on the simplex with a hierarchical RNN.

        g_t, h_{t+1} = RNN(∇f(x_t), h_t),   d = softmin(g_t) − x

    The coordinates know of each other, unlike those of `LSTMDirection`, with half as many weights.
    Feasible by construction; d need not be a descent direction.

    Arguments:
        hidden: units of each level.
        blocks: number of equal blocks of consecutive coordinates; two for an SVM's dual with
            sorted classes.

    Example:
        >>> from fwnet import learned
        >>> problem = Quadratic(torch.diag(torch.arange(1.0, 6.0)))
        >>> solver = FrankWolfe(Simplex(), direction=learned.HierarchicalDirection(), max_steps=5)
        >>> x = solver(problem).x
        >>> bool(Simplex().contains(x))
        True

    Reference: Wichrowska et al., Learned optimizers that scale and generalize (2017).
    """

    def __init__(self, hidden: int = 10, blocks: int = 1) -> None:
        super().__init__(hidden=hidden, blocks=blocks)
        self.network = HierarchicalRNN(hidden, blocks)


@final
class HierarchicalL2L(LogitDirection):
    """L2L on the reparameterised objective with a hierarchical RNN; see `L2LSoftmax`.

        x = radius · softmax(u),   u <- u + 0.1 RNN(n ∂f/∂u)

    Arguments:
        hidden: units of each level.
        blocks: number of equal blocks of consecutive coordinates.

    Example:
        >>> from fwnet import learned
        >>> problem = Quadratic(torch.diag(torch.arange(1.0, 6.0)))
        >>> solver = learned.HierarchicalL2L().solver(Simplex(), max_steps=5)
        >>> x = solver(problem).x
        >>> bool(Simplex().contains(x))
        True
    """

    def __init__(self, hidden: int = 10, blocks: int = 1) -> None:
        super().__init__(hidden=hidden, blocks=blocks)
        self.network = HierarchicalRNN(hidden, blocks)


def _cell(cell: nn.GRUCell, seen: Tensor, memory: Tensor) -> Tensor:
    """A cell on `(*batch, …)`: it takes two dimensions only."""
    flat: Tensor = cell(seen.reshape(-1, seen.shape[-1]), memory.reshape(-1, memory.shape[-1]))
    return flat.reshape(memory.shape)
