"""Where to go: toward the vertex, away from an atom, between atoms, to the best of a hull, …"""

from fwnet.directions.active import Away, Blended, Pairwise
from fwnet.directions.averaging import Averaging
from fwnet.directions.base import Direction, Toward
from fwnet.directions.corrective import Corrections
from fwnet.directions.proposals import Exchanges, ProjectedStep, Proposal
from fwnet.directions.singular_vertices import SingularVertices

__all__ = [
    "Averaging",
    "Away",
    "Blended",
    "Corrections",
    "Direction",
    "Exchanges",
    "Pairwise",
    "ProjectedStep",
    "Proposal",
    "SingularVertices",
    "Toward",
]
