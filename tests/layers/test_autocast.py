"""Layers under autocast: float32 inside and out, with the gradients of float32."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import pytest
import torch
from torch import Tensor

import fwnet
from cases import seeded
from fwnet.layers import ImplicitLayer, NeuralSparseSoftmax, SimplexQP, SVMLayer

HALF = [torch.bfloat16, torch.float16]


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=seeded(seed))


def svm(kernel: str) -> Callable[[Tensor], Tensor]:
    labels = torch.arange(24).reshape(2, 12) % 3
    return lambda x: SVMLayer(kernel=kernel)(x[:, :12], labels, x[:, 12:])


def simplex_qp(x: Tensor) -> Tensor:
    return SimplexQP()(features=x, diagonal=0.5)


def kernel_qp(x: Tensor) -> Tensor:
    """A kernel matrix that autocast has made in half precision, half a layer away."""
    K = x @ x.mT
    assert K.dtype in HALF or not torch.is_autocast_enabled("cpu")
    return SimplexQP()(K + 3.0 * torch.eye(18, dtype=K.dtype), x[..., 0])


def problem(x: Tensor) -> fwnet.LeastSquares:
    x = x.float()
    return fwnet.LeastSquares(x[0, :, :4], x[0, :, 4])


def network(x: Tensor) -> Tensor:
    steps = fwnet.FrankWolfe(fwnet.Simplex(), fwnet.LineSearch(), max_steps=4)
    return fwnet.FWNet(steps)(problem(x)).x


def checkpointed(x: Tensor) -> Tensor:
    steps = fwnet.FrankWolfe(fwnet.Simplex(), oracle=fwnet.Softmin(2.0), max_steps=4)
    return fwnet.FWNet(steps, checkpoint=True)(problem(x)).x


def cells(x: Tensor) -> Tensor:
    steps = fwnet.FWNet(fwnet.Corrective(fwnet.Simplex(), max_steps=3))
    return torch.stack([cell.it.x for cell in steps.cells(problem(x))])


def implicit(x: Tensor) -> Tensor:
    return ImplicitLayer(fwnet.PairwiseFrankWolfe(fwnet.Simplex(), tol=1e-6))(problem(x)).x


def sparse_softmax(x: Tensor) -> Tensor:
    layer = NeuralSparseSoftmax(5, 3, step_size=0.1, unrolled=True)
    return layer.loss(x[0], torch.arange(18) % 3)


LAYERS = {
    "SVMLayer, linear": svm("linear"),
    "SVMLayer, rbf": svm("rbf"),
    "SimplexQP, features": simplex_qp,
    "FWNet": network,
    "FWNet, checkpoint": checkpointed,
    "FWNet, cells": cells,
    "ImplicitLayer": implicit,
    "NeuralSparseSoftmax": sparse_softmax,
}


def run(layer: Callable[[Tensor], Tensor], x: Tensor, dtype: torch.dtype | None) -> list[Tensor]:
    """Output and gradient."""
    leaf = x.clone().requires_grad_()
    with nullcontext() if dtype is None else torch.autocast("cpu", dtype):
        out = layer(leaf)
        loss = (out * torch.linspace(-1, 2, out.numel()).reshape(out.shape)).sum()
    (gradient,) = torch.autograd.grad(loss, leaf)
    return [out.detach(), gradient]


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("name", LAYERS)
def test_the_same_as_without(name: str, dtype: torch.dtype) -> None:
    """Whatever autocast rounds is outside of the layer: bit for bit what float32 gives."""
    for seed in range(3):
        x = normal(seed, 2, 18, 5)
        for given, wanted in zip(
            run(LAYERS[name], x, dtype), run(LAYERS[name], x, None), strict=True
        ):
            assert given.dtype == torch.float32
            assert torch.equal(given, wanted)


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("name", [name for name in LAYERS if name.startswith(("S", "N"))])
def test_half_precision_comes_in(name: str, dtype: torch.dtype) -> None:
    """Activations of a layer before, in half precision: taken to float32 and solved there."""
    x = normal(4, 2, 18, 5).to(dtype)
    out, gradient = run(LAYERS[name], x, dtype)
    exact, wanted = run(LAYERS[name], x.float(), None)
    assert out.dtype == torch.float32
    assert gradient.dtype == dtype
    torch.testing.assert_close(out, exact, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(gradient, wanted.to(dtype), rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("dtype", HALF)
def test_a_matrix_that_autocast_has_made(dtype: torch.dtype) -> None:
    out, gradient = run(kernel_qp, normal(5, 2, 18, 5), dtype)
    assert out.dtype == torch.float32
    torch.testing.assert_close(out.sum(-1), torch.ones(2))
    assert bool(torch.isfinite(gradient).all())


@pytest.mark.parametrize(
    "solver",
    [fwnet.FrankWolfe, fwnet.PairwiseFrankWolfe, fwnet.Corrective],
    ids=lambda s: s.__name__,
)
def test_a_solver_certifies_in_the_precision_of_its_data(solver: type[fwnet.FrankWolfe]) -> None:
    """Its products are not rounded to 8 bits: such a gap was −7e-4, and "converged"."""
    given = problem(normal(7, 1, 18, 5))
    plain = solver(fwnet.Simplex(), fwnet.LineSearch())(given)
    with torch.autocast("cpu", torch.bfloat16):
        result = solver(fwnet.Simplex(), fwnet.LineSearch())(given)
    assert torch.equal(result.x, plain.x)
    assert torch.equal(result.gap, plain.gap)


@pytest.mark.parametrize("name", ["SVMLayer, linear", "SVMLayer, rbf", "SimplexQP, features"])
def test_backward_inside_autocast(name: str) -> None:
    x = normal(6, 2, 18, 5)
    leaf = x.clone().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        LAYERS[name](leaf).square().sum().backward()
    other = x.clone().requires_grad_()
    LAYERS[name](other).square().sum().backward()
    # torch's own products of the backward pass are in bfloat16 there: three digits.
    torch.testing.assert_close(leaf.grad, other.grad, rtol=0.05, atol=0.02)
