"""density: where the low-rank assumption stops paying (a paragraph of the paper, no figure)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np
import torch
from torch import nn

from fwnet.data import load
from fwnet.paper.configs import DENSITY, DensityConfig
from fwnet.paper.experiment import Claim, Experiment, Profile, Progress, Results
from fwnet.paper.figures import Curves, Figure, Series, Table
from fwnet.paper.kernel_nets import image_features
from fwnet.paper.measures import effective_rank, range_text, verdict
from fwnet.paper.meta import seeded
from fwnet.paper.softmax_runs import Images, SoftmaxRun, Split, TraceNormSteps, curves
from fwnet.paper.updates import Adam, Updates

FWNET, ADAM = "FWNet", "Adam"


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
        out: dict[str, Any] = {}
        total, done = len(config.data) * len(config.nets), 0
        for name in config.data:
            train, test, classes = _images(config, name, seed)
            rows = []
            for width, depth in config.nets:
                progress(done / total, f"{name}, {depth} layers of {width}")
                net = _net(config, train, width, depth, classes, seed)
                rows.append(_compare(config, net, train, test, seed))
                done += 1
            out[name] = rows
        return {"sets": out}

    def figures(self, results: Results) -> Sequence[Figure]:
        labels = [f"{depth} × {width}" for width, depth in results.config["nets"]]
        where = list(range(1, len(labels) + 1))
        series, ranks, rows = [], [], []
        for name in results.config["data"]:
            lead = leads(results, name)
            series.append(
                Series(name, where, lead.mean(0), lead.min(0).tolist(), lead.max(0).tolist())
            )
            for method in (FWNET, ADAM):
                rank = _over_nets(results, name, method, "rank")
                ranks.append(
                    Series(f"{name}, {method}", where, rank.mean(0), baseline=method == ADAM)
                )
            for k, label in enumerate(labels):
                rows.append(
                    [
                        name,
                        label,
                        *(
                            float(_over_nets(results, name, method, key)[:, k].mean())
                            for key in ("accuracy", "rank")
                            for method in (FWNET, ADAM)
                        ),
                    ]
                )
        axis = (
            f"network: {', '.join(f'{k} = {text}' for k, text in zip(where, labels, strict=True))}"
        )
        return [
            Curves(
                "lead",
                "Adam's lead in test accuracy over FWNet",
                "Mean over seeds, with the smallest and the largest.",
                axis,
                "accuracy of Adam − FWNet",
                series,
            ),
            Curves(
                "rank",
                "Effective rank of what training added to the first dense matrix",
                "exp(entropy of the singular values), of W_T − W_0 for Adam, and for FWNet of the "
                "sum of its steps, W_T − (1 − γ)^T W_0.",
                axis,
                "effective rank",
                ranks,
                log_y=True,
            ),
            Table(
                "table",
                "Accuracy and effective rank",
                "After the last iteration, mean over seeds; layers × units of the dense part, of "
                "which every matrix is in the ball.",
                ("data", "network", "FWNet", "Adam", "rank, FWNet", "rank, Adam"),
                rows,
            ),
        ]

    def claims(self, results: Results) -> Sequence[Claim]:
        return claims(results)


def leads(results: Results, name: str) -> np.ndarray:  # (seeds, nets)
    """Test accuracy of Adam minus FWNet's."""
    return _over_nets(results, name, ADAM, "accuracy") - _over_nets(
        results, name, FWNET, "accuracy"
    )


def claims(results: Results) -> list[Claim]:
    """What the paper says of dense networks, measured."""
    change = {name: leads(results, name) for name in results.config["data"]}
    growth = np.concatenate([lead[:, -1] - lead[:, 0] for lead in change.values()])
    texts = [
        f"{name}: {lead[:, 0].mean():+.3f} (sparsest), {lead[:, -1].mean():+.3f} (densest)"
        for name, lead in change.items()
    ]
    everywhere = all((lead[:, -1] - lead[:, 0]).mean() > 0 for lead in change.values())
    return [
        Claim(
            "Q4",
            "The more dense the network became, the better the ADAM performed.",
            "(no numbers)",
            f"Adam's lead in accuracy, {'; '.join(texts)}",
            range_text(growth, "growths"),
            "both with the paper's constant 0.001",
            verdict(everywhere, everywhere),
            "Holds if Adam's lead grows from the sparsest to the densest network on every set.",
        )
    ]


def _over_nets(results: Results, name: str, method: str, key: str) -> np.ndarray:  # (seeds, nets)
    rows = [result.metrics["sets"][name] for result in results.seeds]
    return np.array([[net[method][key] for net in nets] for nets in rows], dtype=float)


def _images(config: DensityConfig, name: str, seed: int) -> tuple[Images, Images, int]:
    data = load(name)
    rows = np.random.default_rng(seed).permutation(len(data.y))[: config.rows]
    x, y = data.train(np.sort(rows))
    x_test, y_test = data.test(slice(config.test_points))
    train = Images(torch.from_numpy(x), torch.from_numpy(y.copy()))
    test = Images(torch.from_numpy(x_test), torch.from_numpy(y_test.copy()))
    return train, test, len(data.classes)


def _net(
    config: DensityConfig, like: Images, width: int, depth: int, classes: int, seed: int
) -> nn.Module:
    def build() -> nn.Module:
        body = image_features(tuple(like.X.shape[1:]), config.channels, width, depth)
        return nn.Sequential(*body, nn.Linear(width, classes))

    return seeded(build, seed)


def _compare(
    config: DensityConfig, net: nn.Module, train: Images, test: Images, seed: int
) -> dict[str, Any]:
    """Both methods on one network, from the same weights; FWNet's scaled into the ball."""
    dense = tuple(name for name, p in net.named_parameters() if p.ndim == 2)
    steps = TraceNormSteps(config.radius, config.step_size, config.iterations, seed=seed)
    arms: dict[str, Updates] = {
        FWNET: Split(dense, steps, Adam(config.lr)),
        ADAM: Adam(config.lr),
    }
    out = {}
    for name, updates in arms.items():
        run = SoftmaxRun(net, train, updates, config.batch, seed)
        if name == FWNET:
            for key in dense:
                W = run.parameters[key]
                size = torch.linalg.svdvals(W).sum()
                run.parameters[key] = W * min(1.0, config.radius / float(size))
        start = dict(run.parameters)
        seen = curves(run, config.steps, config.every, test)
        left = (1 - config.step_size) ** config.steps if name == FWNET else 1.0
        out[name] = {
            "accuracy": float(np.mean(seen["accuracy"][-2:])),
            "loss": seen["loss"][-1],
            "rank": effective_rank(run.parameters[dense[0]] - left * start[dense[0]]),
            "rank_softmax": effective_rank(run.parameters[dense[-1]] - left * start[dense[-1]]),
        }
    return out
