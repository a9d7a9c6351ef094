"""How the gradient of a meta-loss is found: truncated back-propagation or evolution strategies."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, final

import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from fwnet.numerics import checks


class Rollout(ABC):
    """A run of what is trained on problems that were drawn, some steps at a time.

    Example:
        >>> from fwnet import learned
        >>> class Descent(learned.Rollout):  # x <- x − size · x, its loss |x|²
        ...     def __init__(self, size):
        ...         self.size, self.x = size, torch.ones(2)
        ...     def run(self, steps):
        ...         for _ in range(steps):
        ...             self.x = self.x - self.size * self.x
        ...         return (self.x**2).sum()
        ...     def detach(self):
        ...         self.x = self.x.detach()
        ...
        >>> float(Descent(torch.tensor(0.5)).run(1))
        0.5
    """

    @abstractmethod
    def run(self, steps: int) -> Tensor:
        """Take steps; their loss `()`, with its graph if gradients are enabled."""

    @abstractmethod
    def detach(self) -> None:
        """Cut the graph: gradients stop here."""


class Episode(NamedTuple):
    """Runs on the same problems of `horizon` steps, `unroll` between two updates of the weights."""

    learned: nn.Module
    rollout: Callable[[], Rollout]  # a run at its start
    horizon: int
    unroll: int
    generator: torch.Generator

    def stretches(self) -> list[int]:
        """The lengths of the stretches between updates."""
        whole, rest = divmod(self.horizon, self.unroll)
        return [self.unroll] * whole + ([rest] if rest else [])


class MetaGradient(ABC):
    """Estimates the meta-gradient along an episode."""

    @abstractmethod
    def along(self, episode: Episode) -> Iterator[tuple[float, Tensor]]:
        """Loss and gradient (flat) of each stretch; the caller updates the weights in between."""


@final
@dataclass(frozen=True)
class Backpropagation(MetaGradient):
    """Truncated back-propagation through time: exact within a stretch, none across.

    Example:
        >>> from fwnet import learned
        >>> learned.MetaConfig(gradient=learned.Backpropagation()).gradient
        Backpropagation()
    """

    def along(self, episode: Episode) -> Iterator[tuple[float, Tensor]]:
        weights = list(episode.learned.parameters())
        rollout = episode.rollout()
        for steps in episode.stretches():
            rollout.detach()
            with torch.enable_grad():
                loss = rollout.run(steps)
                if not loss.requires_grad:
                    if steps < min(episode.unroll, episode.horizon):
                        return  # the rest of an episode may be too short to depend on the weights
                    kind = type(episode.learned).__name__
                    raise ValueError(
                        f"Backpropagation() finds no path from {kind}'s weights to the loss of "
                        f"{steps} steps; use EvolutionStrategies(), or a longer unroll."
                    )
                parts = torch.autograd.grad(loss, weights, allow_unused=True)
            known = [
                torch.zeros_like(w) if g is None else g for w, g in zip(weights, parts, strict=True)
            ]
            yield loss.item(), torch.cat([part.reshape(-1) for part in known])


@dataclass(frozen=True)
class Perturbing(MetaGradient):
    """Compares losses at perturbed weights, `pairs` times on both sides of the present ones."""

    pairs: int = 4
    sigma: float = 0.03

    def __post_init__(self) -> None:
        kind = type(self).__name__
        checks.at_least(f"{kind}(pairs=...)", self.pairs, 1)
        checks.positive(f"{kind}(sigma=...)", self.sigma)


@final
@dataclass(frozen=True)
class EvolutionStrategies(Perturbing):
    """Antithetic evolution strategies over whole episodes: no back-propagation at all.

        g = mean over pairs of ε (L(θ + σε) − L(θ − σε)) / (2σ)

    Arguments:
        pairs: of perturbations.
        sigma: their size σ.

    Example:
        >>> from fwnet import learned
        >>> gradient = learned.EvolutionStrategies(pairs=2)
        >>> config = learned.MetaConfig(steps=1, unroll=5, batch=2, gradient=gradient)
        >>> family = learned.families.QuadraticFamily(n=8)
        >>> _, history = learned.meta_train(learned.LearnedStep(), family, config)
        >>> len(history)
        1

    Reference: Salimans et al. (2017).
    """

    def along(self, episode: Episode) -> Iterator[tuple[float, Tensor]]:
        whole = episode._replace(unroll=episode.horizon)
        return PersistentES(self.pairs, self.sigma).along(whole)


@final
@dataclass(frozen=True)
class PersistentES(Perturbing):
    """Persistent evolution strategies: an update after every stretch, unbiased across them.

        g = mean over particles of ξ L_k(θ + ε_k) / σ²,   ξ = ε_1 + … + ε_k

    ε_k is drawn anew for each stretch; ξ sums all perturbations that led to the present state.

    Arguments:
        pairs: of antithetic particles.
        sigma: size of the perturbations.

    Example:
        >>> from fwnet import learned
        >>> gradient = learned.PersistentES(pairs=2)
        >>> config = learned.MetaConfig(steps=1, unroll=5, batch=2, gradient=gradient)
        >>> family = learned.families.QuadraticFamily(n=8)
        >>> _, history = learned.meta_train(learned.LearnedStep(), family, config)
        >>> len(history)
        1

    Reference: Vicol, Metz and Sohl-Dickstein (2021).
    """

    @torch.no_grad()
    def along(self, episode: Episode) -> Iterator[tuple[float, Tensor]]:
        learned = episode.learned
        signs = [sign for _ in range(self.pairs) for sign in (1.0, -1.0)]
        particles: dict[int, Rollout] = {}
        reach = [torch.zeros(()) for _ in signs]  # ξ
        for steps in episode.stretches():
            theta = parameters_to_vector(learned.parameters())
            gradient, total = torch.zeros_like(theta), 0.0
            for k, sign in enumerate(signs):
                if sign > 0:
                    drawn = torch.randn(theta.shape, generator=episode.generator, dtype=theta.dtype)
                    noise = self.sigma * drawn
                vector_to_parameters(theta + sign * noise, learned.parameters())
                if k not in particles:  # only now, since the weights may choose where it starts
                    particles[k] = episode.rollout()
                reach[k] = reach[k] + sign * noise
                loss = particles[k].run(steps).item()
                gradient += reach[k] * (loss / (self.sigma**2 * len(signs)))
                total += loss / len(signs)
            vector_to_parameters(theta, learned.parameters())
            yield total, gradient
