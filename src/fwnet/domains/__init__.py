"""Where: compact convex sets with a linear minimisation oracle."""

from fwnet.domains.base import Domain, NormBall, Unsized
from fwnet.domains.boxes import Box, LInfBall
from fwnet.domains.hulls import ConvexHull, Product
from fwnet.domains.matrix_balls import (
    RowBall,
    SchattenBall,
    SpectralBall,
    Spectraplex,
    TraceNormBall,
)
from fwnet.domains.norm_balls import L1Ball, L2Ball, LpBall
from fwnet.domains.polytope import Polytope
from fwnet.domains.simplex import HyperSimplex, Simplex
from fwnet.domains.sparse_balls import GroupL1Ball, KSparseBall
from fwnet.domains.transport import Birkhoff, TransportPolytope
from fwnet.numerics.tensors import Cost

__all__ = [
    "Birkhoff",
    "Box",
    "ConvexHull",
    "Cost",
    "Domain",
    "GroupL1Ball",
    "HyperSimplex",
    "KSparseBall",
    "L1Ball",
    "L2Ball",
    "LInfBall",
    "LpBall",
    "NormBall",
    "Polytope",
    "Product",
    "RowBall",
    "SchattenBall",
    "Simplex",
    "SpectralBall",
    "Spectraplex",
    "TraceNormBall",
    "TransportPolytope",
    "Unsized",
]
