"""Kernels between graphs, by sparse features: for `FWSVC`, pipelines and networks."""

from fwnet.kernels.base import GraphKernel
from fwnet.kernels.graphs import Graph, as_graph, as_graphs, padded_graphs
from fwnet.kernels.shortest_path import ShortestPath
from fwnet.kernels.sources import load_graphs, make_graphs, read_graphs
from fwnet.kernels.weisfeiler_lehman import WeisfeilerLehman

__all__ = [
    "Graph",
    "GraphKernel",
    "ShortestPath",
    "WeisfeilerLehman",
    "as_graph",
    "as_graphs",
    "load_graphs",
    "make_graphs",
    "padded_graphs",
    "read_graphs",
]
