"""The state of a training, its history and its folder."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, final, overload

import torch
from torch import Tensor
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from fwnet.learned.checkpoints import has_a_kind
from fwnet.learned.checkpoints import save as save_controller
from fwnet.learned.controllers import Controller
from fwnet.learned.training.ranks import size_and_rank
from fwnet.numerics.files import FileFormat, flattened, make_folder, rebuilt, written_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_STATE = FileFormat(
    "fwnet training",
    1,
    "state of a training",
    "Delete the folder to start anew, or choose another one.",
)
_FILE = "state.safetensors"


class MetaRecord(NamedTuple):
    """One episode: its loss, the validation loss where one was due, horizon and time."""

    step: int
    loss: float
    validation: float | None
    horizon: int
    seconds: float


@final
class MetaHistory(Sequence[MetaRecord]):
    """The records of a training, in order."""

    def __init__(self) -> None:
        self._records: list[MetaRecord] = []

    def append(self, record: MetaRecord) -> None:
        """Add the next record."""
        self._records.append(record)

    @overload
    def __getitem__(self, index: int) -> MetaRecord: ...
    @overload
    def __getitem__(self, index: slice) -> list[MetaRecord]: ...
    def __getitem__(self, index: int | slice) -> MetaRecord | list[MetaRecord]:
        return self._records[index]

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[MetaRecord]:
        return iter(self._records)

    def plot(self, ax: Axes | None = None) -> Axes:
        """The loss of the episodes and of the validations; needs matplotlib."""
        from fwnet.show.plotting import plot_curves

        judged = [r for r in self if r.validation is not None]
        curves: dict[str, tuple[list[Any], list[Any]]] = {
            "training": ([r.step for r in self], [r.loss for r in self]),
            "validation": ([r.step for r in judged], [r.validation for r in judged]),
        }
        return plot_curves(curves, "episode", "meta-loss", ax)


@final
@dataclass
class TrainingState:
    """All that a training needs to go on."""

    controller: Controller
    optimizer: torch.optim.Adam
    best_weights: Tensor
    best_loss: float = float("inf")
    step: int = 0
    waited: int = 0  # validations without a new best
    history: MetaHistory = field(default_factory=MetaHistory)

    @classmethod
    def fresh(cls, controller: Controller, learning_rate: float) -> TrainingState:
        """The state before the first episode."""
        weights = list(controller.parameters())
        optimizer = torch.optim.Adam(weights, learning_rate)
        return cls(controller, optimizer, parameters_to_vector(weights).detach().clone())

    def judge(self, loss: float) -> None:
        """Keep the weights if they are the best so far."""
        self.waited += 1
        if loss < self.best_loss:
            self.waited, self.best_loss = 0, loss
            self.best_weights = parameters_to_vector(self.controller.parameters()).detach().clone()


@final
class Run:
    """A folder with the training's state, its history and the best controller.

    Every file is written whole or not at all; process 0 writes.

    Arguments:
        folder: made if it is not there.
        facts: what must be the same for a training to go on, by name.
    """

    def __init__(self, folder: Path, facts: dict[str, str]) -> None:
        self.folder, self.facts = folder, facts
        make_folder(folder, f"out={str(folder)!r}")

    def restore(self, state: TrainingState) -> None:
        """Continue where the folder's training stopped, if there is one."""
        path = self.folder / _FILE
        if not path.exists():
            return
        contents, tensors = _STATE.read(path)
        _STATE.check_run(f"out={str(self.folder)!r}", contents["run"], self.facts, "training")
        saved = rebuilt(contents["state"], tensors)
        vector_to_parameters(saved["weights"], state.controller.parameters())
        state.optimizer.load_state_dict(saved["optimizer"])
        state.best_weights, state.best_loss = saved["best_weights"], saved["best_loss"]
        state.step, state.waited = saved["step"], saved["waited"]
        for record in saved["history"]:
            state.history.append(MetaRecord(*record))

    def save(self, state: TrainingState) -> None:
        """Write the state, the history and, if `load` can build it, the best controller so far."""
        if size_and_rank()[1] != 0:
            return
        contents: dict[str, Any] = {
            "weights": parameters_to_vector(state.controller.parameters()).detach(),
            "optimizer": state.optimizer.state_dict(),
            "best_weights": state.best_weights,
            "best_loss": state.best_loss,
            "step": state.step,
            "waited": state.waited,
            "history": [tuple(record) for record in state.history],
        }
        facts, tensors = flattened(contents)
        _STATE.write(self.folder / _FILE, {"run": self.facts, "state": facts}, tensors)
        lines = [json.dumps(record._asdict()) for record in state.history]
        with written_whole(self.folder / "history.jsonl") as file:
            file.write("\n".join(lines).encode())
        if not has_a_kind(state.controller):
            return
        now = parameters_to_vector(state.controller.parameters()).detach().clone()
        vector_to_parameters(state.best_weights, state.controller.parameters())
        save_controller(state.controller, self.folder / "controller.fwnet")
        vector_to_parameters(now, state.controller.parameters())
