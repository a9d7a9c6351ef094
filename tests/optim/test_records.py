"""Domains and oracles in a state_dict."""

from __future__ import annotations

import io

import pytest
import torch
from torch import nn

import fwnet
from fwnet.optim import FrankWolfe, rows, spectral

# A domain of vectors holds the whole weight here, and None means AdamW.
pytestmark = pytest.mark.filterwarnings("ignore:FrankWolfe. no parameter has a domain")


def test_every_domain_and_oracle_survives_a_state_dict() -> None:
    domains = [
        fwnet.Box(torch.zeros(6), torch.ones(6)),
        fwnet.GroupL1Ball(torch.tensor([0, 0, 1, 1, 2, 2]), 3.0),
        fwnet.Product((fwnet.Simplex(), fwnet.L1Ball(2.0)), ((2,), (4,))),
        fwnet.Product([fwnet.Simplex(), fwnet.L1Ball(2.0)], [(2,), (4,)]),
        fwnet.LpBall(3.0, 2.0),
        spectral(3.0),
        None,
    ]
    oracles = [
        None,
        fwnet.SoftTraceNorm(7.0),
        fwnet.PowerIteration(3, warm_start=False),
        fwnet.oracles.Exact(),
    ]
    for domain in domains:
        for oracle in oracles:
            w = nn.Parameter(torch.full((6,), 0.25))
            if isinstance(domain, fwnet.Product):
                w = nn.Parameter(torch.tensor([0.5, 0.5, 0.0, 0.0, 0.0, 0.0]))
            opt = FrankWolfe([w], domain=domain, oracle=oracle)
            fresh = FrankWolfe([nn.Parameter(torch.ones(6))])
            fresh.load_state_dict(opt.state_dict())
            assert repr(fresh.param_groups[0]["domain"]) == repr(domain)
            assert repr(fresh.param_groups[0]["oracle"]) == repr(oracle)


def test_a_user_defined_domain_needs_its_class() -> None:
    class Ball(fwnet.Domain):
        def __init__(self, radius: float) -> None:
            self.radius = radius

        def vertex(self, cost):
            return fwnet.L2Ball(self.radius).vertex(cost)

        def contains(self, x, tol=None):
            return fwnet.L2Ball(self.radius).contains(x, tol)

        def diameter(self, shape):
            return 2 * self.radius

    w = nn.Parameter(torch.zeros(3))
    saved = FrankWolfe([w], domain=Ball(2.0)).state_dict()
    again = FrankWolfe([w], domain=Ball(1.0))
    again.load_state_dict(saved)
    assert again.param_groups[0]["domain"].radius == 2.0
    with pytest.raises(ValueError, match="holds a Ball, which is not a class of fwnet; build"):
        FrankWolfe([w]).load_state_dict(saved)
    w = nn.Parameter(torch.zeros(2, 3))
    saved = FrankWolfe([w], domain=rows(Ball(2.0))).state_dict()
    again = FrankWolfe([w], domain=rows(Ball(1.0)))
    again.load_state_dict(saved)
    assert again.param_groups[0]["domain"].domain.radius == 2.0


def test_functions_and_generators_of_an_oracle_are_not_saved() -> None:
    """The state loads with `weights_only=True`; the optimizer's own function stays."""

    def build(steps=1, generator=None) -> FrankWolfe:
        oracle = fwnet.PowerIteration(steps, start="random", generator=generator)
        w = nn.Parameter(torch.zeros(3, 4))
        opt = FrankWolfe([w], domain=fwnet.TraceNormBall(1.0), oracle=oracle)
        w.grad = torch.ones(3, 4)
        opt.step()
        return opt

    generator = torch.Generator().manual_seed(3)
    opt = build(lambda t: 1 + t, generator)
    file = io.BytesIO()
    torch.save(opt.state_dict(), file)
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    opt.load_state_dict(saved)
    oracle = opt.param_groups[0]["oracle"]
    assert oracle.steps(5) == 6
    assert oracle.generator.initial_seed() == 3
    opt.step()
    with pytest.raises(
        ValueError, match="a PowerIteration without its steps, generator: functions"
    ):
        FrankWolfe([nn.Parameter(torch.zeros(3, 4))]).load_state_dict(saved)
