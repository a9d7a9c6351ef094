"""NeuralSparseSoftmax: a softmax layer of low rank whose weights move by forward propagation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, final

import torch
from torch import Tensor, nn

from fwnet.domains import TraceNormBall
from fwnet.iterates import Iterate
from fwnet.layers.unrolled import FWNet
from fwnet.numerics import checks
from fwnet.oracles import Oracle, PowerIteration
from fwnet.problems import SoftmaxRegression
from fwnet.solvers import FrankWolfe
from fwnet.steps import Constant, StepRule


@final
class NeuralSparseSoftmax(nn.Module):
    """The last layer of a classifier as an FWNet over the trace-norm ball.

        W <- (1 − γ) W − γ · radius · u vᵀ,   u, v by K power iterations on ∇f(W) = Xᵀ(P − Y)/n

    `cells` such steps on every minibatch of features X, while the module is in training mode (in
    `eval()` the loss only measures); nothing back-propagates into W. The network that makes the
    features is trained by any optimizer, with the loss at the new W:

        loss = f(W; X, y)

    t steps from W = 0 leave a matrix of rank at most t, and always ‖W‖_* <= radius. What the oracle
    and the rule remember (the last v, the memory of an LSTM, how many steps there were) is carried
    from minibatch to minibatch, and is part of the `state_dict`.

    Arguments:
        features: length d of a feature vector.
        classes: m.
        radius: of the ball; 50 in the paper.
        step_size: γ; small, since it also averages over minibatches. 0.001 in the paper.
        cells: steps on a minibatch.
        oracle: `PowerIteration(5)` unless given; the paper's begins at a new random v every time,
            `PowerIteration(5, start="random")`.
        unrolled: let the loss's gradient reach the features through the steps, too.
        start: the first W: "zeros", "normal" or a tensor. "normal" draws the entries from N(0, 1),
            as in the paper; such a W may lie outside the ball, and each step multiplies its
            distance by at most 1 − γ.
        bias: add a constant feature 1; its weights are the last row of W, inside the ball.
        rule: how far a step goes, a `StepRule` or a function t -> γ; `Constant(step_size)` unless
            given.
        generator: of start="normal"; torch's own unless given.

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
        start: Literal["zeros", "normal"] | Tensor = "zeros",
        bias: bool = False,
        rule: StepRule | Callable[[int], float | Tensor] | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        checks.at_least("NeuralSparseSoftmax(features=...)", features, 1)
        checks.at_least("NeuralSparseSoftmax(classes=...)", classes, 1)
        solver = FrankWolfe(
            TraceNormBall(radius),
            Constant(step_size) if rule is None else rule,
            oracle=PowerIteration(5) if oracle is None else oracle,
            max_steps=checks.at_least("NeuralSparseSoftmax(cells=...)", cells, 1),
        )
        self.net = FWNet(solver)
        self.features, self.unrolled = features, unrolled
        self.has_bias = checks.switch("NeuralSparseSoftmax(bias=...)", bias)
        self.register_buffer("weight", _first(start, (features + bias, classes), generator))
        self._slots: Any = None  # what the slots remember, as plain data

    def forward(self, X: Tensor) -> Tensor:
        """Scores `(n, m)` of features `(n, d)`."""
        if not isinstance(X, Tensor) or X.shape[-1:] != (self.features,):
            raise ValueError(self._wanted(X))
        return X @ self.weight[:-1] + self.weight[-1] if self.has_bias else X @ self.weight

    def loss(self, X: Tensor, y: Tensor) -> Tensor:
        """Take the steps on a minibatch, and return its mean cross entropy at the new weights.

        After `eval()`, no steps. Under autocast, features of half precision are taken to that of W.

        Arguments:
            X: features `(n, d)`.
            y: labels 0, …, m − 1, `(n,)`, integers.
        """
        if not isinstance(X, Tensor) or X.ndim != 2 or X.shape[1] != self.features:
            raise ValueError(self._wanted(X))
        kind = X.device.type
        if torch.is_autocast_enabled(kind):
            X = X.to(self.weight.dtype)
        with torch.autocast(kind, enabled=False):
            if self.has_bias:
                X = torch.cat([X, X.new_ones(len(X), 1)], 1)
            problem = SoftmaxRegression(X, y, self.weight.shape[1])
            weight = self._stepped(problem) if self.training else self.weight
            return nn.functional.cross_entropy(X @ weight, problem.y)

    def _wanted(self, X: object) -> str:
        got = tuple(X.shape) if isinstance(X, Tensor) else type(X).__name__
        return f"X must be a tensor of features (n, {self.features}); got {got}."

    def _stepped(self, problem: SoftmaxRegression) -> Tensor:
        """The weights after the cells, kept for the next minibatch; differentiable if unrolled."""
        solver = self.net.solver
        with torch.set_grad_enabled(self.unrolled and torch.is_grad_enabled()):
            it = problem.at(self.weight) if solver.oracle.reads_image else Iterate(self.weight)
            it, slots = solver.begin(problem, it)
            if self._slots is not None:
                slots = _restored(slots, self._slots)
            for _ in range(solver.max_steps):
                cell = self.net.cell(problem, it, slots)
                it, slots = cell.it, cell.slots
        self.weight, self._slots = it.x.detach(), _plain(slots)
        return it.x

    def get_extra_state(self) -> Any:
        """What the slots remember, for the `state_dict`."""
        return self._slots

    def set_extra_state(self, state: Any) -> None:
        """What they remembered."""
        self._slots = state

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> NeuralSparseSoftmax:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self._slots = _plain(self._slots, fn)
        return self


def _first(start: Any, shape: tuple[int, int], generator: torch.Generator | None) -> Tensor:
    """W before the first step."""
    if isinstance(start, Tensor) and start.shape == shape:
        return start.detach().clone()
    if not isinstance(start, str) or start not in ("zeros", "normal"):
        got = f"shape {tuple(start.shape)}" if isinstance(start, Tensor) else repr(start)
        raise ValueError(
            f'NeuralSparseSoftmax(start=...) must be "zeros", "normal" or a tensor {shape}; '
            f"got {got}."
        )
    return torch.zeros(shape) if start == "zeros" else torch.randn(shape, generator=generator)


def _plain(state: Any, fn: Callable[[Tensor], Tensor] = Tensor.detach) -> Any:
    """A state of tensors and numbers in plain tuples, without gradients."""
    if isinstance(state, Tensor):
        return fn(state)
    if isinstance(state, tuple):
        return tuple(_plain(part, fn) for part in state)
    if state is None or isinstance(state, int | float | str):
        return state
    raise TypeError(
        "NeuralSparseSoftmax carries what its oracle and rule remember, which must be tensors and "
        f"numbers in tuples; got a {type(state).__name__}. Use another oracle or rule."
    )


def _restored(like: Any, plain: Any) -> Any:
    """What `_plain` made, with the named tuples of a first state."""
    if not isinstance(like, tuple) or not isinstance(plain, tuple):
        return plain
    if len(like) != len(plain):
        raise ValueError(
            "the state_dict of this NeuralSparseSoftmax belongs to one with another oracle or rule."
        )
    parts = [_restored(part, saved) for part, saved in zip(like, plain, strict=True)]
    return type(like)(*parts) if hasattr(like, "_fields") else tuple(parts)
