"""The first cases of the law of certificates; `make attack` runs thousands."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import fwnet
from cases import PRODUCT, SOLVERS
from laws import certificates
from laws.sets import FAMILIES, draw_radius, fixed_cases
from laws.solves import ORACLES

NUMBERS = (*range(240), 624)  # 624: a projection of numbers whose sum overflows


@pytest.mark.parametrize("part", range(8))
def test_the_law_of_certificates(part: int) -> None:
    for number in NUMBERS[part::8]:
        failure = certificates.attack(np.random.default_rng(number))
        assert failure is None, f"python -m tests.laws --replay certificates:{number}"


def test_every_domain_can_be_drawn() -> None:
    """A new domain joins by a line in `laws.sets.FAMILIES` or in `domains.cases`."""
    generator = np.random.default_rng(0)
    drawn = {type(family(generator, draw_radius(generator)).domain) for family in FAMILIES}
    drawn |= {type(case.domain) for case in fixed_cases()}
    public = {value for value in vars(fwnet).values() if isinstance(value, type)}
    domains = {kind for kind in public if issubclass(kind, fwnet.Domain)} - {fwnet.Domain}
    assert drawn >= domains


def test_every_oracle_can_be_drawn() -> None:
    """By itself, or as a slot of a solver of `cases.SOLVERS`."""
    seeded, product = torch.Generator(), PRODUCT.domain
    drawn = {type(case.make(seeded)) for case in ORACLES}
    drawn |= {type(case.make(product).oracle) for case in SOLVERS}
    public = {value for value in vars(fwnet).values() if isinstance(value, type)}
    assert drawn >= {kind for kind in public if issubclass(kind, fwnet.Oracle)} - {fwnet.Oracle}


@pytest.mark.parametrize("factor", [0.5, 0.999])
def test_the_law_sees_a_gap_that_is_too_small(
    factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With an oracle whose vertices fall short of the best one, cases must fail."""
    exact = fwnet.L2Ball.vertex
    monkeypatch.setattr(
        fwnet.L2Ball,
        "vertex",
        lambda self, cost: fwnet.vertices.Dense(factor * exact(self, cost).dense(), 1),
    )
    found = []
    for number in range(3000):
        draw_from = np.random.default_rng(number)
        if draw_from.random() < 0.75 and "L2Ball" in certificates.draw_case(draw_from).text:
            found.append(certificates.attack(np.random.default_rng(number)))
        if len(found) == 12:
            break
    assert any(text is not None and text.startswith("false certificate") for text in found)
