"""A parameter as points of a domain: checks, and the way into it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy

from fwnet.domains import (
    Domain,
    GroupL1Ball,
    KSparseBall,
    L1Ball,
    L2Ball,
    LInfBall,
    LpBall,
    NormBall,
    RowBall,
    SpectralBall,
    TraceNormBall,
    Unsized,
)
from fwnet.numerics import checks
from fwnet.optim.groups import warn
from fwnet.optim.layouts import Layout, Place, is_ambiguous
from fwnet.optim.norms import OperatorNorm
from fwnet.optim.weights import HALF, gathered, write

# Balls into which a point in half precision can be rounded.
_ROUNDED = (
    GroupL1Ball,
    KSparseBall,
    L1Ball,
    L2Ball,
    LInfBall,
    LpBall,
    RowBall,
    SpectralBall,
    TraceNormBall,
)


def check_kind(domain: Any) -> None:
    """Raise a TypeError unless it is a domain, a norm, a layout or None."""
    if isinstance(domain, type) and issubclass(domain, Domain):
        raise TypeError(
            f"domain must be an object, not the class {domain.__name__}: write "
            f"{domain.__name__}(...) with its arguments."
        )
    if domain is not None and not isinstance(domain, Domain | OperatorNorm | Layout):
        raise TypeError(
            "domain must be a fwnet domain, spectral(...), sign(...), row(...), rows(...), "
            f"columns(...), stack(...), or None for AdamW; got {domain!r}."
        )


def check_known(name: str, parameter: Tensor) -> None:
    """Raise if the parameter has no values yet."""
    if is_lazy(parameter) or parameter.is_meta:
        raise ValueError(
            f"{name} has no values yet, so it cannot be put into a domain. Run the network once, "
            "or move it off the meta device, before constraining it."
        )


def check_fits(name: str, parameter: Tensor, place: Place) -> None:
    """Raise a clear error if the parameter cannot be made of points of the domain."""
    domain = place.domain
    if isinstance(domain, Unsized):
        raise ValueError(
            f"{name}: {domain} takes its radius from the initial weights: pass it to "
            "fwnet.optim.constrain(net, {...}) and give its groups to the optimizer."
        )
    check_values(name, parameter, domain)
    if domain.event_dim == 1 and place.kind == "whole" and parameter.ndim > 1:
        name = f"{name}, flattened to a vector"
    domain.check_shape(name, place.shape(parameter))


def check_values(name: str, parameter: Tensor, domain: Domain) -> None:
    """Raise a clear error unless there are values of a dtype that can stay in the domain."""
    kind = domain.kind if isinstance(domain, Unsized) else type(domain)
    if parameter.dtype in HALF:
        if not issubclass(kind, _ROUNDED):
            raise TypeError(
                f"{name} must be float32 or float64 to stay in {domain}; got {parameter.dtype}, in "
                "which its constraints cannot hold. Keep this parameter in float32."
            )
    elif parameter.dtype not in (torch.float32, torch.float64):
        raise TypeError(
            f"{name} must be float32, float64, bfloat16 or float16 to stay in {domain}; got "
            f"{parameter.dtype}."
        )
    checks.not_empty(name, parameter)


def warn_of_rows(name: str, parameter: Tensor, domain: Any, written: Any) -> None:
    """Warn if the domain could be meant for every row; `written` is how the user wrote it."""
    if is_ambiguous(parameter, domain):
        warn(
            f"{name}: {written} holds vectors, so all {parameter.numel()} entries of shape "
            f"{tuple(parameter.shape)} are one point. Write rows({written}) or "
            f"columns({written}) for one point each, or whole({written}) for this meaning; "
            "all three are in fwnet.optim."
        )


def is_inside(parameter: Tensor, place: Place) -> bool:
    """Whether all points of the parameter lie in the domain, up to 1e-6 of its size."""
    domain, x = place.domain, place.points(gathered(parameter.detach())).double()
    # The rounding of a sum is relative to its size.
    scale = domain.radius if isinstance(domain, NormBall) else max(1.0, float(x.abs().sum()))
    return bool(domain.contains(x, tol=1e-6 * scale).all())


def check_inside(name: str, parameter: Tensor, place: Place) -> None:
    """Raise a ValueError unless the parameter lies in the domain."""
    full = gathered(parameter.detach())
    checks.finite(name, full)
    if is_inside(full, place):
        return
    domain, size = place.domain, "is outside"
    if isinstance(domain, NormBall):
        size = f"has norm {float(domain.norm(place.points(full).double()).max()):.6g}"
    raise ValueError(
        f"{name} must start inside {domain}; it {size}. Call fwnet.optim.constrain(net, {{...}}) "
        "first, or choose a larger domain; after a load, load the weights of the network too."
    )


@torch.no_grad()
def move_inside(parameter: Tensor, place: Place) -> None:
    """Move a parameter into its domain: by scaling (balls), projection, or to the start."""
    domain, full = place.domain, gathered(parameter.detach())
    x = place.points(full).double()
    if isinstance(domain, NormBall):
        outside = domain.norm(x) / domain.radius
        if bool((outside <= 1).all()):
            return
        factor = torch.where(outside > 1, (1 - 1e-7) / outside, 1.0)
        inside = x * factor.reshape(*factor.shape, *(1,) * domain.event_dim)
    elif bool(domain.contains(x).all()):
        return
    else:
        projected = domain.project(x)
        inside = domain.start(tuple(x.shape), x.dtype, x.device) if projected is None else projected
    moved = place.tensor(inside, tuple(full.shape))
    if parameter.dtype in HALF:
        write(parameter, {"master": moved.float()}, moved.float(), place)
    else:
        write(parameter, {}, moved.to(parameter.dtype), place)
