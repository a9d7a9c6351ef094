"""Function: any callable as a problem, by autograd."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

import torch
from torch import Tensor

from fwnet.iterates import Iterate
from fwnet.numerics import checks
from fwnet.problems.base import FirstOrder, Problem, inner


@final
class Function(Problem):
    """Any function f of x, its gradient by autograd.

    Arguments:
        function: x -> f(x), a tensor of shape `()`; with `batched`, x `(batch, *shape)` ->
            `(batch,)`, each entry from its own point only.
        gradient: x -> ∇f(x), instead of autograd.
        batched: the first dimension of x is a batch.

    Example:
        >>> goal = torch.tensor([0.5, 0.3, 0.2])
        >>> distance = Function(lambda x: ((x - goal) ** 2).sum())
        >>> FrankWolfe(Simplex(), tol=1e-2)(distance, goal.flip(0)).status
        'converged'
    """

    def __init__(
        self,
        function: Callable[[Tensor], Tensor],
        gradient: Callable[[Tensor], Tensor] | None = None,
        batched: bool = False,
    ) -> None:
        if not callable(function):
            raise TypeError(
                f"an objective must be a Problem or a function of x; got {type(function).__name__}."
            )
        if gradient is not None:
            checks.a_function("Function(gradient=...)", gradient)
        self.function, self.own_gradient = function, gradient
        self.batch_dims = int(checks.switch("Function(batched=...)", batched))

    def value(self, it: Iterate) -> Tensor:
        return self._checked(self.function(it.x), it.x)

    def gradient(self, it: Iterate) -> Tensor:
        if self.own_gradient is None:
            return self._by_autograd(it.x)[1]
        gradient = self.own_gradient(it.x)
        if not isinstance(gradient, Tensor):
            raise TypeError(
                "Function(gradient=...) must return a tensor; "
                f"got {type(gradient).__name__}. Convert with torch.as_tensor(...)."
            )
        if gradient.shape != it.x.shape or gradient.dtype != it.x.dtype:
            raise ValueError(
                f"Function(gradient=...) must return shape {tuple(it.x.shape)} in {it.x.dtype}, "
                f"like x; got {tuple(gradient.shape)} in {gradient.dtype}."
            )
        return gradient

    def first_order(self, it: Iterate) -> FirstOrder:
        if self.own_gradient is not None:
            return super().first_order(it)
        value, gradient = self._by_autograd(it.x)
        return FirstOrder(value, gradient, inner(gradient, it.x, self.batch_dims))

    def gram(self, it: Iterate, directions: Tensor, images: Tensor) -> Tensor:
        """By differentiating the gradient along each direction."""
        b = self.batch_dims
        with torch.enable_grad():
            x = it.x.detach().requires_grad_()
            value = self._checked(self.function(x), x).sum()
            (gradient,) = torch.autograd.grad(value, x, create_graph=True)
            if not gradient.requires_grad:  # f is linear
                return directions.new_zeros(*directions.shape[: b + 1], directions.shape[b])
            products = [
                torch.autograd.grad(gradient, x, direction, retain_graph=True)[0]
                for direction in directions.unbind(b)
            ]
        return directions.flatten(b + 1) @ torch.stack(products, b).flatten(b + 1).mT

    def _by_autograd(self, x: Tensor) -> tuple[Tensor, Tensor]:
        unrolled = torch.is_grad_enabled()
        with torch.enable_grad():
            if not (unrolled and x.requires_grad):
                x = x.detach().requires_grad_()
            value = self._checked(self.function(x), x)
            if not value.requires_grad:
                raise ValueError(
                    "the objective's value does not depend on x through torch operations; write "
                    "it with torch, or pass Function(f, gradient=...)."
                )
            (gradient,) = torch.autograd.grad(value.sum(), x, create_graph=unrolled)
        return (value, gradient) if unrolled else (value.detach(), gradient)

    def _checked(self, value: Tensor, x: Tensor) -> Tensor:
        if not isinstance(value, Tensor):
            raise TypeError(
                f"the objective must return a tensor; got {type(value).__name__}. "
                "Compute it with torch operations."
            )
        if value.is_complex():
            raise TypeError(f"the objective must return a real number; got {value.dtype}.")
        expected = x.shape[: self.batch_dims]
        if value.shape != expected:
            hint = (
                "Sum or average it; for a batch of problems pass Function(f, batched=True)."
                if self.batch_dims == 0
                else "Return one value for each point of the batch."
            )
            raise ValueError(
                f"the objective must return a tensor of shape {tuple(expected)}; "
                f"got {tuple(value.shape)}. {hint}"
            )
        return value


def as_problem(objective: Problem | Callable[[Tensor], Tensor]) -> Problem:
    """A problem unchanged, a callable as a `Function`."""
    return objective if isinstance(objective, Problem) else Function(objective)
