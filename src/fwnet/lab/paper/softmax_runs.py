"""Softmax classifiers on a convolutional network, with dense matrices in a trace-norm ball.

W <- (1 − γ) W − γ μ u vᵀ,   u, v from K power iterations on ∇W, or on an LSTM's answer to it
everything else by Adam
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from fwnet.lab.paper.updates import Parameters, Updates
from fwnet.learned.controllers.lstm import EntrywiseLSTM
from fwnet.learned.training.rollouts import detached
from fwnet.numerics.singular import power_iteration


@final
@dataclass(frozen=True)
class TraceNormSteps:
    """Frank-Wolfe on the trace-norm ball, a matrix at a time, as in the paper's Fig. 5.

        W <- (1 − γ) W + γ S,   S = −radius · u vᵀ

    Arguments:
        radius: μ.
        step_size: γ, constant.
        iterations: K power iterations, each step from a fresh random v.
        lstm: answers the gradient in its place (L2LC_∇); None for the gradient itself.
        seed: of the random v.
    """

    radius: float
    step_size: float
    iterations: int = 5
    lstm: EntrywiseLSTM | None = None
    seed: int = 0

    def init(self, parameters: Parameters) -> Any:
        generator = torch.Generator().manual_seed(self.seed)
        return generator, dict.fromkeys(parameters)

    def __call__(
        self, parameters: Parameters, gradients: Parameters, state: Any
    ) -> tuple[Parameters, Any]:
        generator, memory = state
        moved, following = {}, {}
        for name, W in parameters.items():
            G = gradients[name]
            if self.lstm is not None:
                G, following[name] = self.lstm(G, memory[name])
            start = torch.randn(G.shape[-1], generator=generator)
            u, _, v = power_iteration(G, start / start.norm(), self.iterations)
            vertex = -self.radius * u.unsqueeze(-1) * v.unsqueeze(-2)
            moved[name] = torch.lerp(W, vertex, self.step_size)
        return moved, (generator, following)


@final
@dataclass(frozen=True)
class Split:
    """Some parameters by one rule, the rest by another."""

    names: tuple[str, ...]
    special: Updates
    rest: Updates

    def init(self, parameters: Parameters) -> Any:
        ours, others = self._parted(parameters)
        return self.special.init(ours), self.rest.init(others)

    def __call__(
        self, parameters: Parameters, gradients: Parameters, state: Any
    ) -> tuple[Parameters, Any]:
        (ours, others), (gs, hs) = self._parted(parameters), self._parted(gradients)
        ours, first = self.special(ours, gs, state[0])
        others, second = self.rest(others, hs, state[1])
        return {**others, **ours}, (first, second)

    def _parted(self, parameters: Parameters) -> tuple[Parameters, Parameters]:
        ours = {k: v for k, v in parameters.items() if k in self.names}
        return ours, {k: v for k, v in parameters.items() if k not in self.names}


@final
@dataclass(frozen=True, eq=False)
class Images:
    """Images `(n, channels, rows, columns)` with classes `(n,)`."""

    X: Tensor
    y: Tensor

    def head(self, count: int) -> Images:
        """The first images, where a test needs no more."""
        return Images(self.X[:count], self.y[:count])


@final
@dataclass(frozen=True)
class Scores:
    """What a network does on held-out images."""

    loss: float
    accuracy: float
    confidence: float  # mean of the largest probability


@final
class SoftmaxRun:
    """A run on minibatches from the network's present weights; an `Episode` of meta-training.

    Arguments:
        net: ends with the logits.
        train: images to draw from.
        updates: moves all parameters.
        batch: images an iteration.
        seed: of the order of the images.
    """

    def __init__(
        self, net: nn.Module, train: Images, updates: Updates, batch: int, seed: int
    ) -> None:
        self.net, self.train, self.updates, self.batch = net, train, updates, batch
        self.parameters = {k: p.detach().clone() for k, p in net.named_parameters()}
        self.memory = updates.init(self.parameters)
        self.generator = torch.Generator().manual_seed(seed)
        self.losses: list[float] = []

    def step(self) -> Tensor:
        """One iteration; Σ⟨∇θ, θ⟩, whose gradient in learned updates is that of the loss."""
        n = self.train.X.shape[0]
        rows = torch.randint(n, (self.batch,), generator=self.generator)
        leaves = {k: p.detach().requires_grad_() for k, p in self.parameters.items()}
        with torch.enable_grad():
            logits = functional_call(self.net, leaves, (self.train.X[rows],))
            loss = cross_entropy(logits, self.train.y[rows])
        found = torch.autograd.grad(loss, list(leaves.values()))
        gradients = dict(zip(leaves, found, strict=True))
        here = self.parameters
        with_graph = [k for k, p in here.items() if p.requires_grad]
        slope = sum(((gradients[k] * here[k]).sum() for k in with_graph), torch.zeros(()))
        self.parameters, self.memory = self.updates(here, gradients, self.memory)
        self.losses.append(loss.item())
        return slope

    def score(self) -> float:
        """Mean loss of the second half."""
        half = self.losses[len(self.losses) // 2 :]
        return sum(half) / len(half)

    def detach(self) -> None:
        """Cut the graph."""
        self.parameters, self.memory = detached(self.parameters), detached(self.memory)

    @torch.no_grad()
    def test(self, images: Images) -> Scores:
        """Loss, top-1 accuracy and confidence on other images."""
        parts = images.X.split(1000)
        logits = torch.cat([functional_call(self.net, self.parameters, (x,)) for x in parts])
        right = logits.argmax(1) == images.y
        sure = logits.softmax(1).amax(1).mean()
        return Scores(
            cross_entropy(logits, images.y).item(), right.float().mean().item(), sure.item()
        )


@torch.no_grad()
def curves(run: SoftmaxRun, steps: int, every: int, test: Images) -> dict[str, list[float]]:
    """Test loss, accuracy and confidence at 0, every, 2·every, …; and the training losses."""
    seen = [run.test(test)]
    for t in range(1, steps + 1):
        run.step()
        if t % every == 0:
            seen.append(run.test(test))
    return {
        "loss": [s.loss for s in seen],
        "accuracy": [s.accuracy for s in seen],
        "confidence": [s.confidence for s in seen],
        "train": run.losses,
    }
