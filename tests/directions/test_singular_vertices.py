"""All singular directions of the gradient as points of a hull."""

from __future__ import annotations

import pytest
import torch

import fwnet
from cases import F64, normal
from fwnet.directions import Corrections, SingularVertices
from fwnet.oracles import linearize

BALL = fwnet.TraceNormBall(3.0)


@pytest.mark.parametrize("batch", [(), (2,)])
@pytest.mark.parametrize("count", [2, 10])
def test_they_are_vertices_with_their_images(batch: tuple[int, ...], count: int) -> None:
    X = normal(1, *batch, 20, 5)
    problem = fwnet.SoftmaxRegression(X, X[..., :3].argmax(-1), 3)
    it = problem.at(BALL.start(tuple(problem.shape), F64))
    lin = linearize(problem, BALL, it)
    ((points, images, lasting),), _ = SingularVertices(count)(problem, BALL, it, lin, None)
    b = len(batch)
    assert points.shape == (*batch, min(count, 3), 5, 3)
    assert not lasting
    gradient = lin.gradient.dense()
    sigma = torch.linalg.svdvals(gradient)
    for k, (point, image) in enumerate(zip(points.unbind(b), images.unbind(b), strict=True)):
        assert torch.allclose(torch.linalg.svdvals(point)[..., 0], torch.tensor(3.0).to(F64))
        assert torch.allclose(torch.linalg.matrix_norm(point), torch.tensor(3.0).to(F64))  # rank 1
        assert torch.allclose(image, problem.image(point), atol=1e-12)
        assert torch.allclose((gradient * point).sum((-2, -1)), -3.0 * sigma[..., k])


def test_their_hull_has_the_soft_vertices_in_it() -> None:
    problem = fwnet.SoftmaxRegression(normal(2, 20, 5), torch.arange(20) % 3)
    it = problem.at(BALL.start((5, 3), F64))
    lin = linearize(problem, BALL, it)
    ((points, _, _),), _ = SingularVertices()(problem, BALL, it, lin, None)
    soft = fwnet.SoftTraceNorm(2.0).answer(BALL, lin.gradient, None).vertex.dense()
    shares = (soft * points).sum((-2, -1)) / 9.0  # ⟨u_i v_iᵀ, u_j v_jᵀ⟩ = 0 for i ≠ j
    assert torch.allclose((shares[:, None, None] * points).sum(0), soft)
    assert shares.sum().item() == pytest.approx(1.0)
    assert bool((shares > -1e-12).all())  # the last σ is 0, as the classes sum to one


def test_they_are_for_the_trace_norm_ball() -> None:
    solver = fwnet.FrankWolfe(fwnet.Simplex(), direction=Corrections(2, [SingularVertices()]))
    with pytest.raises(TypeError, match="SingularVertices is for TraceNormBall only; got Simplex"):
        solver(fwnet.Quadratic(torch.eye(3)))
    with pytest.raises(ValueError, match=r"SingularVertices\(count=...\) must be a whole number"):
        SingularVertices(0)
