"""The named variants: the one loop with other slots."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, TypedDict, final

import torch
from torch import Tensor

from fwnet.directions import Away, Blended, Corrections, Pairwise
from fwnet.domains import Domain, Product
from fwnet.oracles import Blocks, Lazy, Stochastic
from fwnet.solvers.frank_wolfe import FrankWolfe
from fwnet.starts import Start
from fwnet.steps import LineSearch, OpenLoop, StepRule

if TYPE_CHECKING:
    from typing_extensions import Unpack

Rule = StepRule | Callable[[int], float | Tensor]


class Budgets(TypedDict, total=False):
    """The arguments of `FrankWolfe` that every variant takes."""

    max_steps: int
    tol: float
    max_seconds: float | None
    check_every: int
    refresh_every: int
    trace_every: int
    start: Start | None
    compiled: bool | Literal["auto"]


@final
class AwayFrankWolfe(FrankWolfe):
    """Frank-Wolfe with away steps: linear convergence on polytopes.

    See `fwnet.directions.Away`; the rule is an exact line search by default.

    Example:
        >>> problem = Quadratic(torch.diag(torch.arange(1.0, 6.0)))
        >>> AwayFrankWolfe(Simplex(), tol=1e-4)(problem).status
        'converged'
    """

    def __init__(
        self, domain: Domain, rule: Rule | None = None, **budgets: Unpack[Budgets]
    ) -> None:
        super().__init__(domain, rule, direction=Away(), **budgets)


@final
class PairwiseFrankWolfe(FrankWolfe):
    """Pairwise Frank-Wolfe: mass moves from the worst atom to the best vertex.

    See `fwnet.directions.Pairwise`; the rule is an exact line search by default.

    Arguments:
        second_order: choose the atom by its own line search, as SMO does (quadratics).

    Example:
        >>> problem = Quadratic(torch.diag(torch.arange(1.0, 6.0)))
        >>> PairwiseFrankWolfe(Simplex(), tol=1e-4)(problem).status
        'converged'
    """

    def __init__(
        self,
        domain: Domain,
        rule: Rule | None = None,
        *,
        second_order: bool = False,
        **budgets: Unpack[Budgets],
    ) -> None:
        super().__init__(domain, rule, direction=Pairwise(second_order), **budgets)


@final
class BlendedPairwise(FrankWolfe):
    """Blended pairwise conditional gradients: few atoms, no swap steps.

    See `fwnet.directions.Blended`; the rule is an exact line search by default.

    Example:
        >>> problem = Quadratic(torch.diag(torch.arange(1.0, 6.0)))
        >>> BlendedPairwise(Simplex(), tol=1e-4)(problem).status
        'converged'
    """

    def __init__(
        self, domain: Domain, rule: Rule | None = None, **budgets: Unpack[Budgets]
    ) -> None:
        super().__init__(domain, rule, direction=Blended(), **budgets)


@final
class Corrective(FrankWolfe):
    """Exact minimum over the hull of a few recent points at every step.

    Few steps, each with a small quadratic program: for expensive gradients. See
    `fwnet.directions.Corrections`; the rule is an exact line search by default.

    Arguments:
        memory: how many recent points the hull keeps, besides x and the new ones.

    Example:
        >>> Corrective(L2Ball(1.0), tol=1e-6)(LeastSquares(torch.eye(3), torch.ones(3))).status
        'converged'
    """

    def __init__(
        self,
        domain: Domain,
        rule: Rule | None = None,
        *,
        memory: int = 6,
        **budgets: Unpack[Budgets],
    ) -> None:
        super().__init__(
            domain, LineSearch() if rule is None else rule, direction=Corrections(memory), **budgets
        )


@final
class LazyFrankWolfe(FrankWolfe):
    """Frank-Wolfe that calls the LMO only if no cached vertex is good enough.

    For domains whose oracle is expensive (Birkhoff, polytopes). See `fwnet.oracles.Lazy`; the
    rule is an exact line search by default.

    Arguments:
        memory: how many vertices are cached.

    Example:
        >>> i, j = torch.tensor([0, 1]), torch.tensor([1, 2])
        >>> problem = MatrixCompletion(i, j, torch.tensor([0.5, 0.5]), (3, 3))
        >>> LazyFrankWolfe(Birkhoff(3), tol=1e-3)(problem).status
        'converged'
    """

    def __init__(
        self,
        domain: Domain,
        rule: Rule | None = None,
        *,
        memory: int = 1000,
        **budgets: Unpack[Budgets],
    ) -> None:
        super().__init__(
            domain, LineSearch() if rule is None else rule, oracle=Lazy(memory), **budgets
        )


@final
class StochasticFrankWolfe(FrankWolfe):
    """Frank-Wolfe on averaged minibatch gradients.

    See `fwnet.oracles.Stochastic`; the rule is 2/(t + 2) by default, and must not evaluate f.

    Arguments:
        batch_size: terms of the objective per step.
        generator: source of the minibatches.

    Example:
        >>> X = torch.randn(200, 5, generator=torch.Generator().manual_seed(0))
        >>> problem = LogisticRegression(X, torch.where(X[:, 0] > 0, 1.0, -1.0))
        >>> solver = StochasticFrankWolfe(L2Ball(2.0), batch_size=32, max_steps=200)
        >>> bool(solver(problem).value < 0.45)
        True
    """

    def __init__(
        self,
        domain: Domain,
        rule: Rule | None = None,
        *,
        batch_size: int = 64,
        generator: torch.Generator | None = None,
        **budgets: Unpack[Budgets],
    ) -> None:
        super().__init__(
            domain,
            OpenLoop() if rule is None else rule,
            oracle=Stochastic(batch_size, generator),
            **budgets,
        )


@final
class BlockCoordinateFrankWolfe(FrankWolfe):
    """Frank-Wolfe on a product, one block per step.

    See `fwnet.oracles.Blocks`; the rule is an exact line search by default.

    Arguments:
        shuffle: visit the blocks in a new random order each round, else in turn.
        generator: source of the order.

    Example:
        >>> problem = LeastSquares(torch.eye(4), torch.ones(4))
        >>> pair = Product([Simplex(), L2Ball(1.0)], [(2,), (2,)])
        >>> BlockCoordinateFrankWolfe(pair, tol=1e-4)(problem).status
        'converged'
    """

    def __init__(
        self,
        domain: Product,
        rule: Rule | None = None,
        *,
        shuffle: bool = True,
        generator: torch.Generator | None = None,
        **budgets: Unpack[Budgets],
    ) -> None:
        super().__init__(
            domain,
            LineSearch() if rule is None else rule,
            oracle=Blocks(shuffle, generator),
            **budgets,
        )
