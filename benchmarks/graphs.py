"""NCI1, kernel and fit: FWSVC on graphs beside GraKeL's kernel, and ours, with scikit-learn's SVC.

    python -m benchmarks.graphs [--repeats 3]

Seconds of processor time, taking turns, one thread; C = 10, three rounds of Weisfeiler and Lehman.
Needs graphs/NCI1.txt.gz in the folder FWNET_DATA; GraKeL only if it is installed.
"""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from typing import Any

from sklearn.svm import SVC

from benchmarks.harness import OURS, Contender, Missing, compare, interleave
from benchmarks.report import table
from fwnet.estimators import FWSVC
from fwnet.kernels import Graph, WeisfeilerLehman, load_graphs


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=3)
    graphs, y = load_graphs("NCI1")
    given = [_for_grakel(graph) for graph in graphs]
    kernel = WeisfeilerLehman(3)
    methods: dict[str, Contender] = {
        OURS: lambda: FWSVC(10.0, kernel=kernel).fit(graphs, y),
        "our kernel, SVC": lambda: SVC(C=10.0, kernel="precomputed").fit(kernel(graphs, graphs), y),
        "GraKeL's kernel, SVC": Missing("grakel not installed"),
    }
    if find_spec("grakel") is not None:
        methods["GraKeL's kernel, SVC"] = lambda: SVC(C=10.0, kernel="precomputed").fit(
            _grakel(given), y
        )
    samples = interleave(methods, parser.parse_args().repeats)
    targets = dict.fromkeys([name for name in methods if name != OURS])
    print(table(compare("kernel and fit", samples, targets, 1.0, "s")))


def _for_grakel(graph: Graph) -> list[Any]:
    near: dict[int, list[int]] = {node: [] for node in range(len(graph.labels))}
    for u, v in graph.edges.tolist():
        near[u].append(v)
        near[v].append(u)
    return [near, dict(enumerate(graph.labels))]


def _grakel(graphs: list[Any]) -> Any:
    from grakel.kernels import VertexHistogram
    from grakel.kernels import WeisfeilerLehman as Theirs

    theirs = Theirs(n_iter=3, base_graph_kernel=VertexHistogram, normalize=True)
    return theirs.fit_transform(graphs)


if __name__ == "__main__":
    main()
