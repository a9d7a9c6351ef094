"""Inside a network: solvers as layers."""

from fwnet.layers.implicit import ImplicitLayer
from fwnet.layers.simplex_qp import SimplexQP
from fwnet.layers.sparse_softmax import NeuralSparseSoftmax
from fwnet.layers.svm_layer import SVMLayer
from fwnet.layers.unrolled import FWNet

__all__ = ["FWNet", "ImplicitLayer", "NeuralSparseSoftmax", "SVMLayer", "SimplexQP"]
