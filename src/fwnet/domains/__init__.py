"""Where: compact convex sets with a linear minimisation oracle."""

from fwnet.domains.base import Cost, Domain
from fwnet.domains.simplex import HyperSimplex, Simplex

__all__ = ["Cost", "Domain", "HyperSimplex", "Simplex"]
