"""Files of controllers: a `FileFormat` of the weights, with these facts.

    {"features", "kind", "options", "card"}

Loading builds one of a fixed list of classes and never runs code from the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fwnet.learned.controllers import KINDS as SLOT_KINDS
from fwnet.learned.controllers import Learned, Slots
from fwnet.learned.features import FEATURES
from fwnet.learned.networks import HierarchicalUpdates, LSTMUpdates
from fwnet.numerics.files import DamagedFile, FileFormat, ForeignFile

KINDS: dict[str, type[Learned]] = {  # what a file may build
    **SLOT_KINDS,
    "HierarchicalUpdates": HierarchicalUpdates,
    "LSTMUpdates": LSTMUpdates,
}
FORMAT = FileFormat("fwnet", 1, "controller", "Copy or train it again.")
_SHIPPED = Path(__file__).parent / "shipped"
_SUFFIX = ".fwnet"
BEST = f"controller{_SUFFIX}"  # of a training, in its folder
_LONGEST = 200  # letters of a name that an error repeats


def save(controller: Learned, path: str | Path, card: Mapping[str, Any] | None = None) -> None:
    """Write a controller to one small file, whole or not at all.

    Arguments:
        path: conventionally ends in .fwnet.
        card: what to know about it, as JSON can say it: data, horizon, validation, licence. It
            replaces the controller's own, `{**controller.card, ...}` extends it.

    Example:
        >>> import tempfile, pathlib
        >>> from fwnet import learned
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "mine.fwnet"
        >>> learned.save(learned.LearnedStep(), path, {"trained_on": "nothing yet"})
        >>> learned.load(path).card
        {'trained_on': 'nothing yet'}
    """
    if not isinstance(controller, Learned):
        raise TypeError(f"save(controller) must be a Controller; got {controller!r}.")
    if isinstance(controller, Slots):
        slots = list(controller.controllers)
        raise TypeError(
            f"save(controller) writes one controller; got Slots of {', '.join(slots)}. Save each, "
            f"as in save(slots[{slots[0]!r}], path), and build Slots from them again."
        )
    if not has_a_kind(controller):
        raise TypeError(
            f"save(controller) must be of a kind that load can build: {', '.join(KINDS)}; got "
            f"{type(controller).__name__}. Save its state_dict() with torch.save."
        )
    if card is not None and not isinstance(card, Mapping):
        raise TypeError(f"save(card) must be a dictionary; got {card!r}.")
    controller.check_weights()
    facts = {
        "features": FEATURES,
        "kind": type(controller).__name__,
        "options": controller.options,
        "card": dict(controller.card if card is None else card),
    }
    try:
        FORMAT.write(Path(path), facts, controller.state_dict())
    except (TypeError, ValueError, RecursionError) as error:  # Object of type Tensor is not …
        raise TypeError(f"save(card) must hold what JSON can say: {error}.") from None


def has_a_kind(controller: Learned) -> bool:
    """Whether `load` can build it: it builds the kinds of this library, not a user's own."""
    return KINDS.get(type(controller).__name__) is type(controller)


def load(name_or_path: str | Path) -> Any:
    """Read a controller: a shipped one by its name, else a file or the folder of a training.

    Arguments:
        name_or_path: one of `available()`, the path of a file that `save` wrote, or a folder that
            `meta_train` or `fwnet meta-train` wrote.

    Example:
        >>> from fwnet import learned
        >>> solver = learned.load("simplex-qp").solver(fwnet.Simplex(), tol=1e-5)
        >>> solver(fwnet.Quadratic(torch.diag(torch.arange(1.0, 6.0)))).status
        'converged'
    """
    path, asked = _found(name_or_path)
    facts, weights = FORMAT.read(path, asked)
    _check_facts(asked, facts)
    _check_numbers(asked, weights)
    try:
        controller = KINDS[facts["kind"]](**facts["options"])
        controller.load_state_dict(weights)
    except (TypeError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise ForeignFile(
            f"{asked} does not fit the {facts['kind']} of this fwnet: {reason[:200]} Use the fwnet "
            "that wrote it, or train anew."
        ) from None
    controller.card = facts["card"]
    return controller.eval()


def available() -> tuple[str, ...]:
    """The names of the controllers that are shipped.

    Example:
        >>> from fwnet import learned
        >>> "simplex-qp" in learned.available()
        True
    """
    return tuple(sorted(path.stem for path in _SHIPPED.glob("*" + _SUFFIX)))


def _found(name_or_path: str | Path) -> tuple[Path, str]:
    """The path of a file, and what to call it in an error."""
    if not isinstance(name_or_path, str | Path):
        raise TypeError(f"load(name_or_path) must be a name or a path; got {name_or_path!r}.")
    path, asked = Path(name_or_path), repr(str(name_or_path)[:_LONGEST])
    shipped = _SHIPPED / f"{name_or_path}{_SUFFIX}"
    try:
        if path.parent == Path() and not path.suffix and shipped.exists():
            path = shipped
        if (path / BEST).is_file():
            path = path / BEST
        if path.is_file():
            return path, asked
        reason = "that is not a file" if path.exists() else "no such file"
    except (OSError, ValueError) as error:  # no permission, a name too long or with a zero byte
        reason = f"the file cannot be read ({getattr(error, 'strerror', error)})"
    names = ", ".join(map(repr, available()))
    raise FileNotFoundError(
        f"load({asked}): {reason}, and no shipped controller of that name. Shipped are {names}."
    )


def _check_facts(path: str, facts: dict[str, Any]) -> None:
    """Raise unless this fwnet knows the kind of controller and the features it reads."""
    features, kind = facts.get("features"), facts.get("kind")
    if features != FEATURES:
        raise ForeignFile(
            f"{path} was trained on features of version {features!r}, this fwnet computes version "
            f"{FEATURES}: its answers would be wrong. Use the fwnet that wrote it, or train anew."
        )
    if not isinstance(kind, str) or kind not in KINDS:
        raise ForeignFile(f"{path} holds a controller of unknown kind {kind!r}. Upgrade fwnet.")
    if not all(isinstance(facts.get(name), dict) for name in ("options", "card")):
        raise DamagedFile(f"{path} is corrupted: its options and card are no dictionaries.")


def _check_numbers(path: str, weights: Mapping[str, Tensor]) -> None:
    """Raise for weights that a network could take only by changing or spreading them."""
    for name, tensor in weights.items():
        if not tensor.is_floating_point():
            raise DamagedFile(
                f"{path}: weights must be real floating-point numbers; {name} is {tensor.dtype}. "
                "Save the controller with learned.save, or train it again."
            )
        if not bool(torch.isfinite(tensor).all()):
            raise DamagedFile(
                f"{path}: weights must be finite; {name} is not. Train the controller again."
            )
