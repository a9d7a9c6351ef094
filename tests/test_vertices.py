"""Every vertex against dense arithmetic: one vertex, a batch of them, and atoms."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from domains.cases import implicit
from fwnet.vertices import Dense, OneHot, Permutation, Rank1, Sign, Slice, Vertex, as_dense

N, D, M = 5, 4, 3
Make = Callable[[tuple[int, ...], torch.Generator], Vertex]


def normal(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=generator)


def one_hot(lead: tuple[int, ...], g: torch.Generator) -> Vertex:
    return OneHot(torch.randint(0, N, lead, generator=g), normal(g, *lead), N)


def rank_1(lead: tuple[int, ...], g: torch.Generator) -> Vertex:
    return Rank1(normal(g, *lead, D), normal(g, *lead, M))


def permutation(lead: tuple[int, ...], g: torch.Generator) -> Vertex:
    return Permutation(torch.rand(*lead, N, generator=g).argsort(-1), torch.float64)


def sign(lead: tuple[int, ...], g: torch.Generator) -> Vertex:
    return Sign(normal(g, *lead, N).sign(), 1.5)


def piece(lead: tuple[int, ...], g: torch.Generator) -> Vertex:
    return Slice(normal(g, *lead, 2), 1, N)


def dense_vector(lead: tuple[int, ...], g: torch.Generator) -> Vertex:
    return Dense(normal(g, *lead, N))


def dense_matrix(lead: tuple[int, ...], g: torch.Generator) -> Vertex:
    return Dense(normal(g, *lead, D, M), 2)


KINDS: dict[str, tuple[Make, tuple[int, ...]]] = {
    "OneHot": (one_hot, (N,)),
    "Rank1": (rank_1, (D, M)),
    "Permutation": (permutation, (N, N)),
    "Sign": (sign, (N,)),
    "Slice": (piece, (N,)),
    "Dense vector": (dense_vector, (N,)),
    "Dense matrix": (dense_matrix, (D, M)),
}
BATCHES = {"single": (), "batched": (2,), "two batch dimensions": (2, 3)}
every = pytest.mark.parametrize("kind", KINDS)
in_batches = pytest.mark.parametrize("batch", BATCHES.values(), ids=BATCHES)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_dense_forms_are_as_written() -> None:
    hot = OneHot(torch.tensor(1), torch.tensor(-2.0), 3)
    assert hot.dense().tolist() == [0.0, -2.0, 0.0]
    pair = Rank1(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0, 5.0]))
    assert pair.dense().tolist() == [[3.0, 4.0, 5.0], [6.0, 8.0, 10.0]]
    swap = Permutation(torch.tensor([1, 0]), torch.float32)
    assert swap.dense().tolist() == [[0.0, 1.0], [1.0, 0.0]]
    assert Sign(torch.tensor([1.0, -1.0]), 2.0).dense().tolist() == [2.0, -2.0]
    part = Slice(torch.tensor([7.0, 8.0]), 1, 4)
    assert part.dense().tolist() == [0.0, 7.0, 8.0, 0.0]
    assert part.stop == 3
    assert Dense(torch.ones(2)).dense().tolist() == [1.0, 1.0]


@every
@in_batches
def test_shapes(kind: str, batch: tuple[int, ...]) -> None:
    make, shape = KINDS[kind]
    for lead in (batch, (*batch, 4)):
        vertex = make(lead, seeded())
        assert vertex.leading == lead
        assert vertex.event_dim == len(shape)
        assert vertex.dense().shape == (*lead, *shape)
        assert vertex.dense().dtype == torch.float64


@every
@in_batches
def test_inner_is_the_dense_inner_product(kind: str, batch: tuple[int, ...]) -> None:
    make, shape = KINDS[kind]
    generator = seeded(1)
    vertex, cost = make(batch, generator), normal(generator, *batch, *shape)
    wanted = (vertex.dense() * cost).flatten(len(batch)).sum(-1)
    torch.testing.assert_close(vertex.inner(cost), wanted)


@every
@in_batches
@pytest.mark.parametrize("count", [1, 3, 9])  # fewer and more atoms than coordinates
def test_atoms_share_the_cost_of_their_problem(
    kind: str, batch: tuple[int, ...], count: int
) -> None:
    make, shape = KINDS[kind]
    generator = seeded(2)
    atoms, cost = make((*batch, count), generator), normal(generator, *batch, *shape)
    wanted = (atoms.dense() * cost.unsqueeze(len(batch))).flatten(len(batch) + 1).sum(-1)
    torch.testing.assert_close(atoms.inner(cost), wanted)


@pytest.mark.parametrize("kind", ["Rank1", "Permutation", "Dense matrix"])
@in_batches
def test_inner_with_an_implicit_matrix(kind: str, batch: tuple[int, ...]) -> None:
    make, shape = KINDS[kind]
    generator = seeded(3)
    cost = normal(generator, *batch, *shape)
    for lead in (batch, (*batch, 4)):
        vertex = make(lead, generator)
        torch.testing.assert_close(vertex.inner(implicit(cost)), vertex.inner(cost))


@every
@in_batches
def test_add_to_adds_in_place(kind: str, batch: tuple[int, ...]) -> None:
    make, shape = KINDS[kind]
    generator = seeded(4)
    for lead in (batch, (*batch, 4)):
        vertex, x = make(lead, generator), normal(generator, *lead, *shape)
        scales: list[Tensor | float] = [0.5, torch.tensor(-2.0).double(), normal(generator, *lead)]
        for scale in scales:
            factor = torch.as_tensor(scale).reshape(
                *torch.as_tensor(scale).shape, *(1 for _ in shape)
            )
            wanted, mine = x + factor * vertex.dense(), x.clone()
            result = vertex.add_to(mine, scale)
            assert result is mine
            torch.testing.assert_close(mine, wanted)


@every
def test_add_to_leaves_the_vertex_alone(kind: str) -> None:
    make, shape = KINDS[kind]
    vertex = make((), seeded(5))
    before = vertex.dense().clone()
    vertex.add_to(torch.ones(shape, dtype=torch.float64), 3.0)
    assert torch.equal(vertex.dense(), before)


@every
@in_batches
def test_combine_is_the_weighted_sum(kind: str, batch: tuple[int, ...]) -> None:
    make, shape = KINDS[kind]
    generator = seeded(6)
    atoms, weights = make((*batch, 4), generator), normal(generator, *batch, 4)
    factor = weights.reshape(*weights.shape, *(1 for _ in shape))
    torch.testing.assert_close(atoms.combine(weights), (factor * atoms.dense()).sum(len(batch)))


@every
@in_batches
def test_select_takes_one_atom_of_each_problem(kind: str, batch: tuple[int, ...]) -> None:
    make, shape = KINDS[kind]
    generator = seeded(7)
    atoms = make((*batch, 4), generator)
    slot = torch.randint(0, 4, batch, generator=generator)
    chosen = atoms.select(slot)
    assert type(chosen) is type(atoms)
    assert chosen.leading == batch
    flat, slots = atoms.dense().reshape(-1, 4, *shape), slot.reshape(-1)
    wanted = torch.stack([flat[i, int(k)] for i, k in enumerate(slots)])
    assert torch.equal(chosen.dense().reshape(-1, *shape), wanted)


@every
@in_batches
def test_as_atoms_is_one_atom(kind: str, batch: tuple[int, ...]) -> None:
    make, _ = KINDS[kind]
    vertex = make(batch, seeded(8))
    atoms = vertex.as_atoms()
    assert atoms.leading == (*batch, 1)
    assert torch.equal(atoms.dense().squeeze(len(batch)), vertex.dense())


@every
@in_batches
def test_same_as_finds_equal_atoms(kind: str, batch: tuple[int, ...]) -> None:
    make, _ = KINDS[kind]
    generator = seeded(9)
    atoms = make((*batch, 4), generator)
    slot = torch.randint(0, 4, batch, generator=generator)
    chosen = atoms.select(slot)
    if kind == "Rank1":
        wanted = torch.zeros(*batch, 4, dtype=torch.bool)  # never taken for another, by design
    else:
        same = atoms.dense() == chosen.as_atoms().dense()
        wanted = same.flatten(len(batch) + 1).all(-1)
        assert bool(wanted.any(-1).all())
    assert torch.equal(atoms.same_as(chosen), wanted)


def test_blocks_at_different_places_are_not_the_same() -> None:
    values = torch.ones(3, 2)
    atoms = Slice(values, 0, 5)
    assert bool(atoms.same_as(Slice(values[0], 0, 5)).all())
    assert not bool(atoms.same_as(Slice(values[0], 2, 5)).any())
    assert not bool(atoms.same_as(Slice(torch.ones(1), 0, 5)).any())


@every
def test_as_dense_keeps_the_point(kind: str) -> None:
    make, shape = KINDS[kind]
    vertex = make((2,), seeded(11))
    dense = as_dense(vertex)
    assert isinstance(dense, Dense)
    assert dense.event_dim == len(shape)
    assert torch.equal(dense.dense(), vertex.dense())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_permutations_have_their_dtype(dtype: torch.dtype) -> None:
    assert Permutation(torch.tensor([1, 0]), dtype).dense().dtype == dtype


def test_implicit_matrix_products() -> None:
    generator = seeded(12)
    for batch in BATCHES.values():
        matrix = normal(generator, *batch, D, M)
        v, u = normal(generator, *batch, M), normal(generator, *batch, D)
        lazy = implicit(matrix)
        assert lazy.ndim == matrix.ndim
        torch.testing.assert_close(lazy.matvec(v), (matrix * v.unsqueeze(-2)).sum(-1))
        torch.testing.assert_close(lazy.rmatvec(u), (matrix * u.unsqueeze(-1)).sum(-2))
        assert torch.equal(lazy.dense(), matrix)
