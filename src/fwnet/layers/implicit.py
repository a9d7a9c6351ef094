"""ImplicitLayer: exact gradients at the solution, without a graph through the solver."""

from __future__ import annotations

from typing import final

from torch import Tensor, nn

from fwnet.domains.minimizers import following, knows_faces
from fwnet.layers.domain_parameters import refuse_gradients
from fwnet.numerics import checks
from fwnet.numerics.precision import without_autocast
from fwnet.problems import Problem, as_problem
from fwnet.problems.base import dense_gradient
from fwnet.solvers import FrankWolfe, Objective
from fwnet.trace import Result


@final
class ImplicitLayer(nn.Module):
    """x* = argmin of f(x, θ) over a polytope, differentiable in θ, the data of f.

        dx*/dθ = −P (P ∇²f P)⁺ P ∂∇f/∂θ

    with P the projection onto the directions of the face of x*: binding constraints are assumed to
    stay binding, even if a multiplier is 0 and the derivative is one-sided. If the Hessian on the
    face is singular, the least-norm derivative is taken.

    The solver runs without a graph and should be accurate (a gap of 1e-9 in float64), since an
    error in x* is an error in the gradient. First derivatives only; a second backward raises. Under
    autocast it computes in the precision of the problem's data.

    Arguments:
        solver: any `FrankWolfe` over Simplex, HyperSimplex, L1Ball, LInfBall, Box or Polytope.
        tol: a constraint binds if it holds with equality up to this, relative to the largest entry
            of v − u, where v and u are the vertices that minimise and maximise ⟨∇f(x*), ·⟩.

    Example:
        >>> import torch, fwnet
        >>> from fwnet.layers import ImplicitLayer
        >>> solver = fwnet.PairwiseFrankWolfe(fwnet.Simplex(), tol=1e-10)
        >>> K = torch.eye(3, dtype=torch.float64, requires_grad=True)
        >>> ImplicitLayer(solver)(fwnet.Quadratic(K)).x[0].backward()
        >>> K.grad.diagonal()
        tensor([-0.2222,  0.1111,  0.1111], dtype=torch.float64)
    """

    def __init__(self, solver: FrankWolfe, tol: float = 1e-7) -> None:
        super().__init__()
        if not isinstance(solver, FrankWolfe):
            raise TypeError(f"ImplicitLayer(solver) must be a FrankWolfe solver; got {solver!r}.")
        self.tol = checks.positive("ImplicitLayer(tol=...)", tol)
        self.solver = solver
        if not knows_faces(solver.domain):
            raise TypeError(
                f"ImplicitLayer needs a domain that knows its faces; {solver.domain} does not. "
                "Use Simplex, HyperSimplex, L1Ball, LInfBall, Box or Polytope, or unroll the steps "
                "with FWNet(solver)."
            )

    def forward(self, problem: Objective, x0: Tensor | None = None) -> Result:
        """Solve; `x` and `value` of the result carry gradients to the problem's data."""
        problem = as_problem(problem)
        with without_autocast(problem.device):
            return self._solve(problem, x0)

    def _solve(self, problem: Problem, x0: Tensor | None) -> Result:
        refuse_gradients("ImplicitLayer", self.solver.domain)
        found: Result = self.solver(problem, x0)
        x = found.x.detach()
        it = problem.at(x)
        gradient = dense_gradient(problem.gradient(it))
        if not gradient.requires_grad:
            return found
        x = following(problem, self.solver.domain, x, gradient, self.tol)
        value = problem.value(problem.at(x))
        return Result(x, value, found.gap, found.status, found.steps, found.trace, found.message)
