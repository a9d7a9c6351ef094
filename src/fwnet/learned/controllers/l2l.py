"""L2L of Andrychowicz et al. on the simplex: the paper's unconstrained, learned competitors.

An unconstrained optimizer knows nothing of the simplex. Either x is a softmax of free variables, or
the constraint enters as a Lagrangian; both give a point of the simplex after every step, so both
are directions, taken at full length.
"""

from __future__ import annotations

from typing import Any, final

import torch
from torch import Tensor, nn

from fwnet.domains import Domain
from fwnet.learned.controllers.entrywise import EntrywiseLSTM
from fwnet.learned.controllers.targets import TargetDirection
from fwnet.numerics import checks
from fwnet.problems import Problem
from fwnet.problems.base import dense_gradient
from fwnet.solvers import FrankWolfe
from fwnet.steps import Constant

_OUTPUT = 0.1  # scale of the network's answers: its first steps are small


class LogitDirection(TargetDirection):
    """L2L on the reparameterised objective; a subclass says which network.

    x = radius · softmax(u),   u <- u + 0.1 network(n ∂f/∂u)
    """

    network: nn.Module  # entries (*batch, n), memory -> entries, memory

    def build_solver(self, domain: Domain, **budgets: Any) -> FrankWolfe:
        return FrankWolfe(domain, Constant(1.0), direction=self, **budgets)

    def remembered(self, radius: float, x: Tensor) -> Any:
        tiny = 1e-6 * radius / x.shape[-1]  # a logit of −∞ would never come back
        return radius, x.clamp_min(tiny).log(), None

    def target(
        self, problem: Problem, x: Tensor, gradient: Tensor, along: Tensor, state: Any
    ) -> tuple[Tensor, Any]:
        radius, logits, memory = state
        inward = x.detach() * (gradient - along.unsqueeze(-1) / radius) * (x.shape[-1] / radius)
        out, memory = self.network(inward, memory)
        logits = logits + _OUTPUT * out
        return radius * torch.softmax(logits, -1), (radius, logits, memory)


@final
class L2LSoftmax(LogitDirection):
    """L2L on the reparameterised objective.

        x = radius · softmax(u),   u <- u + 0.1 LSTM(n ∂f/∂u),   ∂f/∂u = x ∘ (∇f − ⟨∇f, x⟩/radius)

    Arguments:
        hidden: units of a layer.
        layers: how many.

    Example:
        >>> from fwnet import learned
        >>> problem = Quadratic(torch.diag(torch.arange(1.0, 6.0)))
        >>> x = learned.L2LSoftmax().solver(Simplex(), max_steps=5)(problem).x
        >>> bool(Simplex().contains(x))
        True

    Reference: Andrychowicz et al., Learning to learn by gradient descent by gradient descent
    (2016).
    """

    def __init__(self, hidden: int = 20, layers: int = 2) -> None:
        super().__init__(hidden=hidden, layers=layers)
        self.network = EntrywiseLSTM(hidden, layers, preprocess=True)


@final
class L2LLagrangian(TargetDirection):
    """L2L on the Lagrangian of Σ x = radius, kept at θ >= 0 by clipping.

        L(θ) = f(θ) − λ Σ θ,   θ <- max(0, θ + 0.1 radius/n · LSTM(∇f(θ) − λ)),   x = radius · θ/Σθ

    Without a λ, it is the multiplier that the optimality conditions ask for, ⟨∇f, x⟩/radius, and
    the next θ is x.

    Arguments:
        hidden: units of a layer.
        layers: how many.
        multiplier: the paper's constant λ.

    Example:
        >>> from fwnet import learned
        >>> problem = Quadratic(torch.diag(torch.arange(1.0, 6.0)))
        >>> x = learned.L2LLagrangian().solver(Simplex(), max_steps=5)(problem).x
        >>> bool(Simplex().contains(x))
        True

    Reference: Schramowski, Bauckhage and Kersting, Neural Conditional Gradients (2018).
    """

    def __init__(self, hidden: int = 20, layers: int = 2, multiplier: float | None = None) -> None:
        super().__init__(hidden=hidden, layers=layers, multiplier=multiplier)
        if multiplier is not None:
            checks.positive("L2LLagrangian(multiplier=...)", multiplier)
        self.multiplier = multiplier
        self.network = EntrywiseLSTM(hidden, layers, preprocess=True)

    def build_solver(self, domain: Domain, **budgets: Any) -> FrankWolfe:
        return FrankWolfe(domain, Constant(1.0), direction=self, **budgets)

    def remembered(self, radius: float, x: Tensor) -> Any:
        return radius, x, None

    def target(
        self, problem: Problem, x: Tensor, gradient: Tensor, along: Tensor, state: Any
    ) -> tuple[Tensor, Any]:
        radius, theta, memory = state
        if self.multiplier is None:
            theta, slope = x, gradient - along.unsqueeze(-1) / radius
        else:
            slope = dense_gradient(problem.gradient(problem.at(theta.detach()))) - self.multiplier
        out, memory = self.network(slope.detach(), memory)
        theta = (theta + (_OUTPUT * radius / x.shape[-1]) * out).clamp_min(0)
        total = theta.sum(-1, keepdim=True)
        kept = torch.where(total > 0, total, 1.0)
        point = torch.where(total > 0, radius * theta / kept, x)
        return point, (radius, theta, memory)
