"""PowerIteration: the paper's recurrent oracle for the trace-norm ball."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, final

import torch
from torch import Tensor

from fwnet.domains import Cost, Domain, TraceNormBall
from fwnet.numerics import checks
from fwnet.numerics.singular import power_iteration
from fwnet.numerics.tensors import is_read
from fwnet.oracles.base import Answer, CostOracle
from fwnet.vertices import Rank1, Vertex

_STARTS = ("warm", "fixed", "random")


@final
class PowerIteration(CostOracle):
    """K power iterations for the top singular pair of the gradient G, a recurrent network.

        u <- G v / ‖G v‖,   v <- Gᵀu / ‖Gᵀu‖,   K times;   vertex = −radius · u vᵀ

    The vertex always lies on the sphere; with few iterations it is not the best one, and its
    decrease underestimates the gap.

    Arguments:
        steps: K, or a function t -> K of the step's number 0, 1, …; from a random v a vertex of
            relative accuracy ε takes K = O(log(max(d, m)) / ε), so that K must grow with t.
        warm_start: True for start="warm", False for start="fixed".
        generator: source of v; by default a new one, seeded by t, so that solves repeat.
        start: where the iterations begin: "warm", from the last step's v (one iteration is then
            often enough); "fixed", from the same random v every time; "random", from a new random
            v every time, as in the paper.

    Example:
        >>> import math, fwnet
        >>> oracle = fwnet.PowerIteration(lambda t: 1 + math.ceil(math.log(t + 1)), start="random")

    Reference: Schramowski, Bauckhage and Kersting, Neural Conditional Gradients (2018), Fig. 5;
    Jaggi (2013) for the accuracy.
    """

    fits = (TraceNormBall,)

    def __init__(
        self,
        steps: int | Callable[[int], int] = 5,
        warm_start: bool = True,
        generator: torch.Generator | None = None,
        start: Literal["warm", "fixed", "random"] | None = None,
    ) -> None:
        super().__init__()
        if not callable(steps):
            steps = checks.at_least("PowerIteration(steps=...)", steps, 1)
        self.steps: Any = steps
        if start is not None and start not in _STARTS:
            raise ValueError(
                f"PowerIteration(start=...) must be one of {', '.join(_STARTS)}; got {start!r}."
            )
        warm = checks.switch("PowerIteration(warm_start=...)", warm_start)
        self.start = start or ("warm" if warm else "fixed")
        self.warm_start, self.generator = self.start == "warm", generator

    def extra_repr(self) -> str:
        return f"steps={self.steps}, start={self.start!r}"

    def begin(self, domain: Domain, x: Tensor) -> Tensor | tuple[Tensor, int]:
        self.check_fits(domain)
        v = self._drawn(x.new_empty(*x.shape[:-2], x.shape[-1]), 0)
        return (v, 0) if callable(self.steps) or self.start == "random" else v

    def answer(self, domain: Domain, cost: Cost, state: Any) -> Answer:
        assert isinstance(domain, TraceNormBall)
        first, t = state if isinstance(state, tuple) else (state, None)
        steps = self.steps
        if callable(steps):
            steps = checks.at_least(f"PowerIteration(steps=...) at t = {t}", steps(t), 1)
        u, sigma, v = power_iteration(cost, first, steps)
        following = v if self.start == "warm" else first
        if t is not None:
            following = self._drawn(first, t + 1) if self.start == "random" else following
            following = following, t + 1
        return Answer(Rank1(-domain.radius * u, v), -domain.radius * sigma, following)

    def ask(self, domain: Domain, cost: Cost, state: Any) -> tuple[Vertex, Any]:
        """As `answer`; a short cut for one iteration from a warm start, usual in optimizers."""
        usual = self.steps == 1 and self.start == "warm" and not torch.is_grad_enabled()
        if usual and isinstance(cost, Tensor) and is_read(cost):
            assert isinstance(domain, TraceNormBall)
            pair = _one_iteration(cost, state)
            if pair is not None:
                u, length, v = pair
                return Rank1(u.mul_(-domain.radius / length), v), v
        return super().ask(domain, cost, state)

    def _drawn(self, like: Tensor, t: int) -> Tensor:
        """Random unit vectors `(*batch, m)` for step t."""
        generator = self.generator
        if generator is None:
            generator = torch.Generator(device=like.device).manual_seed(t)
        v = torch.randn(like.shape, generator=generator, dtype=like.dtype, device=like.device)
        return v / torch.linalg.vector_norm(v, dim=-1, keepdim=True)


def _one_iteration(G: Tensor, v: Tensor) -> tuple[Tensor, Any, Tensor] | None:
    """u = G v, |u| and Gᵀu / |Gᵀu|; None if squares would leave the range of float32, or u = 0."""
    if G.ndim == 2:
        u = G.mv(v)
        length = float(torch.linalg.vector_norm(u))
        if not 1e-9 < length < 1e9:
            return None
        image = G.mT.mv(u)
        return u, length, image.div_(float(torch.linalg.vector_norm(image)))
    column = G @ v.unsqueeze(-1)
    lengths = torch.linalg.vector_norm(column, dim=-2)
    if not all(1e-9 < length < 1e9 for length in lengths.flatten().tolist()):
        return None
    image = (G.mT @ column).squeeze(-1)
    sizes = torch.linalg.vector_norm(image, dim=-1, keepdim=True)
    return column.squeeze(-1), lengths, image.div_(sizes)
