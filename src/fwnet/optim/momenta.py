"""Averaged gradients of parameters that move together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor

from fwnet.optim.groups import Held, State
from fwnet.optim.weights import gathered, is_sharded, like_shards, local


@final
class Momenta:
    """m <- β m + (1 − β) g; the first m is g.

    The momenta of all members are parts of one tensor, so that one call updates them. Each worker
    of a sharded network keeps its part of them.

    Arguments:
        members: of one shape.
    """

    def __init__(self, members: Sequence[Held]) -> None:
        self.members, self.batched = members, len(members) > 1
        self.sharded = is_sharded(members[0].parameter)
        self.joint: Tensor | None = None
        self.parts: list[Tensor] = []  # of each member, in its shape

    def update(self, gradient: Tensor, beta: float, owns: Sequence[State]) -> Tensor:
        """The momenta as points, stacked; the gradient itself, if β = 0."""
        if self.sharded:
            return self._of_shards(gradient, beta, owns)
        if beta == 0:
            return gradient
        return self.joined(gradient, owns).lerp_(gradient, 1 - beta)

    def joined(self, gradient: Tensor, owns: Sequence[State]) -> Tensor:
        """The momenta before the update, stacked; the gradient for members that have none."""
        known = [own.get("momentum") for own in owns]
        if self.joint is None or any(a is not b for a, b in zip(known, self.parts, strict=True)):
            self.joint = self._join(gradient, owns)  # they are new, or were loaded
        return self.joint

    def _join(self, gradient: Tensor, owns: Sequence[State]) -> Tensor:
        points = gradient.unbind(0) if self.batched else [gradient]
        whole = torch.stack(
            [
                member.place.points(own["momentum"]) if "momentum" in own else g
                for member, own, g in zip(self.members, owns, points, strict=True)
            ]
        )
        self.parts = [
            member.place.tensor(part, tuple(member.parameter.shape))
            for member, part in zip(self.members, whole.unbind(0), strict=True)
        ]
        for own, part in zip(owns, self.parts, strict=True):
            own["momentum"] = part
        return whole if self.batched else whole[0]

    def _of_shards(self, gradient: Tensor, beta: float, owns: Sequence[State]) -> Tensor:
        """The same for shards: each worker updates its part, then the parts are gathered."""
        points = []
        sizes = [local(member.parameter).numel() for member in self.members]
        for member, own, part in zip(self.members, owns, gradient.split(sizes), strict=True):
            part = part.reshape(local(member.parameter).shape)
            if beta > 0:
                if "momentum" not in own:
                    own["momentum"] = torch.zeros_like(member.parameter, dtype=part.dtype)
                    local(own["momentum"]).copy_(part)
                local(own["momentum"]).lerp_(part, 1 - beta)
            whole = own["momentum"] if beta > 0 else like_shards(part, member.parameter)
            points.append(member.place.points(gathered(whole)))
        return torch.stack(points) if self.batched else points[0]
