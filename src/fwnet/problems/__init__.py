"""What is minimised: smooth objectives f(x) = φ(Ax)."""

from fwnet.problems.base import FirstOrder, Gradient, LinearLoss, Problem
from fwnet.problems.completion import MatrixCompletion
from fwnet.problems.function import Function, as_problem
from fwnet.problems.logistic import LogisticRegression
from fwnet.problems.quadratic import LeastSquares, Quadratic
from fwnet.problems.softmax import SoftmaxRegression
from fwnet.problems.svm import SVMDual

__all__ = [
    "FirstOrder",
    "Function",
    "Gradient",
    "LeastSquares",
    "LinearLoss",
    "LogisticRegression",
    "MatrixCompletion",
    "Problem",
    "Quadratic",
    "SVMDual",
    "SoftmaxRegression",
    "as_problem",
]
