"""NCI1, kernel and fit: FWSVC on graphs beside GraKeL's kernel, and ours, with scikit-learn's SVC.

    python -m benchmarks.graphs [--repeats 3]

Seconds of processor time, taking turns, one thread; C = 10, three rounds of Weisfeiler and Lehman.
Needs graphs/NCI1.txt.gz in the folder FWNET_DATA; GraKeL only if it is installed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from importlib.util import find_spec
from statistics import median
from typing import Any

from sklearn.svm import SVC

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
    methods: dict[str, Callable[[], object]] = {
        "FWSVC on graphs": lambda: FWSVC(10.0, kernel=kernel).fit(graphs, y),
        "our kernel, SVC": lambda: SVC(C=10.0, kernel="precomputed").fit(kernel(graphs, graphs), y),
    }
    if find_spec("grakel") is not None:
        methods["GraKeL's kernel, SVC"] = lambda: SVC(C=10.0, kernel="precomputed").fit(
            _grakel(given), y
        )
    seconds: dict[str, list[float]] = {name: [] for name in methods}
    for _ in range(parser.parse_args().repeats):
        for name, method in methods.items():
            began = time.process_time()
            method()
            seconds[name].append(time.process_time() - began)
    ours = median(seconds["FWSVC on graphs"])
    for name, taken in seconds.items():
        print(f"{name:24s}{median(taken):8.2f} s{ours / median(taken):8.2f}×")


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
