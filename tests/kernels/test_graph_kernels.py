"""Graph kernels against slow ones that are written by their definition."""

from __future__ import annotations

import gzip
import math
from collections import Counter
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from fwnet.data import DataError
from fwnet.estimators import FWSVC
from fwnet.kernels import (
    Graph,
    GraphKernel,
    ShortestPath,
    WeisfeilerLehman,
    as_graph,
    as_graphs,
    load_graphs,
    make_graphs,
    padded_graphs,
    read_graphs,
)

KERNELS = [WeisfeilerLehman(0), WeisfeilerLehman(3), ShortestPath()]


def random_graphs(seed: int, count: int = 12, edge_labels: bool = False) -> list[Graph]:
    rng = np.random.default_rng(seed)
    graphs = []
    for _ in range(count):
        n = int(rng.integers(1, 9))
        pairs = [(u, v) for u in range(n) for v in range(u) if rng.random() < 0.35]
        marks = [int(m) for m in rng.integers(0, 2, len(pairs))] if edge_labels else None
        graphs.append(Graph(pairs, [int(label) for label in rng.integers(0, 3, n)], marks))
    return graphs


def subtree_counts(graph: Graph, rounds: int) -> Counter[Any]:
    """The labels of all rounds, as nested tuples."""
    labels: list[Any] = list(graph.labels)
    counts = Counter((0, label) for label in labels)
    marks = graph.edge_labels or [0] * len(graph.edges)
    for r in range(rounds):
        around: list[list[Any]] = [[] for _ in labels]
        for (u, v), mark in zip(graph.edges.tolist(), marks, strict=True):
            around[u].append((labels[v], mark))
            around[v].append((labels[u], mark))
        labels = [
            (label, tuple(sorted(near, key=repr)))
            for label, near in zip(labels, around, strict=True)
        ]
        counts.update((r + 1, label) for label in labels)
    return counts


def path_counts(graph: Graph) -> Counter[Any]:
    """Labels and distances of all connected pairs, by Floyd and Warshall."""
    n = len(graph.labels)
    apart = np.full((n, n), np.inf)
    for u, v in graph.edges:
        apart[u, v] = apart[v, u] = 1
    for k in range(n):
        apart = np.minimum(apart, apart[:, k, None] + apart[k])
    return Counter(
        (*sorted((graph.labels[u], graph.labels[v]), key=repr), apart[u, v])
        for u in range(n)
        for v in range(u)
        if np.isfinite(apart[u, v])
    )


def by_definition(left: Counter[Any], right: Counter[Any]) -> float:
    return float(sum(count * right[key] for key, count in left.items()))


@pytest.mark.parametrize("edge_labels", [False, True])
@pytest.mark.parametrize("rounds", [0, 1, 2, 4])
def test_weisfeiler_lehman_counts_subtrees(rounds: int, edge_labels: bool) -> None:
    graphs = random_graphs(rounds, edge_labels=edge_labels)
    counts = [subtree_counts(graph, rounds) for graph in graphs]
    expected = [[by_definition(a, b) for b in counts] for a in counts]
    assert np.array_equal(WeisfeilerLehman(rounds, normalize=False)(graphs, graphs), expected)


def test_shortest_path_counts_pairs() -> None:
    graphs = random_graphs(7)
    counts = [path_counts(graph) for graph in graphs]
    expected = [[by_definition(a, b) for b in counts] for a in counts]
    assert np.array_equal(ShortestPath(normalize=False)(graphs, graphs), expected)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_normalized_kernel_is_a_cosine(kernel: GraphKernel) -> None:
    graphs = random_graphs(3)
    K = clone(kernel).set_params(normalize=False)(graphs, graphs)
    size = np.sqrt(np.where(np.diag(K) > 0, np.diag(K), 1.0))
    np.testing.assert_allclose(kernel(graphs, graphs), K / size[:, None] / size, atol=1e-12)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_features_of_new_graphs_give_the_kernel_with_the_fitted_ones(kernel: GraphKernel) -> None:
    old, new = random_graphs(1), random_graphs(2)
    features = kernel.fit_transform(old)
    np.testing.assert_allclose((features @ features.T).toarray(), kernel(old, old), atol=1e-12)
    cross = (kernel.transform(new) @ features.T).toarray()
    np.testing.assert_allclose(cross, kernel(new, old), atol=1e-12)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_the_order_of_nodes_and_edges_is_no_matter(kernel: GraphKernel) -> None:
    rng = np.random.default_rng(0)
    for graph in random_graphs(5):
        order = rng.permutation(len(graph.labels))
        labels = [graph.labels[k] for k in np.argsort(order)]
        turned = Graph(order[graph.edges][::-1, ::-1], labels)
        assert np.allclose(kernel([graph], [graph]), kernel([graph], [turned]))


def test_isolated_nodes_and_single_nodes_count() -> None:
    lone, pair = Graph([], ["C"]), Graph([], ["C", "C"])
    assert WeisfeilerLehman(2, normalize=False)([lone], [lone, pair]).tolist() == [[3.0, 6.0]]
    assert ShortestPath()([lone], [pair]).tolist() == [[0.0]]


def test_networkx_graphs_and_pairs_are_graphs() -> None:
    ring = nx.cycle_graph(4)
    nx.set_node_attributes(ring, {k: "CN"[k % 2] for k in ring}, "label")
    by_hand = ([(0, 1), (1, 2), (2, 3), (3, 0)], ["C", "N", "C", "N"])
    kernel = WeisfeilerLehman(2)
    assert np.allclose(kernel([ring], [by_hand]), 1.0)
    nx.set_edge_attributes(ring, 1, "label")
    assert as_graph(ring).edge_labels == [1, 1, 1, 1]
    assert as_graph(nx.path_graph(2)).labels == [0, 0]


def test_equal_labels_of_python_and_numpy_agree() -> None:
    kernel = WeisfeilerLehman(1, normalize=False)
    edge = [(0, 1)]
    for left, right in [
        (["C", "O"], np.array(["C", "O"])),
        ([1, 2], np.array([1.0, 2.0])),
        ([0.5, 2], [np.float32(0.5), np.int8(2)]),
    ]:
        assert kernel([(edge, left)], [(edge, right)]).tolist() == [[4.0]]


def test_padded_graphs_hold_adjacency_and_labels() -> None:
    tensor = padded_graphs([([(0, 1)], ["C", "O"]), ([], ["O"])], labels=["C", "O", "N"])
    assert tensor.shape == (2, 2, 5)
    assert tensor[0].tolist() == [[0, 1, 1, 0, 0], [1, 0, 0, 1, 0]]
    assert tensor[1].tolist() == [[0, 0, 0, 1, 0], [0, 0, 0, 0, 0]]


def test_made_graphs_need_their_edges() -> None:
    graphs, y = make_graphs(120, seed=1)
    scores = []
    for rounds in (0, 4):
        machine = make_pipeline(WeisfeilerLehman(rounds), FWSVC(10.0, kernel="linear"))
        scores.append(cross_val_score(machine, graphs, y).mean())
    assert scores[0] < 0.7
    assert scores[1] > 0.85


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: Graph([], []), ValueError, "at least one node"),
        (lambda: Graph([(0, 2)], [1, 1]), ValueError, "must name nodes 0, …, 1.*got node 2"),
        (lambda: Graph([(-1, 0)], [1]), ValueError, "got node -1"),
        (lambda: Graph([0, 1], [1, 1]), ValueError, r"shape \(e, 2\)"),
        (lambda: Graph([(0.5, 1)], [1, 1]), ValueError, "integers"),
        (lambda: Graph([], ["C", 1]), TypeError, "all numbers or all strings; got 'C' beside 1"),
        (lambda: Graph([], [None]), TypeError, "numbers or strings; got None"),
        (lambda: Graph([(0, 1)], [1, 1], [1, 2]), ValueError, "each of the 1 edges; got 2"),
        (lambda: as_graphs([([], [1]), 3]), TypeError, r"graphs\[1\]: a graph must be"),
        (lambda: Graph([(0, 1), (1, 0)], [1, 1]), ValueError, "each edge once"),
        (lambda: as_graph(nx.MultiGraph([(0, 1), (0, 1)])), ValueError, r"networkx.Graph\(graph"),
        (lambda: Graph([], [math.nan]), ValueError, "finite numbers or strings; got nan"),
        (lambda: as_graphs([([], [1]), ([], ["1"])]), TypeError, "numbers first and strings in"),
        (
            lambda: as_graphs([([(0, 1)], "CC", [2]), ([(0, 1)], "CC")]),
            TypeError,
            "labels of edges must be of one kind in all graphs; got numbers first and none",
        ),
        (lambda: as_graphs([]), ValueError, "at least one graph"),
        (lambda: as_graphs(Graph([], [1])), TypeError, "must be a list of graphs"),
        (lambda: as_graph(nx.DiGraph([(0, 1)])), TypeError, "directed"),
        (lambda: WeisfeilerLehman(-1).fit([([], [1])]), ValueError, "rounds"),
        (lambda: make_graphs(0), ValueError, "n must be"),
    ],
)
def test_bad_graphs_raise_clear_errors(make: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        make()


def test_files_are_read_and_damaged_ones_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "graphs").mkdir()
    file = tmp_path / "graphs" / "TINY.txt.gz"
    text = "2\n3 1\n5 1 1\n5 2 0 2\n6 1 1\n1 0\n5 0\n"
    file.write_bytes(gzip.compress(text.encode()))
    monkeypatch.setenv("FWNET_DATA", str(tmp_path))
    graphs, y = load_graphs("TINY")
    assert y.tolist() == [1, 0]
    assert graphs[0].edges.tolist() == [[0, 1], [1, 2]]
    assert graphs[1].labels == [5]
    file.write_bytes(gzip.compress(text[:-6].encode()))
    with pytest.raises(DataError, match="not a set of graphs"):
        read_graphs(file)
    with pytest.raises(DataError, match="no graphs/NONE"):
        load_graphs("NONE")
