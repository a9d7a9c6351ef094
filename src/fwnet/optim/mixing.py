"""x + γ (v − x) in floating point: how it is rounded, and how x stays inside all the same."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from fwnet.domains import Domain, NormBall, SpectralBall, TraceNormBall
from fwnet.numerics.tensors import expand
from fwnet.vertices import Dense, Rank1, Sign, Vertex

StepSize = float | Tensor  # a number, or (*batch)
MATRIX_BALLS = (SpectralBall, TraceNormBall)  # their norms cost a decomposition


def settle(domain: Domain, x: Tensor, margin: float) -> float:
    """Scale back in balls, project elsewhere, in place; a bound on the norm in matrix balls."""
    if isinstance(domain, MATRIX_BALLS):
        limit = domain.radius * (1 - margin)
        size = domain.norm(x.double())
        x.mul_(expand((limit / size).clamp_max_(1.0).to(x.dtype), 2))
        return min(limit, float(size.max())) if x.device.type == "cpu" else limit
    if isinstance(domain, NormBall):
        x.div_(expand((domain.norm(x) / domain.radius).clamp_min_(1.0), domain.event_dim))
        return domain.radius
    projected = domain.project(x.double())  # in float32 its sums would round by 1e-6
    if projected is not None:
        x.copy_(projected)
    return 0.0


def margin(domain: Domain, parameter: Tensor, shape: tuple[int, ...]) -> float:
    """Share of the radius that rounding can use up between two decompositions.

        1024 · eps · √k,   k = min(d, m)

    Computing singular values at every step would cost too much, so vertices and weights keep this
    distance from the sphere; see `Bucket.stay_inside`. Other balls need none.
    """
    if not isinstance(domain, MATRIX_BALLS):
        return 0.0
    return 1024 * torch.finfo(precision(parameter)).eps * math.sqrt(min(shape[-2:]))


def drifts(domain: Domain, parameter: Tensor) -> bool:
    """Whether rounding would accumulate, because there is no norm to scale x back by.

    A sum over a simplex, or a row sum of a Birkhoff matrix, drifts by 1e-4 in 10,000 float32 steps.
    """
    return precision(parameter) == torch.float32 and not isinstance(domain, NormBall)


def mix(x: Tensor, vertex: Vertex, step_size: StepSize) -> None:
    """x <- x + γ (vertex − x), in place."""
    if isinstance(vertex, Dense):
        x.lerp_(vertex.x, expand(step_size, vertex.dims))
    elif isinstance(vertex, Sign):
        x.lerp_(vertex.dense(), expand(step_size, 1))
    elif isinstance(vertex, Rank1) and x.ndim == 2 and isinstance(step_size, float):
        x.addr_(vertex.u, vertex.v, beta=1 - step_size, alpha=step_size)  # one pass over x
    else:
        if isinstance(step_size, Tensor):
            x.mul_(expand(1 - step_size, vertex.event_dim))
        else:
            x.mul_(1 - step_size)
        vertex.add_to(x, step_size)


def mix_doubled(x: Tensor, rest: Tensor | float, vertex: Vertex, step_size: StepSize) -> Tensor:
    """x + rest <- (1 − γ)(x + rest) + γ · vertex; returns the rest, digits that x cannot hold."""
    full = x.double() + rest
    size = step_size.double() if isinstance(step_size, Tensor) else step_size
    mix(full, vertex.each(_in_double), size)
    x.copy_(full)
    return (full - x).to(x.dtype)


def _in_double(part: Tensor, _: int) -> Tensor:
    return part.double() if part.is_floating_point() else part


def precision(parameter: Tensor) -> torch.dtype:
    """The dtype in which the parameter moves."""
    return torch.float64 if parameter.dtype == torch.float64 else torch.float32
