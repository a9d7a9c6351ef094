"""The law of gradients on one draw of every case; `make attack` runs thousands."""

from __future__ import annotations

import numpy as np
import pytest

import fwnet
from laws.differences import Difference
from laws.faces import FAMILIES, draw_polyhedron
from laws.gradients import Case, attack, cases, check, outcome
from laws.networks import small_cases
from public_names import public_types

CASES = cases(0)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_the_law_of_gradients(case: Case) -> None:
    failure = check(case)
    assert failure is None, failure


@pytest.mark.parametrize("kind", ["ImplicitLayer", "SimplexQP", "SVMLayer", "FWNet"])
def test_few_cases_are_at_kinks(kind: str) -> None:
    """Else the law would hold for want of comparisons."""
    compared = [outcome(case) is not None for case in CASES if case.name.startswith(kind)]
    assert sum(compared) >= 0.75 * len(compared)


def test_random_cases() -> None:
    for number in range(10):
        failure = attack(np.random.default_rng(number))
        assert failure is None, f"python -m tests.laws --replay gradients:{number}"


def test_every_domain_is_there() -> None:
    """A domain joins by a line of `domains.cases`; if it knows its faces, of `laws.faces`, too."""
    domains = {kind for kind in public_types(fwnet) if issubclass(kind, fwnet.Domain)} - {
        fwnet.Domain
    }
    assert {type(case.domain) for case in small_cases()} == domains
    generator = np.random.default_rng(0)
    faced = {type(draw_polyhedron(generator, family).domain) for family in FAMILIES}
    assert faced == {kind for kind in domains if kind.normals is not fwnet.Domain.normals}


@pytest.mark.parametrize("factor", [0.0, 0.999, np.nan])
def test_the_law_sees_a_wrong_number(factor: float) -> None:
    assert Difference(1.0, 1.0, 1.0, "").failure() is None
    assert Difference(factor, 1.0, 1.0, "").failure() is not None
