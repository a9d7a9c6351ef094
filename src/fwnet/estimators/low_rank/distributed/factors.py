"""W as atoms and weights: the start, and as few atoms as its rank."""

from __future__ import annotations

import torch

from fwnet.estimators.low_rank.factors import Factors
from fwnet.iterates import ActiveSet
from fwnet.vertices import Rank1


def nothing_yet(features: int, classes: int, dtype: torch.dtype, device: torch.device) -> ActiveSet:
    """W = 0: one free slot."""
    u = torch.zeros(1, features, dtype=dtype, device=device)
    v = torch.zeros(1, classes, dtype=dtype, device=device)
    return ActiveSet(Rank1(u, v), torch.zeros(1, dtype=torch.float64, device=device))


def compressed(active: ActiveSet, radius: float) -> ActiveSet:
    """The same W by its singular triples, orthonormal atoms of which none is rounding.

        Σ_k w_k u_k v_kᵀ = Σ_i (s_i / radius) · (radius u_i v_iᵀ),   Σ s_i <= radius

    An iterate without atoms stays as it is.
    """
    assert isinstance(active.atoms, Rank1)
    used = active.used
    w, u, v = active.weights[used], active.atoms.u[used], active.atoms.v[used]
    if not len(w):
        return active
    whole = Factors.of_product(u.mT * w.to(u.dtype), v.mT, radius)
    atoms = Rank1((whole.U.mT * radius).contiguous(), whole.V.mT.contiguous())
    return ActiveSet(atoms, whole.s.to(w.dtype) / radius)
