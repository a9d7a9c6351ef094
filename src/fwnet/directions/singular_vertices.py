"""SingularVertices: all singular directions of the gradient at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor

from fwnet.directions.proposals import Candidates, Proposal
from fwnet.domains import Domain, TraceNormBall
from fwnet.iterates import Iterate
from fwnet.numerics import checks
from fwnet.oracles import Linearization
from fwnet.problems import Problem
from fwnet.problems.base import dense_gradient
from fwnet.vertices import Rank1


@final
@dataclass(frozen=True, eq=False)
class Spectrum:
    """The gradient's leading singular triples U `(*batch, d, k)`, σ `(*batch, k)`, Vᵀ, and the
    vertices −radius · u_i v_iᵀ with their images.
    """

    u: Tensor
    sigma: Tensor
    vt: Tensor
    vertices: Candidates


@final
class SingularVertices(Proposal):
    """On the trace-norm ball, the vertex of every singular direction of the gradient.

        −radius · u_i v_iᵀ,   ∇f = Σ σ_i u_i v_iᵀ,   i = 1, …, count

    Their hull has every soft vertex −radius · U diag(softmax(β σ)) Vᵀ in it, whatever β is, so no
    sharpness must be chosen. All images together cost one pass over the data. For matrices with a
    short side: it needs the full decomposition.

    Arguments:
        count: how many, fewer where a side is shorter.

    Example:
        >>> from fwnet.directions import SingularVertices
        >>> problem = SoftmaxRegression(torch.eye(4), torch.tensor([0, 1, 2, 2]))
        >>> direction = Corrections(proposals=[SingularVertices(3)])
        >>> FrankWolfe(TraceNormBall(4.0), direction=direction, tol=1e-3)(problem).status
        'converged'
    """

    def __init__(self, count: int = 10) -> None:
        super().__init__()
        self.count = checks.at_least("SingularVertices(count=...)", count, 1)

    def extra_repr(self) -> str:
        return f"count={self.count}"

    def init(self, problem: Problem, domain: Domain, it: Iterate) -> None:
        if not isinstance(domain, TraceNormBall):
            raise TypeError(
                f"SingularVertices is for TraceNormBall only; got {domain}. Leave it out."
            )

    def forward(
        self, problem: Problem, domain: Domain, it: Iterate, lin: Linearization, state: Any
    ) -> tuple[list[Candidates], Any]:
        assert isinstance(domain, TraceNormBall)
        return [spectrum(problem, domain, lin, self.count).vertices], state


def spectrum(problem: Problem, domain: TraceNormBall, lin: Linearization, count: int) -> Spectrum:
    """The gradient decomposed, with the vertices of its singular directions."""
    u, sigma, vt = torch.linalg.svd(dense_gradient(lin.gradient), full_matrices=False)
    u, sigma, vt = u[..., :count], sigma[..., :count], vt[..., :count, :]
    atoms = Rank1(-domain.radius * u.mT, vt)
    vertices = Candidates(atoms.dense(), problem.vertex_images(atoms), lasting=False)
    return Spectrum(u, sigma, vt, vertices)
