"""W as atoms and weights: the start, and as few atoms as its rank."""

from __future__ import annotations

import torch

from fwnet.active_set import ActiveSet
from fwnet.vertices import Rank1


def nothing_yet(features: int, classes: int, dtype: torch.dtype, device: torch.device) -> ActiveSet:
    """W = 0: one free slot."""
    u = torch.zeros(1, features, dtype=dtype, device=device)
    v = torch.zeros(1, classes, dtype=dtype, device=device)
    return ActiveSet(Rank1(u, v), torch.zeros(1, dtype=torch.float64, device=device))


def compressed(active: ActiveSet, radius: float) -> ActiveSet:
    """The same W by its singular triples, orthonormal atoms of which none is rounding.

        Σ_k w_k u_k v_kᵀ = Q_u (R_u diag(w) R_vᵀ) Q_vᵀ = Σ_i (s_i / radius) · (radius u_i v_iᵀ)

    Computed in float64; Σ s_i <= radius, however the steps before have rounded.
    """
    assert isinstance(active.atoms, Rank1)
    used = active.used
    w, u, v = active.weights[used], active.atoms.u[used], active.atoms.v[used]
    if not len(w):
        return active
    left, left_mix = torch.linalg.qr(u.mT.to(torch.float64))
    right, right_mix = torch.linalg.qr(v.mT.to(torch.float64))
    p, s, qh = torch.linalg.svd((left_mix * w) @ right_mix.mT, full_matrices=False)
    kept = s > s[0] * len(w) * torch.finfo(u.dtype).eps
    s = s[kept]
    s = s * (radius / s.sum()).clamp_max(1.0)
    atoms = Rank1(
        ((left @ p[:, kept]).mT * radius).to(u.dtype).contiguous(),
        (qh[kept] @ right.mT).to(v.dtype).contiguous(),
    )
    return ActiveSet(atoms, s / radius)
