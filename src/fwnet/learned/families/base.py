"""ProblemFamily: a distribution of problems on one domain."""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from typing import final

import torch
from torch import Tensor

from fwnet.domains import Domain, L1Ball, Simplex
from fwnet.learned.baselines.projected import SpectralProjectedGradient
from fwnet.numerics import checks
from fwnet.numerics.linear_maps import DenseMap
from fwnet.problems import LeastSquares, LogisticRegression, Problem, Quadratic, SoftmaxRegression
from fwnet.quadratic.solve import simplex_qp
from fwnet.solvers import minimize
from fwnet.trace import Result

_OF_FWNET = (LeastSquares, LogisticRegression, Quadratic, SoftmaxRegression)


class ProblemFamily(ABC):
    """A distribution of problems, for meta-training and evaluation; all on one domain.

    A user's own family says where its problems live and draws them:

        >>> from fwnet import learned
        >>> class Noisy(learned.ProblemFamily):
        ...     domain = Simplex()
        ...     def sample(self, batch, generator):
        ...         return LeastSquares(torch.eye(5), torch.randn(batch, 5, generator=generator))
        >>> Noisy().sample(3, torch.Generator()).shape
        torch.Size([3, 5])
    """

    domain: Domain

    @abstractmethod
    def sample(self, batch: int, generator: torch.Generator) -> Problem:
        """`batch` problems of one shape as one batched problem (`batch_dims` 1, also for one)."""

    def best_values(self, problem: Problem) -> Tensor:  # (batch,)
        """min f of each problem of a batch: exact for dense quadratics on simplex and l1 ball.

        Elsewhere a lower bound, f(x) − gap after a long solve, with a warning if that is not close.
        """
        best = exact_values(problem, self.domain)
        if best is None:
            best = _lower_bounds(_in_double(problem), self.domain, type(self).__name__)
        return best.to(problem.dtype or best.dtype)


@final
class Mixture(ProblemFamily):
    """One of several families on the same domain, drawn anew for every batch.

    Arguments:
        families: each with equal chance.

    Example:
        >>> from fwnet.learned import families
        >>> parts = [families.QuadraticFamily(n=8), families.LeastSquaresFamily(n=8)]
        >>> family = families.Mixture(parts)
        >>> family.sample(3, torch.Generator().manual_seed(0)).shape
        torch.Size([3, 8])
    """

    def __init__(self, families: Sequence[ProblemFamily]) -> None:
        if not isinstance(families, Sequence) or not families:
            raise ValueError(f"Mixture needs a list of at least one family; got {families!r}.")
        for place, family in enumerate(families):
            check_family(f"Mixture(families)[{place}]", family)
        self.families, self.domain = tuple(families), families[0].domain
        others = [family.domain for family in families if family.domain != self.domain]
        if others:
            raise ValueError(f"Mixture needs one domain; got {self.domain} and {others[0]}.")

    def sample(self, batch: int, generator: torch.Generator) -> Problem:
        place = int(torch.randint(len(self.families), (), generator=generator))
        return self.families[place].sample(batch, generator)


def check_family(name: str, family: object) -> None:
    """Raise unless it is a family that says where its problems live."""
    if not isinstance(family, ProblemFamily):
        shown = f"the class {family.__name__}" if isinstance(family, type) else repr(family)
        call = f": write {family.__name__}()" if isinstance(family, type) else ""
        raise TypeError(f"{name} must be a ProblemFamily; got {shown}{call}.")
    domain = getattr(family, "domain", None)
    if not isinstance(domain, Domain):
        raise TypeError(
            f"{name}: {type(family).__name__}.domain must be a Domain such as Simplex(); "
            f"got {domain!r}."
        )


def checked_dataset(name: str, dataset: object) -> tuple[Tensor, Tensor]:
    """X `(n, d)` and y `(n,)` of a pair (X, y) with at least two classes."""
    if not isinstance(dataset, Sequence) or len(dataset) != 2:
        raise TypeError(f"{name} must be a pair (X, y); got {type(dataset).__name__}.")
    X, y = dataset
    X = checks.real_tensor(f"{name} X", X)
    if not isinstance(y, Tensor) or X.ndim != 2 or y.shape != X.shape[:1]:
        raise ValueError(f"{name} must be (X, y), tensors of shapes (n, d) and (n,).")
    if len(y.unique()) < 2:
        raise ValueError(
            f"{name} must have at least two classes; all labels are {y.unique().tolist()}."
        )
    return X, y


def _lower_bounds(problem: Problem, domain: Domain, name: str) -> Tensor:  # (batch,)
    """f(x) − gap after projected steps if the domain has a projection, else after `minimize`."""
    projected, doubt = SpectralProjectedGradient(), math.inf
    if projected.fits(problem, domain):
        for steps in (100, 300, 1000, 3000):
            result = projected(problem, domain, steps)
            before, doubt = doubt, _doubt(result)
            if doubt <= 1e-6 or before / 2 < doubt <= 1e-4:  # solved, or as far as rounding lets it
                break
    else:
        result = minimize(problem, domain, max_steps=5000, tol=1e-9)
        doubt = _doubt(result)
    if doubt > 1e-4:
        warnings.warn(
            f"{name}.best_values knows a minimum only to a relative {doubt:.0e}, the gap after a "
            "long solve; losses and tables say nothing below that. Override it if you can.",
            stacklevel=3,
        )
    return result.value - result.gap.clamp_min(0)


def _doubt(result: Result) -> float:
    """The largest gap of a batch in the unit of `LogSuboptimality`."""
    unit = torch.maximum(result.value.abs(), 1e-3 * (result.trace[0].value - result.value))
    return float((result.gap / unit.clamp_min(torch.finfo(unit.dtype).tiny)).max())


def _in_double(problem: Problem) -> Problem:
    """Dense problems of fwnet in float64: in float32 the gap stays far above the tolerance."""
    matrix = getattr(problem, "matrix", None)
    dense = matrix is None or isinstance(matrix, DenseMap)
    if not dense or not isinstance(problem, _OF_FWNET) or problem.dtype == torch.float64:
        return problem
    twin = copy(problem)
    for name, part in vars(problem).items():
        if isinstance(part, DenseMap):
            setattr(twin, name, DenseMap(part.matrix.double()))
        elif isinstance(part, Tensor) and part.is_floating_point():
            setattr(twin, name, part.double())
    twin.dtype = torch.float64
    return twin


@torch.no_grad()
def exact_values(problem: Problem, domain: Domain) -> Tensor | None:  # (*batch,)
    """min f in float64 by an exact quadratic programme over the vertices.

    None unless f is a dense quadratic and the domain a simplex or an l1 ball.
    """
    form = getattr(problem, "form", problem)  # an SVM dual is a quadratic inside
    if not isinstance(form, Quadratic | LeastSquares) or not isinstance(form.matrix, DenseMap):
        return None
    if not isinstance(domain, Simplex | L1Ball):
        return None
    matrix = form.matrix.matrix.double()
    if isinstance(form, Quadratic):
        Q = (matrix + matrix.mT) / 2  # a product in float32 is symmetric but for rounding
        c = torch.zeros_like(Q[..., 0]) if form.c is None else form.c.double()
        constant = c.new_zeros(())
    else:
        b = form.b.double()
        Q, constant = matrix.mT @ matrix, 0.5 * b.square().sum(-1)
        if form.ridge is not None:
            Q = Q + torch.diag_embed(form.ridge.double().expand(Q.shape[-1]))
        c = -(matrix.mT @ b.unsqueeze(-1)).squeeze(-1)
    if isinstance(domain, L1Ball):  # x = u − v with (u, v) on a simplex of twice the size
        Q = torch.cat([torch.cat([Q, -Q], -1), torch.cat([-Q, Q], -1)], -2)
        c = torch.cat([c, -c], -1)
    Q, c = domain.radius**2 * Q, domain.radius * c
    Q = Q.expand(*c.shape, c.shape[-1])
    w = simplex_qp(Q, c)
    quadratic = 0.5 * torch.linalg.vecdot(w, (Q @ w.unsqueeze(-1)).squeeze(-1))
    return quadratic + torch.linalg.vecdot(c, w) + constant
