"""Factored models on disk: written whole or not at all, read without running code."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

_KIND = "fwnet low-rank model 1"


def write(path: str | os.PathLike[str], tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
    """Write tensors and plain facts: `.safetensors` by that library, else by torch.

    A file beside it is written first and then renamed, so that a crash leaves the old one whole.
    """
    target = Path(path)
    beside = target.with_name(target.name + ".part")
    text = json.dumps({"kind": _KIND, **facts})
    try:
        with open(beside, "wb") as file:
            if target.suffix == ".safetensors":
                whole = {name: tensor.contiguous() for name, tensor in tensors.items()}
                file.write(_safetensors().torch.save(whole, {"facts": text}))
            else:
                torch.save({"facts": text, "tensors": tensors}, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, target)
    except OSError as error:
        raise OSError(
            f"path={str(target)!r} cannot be written ({error}). Choose a path in a folder that "
            "exists and has room."
        ) from None


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the facts of a file; a damaged or foreign one is an error."""
    target = Path(path)
    if not target.exists():
        raise FileNotFoundError(f"path={str(target)!r} does not exist.")
    try:
        if target.suffix == ".safetensors":
            with _safetensors().safe_open(target, "pt") as file:
                facts = json.loads((file.metadata() or {})["facts"])
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        else:
            contents = torch.load(target, map_location="cpu", weights_only=True)
            facts, tensors = json.loads(contents["facts"]), contents["tensors"]
    except ImportError:
        raise
    except (OSError, RuntimeError, EOFError, ValueError, KeyError, TypeError) as error:
        raise _unreadable(target, error) from None
    except pickle.UnpicklingError as error:
        raise _unreadable(target, error) from None
    except Exception as error:  # safetensors raises a type of its own
        if type(error).__module__.split(".")[0] in ("safetensors", "safetensors_rust"):
            raise _unreadable(target, error) from None
        raise
    if facts.get("kind") != _KIND:
        raise _unreadable(target, ValueError(f"its kind is {facts.get('kind')!r}"))
    return tensors, facts


def _unreadable(path: Path, error: Exception) -> ValueError:
    reason = (str(error) or type(error).__name__).splitlines()[0][:120]
    return ValueError(
        f"path={str(path)!r} is not a whole low-rank model of fwnet: {reason}. Save it again."
    )


def _safetensors() -> Any:
    try:
        import safetensors.torch
    except ImportError:
        raise ImportError(
            'A .safetensors file needs safetensors: pip install "fwnet[learned]", or save to a '
            "path that ends in .pt."
        ) from None
    return safetensors
