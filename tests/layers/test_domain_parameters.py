"""Parameters of domains: a gradient, or an error that there is none."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

import fwnet
from cases import F64, normal, spd
from fwnet.layers import FWNet, ImplicitLayer
from fwnet.vertices import Dense

ONES, EYE = torch.ones(4, dtype=F64), torch.eye(4, dtype=F64)
LOWER, UPPER = -ONES, ONES + 0.1 * normal(1, 4)
ROWS = torch.cat([EYE, -EYE])
LIMITS = 1.0 + 0.1 * normal(2, 8).abs()
HALVES = torch.tensor([2.0, 2.0], dtype=F64)
Make = Callable[[Tensor], fwnet.Domain]

# Each parameter that may be a tensor: what it is called, the domain made with it, a value.
PARAMETERS: list[tuple[str, Make, Tensor]] = [
    ("Box(lower", lambda t: fwnet.Box(t, UPPER), LOWER),
    ("Box(upper", lambda t: fwnet.Box(LOWER, t), UPPER),
    ("Box(upper", lambda t: fwnet.Box(-1.0, t), torch.tensor(1.0, dtype=F64)),
    ("Polytope(A_ub", lambda t: fwnet.Polytope(t, LIMITS), ROWS),
    ("Polytope(b_ub", lambda t: fwnet.Polytope(ROWS, t), LIMITS),
    ("Polytope(A_eq", lambda t: fwnet.Polytope(ROWS, LIMITS, t, 0 * ONES[:1]), ONES[None]),
    ("Polytope(b_eq", lambda t: fwnet.Polytope(ROWS, LIMITS, ONES[None], t), 0.5 * ONES[:1]),
    ("Polytope(bounds", lambda t: fwnet.Polytope(bounds=(t, UPPER)), LOWER),
    ("Polytope(bounds", lambda t: fwnet.Polytope(bounds=(LOWER, t)), UPPER),
    ("ConvexHull(vertices", fwnet.ConvexHull, normal(3, 6, 4)),
    ("Box(upper", lambda t: fwnet.Product((fwnet.Box(LOWER, t),), ((4,),)), UPPER),
    ("Polytope(b_ub", lambda t: fwnet.Product((fwnet.Polytope(ROWS, t),), ((4,),)), LIMITS),
]
PLANS: list[tuple[str, Make, Tensor]] = [
    ("TransportPolytope(row_sums", lambda t: fwnet.TransportPolytope(t, HALVES), HALVES),
    ("TransportPolytope(column_sums", lambda t: fwnet.TransportPolytope(HALVES, t), HALVES),
]
FLOWING = ("Box", "ConvexHull")  # through unrolled steps
IDS = [f"{name}{k}" for k, (name, _, _) in enumerate(PARAMETERS)]


@pytest.mark.parametrize(("name", "make", "value"), PARAMETERS, ids=IDS)
def test_the_implicit_layer_refuses(name: str, make: Make, value: Tensor) -> None:
    domain = make(value.clone().requires_grad_())
    if type(domain).normals is fwnet.Domain.normals:
        with pytest.raises(TypeError, match="knows its faces"):
            ImplicitLayer(fwnet.FrankWolfe(domain))
        return
    layer = ImplicitLayer(fwnet.FrankWolfe(domain, tol=0.1))
    problem = fwnet.Quadratic(spd(4, 4, 4))
    message = rf"ImplicitLayer has no gradient for {name}=...\), which requires one.".replace(
        "(", r"\("
    )
    with pytest.raises(ValueError, match=message):
        layer(problem)
    with torch.no_grad():
        assert layer(problem).x.shape == (4,)


@pytest.mark.parametrize(("name", "make", "value"), PARAMETERS + PLANS)
def test_a_network_has_the_gradient_or_refuses(name: str, make: Make, value: Tensor) -> None:
    plan = "Transport" in name
    shape = (2, 2) if plan else (4,)
    target = normal(5, *shape)

    def run(parameter: Tensor) -> Tensor:
        solver = fwnet.FrankWolfe(make(parameter), fwnet.OpenLoop(4), max_steps=3)
        x0 = solver.domain.start(shape, F64)
        return FWNet(solver)(fwnet.Function(lambda x: (x - target).square().sum()), x0).x

    leaf = value.clone().requires_grad_()
    if name.startswith(FLOWING):
        assert gradcheck(run, (leaf,))
    else:
        with pytest.raises(ValueError, match=r"FWNet has no gradient for .*: detach it\."):
            run(leaf)


RADII = [
    fwnet.Simplex,
    fwnet.L1Ball,
    fwnet.L2Ball,
    fwnet.LInfBall,
    fwnet.TraceNormBall,
    fwnet.SpectralBall,
    fwnet.RowBall,
    fwnet.Spectraplex,
    lambda r: fwnet.HyperSimplex(2, r),
    lambda r: fwnet.KSparseBall(2, r),
    lambda r: fwnet.LpBall(3.0, r),
    lambda r: fwnet.SchattenBall(3.0, r),
    lambda r: fwnet.GroupL1Ball(torch.tensor([0, 0, 1]), r),
]


@pytest.mark.parametrize("make", RADII)
def test_a_radius_is_a_number(make: Callable[[Tensor], fwnet.Domain]) -> None:
    """It used to become a float, and its gradient was lost."""
    with pytest.raises(ValueError, match=r"radius=...\) has no gradient.*Pass its \.item\(\)"):
        make(torch.tensor(1.0, requires_grad=True))
    assert make(torch.tensor(1.0)).radius == 1.0


class Interval(fwnet.Domain):
    """{x : |x_i| <= size}, a domain that is not a dataclass."""

    def __init__(self, size: Tensor) -> None:
        self.size = size

    def vertex(self, cost: Tensor) -> Dense:  # type: ignore[override]
        return Dense(-self.size * cost.sign())

    def contains(self, x: Tensor, tol: float | None = None) -> Tensor:
        return (x.abs() <= self.size + (tol or 1e-9)).all(-1)

    def diameter(self, shape: tuple[int, ...]) -> float:
        return 2 * float(self.size) * shape[-1] ** 0.5


def test_a_domain_need_not_be_a_dataclass() -> None:
    size, problem = torch.tensor(1.0, dtype=F64), fwnet.Quadratic(spd(4, 4, 4))
    result = FWNet(fwnet.FrankWolfe(Interval(size), max_steps=3))(problem)
    assert bool(Interval(size).contains(result.x))
    with pytest.raises(ValueError, match=r"no gradient for Interval\(size=...\)"):
        FWNet(fwnet.FrankWolfe(Interval(size.requires_grad_()), max_steps=3))(problem)
