"""Graphs from files in the text format of the TU Dortmund sets, and graphs that are made."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from fwnet.data.formats import unpacked
from fwnet.data.sources import DataError, find, folders
from fwnet.kernels.graphs import Array, Graph
from fwnet.numerics import checks

_SUFFIXES = (".txt.gz", ".txt", "")


def load_graphs(name: str) -> tuple[list[Graph], Array]:
    """The graphs and classes of a set such as "MUTAG", from graphs/<name>.txt in FWNET_DATA.

    Example:
        >>> from fwnet.data import DataError
        >>> from fwnet.kernels import load_graphs
        >>> try:
        ...     graphs, classes = load_graphs("no-such-set")
        ... except DataError as error:
        ...     print(type(error).__name__)
        ...
        DataError
    """
    path = find(f"{folder}{name}{suffix}" for folder in ("graphs/", "") for suffix in _SUFFIXES)
    if path is None:
        places = " or ".join(str(folder) for folder in folders())
        raise DataError(
            f"there is no graphs/{name}.txt or .txt.gz in {places}. Put it there, or set "
            "FWNET_DATA; make_graphs() needs no files."
        )
    return read_graphs(path)


def read_graphs(path: str | os.PathLike[str]) -> tuple[list[Graph], Array]:
    """The graphs of a text file, compressed or not, and their classes `(graphs,)`.

    The first line is the number of graphs. A graph is a line `nodes class`, then a line for each
    node: `label degree neighbour neighbour …`.

    Example:
        >>> import os, tempfile
        >>> from fwnet.kernels import read_graphs
        >>> path = os.path.join(tempfile.mkdtemp(), "one.txt")
        >>> with open(path, "w") as file:
        ...     for line in ("1", "2 1", "0 1 1", "0 1 0"):
        ...         print(line, file=file)
        ...
        >>> graphs, classes = read_graphs(path)
        >>> len(graphs), classes
        (1, array([1]))
    """
    path = Path(path)
    try:
        lines = unpacked(path).decode("ascii").splitlines()
        place, classes = 1, []
        graphs: list[Graph] = []
        for _ in range(int(lines[0])):
            nodes, kind = map(int, lines[place].split())
            rows = [list(map(int, line.split())) for line in lines[place + 1 : place + 1 + nodes]]
            if len(rows) < nodes or any(len(row) != row[1] + 2 for row in rows):
                raise ValueError(f"graph {len(graphs)} is not whole")
            edges = {tuple(sorted((u, v))) for u, row in enumerate(rows) for v in row[2:]}
            graphs.append(Graph(sorted(edges), [row[0] for row in rows]))
            classes.append(kind)
            place += 1 + nodes
    except (ValueError, IndexError, UnicodeDecodeError) as error:
        raise DataError(f"{path} is not a set of graphs: {error}.") from None
    return graphs, np.array(classes)


def make_graphs(n: int = 200, *, seed: int = 0) -> tuple[list[Graph], Array]:
    """Labelled graphs of two classes: trees of "molecules", with a ring of six in class 1.

    A graph of class 0 has a chain of six in its place, with the same labels, so that counting
    labels does not tell the classes apart.

    Example:
        >>> from fwnet.kernels import make_graphs
        >>> graphs, y = make_graphs(4)
        >>> len(graphs), sorted(set(y.tolist()))
        (4, [0, 1])
    """
    checks.at_least("n", n, 1)
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    return [_molecule(rng, bool(kind)) for kind in y], y


def _molecule(rng: Any, ring: bool) -> Graph:
    core = [(k, k + 1) for k in range(5)] + ([(0, 5)] if ring else [])
    size = int(rng.integers(9, 18))
    tree = [(int(rng.integers(0, k)), k) for k in range(6, size)]
    labels = ["C"] * 6 + [str(label) for label in rng.choice(["C", "N", "O"], size - 6)]
    return Graph(core + tree, labels)
