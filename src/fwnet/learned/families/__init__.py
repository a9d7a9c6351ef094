"""Distributions of problems: what a controller is trained on, chosen by and tested on."""

from fwnet.learned.families.base import Mixture, ProblemFamily
from fwnet.learned.families.deep_svm import DeepSVMFamily
from fwnet.learned.families.quadratics import LeastSquaresFamily, QuadraticFamily
from fwnet.learned.families.real import Part, circles, deep_svms, digits, digits_pairs, mnist_pairs
from fwnet.learned.families.softmax import SoftmaxFamily
from fwnet.learned.families.svm import LinearKernel, RBFKernel, SVMFamily
from fwnet.learned.families.training_runs import TrainingRuns
from fwnet.learned.ranges import LogUniform

__all__ = [
    "DeepSVMFamily",
    "LeastSquaresFamily",
    "LinearKernel",
    "LogUniform",
    "Mixture",
    "Part",
    "ProblemFamily",
    "QuadraticFamily",
    "RBFKernel",
    "SVMFamily",
    "SoftmaxFamily",
    "TrainingRuns",
    "circles",
    "deep_svms",
    "digits",
    "digits_pairs",
    "mnist_pairs",
]
