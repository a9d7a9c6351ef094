"""constrain: assign domains to the parameters of a network, by name."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from fnmatch import fnmatchcase
from glob import escape
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from fwnet.domains import Domain, SpectralBall, Unsized
from fwnet.numerics import checks
from fwnet.optim.norms import OperatorNorm
from fwnet.optim.points import as_point, check_fits, check_kind, check_known, domain_of, move_inside

Choice = Domain | OperatorNorm | None


def constrain(net: nn.Module, domains: Mapping[str, Choice] | None = None) -> list[dict[str, Any]]:
    """Put parameters into their domains, by name; the groups are for `FrankWolfe`.

        w <- w · min(1, radius / norm(w))     for balls; for other domains, the nearest point

    Arguments:
        net: parameters that lie outside are changed in place.
        domains: name or pattern -> domain. `"*"` and `"?"` are wildcards; the first matching
            pattern decides. The radius `"init"` is the norm of the weight now, for each weight
            separately; `"4x init"` is four times that. None means AdamW, as for every parameter
            that matches no pattern. Without `domains`, every trained matrix and convolution gets a
            `SpectralBall("8x init")`.

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
        _check_fresh(pattern, domain, names, {name: parameters[name] for name in fresh})
        groups += _groups(fresh, parameters, domain)
    rest = [n for n in _not_yet(parameters, parameters, taken) if parameters[n].requires_grad]
    if rest:
        groups += _groups(rest, parameters, None)
    for group in groups:  # after all checks
        for parameter in group["params"]:
            own = domain_of(parameter, group["domain"])
            if own is not None:
                move_inside(parameter, own)
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


def _check_fresh(
    pattern: str, domain: Choice, names: list[str], fresh: Mapping[str, Tensor]
) -> None:
    """Raise unless a pattern has parameters of its own that its domain can hold."""
    if not fresh:
        raise ValueError(
            f"constrain: all parameters that {pattern!r} matches ({', '.join(names)}) are "
            "taken by earlier patterns; move it up."
        )
    if domain is None:
        return
    for name, parameter in fresh.items():
        check_known(name, parameter)
    if all(domain_of(parameter, domain) is None for parameter in fresh.values()):
        raise ValueError(  # a pattern for a layer may include its bias, but not biases only
            f"constrain: {pattern!r} matches only vectors ({', '.join(fresh)}), but {domain} "
            "holds matrices; name a matrix, or choose a ball of vectors such as LInfBall(1.0)."
        )


def _matrices(net: nn.Module) -> dict[str, Choice]:
    """Spectral balls for matrices and convolutions, large enough not to slow training down."""
    domains: dict[str, Choice] = {
        escape(name): Unsized(SpectralBall, ("8x init",), ())
        for name, parameter in net.named_parameters()
        if parameter.requires_grad and (is_lazy(parameter) or parameter.ndim > 1)
    }
    if not domains:
        raise ValueError("constrain(net): the network has no matrix or convolution to train.")
    return domains


def _groups(names: list[str], parameters: dict[str, nn.Parameter], domain: Choice) -> list[Any]:
    """One group; with "init", one per parameter, since each has its own radius."""
    for name in names:
        if domain_of(parameters[name], domain) is not None:
            checks.finite(name, parameters[name].detach())
    sized: dict[str, Choice] = {name: _sized(name, parameters[name], domain) for name in names}
    for name, choice in sized.items():
        own = domain_of(parameters[name], choice)
        if own is not None:
            check_fits(name, parameters[name], own)
    shared = [names] if not isinstance(domain, Unsized) else [[name] for name in names]
    return [
        {
            "params": [parameters[name] for name in some],
            "param_names": some,
            "domain": sized[some[0]],
        }
        for some in shared
    ]


def _sized(name: str, parameter: Tensor, domain: Choice) -> Choice:
    """The domain with its radius; None for a bias in a ball of matrices."""
    if not isinstance(domain, Unsized):
        return domain
    if domain_of(parameter, domain) is None:
        return None
    with torch.no_grad():
        x = as_point(parameter, domain).double()
        size = float(domain.of_radius(1.0).norm(x))
    if not size > 0:
        raise ValueError(
            f"{name}, {domain}: the initial weights, shape {tuple(parameter.shape)}, have norm "
            f"{size}; give a radius, or None for AdamW."
        )
    return domain.of_radius(domain.multiple * size)


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
    close = get_close_matches(pattern, names, n=5, cutoff=0.3) or names[:5]
    return f"constrain: {pattern!r} matches no parameter; did you mean {', '.join(close)}?"
