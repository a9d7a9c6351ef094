"""Nearest points by their formulas, in NumPy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Array = np.ndarray


def to_simplex(x: Array, radius: float) -> Array:
    """Nearest point of {v >= 0, Σ v = radius}, by sorting (Held, Wolfe and Crowder, 1974)."""
    ordered = np.sort(x)[::-1]
    means = (np.cumsum(ordered) - radius) / np.arange(1, len(x) + 1)
    shift = means[np.flatnonzero(ordered > means)[-1]] if (ordered > means).any() else means[0]
    nearest = np.maximum(x - shift, 0.0)
    return nearest * (radius / nearest.sum())  # a far x has rounded more than the radius does


def to_l1(x: Array, radius: float) -> Array:
    if np.abs(x).sum() <= radius:
        return x.copy()
    return np.sign(x) * to_simplex(np.abs(x), radius)


def to_l2(x: Array, radius: float) -> Array:
    return x * min(1.0, radius / max(np.linalg.norm(x), 1e-300))


def by_svd(shrink: Callable[[Array], Array]) -> Callable[[Array], Array]:
    def project(x: Array) -> Array:
        u, s, vh = np.linalg.svd(x, full_matrices=False)
        return (u * shrink(s)) @ vh

    return project


def by_eigh(shrink: Callable[[Array], Array]) -> Callable[[Array], Array]:
    def project(x: Array) -> Array:
        values, vectors = np.linalg.eigh((x + x.T) / 2)
        return (vectors * shrink(values)) @ vectors.T

    return project
