"""The first cases of the law of weights; `make attack` runs thousands."""

from __future__ import annotations

import numpy as np

from laws import weights


def test_the_law_of_weights() -> None:
    for number in (*range(12), 91070000050):  # the last: an average that a simplex projects
        failure = weights.attack(np.random.default_rng(number))
        assert failure is None, f"python -m tests.laws --replay weights:{number}: {failure}"
