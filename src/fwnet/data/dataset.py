"""What `load` returns: points and classes for training and for testing."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, final

import numpy as np


@final
@dataclass(frozen=True, eq=False)
class Dataset:
    """Points `x` with classes `y`, and the same for testing.

        x: (n, *shape),   y: (n,) in 0, …, len(classes) − 1

    It has n points for training, and `dataset[rows]` is `dataset.train(rows)`, so that torch's
    DataLoader takes it as it is.

    Arguments:
        name: as in `load(name)`.
        x: as stored: pixels as uint8 (n, channels, rows, columns), features as float (n, d), or a
            CSR matrix. Read-only.
        y: positions in `classes`, int64.
        x_test, y_test: the same for testing.
        classes: a name for each class.
        source: where the data came from, for reports.
        scale: the largest value a pixel can have, 1 for features.

    Example:
        >>> from fwnet.data import load
        >>> digits = load("digits")
        >>> digits.x.shape, digits.x_test.shape
        ((1198, 1, 8, 8), (599, 1, 8, 8))
        >>> x, y = digits.train()
        >>> x.dtype, float(x.max())
        (dtype('float32'), 1.0)
        >>> from torch.utils.data import DataLoader
        >>> x, y = next(iter(DataLoader(digits, batch_size=32, shuffle=True)))
        >>> x.shape, y.shape
        (torch.Size([32, 1, 8, 8]), torch.Size([32]))
    """

    name: str
    x: Any  # (n, *shape)
    y: np.ndarray  # (n,)
    x_test: Any  # (m, *shape)
    y_test: np.ndarray  # (m,)
    classes: tuple[str, ...]
    source: str
    scale: float = 1.0

    def __post_init__(self) -> None:
        what = f"{self.name} ({self.source})"
        for part, x, y in (("train", self.x, self.y), ("test", self.x_test, self.y_test)):
            if x.ndim < 2 or y.ndim != 1:
                raise ValueError(
                    f"{what}: the {part} part must hold points (n, ...) and classes (n,); got "
                    f"shapes {x.shape} and {y.shape}."
                )
            if x.shape[0] != len(y):
                raise ValueError(
                    f"{what}: the {part} part has {x.shape[0]} points and {len(y)} classes."
                )
            if len(y) and not (y.min() >= 0 and y.max() < len(self.classes)):
                raise ValueError(
                    f"{what}: classes of the {part} part must be in 0..{len(self.classes) - 1}"
                    f"; got {y.min()}..{y.max()}."
                )
        if self.x.shape[1:] != self.x_test.shape[1:]:
            raise ValueError(
                f"{what}: points must have one shape; those for training have "
                f"{self.x.shape[1:]}, those for testing {self.x_test.shape[1:]}."
            )

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, rows: Any) -> tuple[Any, np.ndarray]:
        return self.train(rows)

    def train(self, rows: Any = slice(None)) -> tuple[Any, np.ndarray]:
        """Points for training as float32, pixels scaled to [0, 1], and their classes."""
        return self._scaled(self.x[rows]), self.y[rows].copy()

    def test(self, rows: Any = slice(None)) -> tuple[Any, np.ndarray]:
        """Points for testing as float32, pixels scaled to [0, 1], and their classes."""
        return self._scaled(self.x_test[rows]), self.y_test[rows].copy()

    def fingerprint(self) -> str:
        """Eight digits that identify the content, whatever its source."""
        digest = hashlib.sha256()
        parts: tuple[Any, ...] = (self.x, self.y, self.x_test, self.y_test)
        for part in parts:
            dense = isinstance(part, np.ndarray)
            for array in (part,) if dense else (part.data, part.indices, part.indptr):
                digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()[:8]

    def _scaled(self, x: Any) -> Any:
        floats = x.astype(np.float32)
        return floats if self.scale == 1.0 else floats / np.float32(self.scale)
