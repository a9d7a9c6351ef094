"""Baselines of the simplex without projections: mirror descent, Adam on logits or a Lagrangian."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor

from fwnet.domains import Domain, Simplex
from fwnet.learned.baselines.base import Baseline, Report, start_of
from fwnet.numerics import checks
from fwnet.problems import Problem
from fwnet.problems.base import dense_gradient


class OnSimplex(Baseline):
    """A method for the simplex only."""

    def fits(self, problem: Problem, domain: Domain) -> bool:
        return isinstance(domain, Simplex)


@final
class MirrorDescent(OnSimplex):
    """Exponentiated gradients, the step as long as the entropy's upper bound allows.

        x⁺ = radius · softmax(log x − η ∇f(x)),   f(x⁺) <= f(x) + ⟨∇f(x), x⁺ − x⟩ + KL(x⁺, x)/η

    η grows at each step, and is halved until the bound holds. (A constant η is far slower.)

    Arguments:
        growth: of η, to be tuned.

    Example:
        >>> from fwnet.learned import baselines
        >>> problem = fwnet.learned.families.QuadraticFamily(n=8).sample(1, torch.Generator())
        >>> run = baselines.MirrorDescent().run(problem, Simplex(), 30)
        >>> bool(run.values[-1] < run.values[0])
        True

    Reference: Beck and Teboulle (2003); Bauschke, Bolte and Teboulle (2017) for the bound.
    """

    def __init__(self, growth: float = 1.5) -> None:
        self.growth = checks.positive("MirrorDescent(growth=...)", growth)
        self.name = "mirror descent"

    def follow(self, problem: Problem, domain: Domain, max_steps: int, report: Report) -> None:
        it = start_of(problem, domain)
        x, radius = it.x, it.x.sum(-1, keepdim=True).double()
        # In double precision: near the minimum both sides of the bound are small differences, and
        # where they are rounding η is halved until nothing moves.
        logits = x.double().log().log_softmax(-1)
        gradient, value = dense_gradient(problem.gradient(it)).double(), problem.value(it)
        length = 1 / _spread(gradient)
        while not report(value, it.x):
            for _ in range(60):
                trial = (logits - length * gradient).log_softmax(-1)
                step = radius * (trial.exp() - logits.exp())
                there = problem.at((radius * trial.exp()).to(x))
                ahead = dense_gradient(problem.gradient(there)).double()
                # f(x⁺) − f(x) − ⟨∇f(x), x⁺ − x⟩, exact on quadratics.
                above = 0.5 * ((ahead - gradient) * step).sum(-1, keepdim=True)
                # KL without a shift: both arguments sum to 1.
                entropy = radius * (trial.exp() * (trial - logits)).sum(-1, keepdim=True)
                poor = length * above > entropy
                if not bool(poor.any()):
                    break
                length = torch.where(poor, length / 2, length)
            it, logits, gradient, length = there, trial, ahead, self.growth * length
            value = problem.value(it)


@final
class AdamSoftmax(OnSimplex):
    """Adam on logits: the paper's reparameterised objective.

        x = radius · softmax(u),   u <- Adam(u, ∇_u f),   ∇_u f = x ∘ (∇f(x) − ⟨∇f(x), x⟩/radius)

    Arguments:
        rate: learning rate, to be tuned.

    Example:
        >>> from fwnet.learned import baselines
        >>> problem = fwnet.learned.families.QuadraticFamily(n=8).sample(1, torch.Generator())
        >>> run = baselines.AdamSoftmax(rate=0.3).run(problem, Simplex(), 30)
        >>> bool(run.values[-1] < run.values[0])
        True

    Reference: Kingma and Ba (2015).
    """

    def __init__(self, rate: float = 0.1) -> None:
        self.rate = checks.positive("AdamSoftmax(rate=...)", rate)
        self.name = "Adam softmax"

    def follow(self, problem: Problem, domain: Domain, max_steps: int, report: Report) -> None:
        it, adam = start_of(problem, domain), _Adam(self.rate)
        radius, logits = it.x.sum(-1, keepdim=True), torch.zeros_like(it.x)
        while not report(problem.value(it), it.x):
            gradient = dense_gradient(problem.gradient(it))
            along = (gradient * it.x).sum(-1, keepdim=True) / radius
            logits = logits - adam.step(it.x * (gradient - along))
            it = problem.at(radius * logits.softmax(-1))


@final
class AdamLagrangian(OnSimplex):
    """Adam on the Lagrangian of Σ x = radius, kept at θ >= 0 by clipping.

        L(θ) = f(θ) − λ Σ θ,   θ <- max(0, Adam(θ, ∇f(θ) − λ)),   x = radius · θ / Σθ

    What is judged is the feasible point x. Without a λ, it is the multiplier that the optimality
    conditions ask for, ⟨∇f, x⟩/radius, and the next θ is x. Step sizes are relative to radius / n.

    Arguments:
        rate: learning rate, to be tuned.
        multiplier: the paper's constant λ.

    Example:
        >>> from fwnet.learned import baselines
        >>> problem = fwnet.learned.families.QuadraticFamily(n=8).sample(1, torch.Generator())
        >>> run = baselines.AdamLagrangian(rate=0.3).run(problem, Simplex(), 30)
        >>> bool(run.values[-1] < run.values[0])
        True
    """

    def __init__(self, rate: float = 0.1, multiplier: float | None = None) -> None:
        self.rate = checks.positive("AdamLagrangian(rate=...)", rate)
        if multiplier is not None:
            checks.positive("AdamLagrangian(multiplier=...)", multiplier)
        self.multiplier, self.name = multiplier, "Adam Lagrangian"

    def follow(self, problem: Problem, domain: Domain, max_steps: int, report: Report) -> None:
        it = start_of(problem, domain)
        theta, radius = it.x, it.x.sum(-1, keepdim=True)
        adam = _Adam(self.rate / theta.shape[-1])
        while not report(problem.value(it), it.x):
            if self.multiplier is None:
                theta = it.x
                gradient = dense_gradient(problem.gradient(it))
                level: Tensor | float = (gradient * it.x).sum(-1, keepdim=True) / radius
            else:
                gradient = dense_gradient(problem.gradient(problem.at(theta)))
                level = self.multiplier
            theta = (theta - radius * adam.step(gradient - level)).clamp_min(0)
            total = theta.sum(-1, keepdim=True)
            it = problem.at(torch.where(total > 0, radius * theta / total.clamp_min(1e-30), it.x))


class _Adam:
    """Adam's step: rate · m̂ / √v̂."""

    def __init__(self, rate: float) -> None:
        self.rate, self.t = rate, 0
        self.mean: Tensor | float = 0.0
        self.square: Tensor | float = 0.0

    def step(self, gradient: Tensor) -> Tensor:
        self.t += 1
        self.mean = 0.9 * self.mean + 0.1 * gradient
        self.square = 0.999 * self.square + 0.001 * gradient.square()
        scale = (self.square / (1 - 0.999**self.t)).sqrt()
        # Relative to the largest entry: these gradients are far below Adam's usual 1e-8.
        floor = 1e-8 * scale.amax(-1, keepdim=True) + torch.finfo(scale.dtype).tiny
        return self.rate * (self.mean / (1 - 0.9**self.t)) / (scale + floor)


def _spread(gradient: Tensor) -> Tensor:
    spread = gradient.amax(-1, keepdim=True) - gradient.amin(-1, keepdim=True)
    return spread.clamp_min(torch.finfo(gradient.dtype).tiny)
