"""Layers that solve: their derivatives beside those of minima that no layer has found."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch

import fwnet
from cases import SOLVERS
from fwnet.layers import ImplicitLayer, SimplexQP, SVMLayer
from laws.differences import STEP, Array, Difference, slope, tensors
from laws.faces import FaceQuadratic, Family, draw_polyhedron, draw_quadratic, simplex

KERNELS = ("linear", "rbf")
FACES = (1, 2, 3, 99)  # vertices that span the face of the solution; 99 is all of them


class Ways(NamedTuple):
    """Directions in K and c, and the weights of the entries of x in the loss."""

    K: Array
    c: Array
    x: Array


def draw_ways(generator: np.random.Generator, quadratic: FaceQuadratic) -> Ways:
    n = len(quadratic.c)
    half = generator.standard_normal((n, n)) * np.abs(quadratic.K).max()
    c = generator.standard_normal(n) * np.abs(quadratic.K).max() * quadratic.place.size
    return Ways((half + half.T) / 2, c, generator.standard_normal(n))


def wanted_slope(quadratic: FaceQuadratic, ways: Ways) -> tuple[float, float]:
    """The derivative of ⟨ways.x, x*⟩, and a bound on it."""
    ahead, behind = (
        quadratic.minimum(quadratic.K + h * ways.K, quadratic.c + h * ways.c) for h in (STEP, -STEP)
    )
    most = np.linalg.norm(ways.K, 2) * np.linalg.norm(quadratic.x) + np.linalg.norm(ways.c)
    least = float(np.linalg.eigvalsh(quadratic.K)[0])
    bound = float(np.linalg.norm(ways.x) * most / least)
    return float((ahead - behind) @ ways.x) / (2 * STEP), bound


def draw_implicit(
    generator: np.random.Generator, family: Family | None = None, face: int | None = None
) -> Difference | None:
    """ImplicitLayer, one problem or a batch on one domain; None if the solver did not arrive.

    Arguments:
        family, face: of the domain and of `FACES`; drawn if left out.
    """
    place = draw_polyhedron(generator, family)
    batch = int(generator.choice([1, 1, 3])) if face is None else 1
    faces = [int(generator.choice(FACES)) if face is None else face for _ in range(batch)]
    drawn = [draw_quadratic(generator, place, corners) for corners in faces]
    directions = [draw_ways(generator, quadratic) for quadratic in drawn]
    precise = [case for case in SOLVERS if case.precise]
    solver = precise[int(generator.integers(len(precise)))]
    scale = min(float(np.linalg.eigvalsh(q.K)[0]) for q in drawn) * place.size**2
    K, c = (np.stack([getattr(q, name) for q in drawn]) for name in ("K", "c"))
    dK, dc, weights = (np.stack([w[k] for w in directions]) for k in range(3))
    if batch == 1:
        K, c, dK, dc, weights = K[0], c[0], dK[0], dc[0], weights[0]
    leaves = tensors(K, c)
    layer = ImplicitLayer(solver.make(place.domain, max_steps=200, tol=1e-13 * scale))
    result = layer(fwnet.Quadratic(*leaves))
    if float(result.gap.max()) > 1e-11 * scale:
        return None
    given = slope(leaves, [dK, dc], (result.x * torch.from_numpy(weights)).sum())
    slopes = [wanted_slope(q, w) for q, w in zip(drawn, directions, strict=True)]
    text = f"ImplicitLayer({solver}), {place.domain}, faces {[q.dimension for q in drawn]}"
    return Difference(given, sum(s[0] for s in slopes), max(s[1] for s in slopes), text)


def draw_simplex_qp(generator: np.random.Generator, face: int | None = None) -> Difference:
    """SimplexQP of a matrix."""
    quadratic = _on_the_simplex(generator, face)
    ways = draw_ways(generator, quadratic)
    wanted, bound = wanted_slope(quadratic, ways)
    leaves = tensors(quadratic.K, quadratic.c)
    out = (SimplexQP()(*leaves) * torch.from_numpy(ways.x)).sum()
    given = slope(leaves, [ways.K, ways.c], out)
    return Difference(given, wanted, bound, f"SimplexQP, {_sizes(quadratic)}")


def draw_feature_qp(generator: np.random.Generator, face: int | None = None) -> Difference:
    """SimplexQP of features with a diagonal, K = ZZᵀ + diag(D)."""
    drawn = _on_the_simplex(generator, face)
    n, d, scale = len(drawn.c), int(generator.integers(1, 5)), float(np.abs(drawn.K).max())
    Z, dZ = (scale**0.5 * generator.standard_normal((n, d)) for _ in range(2))
    D, dD = scale * generator.uniform(0.2, 1.0, n), scale * generator.standard_normal(n)
    K = Z @ Z.T + np.diag(D)
    made = replace(drawn, K=K, c=drawn.c + (drawn.K - K) @ drawn.x)  # the same gradient at x
    ways = draw_ways(generator, made)
    ahead, behind = (
        made.minimum((Z + h * dZ) @ (Z + h * dZ).T + np.diag(D + h * dD), made.c + h * ways.c)
        for h in (STEP, -STEP)
    )
    leaves = tensors(Z, D, made.c)
    x = SimplexQP()(features=leaves[0], diagonal=leaves[1], c=leaves[2])
    given = slope(leaves, [dZ, dD, ways.c], (x * torch.from_numpy(ways.x)).sum())
    wanted = float((ahead - behind) @ ways.x) / (2 * STEP)
    most = 2 * np.linalg.norm(Z @ dZ.T, 2) + np.abs(dD).max() + np.linalg.norm(ways.c)
    bound = float(np.linalg.norm(ways.x) * most / np.linalg.eigvalsh(K)[0])
    return Difference(given, wanted, bound, f"SimplexQP, {d} features, {_sizes(made)}")


def _on_the_simplex(generator: np.random.Generator, face: int | None) -> FaceQuadratic:
    place = simplex(generator, int(generator.integers(2, 7)), 1.0)
    return draw_quadratic(generator, place, int(generator.choice(FACES)) if face is None else face)


def _sizes(quadratic: FaceQuadratic) -> str:
    return f"face of dimension {quadratic.dimension} of {len(quadratic.c)} coordinates"


def dual_by_supports(K: Array) -> tuple[Array, float] | None:
    """argmin ½ αᵀKα over the simplex by trying every support, and how far it is from a tie."""
    n = len(K)
    for count in range(1, n + 1):
        for chosen in itertools.combinations(range(n), count):
            block = K[np.ix_(chosen, chosen)]
            weights = np.linalg.solve(block, np.ones(count))
            alpha = np.zeros(n)
            alpha[list(chosen)] = weights / weights.sum()
            excess = np.delete(K @ alpha - 1 / weights.sum(), chosen)
            if (weights > 0).all() and (excess > 0).all():
                margin = min(alpha[list(chosen)].min(), excess.min(initial=np.inf) / K.max())
                return alpha, float(margin)
    return None


def svm_scores(x: Array, y: Array, queries: Array, kernel: str, C: float) -> Array | None:
    """The formulas of `SVMLayer`, one class against the rest; None near a tie."""

    def k(a: Array, b: Array) -> Array:
        if kernel == "linear":
            return a @ b.T + 1
        return np.exp(-((a[:, None] - b) ** 2).sum(-1) / a.shape[1]) + 1

    scores = []
    for label in np.unique(y):
        sign = np.where(y == label, 1.0, -1.0)
        K = np.outer(sign, sign) * k(x, x) + np.eye(len(x)) / C
        found = dual_by_supports(K)
        if found is None or found[1] < 1e-3:
            return None
        alpha = found[0]
        scores.append(k(queries, x) @ (alpha * sign) / (alpha @ K @ alpha))
    return np.stack(scores, -1)


def draw_svm(generator: np.random.Generator, kernel: str | None = None) -> Difference | None:
    """SVMLayer of six points in three classes; None near a tie."""
    n, d = 6, int(generator.choice([1, 2, 5]))
    kernel = str(generator.choice(KERNELS)) if kernel is None else kernel
    C = float(10 ** generator.uniform(-1, 2))
    x, queries = generator.standard_normal((n, d)), generator.standard_normal((2, d))
    y = np.array([0, 1, 2, 0, 1, 2])
    dx, dq = generator.standard_normal(x.shape), generator.standard_normal(queries.shape)
    weights = generator.standard_normal((2, 3))
    ends = [svm_scores(x + h * dx, y, queries + h * dq, kernel, C) for h in (STEP, -STEP)]
    if ends[0] is None or ends[1] is None:
        return None
    wanted = float(((ends[0] - ends[1]) * weights).sum()) / (2 * STEP)
    leaves = tensors(x[None], queries[None])
    scores = SVMLayer(C, kernel=kernel)(leaves[0], torch.from_numpy(y)[None], leaves[1])
    given = slope(leaves, [dx[None], dq[None]], (scores[0] * torch.from_numpy(weights)).sum())
    return Difference(given, wanted, max(1.0, abs(wanted)), f"SVMLayer({C:.3g}, {kernel}), d={d}")
