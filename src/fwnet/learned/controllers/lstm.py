"""The paper's learned optimizers, literally: LSTMs of two layers of 20 units."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, final

import torch
from torch import Tensor, nn

from fwnet.domains import Domain, TraceNormBall
from fwnet.iterates import Iterate, Move
from fwnet.learned.controllers.base import Controller
from fwnet.learned.controllers.entrywise import EntrywiseLSTM, Memory
from fwnet.learned.controllers.targets import TargetDirection
from fwnet.numerics import checks
from fwnet.numerics.singular import power_iteration
from fwnet.oracles import Linearization, Oracle, PowerIteration, Softmin
from fwnet.problems import Problem
from fwnet.problems.base import dense_gradient
from fwnet.solvers import FrankWolfe
from fwnet.steps import StepRule
from fwnet.vertices import Rank1

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from fwnet.solvers.presets import Budgets


@final
class LSTMStep(Controller, StepRule):
    """L2LC_γ: the step size from the one before.

        γ_t, h_{t+1} = LSTM(γ_{t−1}, h_t),   γ = sigmoid of its output

    It sees nothing of f, so it learns an open-loop schedule for the horizon that it was trained on,
    and is poor beyond it. Prefer `LearnedStep`.

    Arguments:
        hidden: units of a layer.
        layers: how many.
        beta: β of the softmin that its solver uses instead of exact vertices, on the simplex; the
            paper's is 10.

    Example:
        >>> from fwnet import learned
        >>> problem = Quadratic(torch.diag(torch.arange(1.0, 6.0)))
        >>> x = FrankWolfe(Simplex(), learned.LSTMStep(), max_steps=5)(problem).x
        >>> bool(Simplex().contains(x))
        True

    Reference: Schramowski, Bauckhage and Kersting, Neural Conditional Gradients (2018), eq. 7.
    """

    domains: ClassVar[tuple[type[Domain], ...]] = (Domain,)

    def __init__(self, hidden: int = 20, layers: int = 2, beta: float | None = None) -> None:
        super().__init__(hidden=hidden, layers=layers, beta=beta)
        self.beta = None if beta is None else checks.positive("LSTMStep(beta=...)", beta)
        self.network = EntrywiseLSTM(hidden, layers)

    def build_solver(self, domain: Domain, **budgets: Unpack[Budgets]) -> FrankWolfe:
        oracle = None if self.beta is None else Softmin(self.beta)
        return FrankWolfe(domain, self, oracle=oracle, **budgets)

    def init(self, problem: Problem, it: Iterate) -> tuple[Tensor, None]:
        self.check_weights()
        return it.x.new_zeros(it.x.shape[: problem.batch_dims]), None

    def forward(
        self, problem: Problem, it: Iterate, move: Move, state: Any
    ) -> tuple[Tensor | float, Any]:
        last, memory = state
        out, memory = self.network(last, memory)
        step_size = torch.sigmoid(out)
        return step_size, (step_size, memory)


class SoftminDirection(TargetDirection):
    """d = softmin(β network(∇f(x))) − x on the simplex; a subclass has the network.

    Feasible whatever the network returns; d need not be a descent direction.
    """

    beta: float = 1.0

    network: nn.Module  # entries (*batch, n), memory -> entries, memory

    def remembered(self, radius: float, x: Tensor) -> tuple[float, Any]:
        return radius, None

    def target(
        self, problem: Problem, x: Tensor, gradient: Tensor, along: Tensor, state: Any
    ) -> tuple[Tensor, Any]:
        radius, memory = state
        out, memory = self.network(gradient, memory)
        return radius * torch.softmax(-self.beta * out, -1), (radius, memory)


@final
class LSTMDirection(SoftminDirection):
    """L2LC_∇ on the simplex: an LSTM reshapes the gradient, entry by entry.

        g_t, h_{t+1} = LSTM(∇f(x_t), h_t),   d = σ_β(g_t) − x,   σ_β(g) ∝ exp(−β g)

    for γ = 2/(t + 2) or a constant. d need not be a descent direction; `LearnedDirection` is safe.

    Arguments:
        hidden: units of a layer.
        layers: how many.
        preprocess: feed log|g| and sign instead of g.
        beta: β, the sharpness of the softmin; the paper's are 10 and 1.

    Example:
        >>> from fwnet import learned
        >>> problem = Quadratic(torch.diag(torch.arange(1.0, 6.0)))
        >>> solver = FrankWolfe(Simplex(), direction=learned.LSTMDirection(beta=10.0), max_steps=5)
        >>> x = solver(problem).x
        >>> bool(Simplex().contains(x))
        True

    Reference: Schramowski, Bauckhage and Kersting, Neural Conditional Gradients (2018), eq. 8.
    """

    def __init__(
        self, hidden: int = 20, layers: int = 2, preprocess: bool = False, beta: float = 1.0
    ) -> None:
        super().__init__(hidden=hidden, layers=layers, preprocess=preprocess, beta=beta)
        self.beta = checks.positive("LSTMDirection(beta=...)", beta)
        self.network = EntrywiseLSTM(hidden, layers, preprocess)


@final
class LSTMPowerIteration(Controller, Oracle):
    """L2LC_∇ on the trace-norm ball: an LSTM reshapes the gradient before the power iteration.

        G_t, h_{t+1} = LSTM(∇f(W_t), h_t),   vertex = −radius · u vᵀ of K power iterations on G_t

    Arguments:
        hidden: units of a layer.
        layers: how many.
        steps: K.
        preprocess: feed log|g| and sign instead of g.

    Example:
        >>> from fwnet import learned
        >>> problem = SoftmaxRegression(torch.eye(4), torch.tensor([0, 1, 2, 2]))
        >>> oracle = learned.LSTMPowerIteration()
        >>> result = FrankWolfe(TraceNormBall(2.0), oracle=oracle, max_steps=5)(problem)
        >>> bool(torch.linalg.svdvals(result.x).sum() <= 2.001)
        True

    Reference: Schramowski, Bauckhage and Kersting, Neural Conditional Gradients (2018).
    """

    domains: ClassVar[tuple[type[Domain], ...]] = (TraceNormBall,)

    def __init__(
        self, hidden: int = 20, layers: int = 2, steps: int = 5, preprocess: bool = False
    ) -> None:
        super().__init__(hidden=hidden, layers=layers, steps=steps, preprocess=preprocess)
        self.network = EntrywiseLSTM(hidden, layers, preprocess)
        self.power = PowerIteration(steps)

    def init(self, problem: Problem, domain: Domain, it: Iterate) -> tuple[Tensor, Memory | None]:
        self.check_domain(domain)
        return self.power.init(problem, domain, it), None

    def forward(
        self, problem: Problem, domain: Domain, it: Iterate, state: Any
    ) -> tuple[Linearization, Any]:
        assert isinstance(domain, TraceNormBall)
        right, memory = state
        value, gradient, along = problem.first_order(it)
        reshaped, memory = self.network(dense_gradient(gradient).detach(), memory)
        u, _, v = power_iteration(reshaped, right, self.power.steps)
        vertex = Rank1(-domain.radius * u, v)
        decrease = along - vertex.inner(gradient)
        return Linearization(value, gradient, along, vertex, decrease, exact=False), (v, memory)
