"""Layers on an accelerator: outputs and gradients are there, and the same as on the CPU."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import fwnet
from cases import normal
from fwnet.layers import ImplicitLayer, SimplexQP
from pretend import accelerator, device, on_device, on_host

device()  # before the first backward pass, which counts the devices


def unrolled(A: Tensor, b: Tensor) -> Tensor:
    solver = fwnet.FrankWolfe(fwnet.Simplex(), oracle=fwnet.Softmin(5.0), max_steps=6)
    return fwnet.FWNet(solver)(fwnet.LeastSquares(A, b)).x


def implicit(A: Tensor, b: Tensor) -> Tensor:
    solver = fwnet.PairwiseFrankWolfe(fwnet.Simplex(), tol=1e-10)
    return ImplicitLayer(solver)(fwnet.LeastSquares(A, b)).x


def program(A: Tensor, b: Tensor) -> Tensor:
    return SimplexQP()(A.mT @ A, -(A.mT @ b.unsqueeze(-1)).squeeze(-1))


@pytest.mark.parametrize("layer", [unrolled, implicit, program])
@pytest.mark.parametrize("batch", [(), (3,)], ids=["one", "batch"])
def test_the_same_outputs_and_gradients(
    layer: Callable[[Tensor, Tensor], Tensor], batch: tuple[int, ...]
) -> None:
    A, b = normal(1, *batch, 9, 5), normal(2, *batch, 9)
    leaves = [A.clone().requires_grad_(), b.clone().requires_grad_()]
    x = layer(*leaves)
    grads = torch.autograd.grad((x * torch.arange(5).double()).sum(), leaves)
    with accelerator():
        there = [on_device(A).requires_grad_(), on_device(b).requires_grad_()]
        y = layer(*there)
        weights = torch.arange(5, device=y.device).double()
        found = torch.autograd.grad((y * weights).sum(), there)
        pairs = [(y.detach(), x.detach()), *zip(found, grads, strict=True)]
        for one, other in pairs:
            assert one.device.type == "pretend"
            torch.testing.assert_close(on_host(one), other, rtol=1e-5, atol=1e-6)
