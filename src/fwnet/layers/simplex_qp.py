"""A quadratic program over the simplex as a layer."""

from __future__ import annotations

import warnings
from typing import Any, final

import torch
from torch import Tensor, nn

from fwnet.numerics import checks
from fwnet.numerics.precision import in_full_precision, without_autocast
from fwnet.quadratic.features import solve_feature_qp
from fwnet.quadratic.gradients import DenseFaceSystem, FaceSystem, FeatureFaceSystem, face_solve
from fwnet.quadratic.solve import SimplexQPSolution, solve_simplex_qp


@final
class SimplexQP(nn.Module):
    """The minimiser of a quadratic over the simplex, with exact gradients.

        x(K, c) = argmin ½ xᵀKx + cᵀx   subject to   x >= 0, Σ x = 1

    The gradient solves Newton's equations on the face of the solution. If a coordinate and its
    multiplier are both 0, the gradient is the mean of the two one-sided derivatives, as in a
    central difference. If K is singular on the face, the solution is not unique and the gradient is
    the least-norm one, exact for what the data determines (the value, Kx). Gradients can be
    differentiated again. Leading dimensions are batches, so `torch.vmap` is not supported. Batches
    of small problems on the CPU run in compiled code if Numba is installed, otherwise as batched
    torch operations. Under autocast it solves in float32 and returns float32.

    Arguments:
        tol: relative gap of the exact solve; 1e-12 for float64 and 1e-6 for float32 by default.

    Example:
        >>> K = torch.diag(torch.tensor([1.0, 2.0, 2.0])).unsqueeze(0)
        >>> SimplexQP()(K)
        tensor([[0.5000, 0.2500, 0.2500]])

    Reference: Amos and Kolter (2017), OptNet.
    """

    def __init__(self, *, tol: float | None = None) -> None:
        super().__init__()
        self.tol = None if tol is None else checks.positive("SimplexQP(tol=...)", tol)

    def extra_repr(self) -> str:
        return "" if self.tol is None else f"tol={self.tol}"

    @in_full_precision
    def forward(
        self,
        K: Tensor | None = None,  # (*batch, n, n)
        c: Tensor | None = None,  # (*batch, n)
        *,
        features: Tensor | None = None,  # (*batch, n, d)
        diagonal: Tensor | float | None = None,  # (*batch, n)
    ) -> Tensor:  # (*batch, n)
        """Solve.

        Arguments:
            K: symmetric positive semidefinite matrices.
            features, diagonal: instead of K; K = features featuresᵀ + diag(diagonal) is never
                formed. The diagonal must be positive: a number, or one entry for each row.
            c: linear term, zero by default.
        """
        if (K is None) == (features is None):
            raise ValueError("SimplexQP takes either K or features=..., not both or neither.")
        if K is not None:
            if diagonal is not None:
                raise ValueError("diagonal=... goes with features=...; add it to K instead.")
            return self._dense(K, c)
        assert features is not None
        return self._features(features, diagonal, c)

    def _dense(self, K: Tensor, c: Tensor | None) -> Tensor:
        _check_kind("K", K)
        if K.ndim < 2 or K.shape[-1] != K.shape[-2]:
            raise ValueError(f"K must have shape (*batch, n, n); got {tuple(K.shape)}.")
        batch, n = K.shape[:-2], K.shape[-1]
        linear = _linear(c, K, batch, n)
        flat = K.reshape(-1, n, n)
        x = _solve(DenseProblem(self.tol), linear.reshape(-1, n), flat)
        return x.reshape(*batch, n)

    def _features(self, Z: Tensor, diagonal: Tensor | float | None, c: Tensor | None) -> Tensor:
        _check_kind("features", Z)
        if not bool(Z.sum().isfinite()):  # a cheap first check
            checks.finite("features", Z)
        if Z.ndim < 2:
            raise ValueError(f"features must have shape (*batch, n, d); got {tuple(Z.shape)}.")
        batch, n, d = Z.shape[:-2], Z.shape[-2], Z.shape[-1]
        D = _positive_diagonal(diagonal, Z)
        linear = _linear(c, Z, batch, n)
        if 2 * d > n:  # no gain in feature space
            return self._dense(Z @ Z.mT + torch.diag_embed(D), c)
        parts = Z.reshape(-1, n, d), D.reshape(-1, n)
        return _solve(FeatureProblem(self.tol), linear.reshape(-1, n), *parts).reshape(*batch, n)


class DenseProblem:
    """How a dense K is solved and differentiated."""

    def __init__(self, tol: float | None) -> None:
        self.tol = tol

    def solve(self, c: Tensor, Q: Tensor) -> SimplexQPSolution:
        try:
            return solve_simplex_qp(Q, c, tol=self.tol)
        except ValueError as error:  # the solver's Q is this layer's K
            raise ValueError(str(error).replace("Q", "K")) from None

    def size(self, Q: Tensor) -> Tensor:
        return Q.diagonal(dim1=-2, dim2=-1).amax(-1)

    def system(self, free: Tensor, Q: Tensor) -> FaceSystem:
        return DenseFaceSystem(Q, free)


class FeatureProblem:
    """How K = ZZᵀ + diag(D) is solved and differentiated; it keeps the last face."""

    def __init__(self, tol: float | None) -> None:
        self.tol = tol

    def solve(self, c: Tensor, Z: Tensor, D: Tensor) -> SimplexQPSolution:
        default = 1e-12 if Z.dtype == torch.float64 else 1e-6
        solution, self._last = solve_feature_qp(Z, D, c, default if self.tol is None else self.tol)
        return solution

    def size(self, Z: Tensor, D: Tensor) -> Tensor:
        return Z.square().sum(-1).add(D).amax(-1)

    def system(self, free: Tensor, Z: Tensor, D: Tensor) -> FaceSystem:
        last = self._last
        return last if torch.equal(last.free, free) else FeatureFaceSystem.of(Z, D, free)


def _solve(problem: DenseProblem | FeatureProblem, c: Tensor, *parts: Tensor) -> Tensor:
    x, _ = _Argmin.apply(problem, c, *parts)  # type: ignore[no-untyped-call]
    return x


class _Argmin(torch.autograd.Function):
    @staticmethod
    def forward(problem: Any, c: Tensor, *parts: Tensor) -> tuple[Tensor, Tensor]:
        solution = problem.solve(c, *parts)
        if not bool(solution.converged.all()):
            worst = float(solution.gap.max())
            warnings.warn(
                f"SimplexQP reached a gap of {worst:.1e} for the hardest problem of the batch, "
                "above its tolerance; gradients are as inexact as the solution.",
                stacklevel=4,
            )
        return solution.x, solution.gradient

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        ctx.problem = inputs[0]
        x, gradient = output
        ctx.mark_non_differentiable(gradient)
        ctx.save_for_backward(x, gradient, *inputs[2:])

    @staticmethod
    def backward(ctx: Any, v: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        x, gradient, *parts = ctx.saved_tensors
        with without_autocast(v.device):
            inner, outer = _faces(x, gradient, ctx.problem.size(*parts))
            system = ctx.problem.system(inner, *parts)
            w = face_solve(system, v, *parts)
            if not torch.equal(inner, outer):
                w = (w + face_solve(ctx.problem.system(outer, *parts), v, *parts)) / 2
            return None, -w, *system.gradients(w, x, *parts)


@torch.no_grad()
def _faces(x: Tensor, gradient: Tensor, size: Tensor) -> tuple[Tensor, Tensor]:
    """The coordinates that are certainly free, and those that may be."""
    small = torch.finfo(x.dtype).eps ** 0.55
    level = (x * gradient).sum(-1, keepdim=True)
    inner = x > small
    flat = gradient - level <= small * (size.unsqueeze(-1) + level.abs())
    return inner, inner | flat


def _check_kind(name: str, value: Tensor) -> None:
    good = isinstance(value, Tensor) and value.dtype in (torch.float32, torch.float64)
    if not good or not value.numel() or value.layout is not torch.strided:
        checks.real_tensor(name, value)


def _linear(c: Tensor | None, like: Tensor, batch: torch.Size, n: int) -> Tensor:
    if c is None:
        return like.new_zeros(*batch, n)
    checks.real_tensor("c", c)
    checks.same_kind("c", c, "K", like)
    return _expanded("c", c, torch.Size((*batch, n)))


def _expanded(name: str, value: Tensor, shape: torch.Size) -> Tensor:
    """One vector for each problem; a batch may share one."""
    vectors = 1 <= value.ndim <= len(shape) and value.shape[-1] == shape[-1]
    batch = zip(reversed(value.shape[:-1]), reversed(shape[:-1]), strict=False)
    if not vectors or any(have not in (1, want) for have, want in batch):
        raise ValueError(f"{name} must have shape {tuple(shape)}; got {tuple(value.shape)}.")
    return value.expand(shape)


def _positive_diagonal(diagonal: Tensor | float | None, Z: Tensor) -> Tensor:
    if diagonal is None:
        raise ValueError(
            "features=... needs diagonal=..., positive: K = features featuresᵀ + diag(diagonal)."
        )
    if isinstance(diagonal, Tensor):
        checks.real_tensor("diagonal", diagonal)
        checks.same_kind("diagonal", diagonal, "features", Z)
        if not bool((diagonal > 0).all()):
            raise ValueError(f"diagonal must be positive; its minimum is {diagonal.min():.6g}.")
        rows = diagonal if diagonal.ndim else diagonal.expand(Z.shape[-2])
        return _expanded("diagonal", rows, Z.shape[:-1])
    return Z.new_full(Z.shape[:-1], checks.positive("diagonal", diagonal))
