"""DeepSVMFamily: duals of SVMs whose kernel is a small network, new or part-trained."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from itertools import pairwise
from typing import final

import torch
from torch import Tensor

from fwnet.domains import Simplex
from fwnet.learned.families.base import ProblemFamily
from fwnet.learned.families.svm import Draw, LinearKernel, SVMFamily
from fwnet.learned.ranges import LogUniform, check_limits
from fwnet.numerics import checks
from fwnet.problems import Problem, Quadratic
from fwnet.problems.svm import dual_matrix

_C = LogUniform(0.3, 100.0)
_GAIN = 5 / 3  # initial weights of a tanh layer
_RATE = 0.05


@final
class DeepSVMFamily(ProblemFamily):
    """Duals of SVMs on the features of a network, as they occur while a deep SVM is trained.

        f(α) = ½ αᵀ(yyᵀ ∘ (φ(X)φ(X)ᵀ/s + 1) + I/C) α   over the unit simplex

    φ is a tanh network with random weights, trained for a random number of updates on the rows of
    its problem (a logistic loss on a linear head, by Adam), s the mean ‖φ(x)‖². A controller thus
    sees kernels of all ages: random ones, and those that nearly separate the classes, of low rank.

    Arguments:
        datasets, C, n, dtype: as in `SVMFamily`.
        widths: of the layers; the paper's kernel for the circles is (4, 2).
        updates: of the network before its problem is posed, uniform between two limits.

    Example:
        >>> from fwnet import learned
        >>> X = torch.randn(60, 2, generator=torch.Generator().manual_seed(0))
        >>> family = learned.families.DeepSVMFamily([(X, X.norm(dim=1) > 1)], n=16)
        >>> family.sample(4, torch.Generator().manual_seed(0)).shape
        torch.Size([4, 16])

    Reference: Schramowski, Bauckhage and Kersting, Neural Conditional Gradients (2018), deep SVMs.
    """

    def __init__(
        self,
        datasets: Sequence[tuple[Tensor, Tensor]],
        C: LogUniform | float = _C,
        n: tuple[int, int] | int = (64, 512),
        *,
        widths: Sequence[int] = (4, 2),
        updates: tuple[int, int] = (0, 60),
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.rows = SVMFamily(datasets, C, n, kernels=[LinearKernel()], dtype=dtype)
        if not widths:
            raise ValueError("DeepSVMFamily(widths=...) needs at least one layer; got none.")
        for width in widths:
            checks.at_least("DeepSVMFamily(widths=...)", width, 1)
        check_limits("DeepSVMFamily(updates=...)", updates, 0)
        self.widths, self.updates, self.domain = tuple(widths), updates, Simplex()

    def sample(self, batch: int, generator: torch.Generator) -> Problem:
        checks.at_least("batch", batch, 1)
        matrices = [self._matrix(draw, generator) for draw in self.rows.draw(batch, generator)]
        return Quadratic(torch.stack(matrices).to(self.rows.dtype))

    def split(self, seed: int = 0) -> tuple[DeepSVMFamily, DeepSVMFamily, DeepSVMFamily]:
        """Families for training, validation and test; see `SVMFamily.split`."""
        train, validation, test = (copy.copy(self) for _ in range(3))
        train.rows, validation.rows, test.rows = self.rows.split(seed)
        return train, validation, test

    def _matrix(self, draw: Draw, generator: torch.Generator) -> Tensor:  # (n, n)
        X, y = draw.points(generator)
        low, high = self.updates
        count = int(torch.randint(low, high + 1, (), generator=generator))
        C = float(self.rows.C.sample(1, generator))
        features = _trained(X, y, self.widths, count, generator)
        return dual_matrix(LinearKernel()(features, generator), y, 1 / C, bias=True)


def _trained(
    X: Tensor, y: Tensor, widths: Sequence[int], updates: int, generator: torch.Generator
) -> Tensor:  # (n, widths[-1])
    """φ(X) of a new network after some updates."""
    sides = [X.shape[-1], *widths]
    weights = [
        torch.randn(a, b, generator=generator, dtype=X.dtype) * _GAIN * (2 / (a + b)) ** 0.5
        for a, b in pairwise(sides)
    ]
    biases = [torch.zeros(b, dtype=X.dtype) for b in widths]
    head = torch.randn(widths[-1], generator=generator, dtype=X.dtype)
    centred = X - X.mean(0)
    centred = centred / centred.std().clamp_min(torch.finfo(X.dtype).tiny)

    def features() -> Tensor:
        z = centred
        for weight, bias in zip(weights, biases, strict=True):
            z = (z @ weight + bias).tanh()
        return z

    with torch.enable_grad():
        learned = [part.requires_grad_() for part in (*weights, *biases, head)]
        optimizer = torch.optim.Adam(learned, _RATE)
        for _ in range(updates):
            loss = torch.nn.functional.softplus(-y * (features() @ head)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return features().detach()
