"""The training of a deep SVM: rounds of updates, each closed by an exact evaluation."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, final

import torch
from torch import Tensor, nn

from fwnet.estimators.deep.head import Head, solve_head, with_bias
from fwnet.estimators.deep.modes import Mode
from fwnet.estimators.deep.modules import check_features, features_of
from fwnet.numerics.files import FileFormat, flattened, rebuilt
from fwnet.trace import Clock, Status

_FORMAT = FileFormat(
    "fwnet DeepSVC checkpoint",
    1,
    "checkpoint of DeepSVC",
    "Delete it to start anew, or choose another path.",
)


class DeepRound(NamedTuple):
    """What a round reached.

    Arguments:
        t: updates so far.
        loss: 2P*/ΣC of the SVM solved exactly on all training features: between 0 and 1.
        gap: relative duality gap of the head that trained the network, at its last batch.
        accuracy: on the training points.
        validation_accuracy: on the held-out points, NaN without them.
        seconds: so far.
    """

    t: int
    loss: float
    gap: float
    accuracy: float
    validation_accuracy: float
    seconds: float

    def __str__(self) -> str:
        parts = [f"loss {self.loss:.4f}"]
        if not math.isnan(self.gap):
            parts.append(f"gap {self.gap:.1e}")
        parts.append(f"accuracy {self.accuracy:.4f}")
        if not math.isnan(self.validation_accuracy):
            parts.append(f"validation {self.validation_accuracy:.4f}")
        return ", ".join(parts)


@final
@dataclass(frozen=True, eq=False)
class LabelledPoints:
    """Points `(n, …)` with their classes `(n,)` and labels −1, +1 `(problems, n)`."""

    X: Tensor
    classes: Tensor
    labels: Tensor


@final
@dataclass(frozen=True)
class TrainingSchedule:
    """How long and in what portions; counts of updates, seconds."""

    max_iter: int
    batch_size: int | None
    check_every: int | None
    patience: int | None
    max_time: float | None
    seed: int


@final
class Training:
    """A network, its optimizer and the SVM on top, and the best network so far.

    Arguments:
        module: the kernel network, changed in place.
        optimizer: of its parameters.
        mode: how the SVM moves.
        train, held_out: points; `held_out` may be None.
        C: weights of the errors, `(n,)`.
        schedule: limits.
    """

    def __init__(
        self,
        module: nn.Module,
        optimizer: torch.optim.Optimizer,
        mode: Mode,
        train: LabelledPoints,
        held_out: LabelledPoints | None,
        C: Tensor,
        schedule: TrainingSchedule,
    ) -> None:
        self.module, self.optimizer, self.mode = module, optimizer, mode
        self.train, self.held_out = train, held_out
        self.C, self.schedule = C, schedule
        self.t, self.gap = 0, float("nan")
        self.history: list[DeepRound] = []
        self.best_score: tuple[float, ...] = ()
        self.best_round = 0
        self.best_weights: dict[str, Any] = {}
        n = train.X.shape[0]
        self.size = n if schedule.batch_size is None else min(schedule.batch_size, n)
        per_epoch = n // self.size
        every = schedule.check_every
        self.every = every or (10 if per_epoch == 1 else per_epoch)

    def run(
        self, checkpoint: Path | None, facts: dict[str, Any], show: Callable[[DeepRound], None]
    ) -> Status:
        """Train until a limit is reached; return why. The module then has the best weights seen."""
        clock = Clock(self.schedule.max_time, self._resume(checkpoint, facts))
        status: Status | None = None
        try:
            if not self.history:
                self._close_round(clock.seconds)
            while status is None:
                show(self.history[-1])
                status = self._ended(clock)
                while status is None:
                    self._update()
                    if clock.is_over:
                        status = "max_seconds"
                    elif self.t % self.every == 0 or self.t == self.schedule.max_iter:
                        break
                if self.t > self.history[-1].t:
                    self._close_round(clock.seconds)
                    if checkpoint is not None:
                        self._save(checkpoint, facts)
        except (KeyboardInterrupt, FloatingPointError) as error:
            if not self.best_weights:
                raise
            status = "interrupted" if isinstance(error, KeyboardInterrupt) else "non_finite"
        self.module.load_state_dict(self.best_weights)
        return status

    def solve(self) -> tuple[Tensor, Head]:
        """Features of all training points with the bias's, and the exact head on them."""
        H = with_bias(features_of(self.module, self.train.X))
        if not bool(H.isfinite().all()):
            raise FloatingPointError(
                "DeepSVC(module=...) maps some training points to infinite or NaN features. "
                "Scale X, or start from smaller weights."
            )
        return H, solve_head(H, self.train.labels, self.C)

    def _ended(self, clock: Clock) -> Status | None:
        schedule = self.schedule
        if self.t >= schedule.max_iter:
            return "max_steps"
        waited = len(self.history) - 1 - self.best_round
        if schedule.patience is not None and waited >= schedule.patience:
            return "stalled"
        return "max_seconds" if clock.is_over else None

    def _update(self) -> None:
        """One update of the network."""
        points = self._points()
        X = self.train.X[points]
        self.module.train()
        features = check_features(self.module(X), X.shape[0])
        if not bool(features.isfinite().all()):
            raise FloatingPointError(f"the features of update {self.t} are not finite.")
        n = self.train.X.shape[0]
        labels = self.train.labels[:, points]
        # The sum over a batch stands for the sum over all points.
        C = self.C[points] * (n / len(points))
        loss, head = self.mode.loss(features, labels, C, points)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.t, self.gap = self.t + 1, float(head.gap.max())

    def _points(self) -> Tensor:
        """The batch of update t; the order of an epoch depends on the seed and its number only."""
        n = self.train.X.shape[0]
        device = self.train.X.device
        if self.size == n:
            return torch.arange(n, device=device)
        epoch, place = divmod(self.t, n // self.size)
        generator = torch.Generator().manual_seed(self.schedule.seed + epoch)
        order = torch.randperm(n, generator=generator)
        return order[place * self.size : (place + 1) * self.size].to(device)

    def _close_round(self, seconds: float) -> None:
        """Solve the head exactly, record, and keep the network if it is the best so far."""
        H, head = self.solve()
        if not self.history:
            self.mode.begin(head)
        loss = float(2 * head.primal.mean() / self.C.sum())
        accuracy = _accuracy(head.weights @ H.mT, self.train)
        score: tuple[float, ...] = (-loss,)
        validation = float("nan")
        if self.held_out is not None:
            decisions = head.weights @ with_bias(features_of(self.module, self.held_out.X)).mT
            validation = _accuracy(decisions, self.held_out)
            slack = (1 - self.held_out.labels * decisions).clamp_min(0)
            score = (validation, -float(slack.square().mean()))
        self.history.append(DeepRound(self.t, loss, self.gap, accuracy, validation, seconds))
        if not self.best_weights or score > self.best_score:
            self.best_score, self.best_round = score, len(self.history) - 1
            weights = self.module.state_dict()
            self.best_weights = {name: value.clone() for name, value in weights.items()}

    def _save(self, path: Path, facts: dict[str, Any]) -> None:
        """Write the checkpoint of this round, whole or not at all."""
        device = self.train.X.device
        contents = {
            "t": self.t,
            "gap": self.gap,
            "module": self.module.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "mode": self.mode.state,
            "history": [tuple(record) for record in self.history],
            "best": [self.best_score, self.best_round, self.best_weights],
            "random": torch.get_rng_state(),
            "random_cuda": torch.cuda.get_rng_state(device) if device.type == "cuda" else None,
        }
        plain, tensors = flattened(contents)
        _FORMAT.write(path, {"fit": facts, "contents": plain}, tensors, _name(path))

    def _resume(self, path: Path | None, facts: dict[str, Any]) -> float:
        """Take up the checkpoint, if there is one; return the seconds that it had used."""
        if path is None or not path.exists():
            return 0.0
        saved, tensors = _FORMAT.read(path, _name(path))
        _FORMAT.check_run(_name(path), saved["fit"], facts)
        contents, device = rebuilt(saved["contents"], tensors), self.train.X.device
        self.t, self.gap = contents["t"], contents["gap"]
        self.module.load_state_dict(contents["module"])
        self.optimizer.load_state_dict(contents["optimizer"])
        state = contents["mode"]
        self.mode.state = None if state is None else state.to(device)
        self.history = [DeepRound(*record) for record in contents["history"]]
        self.best_score, self.best_round, self.best_weights = contents["best"]
        torch.set_rng_state(contents["random"])
        if contents["random_cuda"] is not None:
            torch.cuda.set_rng_state(contents["random_cuda"], device)
        return self.history[-1].seconds


def _name(path: Path) -> str:
    """What an error calls a checkpoint."""
    return f"checkpoint={str(path)!r}"


def _accuracy(decisions: Tensor, points: LabelledPoints) -> float:
    """The share of points whose class has the largest decision value `(problems, n)`."""
    if decisions.shape[0] == 1:
        found = (decisions[0] > 0).to(points.classes)
    else:
        found = decisions.argmax(0)
    return float((found == points.classes).double().mean())
