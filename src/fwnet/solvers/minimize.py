"""minimize: one call, given a function and a domain."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from fwnet.domains import Domain
from fwnet.problems import as_problem
from fwnet.solvers.frank_wolfe import FrankWolfe, Objective
from fwnet.solvers.presets import Budgets, Corrective, PairwiseFrankWolfe
from fwnet.steps import LineSearch
from fwnet.trace import Observer, Result

if TYPE_CHECKING:
    from typing_extensions import Unpack


def minimize(
    objective: Objective,
    domain: Domain,
    x0: Tensor | Result | np.ndarray | tuple[int, ...] | None = None,
    *,
    on_step: Observer | None = None,
    progress: bool = False,
    verbose: bool = False,
    **budgets: Unpack[Budgets],
) -> Result:
    """min f(x) over x in the domain, by a variant that suits the domain.

    Pairwise Frank-Wolfe on polytopes; elsewhere the corrective solver for quadratics (dozens of
    steps where plain ones take thousands) and plain Frank-Wolfe for other functions; all with exact
    line search. For matrices too large to project, see `fwnet.low_rank.solve`.

    Arguments:
        objective: a `Problem`, or any function of x that autograd can differentiate.
        domain: where x lives.
        x0: where to start: a point, as a tensor or an array, the `Result` of an earlier solve, or
            a shape such as (3,), for the domain's own start; a plain function needs one of them.
        on_step, progress, verbose: see `FrankWolfe.forward`.
        budgets: `max_steps` (10,000 by default), `tol`, `max_seconds` and others of `FrankWolfe`.

    Example:
        >>> import torch, fwnet
        >>> goal = torch.tensor([0.5, 0.3, 0.2])
        >>> result = fwnet.minimize(lambda x: ((x - goal) ** 2).sum(), fwnet.Simplex(),
        ...                         x0=(3,), tol=1e-5)
        >>> result.status
        'converged'
    """
    budgets.setdefault("max_steps", 10_000)
    if not isinstance(domain, Domain):
        raise TypeError(f"domain must be a Domain such as Simplex(); got {domain!r}.")
    if isinstance(x0, np.ndarray):
        x0 = torch.from_numpy(x0)
    elif isinstance(x0, tuple):
        x0 = domain.start(x0)
    problem = as_problem(objective)
    solver: FrankWolfe
    if domain.polyhedral:
        solver = PairwiseFrankWolfe(domain, LineSearch(), **budgets)
    elif problem.quadratic:
        solver = Corrective(domain, LineSearch(), **budgets)
    else:
        solver = FrankWolfe(domain, LineSearch(), **budgets)
    result: Result = solver(problem, x0, on_step=on_step, progress=progress, verbose=verbose)
    return result
