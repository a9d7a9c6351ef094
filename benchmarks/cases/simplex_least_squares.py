"""Time per iteration on the simplex: 1/2 |Ax - b|^2, A 200 x n, float64.

A hand-written gradient costs two passes over A (Ax, then A'r); the cached image saves the first.
copt and chop get their cheapest step, 2/(t+2); fwnet and the NumPy loops search the line exactly.
`FrankWolfe(..., compiled=True)` has its own rows, and the targets that the plain loop misses.
"""

from functools import partial
from typing import Any

import numpy as np
import torch

from benchmarks import loops, peers
from benchmarks.harness import (
    COMPILED,
    OURS,
    Case,
    Contender,
    Missing,
    Row,
    compare,
    interleave,
    require,
)

ROWS = 200
STEPS = {1_000: 300, 10_000: 200, 100_000: 50}  # so that a solve's first and last pass weigh little
HAND, CACHED = "NumPy, recomputes Ax", "NumPy, cached Ax"
Targets = dict[str, float | None]
TARGETS: dict[int, Targets] = {
    1_000: {"copt": 1.5, "chop": None, HAND: None, CACHED: None},
    10_000: {"copt": 0.7, "chop": 0.6, HAND: 1.0, CACHED: None},
    100_000: {"copt": 0.7, "chop": 0.6, HAND: 1.0, CACHED: None},
}
MISSED = {1_000: "copt", 10_000: "chop"}  # by the plain loop, whose call overhead weighs there


def run(repeats: int) -> list[Row]:
    return [row for n, steps in STEPS.items() for row in _rows(n, steps, repeats)]


def _rows(n: int, steps: int, repeats: int) -> list[Row]:
    a, b, x0 = data = make(n)
    contenders: dict[str, Contender] = {
        OURS: peers.contender("fwnet", _fwnet, *data, steps, False),
        COMPILED: peers.contender("fwnet", _fwnet, *data, steps, True),
        "copt": peers.contender("copt", _copt, *data, steps),
        "chop": peers.contender("chop", _chop, *data, steps),
        HAND: partial(loops.recomputing, *data, steps),
        CACHED: partial(loops.caching, *data, steps),
    }
    samples = interleave(contenders, repeats, units=steps)
    for name in (OURS, COMPILED):
        _check(contenders[name], loops.caching(a, b, x0, steps), a, b)
    plain: Targets = {
        peer: None if MISSED.get(n) == peer else target for peer, target in TARGETS[n].items()
    }
    return [
        *compare(f"plain, an iteration at n = {n:,}", samples, plain, 1e3, "ms"),
        *compare(f"compiled, n = {n:,}", samples, TARGETS[n], 1e3, "ms", COMPILED),
    ]


def make(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    generator = np.random.default_rng(n)
    a = generator.standard_normal((ROWS, n))
    b = a @ generator.dirichlet(np.ones(n)) + 0.1 * generator.standard_normal(ROWS)
    return a, b, np.full(n, 1 / n)


def _check(ours: Contender, theirs: np.ndarray, a: np.ndarray, b: np.ndarray) -> None:
    """Exact line searches from one start take the same steps: the values must agree."""
    if isinstance(ours, Missing):
        return
    x = ours().x.numpy()  # type: ignore[attr-defined]
    f, reference = (0.5 * float(np.sum((a @ v - b) ** 2)) for v in (x, theirs))
    require(
        abs(f - reference) <= 1e-8 * reference,
        f"fwnet's f = {f:.9g} differs from the hand-written loop's {reference:.9g}.",
    )


def _fwnet(
    fwnet: Any, a: np.ndarray, b: np.ndarray, x0: np.ndarray, steps: int, compiled: bool
) -> Contender:
    problem = fwnet.LeastSquares(torch.from_numpy(a), torch.from_numpy(b))
    solver = fwnet.FrankWolfe(
        fwnet.Simplex(), fwnet.LineSearch(), max_steps=steps, tol=0, compiled=compiled
    )
    start = torch.from_numpy(x0)
    return lambda: solver(problem, start)


def _copt(copt: Any, a: np.ndarray, b: np.ndarray, x0: np.ndarray, steps: int) -> Contender:
    def value_and_gradient(x: np.ndarray) -> tuple[float, np.ndarray]:
        residual = a @ x - b
        return 0.5 * (residual @ residual), residual @ a

    return lambda: copt.minimize_frank_wolfe(
        value_and_gradient,
        x0,
        peers.copt_simplex_lmo,
        jac=True,
        step="sublinear",
        lipschitz=1.0,  # unused by this step; without it copt estimates and prints one
        max_iter=steps,
        tol=0,
    )


def _chop(chop: Any, a: np.ndarray, b: np.ndarray, x0: np.ndarray, steps: int) -> Contender:
    matrix, target, start = (torch.from_numpy(v) for v in (a, b, x0[None]))

    @torch.no_grad()
    def closure(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        residual = matrix @ x[0] - target
        return 0.5 * (residual @ residual)[None], (residual @ matrix)[None]

    return lambda: chop.optim.minimize_frank_wolfe(
        closure, start, peers.chop_simplex_lmo, step="sublinear", max_iter=steps
    )


CASE = Case("simplex", f"simplex least squares, A {ROWS} x n, float64", run)
