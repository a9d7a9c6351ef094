"""Domain: a compact convex set, asked through its linear minimisation oracle."""

from __future__ import annotations

import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn, final

import torch
from torch import Tensor

from fwnet.numerics import checks
from fwnet.numerics.tensors import Cost, ImplicitMatrix
from fwnet.vertices import Dense, Vertex


class Domain(ABC):
    """A compact convex set D.

        lmo(cost) = argmin over v in D of ⟨cost, v⟩

    The last `event_dim` dimensions of a tensor are one point; all dimensions before them are a
    batch.

    Example:
        >>> simplex: Domain = Simplex()
        >>> simplex.lmo(torch.tensor([3.0, 1.0, 2.0])).dense()
        tensor([0., 1., 0.])
        >>> simplex.contains(torch.tensor([0.5, 0.5, 0.0]))
        tensor(True)
    """

    event_dim: ClassVar[int] = 1
    polyhedral: ClassVar[bool] = False  # finitely many vertices: away steps converge linearly

    @abstractmethod
    def vertex(self, cost: Cost) -> Vertex:
        """`lmo` without its checks; the loop calls this and watches for NaN itself."""

    @abstractmethod
    def contains(self, x: Tensor, tol: float | None = None) -> Tensor:
        """Which points lie in the domain up to `tol`: bool `(*batch,)`."""

    @abstractmethod
    def diameter(self, shape: tuple[int, ...]) -> float:
        """The largest distance between two points of `shape`, or an upper bound on it."""

    def certified_vertex(self, cost: Cost, along: Tensor | None = None) -> tuple[Vertex, Tensor]:
        """A vertex, and a lower bound `(*batch,)` on the minimum that holds up to rounding.

            ⟨cost, vertex⟩ >= min over v in D of ⟨cost, v⟩ >= bound

        Here the bound is ⟨cost, vertex⟩ itself. A domain with an iterative oracle, which may miss
        the best vertex, bounds what it missed.

        Arguments:
            along: ⟨cost, x⟩ `(*batch,)`, if the bound is for the gap at x: an expensive bound may
                then be off by 1 % of that gap.
        """
        vertex = self.vertex(cost)
        return vertex, vertex.inner(cost)

    def lmo(self, cost: Cost) -> Vertex:
        """A vertex that minimises ⟨cost, v⟩ over the domain.

        Arguments:
            cost: `(*batch, *shape)`, finite; zero and tied costs give one of the minimisers.
        """
        if not isinstance(cost, ImplicitMatrix):
            checks.real_tensor("cost", cost)
        self.check_shape("cost", cost.shape)
        return self.vertex(cost)

    def start(
        self,
        shape: tuple[int, ...],  # (*batch, *shape)
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> Tensor:
        """A point to start from, the same for every problem of a batch."""
        self.check_shape("shape", shape)
        return self._start(torch.zeros(shape, dtype=dtype, device=device))

    def _start(self, zeros: Tensor) -> Tensor:
        """The point of `start`, shaped like `zeros`, which may be overwritten: here a vertex."""
        return self.vertex(zeros).dense()

    def decompose(self, x: Tensor) -> tuple[Vertex, Tensor]:
        """x as atoms `(*batch, K)` and their weights `(*batch, K)`; here, x itself is one atom."""
        atoms = Dense(x, self.event_dim).as_atoms()
        return atoms, x.new_ones(atoms.leading)

    def project(self, x: Tensor) -> Tensor | None:
        """The nearest point of the domain where that is cheap, else None; no solver needs it."""
        return None

    def normals(self, x: Tensor, tol: float | Tensor) -> Tensor:
        """Gradients of the constraints that bind at x, `(*batch, K, n)`; zero rows are padding.

        The directions orthogonal to all of them are those of the face of x.

        Arguments:
            tol: a constraint binds if it holds with equality up to this, a number or `(*batch, 1)`.
        """
        raise TypeError(f"{type(self).__name__} does not know its faces.")

    def tangent(self, gradient: Tensor) -> Tensor:
        """The gradient, up to a vector that is normal to the domain, so that it rounds less."""
        return gradient

    def check_shape(self, name: str, shape: tuple[int, ...]) -> None:
        """Raise a ValueError if points of `shape` cannot belong to this domain."""
        if not isinstance(shape, Sequence):
            raise TypeError(f"{name} must be a tuple of sizes such as (3,); got {shape!r}.")
        if 0 in shape:
            raise ValueError(f"{name}: a point must not be empty; got shape {tuple(shape)}.")
        kind = "vectors (*batch, n)" if self.event_dim == 1 else "matrices (*batch, d, m)"
        self.check_kind(kind, len(shape) >= self.event_dim, name, shape)

    def check_kind(self, kind: str, fits: bool, name: str, shape: tuple[int, ...]) -> None:
        """Raise a ValueError unless the shape is that of such points."""
        if not fits:
            raise ValueError(f"{name}: {self} takes {kind}; got shape {tuple(shape)}.")


class NormBall(Domain):
    """Ball of a norm around 0.

        {x : norm(x) <= radius}

    With radius "init", or a multiple such as "2.5x init", it is a recipe: `fwnet.optim.constrain`
    reads the radius off the weights.
    """

    radius: float

    def __new__(cls, *args: Any, **options: Any) -> Any:
        if any(_is_multiple(value) for value in (*args, *options.values())):
            _check_strings(cls, args, options)
            return Unsized(cls, args, tuple(options.items()))
        return super().__new__(cls)

    def __post_init__(self) -> None:
        settle_radius(self)

    def _start(self, zeros: Tensor) -> Tensor:
        """The centre."""
        return zeros

    @abstractmethod
    def norm(self, x: Tensor) -> Tensor:
        """Radius of the smallest such ball that holds x: `(*batch,)`."""

    def contains(self, x: Tensor, tol: float | None = None) -> Tensor:
        limit = self.radius + slack(x, tol, self.radius)
        return self.norm(x) <= limit


@final
@dataclass(frozen=True, eq=False)
class Unsized(Domain):
    """A ball whose radius is a multiple of the norm of a point that is not known yet.

    TraceNormBall("init"): radius = norm(point),   TraceNormBall("2.5x init"): 2.5 norm(point)
    """

    kind: type[NormBall]
    args: tuple[Any, ...]
    options: tuple[tuple[str, Any], ...]

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        return self.kind.event_dim

    def __repr__(self) -> str:
        options = (f"{name}={value!r}" for name, value in self.options)
        return f"{self.kind.__name__}({', '.join((*map(repr, self.args), *options))})"

    @property
    def multiple(self) -> float:
        """The radius over the norm of the point: 1 for "init", 2.5 for "2.5x init"."""
        known = map(_multiple, (*self.args, *(value for _, value in self.options)))
        return next(number for number in known if number is not None)

    def of_radius(self, radius: float) -> NormBall:
        """The same ball with a number in place of "init"."""
        args = (value if _multiple(value) is None else radius for value in self.args)
        options = {k: value if _multiple(value) is None else radius for k, value in self.options}
        ball: NormBall = self.kind(*args, **options)
        return ball

    def vertex(self, cost: Cost) -> NoReturn:
        self._refuse()

    def contains(self, x: Tensor, tol: float | None = None) -> NoReturn:
        self._refuse()

    def diameter(self, shape: tuple[int, ...]) -> NoReturn:
        self._refuse()

    def check_shape(self, name: str, shape: tuple[int, ...]) -> NoReturn:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise ValueError(
            f"{self} has no radius yet: only fwnet.optim.constrain(net, ...) reads it off the "
            "initial weights. Give a number here."
        )


def settle(domain: Domain, **fields: Any) -> None:
    """Set fields of a frozen domain, in its `__post_init__`."""
    for name, value in fields.items():
        object.__setattr__(domain, name, value)


def settle_radius(domain: Any) -> None:
    """Set the radius of a frozen domain as a float, if it is a positive number."""
    name = f"{type(domain).__name__}(radius=...)"
    settle(domain, radius=checks.positive(name, domain.radius))


def check_exponent(ball: Any, others: dict[float, str]) -> None:
    """Set p of a frozen ball as a float above 1, unless another class is the ball of that p."""
    name, given = f"{type(ball).__name__}(p=...)", ball.p
    settle(ball, p=checks.number(name, given))
    if ball.p in others:
        between = "must lie strictly between 1 and infinity" + ", other than 2" * (2 in others)
        use = f"{others[ball.p]}(radius={ball.radius!r})"
        raise ValueError(f"{name} {between}; got {given!r}. Use {use}.")
    if checks.positive(name, given) < 1:
        raise ValueError(f"{name} must be above 1 to be convex; got {given!r}.")


def _check_strings(kind: type, args: tuple[Any, ...], options: dict[str, Any]) -> None:
    """Raise unless the only string is a radius, such as "init"."""
    names = [name for name in inspect.signature(kind.__init__).parameters if name != "self"]  # type: ignore[misc]
    for name, value in (*zip(names, args, strict=False), *options.items()):
        if _is_multiple(value) and name != "radius":
            raise TypeError(
                f"{kind.__name__}({name}=...) must not be a string; got {value!r}. Only a radius "
                f"may be: {kind.__name__}(..., radius={value!r})."
            )
        _multiple(value)


def _is_multiple(value: object) -> bool:
    """Whether a radius is written like "2x init", well or not ("2x")."""
    return isinstance(value, str) and ("init" in value or value.endswith("x"))


def _multiple(value: object) -> float | None:
    """The factor of "init" (1) and "2.5x init" (2.5); None for a number."""
    if not _is_multiple(value):
        return None
    match = re.fullmatch(r"(?:(\d+(?:\.\d+)?) ?x )?init", str(value))
    number = float(match[1] or 1) if match else 0.0
    if number == 0:
        raise ValueError(
            'a radius must be a number, "init", or a positive multiple of it such as "2.5x init"; '
            f"got {value!r}."
        )
    return number


def slack(x: Tensor, tol: float | None, scale: float = 1.0) -> float:
    """Tolerance of `contains`: as given, or 1e-5 (float32) and 1e-9 (float64) times the scale."""
    checks.a_tensor("x", x)
    if tol is not None:
        return tol
    return (1e-5 if x.dtype == torch.float32 else 1e-9) * scale
