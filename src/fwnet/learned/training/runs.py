"""The state of a training, its history and its folder."""

from __future__ import annotations

import json
import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, final

import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from fwnet.learned.checkpoints import has_a_kind
from fwnet.learned.checkpoints import save as save_controller
from fwnet.learned.controllers import Learned, Slots
from fwnet.learned.training.ranks import size_and_rank
from fwnet.numerics.files import (
    FileFormat,
    fingerprint,
    flattened,
    make_folder,
    rebuilt,
    write_text,
)
from fwnet.show.plotting import plot_curves

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_STATE = FileFormat(
    "fwnet training",
    1,
    "state of a training",
    "Delete the folder to start anew, or choose another one, where meta_train can begin with the "
    "weights that are trained already.",
)
_FILE = "state.safetensors"
_SHARE = 0.05  # of the time of a training that goes into saving it
_KEPT = ("mean", "updates", "best_weights", "first", "best_loss", "step", "waited")  # in the file


class MetaRecord(NamedTuple):
    """One episode: its loss, the validation loss where one was due, horizon and time.

    Example:
        >>> from fwnet import learned
        >>> learned.MetaRecord(step=20, loss=-1.5, validation=-1.6, horizon=20, seconds=4.0).loss
        -1.5
    """

    step: int
    loss: float
    validation: float | None
    horizon: int
    seconds: float


@final
class MetaHistory(list[MetaRecord]):
    """The records of a training, in order.

    Attributes:
        initial: the validation loss of the initial weights; None before it is known.
        learning_rate: of the training; NaN if nothing was trained.
        skipped: stretches that changed nothing, because their gradient was not finite.
        attempts: the histories of all restarts and learning rates; this one is the best of them.

    Example:
        >>> from fwnet import learned
        >>> config = learned.MetaConfig(steps=2, unroll=5, batch=2)
        >>> family = learned.families.QuadraticFamily(n=8)
        >>> _, history = learned.meta_train(learned.LearnedStep(), family, config)
        >>> [record.step for record in history]
        [0, 1]
    """

    def __init__(self) -> None:
        super().__init__()
        self.initial: float | None = None
        self.learning_rate = math.nan
        self.skipped = 0
        self.attempts: tuple[MetaHistory, ...] = (self,)

    def __repr__(self) -> str:
        found = self.validations
        judged = f", validation {found[0]:.4g} to {min(found):.4g}" if found else ""
        return f"MetaHistory({len(self)} episodes{judged})"

    @property
    def validations(self) -> list[float]:
        """The validation losses, that of the initial weights in front."""
        first = [] if self.initial is None else [self.initial]
        return first + [r.validation for r in self if r.validation is not None]

    @property
    def failed(self) -> bool:
        """Whether training found nothing better than the initial weights, which it returns."""
        found = self.validations
        return not any(value < found[0] for value in found[1:])

    def plot(self, ax: Axes | None = None) -> Axes:
        """The loss of the episodes, and of the validations from the initial weights on.

        Needs matplotlib.
        """
        judged = [r.step + 1 for r in self if r.validation is not None]
        first = [] if self.initial is None else [0]
        curves: dict[str, tuple[list[Any], list[Any]]] = {
            "training": ([r.step for r in self], [r.loss for r in self]),
            "validation": (first + judged, self.validations),
        }
        return plot_curves(curves, "episode", "meta-loss", ax)


@final
@dataclass
class TrainingState:
    """Everything that is needed to resume a training.

    Arguments:
        learned: what is trained.
        optimizer: of its weights.
        restart: the number of its initial weights.
        mean: of the weights along the updates, flat.
        updates: of the weights.
        best_weights: by validation, flat.
        first: fingerprint of the initial weights.
        best_loss: the validation loss of these.
        step: episodes done.
        waited: validations without a new best.
        history: the records so far.
    """

    learned: nn.Module
    optimizer: torch.optim.Adam
    restart: int
    mean: Tensor
    best_weights: Tensor
    first: str
    best_loss: float = math.inf
    updates: int = 0
    step: int = 0
    waited: int = 0
    history: MetaHistory = field(default_factory=MetaHistory)

    @classmethod
    def begin(cls, learned: nn.Module, learning_rate: float, restart: int) -> TrainingState:
        """The state before the first episode."""
        weights = list(learned.parameters())
        optimizer = torch.optim.Adam(weights, learning_rate)
        flat = parameters_to_vector(weights).detach().clone()
        state = cls(learned, optimizer, restart, flat, flat, fingerprint(flat))
        state.history.learning_rate = learning_rate
        return state

    def update(self, keep: float) -> None:
        """One update of the weights and of their mean, which forgets the first ones soon.

        mean <- k · mean + (1 − k) · weights,   k = min(keep, (1 + t)/(10 + t))
        """
        self.optimizer.step()
        self.updates += 1
        now = parameters_to_vector(self.learned.parameters()).detach()
        share = min(keep, (1 + self.updates) / (10 + self.updates))
        self.mean = torch.lerp(now, self.mean, share) if keep else now

    def validate(self, judge: Callable[[nn.Module], float]) -> float:
        """The validation loss of the mean of the weights, which is kept if it is the best."""
        with temporary_weights(self.learned, self.mean):
            loss = judge(self.learned)
        self.keep_if_best(loss)
        return loss

    def keep_if_best(self, loss: float) -> None:
        """Keep the mean of the weights if its loss is the least; one that is NaN never is."""
        self.waited += 1
        if loss < self.best_loss:
            self.waited, self.best_loss, self.best_weights = 0, loss, self.mean.clone()

    def write_cards(self, facts: dict[str, str]) -> None:
        """Say on the card of every part how it was trained, and how far validation came."""
        config = {k: v for k, v in facts.items() if k not in ("controller", "family", "solver")}
        for part in parts_of(self.learned).values():
            if isinstance(part, Learned):
                part.card = {
                    "trained_on": facts["family"],
                    **({"solver": facts["solver"]} if "solver" in facts else {}),
                    "episodes": self.step,
                    "validation": {"first": self.history.initial, "best": self.best_loss},
                    "torch": torch.__version__,
                    "config": config,
                }

    def contents(self) -> dict[str, Any]:
        """What a file keeps of it."""
        history = self.history
        return {
            "weights": parameters_to_vector(self.learned.parameters()).detach(),
            "optimizer": self.optimizer.state_dict(),
            **{name: getattr(self, name) for name in _KEPT},
            "initial": history.initial,
            "skipped": history.skipped,
            "history": [tuple(record) for record in history],
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Resume from the contents of a file, whatever weights were given."""
        vector_to_parameters(saved["weights"], self.learned.parameters())
        self.optimizer.load_state_dict(saved["optimizer"])
        for name in _KEPT:
            setattr(self, name, saved.get(name, getattr(self, name)))
        self.history.initial, self.history.skipped = saved["initial"], saved["skipped"]
        for record in saved["history"]:
            self.history.append(MetaRecord(*record))


@final
class TrainingFolder:
    """A folder with the states of a training, its history and the best controller.

    Every file is written whole or not at all; process 0 writes.

    Arguments:
        folder: made if it is not there.
        facts: what must be the same to resume a training, by name.
    """

    def __init__(self, folder: Path, facts: dict[str, str]) -> None:
        self.folder, self.facts = folder, facts
        self.due = -math.inf  # on the clock: saving is worth its time
        make_folder(folder, f"out={str(folder)!r}")

    def restore(self, attempts: Sequence[TrainingState]) -> None:
        """Continue where the folder's training stopped, if there is one."""
        path = self.folder / _FILE
        if not path.exists():
            return
        contents, tensors = _STATE.read(path)
        _STATE.check_run(f"out={str(self.folder)!r}", contents["run"], self.facts, "training")
        kept = rebuilt(contents["attempts"], tensors)
        given = [state.first for state in attempts]
        for state, saved in zip(attempts, kept, strict=True):
            state.restore(saved)
        if given != [state.first for state in attempts]:
            warnings.warn(
                f"out={str(self.folder)!r} continues a training that began with other weights; "
                "those that are given are not used. To train them, choose another folder; to begin "
                "with the same ones in every run, call torch.manual_seed before you make them.",
                stacklevel=3,
            )

    def save_if_due(self, attempts: Sequence[TrainingState]) -> None:
        """Save, unless the last time was so recent that saving would take more than its share."""
        start = time.perf_counter()
        if start >= self.due:
            self.save(attempts)
            end = time.perf_counter()
            self.due = end + (end - start) * (1 / _SHARE - 1)

    def save(self, attempts: Sequence[TrainingState]) -> None:
        """Write the states, the history and, if `load` can build them, the best controllers."""
        if size_and_rank()[1] != 0:
            return
        facts, tensors = flattened([state.contents() for state in attempts])
        _STATE.write(self.folder / _FILE, {"run": self.facts, "attempts": facts}, tensors)
        lines = [
            json.dumps({"attempt": place, **record._asdict()})
            for place, state in enumerate(attempts)
            for record in state.history
        ]
        write_text(self.folder / "history.jsonl", "\n".join(lines))
        best = best_of(attempts)
        best.write_cards(self.facts)
        for name, part in parts_of(best.learned).items():
            if isinstance(part, Learned) and has_a_kind(part):
                with temporary_weights(best.learned, best.best_weights):
                    save_controller(part, self.folder / f"{name}.fwnet")


def best_of(attempts: Sequence[TrainingState]) -> TrainingState:
    """The attempt that validation chooses; the first of equal ones."""
    return min(attempts, key=lambda state: state.best_loss)


@contextmanager
def temporary_weights(learned: nn.Module, weights: Tensor) -> Iterator[None]:
    """What is trained with other weights, flat, for a while."""
    now = parameters_to_vector(learned.parameters()).detach().clone()
    vector_to_parameters(weights.clone(), learned.parameters())
    try:
        yield
    finally:
        vector_to_parameters(now, learned.parameters())


def parts_of(learned: nn.Module) -> dict[str, nn.Module]:
    """What is saved, by the name of its file: a controller, or those of several slots."""
    if not isinstance(learned, Slots):
        return {"controller": learned}
    found = dict(learned.controllers.items())
    return found if len(found) > 1 else {"controller": next(iter(found.values()))}
