"""Layers beside second implementations: logistic regression by Newton, qpth and cvxpylayers.

The last two are compared where they are installed; neither is needed.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import cvxpy as cp
import numpy as np
import torch
from torch import Tensor

import fwnet
from fwnet.layers import ImplicitLayer
from laws.coverage import note
from laws.differences import STEP, Array, Difference, slope, tensors
from laws.faces import (
    FaceQuadratic,
    Polyhedron,
    directions_of,
    draw_polyhedron,
    draw_quadratic,
    is_minimum,
)

PEERS = [name for name in ("qpth", "cvxpylayers") if find_spec(name) is not None]
FACES = (1, 2, 3, 99)


# Newton on a face -------------------------------------------------------------------------------


def logistic_minimum(place: Polyhedron, bind: Array, X: Array, y: Array, x: Array) -> Array | None:
    """The minimum of logistic regression on a face, by Newton; None if it is not that of all."""
    free = directions_of(place, bind)
    gradient = np.zeros_like(x)
    for _ in range(30):
        chance = 1 / (1 + np.exp(y * (X @ x)))
        gradient = -X.T @ (y * chance) / len(y)
        hessian = (X * (chance * (1 - chance))[:, None]).T @ X / len(y)
        x = x - free @ np.linalg.solve(free.T @ hessian @ free, free.T @ gradient)
    chance = 1 / (1 + np.exp(y * (X @ x)))
    gradient = -X.T @ (y * chance) / len(y)
    size = float(np.abs(X).max())
    return x if is_minimum(place, bind, gradient, x, size) else None


def draw_logistic(generator: np.random.Generator) -> Difference | None:
    """ImplicitLayer of logistic regression; the solver is asked for nothing but the face.

    None where data a little off have their minimum on another face.
    """
    place = draw_polyhedron(generator)
    n = place.rows.shape[1]
    X = generator.standard_normal((3 * n + 4, n)) / place.size
    y = np.where(generator.random(len(X)) < 0.5, -1.0, 1.0)
    dX = generator.standard_normal(X.shape) / place.size
    weights = generator.standard_normal(n) / place.size
    (leaf,) = tensors(X)
    solver = fwnet.PairwiseFrankWolfe(place.domain, max_steps=500, tol=1e-12)
    x0 = torch.from_numpy(place.vertices.mean(0))
    result = ImplicitLayer(solver)(fwnet.LogisticRegression(leaf, torch.from_numpy(y)), x0)
    x = result.x.detach().numpy()
    bind = place.binding(x[None])
    ends = [logistic_minimum(place, bind, X + h * dX, y, x) for h in (3e3 * STEP, STEP, -STEP)]
    dimension = directions_of(place, bind).shape[1]
    arrived = float(result.gap) <= 1e-11 and all(end is not None for end in ends)
    note(
        kind="gradients, logistic",
        domain=type(place.domain).__name__,
        face=min(dimension, 3),
        compared=arrived,
    )
    if not arrived or ends[1] is None or ends[2] is None:
        return None
    given = slope([leaf], [dX], (result.x * torch.from_numpy(weights)).sum())
    wanted = float((ends[1] - ends[2]) @ weights) / (2 * STEP)
    text = f"ImplicitLayer of LogisticRegression, {place.domain}, face of dimension {dimension}"
    return Difference(given, wanted, max(1.0, abs(wanted)), text)


# Installed peers --------------------------------------------------------------------------------


def by_qpth(drawn: FaceQuadratic, A: Tensor, b: Tensor) -> Tensor:
    from qpth.qp import QPFunction

    place, e = drawn.place, drawn.place.equal
    rows, limits = torch.from_numpy(place.rows), torch.from_numpy(place.limits)
    solve: Any = QPFunction(verbose=-1, eps=1e-14, maxIter=60, check_Q_spd=False)
    none = torch.zeros(0, dtype=torch.float64)
    equalities = (rows[:e], limits[:e]) if e else (none, none)
    x: Tensor = solve(A.mT @ A, -A.mT @ b, rows[e:], limits[e:], *equalities)
    return x[0]


def by_cvxpylayers(drawn: FaceQuadratic, A: Tensor, b: Tensor) -> Tensor:
    from cvxpylayers.torch import CvxpyLayer

    place, e, n = drawn.place, drawn.place.equal, len(drawn.c)
    x, left, right = cp.Variable(n), cp.Parameter((n, n)), cp.Parameter(n)
    constraints = [place.rows[e:] @ x <= place.limits[e:]]
    constraints += [place.rows[:e] @ x == place.limits[:e]] if e else []
    objective = cp.Minimize(0.5 * cp.sum_squares(left @ x - right))
    layer: Any = CvxpyLayer(cp.Problem(objective, constraints), [left, right], [x])
    return layer(A, b)[0]


def draw_peer(generator: np.random.Generator) -> Difference | None:
    """ImplicitLayer of least squares beside an interior-point layer, to the digits that one has.

    None where either did not arrive at the minimum.
    """
    if not PEERS:
        return draw_logistic(generator)
    peer = PEERS[int(generator.integers(len(PEERS)))]
    place = draw_polyhedron(generator)
    while not 0.5 < place.size < 10:
        place = draw_polyhedron(generator)
    drawn = draw_quadratic(generator, place, int(generator.choice(FACES)))
    scale = np.abs(drawn.K).max()
    A = np.linalg.cholesky(drawn.K / scale).T
    b = -np.linalg.solve(A.T, drawn.c / scale)
    dA, db = generator.standard_normal(A.shape), generator.standard_normal(len(b))
    weights = torch.from_numpy(generator.standard_normal(len(b)))
    solver = fwnet.PairwiseFrankWolfe(place.domain, max_steps=500, tol=1e-13)
    slopes, errors = [], []
    for layer in (
        lambda A, b: ImplicitLayer(solver)(fwnet.LeastSquares(A, b)).x,
        lambda A, b: {"qpth": by_qpth, "cvxpylayers": by_cvxpylayers}[peer](drawn, A, b),
    ):
        leaves = tensors(A, b)
        x = layer(*leaves)
        slopes.append(slope(leaves, [dA, db], (x * weights).sum()))
        errors.append(float((x.detach() - torch.from_numpy(drawn.x)).abs().max()))
    domain, face = type(place.domain).__name__, min(drawn.dimension, 3)
    arrived = max(errors) < 3e-6 * place.size
    note(kind=f"gradients, {peer}", domain=domain, face=face, compared=arrived)
    if not arrived:
        return None
    most = np.linalg.norm(dA) * np.linalg.norm(A) * np.linalg.norm(drawn.x) + np.linalg.norm(db)
    size = float(weights.norm()) * most / float(np.linalg.svd(A, compute_uv=False)[-1]) ** 2
    text = f"ImplicitLayer of LeastSquares beside {peer}, {place.domain}, dimension {face}"
    return Difference(slopes[0], slopes[1], 10 * max(1.0, size), text)
