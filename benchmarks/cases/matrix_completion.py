"""Matrix completion on the trace-norm ball: 1/2 sum over seen (X_ij - M_ij)^2, 1000 x 1000.

    M = U V' / sqrt(10) of rank 10,   10 % of its entries seen with noise 0.1,   radius = |M|_*

copt runs its trace ball (Lanczos through SciPy's `svds`) with backtracking; both start from zero
and write down f after every step by the same clock, which starts before the problem is built.
"""

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from benchmarks import peers
from benchmarks.harness import OURS, Case, Missing, Row, Spread, compare, require

SIZE, RANK, SEEN, NOISE = 1000, 10, 0.1, 0.1
SECONDS, ROUNDS = 4.0, 3  # long runs: three rounds are enough

Log = list[tuple[float, float]]  # seconds since the start, f


@dataclass(frozen=True, eq=False)
class Data:
    seen: np.ndarray  # flat indices, sorted
    values: np.ndarray
    radius: float


def run(repeats: int) -> list[Row]:
    data = make()
    fwnet, copt = peers.load("fwnet"), peers.load("copt")
    solvers: dict[str, Any] = {
        OURS: fwnet if isinstance(fwnet, Missing) else lambda: fwnet_log(fwnet, data),
        "copt": copt if isinstance(copt, Missing) else lambda: copt_log(copt, data),
    }
    logs: dict[str, list[Log]] = {name: [] for name in solvers}
    for _ in range(min(repeats, ROUNDS)):
        for name, solver in solvers.items():
            if not isinstance(solver, Missing):
                logs[name].append(solver())

    def samples(measure: Any) -> dict[str, Any]:
        return {
            name: solver if isinstance(solver, Missing) else [measure(log) for log in logs[name]]
            for name, solver in solvers.items()
        }

    after = [SECONDS / 4, SECONDS]
    rows = compare("time per iteration", samples(per_step), {"copt": 0.3}, 1e3, "ms")
    for seconds in after:
        found = samples(lambda log, s=seconds: value_after(log, s))
        rows += compare(f"f after {seconds:g} s", found, {"copt": 1.0}, 1.0, "")
    return [_with_steps(row, logs) for row in rows]


def make() -> Data:
    generator = np.random.default_rng(0)
    left, right = (generator.standard_normal((SIZE, RANK)) for _ in range(2))
    truth = left @ right.T / RANK**0.5
    seen = np.sort(generator.choice(SIZE * SIZE, int(SEEN * SIZE * SIZE), replace=False))
    values = truth.ravel()[seen] + NOISE * generator.standard_normal(seen.size)
    return Data(seen, values, float(np.linalg.norm(truth, "nuc")))


def per_step(log: Log) -> float:
    return log[-1][0] / len(log)


def value_after(log: Log, seconds: float) -> float:
    return [value for when, value in log if when <= seconds][-1]


def fwnet_log(fwnet: Any, data: Data) -> Log:
    log: Log = []
    start = time.perf_counter()
    rows, columns = (torch.from_numpy(v) for v in np.divmod(data.seen, SIZE))
    problem = fwnet.MatrixCompletion(rows, columns, torch.from_numpy(data.values), (SIZE, SIZE))
    solver = fwnet.FrankWolfe(
        fwnet.TraceNormBall(data.radius),
        fwnet.LineSearch(),
        max_steps=1_000_000,
        max_seconds=SECONDS,
        tol=0,
    )

    def record(step: Any) -> None:
        log.append((time.perf_counter() - start, float(step.value)))

    x0 = torch.zeros(SIZE, SIZE, dtype=torch.float64)
    x = solver(problem, x0, on_step=record).x.numpy()
    value = 0.5 * float(np.sum((x.ravel()[data.seen] - data.values) ** 2))
    require(
        abs(value - log[-1][1]) <= 1e-6 * value,
        f"fwnet reports f = {log[-1][1]:.9g}; at its x it is {value:.9g}.",
    )
    norm = float(np.linalg.norm(x, "nuc"))
    require(norm <= data.radius * (1 + 1e-8), f"|X|_* = {norm} exceeds {data.radius}.")
    return log


def copt_log(copt: Any, data: Data) -> Log:
    log: Log = []
    start = time.perf_counter()

    def value_and_gradient(x: np.ndarray) -> tuple[float, np.ndarray]:
        residual = x[data.seen] - data.values
        gradient = np.zeros(SIZE * SIZE)
        gradient[data.seen] = residual
        return 0.5 * (residual @ residual), gradient

    def record(seen: dict[str, Any]) -> bool:
        elapsed = time.perf_counter() - start
        if elapsed <= SECONDS:
            log.append((elapsed, float(seen["f_next"])))
        return elapsed <= SECONDS

    copt.minimize_frank_wolfe(
        value_and_gradient,
        np.zeros(SIZE * SIZE),
        copt.constraint.TraceBall(data.radius, (SIZE, SIZE)).lmo,
        jac=True,
        step="backtracking",
        lipschitz=1.0,  # the true constant of f: a mask has norm one
        max_iter=1_000_000,
        tol=0,
        callback=record,
    )
    return log


def _with_steps(row: Row, logs: dict[str, list[Log]]) -> Row:
    counts = [
        f"{name} {Spread.of(len(log) for log in found).median:.0f} steps"
        for name, found in logs.items()
        if found
    ]
    return replace(row, note="; ".join([row.note] * bool(row.note) + counts))


CASE = Case("completion", f"matrix completion, {SIZE} x {SIZE}, {SEEN:.0%} seen, float64", run)
