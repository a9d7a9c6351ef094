"""Time per step of 64 simplex problems at once: 1/2 |A_i x_i - b_i|^2, A 64 x 200 x 1000.

The sequential loops solve one problem after the other, so each A_i stays in the core's cache for
all its steps; a batched step of the plain loop sweeps all 64, `compiled=True` does as the loops do.
chop's closure has a hand-written gradient (the fastest batched one) and, for comparison, the
gradient by autograd that its documentation shows. A hundred steps each: a solve of ours begins with
one pass over A and ends with two for the certificate, which a time per step should not be about.
Where the problems share one A, the plain loop makes one matrix product for all: last rows.
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

BATCH, ROWS, COLUMNS, STEPS = 64, 200, 1000, 100
NUMPY, CACHED, TORCH = "64 NumPy loops", "64 NumPy loops, cached Ax", "64 torch loops"
AUTOGRAD, PLAIN = "chop, autograd closure", "fwnet, plain"
Targets = dict[str, float | None]
TARGETS: Targets = {NUMPY: 1.0, CACHED: None, TORCH: 1.0, "chop": 0.3, AUTOGRAD: 0.3}
MISSED = (NUMPY, "chop")  # by the plain loop, which streams 64 matrices a step


def run(repeats: int) -> list[Row]:
    dtypes = (np.float32, np.float64)
    own = [row for dtype in dtypes for row in _rows(dtype, repeats)]
    return own + [row for dtype in dtypes for row in _sharing(dtype, repeats)]


def _rows(dtype: type, repeats: int) -> list[Row]:
    arrays = make(dtype)
    tensors = [torch.from_numpy(array) for array in arrays]
    contenders: dict[str, Contender] = {
        OURS: peers.contender("fwnet", _fwnet, *tensors, False),
        COMPILED: peers.contender("fwnet", _fwnet, *tensors, True),
        NUMPY: partial(_each, loops.recomputing, *arrays),
        CACHED: partial(_each, loops.caching, *arrays),
        TORCH: partial(_each, loops.recomputing, *tensors),
        "chop": peers.contender("chop", _chop, *tensors, False),
        AUTOGRAD: peers.contender("chop", _chop, *tensors, True),
    }
    samples = interleave(contenders, repeats, units=STEPS)
    for name in (OURS, COMPILED):
        _check(contenders[name], _each(loops.caching, *arrays), *arrays[:2])
    plain: Targets = {peer: None if peer in MISSED else target for peer, target in TARGETS.items()}
    return [
        *compare(f"plain, a step in {dtype.__name__}", samples, plain, 1e3, "ms"),
        *compare(f"compiled, {dtype.__name__}", samples, TARGETS, 1e3, "ms", COMPILED),
    ]


def _sharing(dtype: type, repeats: int) -> list[Row]:
    a, b, x0 = (torch.from_numpy(array) for array in make(dtype))
    contenders = {
        PLAIN: peers.contender("fwnet", _fwnet, a[0], b, x0, False),
        COMPILED: peers.contender("fwnet", _fwnet, a[0], b, x0, True),
    }
    samples = interleave(contenders, repeats, units=STEPS)
    what = f"compiled, one A for all, {dtype.__name__}"
    return compare(what, samples, {PLAIN: None}, 1e3, "ms", COMPILED)


def make(dtype: type) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    a = generator.standard_normal((BATCH, ROWS, COLUMNS))
    x_true = generator.dirichlet(np.ones(COLUMNS), BATCH)
    b = np.einsum("bmn,bn->bm", a, x_true) + 0.1 * generator.standard_normal((BATCH, ROWS))
    x0 = np.full((BATCH, COLUMNS), 1 / COLUMNS)
    return a.astype(dtype), b.astype(dtype), x0.astype(dtype)


def _each(loop: Any, a: Any, b: Any, x0: Any) -> list[Any]:
    return [loop(a[k], b[k], x0[k], STEPS) for k in range(BATCH)]


def _check(ours: Contender, theirs: list[np.ndarray], a: np.ndarray, b: np.ndarray) -> None:
    """The same exact steps, summed in another order: values agree to the dtype's rounding."""
    if isinstance(ours, Missing):
        return
    found = ours().x.numpy()  # type: ignore[attr-defined]
    tolerance = 1e-3 if a.dtype == np.float32 else 1e-8
    for k in range(BATCH):
        f, reference = (0.5 * float(np.sum((a[k] @ v - b[k]) ** 2)) for v in (found[k], theirs[k]))
        require(
            abs(f - reference) <= tolerance * reference,
            f"problem {k}: fwnet's f = {f:.9g} differs from the loop's {reference:.9g}.",
        )


def _fwnet(
    fwnet: Any, a: torch.Tensor, b: torch.Tensor, x0: torch.Tensor, compiled: bool
) -> Contender:
    problem = fwnet.LeastSquares(a, b)
    solver = fwnet.FrankWolfe(
        fwnet.Simplex(), fwnet.LineSearch(), max_steps=STEPS, tol=0, compiled=compiled
    )
    return lambda: solver(problem, x0)


def _chop(
    chop: Any, a: torch.Tensor, b: torch.Tensor, x0: torch.Tensor, autograd: bool
) -> Contender:
    def value(x: torch.Tensor) -> torch.Tensor:
        return 0.5 * (torch.bmm(a, x[:, :, None])[..., 0] - b).square().sum(1)

    @torch.no_grad()
    def by_hand(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        residual = torch.bmm(a, x[:, :, None])[..., 0] - b
        return 0.5 * residual.square().sum(1), torch.bmm(residual[:, None, :], a)[:, 0]

    closure = chop.utils.closure(value) if autograd else by_hand
    return lambda: chop.optim.minimize_frank_wolfe(
        closure, x0, peers.chop_simplex_lmo, step="sublinear", max_iter=STEPS
    )


CASE = Case("batch", f"{BATCH} simplex problems at once, A {BATCH} x {ROWS} x {COLUMNS}", run)
