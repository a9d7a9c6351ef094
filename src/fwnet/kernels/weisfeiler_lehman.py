"""The Weisfeiler-Lehman subtree kernel."""

from __future__ import annotations

from typing import final

import numpy as np

from fwnet.kernels.base import GraphKernel, counted
from fwnet.kernels.graphs import Array, Graph, Union, mixed
from fwnet.numerics import checks


@final
class WeisfeilerLehman(GraphKernel):
    """k(G, H) = Σ over rounds r = 0, …, h and labels l of #(l in G) · #(l in H).

        label_{r+1}(v) = hash(label_r(v), multiset of label_r(u) over the neighbours u of v)

    Labels are 64-bit hashes, so that graphs which were never seen together are comparable; that
    two of N different labels agree has probability N²/2⁶⁵. One round takes O(edges).

    Arguments:
        rounds: h, how far a pattern reaches.
        normalize: divide by √(k(G, G) k(H, H)).

    Example:
        >>> from fwnet.kernels import WeisfeilerLehman
        >>> path, ring = ([(0, 1), (1, 2)], "CCC"), ([(0, 1), (1, 2), (2, 0)], "CCC")
        >>> WeisfeilerLehman(rounds=1, normalize=False)([path], [path, ring])
        array([[14., 12.]])

    Reference: Shervashidze, Schweitzer, van Leeuwen, Mehlhorn and Borgwardt (2011).
    """

    def __init__(self, rounds: int = 3, *, normalize: bool = True) -> None:
        self.rounds = rounds
        self.normalize = normalize

    def patterns(self, graphs: list[Graph]) -> tuple[Array, Array, Array]:
        checks.at_least("rounds", self.rounds, 0)
        union = Union.of(graphs)
        owner = np.repeat(np.arange(len(graphs)), union.sizes)
        labels, found = union.labels, [mixed(union.labels)]
        for _ in range(self.rounds):
            labels = refined(union, labels)
            found.append(mixed(labels + np.uint64(len(found))))  # rounds are different patterns
        return counted(np.tile(owner, len(found)), np.concatenate(found))


def refined(union: Union, labels: Array) -> Array:
    """The labels of the next round: a hash of a node's label and those of its neighbours."""
    terms = mixed(labels[union.sources] + mixed(union.marks))
    sums = np.concatenate([[np.uint64(0)], np.cumsum(terms, dtype=np.uint64)])
    around = sums[union.starts[1:]] - sums[union.starts[:-1]]  # sums of multisets, modulo 2⁶⁴
    return mixed(mixed(labels) * np.uint64(3) + around)
