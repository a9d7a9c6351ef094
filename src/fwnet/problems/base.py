"""Problem: a smooth objective f(x) = φ(Ax) whose image Ax is kept with the iterate."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from fwnet.iterates import Iterate, Move, image_of
from fwnet.numerics import checks
from fwnet.numerics.linear_maps import LinearMap
from fwnet.numerics.tensors import Cost, dense_cost
from fwnet.vertices import Vertex

Gradient = Cost
dense_gradient = dense_cost


class FirstOrder(NamedTuple):
    """What a step needs of f at x."""

    value: Tensor  # f(x), (*batch,)
    gradient: Gradient  # ∇f(x), (*batch, *shape)
    along: Tensor  # ⟨∇f(x), x⟩, (*batch,)


class Problem(ABC):
    """A smooth objective, for one point or for each point of a batch.

    The iterate that `at` makes carries the image Ax; `value`, `gradient` and `slope` read it and
    never recompute it.

    Attributes:
        shape: `(*batch, *shape)` of x, or None if any shape will do.
        batch_dims: how many leading dimensions of x are a batch: 0 or 1.
        dtype, device: of x, or None if the problem holds no data.

    Example:
        >>> problem: Problem = Quadratic(torch.eye(3))
        >>> it = problem.at(torch.tensor([1.0, 2.0, 0.0]))
        >>> problem.value(it), problem.gradient(it)
        (tensor(2.5000), tensor([1., 2., 0.]))
    """

    quadratic: ClassVar[bool] = False  # f has a constant curvature along every segment
    shape: torch.Size | None = None
    batch_dims: int = 0
    dtype: torch.dtype | None = None
    device: torch.device | None = None

    def __repr__(self) -> str:
        known = {"shape": self.shape and tuple(self.shape), "dtype": self.dtype}
        shown = ", ".join(f"{name}={value}" for name, value in known.items() if value is not None)
        return f"{type(self).__name__}({shown})"

    @abstractmethod
    def value(self, it: Iterate) -> Tensor:
        """f(x): `(*batch,)`."""

    @abstractmethod
    def gradient(self, it: Iterate) -> Gradient:
        """∇f(x): `(*batch, *shape)`."""

    def first_order(self, it: Iterate) -> FirstOrder:
        """f(x), ∇f(x) and ⟨∇f(x), x⟩ together, so that shared work is done once."""
        gradient = self.gradient(it)
        along = inner(dense_gradient(gradient), it.x, self.batch_dims)
        return FirstOrder(self.value(it), gradient, along)

    def image(self, x: Tensor) -> Tensor | None:
        """A x, or None for an objective without a linear part."""
        return None

    def vertex_image(self, vertex: Vertex) -> Tensor | None:
        """A v, using the structure of the vertex."""
        return self.image(vertex.dense())

    def slope(self, it: Iterate, move: Move) -> Tensor:
        """⟨∇f(x), d⟩ at an iterate on the move's segment."""
        return inner(dense_gradient(self.gradient(it)), move.direction, self.batch_dims)

    def slopes(self, it: Iterate, directions: Tensor, images: Tensor) -> Tensor:
        """⟨∇f(x), d_k⟩ of directions `(*batch, K, *shape)` with images: `(*batch, K)`."""
        b = self.batch_dims
        gradient = dense_gradient(self.gradient(it)).flatten(b)
        return (directions.flatten(b + 1) @ gradient.unsqueeze(-1)).squeeze(-1)

    def curvature(self, it: Iterate, move: Move) -> Tensor | None:
        """⟨d, ∇²f(x) d⟩ at an iterate on the move's segment, or None if unknown."""
        return None

    def vertex_images(self, atoms: Vertex) -> Tensor:
        """A v of atoms `(*batch, K)`: `(*batch, K, m)`, using their structure."""
        b, count = self.batch_dims, atoms.leading[-1]
        if b == 0:  # K vertices of one problem look like a batch of K
            image = self.vertex_image(atoms)
            assert image is not None
            return image
        slots = [torch.full(atoms.leading[:b], k, device=self.device) for k in range(count)]
        images = [self.vertex_image(atoms.select(slot)) for slot in slots]
        return torch.stack([image for image in images if image is not None], b)

    def images(self, directions: Tensor) -> Tensor:
        """A d of directions `(*batch, K, *shape)`: `(*batch, K, m)`, for `gram`."""
        b = self.batch_dims
        images = [self.image(direction) for direction in directions.unbind(b)]
        known = [directions.select(b, k) if i is None else i for k, i in enumerate(images)]
        return torch.stack(known, b)

    def gram(self, it: Iterate, directions: Tensor, images: Tensor) -> Tensor:
        """⟨d_j, ∇²f(x) d_k⟩ of directions `(*batch, K, *shape)` with images: `(*batch, K, K)`."""
        raise TypeError(f"{type(self).__name__} does not know its curvature.")

    def hessian_vertex(self, vertex: Vertex, image: Tensor | None) -> Gradient | None:
        """∇²f v of a quadratic, in the space of x; None if the problem is not quadratic."""
        return None

    def curvatures(self, atoms: Vertex) -> Tensor | None:
        """⟨v, ∇²f v⟩ of each atom `(*batch, K)` of a quadratic, else None."""
        return None

    def gradient_block(self, it: Iterate, start: int, stop: int) -> Tensor:
        """The coordinates start, …, stop − 1 of ∇f(x)."""
        return dense_gradient(self.gradient(it))[..., start:stop]

    def smoothness(self) -> float | None:
        """A Lipschitz constant of the gradient, if the problem knows one."""
        return None

    def terms(self) -> int | None:
        """How many terms the objective sums, if it can be sampled by `minibatch`."""
        return None

    def minibatch(self, rows: Tensor) -> Problem:
        """An unbiased estimate of the objective from the given terms."""
        raise TypeError(f"{type(self).__name__} has no minibatches.")

    def at(self, x: Tensor) -> Iterate:
        """An iterate at x, with its image."""
        return Iterate(x, self.image(x))

    def refreshed(self, it: Iterate) -> Iterate:
        """The iterate with x recomputed from its atoms and Ax from x, to remove rounding errors."""
        active = None if it.active is None else it.active.normalized()
        fresh = self.at(it.x if active is None else active.point())
        return Iterate(fresh.x, fresh.image, active)

    def check_point(self, name: str, x: Any) -> Tensor:
        """Return x if it can be an argument of this problem; raise a clear error otherwise."""
        x = checks.real_tensor(name, x)
        if self.shape is not None and x.shape != self.shape:
            raise ValueError(
                f"{name} must have shape {tuple(self.shape)} for this {type(self).__name__}; "
                f"got {tuple(x.shape)}."
            )
        if self.dtype is not None and x.dtype != self.dtype:
            raise TypeError(
                f"{name} must be {self.dtype} like the data of this {type(self).__name__}; "
                f"got {x.dtype}. Convert one of them."
            )
        if self.device is not None and x.device != self.device:
            raise ValueError(
                f"{name} must be on {self.device} like the data of this {type(self).__name__}; "
                f"got {x.device}."
            )
        return x


class LinearLoss(Problem):
    """f(x) = φ(Ax) + ½ Σ ridge_i x_i²: gradient Aᵀ∇φ(z) + ridge x, one pass over A per step.

    A subclass defines φ as a function of the image z = Ax.
    """

    shape: torch.Size

    def __init__(self, matrix: LinearMap, batch: tuple[int, ...], ridge: Tensor | None = None):
        self.matrix, self.ridge = matrix, ridge
        self.shape = torch.Size((*batch, matrix.shape[-1]))
        self.batch_dims = len(batch)
        self.dtype, self.device = matrix.dtype, matrix.device

    @abstractmethod
    def loss(self, z: Tensor) -> Tensor:
        """φ(z): `(*batch,)`."""

    @abstractmethod
    def loss_gradient(self, z: Tensor) -> Tensor:
        """∇φ(z): `(*batch, m)`."""

    @abstractmethod
    def loss_gram(self, z: Tensor, images: Tensor) -> Tensor:
        """⟨a_j, ∇²φ(z) a_k⟩ of the rows of images `(*batch, K, m)`: `(*batch, K, K)`."""

    def loss_curvature(self, z: Tensor, dz: Tensor) -> Tensor:
        """⟨dz, ∇²φ(z) dz⟩: `(*batch,)`."""
        return self.loss_gram(z, dz.unsqueeze(-2)).squeeze(-1).squeeze(-1)

    def value(self, it: Iterate) -> Tensor:
        value = self.loss(image_of(it))
        return value if self.ridge is None else value + 0.5 * _square(it.x, self.ridge)

    def gradient(self, it: Iterate) -> Tensor:
        gradient = self.matrix.adjoint(self.loss_gradient(image_of(it)))
        return gradient if self.ridge is None else gradient + self.ridge * it.x

    def gradient_block(self, it: Iterate, start: int, stop: int) -> Tensor:
        if not self.matrix.has_blocks:  # a part costs as much as all of it
            return self.gradient(it)[..., start:stop]
        block = self.matrix.block(start, stop).adjoint(self.loss_gradient(image_of(it)))
        return block if self.ridge is None else block + (self.ridge * it.x)[..., start:stop]

    def image(self, x: Tensor) -> Tensor:
        return self.matrix.apply(x)

    def vertex_image(self, vertex: Vertex) -> Tensor:
        return vertex.image(self.matrix)

    def first_order(self, it: Iterate) -> FirstOrder:
        z = image_of(it)
        outer = self.loss_gradient(z)
        gradient, along = self.matrix.adjoint(outer), torch.linalg.vecdot(outer, z)
        if self.ridge is not None:
            gradient = gradient + self.ridge * it.x
            along = along + _square(it.x, self.ridge)
        return FirstOrder(self.value(it), gradient, along)

    def slope(self, it: Iterate, move: Move) -> Tensor:
        slope = torch.linalg.vecdot(self.loss_gradient(image_of(it)), move.image)
        if self.ridge is None:
            return slope
        return slope + torch.linalg.vecdot(self.ridge * it.x, move.direction)

    def slopes(self, it: Iterate, directions: Tensor, images: Tensor) -> Tensor:
        slopes = (images @ self.loss_gradient(image_of(it)).unsqueeze(-1)).squeeze(-1)
        if self.ridge is None:
            return slopes
        return slopes + (directions @ (self.ridge * it.x).unsqueeze(-1)).squeeze(-1)

    def curvature(self, it: Iterate, move: Move) -> Tensor:
        curvature = self.loss_curvature(image_of(it), move.image)
        return curvature if self.ridge is None else curvature + _square(move.direction, self.ridge)

    def gram(self, it: Iterate, directions: Tensor, images: Tensor) -> Tensor:
        gram = self.loss_gram(image_of(it), images)
        return gram if self.ridge is None else gram + (self.ridge * directions) @ directions.mT

    def terms(self) -> int | None:
        return self.matrix.shape[-2]


def inner(a: Tensor, b: Tensor, batch_dims: int) -> Tensor:
    """⟨a, b⟩ over all dimensions except the batch."""
    if a.ndim - batch_dims == 1:
        return torch.linalg.vecdot(a, b)
    return torch.linalg.vecdot(a.flatten(batch_dims), b.flatten(batch_dims))


def _square(x: Tensor, ridge: Tensor) -> Tensor:
    return torch.linalg.vecdot(ridge * x, x)
