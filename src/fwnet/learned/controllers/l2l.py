"""L2L of Andrychowicz et al. on the simplex: the paper's unconstrained, learned competitors.

An unconstrained optimizer knows nothing of the simplex. Either x is a softmax of free variables, or
the constraint enters as a Lagrangian; both give a point of the simplex after every step, so both
are directions, taken at full length.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

import torch
from torch import Tensor, nn

from fwnet.directions import Direction
from fwnet.directions.base import image_if_kept
from fwnet.domains import Domain, Simplex
from fwnet.iterates import Iterate, Move, Term
from fwnet.learned.controllers.base import Controller
from fwnet.learned.controllers.entrywise import EntrywiseLSTM
from fwnet.numerics import checks
from fwnet.oracles import Linearization
from fwnet.problems import Problem
from fwnet.problems.base import dense_gradient
from fwnet.solvers import FrankWolfe
from fwnet.steps import Constant
from fwnet.vertices import Dense

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from fwnet.solvers.presets import Budgets

_OUTPUT = 0.1  # scale of the network's answers: its first steps are small


class LogitDirection(Controller, Direction):
    """L2L on the reparameterised objective; a subclass says which network.

    x = radius · softmax(u),   u <- u + 0.1 network(n ∂f/∂u)
    """

    network: nn.Module  # entries (*batch, n), memory -> entries, memory

    def build_solver(self, domain: Domain, **budgets: Unpack[Budgets]) -> FrankWolfe:
        return FrankWolfe(domain, Constant(1.0), direction=self, **budgets)

    def init(self, problem: Problem, domain: Domain, it: Iterate) -> Any:
        self.check_domain(domain)
        assert isinstance(domain, Simplex)
        tiny = 1e-6 * domain.radius / it.x.shape[-1]  # a logit of −∞ would never come back
        return domain.radius, it.x.clamp_min(tiny).log(), None

    def forward(
        self, problem: Problem, it: Iterate, lin: Linearization, state: Any
    ) -> tuple[Move, Any]:
        radius, logits, memory = state
        level = lin.along.unsqueeze(-1) / radius
        inward = it.x * (dense_gradient(lin.gradient) - level) * it.x.shape[-1] / radius
        out, memory = self.network(inward.detach(), memory)
        logits = logits + _OUTPUT * out
        point = radius * torch.softmax(logits, -1)
        return _to(problem, it, lin, point), (radius, logits, memory)


@final
class L2LSoftmax(LogitDirection):
    """L2L on the reparameterised objective.

        x = radius · softmax(u),   u <- u + 0.1 LSTM(n ∂f/∂u),   ∂f/∂u = x ∘ (∇f − ⟨∇f, x⟩/radius)

    Arguments:
        hidden: units of a layer.
        layers: how many.

    Reference: Andrychowicz et al., Learning to learn by gradient descent by gradient descent
    (2016).
    """

    def __init__(self, hidden: int = 20, layers: int = 2) -> None:
        super().__init__(hidden=hidden, layers=layers)
        self.network = EntrywiseLSTM(hidden, layers, preprocess=True)


@final
class L2LLagrangian(Controller, Direction):
    """L2L on the Lagrangian of Σ x = radius, kept at θ >= 0 by clipping.

        L(θ) = f(θ) − λ Σ θ,   θ <- max(0, θ + 0.1 radius/n · LSTM(∇f(θ) − λ)),   x = radius · θ/Σθ

    Without a λ, it is the multiplier that the optimality conditions ask for, ⟨∇f, x⟩/radius, and
    the next θ is x.

    Arguments:
        hidden: units of a layer.
        layers: how many.
        multiplier: the paper's constant λ.

    Reference: Schramowski, Bauckhage and Kersting, Neural Conditional Gradients (2018).
    """

    def __init__(self, hidden: int = 20, layers: int = 2, multiplier: float | None = None) -> None:
        super().__init__(hidden=hidden, layers=layers, multiplier=multiplier)
        if multiplier is not None:
            checks.positive("L2LLagrangian(multiplier=...)", multiplier)
        self.multiplier = multiplier
        self.network = EntrywiseLSTM(hidden, layers, preprocess=True)

    def build_solver(self, domain: Domain, **budgets: Unpack[Budgets]) -> FrankWolfe:
        return FrankWolfe(domain, Constant(1.0), direction=self, **budgets)

    def init(self, problem: Problem, domain: Domain, it: Iterate) -> Any:
        self.check_domain(domain)
        assert isinstance(domain, Simplex)
        return domain.radius, it.x, None

    def forward(
        self, problem: Problem, it: Iterate, lin: Linearization, state: Any
    ) -> tuple[Move, Any]:
        radius, theta, memory = state
        if self.multiplier is None:
            theta = it.x
            slope = dense_gradient(lin.gradient) - lin.along.unsqueeze(-1) / radius
        else:
            slope = dense_gradient(problem.gradient(problem.at(theta.detach()))) - self.multiplier
        out, memory = self.network(slope.detach(), memory)
        theta = (theta + (_OUTPUT * radius / it.x.shape[-1]) * out).clamp_min(0)
        total = theta.sum(-1, keepdim=True)
        kept = torch.where(total > 0, total, 1.0)
        point = torch.where(total > 0, radius * theta / kept, it.x)
        return _to(problem, it, lin, point), (radius, theta, memory)


def _to(problem: Problem, it: Iterate, lin: Linearization, point: Tensor) -> Move:
    """The move to a point of the simplex."""
    target = Dense(point)
    term = Term(1.0, target, image_if_kept(problem, it, target))
    slope = target.inner(dense_gradient(lin.gradient)) - lin.along
    return Move(it, -1.0, (term,), lin.value, slope)
