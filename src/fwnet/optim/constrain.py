"""constrain: assign domains to the parameters of a network, by name."""

from __future__ import annotations

import math
from collections.abc import Mapping
from difflib import get_close_matches
from fnmatch import fnmatchcase
from glob import escape
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd
from torch.nn.parameter import is_lazy

from fwnet.domains import Domain, SpectralBall, Unsized
from fwnet.numerics import checks
from fwnet.optim.groups import constrained, warn
from fwnet.optim.layouts import Layout, place_of, stack
from fwnet.optim.norms import OperatorNorm
from fwnet.optim.points import (
    check_fits,
    check_kind,
    check_known,
    check_values,
    move_inside,
    warn_of_rows,
)
from fwnet.optim.weights import gathered

Choice = Domain | OperatorNorm | Layout | None


def constrain(net: nn.Module, domains: Mapping[str, Choice] | None = None) -> list[dict[str, Any]]:
    """Put parameters into their domains, by name; the groups are for `FrankWolfe`.

        w <- w · min(1, radius / norm(w))     for balls; for other domains, the nearest point

    Arguments:
        net: parameters that lie outside are changed in place.
        domains: name or pattern -> domain, or `rows(domain)`, `columns(domain)`, `stack(domain)`
            for many points in one parameter. `"*"` and `"?"` are wildcards; the first matching
            pattern decides. The radius `"init"` is the norm of the weight now, for each weight
            separately (the largest of its points); `"4x init"` is four times that. None means
            AdamW, as for every parameter that matches no pattern. Without `domains`, every trained
            matrix and convolution gets a `SpectralBall("8x init")`, and so does every matrix of a
            stack (experts, n, m).

    Example:
        >>> from fwnet.optim import FrankWolfe, constrain
        >>> net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
        >>> groups = constrain(net, {"0.weight": TraceNormBall("init"), "*.bias": LInfBall(1.0)})
        >>> opt = FrankWolfe(groups, lr=1e-2)
        >>> [group["param_names"] for group in groups]
        [['0.weight'], ['0.bias', '2.bias'], ['2.weight']]
    """
    if not isinstance(net, nn.Module):
        raise TypeError(f"constrain(net, ...) takes an nn.Module; got {type(net).__name__}.")
    if domains is None:
        domains = _matrices(net)
    if not isinstance(domains, Mapping):
        raise TypeError(
            f"constrain(net, domains) takes a dict, name -> domain; got {type(domains).__name__}."
        )
    parameters = dict(net.named_parameters(remove_duplicate=False))
    taken: set[Tensor] = set()
    groups: list[dict[str, Any]] = []
    for pattern, domain in domains.items():
        names = _matching(pattern, domain, parameters)
        fresh = _not_yet(names, parameters, taken)
        if not fresh:
            raise ValueError(_all_taken(pattern, names, parameters, groups))
        _check_fresh(pattern, domain, {name: parameters[name] for name in fresh})
        for name in fresh:
            _warn_of_stacks(net, name, parameters[name], domain)
        groups += _groups(fresh, parameters, domain)
    rest = [n for n in _not_yet(parameters, parameters, taken) if parameters[n].requires_grad]
    if rest:
        groups += _groups(rest, parameters, None)
    for group in groups:  # after all checks
        for _, parameter, place in constrained(group):
            move_inside(parameter, place)
    return groups


def _matching(pattern: str, domain: Choice, parameters: Mapping[str, Tensor]) -> list[str]:
    """The names that a pattern matches; at least one."""
    if not isinstance(pattern, str):
        raise TypeError(f"constrain: a name must be a string; got {pattern!r}.")
    check_kind(domain)
    names = [name for name in parameters if fnmatchcase(name, pattern)]
    if not names:
        raise ValueError(_unknown(pattern, list(parameters)))
    return names


def _all_taken(
    pattern: str, names: list[str], parameters: Mapping[str, Tensor], groups: list[Any]
) -> str:
    text = f"constrain: all parameters that {pattern!r} matches"
    known = [name for group in groups for name in group["param_names"]]
    if not set(names) & set(known):  # under other names, all of them
        other = next(name for name in known if parameters[name] is parameters[names[0]])
        return (
            f"{text} ({', '.join(names)}) are tied to parameters of earlier patterns: {names[0]} "
            f"is {other}. Name each weight once."
        )
    return f"{text} ({', '.join(names)}) are taken by earlier patterns; move it up."


def _check_fresh(pattern: str, domain: Choice, fresh: Mapping[str, Tensor]) -> None:
    """Raise unless a pattern has parameters that its domain can hold."""
    if domain is None:
        return
    for name, parameter in fresh.items():
        check_known(name, parameter)
    if all(place_of(parameter, domain) is None for parameter in fresh.values()):
        raise ValueError(  # a pattern for a layer may include its bias, but not biases only
            f"constrain: {pattern!r} matches only vectors ({', '.join(fresh)}), but {domain} "
            "holds matrices; name a matrix, or choose a ball of vectors such as LInfBall(1.0)."
        )


def _matrices(net: nn.Module) -> dict[str, Choice]:
    """Spectral balls for matrices and convolutions, large enough not to slow training down."""
    ball = Unsized(SpectralBall, ("8x init",), ())
    domains: dict[str, Choice] = {
        escape(name): stack(ball) if _is_stack(net, name, parameter) else ball
        for name, parameter in net.named_parameters()
        if parameter.requires_grad
        and (is_lazy(parameter) or (parameter.ndim > 1 and parameter.numel()))
    }
    if not domains:
        raise ValueError("constrain(net): the network has no matrix or convolution to train.")
    return domains


def _is_stack(net: nn.Module, name: str, parameter: Tensor) -> bool:
    """Whether a weight of three dimensions is a stack of matrices: no convolution owns it."""
    owner = net.get_submodule(name.rpartition(".")[0])
    return not is_lazy(parameter) and parameter.ndim == 3 and not isinstance(owner, _ConvNd)


def _warn_of_stacks(net: nn.Module, name: str, parameter: Tensor, domain: Choice) -> None:
    place = place_of(parameter, domain)
    plain = place is not None and not isinstance(domain, Layout) and place.domain.event_dim == 2
    if plain and _is_stack(net, name, parameter):
        first, *others = parameter.shape
        warn(
            f"{name} of shape {tuple(parameter.shape)} is taken as one {first} × "
            f"{math.prod(others)} matrix in {domain}, as a convolution would be. Write "
            f"fwnet.optim.stack({domain}) for {first} matrices, or whole({domain}) for one."
        )


def _groups(names: list[str], parameters: dict[str, nn.Parameter], domain: Choice) -> list[Any]:
    """One group; with "init", one per matrix, since each has its own radius, and one of biases."""
    sized: dict[str, Choice] = {}
    for name in names:
        parameter = parameters[name]
        if place_of(parameter, domain) is not None:
            checks.finite(name, parameter.detach())
        sized[name] = _sized(name, parameter, domain)
        own = place_of(parameter, sized[name])
        if own is not None:
            check_fits(name, parameter, own)
            warn_of_rows(name, parameter, sized[name], domain)
    shared = [names]
    if _unsized(domain):
        free = [name for name in names if sized[name] is None]
        shared = [[name] for name in names if sized[name] is not None] + ([free] if free else [])
    return [
        {
            "params": [parameters[name] for name in some],
            "param_names": some,
            "domain": sized[some[0]],
        }
        for some in shared
    ]


def _unsized(domain: Choice) -> Unsized | None:
    """The ball whose radius the weights decide, if there is one."""
    inner = domain.domain if isinstance(domain, Layout) else domain
    return inner if isinstance(inner, Unsized) else None


def _sized(name: str, parameter: Tensor, domain: Choice) -> Choice:
    """The domain with its radius; None for a bias in a ball of matrices."""
    ball = _unsized(domain)
    if ball is None:
        return domain
    place = place_of(parameter, domain)
    if place is None:
        return None
    check_values(name, parameter, ball)
    with torch.no_grad():
        x = place.points(gathered(parameter.detach())).double()
        size = float(ball.of_radius(1.0).norm(x).max())  # of the largest, if there are many points
    if not size > 0:
        raise ValueError(
            f"{name}, {domain}: the initial weights, shape {tuple(parameter.shape)}, have norm "
            f"{size}; give a radius, or None for AdamW."
        )
    sized = ball.of_radius(ball.multiple * size)
    return Layout(domain.kind, sized) if isinstance(domain, Layout) else sized


def _not_yet(names: Any, parameters: dict[str, nn.Parameter], taken: set[Tensor]) -> list[str]:
    """The names of parameters not yet taken, now marked as taken. Tied weights count once."""
    fresh = []
    for name in names:
        if parameters[name] not in taken:
            taken.add(parameters[name])
            fresh.append(name)
    return fresh


def _unknown(pattern: str, names: list[str]) -> str:
    if not names:
        return f"constrain: {pattern!r} matches no parameter; the network has none."
    text = f"constrain: {pattern!r} matches no parameter;"
    if any(name.startswith(f"{pattern}.") for name in names):
        return f"{text} it is a module: write '{pattern}.*' for all parameters in it."
    close = get_close_matches(pattern, names, n=5, cutoff=0.5)
    if close:
        return f"{text} did you mean {', '.join(close)}?"
    shown = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
    return f"{text} the network has {shown}. Patterns are those of a shell: * and ?."
