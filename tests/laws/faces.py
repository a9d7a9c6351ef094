"""Polytopes by their rows and their vertices, and quadratics whose minimum lies on a chosen face.

A minimum on the relative interior of a face, with a gradient inside the normal cone there, stays on
the face when the data changes a little, so it moves as the solution of linear equations does. Every
such solution is checked for the conditions of Karush, Kuhn and Tucker: no solver is asked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from scipy.linalg import null_space
from scipy.optimize import nnls

import fwnet
from domains.cases import corners, signs, subsets

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Polyhedron:
    """{x : rows x <= limits, the first `equal` with =}, and all its vertices."""

    domain: fwnet.Domain
    rows: Array  # (k, n)
    limits: Array  # (k,)
    equal: int
    vertices: Array  # (m, n)

    @property
    def size(self) -> float:
        """The longest distance of two vertices."""
        return float(np.linalg.norm(self.vertices[:, None] - self.vertices, axis=-1).max())

    def binding(self, points: Array) -> Array:
        """Which rows hold with equality at all of the points `(m, n)`."""
        apart = np.abs(points @ self.rows.T - self.limits).max(0)
        reach = np.abs(self.vertices).max() * np.linalg.norm(self.rows, axis=1)
        found = apart <= 1e-9 * reach
        found[: self.equal] = True
        return found


def polyhedron(
    domain: fwnet.Domain, rows: Array, limits: Array, equal: int = 0, vertices: Array | None = None
) -> Polyhedron:
    if vertices is None:
        found = corners(torch.from_numpy(rows), torch.from_numpy(limits), equal).numpy()
        vertices = found[np.unique(found.round(9), axis=0, return_index=True)[1]]
    return Polyhedron(domain, rows, limits, equal, vertices)


def simplex(generator: np.random.Generator, n: int, radius: float) -> Polyhedron:
    rows = np.concatenate([np.ones((1, n)), -np.eye(n)])
    limits = np.append(radius, np.zeros(n))
    return polyhedron(fwnet.Simplex(radius), rows, limits, 1, radius * np.eye(n))


def hyper_simplex(generator: np.random.Generator, n: int, radius: float) -> Polyhedron:
    k = int(generator.integers(1, n))
    rows = np.concatenate([np.ones((1, n)), -np.eye(n), np.eye(n)])
    limits = np.concatenate([[k * radius], np.zeros(n), np.full(n, radius)])
    vertices = radius * subsets(n, k).numpy()
    return polyhedron(fwnet.HyperSimplex(k, radius), rows, limits, 1, vertices)


def l1(generator: np.random.Generator, n: int, radius: float) -> Polyhedron:
    vertices = radius * np.concatenate([np.eye(n), -np.eye(n)])
    return polyhedron(fwnet.L1Ball(radius), signs(n).numpy(), np.full(2**n, radius), 0, vertices)


def l_inf(generator: np.random.Generator, n: int, radius: float) -> Polyhedron:
    rows = np.concatenate([np.eye(n), -np.eye(n)])
    vertices = radius * signs(n).numpy()
    return polyhedron(fwnet.LInfBall(radius), rows, np.full(2 * n, radius), 0, vertices)


def box(generator: np.random.Generator, n: int, radius: float) -> Polyhedron:
    """Around 0, at 0 or far from it; as wide in each direction as in the others, or not."""
    width = radius * 10.0 ** generator.uniform(-1, 1, n)
    lower = float(generator.choice([-0.5, 0.0, 0.0, 100.0])) * width
    upper = lower + width
    rows = np.concatenate([np.eye(n), -np.eye(n)])
    vertices = np.where(signs(n).numpy() > 0, upper, lower)
    domain = fwnet.Box(torch.from_numpy(lower), torch.from_numpy(upper))
    return polyhedron(domain, rows, np.concatenate([upper, -lower]), 0, vertices)


def slanted(generator: np.random.Generator, n: int, radius: float) -> Polyhedron:
    """Random rows of different lengths around a point, in a box."""
    normals = generator.standard_normal((n + 2, n)) * 10.0 ** generator.uniform(-1, 1, (n + 2, 1))
    centre = radius * generator.uniform(-2, 2, n)
    reach = radius * generator.uniform(0.5, 1, n + 2) * np.linalg.norm(normals, axis=1)
    rows = np.concatenate([normals, np.eye(n), -np.eye(n)])
    limits = rows @ centre + np.concatenate([reach, np.full(2 * n, radius)])
    domain = fwnet.Polytope(torch.from_numpy(rows), torch.from_numpy(limits))
    return polyhedron(domain, rows, limits)


def plane(generator: np.random.Generator, n: int, radius: float) -> Polyhedron:
    """One equality, and bounds below."""
    weights = generator.uniform(0.5, 3, n)
    rows = np.concatenate([weights[None], -np.eye(n)])
    domain = fwnet.Polytope(
        A_eq=torch.from_numpy(weights[None]),
        b_eq=torch.tensor([radius], dtype=torch.float64),
        bounds=(0.0, None),
    )
    return polyhedron(domain, rows, np.append(radius, np.zeros(n)), 1, np.diag(radius / weights))


Family = Callable[[np.random.Generator, int, float], Polyhedron]
FAMILIES: list[Family] = [simplex, hyper_simplex, l1, l_inf, box, slanted, plane]


@dataclass(frozen=True, eq=False)
class FaceQuadratic:
    """½ xᵀKx + cᵀx with its minimum `x` inside the face of the rows that `bind`."""

    place: Polyhedron
    K: Array
    c: Array
    x: Array
    bind: Array
    dimension: int  # of the face

    def __post_init__(self) -> None:
        size = np.abs(self.K).max() * np.abs(self.x).max() + np.abs(self.c).max()
        assert is_minimum(self.place, self.bind, self.K @ self.x + self.c, self.x, size)

    def minimum(self, K: Array, c: Array) -> Array:
        """The minimum on the plane of the face for other data; for data near by, that of all."""
        free = directions_of(self.place, self.bind)
        if not free.shape[1]:
            return self.x
        slope = free.T @ (K @ self.x + c)
        return self.x - free @ np.linalg.solve(free.T @ K @ free, slope)


def is_minimum(place: Polyhedron, bind: Array, gradient: Array, x: Array, size: float) -> bool:
    """x is feasible, and −∇f a combination of the binding rows, of inequalities with signs.

    Arguments:
        size: of the terms of the gradient.
    """
    slack = place.limits - place.rows @ x
    reach = np.abs(place.vertices).max() * np.linalg.norm(place.rows, axis=1)
    if not (slack >= -1e-12 * reach).all():
        return False
    if not bind.any():
        return bool(np.linalg.norm(gradient) <= 1e-9 * size)
    rows = place.rows[bind] / np.linalg.norm(place.rows[bind], axis=1)[:, None]
    cone = np.concatenate([rows, -rows[: place.equal]])
    return bool(nnls(cone.T, -gradient, maxiter=1000)[1] <= 1e-9 * size)


def directions_of(place: Polyhedron, bind: Array) -> Array:
    """A basis of the directions of a face, `(n, dimension)`."""
    return null_space(place.rows[bind]) if bind.any() else np.eye(place.rows.shape[1])


def draw_polyhedron(generator: np.random.Generator, family: Family | None = None) -> Polyhedron:
    chosen = FAMILIES[int(generator.integers(len(FAMILIES)))] if family is None else family
    radius = 10.0 ** generator.uniform(-2, 2) if generator.random() < 0.5 else 1.0
    return chosen(generator, int(generator.integers(2, 5)), float(radius))


def draw_quadratic(
    generator: np.random.Generator, place: Polyhedron, corners_of_face: int
) -> FaceQuadratic:
    """Its minimum is in the smallest face that holds so many random vertices.

    Arguments:
        corners_of_face: 1 for a vertex, 2 for an edge or a diagonal, and so on.
    """
    m, n = place.vertices.shape
    chosen = place.vertices[generator.permutation(m)[:corners_of_face]]
    x = generator.dirichlet(np.full(len(chosen), 5.0)) @ chosen
    bind = place.binding(chosen)
    root = generator.standard_normal((n, n))
    scale = 10.0 ** generator.uniform(-3, 3) if generator.random() < 0.5 else 1.0
    K = scale * (root @ root.T / n + 0.2 * np.eye(n))
    rows = place.rows[bind] / np.linalg.norm(place.rows[bind], axis=1)[:, None]
    push = generator.uniform(0.5, 2.0, len(rows))
    push[: place.equal] = generator.standard_normal(place.equal)
    gradient = -scale * place.size * (push @ rows if len(rows) else np.zeros(n))
    rank = np.linalg.matrix_rank(rows) if len(rows) else 0
    return FaceQuadratic(place, K, gradient - K @ x, x, bind, int(n - rank))
