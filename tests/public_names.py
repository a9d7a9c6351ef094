"""Every public name with its signature: `python -m tests.public_names > tests/public_names.txt`."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from types import ModuleType

NAMESPACES = (
    "fwnet",
    "fwnet.data",
    "fwnet.directions",
    "fwnet.distributed",
    "fwnet.estimators",
    "fwnet.kernels",
    "fwnet.layers",
    "fwnet.learned",
    "fwnet.learned.baselines",
    "fwnet.learned.families",
    "fwnet.low_rank",
    "fwnet.optim",
    "fwnet.plotting",
    "fwnet.quadrature",
)


def lines() -> Iterator[str]:
    """`namespace.name(signature)`."""
    for namespace in NAMESPACES:
        module = importlib.import_module(namespace)
        for name in sorted(module.__all__):
            thing = getattr(module, name)
            if isinstance(thing, ModuleType):
                yield f"{namespace}.{name}: module"
                continue
            yield f"{namespace}.{name}{_signature(thing)}"


def public_types(module: ModuleType) -> set[type]:
    """The public classes of a module, also those that it loads only when they are asked for."""
    things = (getattr(module, name) for name in module.__all__)
    return {thing for thing in things if isinstance(thing, type)}


def _signature(thing: object) -> str:
    """Names, kinds and defaults of the parameters; annotations may move with their modules."""
    if not callable(thing):
        return f" = {type(thing).__name__}"
    try:
        signature = inspect.signature(thing)
    except ValueError:
        return "(...)"
    plain = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
    text = str(signature.replace(parameters=plain, return_annotation=inspect.Signature.empty))
    return text if " at 0x" not in text else text.split(" at 0x")[0] + " ...>)"


if __name__ == "__main__":
    print("\n".join(lines()))
