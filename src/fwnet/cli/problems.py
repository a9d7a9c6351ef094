"""Problems from files: least squares, the dual of a linear SVM, matrix completion."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
import torch
from torch import Tensor

import fwnet
from fwnet.cli.errors import Failed
from fwnet.cli.tables import numbers, read_arrays, read_csv, whole_numbers
from fwnet.iterates import Iterate, Move, image_of


@final
@dataclass(frozen=True, eq=False)
class FileProblem:
    """A problem from a file, the shape of its x, and all arrays of the file."""

    problem: fwnet.Problem
    shape: tuple[int, ...]
    arrays: Mapping[str, np.ndarray]


_NAMES = {
    "least-squares": ("A", "b"),
    "svm": ("X", "y"),
    "completion": ("rows", "cols", "values"),
}


def read_problem(file: Path, task: str, c: float, target: str | None) -> FileProblem:
    """Read a problem: named arrays of an NPZ file, or a CSV file with a target column."""
    names = _NAMES[task]
    if file.suffix != ".npz":
        table, goal = read_csv(file, target)
        found = [*_positions(file, table), goal] if task == "completion" else [table, goal]
        arrays: dict[str, np.ndarray] = {}
    else:
        arrays = read_arrays(file)
        if not all(name in arrays for name in names):
            wanted = f"{', '.join(names[:-1])} and {names[-1]}"
            raise Failed(f"{file} must hold {wanted}; it has {', '.join(arrays) or 'nothing'}.")
        found = [arrays[name] for name in names]
    if task == "svm":
        return _svm(file, found[0], found[1], c, arrays)
    if task == "completion":
        return _completion(file, found, arrays)
    return _least_squares(file, found[0], found[1], arrays)


def _svm(
    file: Path, X: np.ndarray, y: np.ndarray, c: float, arrays: Mapping[str, np.ndarray]
) -> FileProblem:
    classes, places = np.unique(y, return_inverse=True)
    if len(classes) != 2:
        raise Failed(
            f"{file}: an SVM needs two classes; got {len(classes)}. See `fwnet fit` for more."
        )
    signs = torch.tensor(2.0 * places - 1.0, dtype=torch.float64)
    problem = fwnet.SVMDual(features=_tensor(file, "X", X), y=signs, C=c)
    return FileProblem(problem, (len(signs),), arrays)


def _least_squares(
    file: Path, A: np.ndarray, b: np.ndarray, arrays: Mapping[str, np.ndarray]
) -> FileProblem:
    matrix, goal = _tensor(file, "A", A), _tensor(file, "the target", b)
    if goal.ndim != 2:
        return FileProblem(fwnet.LeastSquares(matrix, goal), (matrix.shape[-1],), arrays)
    if matrix.ndim != 2 or matrix.shape[0] != goal.shape[0]:
        raise Failed(
            f"{file}: A and b must have the same number of rows; got shapes "
            f"{tuple(matrix.shape)} and {tuple(goal.shape)}."
        )
    return FileProblem(_MatrixSquares(matrix, goal), (matrix.shape[1], goal.shape[1]), arrays)


@final
class _MatrixSquares(fwnet.Problem):
    """f(X) = ½ ‖AX − B‖², its image AX as one vector."""

    quadratic = True

    def __init__(self, A: Tensor, B: Tensor) -> None:
        self.A, self.B = A, B
        self.shape = torch.Size((A.shape[1], B.shape[1]))
        self.dtype, self.device = A.dtype, A.device

    def image(self, x: Tensor) -> Tensor:
        return (self.A @ x).flatten(-2)

    def value(self, it: Iterate) -> Tensor:
        return 0.5 * (image_of(it) - self.B.flatten()).square().sum()

    def gradient(self, it: Iterate) -> Tensor:
        return self.A.mT @ (image_of(it).reshape(self.B.shape) - self.B)

    def curvature(self, it: Iterate, move: Move) -> Tensor:
        return move.image.square().sum()

    def gram(self, it: Iterate, directions: Tensor, images: Tensor) -> Tensor:
        return images @ images.mT


def _completion(
    file: Path, found: list[np.ndarray], arrays: Mapping[str, np.ndarray]
) -> FileProblem:
    rows, cols = (
        torch.tensor(whole_numbers(f"{file}: {name}", values))
        for name, values in zip(("rows", "cols"), found, strict=False)
    )
    values = _tensor(file, "values", found[2])
    if rows.numel() == 0 or cols.numel() == 0:
        raise Failed(f"{file} has no entries.")
    shape = (int(rows.max()) + 1, int(cols.max()) + 1)
    if "shape" in arrays:
        given = whole_numbers(f"{file}: shape", arrays["shape"]).ravel().tolist()
        if len(given) != 2:
            raise Failed(f"{file}: shape must hold two numbers; got {given}.")
        shape = (given[0], given[1])
    return FileProblem(fwnet.MatrixCompletion(rows, cols, values, shape), shape, arrays)


def _positions(file: Path, table: np.ndarray) -> list[np.ndarray]:
    if table.shape[1] != 2:
        raise Failed(
            f"{file} must have three columns, row, column and value; got {table.shape[1] + 1}."
        )
    return [table[:, 0], table[:, 1]]


def _tensor(file: Path, name: str, values: np.ndarray) -> Tensor:
    return torch.tensor(numbers(f"{file}: {name}", values))
