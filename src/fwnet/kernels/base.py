"""GraphKernel: a kernel that is an inner product of sparse counts."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from fwnet.kernels.graphs import Array, Graph, as_graphs


class GraphKernel(TransformerMixin, BaseEstimator):
    """k(G, H) = ⟨φ(G), φ(H)⟩, with φ(G) a count for each pattern that occurs in G.

    With `normalize`, k(G, H) / √(k(G, G) k(H, H)). A scikit-learn transformer: `transform` returns
    φ as a CSR matrix with a column for each pattern of the graphs that were fitted. Called with two
    lists of graphs, it returns the kernel matrix.

    Example:
        >>> from fwnet.kernels import Graph, GraphKernel, WeisfeilerLehman
        >>> kernel: GraphKernel = WeisfeilerLehman(1)
        >>> triangle = Graph([(0, 1), (1, 2), (2, 0)], ["C", "C", "O"])
        >>> kernel([triangle], [triangle])
        array([[1.]])
    """

    normalize: bool

    @abstractmethod
    def patterns(self, graphs: list[Graph]) -> tuple[Array, Array, Array]:
        """Which graph, 64-bit code and count `(k,)` of each pattern that occurs in a graph."""

    def fit(self, graphs: Any, y: Any = None) -> Any:
        """Learn which patterns occur."""
        self.codes_ = np.unique(self.patterns(as_graphs(graphs))[1])
        return self

    def transform(self, graphs: Any) -> Any:
        """φ of each graph, `(graphs, patterns)` in CSR form.

        Patterns that did not occur in `fit` have no column, but count in the norm: a kernel value
        does not depend on what was fitted.
        """
        check_is_fitted(self, "codes_")
        graphs = as_graphs(graphs)
        return self._features(graphs, *self.patterns(graphs))

    def fit_transform(self, graphs: Any, y: Any = None, **_: Any) -> Any:
        """`fit` and `transform` with one pass over the graphs."""
        graphs = as_graphs(graphs)
        found = self.patterns(graphs)
        self.codes_ = np.unique(found[1])
        return self._features(graphs, *found)

    def __call__(self, graphs: Any, others: Any) -> Array:
        """The kernel matrix `(len(graphs), len(others))`."""
        left, right = as_graphs(graphs), as_graphs(others)
        both = type(self)(**self.get_params()).fit_transform([*left, *right])
        return np.asarray((both[: len(left)] @ both[len(left) :].T).toarray())

    def _features(self, graphs: list[Graph], graph: Array, codes: Array, counts: Array) -> Any:
        counts = counts.astype(np.float64)
        if self.normalize:
            norms = np.sqrt(np.bincount(graph, counts**2, minlength=len(graphs)))
            counts = counts / norms[graph]
        place = np.minimum(np.searchsorted(self.codes_, codes), len(self.codes_) - 1)
        known = self.codes_[place] == codes if len(self.codes_) else np.zeros(len(codes), bool)
        shape = (len(graphs), len(self.codes_))
        return sparse.csr_matrix((counts[known], (graph[known], place[known])), shape=shape)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.no_validation = False, True
        return tags


def counted(graph: Array, codes: Array) -> tuple[Array, Array, Array]:
    """Equal pairs (graph, code) once, with how often they occur."""
    order = np.lexsort((codes, graph))
    graph, codes = graph[order], codes[order]
    new = np.ones(len(codes), bool)
    new[1:] = (graph[1:] != graph[:-1]) | (codes[1:] != codes[:-1])
    first = np.flatnonzero(new)
    return graph[first], codes[first], np.diff(np.append(first, len(codes)))
