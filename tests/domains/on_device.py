"""Domains on an accelerator: the answers are there, and the same as on the CPU."""

from __future__ import annotations

import pytest
import torch

from domains.cases import CASES, Case, normal
from pretend import accelerator, on_device, on_host

every = pytest.mark.parametrize("case", CASES, ids=str)


def close(there: torch.Tensor, here: torch.Tensor) -> None:
    assert there.device.type == "pretend"
    torch.testing.assert_close(on_host(there), here, rtol=1e-9, atol=1e-9)


@every
def test_the_same_vertices(case: Case) -> None:
    costs = normal(torch.Generator().manual_seed(0), 3, *case.shape)
    for cost in (costs, costs[0]):
        here = case.domain.lmo(cost)
        with accelerator():
            there = case.domain.lmo(on_device(cost))
            close(there.dense(), here.dense())
            close(there.inner(on_device(cost)), here.inner(cost))


@every
def test_the_same_points(case: Case) -> None:
    generator = torch.Generator().manual_seed(1)
    inside, outside = case.sample(3, generator), 5 * normal(generator, 3, *case.shape)
    near = case.domain.project(outside)
    with accelerator():
        for points in (inside, outside):
            there = case.domain.contains(on_device(points))
            assert torch.equal(on_host(there), case.domain.contains(points))
        if near is not None:
            found = case.domain.project(on_device(outside))
            assert found is not None
            close(found, near)
        start = case.domain.start(case.shape, torch.float64, on_device(inside).device)
        close(start, case.domain.start(case.shape, torch.float64))
