"""Graphs: what users have, as one record; many of them as one disjoint union."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@final
@dataclass(frozen=True, eq=False)
class Graph:
    """An undirected graph with a label on every node, and on every edge if there are any.

    Arguments:
        edges: `(e, 2)`, pairs of nodes that count from 0; each edge stands there once.
        labels: one for each node: all numbers, or all strings.
        edge_labels: one for each edge, or None.

    Example:
        >>> from fwnet.kernels import Graph
        >>> water = Graph([(0, 1), (0, 2)], ["O", "H", "H"])
        >>> len(water.labels), len(water.edges)
        (3, 2)
    """

    edges: Any
    labels: Sequence[Hashable]
    edge_labels: Sequence[Hashable] | None = None

    def __post_init__(self) -> None:
        labels = list(self.labels)
        if not labels:
            raise ValueError("a Graph needs at least one node; got labels=[].")
        _one_kind("labels", labels)
        edges = _checked_edges(self.edges, len(labels))
        if self.edge_labels is not None:
            marks = list(self.edge_labels)
            if len(marks) != len(edges):
                raise ValueError(
                    f"Graph(edge_labels) must have one label for each of the {len(edges)} edges; "
                    f"got {len(marks)}."
                )
            _one_kind("edge_labels", marks)
            object.__setattr__(self, "edge_labels", marks)
        object.__setattr__(self, "edges", edges)
        object.__setattr__(self, "labels", labels)


def as_graph(graph: Any) -> Graph:
    """A `Graph`, from one, from a networkx graph, or from a pair (edges, labels).

    Labels of a networkx graph are its attributes "label"; without them every node has the same.

    Example:
        >>> from fwnet.kernels import as_graph
        >>> as_graph(([(0, 1)], ["C", "O"])).labels
        ['C', 'O']
    """
    if isinstance(graph, Graph):
        return graph
    if hasattr(graph, "nodes") and hasattr(graph, "edges"):
        return _from_networkx(graph)
    if isinstance(graph, tuple | list) and len(graph) in (2, 3):
        return Graph(*graph)
    raise TypeError(
        "a graph must be a fwnet.kernels.Graph, a networkx graph or a tuple (edges, labels); got "
        f"{type(graph).__name__}."
    )


def as_graphs(graphs: Any) -> list[Graph]:
    """Every graph of a collection as a `Graph`; an error names the position of a bad one.

    Example:
        >>> from fwnet.kernels import as_graphs
        >>> water = ([(0, 1), (0, 2)], ["O", "H", "H"])
        >>> as_graphs([water])
        [Graph(edges=array([[0, 1],
               [0, 2]]), labels=['O', 'H', 'H'], edge_labels=None)]
    """
    if isinstance(graphs, Graph) or not isinstance(graphs, Iterable):
        raise TypeError(f"graphs must be a list of graphs; got {type(graphs).__name__}.")
    found = []
    for k, graph in enumerate(graphs):
        try:
            found.append(as_graph(graph))
        except (TypeError, ValueError) as error:
            raise type(error)(f"graphs[{k}]: {error}") from None
    if not found:
        raise ValueError("graphs must hold at least one graph; got none.")
    _alike("labels of nodes", [graph.labels for graph in found])
    _alike("labels of edges", [graph.edge_labels for graph in found if len(graph.edges)])
    return found


@final
@dataclass(frozen=True, eq=False)
class Union:
    """Many graphs as one: all nodes in a row, each edge in both directions, sorted by its end."""

    sizes: Array  # (graphs,) nodes of each
    labels: Array  # (nodes,) 64-bit codes
    sources: Array  # (2 edges,) where a directed edge comes from
    starts: Array  # (nodes + 1,) the edges into node v are starts[v], …, starts[v + 1] − 1
    marks: Array  # (2 edges,) codes of their labels

    @classmethod
    def of(cls, graphs: Sequence[Graph]) -> Union:
        """The disjoint union of graphs."""
        sizes = np.array([len(graph.labels) for graph in graphs])
        offsets = np.cumsum(sizes) - sizes
        labels = np.array([code(label) for graph in graphs for label in graph.labels], np.uint64)
        counts = [len(graph.edges) for graph in graphs]
        edges = (
            np.concatenate([graph.edges for graph in graphs]) + np.repeat(offsets, counts)[:, None]
        )
        marks = np.array(
            [code(m) for graph in graphs for m in graph.edge_labels or [0] * len(graph.edges)],
            np.uint64,
        )
        sources = np.concatenate([edges[:, 0], edges[:, 1]])
        ends = np.concatenate([edges[:, 1], edges[:, 0]])
        order = np.argsort(ends, kind="stable")
        starts = np.concatenate([[0], np.cumsum(np.bincount(ends, minlength=len(labels)))])
        return cls(sizes, labels, sources[order], starts, np.concatenate([marks, marks])[order])


@cache
def code(label: Hashable) -> int:
    """64 bits that stand for a label, the same in every process."""
    if isinstance(label, str):  # of Python or NumPy
        text = f"str:{label}"
    else:  # 1, 1.0 and NumPy's are one label
        assert isinstance(label, int | float | np.number)
        text = f"number:{int(label) if label == int(label) else float(label)}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def mixed(codes: Array) -> Array:
    """Scrambled 64-bit codes, so that their sums stand for multisets (splitmix64)."""
    z = (codes + np.uint64(0x9E3779B97F4A7C15)).astype(np.uint64)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(z ^ (z >> np.uint64(31)))


def padded_graphs(graphs: Any, labels: Sequence[Hashable] | None = None) -> Array:
    """Adjacency matrix and one-hot labels side by side, for networks: `(graphs, n, n + labels)`.

    Arguments:
        graphs: as in `as_graphs`; n is the largest number of nodes, smaller graphs get zeros.
        labels: the labels in the order of the columns; those that occur, sorted, by default.

    Example:
        >>> from fwnet.kernels import padded_graphs
        >>> padded_graphs([([(0, 1)], ["C", "O"])])[0]
        array([[0., 1., 1., 0.],
               [1., 0., 0., 1.]], dtype=float32)
    """
    graphs = as_graphs(graphs)
    if labels is None:
        labels = sorted({label for graph in graphs for label in graph.labels})
    column = {label: k for k, label in enumerate(labels)}
    n = max(len(graph.labels) for graph in graphs)
    out = np.zeros((len(graphs), n, n + len(labels)), np.float32)
    for matrix, graph in zip(out, graphs, strict=True):
        matrix[graph.edges[:, 0], graph.edges[:, 1]] = 1.0
        matrix[graph.edges[:, 1], graph.edges[:, 0]] = 1.0
        for node, label in enumerate(graph.labels):
            if label in column:
                matrix[node, n + column[label]] = 1.0
    return out


def _checked_edges(given: Any, n: int) -> Array:
    """Pairs of n nodes, each once, as integers `(e, 2)`."""
    edges = np.asarray(given)
    if edges.size == 0:
        return np.empty((0, 2), np.int64)
    if edges.ndim != 2 or edges.shape[1] != 2 or edges.dtype.kind not in "iu":
        raise ValueError(
            "Graph(edges) must be pairs of nodes, integers of shape (e, 2); got "
            f"{edges.dtype} of shape {edges.shape}."
        )
    edges = edges.astype(np.int64)
    if edges.min() < 0 or edges.max() >= n:
        bad = int(edges.max() if edges.max() >= n else edges.min())
        raise ValueError(
            f"Graph(edges) must name nodes 0, …, {n - 1}, one for each label; got node {bad}."
        )
    low, high = edges.min(axis=1), edges.max(axis=1)
    if len(np.unique(low * n + high)) < len(edges):
        raise ValueError(
            "Graph(edges) must have each edge once, (0, 1) or (1, 0); got one twice. Drop the "
            "copies; a networkx multigraph becomes simple by networkx.Graph(graph)."
        )
    return edges


def _from_networkx(graph: Any) -> Graph:
    if getattr(graph, "is_directed", bool)():
        raise TypeError("the graph is directed; use graph.to_undirected().")
    place = {node: k for k, node in enumerate(graph.nodes)}
    edges = [(place[u], place[v]) for u, v in graph.edges()]
    labels = [data.get("label", 0) for _, data in graph.nodes(data=True)]
    marks = [data.get("label") for _, _, data in graph.edges(data=True)]
    some = [mark for mark in marks if mark is not None]
    if some and len(some) < len(marks):
        raise ValueError(f"{len(marks) - len(some)} of {len(marks)} edges have no label.")
    return Graph(edges, labels, marks if some else None)


def _alike(what: str, found: list[Any]) -> None:
    """Raise unless the graphs have labels of one kind: numbers and strings never agree."""
    kinds = [_kind(labels) for labels in found]
    other = next((kind for kind in kinds if kind != kinds[0]), None)
    if other is not None:
        raise TypeError(
            f"the {what} must be of one kind in all graphs; got {kinds[0]} first and {other} in a "
            "later graph. Convert them."
        )


def _kind(labels: Sequence[Hashable] | None) -> str:
    if labels is None:
        return "none"
    return "strings" if isinstance(labels[0], str) else "numbers"


def _one_kind(name: str, labels: list[Any]) -> None:
    """Raise unless all are numbers or all are strings: 1 and "1" would be two labels."""
    for label in labels:
        if not isinstance(label, str | int | float | np.integer | np.floating):
            raise TypeError(
                f"Graph({name}) must be numbers or strings; got {label!r}, a "
                f"{type(label).__name__}."
            )
        if not isinstance(label, str) and not math.isfinite(label):
            raise ValueError(f"Graph({name}) must be finite numbers or strings; got {label!r}.")
    texts = [isinstance(label, str) for label in labels]
    if any(texts) and not all(texts):
        raise TypeError(
            f"Graph({name}) must be all numbers or all strings; got "
            f"{labels[texts.index(True)]!r} beside {labels[texts.index(False)]!r}. Convert them."
        )
