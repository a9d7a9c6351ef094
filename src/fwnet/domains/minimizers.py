"""How a minimiser over a domain moves with the data of its problem."""

from __future__ import annotations

import torch
from torch import Tensor

from fwnet.domains.base import Domain
from fwnet.domains.simplex import Simplex
from fwnet.numerics.sensitivity import Face, reattached
from fwnet.problems import Problem


def knows_faces(domain: Domain) -> bool:
    """Whether the domain has `normals`, which a derivative on a face needs."""
    return type(domain).normals is not Domain.normals


def following(
    problem: Problem, domain: Domain, x: Tensor, gradient: Tensor, tol: float = 1e-7
) -> Tensor:
    """x with the derivative of the minimiser on its face of the domain.

        dx/dθ = −P (P ∇²f P)⁺ P ∂∇f(x)/∂θ

    Arguments:
        x: the minimiser; a derivative that it already has is kept, as a first guess of this one.
        gradient: ∇f(x), with a graph to θ.
        tol: a constraint binds if it holds with equality up to this, relative to the largest entry
            of v − u, where v and u are the vertices that minimise and maximise ⟨∇f(x), ·⟩.
    """
    with torch.no_grad():
        width = (domain.vertex(gradient).dense() - domain.vertex(-gradient).dense()).abs()
        rounding = 8 * torch.finfo(x.dtype).eps * x.abs().amax(-1, keepdim=True)
        face = Face.of(domain.normals(x, tol * width.amax(-1, keepdim=True) + rounding))
        gram = problem.gram(problem.at(x), face.basis, problem.images(face.basis))
        response = face.response(gram)
    return reattached(x, gradient, response)


def weights_following(weights: Tensor, gradient: Tensor, hessian: Tensor, tol: float) -> Tensor:
    """Minimising weights on the simplex with their derivative, by the formula of `following`.

    Arguments:
        weights: `(*batch, K)`, without a graph.
        gradient: that of f by the weights, with a graph to the data.
        hessian: that of f, `(*batch, K, K)`.
        tol: a weight counts as 0 up to this.
    """
    with torch.no_grad():
        face = Face.of(Simplex().normals(weights, tol))
        response = face.response(face.basis @ hessian @ face.basis.mT)
    return reattached(weights, gradient, response)
