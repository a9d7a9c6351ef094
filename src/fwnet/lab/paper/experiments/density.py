"""density: where the low-rank assumption stops paying (a paragraph of the paper, no figure)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, final

import numpy as np
from torch import nn

from fwnet.data import load
from fwnet.lab.paper.claims import Claim, Comparison, Reading
from fwnet.lab.paper.configs import DENSITY, DensityConfig
from fwnet.lab.paper.experiment import Experiment, Profile, Progress, Results
from fwnet.lab.paper.figures import Curves, Figure, PlottedLine, Table
from fwnet.lab.paper.kernel_nets import image_features
from fwnet.lab.paper.measures import effective_rank, range_text
from fwnet.lab.paper.softmax_runs import Images, curves, image_parts, tested
from fwnet.lab.paper.updates import Adam, SplitUpdates, TraceNormSteps, into_ball
from fwnet.learned.families.training_runs import NetworkTraining
from fwnet.learned.networks import Updates
from fwnet.learned.training.recurrences import OptimizerRun
from fwnet.learned.training.tasks import with_seed

FWNET, ADAM = "FWNet", "Adam"
TUNED = {FWNET: "FWNet, tuned", ADAM: "Adam, tuned"}


@final
class Density(Experiment[DensityConfig]):
    """Adam's lead over trace-norm steps, and effective ranks, as networks grow."""

    name = "density"
    title = "Wider and deeper networks"
    paper = "text, no figure"
    question = (
        "The denser the network, the better Adam: where does the low-rank assumption stop paying?"
    )

    def config(self, profile: Profile) -> DensityConfig:
        return DENSITY[profile]

    def run(self, config: DensityConfig, seed: int, progress: Progress) -> dict[str, Any]:
        for name in config.data:
            load(name)  # missing data is an error now, not after hours of work
        out: dict[str, Any] = {}
        total, done = len(config.data) * len(config.nets), 0
        for name in config.data:
            parts = _images(config, name, seed)
            rows = []
            for width, depth in config.nets:
                progress(done / total, f"{name}, {depth} layers of {width}")
                net = _net(config, parts, width, depth, seed)
                rows.append(_compare(config, net, parts, seed))
                done += 1
            out[name] = rows
        return {"sets": out}

    def figures(self, results: Results) -> Sequence[Figure]:
        nets = results.config["nets"]
        where = [float(depth * width) for width, depth in nets]
        series, ranks, rows = [], [], []
        for name in results.config["data"]:
            for tuned in (False, True):
                lead = leads(results, name, tuned)
                label = f"{name}, both tuned" if tuned else name
                low, high = lead.min(0).tolist(), lead.max(0).tolist()
                series.append(PlottedLine(label, where, lead.mean(0), low, high, baseline=tuned))
            for method in (FWNET, ADAM):
                share = _over_nets(results, name, method, "share").mean(0)
                ranks.append(
                    PlottedLine(f"{name}, {method}", where, share, baseline=method == ADAM)
                )
            every = (FWNET, ADAM, *TUNED.values())
            accuracy, shares = (
                [_over_nets(results, name, method, key).mean(0) for method in every[:last]]
                for key, last in (("accuracy", 4), ("share", 2))
            )
            for k, (width, depth) in enumerate(nets):
                chosen = [_chosen(results, name, method, k) for method in TUNED.values()]
                numbers = [[float(found[k]) for found in group] for group in (accuracy, shares)]
                rows.append([name, f"{depth} × {width}", *numbers[0], *chosen, *numbers[1]])
        axis = "units in fully connected layers"
        return [
            Curves(
                "lead",
                "Adam's lead in test accuracy over FWNet",
                "Mean over seeds, with the smallest and the largest; with the paper's constant "
                "0.001, and with the constant that was best on held-out images for each.",
                axis,
                "accuracy, Adam − FWNet",
                series,
                log_x=True,
            ),
            Curves(
                "rank",
                "Effective rank of what training added to the first dense matrix",
                "exp(entropy of the singular values) as a share of the largest rank that the "
                "matrix can have, so that it does not grow with the width alone; of W_T − W_0 for "
                "Adam, and for FWNet of the sum of its steps, W_T − (1 − γ)^T W_0.",
                axis,
                "effective rank / largest rank",
                ranks,
                log_x=True,
            ),
            Table(
                "table",
                "Accuracy and effective rank",
                "After the last iteration, mean over seeds; layers × units of the dense part, of "
                "which every matrix is in the ball. FWNet has one number for γ and for the Adam "
                "of its other weights.",
                (
                    "data",
                    "network",
                    *(FWNET, ADAM, *TUNED.values()),
                    *("chosen, FWNet", "chosen, Adam", "rank share, FWNet", "rank share, Adam"),
                ),
                rows,
            ),
        ]

    def claims(self, results: Results) -> Sequence[Claim]:
        return claims(results)


def leads(results: Results, name: str, tuned: bool = False) -> np.ndarray:  # (seeds, nets)
    """Test accuracy of Adam minus FWNet's, both in the paper's setting or both tuned."""
    ours, adam = TUNED.values() if tuned else TUNED.keys()
    return _over_nets(results, name, adam, "accuracy") - _over_nets(results, name, ours, "accuracy")


def claims(results: Results) -> list[Claim]:
    """What the paper says of dense networks, measured."""
    names = results.config["data"]
    grid = f"Adam lr, FWNet γ = lr: {', '.join(f'{rate:g}' for rate in results.config['grid'])}"
    untuned, tuned = (
        {name: leads(results, name, tuned) for name in names} for tuned in (False, True)
    )
    shares = {name: _over_nets(results, name, ADAM, "share") for name in names}
    growths = np.concatenate([lead[:, -1] - lead[:, 0] for lead in untuned.values()])
    factors = np.concatenate([share[:, -1] / share[:, 0] for share in shares.values()])
    return [
        Claim(
            "Q4",
            "The more dense the network became, the better the ADAM performed.",
            "(no numbers)",
            "From the sparsest to the densest network, the share of test images by which Adam "
            f"leads FWNet goes {_ends(untuned, '.0%')}; with both tuned, {_ends(tuned, '.0%')}.",
            [
                Reading(
                    "from the sparsest to the densest network", _growing(untuned), _growing(tuned)
                ),
                Reading(
                    "with every wider or deeper network",
                    _growing(untuned, every=True),
                    _growing(tuned, every=True),
                ),
            ],
            range_text(growths, "growths"),
            grid,
        ),
        Claim(
            "Q4",
            "This validates our assumption of low-rank solutions: if it does not hold, there is "
            "no point in the trace-norm constraint.",
            "(no numbers)",
            "If a lack of low rank explained Adam's lead, the effective rank of what Adam learns, "
            "as a share of the largest possible rank, would grow with that lead. It goes "
            f"{_ends(shares, '.2g')}.",
            [
                Reading(
                    "rank share and lead grow together",
                    _growing(shares) + _growing(untuned),
                    _growing(tuned),
                )
            ],
            range_text(factors, "factors"),
            grid,
        ),
    ]


def _growing(
    values: dict[str, np.ndarray],  # (seeds, nets) of each set
    every: bool = False,
) -> tuple[Comparison, ...]:
    """On every set, the mean growth from the sparsest to the densest network, or of every step."""
    return tuple(
        Comparison(float(growth), ">", 0.0, f"growth on {name}")
        for name, found in values.items()
        for growth in (np.diff(found.mean(0)) if every else [(found[:, -1] - found[:, 0]).mean()])
    )


def _ends(values: dict[str, np.ndarray], form: str) -> str:  # (seeds, nets) of each set
    """Means on the sparsest and the densest network, set by set."""
    return " and ".join(
        f"from {found[:, 0].mean():{form}} to {found[:, -1].mean():{form}} on {name}"
        for name, found in values.items()
    )


def _over_nets(results: Results, name: str, method: str, key: str) -> np.ndarray:  # (seeds, nets)
    rows = [result.metrics["sets"][name] for result in results.seeds]
    return np.array([[net[method][key] for net in nets] for nets in rows], dtype=float)


def _chosen(results: Results, name: str, method: str, net: int) -> str:
    found = _over_nets(results, name, method, "rate")[:, net]
    return ", ".join(f"{rate:g}" for rate in sorted(set(found)))


class Parts(NamedTuple):
    """Images for the runs, for choices, and for tests: no image in two."""

    train: Images
    held: Images
    test: Images
    classes: int


def _images(config: DensityConfig, name: str, seed: int) -> Parts:
    shares = (0.9, 0.1, 0.0)
    train, held, _, test = image_parts(name, config.rows, shares, config.test_points, seed)
    return Parts(train, held.head(config.test_points), test, len(load(name).classes))


def _net(config: DensityConfig, like: Parts, width: int, depth: int, seed: int) -> nn.Module:
    def build() -> nn.Module:
        shape = tuple(like.train.X.shape[1:])
        body = image_features(shape, config.channels, width, depth)
        return nn.Sequential(*body, nn.Linear(width, like.classes))

    return with_seed(build, seed)


def _compare(config: DensityConfig, net: nn.Module, parts: Parts, seed: int) -> dict[str, Any]:
    """Both methods on one network from the same weights, with the paper's constant and tuned."""
    out: dict[str, Any] = {}
    for method, tuned in TUNED.items():
        found = {rate: _train(config, net, parts, method, rate, seed) for rate in config.grid}
        best = max(found, key=lambda rate: found[rate]["held"])
        out[method], out[tuned] = found[config.step_size], found[best]
    return out


def _train(
    config: DensityConfig, net: nn.Module, parts: Parts, method: str, rate: float, seed: int
) -> dict[str, float]:
    """A run with one constant, judged on the held-out images and on the test images."""
    dense = tuple(name for name, p in net.named_parameters() if p.ndim == 2)
    steps = TraceNormSteps(config.radius, rate, config.iterations, seed=seed)
    ours = method == FWNET
    updates: Updates = SplitUpdates(dense, steps, Adam(rate)) if ours else Adam(rate)
    X, y = parts.train.X, parts.train.y
    run = OptimizerRun(NetworkTraining(net, X, y, updates, config.batch, seed))
    start = run.state.parameters
    for key in dense if ours else ():
        start[key] = into_ball(start[key], config.radius)
    seen = curves(run, net, config.steps, config.every, parts.test)
    end = run.state.parameters
    left = (1 - rate) ** config.steps if ours else 1.0
    added = end[dense[0]] - left * start[dense[0]]
    return {
        "rate": rate,
        "held": tested(net, end, parts.held)["accuracy"],
        "accuracy": float(np.mean(seen["accuracy"][-2:])),
        "loss": seen["loss"][-1],
        "share": effective_rank(added) / min(added.shape),
    }
