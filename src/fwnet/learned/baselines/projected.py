"""Baselines that project: momentum, accelerated gradients, the spectral projected gradient."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor

from fwnet.domains import Domain
from fwnet.iterates import Iterate
from fwnet.learned.baselines.base import Baseline, Report, start_of
from fwnet.numerics import checks
from fwnet.numerics.tensors import expand
from fwnet.problems import Problem
from fwnet.problems.base import dense_gradient, inner


class Projected(Baseline):
    """A method that needs the nearest point of the domain."""

    def fits(self, problem: Problem, domain: Domain) -> bool:
        assert problem.shape is not None
        flat = torch.zeros(problem.shape, dtype=problem.dtype, device=problem.device)
        return domain.project(flat) is not None


@final
class FISTA(Projected):
    """Accelerated projected gradient with adaptive restart and an adaptive smoothness.

        x⁺ = P(y − ∇f(y)/L),   y = x⁺ + (θ − 1)/θ⁺ (x⁺ − x),   θ⁺ = (1 + √(1 + 4θ²))/2

    The momentum restarts (θ = 1) where ⟨y − x⁺, x⁺ − x⟩ > 0. L is the largest curvature met so
    far along the steps, slowly forgotten: less than the global constant, so longer steps.

    Arguments:
        forget: factor on L at each step, at most 1.

    Example:
        >>> from fwnet.learned import baselines
        >>> problem = fwnet.learned.families.QuadraticFamily(n=8).sample(1, torch.Generator())
        >>> run = baselines.FISTA().run(problem, Simplex(), 30)
        >>> bool(run.values[-1] < run.values[0])
        True

    Reference: Beck and Teboulle (2009); O'Donoghue and Candès (2015) for the restart.
    """

    def __init__(self, forget: float = 0.95) -> None:
        self.forget = checks.positive("FISTA(forget=...)", forget)
        if self.forget > 1:
            raise ValueError(f"FISTA(forget=...) must be at most 1; got {forget!r}.")
        self.name = "FISTA"

    def follow(self, problem: Problem, domain: Domain, max_steps: int, report: Report) -> None:
        b = problem.batch_dims
        here = ahead = start_of(problem, domain)
        before, theta = here, torch.ones_like(problem.value(here))
        gradient = dense_gradient(problem.gradient(ahead))
        smoothness = _first_curvature(problem, domain, here, gradient)
        while not report(problem.value(here), here.x):
            while True:
                step = ahead.x - gradient / expand(smoothness, ahead.x.ndim - b)
                there = problem.at(_project(domain, step))
                curvature = _curvature(problem, ahead, there, gradient)
                if bool((curvature <= smoothness * (1 + 1e-6)).all()):
                    break
                smoothness = torch.where(
                    curvature > smoothness, torch.maximum(curvature, 1.5 * smoothness), smoothness
                )
            before, here = here, there
            turned = inner(ahead.x - here.x, here.x - before.x, b) > 0
            theta = torch.where(turned, 1.0, theta)
            following = (1 + (1 + 4 * theta**2).sqrt()) / 2
            ahead = _mixed(here, before, (theta - 1) / following, b)
            theta, smoothness = following, self.forget * smoothness
            gradient = dense_gradient(problem.gradient(ahead))


@final
class SpectralProjectedGradient(Projected):
    """Projected Barzilai-Borwein steps under a nonmonotone line search.

        d = P(x − η∇f(x)) − x,   η = ⟨s, s⟩/⟨s, y⟩,   x <- x + λd

    λ = 1 is halved until f(x + λd) <= max of the last `memory` values + share · λ⟨∇f, d⟩; the
    image of x + λd is a combination of two, so trials cost no product.

    Arguments:
        memory: values that the line search remembers.
        share: of the promised decrease.

    Example:
        >>> from fwnet.learned import baselines
        >>> problem = fwnet.learned.families.QuadraticFamily(n=8).sample(1, torch.Generator())
        >>> run = baselines.SpectralProjectedGradient().run(problem, Simplex(), 30)
        >>> bool(run.values[-1] < run.values[0])
        True

    Reference: Birgin, Martínez and Raydan (2000).
    """

    def __init__(self, memory: int = 10, share: float = 1e-4) -> None:
        self.memory = checks.at_least("SpectralProjectedGradient(memory=...)", memory, 1)
        self.share = checks.positive("SpectralProjectedGradient(share=...)", share)
        self.name = "Barzilai-Borwein"

    def follow(self, problem: Problem, domain: Domain, max_steps: int, report: Report) -> None:
        b = problem.batch_dims
        here = start_of(problem, domain)
        gradient, value = dense_gradient(problem.gradient(here)), problem.value(here)
        length = 1 / _first_curvature(problem, domain, here, gradient)
        recent = [value]
        while not report(value, here.x):
            step = here.x - expand(length, here.x.ndim - b) * gradient
            there = problem.at(_project(domain, step))
            slope = inner(gradient, there.x - here.x, b)
            limit = torch.stack(recent).amax(0)
            share, trial = torch.ones_like(value), there
            for _ in range(40):
                value = problem.value(trial)
                high = value > limit + self.share * share * slope
                if not bool(high.any()):
                    break
                share = torch.where(high, share / 2, share)
                trial = _mixed(here, there, -share, b)
            before, old = here, gradient
            here, gradient = trial, dense_gradient(problem.gradient(trial))
            moved = here.x - before.x
            curvature = inner(moved, gradient - old, b)
            tiny = torch.finfo(curvature.dtype).tiny
            length = torch.where(curvature > tiny, inner(moved, moved, b) / curvature, length)
            recent = [*recent[1 - self.memory :], value] if self.memory > 1 else [value]


@final
class ProjectedMomentum(Projected):
    """Projected gradient descent with momentum, as torch.optim.SGD counts it.

        m <- momentum · m − rate · ∇f(x),   x <- P(x + m)

    With `rows` the gradient is that of a random minibatch; f is still reported in full, uncounted.

    Arguments:
        rate: step size, in the unit of x over ∇f.
        momentum: in [0, 1).
        rows: terms of the objective per step; all of them if left out.
        every: steps between two reports.

    Example:
        >>> from fwnet.learned import baselines
        >>> problem = fwnet.learned.families.QuadraticFamily(n=8).sample(1, torch.Generator())
        >>> run = baselines.ProjectedMomentum(rate=0.1).run(problem, Simplex(), 30)
        >>> bool(run.values[-1] < run.values[0])
        True

    Reference: Polyak (1964).
    """

    def __init__(
        self, rate: float, momentum: float = 0.9, rows: int | None = None, every: int = 1
    ) -> None:
        self.rate = checks.positive("ProjectedMomentum(rate=...)", rate)
        if not 0 <= momentum < 1:
            raise ValueError(f"ProjectedMomentum(momentum=...) must be in [0, 1); got {momentum}.")
        if rows is not None:
            rows = checks.at_least("ProjectedMomentum(rows=...)", rows, 1)
        self.momentum, self.rows = momentum, rows
        self.every = checks.at_least("ProjectedMomentum(every=...)", every, 1)
        self.name = f"projected SGD [{rate:g}, {momentum:g}]"

    def fits(self, problem: Problem, domain: Domain) -> bool:
        sampled = self.rows is None or problem.terms() is not None
        return sampled and super().fits(problem, domain)

    def follow(self, problem: Problem, domain: Domain, max_steps: int, report: Report) -> None:
        x, terms = start_of(problem, domain).x, problem.terms()
        speed, generator = torch.zeros_like(x), torch.Generator().manual_seed(0)
        part = problem
        while not report(problem.value(problem.at(x)), x):
            for _ in range(self.every):
                if self.rows is not None:
                    assert terms is not None
                    drawn = torch.randint(terms, (self.rows,), generator=generator)
                    part = problem.minibatch(drawn.to(x.device))
                gradient = dense_gradient(part.gradient(part.at(x)))
                speed = self.momentum * speed - self.rate * gradient
                x = _project(domain, x + speed)


def _project(domain: Domain, x: Tensor) -> Tensor:
    nearest = domain.project(x)
    assert nearest is not None  # `fits` has asked
    return nearest


def _mixed(here: Iterate, other: Iterate, share: Tensor, batch_dims: int) -> Iterate:
    """here + share · (here − other), with its image."""
    x = here.x + expand(share, here.x.ndim - batch_dims) * (here.x - other.x)
    if here.image is None or other.image is None:
        return Iterate(x)
    z = here.image
    return Iterate(x, z + expand(share, z.ndim - batch_dims) * (z - other.image))


def _curvature(problem: Problem, here: Iterate, there: Iterate, gradient: Tensor) -> Tensor:
    """2 (f(there) − f(here) − ⟨∇f(here), d⟩) / |d|²: what L must be at least."""
    b = problem.batch_dims
    d = there.x - here.x
    square = inner(d, d, b)
    rise = problem.value(there) - problem.value(here) - inner(gradient, d, b)
    # Rounding of f must not count as curvature once the steps are short.
    noise = 16 * torch.finfo(rise.dtype).eps * problem.value(here).abs()
    return 2 * (rise - noise).clamp_min(0) / square.clamp_min(torch.finfo(rise.dtype).tiny)


def _first_curvature(problem: Problem, domain: Domain, here: Iterate, gradient: Tensor) -> Tensor:
    """The curvature toward the vertex, a first guess of the smoothness."""
    vertex = domain.vertex(gradient)
    there = Iterate(vertex.dense(), problem.vertex_image(vertex))
    found = _curvature(problem, here, there, gradient)
    return found.clamp_min(torch.finfo(found.dtype).tiny * 1e8)
