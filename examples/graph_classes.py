"""Which molecules are mutagenic? A support vector machine and a network on the same graphs.

    MUTAG from the folder FWNET_DATA (188 molecules), else made graphs with and without a ring

k(G, H) counts the subtree patterns that two graphs share (Weisfeiler and Lehman), `FWSVC` separates
the classes with a certificate; `DeepSVC` learns its own features with a small graph network.

See: without rounds the kernel only counts the kinds of atoms. Two rounds of neighbours raise the
accuracy on MUTAG from 0.72 to 0.86, and the network reaches 0.88, with deviations of 0.02 to 0.08
over the folds. Two thirds of the graphs are support vectors: each has patterns of its own.
"""

from itertools import pairwise

import numpy as np
import torch
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from torch import Tensor, nn

from fwnet.data import DataError
from fwnet.estimators import FWSVC, DeepSVC
from fwnet.kernels import Graph, WeisfeilerLehman, load_graphs, make_graphs, padded_graphs
from fwnet.show.scripts import options, save, table


class GraphNet(nn.Module):
    """h <- relu(A h W + h V) twice, then the sum over the nodes."""

    def __init__(self, nodes: int, labels: int, width: int = 16) -> None:
        super().__init__()
        self.nodes = nodes
        sizes = (labels, width, width)
        self.near = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        self.own = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))

    def forward(self, x: Tensor) -> Tensor:  # (graphs, nodes, nodes + labels)
        A, h = x[..., : self.nodes], x[..., self.nodes :]
        there = h.sum(-1, keepdim=True)  # 0 for padding
        for near, own in zip(self.near, self.own, strict=True):
            h = torch.relu(near(A @ h) + own(h)) * there
        return h.sum(-2) / there.sum(-2)


def main() -> None:
    arguments = options(__doc__)
    graphs, y, name = molecules()
    folds = StratifiedKFold(3 if arguments.quick else 5, shuffle=True, random_state=0)
    print(f"{name}: {len(graphs)} graphs\n")
    rows = []
    for rounds in (0, 1, 2, 4):
        machine = make_pipeline(WeisfeilerLehman(rounds), FWSVC(10.0, kernel="linear"))
        scores = cross_val_score(machine, graphs, y, cv=folds)
        rows.append((f"FWSVC, {rounds} rounds", f"{scores.mean():.3f} ± {scores.std():.3f}"))
    padded = padded_graphs(graphs)
    torch.manual_seed(0)
    net = GraphNet(padded.shape[1], padded.shape[2] - padded.shape[1])
    deep = DeepSVC(net, C=1.0, max_iter=10 if arguments.quick else 100, random_state=0)
    scores = cross_val_score(deep, padded, y, cv=folds)
    rows.append(("DeepSVC, graph network", f"{scores.mean():.3f} ± {scores.std():.3f}"))
    table(("machine", "accuracy"), rows)
    machine = FWSVC(10.0, kernel=WeisfeilerLehman(2)).fit(graphs, y)
    print(f"\n{len(machine.support_)} support graphs, duality gap {machine.duality_gap_:.1e}")
    if arguments.plot is not None:
        heavy = machine.support_[np.argsort(-np.abs(machine.dual_coef_[0]))]
        first, second = (heavy[y[heavy] == kind][:4] for kind in machine.classes_)
        drawn = np.concatenate([first, second])
        draw([graphs[k] for k in drawn], y[drawn], arguments.plot)


def molecules() -> tuple[list[Graph], np.ndarray, str]:
    try:
        return *load_graphs("MUTAG"), "MUTAG"
    except DataError:
        return *make_graphs(200), "made graphs"


def draw(graphs: list[Graph], y: np.ndarray, file: str) -> None:
    """The support graphs with the largest weights, a row a class; one colour a label."""
    import networkx as nx
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 4, figsize=(8, 4.4), layout="constrained")
    figure.suptitle("The support graphs with the largest weights; one colour for each kind of atom")
    names = sorted({label for graph in graphs for label in graph.labels}, key=str)
    for ax, graph, kind in zip(axes.flat, graphs, y, strict=False):
        drawn = nx.Graph([tuple(edge) for edge in graph.edges.tolist()])
        drawn.add_nodes_from(range(len(graph.labels)))
        colours = [names.index(graph.labels[node]) for node in drawn]
        place = nx.kamada_kawai_layout(drawn)
        nx.draw(drawn, place, ax=ax, node_size=40, node_color=colours, cmap="tab10", vmin=0, vmax=9)
        ax.set_title(f"class {kind}", fontsize="small")
    save(axes[0, 0], file)


if __name__ == "__main__":
    main()
