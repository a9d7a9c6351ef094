"""Time to a gap on the l1 ball: 1/2 |Ax - b|^2, A 1000 x 200, radius 1.

    A = N(0, 1/1000),   b = A x_true + 0.001 N(0, 1),   x_true 20-sparse with |x_true|_1 = 1

With that radius copt's pairwise run needs 70 to 90 iterations for a gap of 1e-3 and then stalls
near 5e-4: its sufficient-decrease test allows float32's eps, and a dropped atom comes back with
weight zero.

The gap is the Frank-Wolfe gap <g, x> + radius |g|_inf of the true gradient, computed here for both.
copt gets the number of iterations it needs, so it runs no callback and no stopping test; fwnet
builds its problem inside the timed call and stops by itself. Its solver for a problem with a cheap
projection is `Corrective`; `PairwiseFrankWolfe`, the same method as copt's, is shown too, in torch
and in machine code.
"""

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from benchmarks import peers
from benchmarks.harness import (
    OURS,
    Case,
    Contender,
    Missing,
    Row,
    compare,
    figure,
    interleave,
    require,
)

ROWS, COLUMNS, SPARSITY, RADIUS, NOISE = 1000, 200, 20, 1.0, 1e-3
SEEDS = range(5)
LOOSE, TIGHT = 1e-3, 1e-9
PAIRWISE = "PairwiseFrankWolfe"
STALLED = 2000  # iterations after which copt's gap has long stopped moving

Data = tuple[np.ndarray, np.ndarray]


def run(repeats: int) -> list[Row]:
    data = [make(seed) for seed in SEEDS]
    fwnet, copt = peers.load("fwnet"), peers.load("copt")
    counts: list[int] = []
    stall = ""
    if not isinstance(copt, Missing):
        histories = [copt_gaps(copt, a, b) for a, b in data]
        counts = [int(np.argmax(gaps <= LOOSE)) for gaps in histories]
        require(all(counts), f"copt did not reach a gap of {LOOSE:g}: the data are not the case's.")
        require(min(g.min() for g in histories) > TIGHT, f"copt reached {TIGHT:g}: time it.")
        stall = f"; copt never: it stalls at {np.median([g.min() for g in histories]):.0e}"

    contenders = {
        OURS: peers.contender("fwnet", _solving, data, LOOSE, "Corrective", False),
        "copt": peers.contender("copt", _repeating, data, counts),
        "tight": peers.contender("fwnet", _solving, data, TIGHT, "Corrective", False),
        **{
            f"{kind}, {goal:g}": peers.contender("fwnet", _solving, data, goal, PAIRWISE, how)
            for kind, how in (("pairwise", False), ("pairwise, compiled", True))
            for goal in (LOOSE, TIGHT)
        },
    }
    samples = interleave(contenders, repeats, units=len(data))
    (loose,) = compare(f"time to gap {LOOSE:g}", samples, {"copt": 1.0}, 1e3, "ms")
    if isinstance(fwnet, Missing):
        return [
            loose,
            Row(f"gap reached, tol = {TIGHT:g}", "", None, target=TIGHT, note=loose.note),
        ]

    loose_steps, _ = certified(fwnet, data, LOOSE, "Corrective")
    tight_steps, gap = certified(fwnet, data, TIGHT, "Corrective")
    note = f"steps: fwnet {loose_steps}, copt {counts}" if counts else loose.note
    rows = [replace(loose, note=note)]
    steps, _ = certified(fwnet, data, LOOSE, PAIRWISE)
    for kind in ("pairwise", "pairwise, compiled"):
        (row,) = compare(
            f"{kind}, to {LOOSE:g}", samples, {"copt": None}, 1e3, "ms", f"{kind}, {LOOSE:g}"
        )
        rows.append(replace(row, note=row.note or f"steps: fwnet {steps}"))
    for name, key in (
        ("time", "tight"),
        ("pairwise,", f"pairwise, {TIGHT:g}"),
        ("pairwise, compiled,", f"pairwise, compiled, {TIGHT:g}"),
    ):
        sample = samples[key]
        if not isinstance(sample, Missing):
            rows.append(figure(f"{name} to gap {TIGHT:g}", [1e3 * s for s in sample], "ms"))
    reached = f"steps: fwnet {tight_steps}{stall}"
    return [*rows, figure(f"gap reached, tol = {TIGHT:g}", [gap], "", TIGHT, reached)]


def _solving(fwnet: Any, data: list[Data], tol: float, name: str, compiled: bool) -> Contender:
    solver = solver_of(fwnet, tol, name, compiled)
    return lambda: [solve(fwnet, solver, a, b) for a, b in data]


def _repeating(copt: Any, data: list[Data], counts: list[int]) -> Contender:
    return lambda: [copt_run(copt, a, b, n) for (a, b), n in zip(data, counts, strict=True)]


def make(seed: int) -> Data:
    generator = np.random.default_rng(seed)
    a = generator.standard_normal((ROWS, COLUMNS)) / ROWS**0.5
    x_true = np.zeros(COLUMNS)
    x_true[generator.choice(COLUMNS, SPARSITY, replace=False)] = generator.standard_normal(SPARSITY)
    x_true *= RADIUS / np.abs(x_true).sum()
    return a, a @ x_true + NOISE * generator.standard_normal(ROWS)


def start() -> np.ndarray:
    x0 = np.zeros(COLUMNS)
    x0[0] = RADIUS
    return x0


def solver_of(fwnet: Any, tol: float, name: str, compiled: bool = False) -> Any:
    options = {"max_steps": 10_000, "tol": tol, "compiled": compiled}
    return getattr(fwnet, name)(fwnet.L1Ball(RADIUS), **options)


def solve(fwnet: Any, solver: Any, a: np.ndarray, b: np.ndarray) -> Any:
    problem = fwnet.LeastSquares(torch.from_numpy(a), torch.from_numpy(b))
    return solver(problem, torch.from_numpy(start()))


def certified(fwnet: Any, data: list[Data], tol: float, name: str) -> tuple[list[int], float]:
    """Our numbers of steps, and the largest gap of the answers, computed anew in NumPy."""
    steps, gaps, solver = [], [], solver_of(fwnet, tol, name)
    for a, b in data:
        result = solve(fwnet, solver, a, b)
        x = result.x.numpy()
        norm = float(np.abs(x).sum())
        require(norm <= RADIUS * (1 + 1e-10), f"fwnet's |x|_1 = {norm} exceeds {RADIUS}.")
        gaps.append(frank_wolfe_gap(a.T @ (a @ x - b), x))
        steps.append(int(result.steps))
    require(max(gaps) <= 1.001 * tol, f"fwnet stopped at a gap of {max(gaps):.2e}, not {tol:g}.")
    return steps, max(gaps)


def frank_wolfe_gap(gradient: np.ndarray, x: np.ndarray) -> float:
    return float(gradient @ x + RADIUS * np.abs(gradient).max())


def copt_run(
    copt: Any, a: np.ndarray, b: np.ndarray, max_iter: int, callback: Any = None
) -> np.ndarray:
    def value_and_gradient(x: np.ndarray) -> tuple[float, np.ndarray]:
        residual = a @ x - b
        return 0.5 * (residual @ residual), residual @ a

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # it divides 0 by 0 once it has stalled
        result = copt.minimize_frank_wolfe(
            value_and_gradient,
            start(),
            copt.constraint.L1Ball(RADIUS).lmo_pairwise,
            x0_rep=(1.0, 0),
            variant="pairwise",
            jac=True,
            step="backtracking",
            lipschitz=1.0,  # columns have norm one; with its own estimate it is no faster
            max_iter=max_iter,
            tol=0,
            callback=callback,
        )
    return np.asarray(result.x)


def copt_gaps(copt: Any, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    gaps: list[float] = []

    def record(seen: dict[str, Any]) -> None:
        gaps.append(frank_wolfe_gap(seen["grad"], seen["x"]))

    copt_run(copt, a, b, STALLED, record)
    return np.asarray(gaps)


CASE = Case("l1", f"l1 least squares, A {ROWS} x {COLUMNS}, {len(SEEDS)} seeds, float64", run)
