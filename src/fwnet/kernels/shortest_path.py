"""The shortest-path kernel."""

from __future__ import annotations

from typing import final

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import shortest_path

from fwnet.kernels.base import GraphKernel, counted
from fwnet.kernels.graphs import Array, Graph, code, mixed


@final
class ShortestPath(GraphKernel):
    """k(G, H) = Σ over (a, b, l) of #(a, b, l in G) · #(a, b, l in H).

    Here #(a, b, l in G) is the number of pairs of nodes with the labels a and b that are l edges
    apart. Pairs without a path, and the labels of edges, do not count.

    Arguments:
        normalize: divide by √(k(G, G) k(H, H)).

    Example:
        >>> from fwnet.kernels import ShortestPath
        >>> path, ring = ([(0, 1), (1, 2)], "CCC"), ([(0, 1), (1, 2), (2, 0)], "CCC")
        >>> ShortestPath(normalize=False)([path], [path, ring])
        array([[5., 6.]])

    Reference: Borgwardt and Kriegel, Shortest-Path Kernels on Graphs (2005).
    """

    def __init__(self, *, normalize: bool = True) -> None:
        self.normalize = normalize

    def patterns(self, graphs: list[Graph]) -> tuple[Array, Array, Array]:
        pairs = [_pairs(graph) for graph in graphs]
        owner = np.repeat(np.arange(len(graphs)), [len(codes) for codes in pairs])
        return counted(owner, np.concatenate(pairs))


def _pairs(graph: Graph) -> Array:
    """A code for the labels and the distance of each pair of nodes that a path connects."""
    n = len(graph.labels)
    ones = np.ones(len(graph.edges))
    adjacency = sparse.csr_matrix((ones, (graph.edges[:, 0], graph.edges[:, 1])), shape=(n, n))
    apart = shortest_path(adjacency, directed=False, unweighted=True)
    u, v = np.nonzero(np.triu(np.isfinite(apart), 1))
    labels = mixed(np.array([code(label) for label in graph.labels], np.uint64))
    steps = mixed(apart[u, v].astype(np.uint64))
    return mixed(labels[u] + labels[v] + steps)  # a sum: the order of the two ends is no matter
