"""Factored models on disk: written whole or not at all, read without running code."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fwnet.numerics.files import written_whole

_KIND = "fwnet low-rank model 1"


def write(path: str | os.PathLike[str], tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
    """Write tensors and plain facts: `.safetensors` by that library, else by torch."""
    target = Path(path)
    text = json.dumps({"kind": _KIND, **facts})
    seal = _checksum(text, tensors)
    with written_whole(target, f"path={str(target)!r}") as file:
        if target.suffix == ".safetensors":
            whole = {name: tensor.contiguous() for name, tensor in tensors.items()}
            file.write(_safetensors().torch.save(whole, {"facts": text, "sha256": seal}))
        else:
            torch.save({"facts": text, "tensors": tensors, "sha256": seal}, file)


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the facts of a file; a damaged or foreign one is an error."""
    target = Path(path)
    if not target.exists():
        raise FileNotFoundError(f"path={str(target)!r} does not exist.")
    try:
        text, tensors, seal = _contents(target)
        whole = seal == _checksum(text, tensors)
        facts = json.loads(text) if whole else {}
        whole = whole and facts["kind"] == _KIND
    except ImportError:
        raise
    except (PermissionError, IsADirectoryError) as error:
        message = f"path={str(target)!r} cannot be read: {error.strerror}. Choose another file."
        raise OSError(message) from None
    except Exception:  # torch and safetensors raise what they like at bytes that are not theirs
        whole, facts = False, {}
    if not whole:
        raise ValueError(
            f"path={str(target)!r} is not a whole low-rank model of fwnet: it is damaged, or "
            "something else. Save it again."
        )
    return tensors, facts


def _contents(path: Path) -> tuple[str, dict[str, Tensor], str]:
    if path.suffix != ".safetensors":
        found = torch.load(path, map_location="cpu", weights_only=True)
        return found["facts"], found["tensors"], found["sha256"]
    with _safetensors().safe_open(path, "pt") as file:
        notes = file.metadata()
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    return notes["facts"], tensors, notes["sha256"]


def _checksum(text: str, tensors: dict[str, Tensor]) -> str:
    """Of the facts, and of the bits, types and shapes of the tensors: neither format has one."""
    digest = hashlib.sha256(text.encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.contiguous().numpy().tobytes())
    return digest.hexdigest()


def _safetensors() -> Any:
    try:
        import safetensors.torch
    except ImportError:
        raise ImportError(
            'A .safetensors file needs safetensors: pip install "fwnet[learned]", or save to a '
            "path that ends in .pt."
        ) from None
    return safetensors
