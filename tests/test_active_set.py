"""The active set: slots, weights, growth, equality of atoms."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import fwnet
from cases import F64, normal
from fwnet.vertices import Dense, OneHot, Permutation, Rank1, Sign, Slice, Vertex


def hot(index: int, value: float = 1.0) -> OneHot:
    return OneHot(torch.tensor(index), torch.tensor(value, dtype=F64), 6)


def single(vertex: Vertex) -> fwnet.ActiveSet:
    return fwnet.ActiveSet(vertex.as_atoms(), torch.ones(1, dtype=F64))


def give(active: fwnet.ActiveSet, vertex: Vertex, share: float) -> fwnet.ActiveSet:
    """Toward the vertex by this share."""
    active, slot = active.holding(vertex)
    return active.moved(-1.0, [(slot, 1.0)], torch.tensor(share, dtype=F64))


KINDS: dict[str, list[Vertex]] = {
    "one-hot": [hot(3), hot(0), hot(5), hot(1)],
    "signed": [hot(0, 2.0), hot(0, -2.0), hot(4, 2.0), hot(1, -2.0)],
    "dense": [Dense(row) for row in normal(1, 4, 5)],
    "zero": [Dense(torch.ones(2).double()), Dense(torch.zeros(2).double()), Dense(normal(2, 2))],
    "matrix": [Dense(row, 2) for row in normal(3, 4, 2, 3)],
    "rank-1": [Rank1(normal(4 + i, 3), normal(9 + i, 2)) for i in range(4)],
    "permutation": [
        Permutation(torch.tensor(p), F64) for p in ([0, 1, 2], [2, 1, 0], [1, 0, 2], [1, 2, 0])
    ],
    "sign": [Sign(torch.tensor(s, dtype=F64), 0.7) for s in ([1.0, 1], [1, -1], [-1, 1], [-1, -1])],
    "slices": [Slice(normal(20 + i, 2), i, 5) for i in range(3)],
    "mixed": [hot(2), Dense(normal(5, 6)), hot(3), Dense(normal(6, 6))],
    "radii": [Sign(torch.ones(2).double(), 0.7), Sign(torch.ones(2).double(), 0.3)],
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_point_is_the_combination(kind: str) -> None:
    vertices = KINDS[kind]
    active, x = single(vertices[0]), vertices[0].dense()
    for i, vertex in enumerate((vertices[1:] + vertices) * 3):
        share = 0.1 + 0.05 * (i % 5)
        active = give(active, vertex, share)
        x = (1 - share) * x + share * vertex.dense()
        torch.testing.assert_close(active.point(), x, rtol=1e-12, atol=1e-13)
        assert float(active.weights.sum()) == pytest.approx(1, abs=1e-14)
        if kind != "rank-1":
            assert int(active.used.sum()) <= len(vertices)  # known atoms are found again


@pytest.mark.parametrize("kind", KINDS)
def test_extremes_are_among_the_used_atoms(kind: str) -> None:
    vertices = KINDS[kind]
    active = single(vertices[0])
    for vertex in vertices[1:]:
        active = give(active, vertex, 0.3)
    cost = normal(30, *vertices[0].dense().shape)
    values = torch.stack([(v.dense() * cost).sum() for v in vertices])
    for largest in (True, False):
        slot, value = active.extreme(cost, largest)
        wanted = values.max() if largest else values.min()
        assert float(value) == pytest.approx(float(wanted), rel=1e-12)
        assert float(active.weight_of(slot)) > 0
        atom = active.atoms.select(slot)
        assert float(atom.inner(cost)) == pytest.approx(float(wanted), rel=1e-12)


def test_free_slots_are_no_atoms_and_are_reused() -> None:
    active = give(give(single(hot(3)), hot(0), 0.5), hot(5), 0.2)
    size = active.weights.shape[-1]
    slot, _ = active.extreme(torch.eye(6, dtype=F64)[3], largest=True)
    limit = active.weight_of(slot)
    active, new = active.holding(hot(1))
    moved = active.moved(0.0, [(new, 1.0), (slot, -1.0)], limit)
    assert float(moved.weights[slot]) == 0.0
    assert float(moved.point()[3]) == 0.0
    values = moved.atoms.inner(torch.eye(6, dtype=F64)[3])
    assert float(moved.extreme(-torch.eye(6, dtype=F64)[3], largest=False)[1]) == 0.0
    assert values.shape == moved.weights.shape
    again = give(give(moved, hot(2), 0.1), hot(4), 0.1)
    assert again.weights.shape[-1] == size
    torch.testing.assert_close(again.point().sum(), torch.tensor(1.0, dtype=F64))


def test_rounding_errors_in_weights_are_removed() -> None:
    active = give(single(hot(3)), hot(0), 0.5)
    active, slot = active.holding(hot(0))
    for leftover in (1e-17, -1e-17, 8e-16):
        step = torch.tensor(0.5 - leftover, dtype=F64)
        moved = active.moved(0.0, [(slot, -1.0)], step)
        assert float(moved.weights[slot]) == 0.0


def test_an_atom_that_was_never_used_matches_nothing() -> None:
    """Slots that growth has added hold zeros: they are not e_0."""
    domain = fwnet.Simplex()
    first = domain.lmo(-torch.eye(4, dtype=F64)[3])
    active = fwnet.ActiveSet(first.as_atoms(), torch.ones(1, dtype=F64))
    for index in (2, 0, 1):
        active = give(active, domain.lmo(-torch.eye(4, dtype=F64)[index]), 0.25)
    wanted = torch.tensor([0.1875, 0.25, 0.140625, 0.421875], dtype=F64)
    torch.testing.assert_close(active.point(), wanted)


def test_a_batch_of_sets() -> None:
    index = torch.tensor([[3], [1]])
    active = fwnet.ActiveSet(
        OneHot(index, torch.ones(2, 1, dtype=F64), 5), torch.ones(2, 1, dtype=F64)
    )
    x = torch.eye(5, dtype=F64)[[3, 1]]
    for pair, shares in (((0, 1), (0.3, 0.2)), ((3, 4), (0.1, 0.6)), ((2, 4), (1.0, 0.0))):
        vertex = OneHot(torch.tensor(pair), torch.ones(2, dtype=F64), 5)
        step = torch.tensor(shares, dtype=F64)
        active, slot = active.holding(vertex)
        active = active.moved(-1.0, [(slot, 1.0)], step)
        x = (1 - step)[:, None] * x + step[:, None] * vertex.dense()
        torch.testing.assert_close(active.point(), x)
    assert active.used.sum(-1).tolist() == [1, 2]  # a full step leaves one atom
    mixed = torch.tensor([-1.0, 0.0], dtype=F64)
    vertex = OneHot(torch.tensor([4, 0]), torch.ones(2, dtype=F64), 5)
    held, slot = active.holding(vertex)
    coefficients = torch.tensor([1.0, 0.0], dtype=F64)
    moved = held.moved(mixed, [(slot, coefficients)], torch.tensor([0.5, 0.5], dtype=F64))
    torch.testing.assert_close(moved.weights.sum(-1), torch.ones(2, dtype=F64))
    assert torch.equal(moved.point()[1], active.point()[1])


def test_normalized() -> None:
    active = fwnet.ActiveSet(
        OneHot(torch.tensor([0, 1]), torch.ones(2).double(), 3), torch.tensor([0.3, 0.9]).double()
    )
    normal_set = active.normalized()
    torch.testing.assert_close(normal_set.weights, torch.tensor([0.25, 0.75], dtype=F64))
    assert float(active.weights.sum()) == pytest.approx(1.2)


def test_gradients_flow_through_the_weights() -> None:
    share = torch.tensor(0.3, dtype=F64, requires_grad=True)
    active, slot = single(hot(3)).holding(hot(0))
    point: Tensor = active.moved(-1.0, [(slot, 1.0)], share).point()
    point[0].backward()
    assert float(share.grad) == 1.0
