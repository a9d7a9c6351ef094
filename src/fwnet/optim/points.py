"""A parameter as a point of a domain: its shape, its checks, its moves."""

from __future__ import annotations

import math
import sys
from typing import Any

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy

from fwnet.domains import Domain, NormBall, SpectralBall, TraceNormBall, Unsized
from fwnet.numerics import checks
from fwnet.optim.norms import OperatorNorm
from fwnet.vertices import Rank1, Vertex


def domain_of(parameter: Tensor, domain: Domain | OperatorNorm | None) -> Domain | None:
    """The domain of a parameter; None (Adam) also for a bias in a group of matrices."""
    if isinstance(domain, OperatorNorm):
        return domain.ball(tuple(parameter.shape))
    if domain is None or (domain.event_dim > 1 and parameter.ndim < 2):
        return None
    return domain


def as_point(tensor: Tensor, domain: Domain) -> Tensor:
    """A parameter as one point: a vector for vector domains, outputs × inputs for matrix ones."""
    if tensor.ndim == domain.event_dim:
        return tensor
    return tensor.reshape(-1) if domain.event_dim == 1 else tensor.flatten(1)


def name_of(parameter: Tensor, group: dict[str, Any]) -> str:
    """What to call a parameter in an error."""
    place = next(k for k, other in enumerate(group["params"]) if other is parameter)
    names = group.get("param_names")
    shape = "unknown shape" if is_lazy(parameter) else f"shape {tuple(parameter.shape)}"
    return names[place] if names else f"parameter {place} of {shape}"


def check_kind(domain: Any) -> None:
    """Raise a TypeError unless it is a domain, a norm or None."""
    if domain is not None and not isinstance(domain, Domain | OperatorNorm):
        raise TypeError(
            "domain must be a fwnet domain, spectral(...), sign(...), row(...), or None for "
            f"Adam; got {domain!r}."
        )


def check_known(name: str, parameter: Tensor) -> None:
    """Raise if the parameter has no values yet, or only a shard of them on this worker."""
    if is_sharded(parameter):
        raise TypeError(
            f"{name} is a DTensor (FSDP2 or tensor parallelism): fwnet.optim needs whole weights "
            "on each worker to keep them in a domain. Use DistributedDataParallel, or give it to "
            "an optimizer of torch."
        )
    if is_lazy(parameter) or parameter.is_meta:
        raise ValueError(
            f"{name} has no values yet, so it cannot be put into a domain. Run the network once, "
            "or move it off the meta device, before constraining it."
        )


def is_sharded(parameter: Tensor) -> bool:
    """Whether it is a DTensor, without importing torch.distributed."""
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(parameter, module.DTensor)


def check_fits(name: str, parameter: Tensor, domain: Domain) -> None:
    """Raise a clear error if the parameter cannot be a point of the domain."""
    if isinstance(domain, Unsized):
        raise ValueError(
            f"{name}: {domain} takes its radius from the initial weights: pass it to "
            "fwnet.optim.constrain(net, {...}) and give its groups to the optimizer."
        )
    if parameter.dtype not in (torch.float32, torch.float64):
        raise TypeError(
            f"{name} must be float32 or float64 to stay in {domain}; got {parameter.dtype}. Keep "
            "the weights in float32 and use torch.autocast for the rest."
        )
    checks.not_empty(name, parameter)
    domain.check_shape(name, tuple(as_point(parameter, domain).shape))


def check_inside(name: str, parameter: Tensor, domain: Domain) -> None:
    """Raise a ValueError unless the parameter lies in the domain."""
    checks.finite(name, parameter.detach())
    x = as_point(parameter.detach(), domain).double()
    # The rounding of a sum is relative to its size.
    scale = domain.radius if isinstance(domain, NormBall) else max(1.0, float(x.abs().sum()))
    if bool(domain.contains(x, tol=1e-6 * scale)):
        return
    size = f"has norm {float(domain.norm(x)):.6g}" if isinstance(domain, NormBall) else "is outside"
    raise ValueError(
        f"{name} must start inside {domain}; it {size}. Call fwnet.optim.constrain(net, {{...}}) "
        "first, or choose a larger domain."
    )


@torch.no_grad()
def move_inside(parameter: Tensor, domain: Domain) -> None:
    """Move a parameter into its domain: by scaling (balls), projection, or to the start."""
    x = as_point(parameter, domain).double()
    if isinstance(domain, NormBall):
        excess = float(domain.norm(x)) / domain.radius
        inside = x if excess <= 1 else x * ((1 - 1e-7) / excess)
    elif bool(domain.contains(x)):
        return
    else:
        projected = domain.project(x)
        inside = domain.start(x.shape, x.dtype, x.device) if projected is None else projected
    parameter.copy_(inside.reshape(parameter.shape))


def mix(x: Tensor, keep: float, vertex: Vertex, gain: float) -> None:
    """x <- keep · x + gain · vertex, in place."""
    if isinstance(vertex, Rank1):
        x.addr_(vertex.u, vertex.v, beta=keep, alpha=gain)  # one pass over x instead of two
    else:
        vertex.add_to(x.mul_(keep), gain)


def mix_doubled(x: Tensor, rest: Tensor | float, vertex: Vertex, step_size: float) -> Tensor:
    """x + rest <- (1 − γ)(x + rest) + γ · vertex; returns the rest, digits that x cannot hold."""
    whole = x.double() + rest
    mix(whole, 1 - step_size, vertex.each(_in_double), step_size)
    x.copy_(whole)
    return (whole - x).to(x.dtype)


def _in_double(part: Tensor, _: int) -> Tensor:
    return part.double() if part.is_floating_point() else part


def margin(domain: Domain, x: Tensor) -> float:
    """Share of the radius that rounding can use up between two decompositions.

        period · eps · sqrt(min(d, m))

    The rounding of one update has Frobenius norm at most eps ‖W‖_F and full rank, so its trace norm
    is up to sqrt(min(d, m)) times that. Computing singular values at every step would cost too
    much, so vertices and weights keep this distance from the sphere and cannot cross it.
    """
    if not isinstance(domain, TraceNormBall | SpectralBall):
        return 0.0
    return _period(x) * torch.finfo(x.dtype).eps * math.sqrt(min(x.shape))


def drifts(domain: Domain, x: Tensor) -> bool:
    """Whether rounding would accumulate, because there is no norm to scale x back by.

    A sum over a simplex, or a row sum of a Birkhoff matrix, drifts by 1e-4 in 10,000 float32 steps.
    """
    return x.dtype == torch.float32 and not isinstance(domain, NormBall)


def settle(domain: Domain, x: Tensor, step: int) -> None:
    """Undo outward rounding in place: scale back in balls; elsewhere project, at step 0 only."""
    if isinstance(domain, TraceNormBall | SpectralBall):
        if step % _period(x) == 0:
            limit = domain.radius * (1 - margin(domain, x))
            x.mul_((limit / domain.norm(x.double())).clamp_max_(1.0))
    elif isinstance(domain, NormBall):
        x.div_((domain.norm(x) / domain.radius).clamp_min_(1.0))
    elif step == 0:
        projected = domain.project(x)
        if projected is not None:
            x.copy_(projected)


def _period(x: Tensor) -> int:
    """Steps between two decompositions, which then cost about a tenth of the steps."""
    return min(max(32, min(x.shape)), 4096)
