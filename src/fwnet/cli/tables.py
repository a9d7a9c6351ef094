"""Files of points as arrays: CSV, NPZ, LIBSVM, or a data set by name."""

from __future__ import annotations

import csv
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from fwnet.cli.errors import Failed
from fwnet.data import NAMES, load


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an NPZ file by name."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except FileNotFoundError:
        raise Failed(f"there is no file {path}.") from None
    except (ValueError, OSError, zipfile.BadZipFile, AttributeError) as error:
        raise Failed(f"{path} is not an NPZ file: {error}.") from None


def read_csv(path: Path, target: str | None) -> tuple[np.ndarray, np.ndarray]:
    """Numbers (n, d) and the target column (n,) as texts; the last column if none is named."""
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            rows = [row for row in csv.reader(file) if row]
    except FileNotFoundError:
        raise Failed(f"there is no file {path}.") from None
    except (UnicodeDecodeError, csv.Error, OSError) as error:
        raise Failed(f"{path} is not a CSV file: {error}.") from None
    if not rows:
        raise Failed(f"{path} is empty.")
    header = None if any(_number(text) is not None for text in rows[0]) else rows.pop(0)
    if not rows:
        raise Failed(f"{path} has a header and no rows.")
    width = len(rows[0])
    for i, row in enumerate(rows):
        if len(row) != width:
            raise Failed(f"{path}: row {i + 1} has {len(row)} columns, the first has {width}.")
    column = _column(path, target, header, width)
    values = np.empty((len(rows), width - 1))
    for i, row in enumerate(rows):
        for j, text in enumerate(row[:column] + row[column + 1 :]):
            number = _number(text)
            if number is None or not np.isfinite(number):
                raise Failed(f"{path}: row {i + 1} has {text!r}, which is not a finite number.")
            values[i, j] = number
    return values, np.array([row[column] for row in rows])


def read_points(source: str, target: str | None) -> tuple[Any, np.ndarray]:
    """Points and their classes, from a data set by name or a file by its suffix."""
    if source in NAMES:
        dataset = load(source)
        x, y = dataset.train()
        names = np.array(dataset.classes)
        return x.reshape(len(y), -1) if isinstance(x, np.ndarray) else x, names[y]
    path = Path(source)
    if path.suffix == ".csv":
        return read_csv(path, target)
    if path.suffix == ".npz":
        arrays = read_arrays(path)
        for points, classes in (("X", "y"), ("train_x", "train_y")):
            if points in arrays and classes in arrays:
                return arrays[points], arrays[classes]
        raise Failed(
            f"{path} must hold arrays X and y, or train_x and train_y as `fwnet features` writes "
            f"them; it holds {', '.join(arrays)}."
        )
    if not path.is_file():
        raise Failed(f"there is no file {path}, and no data set of that name: {', '.join(NAMES)}.")
    from sklearn.datasets import load_svmlight_file

    try:
        return load_svmlight_file(str(path))
    except ValueError as error:
        raise Failed(f"{path} is not a file in LIBSVM format: {error}.") from None


def _column(path: Path, target: str | None, header: list[str] | None, width: int) -> int:
    if target is None:
        return width - 1
    if header is not None and target in header:
        return header.index(target)
    if target.lstrip("-").isdigit() and -width <= int(target) < width:
        return int(target) % width
    columns = ", ".join(header) if header else f"numbers 0 to {width - 1}"
    raise Failed(f"{path} has no column {target!r}; it has {columns}.")


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
