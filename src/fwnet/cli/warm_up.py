"""`fwnet warm-up`: compile the machine code once, for the first user of a container."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fwnet.cli.errors import Failed, command
from fwnet.cli.names import completes, known
from fwnet.cli.output import as_json, facts_table, show

if TYPE_CHECKING:
    from collections.abc import Callable


def _svm() -> None:
    """Both sizes of kernel problem, in the precisions that the estimators choose."""
    import numpy as np

    from fwnet.estimators import FWSVC, FWSVR, FWOneClassSVM

    X = np.random.default_rng(0).standard_normal((600, 3))
    y = X[:, 0] * X[:, 1] + 0.3 * X[:, 2] > 0
    for points in (slice(100), slice(None)):
        for model in (FWSVC(), FWSVC(kernel="linear"), FWSVR(), FWOneClassSVM()):
            model.fit(X[points], X[points, 0] if isinstance(model, FWSVR) else y[points])


def _solvers() -> None:
    """One solve in each precision: the code of a step has all directions, rules and domains."""
    import torch

    import fwnet

    for dtype in (torch.float32, torch.float64):
        problem = fwnet.Quadratic(torch.eye(6, dtype=dtype))
        fwnet.FrankWolfe(fwnet.Simplex(), compiled=True, max_steps=5)(problem)


def _layers() -> None:
    """Batches of small quadratic programs over the simplex, and their gradients."""
    import torch

    from fwnet.layers import SimplexQP

    for dtype in (torch.float32, torch.float64):
        K = torch.eye(16, dtype=dtype).expand(64, 16, 16).clone().requires_grad_()
        c = torch.linspace(-1, 1, 16, dtype=dtype).expand(64, 16).clone().requires_grad_()
        SimplexQP()(K, c=c).square().sum().backward()
        Z = torch.eye(16, 4, dtype=dtype).expand(64, 16, 4).clone().requires_grad_()
        SimplexQP()(features=Z, diagonal=1.0, c=c).square().sum().backward()
    SimplexQP()(torch.zeros(64, 16, 16))  # without curvature pivots fail: the active set


def _optim() -> None:
    """Steps of layers in both kinds of machine code and both precisions."""
    import torch

    import fwnet
    from fwnet.optim import FrankWolfe
    from fwnet.optim.fused import WORTH

    for dtype in (torch.float32, torch.float64):
        for oracle in (fwnet.oracles.NewtonSchulz(), fwnet.PowerIteration(1)):
            weight = torch.nn.Parameter(torch.zeros(6, 4, dtype=dtype))
            weight.grad = torch.ones_like(weight)
            opt = FrankWolfe([weight], domain=fwnet.TraceNormBall(1.0), oracle=oracle)
            opt.load_state_dict(opt.state_dict() | {"seconds_lost": WORTH})
            opt.step()


def _learned() -> None:
    """The shipped controllers of the simplex, and an LSTM with its gradient."""
    import torch

    import fwnet
    from fwnet import learned
    from fwnet.learned.controllers.entrywise import EntrywiseLSTM

    for dtype in (torch.float32, torch.float64):
        problem = fwnet.Quadratic(torch.eye(6, dtype=dtype), torch.linspace(-1, 1, 6, dtype=dtype))
        for name in ("simplex-qp", "simplex-step", "pairwise", "corrective-atoms"):
            learned.load(name).solver(fwnet.Simplex(), max_steps=5)(problem)
    EntrywiseLSTM(20, 2)(torch.ones(8), None)[0].sum().backward()


PARTS: dict[str, Callable[[], None]] = {
    "svm": _svm,
    "solvers": _solvers,
    "layers": _layers,
    "optim": _optim,
    "learned": _learned,
}


@command("warm-up")
@click.argument(
    "parts",
    nargs=-1,
    shell_complete=completes(PARTS),
    help="svm, solvers, layers, optim, learned. [default: all]",
)
@as_json
def warm_up(parts: tuple[str, ...], as_json: bool) -> None:
    """Compile the machine code and keep it on the disk, so that first calls are fast.

    Numba keeps it beside the installed package, or in the folder NUMBA_CACHE_DIR. Machine code is
    for one kind of processor: build an image on the kind that runs it.

    Examples:

        fwnet warm-up
        fwnet warm-up svm
    """
    names = [known("part", name, PARTS) for name in parts or PARTS]
    import warnings

    from fwnet.numerics.compiled import Compilation, numba_or_none

    if numba_or_none() is None:
        raise Failed('there is nothing to compile without Numba: pip install "fwnet[fast]".')
    seconds: dict[str, float] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # these fits are cut short
        for name in names:
            before = Compilation.seconds  # clocks leave it out
            PARTS[name]()
            seconds[name] = Compilation.seconds - before
    show({"seconds": seconds}, as_json, facts_table("Seconds of compilation", seconds))
