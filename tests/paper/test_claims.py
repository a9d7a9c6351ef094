"""Verdicts of synthetic results: each claim is brought to every verdict it can have."""

import math
from typing import Any

import pytest

from fwnet.lab.paper.claims import Claim, Comparison, Verdict
from fwnet.lab.paper.experiment import Profile, Results, SeedResult
from fwnet.lab.paper.experiments import cifar2, circles, density, manmade, mnist

YES, NO = (Comparison(2.0, ">", 1.0),), (Comparison(1.0, ">", 1.0),)


@pytest.mark.parametrize(
    ("numbers", "tuned", "options", "word"),
    [
        (YES, YES, {}, Verdict.HOLDS),
        (YES, (), {}, Verdict.HOLDS),  # nothing to tune
        (YES, NO, {}, Verdict.UNTUNED),
        (NO, YES, {}, Verdict.FAILS),
        (NO, NO, {}, Verdict.FAILS),
        (YES + NO, YES, {}, Verdict.FAILS),
        (YES, YES, {"reading": True}, Verdict.READING),
        (YES, NO, {"reading": True}, Verdict.UNTUNED),
        (YES, YES, {"trained": False}, Verdict.UNTRAINED),
    ],
)
def test_the_rule_of_verdicts(
    numbers: tuple[Comparison, ...],
    tuned: tuple[Comparison, ...],
    options: dict[str, bool],
    word: Verdict,
) -> None:
    claim = Claim("Q1", "words", "1", "2", "1 to 2", "none", numbers, tuned, **options)
    assert claim.verdict is word
    assert claim.facts()["verdict"] == word.value
    assert claim.facts()["numbers"][0] == {"number": numbers[0].number, "rule": ">", "bound": 1.0}


def test_comparisons() -> None:
    for rule, below, equal, above in (
        ("<", 1, 0, 0),
        ("<=", 1, 1, 0),
        (">", 0, 0, 1),
        (">=", 0, 1, 1),
    ):
        found = [bool(Comparison(number, rule, 2.0)) for number in (1.0, 2.0, 3.0)]
        assert found == [bool(below), bool(equal), bool(above)]
        assert not Comparison(math.nan, rule, 2.0)  # a number that is not there proves nothing


LEARNING = {"meta": {"lrs": [0.003, 0.01]}}


def made(name: str, config: dict[str, Any], *metrics: dict[str, Any]) -> Results:
    seeds = [SeedResult(k, m, 1.0, {}) for k, m in enumerate(metrics)]
    return Results(name, Profile.QUICK, config, seeds)


def cifar2_results(ours: float, untuned: float, tuned: float, spread: float = 0.1) -> Results:
    excess = {key: [1.0, ours] for key in cifar2.FWNETS}
    excess |= {key: [1.0, untuned] for key in cifar2.UNTUNED}
    excess |= {key: [1.0, tuned] for key in (*cifar2.TUNED, cifar2.OURS_TUNED)}
    spreads = {name: [0.0, 0.1] for name in excess} | {"L2LC_γ": [0.0, spread]}
    reach: dict[str, list[float | None]] = {name: [10.0, 20.0] for name in excess}
    metrics = {"excess": excess, "spread": spreads, "reach": reach | {"L2L": [40.0, None]}}
    grids: dict[str, Any] = {"gd_grid": [1.0], "adam_grid": [0.1], "l2l_grid": [0.3], "lr": 0.01}
    return made("cifar2", grids | LEARNING, metrics)


@pytest.mark.parametrize(
    ("ours", "untuned", "tuned", "word"),
    [
        (0.1, 0.2, 0.3, Verdict.HOLDS),
        (0.1, 0.2, 0.05, Verdict.UNTUNED),
        (0.3, 0.2, 0.1, Verdict.FAILS),
    ],
)
def test_cifar2_against_baselines(ours: float, untuned: float, tuned: float, word: Verdict) -> None:
    assert cifar2.claims(cifar2_results(ours, untuned, tuned))[0].verdict is word


@pytest.mark.parametrize(("spread", "word"), [(0.02, Verdict.HOLDS), (0.09, Verdict.FAILS)])
def test_cifar2_variance(spread: float, word: Verdict) -> None:
    claim = cifar2.claims(cifar2_results(0.1, 0.2, 0.3, spread))[2]
    assert claim.verdict is word
    assert f"{spread / 0.1:.3g}" in claim.ours


def test_cifar2_against_l2l() -> None:
    claim = cifar2.claims(cifar2_results(0.1, 0.2, 0.3))[3]
    assert claim.verdict is Verdict.HOLDS
    assert "L2LC_γ 15, L2L never" in claim.ours
    assert "L2L lr in 0.3 × meta lr in 0.003, 0.01" in claim.grid


def circles_results(
    fwnet: float, tuned: float, gamma: float | None, nabla: float, learned: float = 0.5
) -> Results:
    counts: dict[str, float | None] = dict.fromkeys(circles.HAND, fwnet)
    counts |= {"FWNet, tuned": tuned, "L2LC_γ": gamma, "L2LC_∇": nabla}
    metrics = {
        "loss": {key: [1.0, learned if "L2LC" in key else 0.5] for key in counts},
        "at": {name: {"t": t, "roughness": 0.2} for name, t in counts.items()},
        "test": dict.fromkeys(counts, 0.99),
    }
    grids: dict[str, Any] = {"step_sizes": [0.01], "lr_grid": [0.01]}
    return made("circles", grids | LEARNING, metrics)


@pytest.mark.parametrize(
    ("tuned", "nabla", "word"),
    [(500, 20, Verdict.HOLDS), (100, 20, Verdict.UNTUNED), (500, 60, Verdict.FAILS)],
)
def test_circles_counts(tuned: float, nabla: float, word: Verdict) -> None:
    gamma, kernel, ahead, smooth, trains = circles.claims(circles_results(500, tuned, None, nabla))
    assert ahead.verdict is Verdict.FAILS
    assert gamma.verdict is Verdict.FAILS
    assert "never against 500" in gamma.ours
    assert kernel.verdict is word
    assert smooth.verdict is Verdict.FAILS
    assert trains.verdict is Verdict.HOLDS


def test_circles_learned_against_hand_coded() -> None:
    ahead = circles.claims(circles_results(500, 500, 200, 20, learned=0.4))[2]
    assert ahead.verdict is Verdict.HOLDS
    assert "L2LC_γ 0.7, L2LC_∇ 0.7; best hand-coded one, FWNet, 0.75" in ahead.ours


def curve(length: int, reach: int) -> list[float]:
    """1 until `reach`, then 0."""
    return [1.0] * reach + [0.0] * (length - reach)


@pytest.mark.parametrize(
    ("gamma", "tuned", "word"),
    [(10, 30, Verdict.HOLDS), (10, 15, Verdict.UNTUNED), (30, 40, Verdict.FAILS)],
)
def test_manmade_counts(gamma: int, tuned: int, word: Verdict) -> None:
    at = dict.fromkeys(manmade.HAND, 40)
    at |= {manmade.TUNED: tuned, manmade.ADAM_TUNED: 40, manmade.GAMMA: gamma}
    metrics = {
        "loss": {name: curve(50, t) for name, t in at.items()},
        "test": dict.fromkeys(at, 0.9),
    }
    config: dict[str, Any] = {"lr_grid": [0.01], "step_sizes": [0.1], "positive": [1, 4, 7]}
    half, trains = manmade.claims(made("manmade", config | LEARNING, metrics, metrics))
    assert half.verdict is word
    assert f"L2LC_γ {gamma};" in half.ours
    assert trains.verdict is Verdict.HOLDS


@pytest.mark.parametrize(
    ("ours", "tuned", "word"),
    [(5, 30, Verdict.HOLDS), (5, 10, Verdict.UNTUNED), (30, 40, Verdict.FAILS)],
)
def test_mnist_counts(ours: int, tuned: int, word: Verdict) -> None:
    at = {
        mnist.FWNET: ours,
        mnist.NABLA: ours,
        mnist.ADAM: 40,
        mnist.SAME: 40,
        mnist.TUNED: tuned,
        mnist.OURS_TUNED: ours,
    }
    metrics = {
        "curves": {
            name: {
                "accuracy": [1 - value for value in curve(60, t)],
                "loss": [2.0, 0.1 if name == mnist.NABLA else 0.2],
                "confidence": [0.1, 0.95 if name == mnist.NABLA else 0.9],
            }
            for name, t in at.items()
        }
    }
    config: dict[str, Any] = {"every": 10, "grid": [0.01]}
    *counted, predictive, confident = mnist.claims(made("mnist", config | LEARNING, metrics))
    assert [claim.verdict for claim in counted] == [word, word]
    assert predictive.verdict is Verdict.FAILS  # all end with the same accuracy
    assert confident.verdict is Verdict.HOLDS
    found = counted
    assert f"{10 * (ours + 2)} against 420 iterations" in found[0].ours  # two more tests to average


@pytest.mark.parametrize(
    ("leads", "tuned", "word"),
    [
        ((0, 0.1), (0, 0.05), Verdict.HOLDS),
        ((0, 0.1), (0, 0), Verdict.UNTUNED),
        ((0.1, 0), (0, 0.05), Verdict.FAILS),
    ],
)
def test_density_trend(
    leads: tuple[float, float], tuned: tuple[float, float], word: Verdict
) -> None:
    rows = [
        {
            "FWNet": {"accuracy": 0.5, "rank": 3},
            "FWNet, tuned": {"accuracy": 0.6, "rank": 3},
            "Adam": {"accuracy": 0.5 + lead, "rank": rank},
            "Adam, tuned": {"accuracy": 0.6 + best, "rank": rank},
        }
        for lead, best, rank in zip(leads, tuned, (2, 4), strict=True)
    ]
    config = {"data": ["digits"], "grid": [0.001, 0.01]}
    better, assumption = density.claims(made("density", config, {"sets": {"digits": rows}}))
    assert better.verdict is assumption.verdict is word
    assert f"{leads[0]:+.3f} (sparsest), {leads[1]:+.3f} (densest)" in better.ours
    assert "digits: 2 (sparsest), 4 (densest)" in assumption.ours
    assert "0.001, 0.01" in better.grid
