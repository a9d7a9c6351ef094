"""Inside a network: solvers as layers."""

from fwnet.layers.implicit import ImplicitLayer
from fwnet.layers.unrolled import FWNet

__all__ = ["FWNet", "ImplicitLayer"]
