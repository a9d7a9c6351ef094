"""TrainingRuns: trainings of networks, for learned updates of their weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, final

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from fwnet.learned.networks import LearnedUpdates, Parameters, Updates, first_parameters
from fwnet.learned.training.config import MetaConfig
from fwnet.learned.training.recurrences import Recurrence, RecurrenceTask
from fwnet.learned.training.tasks import with_seed
from fwnet.numerics import checks

Loss = Callable[[Tensor, Tensor], Tensor]


class NetworkStep(NamedTuple):
    """The loss of a minibatch: as a number, and with its gradient in the weights of the updates.

    objective = loss(θ_t),   its gradient that of Σ⟨∇θ, θ_t⟩ with ∇θ held fixed
    """

    loss: float
    objective: Tensor


class NetworkState(NamedTuple):
    """Weights, the updates' memory, and the generator that draws minibatches."""

    parameters: Parameters
    memory: Any
    generator: torch.Generator


@final
@dataclass(frozen=True, eq=False)
class NetworkTraining(Recurrence[NetworkStep]):
    """Training on minibatches from the network's present weights, which stay as they are.

        θ_{t+1} = updates(θ_t, ∇θ loss of a minibatch)

    Arguments:
        net: the network.
        X: rows to draw from, `(n, …)`.
        y: what the network should answer, `(n, …)`.
        updates: moves all weights.
        batch: rows a minibatch.
        seed: of the order of the rows.
        loss: of the network's answers and y.
    """

    net: nn.Module
    X: Tensor
    y: Tensor
    updates: Updates
    batch: int
    seed: int
    loss: Loss = cross_entropy

    def start(self) -> NetworkState:
        parameters = first_parameters(self.net)
        generator = torch.Generator().manual_seed(self.seed)
        return NetworkState(parameters, self.updates.init(parameters), generator)

    def advance(self, state: NetworkState) -> tuple[NetworkState, NetworkStep]:
        parameters, memory, generator = state
        rows = torch.randint(self.X.shape[0], (self.batch,), generator=generator)
        leaves = {name: theta.detach().requires_grad_() for name, theta in parameters.items()}
        with torch.enable_grad():
            loss = self.loss(functional_call(self.net, leaves, (self.X[rows],)), self.y[rows])
        found = torch.autograd.grad(loss, list(leaves.values()))
        gradients = dict(zip(leaves, found, strict=True))
        slopes = [(gradients[k] * p).sum() for k, p in parameters.items() if p.requires_grad]
        slope = sum(slopes, torch.zeros(()))
        step = NetworkStep(loss.item(), loss.detach() + (slope - slope.detach()))
        parameters, memory = self.updates(parameters, gradients, memory)
        return NetworkState(parameters, memory, generator), step


@final
class TrainingRuns(RecurrenceTask):
    """Trainings of a network from new initial weights: what learned updates are trained on.

        min over φ of E over networks and minibatches of Σ_t loss(θ_t),   θ_{t+1} = updates_φ(θ_t)

    An episode is one training; validation takes the mean loss of the second half of others. Give
    data that no episode sees as `meta_train(validation=TrainingRuns(make_network, other_data))`.

    Arguments:
        make_network: builds the network, its initial weights from torch's global generator, which
            is seeded for each training and left as it was.
        data: `(X, y)`, tensors with as many rows.
        batch: rows a minibatch.
        loss: of the network's answers and y; the cross entropy of logits and classes if left out.

    Example:
        >>> from fwnet import learned
        >>> X = torch.randn(64, 3, generator=torch.Generator().manual_seed(0))
        >>> runs = learned.families.TrainingRuns(lambda: nn.Linear(3, 2), (X, (X[:, 0] > 0).long()))
        >>> config = learned.MetaConfig(steps=3, horizon=10, unroll=5, learning_rate=0.01)
        >>> updates, history = learned.meta_train(learned.LSTMUpdates(), runs, config)
        >>> history.failed
        False

    Reference: Andrychowicz et al., Learning to learn by gradient descent by gradient descent
    (2016).
    """

    trains: ClassVar[tuple[type[nn.Module], ...]] = (LearnedUpdates,)

    def __init__(
        self,
        make_network: Callable[[], nn.Module],
        data: tuple[Tensor, Tensor],
        batch: int = 64,
        loss: Loss = cross_entropy,
    ) -> None:
        if isinstance(make_network, nn.Module):
            raise TypeError(
                "TrainingRuns(make_network) must be a function that builds a network, since every "
                f"training begins with a new one; got a {type(make_network).__name__}. Pass "
                "lambda: copy.deepcopy(network) to begin with the same weights."
            )
        checks.a_function("TrainingRuns(make_network)", make_network)
        checks.a_function("TrainingRuns(loss=...)", loss)
        self.make_network, self.loss = make_network, loss
        if not isinstance(data, tuple | list) or len(data) != 2:
            raise TypeError(f"TrainingRuns(data) must be a pair (X, y); got {type(data).__name__}.")
        self.X, self.y = (
            checks.finite(name, checks.a_tensor(name, part))
            for name, part in zip(("TrainingRuns(X)", "TrainingRuns(y)"), data, strict=True)
        )
        if len(self.X) != len(self.y) or not len(self.X):
            raise ValueError(
                f"TrainingRuns(data) must be (X, y) with as many rows, at least one; got "
                f"{len(self.X)} and {len(self.y)}."
            )
        self.batch = checks.at_least("TrainingRuns(batch=...)", batch, 1)

    def draw(self, learned: LearnedUpdates, generator: torch.Generator) -> NetworkTraining:
        first, order = torch.randint(2**31, (2,), generator=generator).tolist()
        net = with_seed(self.make_network, first)
        return NetworkTraining(net, self.X, self.y, learned, self.batch, order, self.loss)

    def describe(self, config: MetaConfig, generator: torch.Generator) -> str:
        net = with_seed(self.make_network, 0)
        sizes = [tuple(theta.shape) for theta in net.parameters()]
        total = float(self.X.double().sum())
        return (
            f"TrainingRuns: {tuple(self.X.shape)}, Σ X = {total:.6g}, batch {self.batch}, {sizes}"
        )
