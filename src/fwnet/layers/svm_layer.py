"""A support vector machine as a layer: trained on one set of points, scoring another."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor, nn

from fwnet.layers.simplex_qp import SimplexQP
from fwnet.numerics import checks
from fwnet.numerics.precision import in_full_precision
from fwnet.problems.svm import dual_matrix


@final
class SVMLayer(nn.Module):
    """Squared-hinge SVM of the support points, evaluated at the queries.

        min ½|w|² + ½b² + C/2 Σ max(0, 1 − y_i f(x_i))²,   f(x) = ⟨w, φ(x)⟩ + b

    solved exactly as min ½ αᵀ(K + I/C)α over the simplex with K = yyᵀ ∘ (k(x, x') + 1), then
    f(x) = Σ α_i y_i (k(x_i, x) + 1)/ρ with ρ = αᵀ(K + I/C)α. Several classes are one against the
    rest. Scores are differentiable in both sets of features, twice if need be. Under autocast
    they are computed in float32 and stay so.

    Arguments:
        C: weight of the hinge, as liblinear's 2C.
        kernel: "linear" ⟨x, x'⟩ or "rbf" exp(−gamma |x − x'|²).
        gamma: of the rbf kernel, 1/d by default.
        bias: whether to have b, regularised like w.

    Example:
        >>> x = torch.tensor([[[-2.0], [-1.0], [1.0], [2.0]]])
        >>> y = torch.tensor([[-1, -1, 1, 1]])
        >>> SVMLayer(C=1e6)(x, y, torch.tensor([[[0.5], [3.0]]]))
        tensor([[0.5000, 3.0000]])

    Reference: Lee, Maji, Ravichandran and Soatto (2019), MetaOptNet.
    """

    def __init__(
        self,
        C: float = 1.0,
        *,
        kernel: str = "linear",
        gamma: float | None = None,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.C = checks.positive("SVMLayer(C=...)", C)
        if kernel not in ("linear", "rbf"):
            raise ValueError(f'SVMLayer(kernel=...) must be "linear" or "rbf"; got {kernel!r}.')
        self.kernel = kernel
        self.gamma = None if gamma is None else checks.positive("SVMLayer(gamma=...)", gamma)
        self.bias = bool(bias)
        self.qp = SimplexQP()

    def extra_repr(self) -> str:
        rbf = f", kernel='rbf', gamma={self.gamma}" if self.kernel == "rbf" else ""
        return f"C={self.C}{rbf}, bias={self.bias}"

    @in_full_precision
    def forward(
        self,
        support_features: Tensor,  # (batch, n, d)
        support_labels: Tensor,  # (batch, n)
        query_features: Tensor,  # (batch, q, d)
    ) -> Tensor:  # (batch, q) or (batch, q, classes)
        """Scores of the queries.

        Arguments:
            support_features: the points to train on.
            support_labels: −1 and 1 for one score a query; or 0, ..., classes − 1 for one score a
                class. Each problem of the batch needs every class.
            query_features: the points to score.
        """
        _check_features(support_features, query_features)
        signs = one_against_rest(support_labels, support_features)  # (batch, classes, n)
        if self.kernel == "linear":
            scores = self._linear(support_features, signs, query_features)
        else:
            scores = self._rbf(support_features, signs, query_features)
        binary = bool((support_labels < 0).any())
        return scores.squeeze(-1) if binary else scores

    def _linear(self, x: Tensor, signs: Tensor, queries: Tensor) -> Tensor:
        if self.bias:
            x = torch.cat((x, torch.ones_like(x[..., :1])), -1)
            queries = torch.cat((queries, torch.ones_like(queries[..., :1])), -1)
        if 2 * x.shape[-1] > x.shape[-2]:
            return self._from_kernel(x @ x.mT, queries @ x.mT, signs)
        z = signs.unsqueeze(-1) * x.unsqueeze(1)  # (batch, classes, n, d)
        alpha = self.qp(features=z, diagonal=1.0 / self.C)
        w = (alpha.unsqueeze(-2) @ z).squeeze(-2)  # (batch, classes, d)
        rho = w.square().sum(-1) + alpha.square().sum(-1) / self.C
        scores: Tensor = queries @ (w / rho.unsqueeze(-1)).mT
        return scores

    def _rbf(self, x: Tensor, signs: Tensor, queries: Tensor) -> Tensor:
        gamma = 1.0 / x.shape[-1] if self.gamma is None else self.gamma
        one = 1.0 if self.bias else 0.0
        inner = torch.exp(-gamma * squared_distances(x, x)) + one
        return self._from_kernel(
            inner, torch.exp(-gamma * squared_distances(queries, x)) + one, signs
        )

    def _from_kernel(self, inner: Tensor, outer: Tensor, signs: Tensor) -> Tensor:
        inner = (inner + inner.mT) / 2  # products round differently on either side of the diagonal
        Q = dual_matrix(inner.unsqueeze(1), signs, 1.0 / self.C, bias=False)  # `inner` has it
        alpha = self.qp(Q)  # (batch, classes, n)
        coefficients = alpha * signs
        value = (coefficients * (coefficients @ inner)).sum(-1)
        rho = value + alpha.square().sum(-1) / self.C
        scores: Tensor = outer @ (coefficients / rho.unsqueeze(-1)).mT
        return scores


def squared_distances(x: Tensor, y: Tensor) -> Tensor:
    """|x_i − y_j|² by products of centred points; smooth where points coincide.

    Arguments:
        x: `(batch, q, d)`; y: `(batch, n, d)`.
    """
    centre = y.mean(-2, keepdim=True)
    x, y = x - centre, y - centre
    products = x @ y.mT
    return x.square().sum(-1).unsqueeze(-1) + y.square().sum(-1).unsqueeze(-2) - 2 * products


def one_against_rest(labels: Tensor, features: Tensor) -> Tensor:
    """Signs `(batch, classes, n)` in the features' dtype; a single row for −1 and 1."""
    _check_labels(labels, features)
    whole = labels.to(torch.int64)
    if labels.is_complex() or not bool((whole == labels).all()):
        raise ValueError("support_labels must be whole numbers; some are not.")
    least, most = int(whole.min()), int(whole.max())
    binary = least == -1 and most <= 1 and not bool((whole == 0).any())
    if least < 0 and not binary:
        raise ValueError(
            "support_labels must be −1 and 1, or 0, ..., classes − 1; "
            f"got values from {least} to {most}."
        )
    if most >= whole.shape[1]:
        raise ValueError(
            f"support_labels go up to {most}, but a problem has only {whole.shape[1]} points: "
            "number the classes 0, ..., classes − 1."
        )
    names = [-1, 1] if binary else list(range(max(most + 1, 2)))
    ours = whole.unsqueeze(1) == torch.tensor(names, device=whole.device).unsqueeze(-1)
    present = ours.any(-1)  # (batch, classes)
    if not bool(present.all()):
        b, k = (int(i) for i in (~present).nonzero()[0])
        raise ValueError(
            f"support_labels must hold every class in each problem; problem {b} has no point of "
            f"class {names[k]}."
        )
    return (ours[:, 1:] if binary else ours).to(features.dtype) * 2 - 1


def _check_labels(labels: Tensor, features: Tensor) -> None:
    if not isinstance(labels, Tensor):
        raise TypeError(f"support_labels must be a torch.Tensor; got {type(labels).__name__}.")
    if labels.shape != features.shape[:2]:
        raise ValueError(
            f"support_labels must have shape {tuple(features.shape[:2])}, one label for each "
            f"support point; got {tuple(labels.shape)}."
        )
    if labels.device != features.device:
        raise ValueError(
            "support_labels and support_features must share a device; "
            f"got {labels.device} and {features.device}."
        )


def _check_features(support: Tensor, queries: Tensor) -> None:
    for name, value in (("support_features", support), ("query_features", queries)):
        checks.real_tensor(name, value)
        if value.ndim != 3:
            raise ValueError(
                f"{name} must have shape (batch, points, d); got {tuple(value.shape)}."
            )
    checks.same_kind("query_features", queries, "support_features", support)
    if support.shape[0] != queries.shape[0] or support.shape[2] != queries.shape[2]:
        raise ValueError(
            "query_features must have the batch and the d of support_features; got "
            f"{tuple(queries.shape)} and {tuple(support.shape)}."
        )
