"""Blocks: one block of a product at a time."""

from __future__ import annotations

from typing import Any, final

import torch

from fwnet.domains import Domain, Product
from fwnet.iterates import Iterate
from fwnet.oracles.base import Linearization, Oracle
from fwnet.problems import Problem
from fwnet.vertices import Slice


@final
class Blocks(Oracle):
    """The oracle of a single block; the others stay where they are.

        vertex = argmin over v in D_b of ⟨∇_b f(x), v⟩

    Arguments:
        shuffle: a new random order of the blocks for each round, else in turn.
        generator: source of randomness; by default a new one with seed 0 for every solve.

    Reference: Lacoste-Julien, Jaggi, Schmidt and Pletscher, Block-coordinate Frank-Wolfe (2013).
    """

    def __init__(self, shuffle: bool = True, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.shuffle, self.generator = shuffle, generator

    def init(self, problem: Problem, domain: Domain, it: Iterate) -> Any:
        if not isinstance(domain, Product):
            raise TypeError(f"Blocks answers for Product only; got {domain}.")
        generator = self.generator
        if generator is None:
            generator = torch.Generator().manual_seed(0)
        return [], generator

    def forward(
        self, problem: Problem, domain: Domain, it: Iterate, state: Any
    ) -> tuple[Linearization, Any]:
        assert isinstance(domain, Product)
        queue, generator = state
        if not queue:
            count = len(domain.blocks)
            order = torch.randperm(count, generator=generator) if self.shuffle else range(count)
            queue = [int(b) for b in order]
        block, start, stop, shape = domain.blocks[queue[0]]
        gradient = problem.gradient_block(it, start, stop)
        lead = gradient.shape[:-1]
        answer = block.vertex(gradient.reshape(*lead, *shape)).dense().reshape(*lead, -1)
        vertex = Slice(answer, start, it.x.shape[-1])
        along = (it.x[..., start:stop] * gradient).sum(-1)  # of this block alone, as the gradient
        decrease = along - (answer * gradient).sum(-1)
        lin = Linearization(problem.value(it), gradient, along, vertex, decrease, exact=False)
        return lin, (queue[1:], generator)
