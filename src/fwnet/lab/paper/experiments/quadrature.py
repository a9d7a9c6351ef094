"""Bayesian quadrature, the second application that the paper leaves to others."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import process_time
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from fwnet.data import available, load
from fwnet.estimators import FWSVC
from fwnet.lab.paper.experiment import Experiment, Profile, Progress, Results
from fwnet.lab.paper.figures import Curves, Figure, Row, Table, band
from fwnet.quadrature import RBF, Gaussian, MixtureMeasure, coreset, quadrature
from fwnet.quadrature.rules import worst_case_error


@final
@dataclass(frozen=True)
class QuadratureConfig:
    """Arguments:
    dims: dimensions of the Gaussian measure, each with the lengthscale √d/2.
    sizes: numbers of points.
    candidates: of the greedy rival, which also runs with as many as Frank-Wolfe gets.
    rows, coreset_size, test_rows: of the data set that a coreset stands for.
    """

    dims: tuple[int, ...] = (2, 5, 10)
    sizes: tuple[int, ...] = (5, 10, 20, 40, 70, 100)
    candidates: int = 10_000
    rows: int = 10_000
    coreset_size: int = 500
    test_rows: int = 10_000


QUICK = QuadratureConfig(
    sizes=(5, 10, 20, 40), candidates=2000, rows=1000, coreset_size=100, test_rows=1000
)


@final
class Quadrature(Experiment[QuadratureConfig]):
    """Few points for an integral, few rows for a data set."""

    name = "quadrature"
    title = "Bayesian quadrature"
    paper = "the paper's future work"
    question = (
        "How large is the worst-case error of an integral for functions of unit norm, with the "
        "points that Frank-Wolfe chooses, beside Monte Carlo, Sobol points and the greedy choice?"
    )

    def config(self, profile: Profile) -> QuadratureConfig:
        return QUICK if profile is Profile.QUICK else QuadratureConfig()

    def seeds(self, profile: Profile) -> int:
        return 2 if profile is Profile.QUICK else 20

    def run(self, config: QuadratureConfig, seed: int, progress: Progress) -> dict[str, Any]:
        errors, seconds = {}, {}
        for k, d in enumerate(config.dims):
            progress(k / (len(config.dims) + 1), f"{d} dimensions")
            errors[str(d)], seconds[str(d)] = _race(config, d, seed)
        progress(len(config.dims) / (len(config.dims) + 1), "coreset")
        return {
            "errors": errors,
            "seconds": seconds,
            "mixture": _mixture(seed, max(config.sizes)),
            "coreset": _coreset(config, seed),
        }

    def figures(self, results: Results) -> Sequence[Figure]:
        sizes = results.config["sizes"]
        figures: list[Figure] = []
        rows = []
        for d in results.config["dims"]:
            names = results.first("errors", str(d))
            errors = {name: results.over_seeds("errors", str(d), name) for name in names}
            figures.append(
                Curves(
                    f"d{d}",
                    f"{d} dimensions",
                    "Worst-case error over functions of unit norm, for a standard Gaussian "
                    f"measure and an RBF kernel of lengthscale {math.sqrt(d) / 2:.2f}.",
                    "points",
                    "worst-case error",
                    [band(name, sizes, runs, name in _RIVALS) for name, runs in errors.items()],
                    log_x=True,
                    log_y=True,
                )
            )
            for name, runs in errors.items():
                times = results.over_seeds("seconds", str(d), name)
                mean = runs.mean(axis=0)
                rate = float(np.polyfit(np.log(sizes), np.log(mean), 1)[0])
                rows.append([d, name, float(mean[-1]), rate, float(np.median(times[:, -1]))])
        figures.append(
            Table(
                "rates",
                f"Errors with {sizes[-1]} points",
                "The rate is the slope of a line through log error against log n; Monte Carlo's "
                "is −½.",
                ("Dimensions", "Method", "Worst-case error", "Rate", "Seconds of processor time"),
                rows,
            )
        )
        return [*figures, self._mixture_table(results), self._coreset_table(results)]

    def _mixture_table(self, results: Results) -> Table:
        rows: list[Row] = []
        for seed in results.seeds:
            value, std, true = (seed.metrics["mixture"][key] for key in ("value", "std", "true"))
            rows.append([f"seed {seed.seed}", abs(value - true), std, abs(value - true) / std])
        return Table(
            "mixture",
            "An integral over a mixture",
            "The error of ∫ f dπ for a mixture of two Gaussians in two dimensions, beside the "
            "posterior standard deviation that comes with the estimate. The reference is a product "
            "rule of 6,400 nodes for each part.",
            ("Run", "Error", "Standard deviation", "Error / deviation"),
            rows,
        )

    def _coreset_table(self, results: Results) -> Table:
        names = list(results.first("coreset", "accuracy"))
        rows = []
        for name in names:
            scores = results.over_seeds("coreset", "accuracy", name)
            errors = results.over_seeds("coreset", "error", name)
            rows.append([name, float(scores.mean()), float(scores.std()), float(errors.mean())])
        count = results.config["coreset_size"]
        return Table(
            "coreset",
            f"{count} rows of {results.first('coreset', 'data')} for a kernel machine",
            f"Test accuracy of an SVM that is fitted to {count} rows with their weights.",
            ("Rows", "Accuracy, mean", "Standard deviation", "Worst-case error"),
            rows,
        )

    def findings(self, results: Results) -> Sequence[str]:
        sizes, lines = results.config["sizes"], []
        for d in results.config["dims"]:
            ours = results.over_seeds("errors", str(d), "Frank-Wolfe, moved")[:, -1].mean()
            greedy = results.over_seeds("errors", str(d), "sequential")[:, -1].mean()
            sobol = results.over_seeds("errors", str(d), "Sobol")[:, -1].mean()
            lines.append(
                f"{d} dimensions, {sizes[-1]} points: the error of Frank-Wolfe's points is "
                f"{ours / greedy:.2f} of the greedy choice's and {ours / sobol:.2f} of Sobol "
                "points'."
            )
        return lines


_SAME = "sequential, same candidates"
_RIVALS = ("Monte Carlo", "Sobol", "sequential", _SAME)


def _race(
    config: QuadratureConfig, d: int, seed: int
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Worst-case errors and seconds of every method for every number of points."""
    measure, kernel = Gaussian([0.0] * d), RBF(math.sqrt(d) / 2)
    settings: dict[str, dict[str, Any]] = {
        "kernel herding": {"method": "herding", "weights": "frank-wolfe"},
        "Frank-Wolfe": {"method": "line-search", "weights": "frank-wolfe"},
        "Frank-Wolfe, Bayesian weights": {"refine": 0},
        "Frank-Wolfe, moved": {},
        "sequential": {"method": "sequential", "candidates": config.candidates, "refine": 0},
        _SAME: {"method": "sequential", "refine": 0},
    }
    errors: dict[str, list[float]] = {"Monte Carlo": [], "Sobol": [], **{k: [] for k in settings}}
    seconds: dict[str, list[float]] = {name: [] for name in errors}
    generator = torch.Generator().manual_seed(seed)
    for n in config.sizes:
        drawn = {"Monte Carlo": measure.sample(n, generator), "Sobol": _sobol(n, d, seed)}
        for name, points in drawn.items():
            weights = torch.full((n,), 1.0 / n, dtype=torch.float64)
            errors[name].append(worst_case_error(kernel, measure, points, weights))
            seconds[name].append(0.0)
        for name, setting in settings.items():
            began = process_time()
            rule = quadrature(measure, n, kernel, generator=generator, **setting)
            seconds[name].append(process_time() - began)
            errors[name].append(rule.worst_case_error)
    return errors, seconds


def _sobol(n: int, d: int, seed: int) -> Tensor:
    """Scrambled Sobol points of the standard Gaussian."""
    unit = torch.quasirandom.SobolEngine(d, scramble=True, seed=seed).draw(n, dtype=torch.float64)
    return torch.special.ndtri(unit.clamp(1e-12, 1 - 1e-12))


def _mixture(seed: int, n: int) -> dict[str, float]:
    generator = torch.Generator().manual_seed(seed)
    parts = [Gaussian([-1.0, 0.5], [0.5, 1.0]), Gaussian([1.5, -0.5], [[1.0, 0.4], [0.4, 0.6]])]
    measure = MixtureMeasure([0.4, 0.6], parts)

    def f(x: Tensor) -> Tensor:
        return torch.sin(x[:, 0] + 0.5) * torch.exp(-0.5 * x[:, 1] ** 2)

    found = quadrature(measure, n, RBF(1.0), generator=generator).integrate(f)
    shares = zip(measure.weights.tolist(), parts, strict=True)
    true = sum(share * _gauss_hermite(f, part) for share, part in shares)
    return {"value": found.value, "std": found.std, "true": true}


def _gauss_hermite(f: Callable[[Tensor], Tensor], measure: Gaussian) -> float:
    """∫ f dN in two dimensions by a product rule of 80² nodes, to many digits for smooth f."""
    at, weights = map(torch.from_numpy, np.polynomial.hermite_e.hermegauss(80))
    factor = torch.linalg.cholesky(measure.covariance)
    x = measure.mean + torch.cartesian_prod(at, at) @ factor.mT
    return float(torch.outer(weights, weights).flatten() @ f(x)) / (2.0 * math.pi)


def _coreset(config: QuadratureConfig, seed: int) -> dict[str, Any]:
    name = "digits" if available()["mnist"] is None else "mnist"
    data, rng = load(name), np.random.default_rng(seed)
    rows = rng.permutation(len(data.y))[: config.rows]
    X, y = data.train(rows)
    X_test, y_test = data.test(slice(config.test_rows))
    X, X_test = X.reshape(len(X), -1), X_test.reshape(len(X_test), -1)
    k = config.coreset_size
    found = coreset(X, k, y=y)
    chosen = {
        "coreset": (found.indices, found.weights),
        "uniform": (rng.permutation(len(X))[:k], np.full(k, 1.0 / k)),
    }
    accuracy, error = {}, {}
    for label, (index, weights) in chosen.items():
        machine = FWSVC(C=10.0).fit(X[index], y[index], sample_weight=weights * len(weights))
        accuracy[label] = float(machine.score(X_test, y_test))
        error[label] = found.worst_case_error if label == "coreset" else math.nan
    return {"data": name, "accuracy": accuracy, "error": error}
