"""The words that synthetic results earn: each claim is pushed to every verdict."""

from typing import Any

import pytest

from fwnet.paper.experiment import Profile, Results, SeedResult, Verdict
from fwnet.paper.experiments import cifar2, circles, density, manmade, mnist


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
    return made("cifar2", {"gd_grid": [1.0], "adam_grid": [0.1], "lr": 0.01}, metrics)


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


def circles_results(fwnet: float, tuned: float, gamma: float | None, nabla: float) -> Results:
    counts = {"FWNet": fwnet, "FWNet, tuned": tuned, "L2LC_γ": gamma, "L2LC_∇": nabla}
    metrics = {
        "loss": {key: [1.0, 0.5] for key in counts},
        "at": {name: {"t": t, "roughness": 0.2} for name, t in counts.items()},
        "test": dict.fromkeys(counts, 0.99),
    }
    return made("circles", {"step_sizes": [0.01], "lr_grid": [0.01]}, metrics)


@pytest.mark.parametrize(
    ("tuned", "nabla", "word"),
    [(500, 20, Verdict.HOLDS), (100, 20, Verdict.UNTUNED), (500, 60, Verdict.FAILS)],
)
def test_circles_counts(tuned: float, nabla: float, word: Verdict) -> None:
    gamma, kernel, smooth, trains = circles.claims(circles_results(500, tuned, None, nabla))
    assert gamma.verdict is Verdict.FAILS
    assert "never against 500" in gamma.ours
    assert kernel.verdict is word
    assert smooth.verdict is Verdict.FAILS
    assert trains.verdict is Verdict.HOLDS


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
    config = {"lr_grid": [0.01], "step_sizes": [0.1], "positive": [1, 4, 7]}
    half, trains = manmade.claims(made("manmade", config, metrics, metrics))
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
    config = {"every": 10, "adam_grid": [0.01]}
    found = mnist.claims(made("mnist", config, metrics))
    assert [claim.verdict for claim in found] == [word, word, Verdict.HOLDS]
    assert f"{10 * (ours + 2)} against 420 iterations" in found[0].ours  # two more tests to average


@pytest.mark.parametrize(("leads", "word"), [((0, 0.1), "holds"), ((0.1, 0), "does not hold")])
def test_density_trend(leads: tuple[float, float], word: str) -> None:
    rows = [{"FWNet": {"accuracy": 0.5}, "Adam": {"accuracy": 0.5 + lead}} for lead in leads]
    results = made("density", {"data": ["digits"]}, {"sets": {"digits": rows}})
    (claim,) = density.claims(results)
    assert claim.verdict.value == word
    assert f"{leads[0]:+.3f} (sparsest), {leads[1]:+.3f} (densest)" in claim.ours
