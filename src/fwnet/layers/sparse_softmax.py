"""NeuralSparseSoftmax: a softmax layer of low rank whose weights move by forward propagation."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor, nn

from fwnet.domains import TraceNormBall
from fwnet.layers.unrolled import FWNet
from fwnet.numerics import checks
from fwnet.oracles import Oracle, PowerIteration
from fwnet.problems import SoftmaxRegression
from fwnet.solvers import FrankWolfe
from fwnet.steps import Constant


@final
class NeuralSparseSoftmax(nn.Module):
    """The last layer of a classifier as an FWNet over the trace-norm ball.

        W <- (1 − γ) W − γ · radius · u vᵀ,   u, v by K power iterations on ∇f(W) = Xᵀ(P − Y)/n

    `cells` such steps on every minibatch of features X, while the module is in training mode (in
    `eval()` the loss only measures); nothing back-propagates into W. The network that makes the
    features is trained by any optimizer, with the loss at the new W:

        loss = f(W; X, y)

    t steps from W = 0 leave a matrix of rank at most t, and always ‖W‖_* <= radius.

    Arguments:
        features: length d of a feature vector.
        classes: m.
        radius: of the ball; 50 in the paper.
        step_size: γ; small, since it also averages over minibatches. 0.001 in the paper.
        cells: steps on a minibatch.
        oracle: `PowerIteration(5)`, the paper's, unless given.
        unrolled: let the loss's gradient reach the features through the steps, too.

    Example:
        >>> layer = fwnet.layers.NeuralSparseSoftmax(20, 5, radius=10.0)
        >>> features, y = torch.randn(32, 20, requires_grad=True), torch.arange(32) % 5
        >>> layer.loss(features, y).backward()
        >>> layer(features).shape
        torch.Size([32, 5])

    Reference: Schramowski, Bauckhage and Kersting, Neural Conditional Gradients (2018), Fig. 5.
    """

    weight: Tensor

    def __init__(
        self,
        features: int,
        classes: int,
        *,
        radius: float = 50.0,
        step_size: float = 1e-3,
        cells: int = 1,
        oracle: Oracle | None = None,
        unrolled: bool = False,
    ) -> None:
        super().__init__()
        checks.at_least("NeuralSparseSoftmax(features=...)", features, 1)
        checks.at_least("NeuralSparseSoftmax(classes=...)", classes, 1)
        solver = FrankWolfe(
            TraceNormBall(radius),
            Constant(step_size),
            oracle=PowerIteration(5) if oracle is None else oracle,
            max_steps=checks.at_least("NeuralSparseSoftmax(cells=...)", cells, 1),
        )
        self.net = FWNet(solver)
        self.unrolled = unrolled
        self.register_buffer("weight", torch.zeros(features, classes))

    def forward(self, X: Tensor) -> Tensor:
        """Scores `(n, m)` of features `(n, d)`."""
        if not isinstance(X, Tensor) or X.shape[-1:] != self.weight.shape[:1]:
            raise ValueError(self._wanted(X))
        return X @ self.weight

    def loss(self, X: Tensor, y: Tensor) -> Tensor:
        """Take the steps on a minibatch, and return its mean cross entropy at the new weights.

        After `eval()`, no steps. Under autocast, features of half precision are taken to that of W.

        Arguments:
            X: features `(n, d)`.
            y: labels 0, …, m − 1, `(n,)`, integers.
        """
        d, m = self.weight.shape
        if not isinstance(X, Tensor) or X.ndim != 2 or X.shape[1] != d:
            raise ValueError(self._wanted(X))
        kind = X.device.type
        if torch.is_autocast_enabled(kind):
            X = X.to(self.weight.dtype)
        with torch.autocast(kind, enabled=False):
            problem = SoftmaxRegression(X, y, m)
            weight = self._stepped(problem) if self.training else self.weight
            return nn.functional.cross_entropy(X @ weight, problem.y)

    def _wanted(self, X: object) -> str:
        got = tuple(X.shape) if isinstance(X, Tensor) else type(X).__name__
        return f"X must be a tensor of features (n, {self.weight.shape[0]}); got {got}."

    def _stepped(self, problem: SoftmaxRegression) -> Tensor:
        """The weights after the cells, kept for the next minibatch; differentiable if unrolled."""
        with torch.set_grad_enabled(self.unrolled and torch.is_grad_enabled()):
            *_, last = self.net.cells(problem, self.weight)
        weight = last.it.x
        self.weight = weight.detach()
        return weight
