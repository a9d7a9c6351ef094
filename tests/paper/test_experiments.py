"""Every experiment end to end in a tiny configuration; the same seed gives the same numbers."""

import json
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fwnet.data import DataError
from fwnet.lab.paper import configs
from fwnet.lab.paper.claims import Claim
from fwnet.lab.paper.experiment import Experiment, Profile, Results, SeedResult
from fwnet.lab.paper.experiments import EXPERIMENTS
from fwnet.lab.paper.experiments.cifar2 import Cifar2
from fwnet.lab.paper.experiments.circles import Circles, roughness
from fwnet.lab.paper.experiments.density import Density
from fwnet.lab.paper.experiments.graphs import Graphs, GraphsConfig
from fwnet.lab.paper.experiments.manmade import Manmade
from fwnet.lab.paper.experiments.mnist import Mnist, images
from fwnet.lab.paper.experiments.quadrature import Quadrature, QuadratureConfig
from fwnet.lab.paper.experiments.scaling import Scaling, ScalingConfig
from fwnet.lab.paper.figures import Curves, Maps, Table
from fwnet.lab.paper.judged import Judged
from fwnet.lab.paper.simplex_methods import parts
from fwnet.lab.paper.simplex_runs import SimplexTasks
from fwnet.lab.paper.store import plain

META = configs.MetaTraining(episodes=1, horizon=4, window=2, lrs=(0.01,), check_every=1)
CIFAR2 = replace(
    configs.CIFAR2[Profile.QUICK],
    pairs=3,
    per_class=8,
    steps=6,
    betas=(1.0, 10.0),
    gd_grid=(1.0,),
    adam_grid=(0.1,),
    meta=META,
    batch=2,
    held=2,
)
CIRCLES = replace(
    configs.CIRCLES[Profile.QUICK],
    points=60,
    steps=8,
    step_sizes=(0.1,),
    lr_grid=(0.1,),
    meta=META,
    meta_batch=2,
    starts=2,
    held=2,
    resolution=8,
)
MNIST = replace(
    configs.MNIST[Profile.QUICK],
    rows=300,
    test_points=50,
    channels=2,
    grid=(0.01,),
    batch=16,
    steps=6,
    every=2,
    meta=META,
)
TINY: dict[type[Experiment[Any]], Any] = {
    Cifar2: CIFAR2,
    Circles: CIRCLES,
    Manmade: replace(
        configs.MANMADE[Profile.QUICK],
        points=40,
        test_points=30,
        channels=2,
        steps=5,
        lr_grid=(0.01,),
        step_sizes=(0.1,),
        meta=META,
    ),
    Mnist: MNIST,
    Density: replace(
        configs.DENSITY[Profile.QUICK],
        rows=200,
        test_points=40,
        channels=2,
        nets=((4, 1), (8, 2)),
        grid=(0.001, 0.1),
        batch=16,
        steps=4,
        every=2,
    ),
    Scaling: ScalingConfig((8, 16), repeats=1),
    Graphs: GraphsConfig(sets=(), folds=2, rounds=(1,), C=(1.0,)),
    Quadrature: QuadratureConfig((2,), (3, 5), 50, rows=80, coreset_size=20, test_rows=40),
}


def results(experiment: Experiment[Any], config: Any, runs: list[dict[str, Any]]) -> Results:
    """Results as a store reads them back."""
    seeds = [
        SeedResult(seed, json.loads(json.dumps(plain(metrics))), 1.0, {})
        for seed, metrics in enumerate(runs)
    ]
    return Results(experiment.name, Profile.QUICK, plain(config), seeds)


@cache
def first_run(kind: type[Experiment[Any]]) -> tuple[dict[str, Any], list[float]]:
    """Metrics of seed 0, and the shares that were reported on the way; no test changes them."""
    shares: list[float] = []
    return kind().run(TINY[kind], 0, lambda share, text: shares.append(share)), shares


def timeless(metrics: Any) -> Any:
    """Metrics without the seconds that they took."""
    if not isinstance(metrics, dict):
        return metrics
    return {key: timeless(value) for key, value in metrics.items() if key != "seconds"}


@pytest.mark.slow
@pytest.mark.parametrize("kind", TINY, ids=lambda kind: kind.name)
def test_runs_draws_and_judges(kind: type[Experiment[Any]]) -> None:
    experiment, config = kind(), TINY[kind]
    metrics, shares = first_run(kind)
    runs = [metrics]
    torch.manual_seed(123)  # nothing may depend on the global generator
    runs.append(experiment.run(config, 0, lambda share, text: None))
    if kind is not Scaling:  # which measures only time
        assert plain(timeless(runs[0])) == plain(timeless(runs[1]))
    runs[1] = experiment.run(config, 1, lambda share, text: None)
    assert plain(runs[0]) != plain(runs[1])
    assert shares == sorted(shares)
    assert 0 <= shares[0] <= shares[-1] <= 1
    found = results(experiment, config, runs)
    drawn = experiment.figures(found)
    assert len({figure.name for figure in drawn}) == len(drawn) >= 1
    for figure in drawn:
        assert isinstance(figure, Curves | Maps | Table)
        if isinstance(figure, Table):
            assert {len(row) for row in figure.rows} == {len(figure.columns)}
    for claim in experiment.claims(found):
        assert isinstance(claim, Claim)
        assert claim.words
        assert any(letter.isdigit() for letter in claim.sentence)  # no claim without its number
        assert claim.sentence.endswith(".")
        assert claim.spread
        assert claim.grid
        assert claim.readings
        assert all(reading.numbers and reading.name for reading in claim.readings)
        assert all(number.what for reading in claim.readings for number in reading.numbers)
    for promise in experiment.promises(found):
        assert promise.best in Judged(found).names


def test_every_experiment_is_listed_and_has_profiles() -> None:
    listed = {type(experiment) for experiment in EXPERIMENTS}
    assert set(TINY) <= listed
    assert len({experiment.name for experiment in EXPERIMENTS}) == len(EXPERIMENTS)
    for experiment in EXPERIMENTS:
        quick, paper = (experiment.config(p) for p in (Profile.QUICK, Profile.PAPER))
        assert json.dumps(plain(quick))
        assert json.dumps(plain(paper))


@pytest.mark.slow
def test_claims_cover_every_question() -> None:
    questions = set()
    for kind, config in TINY.items():
        for claim in kind().claims(results(kind(), config, [first_run(kind)[0]])):
            questions |= set(claim.question.split(", "))
    assert questions == {"Q1", "Q2", "Q3", "Q4", "abstract"}


def test_every_second_problem_of_the_first_pair_has_flipped_labels() -> None:
    config = replace(CIFAR2, per_class=30, batch=4, held=4, flipped=0.1)
    training, held, test = parts(config, 0)

    def flips(tasks: SimplexTasks) -> list[int]:
        assert tasks.problem.labels is not None
        clean = torch.tensor([1.0, -1.0]).repeat_interleave(tasks.problem.labels.shape[-1] // 2)
        return (tasks.problem.labels != clean).sum(-1).tolist()

    assert flips(test) == [0, 0, 0]
    drawn = np.array([flips(training.draw(torch.Generator().manual_seed(k))) for k in range(200)])
    assert (drawn[:, ::2] == 0).all()
    # Of 60 labels a share is flipped that is uniform in [0, 0.1]: 3 on average, deviation 2.4.
    assert abs(drawn[:, 1::2].mean() - 3) < 3 * 2.4 / 20
    assert flips(held)[0] == flips(held)[2] == 0 < flips(held)[3]


def test_images_of_four_parts_are_disjoint() -> None:
    parts = images(replace(MNIST, rows=None), 0)
    seen = [{row.numpy().tobytes() for row in part.X} for part in parts]
    assert all(len(rows) > 50 or k == 3 for k, rows in enumerate(seen))
    for k, one in enumerate(seen):
        for other in seen[k + 1 :]:
            assert not one & other


def test_missing_data_is_an_error_before_the_work(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("FWNET_DATA", raising=False)
    monkeypatch.setenv("FWNET_CACHE", str(tmp_path))
    shares: list[float] = []
    missing = replace(TINY[Density], data=("digits", "no-such-set"))
    with pytest.raises(DataError, match="there is no data set 'no-such-set'"):
        Density().run(missing, 0, lambda share, text: shares.append(share))
    assert shares == []


def test_circles_keeps_its_parts_apart() -> None:
    with pytest.raises(ValueError, match="circles takes seeds from 0 to 99; got 100"):
        Circles().run(CIRCLES, 100, lambda share, text: None)


@dataclass(frozen=True)
class Disc:
    """Positive inside an ellipse with half axes a and b."""

    a: float
    b: float

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return 1 - (x[:, 0] / self.a) ** 2 - (x[:, 1] / self.b) ** 2


def test_roughness_of_known_boundaries() -> None:
    assert roughness(Disc(0.6, 0.6)) < 0.01
    assert roughness(Disc(0.9, 0.3)) > 0.3
    assert np.isnan(roughness(lambda x: x[:, 0]))  # a line does not close
