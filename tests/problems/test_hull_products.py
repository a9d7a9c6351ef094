"""Slopes of several directions at once, images of several atoms at once: as one at a time."""

from __future__ import annotations

import pytest
import torch

import fwnet
from cases import F64, normal, spd
from fwnet.problems.base import dense_gradient
from fwnet.vertices import OneHot, Rank1, Vertex

VECTORS = {
    "quadratic": fwnet.Quadratic(spd(1, 5, 5), normal(2, 5)),
    "batch": fwnet.Quadratic(torch.stack([spd(3, 5, 5), spd(4, 5, 5)])),
    "least squares, ridge": fwnet.LeastSquares(
        normal(5, 7, 5), normal(6, 7), ridge=torch.full((5,), 0.3, dtype=F64)
    ),
    "logistic": fwnet.LogisticRegression(
        normal(7, 9, 5), torch.where(normal(8, 9) > 0, 1.0, -1.0).to(F64)
    ),
    "svm": fwnet.SVMDual(spd(9, 5, 5), torch.tensor([1.0, -1.0, 1.0, -1.0, 1.0], dtype=F64)),
}
MATRICES = {
    "completion": fwnet.MatrixCompletion(
        torch.tensor([0, 4, 2, 2, 0]), torch.tensor([1, 2, 0, 1, 1]), normal(15, 5), (5, 3)
    ),
    "softmax": fwnet.SoftmaxRegression(normal(1, 9, 5), torch.arange(9) % 3),
    "softmax, batch": fwnet.SoftmaxRegression(
        normal(2, 2, 9, 5), torch.arange(18).reshape(2, 9) % 3
    ),
}
PROBLEMS = VECTORS | MATRICES


@pytest.mark.parametrize("name", PROBLEMS)
def test_slopes_are_inner_products_with_the_gradient(name: str) -> None:
    problem = PROBLEMS[name]
    b, shape = problem.batch_dims, tuple(problem.shape)
    it = problem.at(0.1 * normal(10, *shape))
    directions = normal(11, *shape[:b], 4, *shape[b:])
    gradient = dense_gradient(problem.gradient(it)).unsqueeze(b)
    wanted = (directions * gradient).flatten(b + 1).sum(-1)
    images = problem.images(directions)
    if problem.image(torch.zeros(shape, dtype=F64)).abs().max() > 0:
        images = images - problem.images(0 * directions)  # directions have no constant part
    assert torch.allclose(problem.slopes(it, directions, images), wanted)


@pytest.mark.parametrize("name", PROBLEMS)
def test_images_of_atoms_are_those_of_their_dense_points(name: str) -> None:
    problem = PROBLEMS[name]
    b, shape = problem.batch_dims, tuple(problem.shape)
    if name in MATRICES:
        atoms: Vertex = Rank1(
            normal(12, *shape[:b], 3, shape[-2]), normal(13, *shape[:b], 3, shape[-1])
        )
    else:
        index = torch.tensor([0, 3, 1]).expand(*shape[:b], 3)
        atoms = OneHot(index, normal(14, *shape[:b], 3), shape[-1])
    wanted = torch.stack([problem.image(point) for point in atoms.dense().unbind(b)], b)
    assert torch.allclose(problem.vertex_images(atoms), wanted)


def test_probabilities_of_extreme_logits_agree_with_torch() -> None:
    """Logits of ±1000: what underflows is 0 up to rounding, and nothing is NaN."""
    X = torch.tensor([[1000.0], [-1000.0], [0.5]], dtype=F64)
    problem = fwnet.SoftmaxRegression(X, torch.tensor([0, 1, 2]))
    W = torch.tensor([[1.0, -1.0, 0.25]], dtype=F64, requires_grad=True)
    loss = torch.nn.functional.cross_entropy(X @ W, torch.tensor([0, 1, 2]))
    (wanted,) = torch.autograd.grad(loss, W)
    found = problem.gradient(problem.at(W.detach())).dense()
    assert torch.allclose(found, wanted, atol=1e-14)
