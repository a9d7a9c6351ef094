"""Random matrices of known spectra, and the training of a power iteration on them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar, NamedTuple, final

import torch
from torch import Tensor, nn

from fwnet.domains import TraceNormBall
from fwnet.learned.controllers import LearnedPowerIteration
from fwnet.learned.ranges import LogUniform, check_limits, sample_size
from fwnet.learned.training.config import MetaConfig
from fwnet.learned.training.gradients import Rollout
from fwnet.learned.training.recurrences import detached
from fwnet.learned.training.tasks import TrainingTask, mean_loss, seeded
from fwnet.numerics import checks
from fwnet.numerics.tensors import unit

SIDES = (8, 64)
_DRIFT = LogUniform(0.01, 0.3)  # of a gradient from one solver step to the next, relative


def flat(batch: int, side: int, generator: torch.Generator) -> Tensor:  # (batch, side)
    """Singular values within a few per cent, or a fifth, of each other."""
    spread = LogUniform(0.02, 0.2).sample(batch, generator).unsqueeze(-1)
    noise = torch.rand(batch, side, generator=generator, dtype=torch.float64)
    return 1 - spread * noise


def decaying(batch: int, side: int, generator: torch.Generator) -> Tensor:  # (batch, side)
    """σ_i = i^−a, a log-uniform in 0.1 to 2."""
    power = LogUniform(0.1, 2.0).sample(batch, generator).unsqueeze(-1)
    return torch.arange(1.0, side + 1, dtype=torch.float64).expand(batch, side) ** -power


def tied(batch: int, side: int, generator: torch.Generator) -> Tensor:  # (batch, side)
    """The two largest are equal, the rest below a random share of them."""
    below = LogUniform(0.3, 0.98).sample(batch, generator).unsqueeze(-1)
    rest = torch.rand(batch, side, generator=generator, dtype=torch.float64) * below
    rest[:, :2] = 1.0
    return rest


SPECTRA: dict[str, Callable[[int, int, torch.Generator], Tensor]] = {
    "flat": flat,
    "decaying": decaying,
    "tied": tied,
}


def matrices(
    kind: str, batch: int, sides: tuple[int, int], generator: torch.Generator
) -> Tensor:  # (batch, d, m) in float64
    """Matrices U diag(σ) Vᵀ with random U and V, σ of the kind."""
    if kind not in SPECTRA:
        raise ValueError(f"kind must be one of {', '.join(SPECTRA)}; got {kind!r}.")
    d, m = (checks.at_least("sides", side, 2) for side in sides)
    k = min(d, m)
    sigma = SPECTRA[kind](batch, k, generator)
    u, v = (_orthonormal(batch, side, k, generator) for side in (d, m))
    return (u * sigma.unsqueeze(-2)) @ v.mT


@final
class Spectra(TrainingTask):
    """Matrices that drift from call to call: what a `LearnedPowerIteration` is trained on.

        mean over matrices and calls of log10(1 − σ̂/σ₁ + 1e-9)

    Every episode draws matrices of each kind with random sides. The calls are for G, G + drift,
    G + 2 drift, …, each warm-started by the answer before; three calls unless the config has a
    horizon.

    Arguments:
        sides: smallest and largest side of a matrix.
    """

    trains: ClassVar[tuple[type[nn.Module], ...]] = (LearnedPowerIteration,)

    def __init__(self, sides: tuple[int, int] = SIDES) -> None:
        check_limits("Spectra(sides=...)", sides, 2)
        self.sides = sides

    def horizon(self, learned: LearnedPowerIteration) -> int:
        return 3

    def episode(
        self, learned: LearnedPowerIteration, config: MetaConfig, generator: torch.Generator
    ) -> Callable[[], Rollout]:
        return partial(_Calls, learned, self._draw(config.batch, generator))

    def judge(self, config: MetaConfig) -> Callable[[LearnedPowerIteration], float]:
        count = max(1, config.validation_problems // config.batch)
        draws = (seeded(config.seed, "validation", place) for place in range(count))
        held = [self._draw(config.batch, generator) for generator in draws]
        return lambda learned: mean_loss((_Calls(learned, d) for d in held), config.limits[1])

    def describe(self, config: MetaConfig, generator: torch.Generator) -> str:
        return f"Spectra: sides {self.sides}"

    def _draw(self, batch: int, generator: torch.Generator) -> list[Drifting]:
        """A batch of each kind."""
        drawn = []
        for kind in SPECTRA:
            d, m = (sample_size(self.sides, generator) for _ in range(2))
            G = matrices(kind, batch, (d, m), generator)
            drift = matrices(kind, batch, (d, m), generator) * _DRIFT.sample(1, generator)
            first = torch.randn(batch, m, generator=generator, dtype=G.dtype)
            drawn.append(Drifting(G, drift, unit(first)))
        return drawn


class Drifting(NamedTuple):
    """Matrices, what is added to them from call to call, and unit vectors to start from."""

    matrix: Tensor  # (batch, d, m)
    drift: Tensor  # (batch, d, m)
    first: Tensor  # (batch, m)


@final
class _Calls(Rollout):
    """Calls of a power iteration on matrices that drift, differentiated through all of them."""

    def __init__(self, controller: LearnedPowerIteration, drawn: list[Drifting]) -> None:
        self.controller, self.drawn, self.t = controller, drawn, 0
        self.ball = TraceNormBall(1.0)
        self.states = [
            controller.begin(self.ball, G)._replace(last=first, before=first)
            for G, _, first in drawn
        ]

    def run(self, steps: int) -> Tensor:
        losses = []
        for t in range(self.t, self.t + steps):
            for place, (G, drift, _) in enumerate(self.drawn):
                matrix = G + t * drift
                _, inner, self.states[place] = self.controller.answer(
                    self.ball, matrix, self.states[place]
                )
                missing = 1 + inner / torch.linalg.matrix_norm(matrix, 2)
                losses.append((missing.clamp_min(0) + 1e-9).log10().mean())
        self.t += steps
        return torch.stack(losses).mean()

    def detach(self) -> None:
        self.states = detached(self.states)


def _orthonormal(batch: int, rows: int, columns: int, generator: torch.Generator) -> Tensor:
    normal = torch.randn(batch, rows, columns, generator=generator, dtype=torch.float64)
    return torch.linalg.qr(normal).Q
