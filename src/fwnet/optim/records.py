"""Domains and oracles as plain data, so that a state_dict loads with `weights_only=True`."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor

from fwnet import domains, oracles
from fwnet.domains import Domain
from fwnet.optim.groups import Group, name_of
from fwnet.optim.layouts import Layout
from fwnet.optim.norms import OperatorNorm
from fwnet.optim.weights import HALF
from fwnet.oracles import CostOracle

Choice = Domain | OperatorNorm | Layout | CostOracle
_KNOWN = {
    **{name: getattr(domains, name) for name in domains.__all__},
    **{name: getattr(oracles, name) for name in oracles.__all__},
    "OperatorNorm": OperatorNorm,
    "Layout": Layout,
}


def to_record(choice: Choice) -> dict[str, Any]:
    """The class's name and its arguments: `{"class": "TraceNormBall", "radius": 50.0}`.

    Functions and generators are not plain data, and are left out.
    """
    values = {name: getattr(choice, name) for name in _arguments(type(choice))}
    plain = {name: _plain(value) for name, value in values.items() if _is_data(value)}
    return {"class": type(choice).__name__} | plain


def from_record(record: dict[str, Any], current: Choice | None) -> Choice:
    """The object of a record.

    A class from outside fwnet must be that of `current`, and what a record leaves out is its.
    """
    values = {
        name: _object(value, getattr(current, name, None))
        for name, value in record.items()
        if name != "class"
    }
    alike = type(current).__name__ == record["class"]
    kind = _KNOWN.get(record["class"], type(current) if alike else None)
    if kind is None:
        raise ValueError(
            f"the state_dict holds a {record['class']}, which is not a class of fwnet; build the "
            "optimizer with a domain of that class, then load."
        )
    missing = [name for name in _arguments(kind) if name not in values]
    if missing and not alike:
        raise ValueError(
            f"the state_dict holds a {record['class']} without its {', '.join(missing)}: functions "
            "and generators are not saved. Build the optimizer with the same one, then load."
        )
    values |= {name: getattr(current, name) for name in missing}
    choice: Choice = kind(**values)
    return choice


def packed(group: Group) -> Group:
    """A group with its domain and its oracle as records."""
    plain = {key: group[key] and to_record(group[key]) for key in ("domain", "oracle")}
    return group | plain


def unpacked(saved: Group, mine: Group) -> Group:
    """A group from what `packed` made; options missing there (in a group of Adam) stay mine."""
    objects = {}
    for key in {"domain", "oracle"} & set(saved):
        record = saved[key]
        objects[key] = from_record(record, mine.get(key)) if record else None
    options = {key: value for key, value in mine.items() if key != "params"}
    return options | saved | objects


def check_shapes(state: dict[Any, Any], saved: Group, mine: Group) -> None:
    """Raise a ValueError where an average belongs to a parameter of another shape."""
    for place, parameter in zip(saved["params"], mine.get("params", []), strict=False):
        for name in ("momentum", "exp_avg", "average"):
            average = state.get(place, {}).get(name)
            if isinstance(average, Tensor) and average.shape != parameter.shape:
                raise ValueError(
                    f"the state_dict belongs to another network: {name_of(parameter, mine)} has "
                    f"shape {tuple(parameter.shape)}, and its {name} {tuple(average.shape)}."
                )


def in_full_precision(state: Any, groups: list[Group], saved: dict[str, Any]) -> None:
    """Put back the digits of a half-precision parameter's state that torch rounds when it loads."""
    for group, old in zip(groups, saved["param_groups"], strict=True):
        for parameter, place in zip(group["params"], old["params"], strict=True):
            if parameter.dtype not in HALF:
                continue
            for name, value in saved["state"].get(place, {}).items():
                if isinstance(value, Tensor) and value.is_floating_point() and name != "step":
                    state[parameter][name] = value.to(parameter.device, torch.float32, copy=True)


def _arguments(kind: type) -> list[str]:
    """The names of the arguments of a class; none if it has no constructor of its own."""
    known = inspect.signature(kind).parameters.values()
    return [p.name for p in known if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]


def _is_data(value: Any) -> bool:
    if isinstance(value, CostOracle):  # a module can be called
        return True
    return not callable(value) and not isinstance(value, torch.Generator)


def _plain(value: Any) -> Any:
    if isinstance(value, Domain | OperatorNorm | Layout | CostOracle):
        return to_record(value)
    if isinstance(value, list | tuple):
        return type(value)(_plain(item) for item in value)
    return value


def _object(value: Any, current: Any = None) -> Any:
    if isinstance(value, dict) and "class" in value:
        return from_record(value, current)
    if isinstance(value, list | tuple):
        return type(value)(_object(item) for item in value)
    return value
