"""Where: compact convex sets with a linear minimisation oracle."""

from fwnet.domains.base import Cost, Domain, NormBall, Unsized
from fwnet.domains.boxes import Box, LInfBall
from fwnet.domains.certified import bounded_singular_pair
from fwnet.domains.hulls import Block, ConvexHull, Product
from fwnet.domains.lanczos import SingularPair
from fwnet.domains.matrix_balls import RowBall, SpectralBall, Spectraplex, TraceNormBall
from fwnet.domains.norm_balls import L1Ball, L2Ball, LpBall
from fwnet.domains.polytopes import Birkhoff, Polytope, TransportPolytope
from fwnet.domains.simplex import HyperSimplex, Simplex
from fwnet.domains.singular import bottom_eigenpair, power_iteration, top_singular_pair
from fwnet.domains.sparse_balls import GroupL1Ball, KSparseBall

__all__ = [
    "Birkhoff",
    "Block",
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
    "Simplex",
    "SingularPair",
    "SpectralBall",
    "Spectraplex",
    "TraceNormBall",
    "TransportPolytope",
    "Unsized",
    "bottom_eigenpair",
    "bounded_singular_pair",
    "power_iteration",
    "top_singular_pair",
]
