"""The parts that the low-rank estimators are made of; see `fwnet.estimators.low_rank`."""

from fwnet.estimators.low_rank.completion import CompletionProblem
from fwnet.estimators.low_rank.factors import Factors
from fwnet.estimators.low_rank.losses import Loss, SoftmaxLoss, SquaredLoss
from fwnet.estimators.low_rank.problems import Certificate, FactoredProblem, RowProblem, certify
from fwnet.estimators.low_rank.radius import choose_radius, natural_radius, path
from fwnet.estimators.low_rank.rows import ArrayRows, Rows, StreamedRows
from fwnet.estimators.low_rank.solve import Budget, solve

__all__ = [
    "ArrayRows",
    "Budget",
    "Certificate",
    "CompletionProblem",
    "FactoredProblem",
    "Factors",
    "Loss",
    "RowProblem",
    "Rows",
    "SoftmaxLoss",
    "SquaredLoss",
    "StreamedRows",
    "certify",
    "choose_radius",
    "natural_radius",
    "path",
    "solve",
]
