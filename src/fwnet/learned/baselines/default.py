"""The hand-designed methods that learned ones are compared with."""

from __future__ import annotations

from fwnet.directions import Corrections, Exchanges, ProjectedStep
from fwnet.domains import Domain
from fwnet.learned.baselines.base import Baseline
from fwnet.learned.baselines.projected import FISTA, SpectralProjectedGradient
from fwnet.learned.baselines.simplex_peers import AdamLagrangian, AdamSoftmax, MirrorDescent
from fwnet.learned.baselines.solvers import Solver
from fwnet.learned.baselines.tuning import Tuned
from fwnet.solvers import Corrective, FrankWolfe, PairwiseFrankWolfe
from fwnet.steps import LineSearch, OverRelaxed


def default_baselines(atoms: int = 6) -> list[Baseline | Tuned]:
    """Every hand-designed method of the comparison, those with a constant with its grid.

    Plain Frank-Wolfe by 2/(t + 2), by c/(t + 2), by line search and over-relaxed; pairwise by line
    search, over-relaxed, and with second-order partners; corrective, with and
    without columns; FISTA; Barzilai-Borwein; mirror descent; Adam on logits and on the Lagrangian.

    Arguments:
        atoms: how many points the corrective solver keeps.

    Example:
        >>> from fwnet.learned import baselines
        >>> len(baselines.default_baselines())
        14
    """

    def relaxed(omega: float) -> Baseline:
        return Solver("over-relaxed FW", lambda d: FrankWolfe(d, OverRelaxed(omega)))

    def relaxed_pairwise(omega: float) -> Baseline:
        return Solver("over-relaxed pairwise", lambda d: PairwiseFrankWolfe(d, OverRelaxed(omega)))

    return [
        Solver("2/(t+2)", lambda d: FrankWolfe(d)),
        Tuned(_open_loop, (0.8, 0.95, 1.1, 1.3, 1.6, 2.5, 4.0)),
        Solver("line search FW", lambda d: FrankWolfe(d, LineSearch())),
        Tuned(relaxed, (0.7, 1.2, 1.45, 1.7, 1.9)),
        Solver("pairwise", lambda d: PairwiseFrankWolfe(d)),
        Tuned(relaxed_pairwise, (1.2, 1.4, 1.6, 1.8, 1.9)),
        Solver(
            "second-order pairwise",
            lambda d: PairwiseFrankWolfe(d, second_order=True),
            quadratic=True,
        ),
        corrective(atoms),
        corrective(atoms, 4),
        Tuned(FISTA, (0.8, 0.95, 0.99, 1.0)),
        Tuned(lambda memory: SpectralProjectedGradient(int(memory)), (1.0, 10.0)),
        Tuned(MirrorDescent, (1.1, 1.3, 1.6, 2.0)),
        Tuned(AdamSoftmax, (0.01, 0.03, 0.1, 0.3, 1.0)),
        Tuned(AdamLagrangian, (0.01, 0.03, 0.1, 0.3, 1.0)),
    ]


def corrective(atoms: int, columns: int = 0) -> Baseline:
    """The corrective solver that keeps as many points, and fills and empties as many columns.

    Example:
        >>> from fwnet.learned import baselines
        >>> baselines.corrective(6).name
        'corrective, 6 atoms'
    """
    if not columns:
        return Solver(f"corrective, {atoms} atoms", lambda d: Corrective(d, memory=atoms))

    def make(domain: Domain) -> FrankWolfe:
        hull = Corrections(atoms, [ProjectedStep(), Exchanges(columns)])
        return FrankWolfe(domain, LineSearch(), direction=hull)

    name = f"corrective, {atoms} atoms, {2 * columns} columns"
    return Solver(name, make, simplex=True)


def _open_loop(c: float) -> Baseline:
    def schedule(t: int) -> float:
        return min(1.0, c / (t + 2))

    def make(domain: Domain) -> FrankWolfe:
        return FrankWolfe(domain, schedule)

    return Solver("c/(t+2)", make)
