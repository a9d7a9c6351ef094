"""What a result was computed with: versions, machine, time. No names of users or machines."""

from __future__ import annotations

import os
import platform
from datetime import datetime, timezone
from importlib import metadata

import torch

import fwnet

_PACKAGES = ("torch", "numpy", "scipy", "scikit-learn", "numba")


def versions() -> dict[str, str]:
    """fwnet, Python and the packages that numbers depend on; "absent" where one is not there."""
    found = {"fwnet": fwnet.__version__, "python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "absent"
    return found


def device() -> str:
    """The accelerator that torch would use, or the processor."""
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    return "Apple GPU" if torch.backends.mps.is_available() else "CPU"


def environment() -> dict[str, str]:
    """Everything that is stored with a result."""
    return versions() | {
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, "
        f"{torch.get_num_threads()} threads",
        "device": device(),
        "finished": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }
