"""The step of few operations against `FWNet.cell`, with its gradients."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import fwnet
from fwnet import learned
from fwnet.layers import FWNet
from fwnet.learned.training.cells import SimplexCell, cell_of
from fwnet.problems import LeastSquares
from learned_cases import seeded

Build = Callable[[], tuple[nn.Module, fwnet.FrankWolfe]]


def _step() -> tuple[nn.Module, fwnet.FrankWolfe]:
    rule = learned.LSTMStep().double()
    return rule, fwnet.FrankWolfe(fwnet.Simplex(2.0), rule, oracle=fwnet.Softmin(3.0))


def _direction(kind: Callable[[], learned.Controller], rule: fwnet.StepRule) -> Build:
    def build() -> tuple[nn.Module, fwnet.FrankWolfe]:
        found = kind().double()
        return found, fwnet.FrankWolfe(fwnet.Simplex(2.0), rule, direction=found)  # type: ignore[arg-type]

    return build


BUILDS = {
    "γ": _step,
    "∇": _direction(lambda: learned.LSTMDirection(beta=5.0), fwnet.OpenLoop()),
    "softmax": _direction(learned.L2LSoftmax, fwnet.Constant(1.0)),
    "Lagrangian": _direction(lambda: learned.L2LLagrangian(multiplier=1.0), fwnet.Constant(1.0)),
}


def _problem(kind: str) -> fwnet.Problem:
    A = torch.randn(2, 4, 6, generator=seeded(0), dtype=torch.float64)
    if kind == "quadratic":
        return fwnet.Quadratic(A.mT @ A)
    return LeastSquares(A, A[..., 0], ridge=0.1)


@pytest.mark.parametrize("kind", ["quadratic", "least squares"])
@pytest.mark.parametrize("build", BUILDS.values(), ids=BUILDS)
def test_values_and_gradients_are_those_of_the_network(build: Build, kind: str) -> None:
    torch.manual_seed(0)
    weights, solver = build()
    problem = _problem(kind)
    quick = cell_of(solver)
    assert isinstance(quick, SimplexCell)
    answers: list[tuple[Tensor, ...]] = []
    for cell in (quick, FWNet(solver).cell):
        it, slots = solver.begin(problem, None)
        values = []
        for _ in range(5):
            state = cell(problem, it, slots)
            it, slots = state.it, state.slots
            values.append(problem.value(it))
        loss = torch.stack(values).sum()
        answers.append((it.x, *values, *torch.autograd.grad(loss, list(weights.parameters()))))
    for one, other in zip(*answers, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)


def test_other_slots_are_left_to_the_network() -> None:
    for solver in (
        fwnet.FrankWolfe(fwnet.Simplex(), fwnet.LineSearch(), oracle=fwnet.Softmin(3.0)),
        fwnet.FrankWolfe(fwnet.Simplex(), fwnet.OpenLoop()),
        fwnet.FrankWolfe(fwnet.Simplex(), fwnet.OpenLoop(), oracle=fwnet.Softmin(3.0, growth=1.0)),
    ):
        assert not isinstance(cell_of(solver), SimplexCell)
