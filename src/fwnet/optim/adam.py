"""Adam for the parameters without a domain."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from operator import is_
from typing import Any, final

import torch
from torch import Tensor
from torch.optim.adamw import adamw

from fwnet.optim.groups import Group, State, gradient_of, rate_of
from fwnet.optim.weights import HALF, is_sharded, precise

_SMALL = 1 << 14  # entries; a call of torch costs as much as its arithmetic on so many


@final
class AdamSteps:
    """Steps of torch's AdamW, to the bit, on the state of our optimizer.

    A network has many biases, and torch spends more time on each call than on its arithmetic. So
    small parameters on the CPU that have taken the same number of steps are one vector to it, see
    `_Joined`. Large ones take its foreach form, which is faster than its loop; in float32 and
    float64 both round alike. The fused form rounds a shard differently from the whole weight.

    For parameters in bfloat16 and float16 the state holds a float32 master and moments in float32:
    these formats lose small steps, and in float16 even eps is 0.

    Arguments:
        groups: of each parameter, with equal `adam_options`.
        parameters: those that have gradients.
    """

    def __init__(self, groups: Sequence[Group], parameters: Sequence[Tensor]) -> None:
        self.group, self.groups = groups[0], list({id(group): group for group in groups}.values())
        self.foreach: bool | None = self.group["foreach"]
        self.small: list[Tensor] = []
        if self.foreach is None:
            self.small = [p for p in parameters if _is_exact(p) and p.numel() <= _SMALL]
        joined = set(self.small)
        self.others = [p for p in parameters if p not in joined]
        self.halves = [p for p in self.others if p.dtype in HALF]
        self.has_complex = any(p.is_complex() for p in self.others)
        if self.foreach is None and len(self.others) > 1 and all(map(_is_exact, self.others)):
            self.foreach = True
        self.joined: list[_Joined] = []

    def is_current(self) -> bool:
        """Whether the groups still have equal options; schedules change them."""
        if len(self.groups) == 1:
            return True
        return len({adam_options(group) for group in self.groups}) == 1

    def step(self, state: Any) -> None:
        """One step of every parameter."""
        if not self._knows(state):
            self._join(state)
        for some in self.joined:
            some.read()
        owns = [some.own for some in self.joined] + [_begun(state[p], p) for p in self.others]
        moved = [state[p].get("master", p) for p in self.others]
        gradients = [precise(gradient_of(p)) for p in self.others]
        beta1, beta2 = self.group["betas"]
        adamw(
            [some.weights for some in self.joined] + moved,
            [some.gradient for some in self.joined] + gradients,
            [own["exp_avg"] for own in owns],
            [own["exp_avg_sq"] for own in owns],
            [],
            [own["step"] for own in owns],
            foreach=self.foreach,
            has_complex=self.has_complex,
            amsgrad=False,
            beta1=beta1,
            beta2=beta2,
            lr=rate_of(self.group),
            weight_decay=self.group["weight_decay"],
            eps=self.group["eps"],
            maximize=self.group["maximize"],
        )
        for some in self.joined:
            torch._foreach_copy_(some.parameters, some.moved)
        for parameter in self.halves:
            parameter.copy_(state[parameter]["master"])

    def _join(self, state: Any) -> None:
        alike: defaultdict[Any, list[Tensor]] = defaultdict(list)
        for parameter in self.small:
            own = _begun(state[parameter], parameter)
            alike[parameter.dtype, float(own["step"])].append(parameter)
        self.joined = [_Joined(some, state) for some in alike.values()]

    def _knows(self, state: Any) -> bool:
        """Whether the state is the one that was joined, not a new or a loaded one."""
        if not self.joined:
            return not self.small
        return all(
            all(map(is_, [state[p].get("exp_avg") for p in some.parameters], some.means))
            for some in self.joined
        )


@final
class _Joined:
    """Parameters as one vector; their averages in the state are parts of its averages.

    Arguments:
        parameters: of one dtype, after the same number of steps.
        state: of the optimizer.
    """

    def __init__(self, parameters: list[Tensor], state: Any) -> None:
        self.parameters = parameters
        owns = [state[p] for p in parameters]
        self.weights, self.moved = _join(parameters)
        self.gradient = torch.empty_like(self.weights)
        mean, self.means = _join([own["exp_avg"] for own in owns])
        square, squares = _join([own["exp_avg_sq"] for own in owns])
        self.own: State = {"step": owns[0]["step"].clone(), "exp_avg": mean, "exp_avg_sq": square}
        for own, *parts in zip(owns, self.means, squares, strict=True):
            own["step"], own["exp_avg"], own["exp_avg_sq"] = self.own["step"], *parts

    def read(self) -> None:
        """Take the present weights and gradients in."""
        torch.cat(_flat(self.parameters), out=self.weights)
        torch.cat(_flat([gradient_of(p) for p in self.parameters]), out=self.gradient)


def adam_options(group: Group) -> tuple[Any, ...]:
    """Parameters of groups for which these are equal move together."""
    lr = group["lr"] if type(group["lr"]) is float else id(group)  # a tensor may be on a device
    names = ("eps", "weight_decay", "maximize", "foreach")
    return lr, *group["betas"], *(group[name] for name in names)


def _is_exact(parameter: Tensor) -> bool:
    """Whether all forms of torch's AdamW but the fused one round its step alike."""
    exact = parameter.dtype in (torch.float32, torch.float64)
    return exact and parameter.is_cpu and not is_sharded(parameter)


def _begun(own: State, parameter: Tensor) -> State:
    """AdamW's state of a parameter, as it is before the first step if it has none."""
    if parameter.dtype in HALF and "master" not in own:
        own["master"] = parameter.detach().float()
    if "exp_avg" not in own:
        moved = own.get("master", parameter)
        own["step"] = torch.tensor(0.0)
        own["exp_avg"], own["exp_avg_sq"] = torch.zeros_like(moved), torch.zeros_like(moved)
    return own


def _join(tensors: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
    """A vector of all entries, and its parts in the shapes of the tensors."""
    vector = torch.cat(_flat(tensors))
    parts = vector.split([tensor.numel() for tensor in tensors])
    return vector, [part.view(tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]


def _flat(tensors: Sequence[Tensor]) -> list[Tensor]:
    return [tensor if tensor.ndim == 1 else tensor.reshape(-1) for tensor in tensors]
