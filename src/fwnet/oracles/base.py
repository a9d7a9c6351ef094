"""Oracle: how a solver asks the domain."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, final

import torch
from torch import Tensor, nn

from fwnet.domains import Cost, Domain
from fwnet.domains.base import slack
from fwnet.iterates import Iterate
from fwnet.problems import Gradient, Problem
from fwnet.problems.base import dense_gradient
from fwnet.vertices import Vertex


@final
@dataclass(frozen=True, eq=False)
class Linearization:
    """What a step knows of the objective.

    Arguments:
        value: f(x), `(*batch,)`.
        gradient: ∇f(x), or an estimate of it.
        along: ⟨gradient, x⟩, `(*batch,)`.
        vertex: the oracle's answer to the gradient.
        decrease: ⟨gradient, x − vertex⟩, `(*batch,)`.
        exact: gradient and vertex are exact, so `decrease` is the duality gap, not an estimate.
        gap: the certified duality gap, an upper bound on f(x) − min f, infinite if the oracle
            failed; None unless `certify` or an oracle with a bound of its own computed it.
    """

    value: Tensor
    gradient: Gradient
    along: Tensor
    vertex: Vertex
    decrease: Tensor
    exact: bool
    gap: Tensor | None = None


class Oracle(nn.Module, ABC):
    """Linearise f at x and ask the domain for a vertex; a slot that may hold weights.

    Attributes:
        reads_image: whether the oracle needs Ax kept up to date from step to step.
        certifies: whether the oracle computes the true gap itself, often enough to stop on it.
        relative_tol: whether the solver's `tol` bounds gap/|f(x)| instead of the gap.
        fits: the kinds of domain that the oracle knows; see `check_fits`.

    Example:
        >>> [oracle.certifies for oracle in (Exact(), Lazy(), Softmin())]
        [False, True, False]
    """

    reads_image: bool = True
    certifies: bool = False
    relative_tol: bool = False
    fits: ClassVar[tuple[type, ...]] = (Domain,)

    def init(self, problem: Problem, domain: Domain, it: Iterate) -> Any:
        """The state before the first step; raise here if the oracle does not fit the domain."""
        return None

    def check_fits(self, domain: Domain) -> None:
        """Raise a TypeError unless the oracle knows such a domain."""
        if not isinstance(domain, self.fits):
            names = " and ".join(kind.__name__ for kind in self.fits)
            raise TypeError(
                f"{type(self).__name__} supports only {names}; got {domain}. Use Exact()."
            )

    @abstractmethod
    def forward(
        self, problem: Problem, domain: Domain, it: Iterate, state: Any
    ) -> tuple[Linearization, Any]:
        """The linearisation at an iterate, and the next state."""

    def certify(
        self, problem: Problem, domain: Domain, it: Iterate
    ) -> tuple[Iterate, Linearization]:
        """The iterate, refreshed, and its true linearisation with the certified gap."""
        it = problem.refreshed(it)
        return it, certify(problem, domain, it)

    def patience(self, domain: Domain) -> int:
        """After how many steps of size 0 in a row a solve has stalled."""
        return 10


class Answer(NamedTuple):
    """A vertex, ⟨cost, vertex⟩ `(*batch,)`, and the oracle's next state."""

    vertex: Vertex
    inner: Tensor
    state: Any


class CostOracle(Oracle):
    """An oracle that needs only the gradient, so that a torch optimizer can use it too.

    Attributes:
        exact: whether the vertex is the best one.
    """

    exact: bool = False

    @abstractmethod
    def begin(self, domain: Domain, x: Tensor) -> Any:
        """The state before the first answer; raise here if the oracle does not fit the domain."""

    @abstractmethod
    def answer(self, domain: Domain, cost: Cost, state: Any) -> Answer:
        """A vertex for the cost."""

    def ask(self, domain: Domain, cost: Cost, state: Any) -> tuple[Vertex, Any]:
        """The vertex and the next state; for callers that need no ⟨cost, vertex⟩."""
        vertex, _, state = self.answer(domain, cost, state)
        return vertex, state

    def init(self, problem: Problem, domain: Domain, it: Iterate) -> Any:
        return self.begin(domain, it.x)

    def forward(
        self, problem: Problem, domain: Domain, it: Iterate, state: Any
    ) -> tuple[Linearization, Any]:
        value, gradient, along = problem.first_order(it)
        vertex, inner, state = self.answer(domain, gradient, state)
        lin = Linearization(value, gradient, along, vertex, along - inner, exact=self.exact)
        return lin, state


@final
class Exact(CostOracle):
    """vertex = argmin over v in the domain of ⟨∇f(x), v⟩; its decrease is the duality gap.

    Example:
        >>> problem = Quadratic(torch.diag(torch.arange(1.0, 4.0)))
        >>> FrankWolfe(Simplex(), LineSearch(), oracle=Exact(), tol=1e-2)(problem).status
        'converged'
    """

    exact = True

    def begin(self, domain: Domain, x: Tensor) -> None:
        return None

    def answer(self, domain: Domain, cost: Cost, state: Any) -> Answer:
        vertex = domain.vertex(cost)
        return Answer(vertex, vertex.inner(cost), state)


def seed_of(generator: torch.Generator | None) -> int:
    """A seed for the draws of one solve; without a generator, the same one for every solve."""
    generator = torch.Generator().manual_seed(0) if generator is None else generator
    return int(torch.randint(2**62, (), generator=generator, device=generator.device))


def linearize(problem: Problem, domain: Domain, it: Iterate) -> Linearization:
    """The true linearisation: exact gradient, exact oracle."""
    value, gradient, along = problem.first_order(it)
    vertex = domain.vertex(gradient)
    return Linearization(value, gradient, along, vertex, along - vertex.inner(gradient), exact=True)


def certify(problem: Problem, domain: Domain, it: Iterate) -> Linearization:
    """The true linearisation with its certified gap.

        gap = ⟨∇f(x), x⟩ − bound,   bound <= min over v in D of ⟨∇f(x), v⟩

    The bound is that of `Domain.certified_vertex`. If the gap is below 0 by more than rounding, the
    vertex is worse than x itself: the oracle failed, nothing bounds f(x) − min f, and the gap is
    infinite.
    """
    value, gradient, along = problem.first_order(it)
    vertex, bound = domain.certified_vertex(gradient, along)
    decrease = along - vertex.inner(gradient)
    gap = (along.double() - bound.double()).to(along.dtype)
    if not torch.compiler.is_compiling() and bool((gap < 0).any()):
        gap = gap.masked_fill((gap < 0) & _worse_than(it.x, gradient, vertex), torch.inf)
    return Linearization(value, gradient, along, vertex, decrease, True, gap)


def _worse_than(x: Tensor, gradient: Gradient, vertex: Vertex) -> Tensor:
    """Where ⟨g, vertex − x⟩ > level · ⟨|g|, |vertex| + |x|⟩, more than rounding: `(*batch,)`.

    The products and x are rounded, by ε(1 + √n) for n entries, and a point may lie outside the
    domain by the tolerance of `Domain.contains`; the level is the sum of both. Both points use the
    same gradient, so that its rounding does not count against the oracle.
    """
    if x.is_meta:  # it has no values
        return torch.zeros((), dtype=torch.bool)
    events = slice(-vertex.event_dim, None)
    g, v = dense_gradient(gradient).double(), vertex.dense().double()
    x64, dims = x.double(), tuple(range(-vertex.event_dim, 0))
    level = slack(x, None) + torch.finfo(x.dtype).eps * (1 + math.sqrt(math.prod(x.shape[events])))
    worse = (g * (v - x64)).sum(dims)
    return worse > level * (g.abs() * (v.abs() + x64.abs())).sum(dims)
