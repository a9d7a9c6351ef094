"""Packages that only some calls need."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_TITLES = {"scipy": "SciPy", "sklearn": "scikit-learn"}


def optional(module: str, caller: str, extra: str) -> Any:
    """A module of an optional package; an ImportError that says how to install it if it is absent.

    Arguments:
        module: its whole name.
        caller: what needs it, the subject of the message.
        extra: of fwnet, which installs the package.
    """
    package = module.split(".")[0]
    try:
        import_module(package)
        return import_module(module)
    except ImportError:
        raise ImportError(
            f"{caller} needs {_TITLES.get(package, package)}. Install it with: "
            f'pip install "fwnet[{extra}]"'
        ) from None
