"""Random matrices of known spectra, and the training of a power iteration on them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from fwnet.domains import TraceNormBall
from fwnet.learned.controllers import LearnedPowerIteration
from fwnet.learned.ranges import LogUniform, sample_size
from fwnet.numerics import checks

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


def train_power(
    controller: LearnedPowerIteration, *, steps: int = 400, batch: int = 16, seed: int = 0
) -> list[float]:
    """Train a power iteration in place, end to end, on matrices that drift from call to call.

        mean over matrices of log10(1 − σ̂/σ₁ + 1e-9)

    Every episode draws matrices of one kind and sides, asks three times, G, G + drift, and so on,
    each time from where the last answer was, and differentiates through all of it.

    Returns: the loss of every episode.
    """
    optimizer = torch.optim.Adam(controller.parameters(), 3e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    losses = []
    for step in range(steps):
        generator = torch.Generator().manual_seed(1_000_003 * seed + step)
        loss = torch.stack([_loss(controller, kind, batch, generator) for kind in SPECTRA]).mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(controller.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    return losses


def _loss(
    controller: LearnedPowerIteration, kind: str, batch: int, generator: torch.Generator
) -> Tensor:
    d, m = (sample_size(SIDES, generator) for _ in range(2))
    G = matrices(kind, batch, (d, m), generator)
    drift = matrices(kind, batch, (d, m), generator)
    size = _DRIFT.sample(1, generator)
    ball = TraceNormBall(1.0)
    first = torch.randn(batch, m, generator=generator, dtype=G.dtype)
    first = first / torch.linalg.vector_norm(first, dim=-1, keepdim=True)
    state = controller.begin(ball, G)._replace(last=first, before=first)
    total = G.new_zeros(())
    for t in range(3):
        matrix = G + t * size * drift
        _, inner, state = controller.answer(ball, matrix, state)
        missing = 1 + inner / torch.linalg.matrix_norm(matrix, 2)
        total = total + (missing.clamp_min(0) + 1e-9).log10().mean() / 3
    return total


def _orthonormal(batch: int, rows: int, columns: int, generator: torch.Generator) -> Tensor:
    normal = torch.randn(batch, rows, columns, generator=generator, dtype=torch.float64)
    return torch.linalg.qr(normal).Q
