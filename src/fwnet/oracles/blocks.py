"""Blocks: one block of a product at a time."""

from __future__ import annotations

from typing import Any, final

import torch

from fwnet.domains import Domain, Product
from fwnet.iterates import Iterate
from fwnet.oracles.base import Linearization, Oracle, seed_of
from fwnet.problems import Problem
from fwnet.vertices import Slice


@final
class Blocks(Oracle):
    """The oracle of one block at a time; the other blocks stay where they are.

        vertex = argmin over v in D_b of ⟨∇_b f(x), v⟩

    Arguments:
        shuffle: visit the blocks in a new random order each round, else in turn.
        generator: source of randomness; by default a new one with seed 0 for every solve.

    Example:
        >>> pair = Product([Simplex(), L2Ball(1.0)], [(2,), (2,)])
        >>> solver = FrankWolfe(pair, LineSearch(), oracle=Blocks(shuffle=False), tol=1e-4)
        >>> solver(LeastSquares(torch.eye(4), torch.ones(4))).status
        'converged'

    Reference: Lacoste-Julien, Jaggi, Schmidt and Pletscher, Block-coordinate Frank-Wolfe (2013).
    """

    fits = (Product,)

    def __init__(self, shuffle: bool = True, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.shuffle, self.generator = shuffle, generator

    def init(self, problem: Problem, domain: Domain, it: Iterate) -> Any:
        self.check_fits(domain)
        return [], seed_of(self.generator)

    def forward(
        self, problem: Problem, domain: Domain, it: Iterate, state: Any
    ) -> tuple[Linearization, Any]:
        assert isinstance(domain, Product)
        queue, seed = state
        if not queue:
            count = len(domain.blocks)
            # A new generator for every round, so that a recomputed cell draws the same order.
            generator = torch.Generator().manual_seed(seed)
            order = torch.randperm(count, generator=generator) if self.shuffle else range(count)
            queue, seed = [int(b) for b in order], seed + 1
        block, start, stop, shape = domain.blocks[queue[0]]
        gradient = problem.gradient_block(it, start, stop)
        lead = gradient.shape[:-1]
        answer = block.vertex(gradient.reshape(*lead, *shape)).dense().reshape(*lead, -1)
        vertex = Slice(answer, start, it.x.shape[-1])
        along = (it.x[..., start:stop] * gradient).sum(-1)  # of this block only, like the gradient
        decrease = along - (answer * gradient).sum(-1)
        lin = Linearization(problem.value(it), gradient, along, vertex, decrease, exact=False)
        return lin, (queue[1:], seed)

    def patience(self, domain: Domain) -> int:
        """A block may be at its optimum while others are not: two rounds."""
        assert isinstance(domain, Product)
        return super().patience(domain) + 2 * len(domain.blocks)
