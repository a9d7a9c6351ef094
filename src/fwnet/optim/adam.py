"""Adam for the parameters without a domain."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, final

import torch
from torch import Tensor
from torch.optim.adamw import adamw

from fwnet.optim.groups import Group, gradient_of, rate_of
from fwnet.optim.weights import is_sharded

_SMALL = 1 << 14  # entries; a call of torch costs as much as its arithmetic on so many


@final
class AdamSteps:
    """Steps of torch's AdamW, to the bit, on the state of our optimizer.

    A network has many biases, and torch spends more time on each call than on its arithmetic. So
    small parameters on the CPU that have taken the same number of steps are joined, see `_Joined`.
    Large ones take torch's foreach form, which is faster than its loop and equal to it to the bit;
    the fused form is not: it rounds shards of a weight differently from the whole.

    Arguments:
        group: of the parameters.
        parameters: those that have gradients.
    """

    def __init__(self, group: Group, parameters: Sequence[Tensor]) -> None:
        self.group = group
        joins = group["foreach"] is None
        self.small = [p for p in parameters if joins and _is_small(p)]
        self.others = [p for p in parameters if not (joins and _is_small(p))]
        self.joined: list[_Joined] = []

    def step(self, state: Any) -> None:
        """One step of every parameter."""
        if not self._fits(state):
            alike: defaultdict[Any, list[Tensor]] = defaultdict(list)
            for parameter in self.small:
                own = _begun(state[parameter], parameter)
                alike[parameter.dtype, float(own["step"])].append(parameter)
            self.joined = [_Joined(some, state) for some in alike.values()]
        for some in self.joined:
            some.step(self.group)
        if self.others:
            self._step_by_torch(state)

    def _fits(self, state: Any) -> bool:
        """Whether the state is the one that was joined, not a new or a loaded one."""
        if not self.joined:
            return not self.small
        for some in self.joined:
            for parameter, part in zip(some.parameters, some.means, strict=True):
                if state[parameter].get("exp_avg") is not part:
                    return False
        return True

    def _step_by_torch(self, state: Any) -> None:
        group, parameters = self.group, self.others
        foreach = group["foreach"]
        if foreach is None and all(p.is_cpu and not is_sharded(p) for p in parameters):
            foreach = True
        owns = [_begun(state[p], p) for p in parameters]
        beta1, beta2 = group["betas"]
        adamw(
            parameters,
            [gradient_of(p) for p in parameters],
            [own["exp_avg"] for own in owns],
            [own["exp_avg_sq"] for own in owns],
            [],
            [own["step"] for own in owns],
            foreach=foreach,
            has_complex=any(p.is_complex() for p in parameters),
            amsgrad=False,
            beta1=beta1,
            beta2=beta2,
            lr=rate_of(group),
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            maximize=group["maximize"],
        )


class _Joined:
    """Parameters whose averages are parts of long vectors, so that each formula is one call.

    m <- m + (1 − β₁)(g − m),   s <- β₂ s + (1 − β₂) g²
    w <- (1 − lr · weight_decay) w − lr · m / (1 − β₁ᵗ) / (√(s / (1 − β₂ᵗ)) + eps)
    """

    def __init__(self, parameters: list[Tensor], state: Any) -> None:
        self.parameters = parameters
        owns = [state[p] for p in parameters]
        self.mean, self.means = _join([own["exp_avg"] for own in owns])
        self.square, squares = _join([own["exp_avg_sq"] for own in owns])
        self.move, self.moves = _join([own["exp_avg"] for own in owns])
        self.step_number = owns[0]["step"].clone()
        for own, mean, square in zip(owns, self.means, squares, strict=True):
            own["step"], own["exp_avg"], own["exp_avg_sq"] = self.step_number, mean, square

    def step(self, group: Group) -> None:
        lr, (beta1, beta2) = float(rate_of(group)), group["betas"]
        gradients: list[Any] = [p.grad for p in self.parameters]
        gradient = torch.cat([g if g.ndim == 1 else g.reshape(-1) for g in gradients])
        if group["maximize"]:
            gradient.neg_()
        if group["weight_decay"] != 0:
            torch._foreach_mul_(self.parameters, 1 - lr * group["weight_decay"])
        self.step_number += 1
        t = self.step_number.item()
        self.mean.lerp_(gradient, 1 - beta1)
        self.square.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        size = (self.square.sqrt() / (1 - beta2**t) ** 0.5).add_(group["eps"])
        self.move.zero_().addcdiv_(self.mean, size, value=-lr / (1 - beta1**t))
        torch._foreach_add_(self.parameters, self.moves)


def _is_small(parameter: Tensor) -> bool:
    """Whether it may be joined: half precision would be rounded twice."""
    exact = parameter.dtype in (torch.float32, torch.float64)
    return parameter.is_cpu and exact and parameter.numel() <= _SMALL and not is_sharded(parameter)


def _begun(own: dict[str, Any], parameter: Tensor) -> dict[str, Any]:
    """AdamW's state of a parameter, as it is before the first step if it has none."""
    if "exp_avg" not in own:
        own["step"] = torch.tensor(0.0)
        own["exp_avg"] = torch.zeros_like(parameter)
        own["exp_avg_sq"] = torch.zeros_like(parameter)
    return own


def _join(tensors: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
    """A vector of all entries, and its parts in the shapes of the tensors."""
    vector = torch.cat([tensor.reshape(-1) for tensor in tensors])
    parts = vector.split([tensor.numel() for tensor in tensors])
    return vector, [part.view(tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]
