"""Layers that solve: their derivatives beside those of minima that no layer has found."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

import fwnet
from cases import SOLVERS
from fwnet.layers import ImplicitLayer, SimplexQP, SVMLayer
from laws.coverage import note
from laws.differences import STEP, Array, Difference, slope, tensors
from laws.faces import FaceQuadratic, Family, draw_polyhedron, draw_quadratic, simplex

KERNELS = ("linear", "rbf")
ANY_FUNCTION = ("Away", "Pairwise", "Blended")  # precise solvers that need no curvature
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


def wanted_slope(drawn: FaceQuadratic, posed: Posed, weights: Array) -> tuple[float, float]:
    """The derivative of ⟨weights, x*⟩, and a bound on it."""
    ends = [
        posed.quadratic(*(x + h * way for x, way in zip(posed.leaves, posed.ways, strict=True)))
        for h in (STEP, -STEP)
    ]
    ahead, behind = (drawn.minimum(K, c) for K, c in ends)
    dK, dc = ((one - other) / (2 * STEP) for one, other in zip(*ends, strict=True))
    most = np.linalg.norm(dK, 2) * np.linalg.norm(drawn.x) + np.linalg.norm(dc)
    least = float(np.linalg.eigvalsh(drawn.K)[0])
    bound = float(np.linalg.norm(weights) * most / least)
    return float((ahead - behind) @ weights) / (2 * STEP), bound


class Posed(NamedTuple):
    """A quadratic as some problem: its data, directions in them, and K and c for other data."""

    leaves: list[Array]
    ways: list[Array]
    quadratic: Callable[..., tuple[Array, Array]]  # of the data
    problem: Callable[..., Any]


def pose(generator: np.random.Generator, name: str, drawn: FaceQuadratic) -> Posed:
    """½ xᵀKx + cᵀx by its K and c, as ½|Ax − b|², or as a plain function."""
    ways = draw_ways(generator, drawn)
    if name != "LeastSquares":
        problem = fwnet.Quadratic if name == "Quadratic" else plain_function
        return Posed([drawn.K, drawn.c], [ways.K, ways.c], lambda K, c: (K, c), problem)
    A = np.linalg.cholesky(drawn.K).T
    b = -np.linalg.solve(A.T, drawn.c)
    dA = generator.standard_normal(A.shape) * np.abs(A).max()
    db = generator.standard_normal(len(b)) * (np.abs(b).max() + 1e-300)
    return Posed([A, b], [dA, db], lambda A, b: (A.T @ A, -A.T @ b), fwnet.LeastSquares)


def plain_function(K: Tensor, c: Tensor) -> fwnet.Function:
    return fwnet.Function(
        lambda x: ((0.5 * (K @ x.unsqueeze(-1)).squeeze(-1) + c) * x).sum(-1), batched=K.ndim == 3
    )


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
    name = str(generator.choice(["Quadratic", "Quadratic", "LeastSquares", "Function"]))
    posed = [pose(generator, name, quadratic) for quadratic in drawn]
    weights = [generator.standard_normal(len(quadratic.c)) for quadratic in drawn]
    suited = [s for s in SOLVERS if s.precise and (name != "Function" or s.name in ANY_FUNCTION)]
    solver = suited[int(generator.integers(len(suited)))]
    scale = min(float(np.linalg.eigvalsh(q.K)[0]) for q in drawn) * place.size**2
    data, ways = (
        [np.stack(parts) if batch > 1 else parts[0] for parts in zip(*columns, strict=True)]
        for columns in ([p.leaves for p in posed], [p.ways for p in posed])
    )
    leaves = tensors(*data)
    layer = ImplicitLayer(solver.make(place.domain, max_steps=200, tol=1e-13 * scale))
    start = place.vertices[:batch].mean(0)
    x0 = torch.from_numpy(np.stack([start] * batch) if batch > 1 else start)
    result = layer(posed[0].problem(*leaves), x0)
    note(
        kind="gradients, ImplicitLayer",
        domain=type(place.domain).__name__,
        face=_face(drawn),
        problem=name,
        solver=solver,
        compared=not float(result.gap.max()) > 1e-11 * scale,
    )
    if float(result.gap.max()) > 1e-11 * scale:
        return None
    weighted = torch.from_numpy(np.stack(weights) if batch > 1 else weights[0])
    given = slope(leaves, ways, (result.x * weighted).sum())
    slopes = [wanted_slope(q, p, w) for q, p, w in zip(drawn, posed, weights, strict=True)]
    text = f"ImplicitLayer({solver}) of {name}, {place.domain}"
    text += f", faces {[q.dimension for q in drawn]}"
    return Difference(given, sum(s[0] for s in slopes), max(s[1] for s in slopes), text)


def draw_simplex_qp(generator: np.random.Generator, face: int | None = None) -> Difference:
    """SimplexQP of one matrix, or of a batch with solutions on faces of all kinds."""
    first = _on_the_simplex(generator, face)
    batch = 1 if face is not None else int(generator.choice([1, 4]))
    choices = [int(generator.choice(FACES)) for _ in range(batch - 1)]
    drawn = [first] + [draw_quadratic(generator, first.place, corners) for corners in choices]
    posed = [pose(generator, "Quadratic", quadratic) for quadratic in drawn]
    weights = [generator.standard_normal(len(first.c)) for _ in drawn]
    slopes = [wanted_slope(q, p, w) for q, p, w in zip(drawn, posed, weights, strict=True)]
    leaves = tensors(*(np.stack(parts) for parts in zip(*(p.leaves for p in posed), strict=True)))
    ways = [np.stack(parts) for parts in zip(*(p.ways for p in posed), strict=True)]
    out = (SimplexQP()(*leaves) * torch.from_numpy(np.stack(weights))).sum()
    note(kind="gradients, SimplexQP", problem="matrix", face=_face(drawn))
    text = f"SimplexQP, faces {[q.dimension for q in drawn]}, {len(first.c)} coordinates"
    bound = max(s[1] for s in slopes)
    return Difference(slope(leaves, ways, out), sum(s[0] for s in slopes), bound, text)


def _face(drawn: list[FaceQuadratic]) -> str:
    return "mixed" if len(drawn) > 1 else str(min(drawn[0].dimension, 3))


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
    note(kind="gradients, SimplexQP", problem="features", face=_face([made]))
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


class Machine(NamedTuple):
    """The options of an `SVMLayer`."""

    kernel: str
    C: float
    gamma: float
    bias: bool


def svm_scores(x: Array, y: Array, queries: Array, machine: Machine) -> Array | None:
    """The formulas of `SVMLayer`, one class against the rest; None near a tie."""
    one = float(machine.bias)

    def k(a: Array, b: Array) -> Array:
        if machine.kernel == "linear":
            return a @ b.T + one
        return np.exp(-machine.gamma * ((a[:, None] - b) ** 2).sum(-1)) + one

    scores = []
    for label in [1] if (y < 0).any() else np.unique(y):
        sign = np.where(y == label, 1.0, -1.0)
        K = np.outer(sign, sign) * k(x, x) + np.eye(len(x)) / machine.C
        found = dual_by_supports(K)
        if found is None or found[1] < 1e-3:
            return None
        alpha = found[0]
        scores.append(k(queries, x) @ (alpha * sign) / (alpha @ K @ alpha))
    return np.stack(scores, -1)


def draw_svm(generator: np.random.Generator, kernel: str | None = None) -> Difference | None:
    """SVMLayer of six points in two or three classes, in batches; None near a tie."""
    batch, n, d = int(generator.choice([1, 2])), 6, int(generator.choice([1, 2, 5]))
    kernel = str(generator.choice(KERNELS)) if kernel is None else kernel
    gamma = None if generator.random() < 0.5 else float(10 ** generator.uniform(-1, 1))
    C, bias = float(10 ** generator.uniform(-1, 2)), bool(generator.random() < 0.7)
    machine = Machine(kernel, C, 1.0 / d if gamma is None else gamma, bias)
    x, dx = (generator.standard_normal((batch, n, d)) for _ in range(2))
    queries, dq = (generator.standard_normal((batch, 2, d)) for _ in range(2))
    two = bool(generator.random() < 0.3)
    y = np.stack(
        [generator.permutation([-1, 1, 1, -1, 1, 1] if two else [0, 1, 2, 0, 1, 1])] * batch
    )
    weights = generator.standard_normal((batch, 2, 1 if two else 3))
    wanted = 0.0
    note(kind="gradients, SVMLayer", kernel=kernel, bias=bias, classes=2 if two else 3, d=d)
    for k in range(batch):
        ends = [
            svm_scores(x[k] + h * dx[k], y[k], queries[k] + h * dq[k], machine)
            for h in (STEP, -STEP)
        ]
        note(compared=ends[0] is not None and ends[1] is not None)
        if ends[0] is None or ends[1] is None:
            return None
        wanted += float(((ends[0] - ends[1]) * weights[k]).sum()) / (2 * STEP)
    leaves = tensors(x, queries)
    layer = SVMLayer(C, kernel=kernel, gamma=gamma, bias=bias)
    scores = layer(leaves[0], torch.from_numpy(y), leaves[1]).reshape(weights.shape)
    given = slope(leaves, [dx, dq], (scores * torch.from_numpy(weights)).sum())
    text = f"{layer}, d={d}, batch of {batch}, {2 if two else 3} classes"
    return Difference(given, wanted, max(1.0, abs(wanted)), text)
