"""SoftmaxRegression, and the exponentials that every softmax loss is made of."""

from __future__ import annotations

from typing import NamedTuple, final

import torch
from torch import Tensor

from fwnet.iterates import Iterate, Move, image_of
from fwnet.numerics import checks
from fwnet.numerics.tensors import ImplicitMatrix
from fwnet.problems.base import FirstOrder, Gradient, Problem
from fwnet.vertices import Rank1, Vertex


@final
class SoftmaxRegression(Problem):
    """Multiclass logistic loss over matrices.

        f(W) = 1/n Σ (log Σⱼ exp zᵢⱼ − z_{i,yᵢ}),   Z = XW,   ∇f(W) = Xᵀ(P − Y)/n

    Its image is the logits Z. The gradient is never formed: an oracle asks for its products
    with thin matrices, two passes over X.

    Arguments:
        X: `(n, d)` or `(batch, n, d)`.
        y: labels 0, …, m − 1, `(n,)` or `(batch, n)`, integers.
        classes: m; by default the largest label plus one.

    Example:
        >>> problem = SoftmaxRegression(torch.eye(3), torch.tensor([0, 1, 1]))
        >>> result = FrankWolfe(TraceNormBall(5.0), LineSearch(), tol=1e-2)(problem)
        >>> result.x.argmax(-1)
        tensor([0, 1, 1])
    """

    shape: torch.Size

    def __init__(self, X: Tensor, y: Tensor, classes: int | None = None) -> None:
        X = checks.real_tensor("SoftmaxRegression(X)", X)
        if X.ndim not in (2, 3):
            raise ValueError(
                f"SoftmaxRegression(X) must be (n, d) or (batch, n, d); got {tuple(X.shape)}."
            )
        if not (isinstance(y, Tensor) and checks.holds_integers(y)) or y.shape != X.shape[:-1]:
            kind = f"{y.dtype} {tuple(y.shape)}" if isinstance(y, Tensor) else type(y).__name__
            raise ValueError(
                f"SoftmaxRegression(y) must be integer labels of shape {tuple(X.shape[:-1])}; "
                f"got {kind}."
            )
        smallest, largest = int(y.min()), int(y.max())
        classes = largest + 1 if classes is None else checks.at_least("classes", classes, 1)
        if smallest < 0 or largest >= classes:
            raise ValueError(
                f"SoftmaxRegression(y) must lie in 0..{classes - 1}; got {smallest}..{largest}."
            )
        self.X, self.y, self.classes = X, y.long(), classes
        self.batch_dims = X.ndim - 2
        self.shape = torch.Size((*X.shape[:-2], X.shape[-1], classes))
        self.dtype, self.device = X.dtype, X.device

    def value(self, it: Iterate) -> Tensor:
        z = image_of(it)
        return self._value(z, exponentials(z))

    def gradient(self, it: Iterate) -> Gradient:
        return self._product(self._errors(exponentials(image_of(it))))

    def first_order(self, it: Iterate) -> FirstOrder:
        z = image_of(it)
        parts = exponentials(z)
        errors = self._errors(parts)
        along = torch.linalg.vecdot(errors.flatten(-2), z.flatten(-2))
        return FirstOrder(self._value(z, parts), self._product(errors), along)

    def _product(self, errors: Tensor) -> ImplicitMatrix:
        """Xᵀ · errors."""
        X = self.X

        def matmul(V: Tensor) -> Tensor:
            if V.ndim == 1:
                return X.mT @ (errors @ V)
            return ((errors @ V).mT.contiguous() @ X).mT  # rows times X: one pass, not thirty

        return ImplicitMatrix(
            shape=self.shape,
            matmul=matmul,
            rmatmul=lambda U: errors.mT @ (X @ U),
            materialize=lambda: X.mT @ errors,
            dtype=X.dtype,
            device=X.device,
        )

    def image(self, x: Tensor) -> Tensor:
        return self.X @ x

    def vertex_image(self, vertex: Vertex) -> Tensor:
        if isinstance(vertex, Rank1):
            scores = (self.X @ vertex.u.unsqueeze(-1)).squeeze(-1)
            return scores.unsqueeze(-1) * vertex.v.unsqueeze(-2)
        return self.image(vertex.dense())

    def vertex_images(self, atoms: Vertex) -> Tensor:
        if not isinstance(atoms, Rank1):
            return super().vertex_images(atoms)
        scores = (self.X @ atoms.u.mT).mT  # one pass over X for all of them
        return scores.unsqueeze(-1) * atoms.v.unsqueeze(-2)

    def slope(self, it: Iterate, move: Move) -> Tensor:
        return (self._errors(exponentials(image_of(it))) * move.image).sum((-2, -1))

    def slopes(self, it: Iterate, directions: Tensor, images: Tensor) -> Tensor:
        errors = self._errors(exponentials(image_of(it))).flatten(-2)
        return (images.flatten(-2) @ errors.unsqueeze(-1)).squeeze(-1)

    def curvature(self, it: Iterate, move: Move) -> Tensor:
        chance, dz = _softmax(image_of(it)), move.image
        mean = (chance * dz).sum(-1)
        return ((chance * dz * dz).sum(-1) - mean * mean).mean(-1)

    def gram(self, it: Iterate, directions: Tensor, images: Tensor) -> Tensor:
        chance = _softmax(image_of(it)).unsqueeze(-3)
        means = (chance * images).sum(-1)  # (*batch, K, n)
        spread = (chance * images).flatten(-2) @ images.flatten(-2).mT
        return (spread - means @ means.mT) / images.shape[-2]

    def smoothness(self) -> float:
        norms = torch.linalg.matrix_norm(self.X, 2)
        return float(norms.max()) ** 2 / (2 * self.X.shape[-2])

    def terms(self) -> int | None:
        return self.X.shape[-2]

    def minibatch(self, rows: Tensor) -> SoftmaxRegression:
        return SoftmaxRegression(self.X[..., rows, :], self.y[..., rows], self.classes)

    def _value(self, z: Tensor, parts: Exponentials) -> Tensor:
        """φ(Z)."""
        chosen = z.gather(-1, self.y.unsqueeze(-1))
        return (parts.total.log() + parts.top - chosen).mean((-2, -1))

    def _errors(self, parts: Exponentials) -> Tensor:
        """∇φ(Z) = (P − Y)/n."""
        chance = parts.powers / parts.total
        minus = torch.full_like(self.y, -1, dtype=chance.dtype).unsqueeze(-1)
        return chance.scatter_add(-1, self.y.unsqueeze(-1), minus) / chance.shape[-2]


class Exponentials(NamedTuple):
    """log Σⱼ exp zⱼ = log total + top;   softmax(z) = powers / total."""

    powers: Tensor  # exp(z − top), (..., m)
    total: Tensor  # (..., 1)
    top: Tensor  # max z, (..., 1)


def exponentials(z: Tensor, out: Tensor | None = None) -> Exponentials:
    """Of logits `(..., m)`; with `out`, in place there, which may be z itself.

    Out of place, powers are at least e^-80: less would be a slow denormal number.
    """
    top = z.detach().amax(-1, keepdim=True)
    if out is None:
        powers = (z - top).clamp_min(-80.0).exp()
    else:
        powers = torch.sub(z, top, out=out).exp_()
    return Exponentials(powers, powers.sum(-1, keepdim=True), top)


def _softmax(z: Tensor) -> Tensor:
    powers, total, _ = exponentials(z)
    return powers / total
