"""How a parameter is made of points: `rows`, `columns`, `stack`, `whole`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor

from fwnet.domains import Box, Domain, LInfBall
from fwnet.optim.norms import OperatorNorm

_KINDS = ("rows", "columns", "stack", "whole")


@final
@dataclass(frozen=True)
class Layout:
    """A domain, and which parts of a parameter are its points.

    Made by `rows`, `columns`, `stack` and `whole`.

    Arguments:
        kind: "rows", "columns", "stack" or "whole".
        domain: of each point.

    Example:
        >>> from fwnet.optim import Layout, rows
        >>> isinstance(rows(Simplex()), Layout)
        True
    """

    kind: str
    domain: Domain | OperatorNorm

    def __post_init__(self) -> None:
        if self.kind not in _KINDS:
            raise ValueError(
                f"Layout(kind=...) must be one of {', '.join(_KINDS)}; got {self.kind!r}."
            )
        if not isinstance(self.domain, Domain | OperatorNorm):
            raise TypeError(f"{self.kind}(domain) takes a fwnet domain; got {self.domain!r}.")
        vectors = self.kind in ("rows", "columns")
        if vectors and (isinstance(self.domain, OperatorNorm) or self.domain.event_dim != 1):
            raise TypeError(
                f"{self.kind}(domain) takes a domain of vectors such as Simplex(); got "
                f"{self.domain}. For a stack of matrices write stack(domain)."
            )

    def __repr__(self) -> str:
        return f"{self.kind}({self.domain!r})"


def rows(domain: Domain) -> Layout:
    """Every row of a weight (outputs, *inputs) lies in the domain, on its own.

    Of an embedding, each row is the vector of one token; of a convolution, one filter.

    Example:
        >>> from fwnet.optim import FrankWolfe, constrain, rows
        >>> net = torch.nn.Embedding(5, 3)
        >>> opt = FrankWolfe(constrain(net, {"weight": rows(Simplex())}))
        >>> net.weight.detach().sum(1).allclose(torch.ones(5))
        True
    """
    return Layout("rows", domain)


def columns(domain: Domain) -> Layout:
    """Every column of a weight (outputs, *inputs) lies in the domain, on its own.

    A column holds the weights of one input.

    Example:
        >>> from fwnet.optim import columns, constrain
        >>> layer = torch.nn.Linear(4, 3)
        >>> groups = constrain(layer, {"weight": columns(L2Ball(0.1))})
        >>> bool((layer.weight.norm(dim=0) <= 0.1001).all())
        True
    """
    return Layout("columns", domain)


def stack(domain: Domain | OperatorNorm) -> Layout:
    """The first dimension counts points: (experts, n, m) are separate n × m matrices.

    Without it, a weight of three dimensions is a convolution: one matrix n × (everything else).

    Example:
        >>> from fwnet.optim import FrankWolfe, stack
        >>> experts = torch.nn.Parameter(torch.zeros(4, 6, 5))
        >>> opt = FrankWolfe([experts], domain=stack(SpectralBall(2.0)))
    """
    return Layout("stack", domain)


def whole(domain: Domain | OperatorNorm) -> Layout:
    """The whole weight is one point: the meaning of a plain domain, without its warning.

    Example:
        >>> from fwnet.optim import constrain, whole
        >>> layer = torch.nn.Linear(4, 3)
        >>> groups = constrain(layer, {"weight": whole(L1Ball(1.0))})
        >>> bool(layer.weight.abs().sum() <= 1.0001)
        True
    """
    return Layout("whole", domain)


@final
@dataclass(frozen=True)
class Place:
    """Where a parameter lives: a domain, and how the parameter becomes points of it."""

    domain: Domain
    kind: str = "whole"

    @property
    def least_dims(self) -> int:
        """The dimensions that a parameter needs; one with fewer, such as a bias, has no domain."""
        if self.kind in ("rows", "columns"):
            return 2
        return self.domain.event_dim + (self.kind == "stack") if self.domain.event_dim > 1 else 0

    def points(self, tensor: Tensor) -> Tensor:
        """`(*batch, *shape)`; a view of the tensor if it is contiguous."""
        if self.kind == "columns":
            return tensor.flatten(1).mT
        matrices = self.domain.event_dim > 1
        if self.kind == "whole":
            if tensor.ndim == self.domain.event_dim:
                return tensor
            return tensor.flatten(1) if matrices else tensor.reshape(-1)
        return tensor.flatten(2) if matrices else tensor.flatten(1)

    def shape(self, parameter: Tensor) -> tuple[int, ...]:
        """`(*batch, *shape)` of its points."""
        return tuple(self.points(torch.empty(parameter.shape, device="meta")).shape)

    def tensor(self, points: Tensor, shape: tuple[int, ...]) -> Tensor:
        """The parameter's shape again."""
        return (points.mT if self.kind == "columns" else points).reshape(shape)


def place_of(parameter: Tensor, choice: Any) -> Place | None:
    """Where a parameter lives; None (AdamW) also for a bias in a group of matrices."""
    kind = "whole"
    if isinstance(choice, Layout):
        kind, choice = choice.kind, choice.domain
    if choice is None:
        return None
    if isinstance(choice, OperatorNorm):
        shape = tuple(parameter.shape)
        if kind == "stack":
            shape = shape[1:]
        choice = choice.ball(shape)
    place = Place(choice, kind)
    return None if parameter.ndim < place.least_dims else place


def is_ambiguous(parameter: Tensor, choice: Any) -> bool:
    """Whether a plain domain of vectors could mean the whole weight or each of its rows."""
    if not isinstance(choice, Domain) or choice.event_dim != 1 or parameter.ndim < 2:
        return False
    if isinstance(choice, LInfBall | Box):  # a bound on every entry means the same either way
        return False
    try:
        choice.check_shape("row", (math.prod(parameter.shape[1:]),))
    except ValueError:  # as large as the whole parameter, so it cannot hold a row
        return False
    return True
