"""Matrices that are hard: of low rank, nearly tied, badly scaled, clustered, hidden."""

from __future__ import annotations

import numpy as np
import torch

Array = np.ndarray


def draw_scale(generator: np.random.Generator, span: float = 12.0) -> float:
    """1 mostly, else a power of ten."""
    return 1.0 if generator.random() < 0.6 else float(10.0 ** generator.uniform(-span, span))


def draw_matrix(generator: np.random.Generator, d: int, m: int) -> Array:
    """Gaussian, of low rank, with duplicated or nearly equal or badly scaled columns, or sparse."""
    G = generator.standard_normal((d, m))
    kind = generator.integers(7)
    if kind == 1:
        G = np.outer(G[:, 0], generator.standard_normal(m))
    elif kind == 2:
        G = G[:, generator.integers(0, max(1, m // 2), m)]
    elif kind == 3:
        G = G[:, :1] + 10.0 ** generator.uniform(-12, -1) * G
    elif kind == 4:
        G = G * 10.0 ** generator.uniform(-6, 6, m)
    elif kind == 5:
        G = G * (generator.random((d, m)) < 0.3)
    return G


def draw_singular_values(
    generator: np.random.Generator, k: int, kinds: tuple[int, ...] = tuple(range(8))
) -> Array:
    """A cluster, a near tie, a tie, rank 1 and dust, a fast decay, a small lead, or anything."""
    kind, near = generator.choice(kinds), 10.0 ** generator.uniform(-12, -3)
    rest = generator.random(k)
    s = {
        0: 1 + near * rest,  # a cluster
        1: np.where(np.arange(k) < 2, 1 - near * np.arange(k), 0.5 * rest),  # nearly tied
        2: np.ones(k),  # tied
        3: np.where(np.arange(k) == 0, 1.0, near * rest),  # rank 1 and dust
        4: 0.5 ** np.arange(k, dtype=float),
        5: 1 + near * np.where(np.arange(k) == 0, 2.2, rest),  # a small lead over a cluster
    }.get(int(kind), rest)
    return np.asarray(generator.permutation(s))


def draw_spectrum(generator: np.random.Generator, d: int, m: int) -> Array:
    """A matrix whose top singular vectors are hard to find."""
    k = min(d, m)
    s = draw_singular_values(generator, k)
    if generator.random() < 0.4:  # diagonal: no vector is near another
        G = np.zeros((d, m))
        G[np.arange(k), np.arange(k)] = s
        return G
    left = np.linalg.qr(generator.standard_normal((d, k)))[0]
    right = np.linalg.qr(generator.standard_normal((m, k)))[0]
    if generator.random() < 0.3 and k > 1:
        right = hidden_from(right, int(s.argmax()))
    return (left * s) @ right.T


def hidden_from(right: Array, top: int) -> Array:
    """The same basis, its top vector orthogonal to the noise from which Lanczos once started."""
    noise = torch.randn(
        len(right), dtype=torch.float64, generator=torch.Generator().manual_seed(2016)
    ).numpy()
    other = (top + 1) % right.shape[1]
    a, b = right[:, top] @ noise, right[:, other] @ noise
    turned = right.copy()
    turned[:, top] = (b * right[:, top] - a * right[:, other]) / np.hypot(a, b)
    turned[:, other] = (a * right[:, top] + b * right[:, other]) / np.hypot(a, b)
    return turned
