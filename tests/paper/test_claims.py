"""Verdicts of synthetic results: each claim is brought to every verdict it can have."""

import math
from typing import Any

import numpy as np
import pytest

from fwnet.lab.paper import deep_methods as deep
from fwnet.lab.paper import simplex_methods as simplex
from fwnet.lab.paper.claims import Claim, Comparison, Reading, Rule, Verdict
from fwnet.lab.paper.experiment import Profile, Results, SeedResult
from fwnet.lab.paper.experiments import cifar2, circles, density, manmade, mnist
from fwnet.lab.paper.experiments.scaling import POWER, SVD, Scaling
from fwnet.lab.paper.judged import Judged, judge
from fwnet.lab.paper.store import plain

YES, NO = (Comparison(2.0, ">", 1.0),), (Comparison(1.0, ">", 1.0),)
HOLDS, UNTUNED, FAILS = Reading("a", YES, YES), Reading("b", YES, NO), Reading("c", NO)


@pytest.mark.parametrize(
    ("readings", "untrained", "word"),
    [
        ([HOLDS], "", Verdict.HOLDS),
        ([Reading("nothing to tune", YES)], "", Verdict.HOLDS),
        ([UNTUNED], "", Verdict.UNTUNED),
        ([FAILS], "", Verdict.FAILS),
        ([Reading("both", YES + NO, YES)], "", Verdict.FAILS),
        ([HOLDS, FAILS], "", Verdict.READING),
        ([FAILS, HOLDS, UNTUNED], "", Verdict.READING),
        ([UNTUNED, FAILS], "", Verdict.UNTUNED),
        ([HOLDS], "It failed.", Verdict.UNTRAINED),
    ],
)
def test_the_rule_of_verdicts(readings: list[Reading], untrained: str, word: Verdict) -> None:
    claim = Claim("Q1", "words", "1", "It is 2.", readings, "1 to 2", "none", untrained)
    assert claim.verdict is word
    assert claim.facts()["verdict"] == word.value
    assert claim.facts()["readings"][0]["name"] == readings[0].name


def test_comparisons() -> None:
    table: list[tuple[Rule, int, int, int]] = [
        ("<", 1, 0, 0),
        ("<=", 1, 1, 0),
        (">", 0, 0, 1),
        (">=", 0, 1, 1),
    ]
    for rule, below, equal, above in table:
        found = [bool(Comparison(number, rule, 2.0)) for number in (1.0, 2.0, 3.0)]
        assert found == [bool(below), bool(equal), bool(above)]
        assert not Comparison(math.nan, rule, 2.0)  # a number that is not there proves nothing
    assert str(Comparison(2.5, ">", 3.0, "a / b")) == "a / b: 2.5 > 3, no"


META = {"meta": {"lrs": [0.003, 0.01], "restarts": 1}}


def made(name: str, config: dict[str, Any], *metrics: dict[str, Any]) -> Results:
    seeds = [SeedResult(k, plain(m), 1.0, {}) for k, m in enumerate(metrics)]
    return Results(name, Profile.QUICK, config, seeds)


def seed(ends: dict[str, float], failed: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    """Metrics of a seed: every method falls from 1 to its end."""
    methods = {name: judge([[1.0, end]]) | more for name, end in ends.items()}
    return {
        "methods": methods,
        "chosen": {},
        "training": {name: {"failed": True} for name in failed},
    }


def test_a_failed_training_is_left_out_and_named() -> None:
    ends = {"L2LC_γ": 0.2, "Adam": 0.4}
    bad = seed(ends | {"L2LC_γ": 9.0}, failed=("L2LC_γ",))
    judged = Judged(made("toy", {}, seed(ends), bad, seed(ends)))
    assert judged.typical("L2LC_γ", "end") == 0.2
    assert judged.failed("L2LC_γ") == [1]
    assert judged.untrained("L2LC_γ") == ""
    assert judged.spread("L2LC_γ", "end").endswith("0.2 to 0.2 (2 runs); 1 of 3 trainings failed")
    none = Judged(made("toy", {}, bad))
    assert none.untrained("L2LC_γ").startswith("No training of L2LC_γ beat")
    assert math.isnan(none.typical("L2LC_γ", "end"))
    assert none.best(["L2LC_γ", "Adam"], "end") == "Adam"


def test_criteria_of_known_curves() -> None:
    found = judge([[4.0, 2.0, 1.0], [4.0, math.nan, 1.0]], [2.0, 0.5])
    assert found["count"] == [1.0, math.inf]
    assert found["area"][0] == pytest.approx(7 / 3)
    assert np.isinf(found["area"][1])  # it diverged


def cifar2_results(ours: float, untuned: float, tuned: float, deviation: float = 0.1) -> Results:
    ends = dict.fromkeys(simplex.FWNETS, ours) | dict.fromkeys(simplex.UNTUNED, untuned)
    ends |= dict.fromkeys((*simplex.TUNED, simplex.OURS_TUNED), tuned)
    ends |= dict.fromkeys(simplex.UNCONSTRAINED, untuned)
    metrics = seed(ends, deviation=[0.1, 0.1])
    metrics["methods"][simplex.GAMMA]["deviation"] = [deviation, deviation]
    grids: dict[str, Any] = {"gd_grid": [1.0], "adam_grid": [0.1], "lr": 0.01, "steps": 200}
    return made("cifar2", grids | META, metrics)


@pytest.mark.parametrize(
    ("ours", "untuned", "tuned", "word"),
    [
        (0.1, 0.2, 0.3, Verdict.HOLDS),
        (0.1, 0.2, 0.05, Verdict.UNTUNED),
        (0.3, 0.2, 0.1, Verdict.FAILS),
    ],
)
def test_cifar2_against_baselines(ours: float, untuned: float, tuned: float, word: Verdict) -> None:
    first, similar, _, faster, abstract = cifar2.claims(cifar2_results(ours, untuned, tuned))
    assert first.verdict is word
    assert similar.verdict is Verdict.HOLDS  # all FWNets alike
    assert faster.verdict is (Verdict.HOLDS if ours < untuned else Verdict.FAILS)
    assert abstract.verdict is Verdict.FAILS  # no better than the hand-designed FWNets
    assert "L2LC and L2L meta lr in 0.003, 0.01" in first.grid


@pytest.mark.parametrize(("deviation", "word"), [(0.02, Verdict.HOLDS), (0.09, Verdict.FAILS)])
def test_cifar2_variance(deviation: float, word: Verdict) -> None:
    claim = cifar2.claims(cifar2_results(0.1, 0.2, 0.3, deviation))[2]
    assert claim.verdict is word
    assert f"{deviation / 0.1:.3g}" in claim.sentence


def circles_results(
    fwnet: float, tuned: float, gamma: float | None, kernel: float, learned: float = 0.5
) -> Results:
    counts: dict[str, float | None] = dict.fromkeys(deep.HAND, fwnet)
    counts |= {deep.TUNED: tuned, deep.GAMMA: gamma}
    counts |= {deep.GAMMA_KERNEL: kernel, deep.NABLA_KERNEL: 2 * kernel}
    metrics = seed({name: learned if "L2LC" in name else 0.5 for name in counts})
    for name, t in counts.items():
        metrics["methods"][name] |= {"count": [t], "roughness": [0.2], "test": [0.99]}
    metrics["scores"] = {
        deep.TUNED: {"γ = 0.01, lr = 0.01": 480.0, "γ = 0.01, lr = 0.1": 90.0},
        deep.TODAY: {"lr = 0.01": 790.0, "lr = 0.1": 60.0},
    }
    config = {"step_sizes": [0.01], "lr_grid": [0.01, 0.1], "lr": 0.01, "steps": 500}
    return made("circles", config | META, metrics)


@pytest.mark.parametrize(
    ("tuned", "kernel", "word"),
    [
        (500, 10, Verdict.HOLDS),
        (500, 20, Verdict.READING),  # the other kernel takes 40
        (100, 20, Verdict.UNTUNED),
        (500, 60, Verdict.FAILS),
    ],
)
def test_circles_counts(tuned: float, kernel: float, word: Verdict) -> None:
    step, both, ahead, smooth, trains = circles.claims(circles_results(500, tuned, None, kernel))
    assert step.verdict is Verdict.FAILS
    assert "L2LC_γ never, the tuned FWNet" in step.sentence
    listed = "480 with γ = 0.01, 790 with an SVM that is solved exactly"
    assert f"the same Adam (lr = 0.01) takes {listed}; a level" in step.sentence
    assert both.verdict is word
    assert both.readings[0].name == "step and kernel"
    assert ahead.verdict is Verdict.FAILS
    assert smooth.verdict is Verdict.FAILS
    assert trains.verdict is Verdict.HOLDS


def test_circles_learned_against_hand_coded() -> None:
    ahead = circles.claims(circles_results(500, 500, 200, 20, learned=0.4))[2]
    assert ahead.verdict is Verdict.HOLDS
    assert "has 0.7, the best hand-coded one 0.75" in ahead.sentence


@pytest.mark.parametrize(
    ("gamma", "tuned", "word"),
    [(10, 30, Verdict.HOLDS), (10, 15, Verdict.UNTUNED), (30, 40, Verdict.FAILS)],
)
def test_manmade_counts(gamma: int, tuned: int, word: Verdict) -> None:
    at = dict.fromkeys(manmade.UNTUNED, 40) | {deep.TUNED: tuned, manmade.ADAM_TUNED: 40}
    at |= {deep.GAMMA: gamma, deep.GAMMA_KERNEL: 50}
    metrics = seed({name: t / 100 for name, t in at.items()}, test=0.9)
    for name, t in at.items():
        metrics["methods"][name] |= {"count": [t], "count 2/(t+2)": [t]}
    config: dict[str, Any] = {"lr_grid": [0.01], "step_sizes": [0.1], "positive": [1, 4, 7]}
    ahead, half, harder, trains = manmade.claims(made("manmade", config | META, metrics, metrics))
    assert ahead.verdict is Verdict.HOLDS  # its loss ends lowest
    assert half.verdict is word
    assert f"L2LC_γ {gamma}; the fastest" in half.sentence
    assert harder.verdict is Verdict.HOLDS
    assert trains.verdict is Verdict.HOLDS


@pytest.mark.parametrize(
    ("ours", "tuned", "word"),
    [(50, 300, Verdict.HOLDS), (50, 100, Verdict.UNTUNED), (300, 400, Verdict.FAILS)],
)
def test_mnist_counts(ours: int, tuned: int, word: Verdict) -> None:
    at = {mnist.FWNET: ours, mnist.NABLA: ours, mnist.ADAM: 400, mnist.SAME: 400}
    at |= {mnist.TUNED: tuned, mnist.OURS_TUNED: ours, mnist.L2L: 500}
    metrics = seed({name: 0.1 if name == mnist.NABLA else 0.2 for name in at})
    for name, t in at.items():
        sure = 0.95 if name == mnist.NABLA else 0.9
        metrics["methods"][name] |= {"count": [t], "accuracy": [0, 0.9], "confidence": [0, sure]}
    config: dict[str, Any] = {"every": 10, "grid": [0.01], "steps": 600}
    *counted, ahead, confident, abstract = mnist.claims(made("mnist", config | META, metrics))
    assert [claim.verdict for claim in counted] == [word, word]
    assert ahead.verdict is Verdict.FAILS  # FWNet is not ahead of Adam
    assert confident.verdict is abstract.verdict is Verdict.HOLDS
    assert f" {ours}, Adam 400" in counted[0].sentence


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
            "FWNet": {"accuracy": 0.5, "share": 0.3},
            "FWNet, tuned": {"accuracy": 0.6, "share": 0.3},
            "Adam": {"accuracy": 0.5 + lead, "share": share},
            "Adam, tuned": {"accuracy": 0.6 + best, "share": share},
        }
        for lead, best, share in zip(leads, tuned, (0.2, 0.4), strict=True)
    ]
    config = {"data": ["digits"], "grid": [0.001, 0.01]}
    better, assumption = density.claims(made("density", config, {"sets": {"digits": rows}}))
    assert better.verdict is assumption.verdict is word
    assert f"from {leads[0]:.0%} to {leads[1]:.0%} on digits" in better.sentence
    assert "from 0.2 to 0.4 on digits" in assumption.sentence
    assert "0.001, 0.01" in better.grid


@pytest.mark.parametrize(("svd", "word"), [(40.0, Verdict.HOLDS), (8.0, Verdict.FAILS)])
def test_scaling(svd: float, word: Verdict) -> None:
    seconds = {POWER: [1.0, 2.0], SVD: [1.0, 2 * svd]}
    (claim,) = Scaling().claims(made("scaling", {"sides": [8, 16]}, {"seconds": seconds}))
    assert claim.verdict is word
    assert f"takes {svd:.0f} times" in claim.sentence
