"""Inside a network: solvers as layers."""

from fwnet.layers.unrolled import FWNet

__all__ = ["FWNet"]
