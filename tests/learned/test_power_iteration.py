"""The adapted power iteration: a vertex always, against the full SVD, ahead of the plain one."""

from __future__ import annotations

import copy
import math

import pytest
import torch

import fwnet
from domains.cases import implicit
from fwnet import learned
from fwnet.learned.spectra import SPECTRA, Spectra, matrices
from fwnet.numerics.singular import power_iteration
from learned_cases import seeded, with_random_weights

BALL = fwnet.TraceNormBall(2.5)
KIND = pytest.mark.parametrize("kind", SPECTRA)


def drawn(kind: str, seed: int = 0, count: int = 30) -> tuple[torch.Tensor, torch.Tensor]:
    generator = seeded(seed)
    G = matrices(kind, count, (30, 20), generator)
    return G, torch.randn(count, 20, generator=generator, dtype=G.dtype)


@KIND
def test_matrices_have_the_spectrum_they_are_named_after(kind: str) -> None:
    sigma = torch.linalg.svdvals(drawn(kind)[0])
    if kind == "flat":
        assert bool((sigma[:, -1] >= 0.79).all())
    elif kind == "tied":
        assert torch.allclose(sigma[:, 0], sigma[:, 1])
    else:
        wanted = sigma[:, 1:2] ** torch.arange(1.0, 21).log2()  # i^−a = (2^−a)^(log2 i)
        assert torch.allclose(sigma, wanted.to(sigma))


@KIND
def test_untrained_it_is_the_power_iteration(kind: str) -> None:
    G, v = drawn(kind)
    ours, plain = learned.LearnedPowerIteration(4).pair(G, v), power_iteration(G, v, 4)
    for mine, theirs in zip(ours, plain, strict=True):
        assert torch.allclose(mine, theirs)


@KIND
@pytest.mark.parametrize("scale", [0.3, 30.0])
def test_a_pair_of_unit_vectors_never_above_the_largest_nor_below_the_start(
    kind: str, scale: float
) -> None:
    G, v = drawn(kind)
    controller = with_random_weights(learned.LearnedPowerIteration(5), 1, scale)
    with torch.no_grad():
        u, sigma, right = controller.pair(G, v)
    ones = torch.ones_like(sigma)
    assert torch.allclose(torch.linalg.vector_norm(u, dim=-1), ones)
    assert torch.allclose(torch.linalg.vector_norm(right, dim=-1), ones)
    assert torch.allclose(torch.einsum("bi,bij,bj->b", u, G, right), sigma)
    start = v / torch.linalg.vector_norm(v, dim=-1, keepdim=True)
    first = torch.linalg.vector_norm((G @ start.unsqueeze(-1)).squeeze(-1), dim=-1)
    assert bool((sigma >= first * (1 - 1e-12)).all())
    assert bool((sigma <= torch.linalg.matrix_norm(G, 2) * (1 + 1e-12)).all())


@KIND
def test_the_shipped_one_finds_more_than_as_many_plain_products(kind: str) -> None:
    controller = learned.load("power-iteration")
    G, v = drawn(kind, seed=5, count=200)
    largest = torch.linalg.matrix_norm(G, 2)
    with torch.no_grad():
        ours = (1 - controller.pair(G, v).sigma / largest).clamp_min(1e-14)
    theirs = (1 - power_iteration(G, v, controller.steps).sigma / largest).clamp_min(1e-14)
    assert ours.log10().mean() < theirs.log10().mean()


@pytest.mark.parametrize("kind", ["decaying", "tied"])
def test_many_steps_reach_the_svd(kind: str) -> None:
    controller = learned.load("power-iteration")
    controller.steps = 400
    G, v = drawn(kind, seed=6, count=8)
    with torch.no_grad():
        sigma = controller.pair(G, v).sigma
    # σ₂/σ₁ may be 2^−0.1: 0.93^800 is below rounding, but where it is nearer to 1 some is missing
    assert torch.allclose(sigma, torch.linalg.matrix_norm(G, 2), rtol=1e-6)


def test_as_an_oracle_it_keeps_to_the_ball_and_warm_starts() -> None:
    X = torch.randn(60, 8, generator=seeded(2), dtype=torch.float64)
    problem = fwnet.SoftmaxRegression(X, X[:, :5].argmax(1))
    solver = learned.load("power-iteration").solver(BALL, max_steps=80, tol=1e-3)
    result = solver(problem)
    exact = fwnet.FrankWolfe(BALL, fwnet.LineSearch(), max_steps=80, tol=1e-3)(problem)
    assert bool(BALL.contains(result.x))
    assert result.value.item() == pytest.approx(exact.value.item(), abs=5e-3)


def test_implicit_matrices_and_a_zero_matrix() -> None:
    G, v = drawn("decaying", count=1)
    dense = G[0]
    controller = learned.load("power-iteration")
    with torch.no_grad():
        one, other = controller.pair(implicit(dense), v[0]), controller.pair(dense, v[0])
        assert torch.allclose(one.sigma, other.sigma)
        zero = controller.pair(torch.zeros(4, 3), torch.ones(3))
    assert zero.sigma == 0
    assert torch.linalg.vector_norm(zero.u) == 1


@pytest.mark.slow
def test_training_finds_more() -> None:
    config = learned.MetaConfig(steps=16, batch=6, learning_rate=3e-2, validate_every=4, seed=3)
    controller, history = learned.meta_train(learned.LearnedPowerIteration(4), Spectra(), config)
    assert min(history.validations) < history.initial
    assert history[0].horizon == 3
    G, v = drawn("decaying", seed=9)
    largest = torch.linalg.matrix_norm(G, 2)
    with torch.no_grad():
        ours = 1 - controller.pair(G, v).sigma / largest
    theirs = 1 - power_iteration(G, v, 4).sigma / largest
    assert ours.log10().mean() < theirs.log10().mean()


def test_errors() -> None:
    with pytest.raises(ValueError, match=r"LearnedPowerIteration\(steps=...\) must be a whole"):
        learned.LearnedPowerIteration(0)
    with pytest.raises(ValueError, match="kind must be one of flat, decaying, tied; got 'round'"):
        matrices("round", 2, (4, 4), seeded())
    with pytest.raises(ValueError, match="low <= high"):
        Spectra((8, 4))
    with pytest.raises(TypeError, match="was made for TraceNormBall; got Simplex"):
        learned.LearnedPowerIteration().solver(fwnet.Simplex())(fwnet.Quadratic(torch.eye(3)))
    broken = learned.LearnedPowerIteration()
    with torch.no_grad():
        broken.ahead.fill_(torch.nan)
    problem = fwnet.SoftmaxRegression(torch.randn(9, 4, generator=seeded()), torch.arange(9) % 3)
    with pytest.raises(ValueError, match="has a NaN or infinite weight in 'ahead'"):
        broken.solver(BALL)(problem)


@pytest.mark.slow
def test_the_papers_oracle_is_trained_in_any_solver() -> None:
    """The LSTM's vertices are useless before; with a constant step they become good ones."""
    X = torch.randn(200, 6, generator=seeded())
    family = learned.families.SoftmaxFamily([(X, X[:, :4].argmax(1))], radius=10.0, n=64)
    template = fwnet.FrankWolfe(family.domain, fwnet.Constant(0.1), max_steps=10)
    torch.manual_seed(0)
    fresh = learned.LSTMPowerIteration(hidden=6, steps=3)
    config = learned.MetaConfig(
        steps=60, unroll=10, learning_rate=0.01, loss=learned.SumOfValues(), validation_problems=8
    )
    trained, _ = learned.meta_train(copy.deepcopy(fresh), family, config, solver=template)
    problem = family.sample(4, seeded(9))

    def reached(oracle: fwnet.Oracle) -> float:
        solver = fwnet.FrankWolfe(family.domain, fwnet.Constant(0.1), oracle=oracle, max_steps=10)
        return float(solver(problem).value.mean())

    assert reached(trained) < 0.7 * min(reached(fresh), math.log(4))
