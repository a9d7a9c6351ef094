"""Files of controllers: weights as safetensors, config and card as JSON beside them in one file.

    tensors   the weights
    metadata  "fwnet": {"format", "features", "kind", "options", "card", "sha256"}

Loading reads numbers and strings, builds one of a fixed list of classes, and never runs code from
the file. The hash covers weights and metadata.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fwnet.learned.controllers import KINDS, Controller
from fwnet.learned.features import FEATURES
from fwnet.numerics.files import written_whole

FORMAT = 1
_SHIPPED = Path(__file__).parent / "shipped"
_SUFFIX = ".fwnet"
_LONGEST = 200  # letters of a name that an error repeats


def save(controller: Controller, path: str | Path, card: Mapping[str, Any] | None = None) -> None:
    """Write a controller to one small file, whole or not at all.

    Arguments:
        path: conventionally ends in .fwnet.
        card: what to know about it, as JSON can say it: data, horizon, validation, licence.

    Example:
        >>> import tempfile, pathlib
        >>> from fwnet import learned
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "mine.fwnet"
        >>> learned.save(learned.LearnedStep(), path, {"trained_on": "nothing yet"})
        >>> learned.load(path).card
        {'trained_on': 'nothing yet'}
    """
    if not isinstance(controller, Controller):
        raise TypeError(f"save(controller) must be a Controller; got {controller!r}.")
    if not has_a_kind(controller):
        raise TypeError(
            f"save(controller) must be of a kind that load can build: {', '.join(KINDS)}; got "
            f"{type(controller).__name__}. Save its state_dict() with torch.save."
        )
    if card is not None and not isinstance(card, Mapping):
        raise TypeError(f"save(card) must be a dictionary; got {card!r}.")
    weights = {k: v.detach().cpu().contiguous() for k, v in controller.state_dict().items()}
    facts = {
        "format": FORMAT,
        "features": FEATURES,
        "kind": type(controller).__name__,
        "options": controller.options,
        "card": dict(card or {}),
    }
    try:
        facts["sha256"] = _hash(facts, weights)
    except (TypeError, ValueError, RecursionError) as error:  # Object of type Tensor is not …
        raise TypeError(f"save(card) must hold what JSON can say: {error}.") from None
    with written_whole(Path(path)) as file:
        file.write(_tools().save(weights, {"fwnet": json.dumps(facts)}))


def has_a_kind(controller: Controller) -> bool:
    """Whether `load` can build such a controller; it builds none that a user has written."""
    return KINDS.get(type(controller).__name__) is type(controller)


def load(name_or_path: str | Path) -> Any:
    """Read a controller: a shipped one by its name, else a file.

    Arguments:
        name_or_path: one of `available()`, or the path of a file that `save` wrote.

    Example:
        >>> from fwnet import learned
        >>> solver = learned.load("simplex-qp").solver(fwnet.Simplex(), tol=1e-5)
        >>> solver(fwnet.Quadratic(torch.diag(torch.arange(1.0, 6.0)))).status
        'converged'
    """
    path, data = _read(name_or_path)
    facts = _facts(path, data)
    weights = _weights(path, data)
    if facts.get("sha256") != _hash(facts, weights):
        raise ValueError(
            f"{path} is corrupted: its contents do not match its hash. Copy or train it again."
        )
    _check_numbers(path, weights)
    try:
        controller = KINDS[facts["kind"]](**facts["options"])
        controller.load_state_dict(weights)
    except (TypeError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(
            f"{path} does not fit the {facts['kind']} of this fwnet: {reason[:200]} Use the fwnet "
            "that wrote it, or train anew."
        ) from None
    controller.card = facts["card"]
    return controller.eval()


def available() -> tuple[str, ...]:
    """The names of the controllers that are shipped."""
    return tuple(sorted(path.stem for path in _SHIPPED.glob("*" + _SUFFIX)))


def _read(name_or_path: str | Path) -> tuple[str, bytes]:
    if not isinstance(name_or_path, str | Path):
        raise TypeError(f"load(name_or_path) must be a name or a path; got {name_or_path!r}.")
    path, asked = Path(name_or_path), repr(str(name_or_path)[:_LONGEST])
    shipped = _SHIPPED / f"{name_or_path}{_SUFFIX}"
    try:
        if path.parent == Path() and not path.suffix and shipped.exists():
            path = shipped
        if path.is_file():
            return asked, path.read_bytes()
        reason = "that is not a file" if path.exists() else "no such file"
    except OSError as error:  # no permission, or a name that is too long
        reason = f"the file cannot be read ({error.strerror})"
    names = ", ".join(map(repr, available()))
    raise FileNotFoundError(
        f"load({asked}): {reason}, and no shipped controller of that name. Shipped are {names}."
    )


def _facts(path: str, data: bytes) -> dict[str, Any]:
    """The metadata, checked before any weight is looked at."""
    length = int.from_bytes(data[:8], "little") if len(data) >= 8 else -1
    if not 2 <= length <= len(data) - 8:
        raise ValueError(f"{path} is truncated, or no controller at all. Copy or train it again.")
    try:
        header = json.loads(data[8 : 8 + length])
        facts = json.loads(header["__metadata__"]["fwnet"])
        version, features, kind = facts["format"], facts["features"], facts["kind"]
        options, card = facts["options"], facts["card"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ValueError(f"{path} is corrupted, or no controller at all.") from None
    if version != FORMAT:
        raise ValueError(
            f"{path} has format {version!r}, this fwnet reads {FORMAT}. Upgrade fwnet, or save it "
            "with this version."
        )
    if features != FEATURES:
        raise ValueError(
            f"{path} was trained on features of version {features!r}, this fwnet computes version "
            f"{FEATURES}: its answers would be wrong. Use the fwnet that wrote it, or train anew."
        )
    if not isinstance(options, dict) or not isinstance(card, dict):
        raise ValueError(f"{path} is corrupted: its options and card are no dictionaries.")
    if not isinstance(kind, str) or kind not in KINDS:
        raise ValueError(f"{path} holds a controller of unknown kind {kind!r}. Upgrade fwnet.")
    return dict(facts)


def _weights(path: str, data: bytes) -> dict[str, Tensor]:
    tools = _tools()
    try:
        return dict(tools.load(data))
    except Exception as error:  # of the library's own kind, which has no other base
        raise ValueError(
            f"{path} is truncated or corrupted ({error}). Copy or train it again."
        ) from None


def _check_numbers(path: str, weights: Mapping[str, Tensor]) -> None:
    """Raise for weights that a network could take only by changing or spreading them."""
    for name, tensor in weights.items():
        if not tensor.is_floating_point():
            raise ValueError(
                f"{path}: weights must be real floating-point numbers; {name} is {tensor.dtype}. "
                "Save the controller with learned.save, or train it again."
            )
        if not bool(torch.isfinite(tensor).all()):
            raise ValueError(
                f"{path}: weights must be finite; {name} is not. Train the controller again."
            )


def _hash(facts: dict[str, Any], weights: Mapping[str, Tensor]) -> str:
    plain = {name: value for name, value in facts.items() if name != "sha256"}
    digest = hashlib.sha256(json.dumps(plain, sort_keys=True).encode())
    for name in sorted(weights):
        tensor = weights[name].contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _tools() -> Any:
    try:
        import safetensors.torch
    except ImportError:
        raise ImportError(
            'controllers are read and written with safetensors: pip install "fwnet[learned]".'
        ) from None
    return safetensors.torch
