"""The libraries that fwnet is measured against, imported where they are installed.

`load` never raises: a peer that is absent or breaks on import comes back as a `Missing` with the
reason, and every table names it.

One shim, for chop-pytorch 0.0.3.1: it imports torchvision for its image data sets, which no case
uses. Where torchvision is absent or does not fit the installed torch, an empty module stands in.
"""

import importlib
import importlib.metadata
import importlib.util
import sys
import types
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import torch

from benchmarks.harness import Contender, Missing

DISTRIBUTIONS = {"fwnet": "fwnet", "copt": "copt", "chop": "chop-pytorch"}


def load(name: str) -> ModuleType | Missing:
    """The module `name` ("fwnet", "copt" or "chop"), or the reason why there is none."""
    if importlib.util.find_spec(name) is None:
        return Missing(f"{DISTRIBUTIONS[name]} not installed")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes in the peers' docstrings
            if name == "chop":
                _stand_in_for_torchvision()
            found = importlib.import_module(name)
        if name == "chop":  # its batched product transposes vectors
            warnings.filterwarnings("ignore", message="The use of `x.T` on tensors")
        return found
    except Exception as error:
        return Missing(f"{DISTRIBUTIONS[name]} does not import: {type(error).__name__}: {error}")


def contender(name: str, make: Callable[..., Contender], *data: Any) -> Contender:
    """`make(module, *data)` where the module `name` is there; otherwise why it is not."""
    module = load(name)
    if isinstance(module, Missing):
        return module
    try:
        return make(module, *data)
    except ImportError as error:  # of an optional package
        return Missing(str(error))


def versions() -> dict[str, str]:
    """What the metadata of each library says; "not installed", or "from source" without any."""
    found = {}
    for module, name in {
        "torch": "torch",
        "numpy": "numpy",
        "scipy": "scipy",
        **DISTRIBUTIONS,
    }.items():
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            absent = importlib.util.find_spec(module) is None
            found[name] = "not installed" if absent else "from source"
    return found


def copt_simplex_lmo(
    u: np.ndarray, x: np.ndarray, active_set: object
) -> tuple[np.ndarray, int, None, float]:
    """The simplex for copt: argmax_v <u, v> - x, in the form that its solver calls.

    copt 0.9.2's own `SimplexConstraint.lmo` lacks the third argument that its solver passes, and
    leaves the simplex where every entry of u is negative.
    """
    direction = -x
    largest = int(u.argmax())
    direction[largest] += 1.0
    return direction, largest, None, 1.0


@torch.no_grad()
def chop_simplex_lmo(u: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The batched simplex for chop: argmax_v <u, v> - x for each row.

    chop's own `Simplex.lmo` takes one maximum over the whole batch, so all rows but one lose
    their vertex.
    """
    direction = -x
    direction.scatter_add_(1, u.argmax(1, keepdim=True), x.new_ones(len(x), 1))
    return direction, x.new_ones(len(x))


def _stand_in_for_torchvision() -> None:
    try:
        importlib.import_module("torchvision")
    except Exception:
        for broken in [m for m in sys.modules if m.split(".")[0] == "torchvision"]:
            del sys.modules[broken]
        package, transforms = (types.ModuleType(n) for n in ("torchvision", "transforms"))
        package.transforms = transforms  # type: ignore[attr-defined]
        sys.modules["torchvision"] = package
        sys.modules["torchvision.transforms"] = transforms
