"""Files of points as arrays or tables: CSV, Parquet, NPZ, LIBSVM, or a data set by name."""

from __future__ import annotations

import csv
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np

from fwnet.cli.errors import Failed, say
from fwnet.data import NAMES, load
from fwnet.data.load import svmlight
from fwnet.numerics.optional import optional

Answers = tuple[np.ndarray, np.ndarray]  # which points have one (n,), and these


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an NPZ file by name."""
    try:
        # Check first: NumPy would take any other file for a pickle or .npy.
        if path.is_file() and not zipfile.is_zipfile(path):
            raise Failed(f"{path} is not an NPZ file, or is truncated. Write it with numpy.savez.")
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except Failed:
        raise
    except FileNotFoundError:
        raise Failed(f"there is no file {path}.") from None
    except MemoryError:
        raise Failed(f"{path} does not fit into memory.") from None
    except Exception as error:  # zip, zlib, lzma and NumPy share no other base
        raise Failed(f"{path} is not an NPZ file: {error}.") from None
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):  # the bytes of a file that is no .npy
            raise Failed(
                f"{path} holds {name!r}, which is not an array. Write it with numpy.savez."
            )
    return arrays


def numbers(name: str, values: np.ndarray, bounds: bool = False) -> np.ndarray:
    """An array as float64, finite unless it holds bounds; raises if it is not numeric."""
    if np.iscomplexobj(values):
        raise Failed(f"{name} must hold real numbers; got complex ones.")
    check_kind(name, values)
    try:
        floats = np.asarray(values, dtype=float)
    except (ValueError, TypeError):
        found = (_number(str(text)) for text in np.ravel(values))
        floats = np.array([np.nan if number is None else number for number in found])
    good = ~np.isnan(floats) if bounds else np.isfinite(floats)
    if not good.all():
        place = int(np.flatnonzero(~good.ravel())[0])
        raise Failed(
            f"{name} must hold finite numbers; entry {place} is {str(np.ravel(values)[place])!r}."
        )
    return floats


def check_kind(name: str, values: np.ndarray) -> None:
    """Reject dates, time spans and records, which NumPy would convert without an error."""
    if values.dtype.kind in "mMV":
        raise Failed(
            f"{name} must hold numbers; got {values.dtype}. Convert it first, such as dates to "
            "days as floats."
        )


def whole_numbers(name: str, values: np.ndarray) -> np.ndarray:
    """An array as int64; raises unless all entries are whole."""
    floats = numbers(name, values)
    if not (floats == floats.round()).all() or np.abs(floats).max(initial=0) >= 2**53:
        raise Failed(f"{name} must hold whole numbers.")
    return floats.astype(np.int64)


def read_csv(path: Path, target: str | None) -> tuple[np.ndarray, np.ndarray]:
    """Numbers (n, d), and the target column (n,) as text, by default the last one."""
    lines = _csv_lines(path)
    width = len(lines[0][1])
    header = None if any(_number(text) is not None for text in lines[0][1]) else lines.pop(0)[1]
    if not lines:
        raise Failed(f"{path} has a header but no rows.")
    column = _column(path, target, header, width)
    values = np.empty((len(lines), width - 1))
    for i, (line, row) in enumerate(lines):
        for j, text in enumerate(row[:column] + row[column + 1 :]):
            number = _number(text)
            if number is None or not np.isfinite(number):
                raise Failed(f"{path}: line {line} has {text!r}, which is not a finite number.")
            values[i, j] = number
        if not row[column].strip():
            raise Failed(f"{path}: line {line} has no target; a comma at its end adds a column.")
    return values, np.array([row[column] for _, row in lines])


def _csv_lines(path: Path) -> list[tuple[int, list[str]]]:
    """Line numbers and cells; at least one line, all of one length of at least two."""
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file)
            lines = [(reader.line_num, row) for row in reader if row]
    except FileNotFoundError:
        raise Failed(f"there is no file {path}.") from None
    except UnicodeDecodeError as error:
        raise _not_utf8(path, error) from None
    except (csv.Error, OSError) as error:
        raise Failed(f"{path} is not a CSV file: {error}.") from None
    if not lines:
        raise Failed(f"{path} is empty.")
    width = len(lines[0][1])
    if width == 1:
        raise Failed(
            f"{path} has one column: {lines[0][1][0]!r}. Columns are separated by commas, and "
            "there must be at least two."
        )
    for line, row in lines:
        if len(row) != width:
            raise Failed(f"{path}: line {line} has {len(row)} columns, but the first has {width}.")
    return lines


def _not_utf8(path: Path, error: UnicodeDecodeError) -> Failed:
    found = "UTF-16" if error.object[:2] in (b"\xff\xfe", b"\xfe\xff") else "Latin-1, perhaps"
    return Failed(
        f"{path} is not encoded in UTF-8 ({found}). Save it as UTF-8, in a spreadsheet as "
        '"CSV UTF-8", or convert it with iconv.'
    )


@final
@dataclass(frozen=True)
class Spelling:
    """How a CSV file is written.

    Arguments:
        separator: between columns; by default a comma, in a .tsv file a tabulator.
        decimal: the decimal mark of numbers.
    """

    separator: str | None = None
    decimal: str = "."

    def of(self, path: Path) -> dict[str, str]:
        """The arguments of `pandas.read_csv`."""
        usual = "\t" if ".tsv" in path.suffixes else ","
        return {"sep": self.separator or usual, "decimal": self.decimal}


def is_table(source: str) -> bool:
    """Whether a source is a file of columns with names: CSV, TSV (either packed) or Parquet."""
    name = source.removesuffix(".gz")
    return name.endswith((".csv", ".tsv")) or source.endswith(".parquet")


def read_points(
    source: str,
    target: str | None,
    drop: Sequence[str] = (),
    spelling: Spelling = Spelling(),
) -> tuple[Any, np.ndarray, str | None]:
    """Points, what to predict, and its name: from a data set by name or a file by its suffix."""
    if is_table(source):
        frame = _without_index(_read_frame(Path(source), spelling), source, target)
        columns = list(frame.columns)
        names = columns if columns != [str(j) for j in range(len(columns))] else None
        name = columns[_column(Path(source), target, names, len(columns))]
        for each in drop:
            _column(Path(source), each, columns, 0)
        frame = frame.drop(columns=[*drop])
        known = frame[frame[name].notna()]
        if len(known) < len(frame):
            say(f"{len(frame) - len(known)} rows of {source} have no {name} and are left out.")
        if not len(known):
            raise Failed(f"{source} has no row with a value of {name}.")
        points = known.drop(columns=name)
        empty = [each for each in points if points[each].isna().all()]
        if empty:
            say(f"columns of {source} without any value are left out: {', '.join(empty)}.")
        return points.drop(columns=empty), _targets(known[name]), name
    if target is not None or drop:
        raise Failed(
            f"--target and --drop name columns of a CSV or Parquet file; {source} is not one."
        )
    X, y = _read_arrays(source)
    return X, y, None


def _without_index(frame: Any, source: str, target: str | None) -> Any:
    """A table without the row numbers that pandas writes by default."""
    first = frame.columns[0]
    numbered = str(first).startswith("Unnamed:") and first != target and len(frame.columns) > 2
    if not numbered or not (frame[first] == np.arange(len(frame))).all():
        return frame
    say(f"the first column of {source} has no name and numbers the rows; it is left out.")
    return frame.drop(columns=first)


def read_new_points(
    source: str,
    target: str | None,
    width: int,
    spelling: Spelling = Spelling(),
) -> tuple[Any, Answers | None]:
    """Points to predict, and the true answers where the source has them.

    Arguments:
        source: a file or a data set.
        target: the column of the true answers.
        width: number of columns at the fit.
    """
    if is_table(source):
        frame = _read_frame(Path(source), spelling)
        there = frame[target].notna().to_numpy() if target in frame.columns else np.zeros(1, bool)
        if not there.any():
            return frame, None
        return frame, (there, _targets(frame[target][there]))
    if source.endswith(".npz"):
        arrays = read_arrays(Path(source))
        if "X" in arrays and "y" not in arrays:
            check_kind(f"{source}: X", arrays["X"])
            return arrays["X"], None
    X, y = _read_arrays(source, width)
    return X, (np.ones(len(y), bool), y)


def _read_frame(path: Path, spelling: Spelling) -> Any:
    """A pandas table; its columns are named by texts."""
    pandas = optional("pandas", f"reading {path}", "pandas")
    if not path.is_file():
        raise Failed(f"there is no file {path}.")
    try:
        if path.suffix == ".parquet":
            frame = pandas.read_parquet(path)
        else:
            written = spelling.of(path) | {"encoding": "utf-8-sig"}
            top = pandas.read_csv(path, header=None, nrows=1, dtype=str, **written)
            plain = any(_number(str(text)) is not None for text in top.iloc[0].dropna())
            header = None if plain else 0
            frame = pandas.read_csv(
                path, header=header, skipinitialspace=True, index_col=False, **written
            )
    except ImportError:
        raise Failed(f'reading {path} needs pyarrow: pip install "fwnet[parquet]".') from None
    except UnicodeDecodeError as error:
        raise _not_utf8(path, error) from None
    except (ValueError, OSError) as error:  # of which pandas derives its own
        reason = " ".join(str(error).split())
        raise Failed(
            f"{path} is not a {path.suffixes[0][1:]} file that pandas can read: {reason}."
        ) from None
    frame.columns = [str(name) for name in frame.columns]
    if not len(frame):
        raise Failed(f"{path} has a header but no rows.")
    if frame.shape[1] < 2:
        raise Failed(
            f"{path} has one column: {frame.columns[0]!r}. There must be at least two. Columns are "
            'separated by commas unless --separator says otherwise, as in --separator ";".'
        )
    return frame


def _targets(column: Any) -> np.ndarray:
    """A column without missing values: whole numbers, other numbers, or texts."""
    if getattr(column.dtype, "kind", "O") not in "iuf":
        return np.array([str(value) for value in column])
    values = column.to_numpy(dtype=float)
    whole = (values == np.round(values)).all() and np.abs(values).max() < 2**53
    return values.astype(np.int64) if whole else values


def _read_arrays(source: str, width: int | None = None) -> tuple[Any, np.ndarray]:
    """Points and their classes, from a data set by name, an NPZ or a LIBSVM file."""
    if source in NAMES:
        dataset = load(source)
        x, y = dataset.train()
        names = np.array(dataset.classes)
        return x.reshape(len(y), -1) if isinstance(x, np.ndarray) else x, names[y]
    path = Path(source)
    if path.suffix == ".npz":
        arrays = read_arrays(path)
        for points, classes in (("X", "y"), ("train_x", "train_y")):
            if points in arrays and classes in arrays:
                check_kind(f"{path}: {points}", arrays[points])
                return arrays[points], arrays[classes]
        raise Failed(
            f"{path} must hold arrays X and y, or train_x and train_y as `fwnet features` writes "
            f"them; it holds {', '.join(arrays)}."
        )
    if not path.is_file():
        raise Failed(f"there is no file {path}, and no data set of that name: {', '.join(NAMES)}.")
    return svmlight(path, width)


def _column(path: Path, target: str | None, header: list[str] | None, width: int) -> int:
    if target is None:
        return width - 1
    if header is not None and target in header:
        return header.index(target)
    if target.lstrip("-").isdigit() and -width <= int(target) < width:
        return int(target) % width
    columns = ", ".join(header) if header else f"numbers 0 to {width - 1}"
    raise Failed(f"{path} has no column {target!r}; it has {columns}.")


def is_number(text: str) -> bool:
    """Whether Python reads a text as a number."""
    return _number(text) is not None


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
