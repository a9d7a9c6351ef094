"""Numbers from curves."""

import math

import numpy as np
import pytest
import torch

from fwnet.lab.paper.measures import (
    effective_rank,
    grid_text,
    median_of_known,
    median_text,
    range_text,
    reached,
    smoothed,
    times,
)


def test_reached_is_the_first_time() -> None:
    assert reached([5.0, 3.0, 1.0, 4.0, 0.5], 3.0) == 1
    assert reached([5.0, 4.0], 3.0) == math.inf
    assert reached([math.nan, 2.0], 3.0) == 1


def test_smoothing_never_looks_ahead() -> None:
    curve = np.random.default_rng(0).normal(size=20)
    brute = [curve[max(0, t - 3) : t + 1].mean() for t in range(20)]
    assert smoothed(curve, 4) == pytest.approx(brute)


def test_effective_rank_of_known_spectra() -> None:
    assert effective_rank(torch.eye(5)) == pytest.approx(5.0)
    assert effective_rank(torch.ones(4, 7)) == pytest.approx(1.0, abs=1e-6)
    two = torch.diag(torch.tensor([3.0, 1.0, 0.0]))
    assert effective_rank(two) == pytest.approx(4 / 3**0.75, rel=1e-6)  # exp of H(3/4, 1/4)


def test_times_counts_who_never_arrives() -> None:
    assert times([100, 100, 100], [10, 20, 50]) == 5.0
    assert times([100], [math.inf]) == 0.0
    assert times([None], [10]) == math.inf  # a file keeps infinity as null
    assert times([0], [0]) == 0.0


def test_median_of_known_numbers() -> None:
    assert median_of_known([math.nan, 1.0, 3.0]) == 2.0
    assert math.isnan(median_of_known([math.nan]))


def test_texts() -> None:
    assert median_text([1.0, None, math.nan]) == "never"
    assert median_text([10, 30]) == "20"
    assert range_text([1.0, math.nan], "pairs") == "1 to never (2 pairs)"
    assert grid_text("lr", (0.01, 0.1)) == "lr in 0.01, 0.1"
