"""What a user gets without asking: `PairwiseFrankWolfe(domain)` to a gap of 1e-6, A 200 x 1000.

    A = N(0, 1),   b = A x_true + noise,   x_true 20-sparse, the radius 0.8 |x_true|_1 (l1) or 1

The peer is a loop of fifteen lines in NumPy with cached Ax that takes the same steps. Ours runs as
it is by default after its machine code was loaded, as without Numba, and in torch alone.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch

from benchmarks import loops, peers
from benchmarks.harness import OURS, Case, Contender, Missing, Row, compare, interleave, require

ROWS, COLUMNS, SPARSITY, TOL = 200, 1000, 20, 1e-6
LOOP, NO_NUMBA, TORCH = "NumPy, cached Ax", "without Numba", "torch"
Data = tuple[np.ndarray, np.ndarray, float, bool]


def run(repeats: int) -> list[Row]:
    rows = []
    for kind in ("l1", "simplex"):
        data = make(kind)
        contenders: dict[str, Contender] = {
            OURS: peers.contender("fwnet", _fwnet, *data, True),
            NO_NUMBA: peers.contender("fwnet", _without_numba, *data),
            TORCH: peers.contender("fwnet", _fwnet, *data, False),
            LOOP: partial(loops.pairwise, *data, TOL),
        }
        samples = interleave(contenders, repeats)
        _check(contenders, data)
        for name, target in ((OURS, 1.0), (NO_NUMBA, 2.5), (TORCH, None)):
            what = f"{kind}, {'default' if name == OURS else name}, to {TOL:g}"
            rows += compare(what, samples, {LOOP: target}, 1e3, "ms", name)
    return rows


def make(kind: str) -> Data:
    generator = np.random.default_rng(0)
    a = generator.standard_normal((ROWS, COLUMNS))
    x_true = np.zeros(COLUMNS)
    entries = generator.choice(COLUMNS, SPARSITY, replace=False)
    if kind == "l1":
        x_true[entries] = generator.standard_normal(SPARSITY)
        noise, radius = 0.1, 0.8 * float(np.abs(x_true).sum())
    else:
        x_true[entries] = generator.dirichlet(np.ones(SPARSITY))
        noise, radius = 0.01, 1.0
    return a, a @ x_true + noise * generator.standard_normal(ROWS), radius, kind == "l1"


def _fwnet(
    fwnet: Any, a: np.ndarray, b: np.ndarray, radius: float, signed: bool, fast: bool
) -> Contender:
    problem = fwnet.LeastSquares(torch.from_numpy(a), torch.from_numpy(b))
    domain = fwnet.L1Ball(radius) if signed else fwnet.Simplex(radius)
    options: dict[str, Any] = {"max_steps": 100_000, "tol": TOL}
    if fast:  # load the machine code, as the first seconds of use do
        fwnet.PairwiseFrankWolfe(domain, compiled=True, **options)(problem)
    else:
        options["compiled"] = False
    return lambda: fwnet.PairwiseFrankWolfe(domain, **options)(problem)


def _without_numba(
    fwnet: Any, a: np.ndarray, b: np.ndarray, radius: float, signed: bool
) -> Contender:
    problem = fwnet.LeastSquares(torch.from_numpy(a), torch.from_numpy(b))
    domain = fwnet.L1Ball(radius) if signed else fwnet.Simplex(radius)

    def solve() -> Any:
        with _no_numba(fwnet):
            return fwnet.PairwiseFrankWolfe(domain, max_steps=100_000, tol=TOL)(problem)

    return solve


@contextmanager
def _no_numba(fwnet: Any) -> Iterator[None]:
    forward = fwnet.solvers.compiled.forward
    found, forward.machine_code = forward.machine_code, lambda name: None
    try:
        yield
    finally:
        forward.machine_code = found


def _check(contenders: dict[str, Contender], data: Data) -> None:
    """Every answer is feasible and within the gap, by NumPy."""
    a, b, radius, signed = data
    for name in (OURS, NO_NUMBA, TORCH):
        call = contenders[name]
        if isinstance(call, Missing):
            continue
        x = call().x.numpy()  # type: ignore[attr-defined]
        gradient = (a @ x - b) @ a
        least = -np.abs(gradient).max() if signed else gradient.min()
        gap = float(gradient @ x - radius * least)
        require(gap <= TOL * (1 + 1e-6), f"fwnet's gap is {gap:.3g} ({name}).")
        size = float(np.abs(x).sum())
        require(size <= radius * (1 + 1e-10), f"fwnet's |x|_1 = {size} exceeds {radius} ({name}).")


CASE = Case("default", f"default pairwise solver, A {ROWS} x {COLUMNS}, float64", run)
