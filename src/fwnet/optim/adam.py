"""Adam for the parameters without a domain."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.optim.adamw import adamw

from fwnet.optim.moves import rate_of
from fwnet.optim.weights import is_sharded


def adam_step(
    parameters: list[Tensor], gradients: list[Tensor], group: dict[str, Any], state: Any
) -> None:
    """One step of torch's AdamW, on the state of our optimizer.

    On the CPU by its foreach form, which is faster than its loop and equal to it to the bit. The
    fused form is not: it rounds shards of a weight differently from the whole.
    """
    for parameter in parameters:
        own = state[parameter]
        if "exp_avg" not in own:
            own["step"] = torch.tensor(0.0)
            own["exp_avg"] = torch.zeros_like(parameter)
            own["exp_avg_sq"] = torch.zeros_like(parameter)
    foreach = group["foreach"]
    if foreach is None and all(p.is_cpu and not is_sharded(p) for p in parameters):
        foreach = True
    beta1, beta2 = group["betas"]
    adamw(
        parameters,
        gradients,
        [state[p]["exp_avg"] for p in parameters],
        [state[p]["exp_avg_sq"] for p in parameters],
        [],
        [state[p]["step"] for p in parameters],
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
