"""SVMDual."""

from __future__ import annotations

from typing import ClassVar, final

import torch
from torch import Tensor

from fwnet.iterates import Iterate, Move
from fwnet.numerics import checks
from fwnet.numerics.linear_maps import DenseMap, LinearMap
from fwnet.problems.base import FirstOrder, Gradient, Problem
from fwnet.problems.quadratic import LeastSquares, Quadratic, check_symmetric
from fwnet.vertices import Vertex


@final
class SVMDual(Problem):
    """Dual of the squared-hinge SVM, over the unit simplex.

        f(α) = ½ αᵀQ α,   Q = yyᵀ ∘ (k(X, X) + 1) + I/C

    At the optimum, w = Σ αᵢ yᵢ xᵢ / (2 f(α)) minimises ½‖w‖² + C/2 Σ max(0, 1 − yᵢ⟨w, xᵢ⟩)²,
    the intercept being one more coordinate of w.

    `decision_function`, `predict` and, for features, `primal` use the hyperplane of any α. With
    `StochasticFrankWolfe`, a step sees a minibatch of coordinates.

    Arguments:
        K: Gram matrix k(X, X), `(n, n)` or `(batch, n, n)`. Without `y`, K counts as
            yyᵀ ∘ k(X, X) already, as in the paper. A `LinearMap` counts as all of Q, with C=None.
        y: labels −1, +1, `(n,)` or `(batch, n)`.
        features: X `(n, d)` or `(batch, n, d)` in place of K: a linear kernel through feature
            space, n·d numbers instead of n².
        C: weight of the errors, a number or one for each point `(n,)`; None leaves I/C out (the
            hard margin).
        bias: add the constant feature 1; by default if there are labels.

    Example:
        >>> X, y = torch.tensor([[1.0], [2.0], [-1.0]]), torch.tensor([1.0, 1.0, -1.0])
        >>> problem = SVMDual(X @ X.T, y, C=10.0)
        >>> alpha = PairwiseFrankWolfe(Simplex(), tol=1e-4)(problem).x
        >>> problem.predict(alpha, torch.tensor([[3.0], [-4.0]]) @ X.T)
        tensor([ 1., -1.])
    """

    quadratic: ClassVar[bool] = True

    def __init__(
        self,
        K: Tensor | LinearMap | None = None,
        y: Tensor | None = None,
        *,
        features: Tensor | None = None,
        C: float | Tensor | None = 1.0,
        bias: bool | None = None,
    ) -> None:
        if (K is None) == (features is None):
            raise ValueError("SVMDual: give exactly one of K and features.")
        self.form: Quadratic | LeastSquares
        self.ridge: float | Tensor = 0.0
        self.labels: Tensor | None = None
        self.bias, self.features = False, features
        if isinstance(K, LinearMap):
            if y is not None or bias or C is not None:
                raise ValueError(
                    "SVMDual(K): a LinearMap counts as all of Q; leave out y and bias, set C=None."
                )
            self.form = Quadratic(K)
            self._take_shape()
            return
        name = "SVMDual(K)" if features is None else "SVMDual(features)"
        data = _data(name, K if features is None else features)
        if bias and y is None:
            raise ValueError("SVMDual(bias=True) needs the labels y.")
        ridge = 0.0 if C is None else 1 / _penalty(C, data)
        self.ridge = ridge
        labels = None
        if y is not None:
            labels = checks.signs("SVMDual(y)", y, tuple(data.shape[:-1]), data)
        use_bias = labels is not None if bias is None else bias
        self.labels, self.bias = labels, bool(use_bias)
        if features is None:
            self.form = Quadratic(dual_matrix(data, labels, ridge, use_bias))
        else:
            self.form = _feature_form(data, labels, ridge, use_bias)
        self._take_shape()

    def _take_shape(self) -> None:
        self.shape, self.batch_dims = self.form.shape, self.form.batch_dims
        self.dtype, self.device = self.form.dtype, self.form.device

    def value(self, it: Iterate) -> Tensor:
        return self.form.value(it)

    def gradient(self, it: Iterate) -> Tensor:
        return self.form.gradient(it)

    def first_order(self, it: Iterate) -> FirstOrder:
        return self.form.first_order(it)

    def image(self, x: Tensor) -> Tensor:
        return self.form.image(x)

    def vertex_image(self, vertex: Vertex) -> Tensor:
        return self.form.vertex_image(vertex)

    def slope(self, it: Iterate, move: Move) -> Tensor:
        return self.form.slope(it, move)

    def curvature(self, it: Iterate, move: Move) -> Tensor:
        return self.form.curvature(it, move)

    def gram(self, it: Iterate, directions: Tensor, images: Tensor) -> Tensor:
        return self.form.gram(it, directions, images)

    def hessian_vertex(self, vertex: Vertex, image: Tensor | None) -> Gradient | None:
        return self.form.hessian_vertex(vertex, image)

    def curvatures(self, atoms: Vertex) -> Tensor | None:
        return self.form.curvatures(atoms)

    def smoothness(self) -> float:
        return self.form.smoothness()

    def terms(self) -> int | None:
        return self.form.shape[-1]

    def minibatch(self, rows: Tensor) -> Problem:
        """f by some coordinates of α: Qα is estimated by n/b Σ over these i of αᵢ Qeᵢ."""
        return _Coordinates(self.form, rows)

    def primal(self, alpha: Tensor) -> tuple[Tensor, Tensor]:
        """The hyperplane of α: w `(*batch, d)` and the intercept b `(*batch,)`.

            w = Σ αᵢ yᵢ xᵢ / ρ,   b = Σ αᵢ yᵢ / ρ,   ρ = 2 f(α);   b = 0 without a bias

        Needs a problem that was made of `features`.
        """
        if self.features is None:
            raise TypeError(
                "SVMDual.primal needs SVMDual(features=...): a kernel has no w. Use "
                "decision_function with the kernel of the new points."
            )
        signed, b = self._signed(alpha)
        w: Tensor = (signed.unsqueeze(-2) @ self.features).squeeze(-2)
        return w, b

    def decision_function(self, alpha: Tensor, new: Tensor) -> Tensor:  # (*batch, m)
        """⟨w, x⟩ + b of new points by α, any point of the simplex.

            Σ αᵢ yᵢ k(xᵢ, x) / ρ + b,   b = Σ αᵢ yᵢ / ρ,   ρ = 2 f(α)

        Arguments:
            alpha: `(*batch, n)`, such as `Result.x`.
            new: the kernel of new points and the problem's, `(*batch, m, n)`; for a problem of
                features the features of the new points, `(*batch, m, d)`.
        """
        if self.features is None:
            weights, b = self._signed(alpha)
        else:
            weights, b = self.primal(alpha)
        if new.shape[-1] != weights.shape[-1]:
            what = "k(new, X)" if self.features is None else "features"
            raise ValueError(
                f"decision_function(new) must be {what} with {weights.shape[-1]} columns; got "
                f"shape {tuple(new.shape)}."
            )
        return torch.linalg.vecdot(new, weights.unsqueeze(-2)) + b.unsqueeze(-1)

    def predict(self, alpha: Tensor, new: Tensor) -> Tensor:  # (*batch, m)
        """The label −1 or +1 of new points; arguments as in `decision_function`."""
        positive = self.decision_function(alpha, new) >= 0
        return positive.to(alpha.dtype) * 2 - 1

    def _signed(self, alpha: Tensor) -> tuple[Tensor, Tensor]:
        """αᵢ yᵢ / ρ `(*batch, n)` and b."""
        if self.labels is None:
            raise TypeError("SVMDual needs the labels y to decide on new points; give SVMDual(y).")
        alpha = self.check_point("alpha", alpha)
        signed = self.labels * alpha / (2 * self.value(self.at(alpha))).unsqueeze(-1)
        b = signed.sum(-1)
        return signed, b if self.bias else torch.zeros_like(b)

    def hinge_gap(self, it: Iterate) -> tuple[Tensor, Tensor]:
        """Duality gap of the squared-hinge form, and its primal value.

            primal = ½‖w‖² + ½ Σ Cᵢ max(0, 1 − yᵢ⟨w, xᵢ⟩)²,   dual = 1 / (4 f(α))

        at w = Σ αᵢ yᵢ xᵢ / ρ, ρ = 2 f(α). Needs a finite C.
        """
        if isinstance(self.ridge, float) and self.ridge == 0:
            raise ValueError("hinge_gap: the hard margin (C=None) has no squared-hinge form.")
        rho = 2 * self.form.value(it)
        margins = (self.form.gradient(it) - self.ridge * it.x) / rho.unsqueeze(-1)
        errors = (1 - margins).clamp_min(0)
        norm = (rho - torch.linalg.vecdot(self.ridge * it.x, it.x)) / rho**2  # ‖w‖²
        primal = 0.5 * norm + 0.5 * (errors.square() / self.ridge).sum(-1)
        return primal - 0.5 / rho, primal


@final
class _Coordinates(Problem):
    """½ ⟨α, g⟩ with g = n/b Σ over b coordinates i of αᵢ Qeᵢ, unbiased estimates of f and Qα."""

    def __init__(self, form: Quadratic | LeastSquares, rows: Tensor) -> None:
        self.form, self.rows = form, rows
        self.shape, self.batch_dims = form.shape, form.batch_dims
        self.dtype, self.device = form.dtype, form.device

    def value(self, it: Iterate) -> Tensor:
        return self.first_order(it).value

    def gradient(self, it: Iterate) -> Tensor:
        scale = it.x.shape[-1] / len(self.rows)
        chosen = scale * it.x[..., self.rows]
        if isinstance(self.form, Quadratic) and isinstance(self.form.matrix, DenseMap):
            return self.form.matrix.rows(self.rows).adjoint(chosen)  # Q is symmetric
        only = torch.zeros_like(it.x).index_copy(-1, self.rows, chosen)
        return self.form.gradient(self.form.at(only))

    def first_order(self, it: Iterate) -> FirstOrder:
        gradient = self.gradient(it)
        along = torch.linalg.vecdot(gradient, it.x)
        return FirstOrder(0.5 * along, gradient, along)


def _data(name: str, given: Tensor | None) -> Tensor:
    data = checks.real_tensor(name, given)
    square = name == "SVMDual(K)"
    if data.ndim not in (2, 3):
        shape = "(n, n)" if square else "(n, d)"
        raise ValueError(
            f"{name} must be {shape}, with or without a batch in front; got {tuple(data.shape)}."
        )
    if square:
        if data.shape[-1] != data.shape[-2]:
            raise ValueError(f"SVMDual(K) must be square; got shape {tuple(data.shape)}.")
        check_symmetric(name, data)
    return data


def _penalty(C: float | Tensor, data: Tensor) -> float | Tensor:
    if not isinstance(C, Tensor):
        return checks.positive("SVMDual(C=...)", C)
    if C.shape != data.shape[-2:-1]:
        raise ValueError(
            f"SVMDual(C=...) must be a number, or have shape {tuple(data.shape[-2:-1])}; "
            f"got {tuple(C.shape)}."
        )
    if not bool((C.isfinite() & (C > 0)).all()):
        raise ValueError("SVMDual(C=...) must hold positive finite numbers only.")
    return C.to(data)


def dual_matrix(K: Tensor, y: Tensor | None, ridge: float | Tensor, bias: bool) -> Tensor:
    """Return Q = yyᵀ ∘ (K + bias) + diag(ridge), `(*batch, n, n)`.

    Arguments:
        K: kernel matrix `(*batch, n, n)`.
        y: labels −1, +1 `(*batch, n)`; None if K has them.
        ridge: 1/C, a number or one for each point `(*batch, n)`.
        bias: whether 1 is added to the kernel.
    """
    Q = K if y is None else y.unsqueeze(-1) * (K + 1.0 if bias else K) * y.unsqueeze(-2)
    if isinstance(ridge, Tensor):
        return Q + torch.diag_embed(ridge)
    return Q + ridge * torch.eye(K.shape[-1], dtype=K.dtype, device=K.device) if ridge else Q


def _feature_form(X: Tensor, y: Tensor | None, ridge: float | Tensor, bias: bool) -> LeastSquares:
    if bias:
        X = torch.cat([X, X.new_ones(*X.shape[:-1], 1)], -1)
    if y is not None:
        X = y.unsqueeze(-1) * X
    return LeastSquares(X.mT, X.new_zeros(*X.shape[:-2], X.shape[-1]), ridge)
