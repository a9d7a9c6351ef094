"""K iterations for the largest singular value, 2 K products each: how much of it is missing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from benchmarks.learned.targets import Target
from fwnet.learned.spectra import SPECTRA, matrices
from fwnet.numerics.singular import power_iteration
from fwnet.numerics.tensors import norm, unit

MOMENTA = (0.01, 0.03, 0.05, 0.1, 0.15, 0.2, 0.23, 0.25)  # of σ₁⁴, ¼ at most
SIDES = (60, 40)


@torch.no_grad()
def power(controllers: Sequence[Any], count: int = 200) -> list[Target]:
    """Decades of the missing share of σ₁, 10^−mean log10(1 − σ̂/σ₁), ours against theirs."""
    rows = []
    for kind in SPECTRA:
        for steps in (3, 5, 10):
            training, test = (_draw(kind, count, seed) for seed in (77, 78))
            best = max(MOMENTA, key=lambda b: _decades(_momentum(*training, steps, b), training))
            rivals = {
                "power iteration": power_iteration(*test, steps).sigma,
                f"momentum [{best:g}]": _momentum(*test, steps, best),
                "Lanczos": _lanczos(*test, steps),
            }
            ours = []
            for controller in controllers:
                controller.steps, trained = steps, controller.steps
                ours.append(_decades(controller.pair(*test).sigma, test))
                controller.steps = trained
            mine = float(torch.tensor(ours).median())
            for rival, sigma in rivals.items():
                theirs = _decades(sigma, test)
                least = 1.0 if rival == "power iteration" else None
                name = f"{kind} spectrum, K={steps}"
                rows.append(
                    Target(name, mine, "decades", theirs, rival, mine / theirs, None, least)
                )
    return rows


def _draw(kind: str, count: int, seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    G = matrices(kind, count, SIDES, generator)
    return G, torch.randn(count, SIDES[1], generator=generator, dtype=G.dtype)


def _decades(sigma: Tensor, drawn: tuple[Tensor, Tensor]) -> float:
    missing = 1 - sigma / torch.linalg.matrix_norm(drawn[0], 2)
    return -float(missing.clamp_min(1e-14).log10().mean())


def _momentum(G: Tensor, v: Tensor, steps: int, momentum: float) -> Tensor:
    """v <- GᵀG v − β v before, β a share of the true σ₁⁴, which no method knows."""
    v, before = unit(v), torch.zeros_like(v)
    square = torch.linalg.matrix_norm(G, 2).square().unsqueeze(-1)
    for _ in range(steps - 1):
        ahead = _times(G.mT, _times(G, v)) / square - momentum * before
        size = norm(ahead).unsqueeze(-1)
        v, before = ahead / size, v / size
    return norm(_times(G.mT, unit(_times(G, v))))


def _lanczos(G: Tensor, v: Tensor, steps: int) -> Tensor:
    """The best vector of the Krylov space, reorthogonalised in full."""
    basis = [unit(v)]
    for _ in range(steps - 1):
        ahead = _times(G.mT, _times(G, basis[-1]))
        for _ in range(2):
            for known in basis:
                ahead = ahead - (ahead * known).sum(-1, keepdim=True) * known
        basis.append(unit(ahead))
    u = torch.linalg.svd(G @ torch.stack(basis, -1), full_matrices=False).U[..., 0]
    return norm(_times(G.mT, u))


def _times(G: Tensor, v: Tensor) -> Tensor:
    return (G @ v.unsqueeze(-1)).squeeze(-1)
