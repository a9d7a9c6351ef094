"""Compiled points against the torch code and exact solvers."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import fwnet
from fwnet import learned
from fwnet.directions.proposals import LastStep
from fwnet.learned.controllers import atoms, compiled_atoms, direction
from fwnet.learned.controllers.compiled_points import project
from fwnet.oracles import linearize
from fwnet.quadratic.solve import simplex_qp
from learned_cases import seeded, svm_family, with_random_weights


@pytest.mark.parametrize("radius", [1.0, 7.0])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("n", [1, 2, 37, 600])
def test_a_compiled_point_is_that_of_the_network(n: int, dtype: torch.dtype, radius: float) -> None:
    """One problem in compiled code, as a batch of one by torch: equal up to float32."""
    root = torch.randn(n, n + 3, generator=seeded(1), dtype=dtype)
    domain = fwnet.Simplex(radius)
    proposal = direction.LearnedPoint(hidden=7)
    for weight in proposal.parameters():
        torch.nn.init.normal_(weight, std=0.7, generator=seeded(2))
    x, last_x = (domain.project(torch.randn(n, generator=seeded(k), dtype=dtype)) for k in (3, 4))
    found = []
    for batch in ((), (1,)):
        problem = fwnet.Quadratic((root @ root.mT / n).expand(*batch, n, n))
        it, last = problem.at(x.expand(*batch, n)), problem.at(last_x.expand(*batch, n))
        lin = linearize(problem, domain, it)
        length = torch.full(batch, 0.3, dtype=dtype)
        before = LastStep(last.x, problem.gradient(last), length)
        now = LastStep(it.x, lin.gradient, 1.5 * length)
        with torch.no_grad():
            arrays = proposal.init(problem, domain, it)[1]
            found.append(proposal._proposed(domain, it, lin, before, now, arrays))
    for single, together in zip(*found, strict=True):
        torch.testing.assert_close(single, together[0], rtol=2e-4, atol=2e-5 * radius)
    assert bool(domain.contains(found[0][1]))


@pytest.mark.parametrize("guess", [-np.inf, -1e9, -3.0, 0.0, 0.5, 1e6, np.inf])
@pytest.mark.parametrize("radius", [0.1, 1.0, 30.0])
def test_a_compiled_projection_is_the_nearest_point(radius: float, guess: float) -> None:
    """Against the exact quadratic programme: from afar, with ties, from inside; any first guess."""
    points = torch.randn(6, 9, generator=seeded(5), dtype=torch.float64)
    points[1] *= 1e6
    points[2] = 3.0
    points[3] *= 1e-9
    points[4, 4:] = points[4, 0]
    points[5] = -1e9 * points[5].abs()
    goal = points.clone()
    for point in goal:
        project(point.numpy(), radius, guess)
    eye = torch.eye(9, dtype=torch.float64).expand(6, 9, 9)
    shift = points.amax(-1, keepdim=True)  # the same projection
    exact = radius * simplex_qp(eye, -(points - shift) / radius)
    torch.testing.assert_close(goal, exact, rtol=0, atol=1e-7 * radius)


@pytest.mark.parametrize("count", [1, 2, 7])
def test_jacobi_is_the_spectral_theorem(count: int) -> None:
    root = np.random.default_rng(count).normal(size=(count, count))
    A = root + root.T
    diagonal, vectors = A.copy(), np.empty_like(A)
    compiled_atoms._eigen(diagonal, vectors)
    np.testing.assert_allclose(np.sort(diagonal.diagonal()), np.linalg.eigvalsh(A), atol=1e-12)
    np.testing.assert_allclose((vectors * diagonal.diagonal()) @ vectors.T, A, atol=1e-12)


def test_a_compiled_model_is_minimised_over_the_simplex() -> None:
    """Against the exact solver on the dense matrix σI + ZZᵀ."""
    x = torch.full((12,), 1 / 12, dtype=torch.float64)
    for k, sigma in enumerate((0.3, 1.0, 4.0)):
        Z = torch.randn(4, 12, generator=seeded(k), dtype=torch.float64)
        ahead = 0.2 * torch.randn(12, generator=seeded(10 + k), dtype=torch.float64)
        v = torch.empty_like(x)
        given = (x.numpy(), ahead.numpy(), Z.numpy(), sigma, 1.0)
        limits = (atoms.NEWTON_STEPS, atoms.HALVINGS, 2e-16)
        compiled_atoms._model_minimum(*given, *limits, v.numpy())
        Q = Z.mT @ Z + sigma * torch.eye(12)
        c = -Z.mT @ (Z @ x) - sigma * (x + ahead)
        assert torch.allclose(v, simplex_qp(Q, c), atol=1e-8)


@pytest.mark.parametrize("scale", [0.0, 1.0, 100.0])
@pytest.mark.parametrize("kind", ["direction", "atoms"])
def test_compiled_solves_are_those_of_a_batch(
    kind: str, scale: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Step by step: compiled, by torch without Numba, and by torch in a batch."""
    made = learned.LearnedDirection(memory=3) if kind == "direction" else learned.LearnedAtoms(3)
    controller = with_random_weights(made, 2, scale).double()
    K = svm_family(n=60).sample(1, seeded(6)).matrix.matrix
    solver = controller.solver(fwnet.Simplex(), max_steps=8, tol=0.0)

    def follow(K: torch.Tensor) -> list[float]:
        return [float(record.value) for record in solver(fwnet.Quadratic(K)).trace]

    compiled = follow(K[0])
    monkeypatch.setattr(direction, "machine_code", lambda name: None)
    monkeypatch.setattr(atoms, "machine_code", lambda name: None)
    assert compiled == pytest.approx(follow(K[0]), rel=1e-9)
    assert compiled == pytest.approx(follow(K), rel=1e-9)
