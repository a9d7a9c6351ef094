"""LowRankModel: W = U diag(s) Vᵀ, what a fit writes and what predicts."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor

from fwnet.estimators.low_rank.rows import Block
from fwnet.numerics.files import FileFormat, make_folder, write_text

_FILE, _NOTES = "model.safetensors", "model.json"
_FORMAT = FileFormat("LowRankModel", 1, "model of a distributed fit", "Run its fit again.")


@final
@dataclass(frozen=True, eq=False)
class LowRankModel:
    """A linear classifier with a low-rank weight matrix.

        scores = X U diag(s) Vᵀ,   prediction = argmax over the classes

    Arguments:
        U, s, V: singular vectors and values of W, `(d, r)`, `(r,)`, `(m, r)`; Σ s <= radius.
        radius: of the trace-norm ball.
        value: mean loss on the training rows.
        gap: certified duality gap; the loss is at most this far above the minimum.
        steps: how many were taken.
        config: of the fit, plain values.

    Example:
        >>> from fwnet.distributed import LowRankModel
        >>> U, s, V = torch.eye(3)[:, :1], torch.ones(1), torch.eye(2)[:, :1]
        >>> model = LowRankModel(U, s, V, radius=1.0, value=0.5, gap=0.0, steps=1, config={})
        >>> model.predict(torch.tensor([[2.0, 0.0, 0.0], [-2.0, 0.0, 0.0]]))
        tensor([0, 1])
    """

    U: Tensor
    s: Tensor
    V: Tensor
    radius: float
    value: float
    gap: float
    steps: int
    config: Mapping[str, Any]

    @property
    def classes(self) -> int:
        """m."""
        return len(self.V)

    @property
    def rank(self) -> int:
        """r."""
        return len(self.s)

    def scores(self, X: Any) -> Tensor:
        """Logits `(n, m)` of rows `(n, d)`: a tensor, an array or a SciPy CSR matrix."""
        sparse = hasattr(X, "tocsr")
        X = X.tocsr() if sparse else torch.as_tensor(X)
        if X.ndim != 2 or X.shape[1] != len(self.U):
            raise ValueError(f"X must be (n, {len(self.U)}) for this model; got {tuple(X.shape)}.")
        rows = Block(X.astype(self.U.numpy().dtype) if sparse else X.to(self.U.dtype), None)
        return (rows.times(self.U) * self.s.to(self.U.dtype)) @ self.V.mT

    def predict(self, X: Any) -> Tensor:
        """The most probable class of each row."""
        return self.scores(X).argmax(-1)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write model.safetensors (the model) and model.json (what a person reads)."""
        folder = Path(folder)
        make_folder(folder)
        facts = {name: getattr(self, name) for name in ("radius", "value", "gap", "steps")}
        facts["config"] = dict(self.config)
        _FORMAT.write(folder / _FILE, facts, {"U": self.U, "s": self.s, "V": self.V})
        notes = {**facts, "rank": self.rank, "classes": self.classes}
        write_text(folder / _NOTES, json.dumps(notes, indent=2) + "\n")


def load_model(folder: str | os.PathLike[str]) -> LowRankModel:
    """Read what `LowRankModel.save` wrote; its checksum is verified, no code of it is run.

    Example:
        >>> import os, tempfile
        >>> from fwnet.distributed import FitConfig, fit, load_model, write_shards
        >>> folder = tempfile.mkdtemp()
        >>> X, y = torch.eye(6).repeat(5, 1), torch.arange(30) % 3
        >>> parts = write_shards(os.path.join(folder, "parts"), X, y)
        >>> path = os.path.join(folder, "model")
        >>> _ = fit(parts, path, FitConfig(classes=3, radius=9.0, tol=0.5))
        >>> load_model(path).predict(torch.eye(6)[:3])
        tensor([0, 1, 2])
    """
    facts, tensors = _FORMAT.read(Path(folder) / _FILE)
    return LowRankModel(tensors["U"], tensors["s"], tensors["V"], **facts)
