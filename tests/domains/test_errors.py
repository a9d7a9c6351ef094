"""Error texts for bad input."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from fwnet.domains import (
    Birkhoff,
    Box,
    ConvexHull,
    Domain,
    GroupL1Ball,
    HyperSimplex,
    KSparseBall,
    L1Ball,
    L2Ball,
    LInfBall,
    LpBall,
    Polytope,
    Product,
    RowBall,
    SchattenBall,
    Simplex,
    SpectralBall,
    Spectraplex,
    TraceNormBall,
    TransportPolytope,
)

LABELS = torch.tensor([0, 0, 1])
ROW, ONE = torch.tensor([[1.0, 1.0]]), torch.ones(1)
BALLS: dict[str, Callable[[Any], Domain]] = {
    "Simplex": Simplex,
    "HyperSimplex": lambda radius: HyperSimplex(2, radius),
    "L1Ball": L1Ball,
    "L2Ball": L2Ball,
    "LInfBall": LInfBall,
    "LpBall": lambda radius: LpBall(3.0, radius),
    "KSparseBall": lambda radius: KSparseBall(2, radius),
    "GroupL1Ball": lambda radius: GroupL1Ball(LABELS, radius),
    "TraceNormBall": TraceNormBall,
    "RowBall": RowBall,
    "SchattenBall": lambda radius: SchattenBall(3.0, radius),
    "SpectralBall": SpectralBall,
    "Spectraplex": Spectraplex,
}


@pytest.mark.parametrize("name", BALLS)
@pytest.mark.parametrize("radius", ["1", True, None, [1.0]])
def test_radius_must_be_a_number(name: str, radius: Any) -> None:
    text = f"{name}(radius=...) must be a number; got {radius!r}."
    with pytest.raises(TypeError, match=f"^{re.escape(text)}$"):
        BALLS[name](radius)


@pytest.mark.parametrize("name", BALLS)
@pytest.mark.parametrize("radius", [np.float32(2), np.array(2.0), torch.tensor(2.0), 2])
def test_radius_is_kept_as_a_float(name: str, radius: Any) -> None:
    ball: Any = BALLS[name](radius)
    assert type(ball.radius) is float
    assert ball.radius == 2


def test_whole_numbers_may_be_numpy() -> None:
    for domain in (HyperSimplex(np.int64(2)), KSparseBall(np.int64(2)), Birkhoff(np.int64(2))):
        assert bool(domain.contains(domain.start((2, 2), torch.float64)).all())


@pytest.mark.parametrize("name", BALLS)
def test_small_balls_do_not_hold_points_far_outside(name: str) -> None:
    ball = BALLS[name](1e-8)
    inside = ball.lmo(torch.linspace(-1, 2, 9).reshape(3, 3)).dense()
    assert bool(ball.contains(inside).all())
    assert not bool(ball.contains(1.1 * inside).any())


@pytest.mark.parametrize("name", BALLS)
@pytest.mark.parametrize("radius", [0.0, -1.0, math.inf, math.nan])
def test_radius_must_be_positive_and_finite(name: str, radius: float) -> None:
    text = f"{name}(radius=...) must be a positive finite number; got {radius!r}."
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        BALLS[name](radius)


MAKING: list[tuple[Callable[[], Any], str]] = [
    (lambda: Simplex().start((2, 0)), "shape: a point must not be empty; got shape (2, 0)."),
    (lambda: HyperSimplex(5).diameter((3,)), "needs at least k=5 coordinates; got shape (3,)."),
    (
        lambda: LpBall(1),
        "LpBall(p=...) must lie strictly between 1 and infinity, other than 2; got 1. "
        "Use L1Ball(radius=1.0).",
    ),
    (lambda: LpBall(2.0, 3.0), "got 2.0. Use L2Ball(radius=3.0)."),
    (lambda: LpBall(math.inf), "got inf. Use LInfBall(radius=1.0)."),
    (lambda: LpBall(0.5), "LpBall(p=...) must be above 1 to be convex; got 0.5."),
    (
        lambda: SchattenBall(1),
        "SchattenBall(p=...) must lie strictly between 1 and infinity; got 1. "
        "Use TraceNormBall(radius=1.0).",
    ),
    (lambda: SchattenBall(0.5), "SchattenBall(p=...) must be above 1 to be convex; got 0.5."),
    (lambda: LpBall(math.nan), "LpBall(p=...) must be a positive finite number; got nan."),
    (lambda: KSparseBall(0), "KSparseBall(k=...) must be a whole number of at least 1; got 0."),
    (lambda: HyperSimplex(1.5), "HyperSimplex(k=...) must be a whole number of at least 1"),  # type: ignore[arg-type]
    (lambda: Birkhoff(0), "Birkhoff(n=...) must be a whole number of at least 1; got 0."),
    (
        lambda: Box(2.0, 1.0),
        "Box(lower=..., upper=...) must have lower <= upper; got lower=2.0 and upper=1.0. "
        "Did you swap them?",
    ),
    (
        lambda: Box(torch.tensor([0.0, 3.0]), 1.0),
        "must have lower <= upper; got lower=3.0 and upper=1.0 at entry (1,). Did you swap them?",
    ),
    (
        lambda: Box(-math.inf, 1.0),
        "Box(lower=...) must be finite, since a domain is bounded; got -inf.",
    ),
    (
        lambda: Box(0.0, torch.tensor([1.0, math.inf])),
        "Box(upper=...) must be finite; entry (1,) is inf.",
    ),
    (
        lambda: Box(torch.zeros(2), torch.ones(3)),
        "Box(lower=..., upper=...) must have one shape if both are tensors; got (2,) and (3,).",
    ),
    (
        lambda: GroupL1Ball(torch.zeros(2, 2, dtype=torch.long)),
        "GroupL1Ball(groups=...) must be a tensor (n,) of group labels; got (2, 2).",
    ),
    (
        lambda: GroupL1Ball([0, 1]),  # type: ignore[arg-type]
        "GroupL1Ball(groups=...) must be a tensor (n,) of group labels; got [0, 1].",
    ),
    (
        lambda: TransportPolytope(torch.ones(2), torch.ones(3)),
        "TransportPolytope(row_sums=..., column_sums=...) must have the same positive total, else "
        "no plan exists; got 2.0 and 3.0.",
    ),
    (
        lambda: TransportPolytope(torch.zeros(2), torch.zeros(3)),
        "must have the same positive total, else no plan exists; got 0.0 and 0.0.",
    ),
    (
        lambda: TransportPolytope(torch.tensor([2.0, -1.0]), torch.ones(1)),
        "TransportPolytope(row_sums=...) must be a vector of sums >= 0; got -1.0.",
    ),
    (
        lambda: TransportPolytope(torch.ones(1), torch.ones(1, 1)),
        "TransportPolytope(column_sums=...) must be a vector of sums >= 0; got shape (1, 1).",
    ),
    (
        lambda: Polytope(ROW, -ONE, bounds=(0.0, None)),
        "Polytope(...) is empty: no point satisfies all constraints. Check the signs of A_ub "
        "and b_ub (A_ub x <= b_ub), and the bounds.",
    ),
    (
        lambda: Polytope(A_eq=torch.cat([ROW, ROW]), b_eq=torch.tensor([1.0, 2.0])),
        "Polytope(...) is empty",
    ),
    (
        lambda: Polytope(ROW, ONE),
        "Polytope(...) is unbounded, so a linear cost may have no minimum. "
        "Add bounds=(lower, upper).",
    ),
    (
        lambda: Polytope(ROW, ONE, bounds=(None, 0.0)),
        "Polytope(...) is unbounded",
    ),
    (
        lambda: Polytope(A_eq=ROW, b_eq=ONE),
        "Polytope(...) is unbounded",
    ),
    (
        lambda: Polytope(A_ub=ROW),
        "Polytope(A_ub=..., b_ub=...) must be given together; b_ub is missing.",
    ),
    (
        lambda: Polytope(b_eq=ONE, A_ub=ROW, b_ub=ONE),
        "Polytope(A_eq=..., b_eq=...) must be given together; A_eq is missing.",
    ),
    (
        lambda: Polytope(ROW, torch.ones(2)),
        "Polytope(A_ub=..., b_ub=...) must have shapes (k, 2) and (k,); got (1, 2) and (2,).",
    ),
    (
        lambda: Polytope(ROW, ONE, torch.ones(1, 3), ONE),
        "Polytope(A_eq=..., b_eq=...) must have shapes (k, 2) and (k,); got (1, 3) and (1,).",
    ),
    (lambda: Polytope(ROW[0], ONE), "Polytope(A_ub=...) must be a matrix (k, n); got shape (2,)."),
    (
        lambda: Polytope(ROW, ONE * math.nan),
        "Polytope(b_ub=...) must be finite; entry (0,) is nan.",
    ),
    (
        lambda: Polytope(bounds=(0.0, 1.0)),
        "Polytope(...) must have A_ub, A_eq or a bound that is a tensor (n,), to fix n; got none.",
    ),
    (
        lambda: Polytope(ROW, ONE, bounds=(torch.ones(3), None)),
        "Polytope(bounds=...): lower must be a number or a tensor (2,); got shape (3,).",
    ),
    (
        lambda: Polytope(ROW, ONE, bounds=(0.0, math.nan)),
        "Polytope(bounds=...): upper must not be NaN or -inf; got nan.",
    ),
    (
        lambda: Polytope(ROW, ONE, bounds=(1.0, 0.0)),
        "Polytope(bounds=(lower, upper)) must have lower <= upper; got lower=1.0 and upper=0.0 at "
        "entry 0. Did you swap them?",
    ),
    (
        lambda: Polytope(ROW, ONE, bounds=[0.0, 1.0]),  # type: ignore[arg-type]
        "Polytope(bounds=...) must be a pair (lower, upper); got [0.0, 1.0].",
    ),
    (
        lambda: ConvexHull(torch.ones(3)),
        "ConvexHull(vertices=...) must have shape (K, *shape), K points; got (3,).",
    ),
    (
        lambda: ConvexHull(torch.ones(0, 2)),
        "ConvexHull(vertices=...) must not be empty; got shape (0, 2).",
    ),
    (
        lambda: ConvexHull(torch.full((2, 2), math.nan)),
        "ConvexHull(vertices=...) must be finite; entry (0, 0) is nan.",
    ),
    (
        lambda: Product((Simplex(),), ()),
        "Product(domains=..., shapes=...) must hold one shape for each domain, and at least one; "
        "got 1 domains and 0 shapes.",
    ),
    (
        lambda: Product((Simplex(), TraceNormBall()), ((2,), (3,))),
        "Product(shapes=...), block 1: TraceNormBall(radius=1.0) takes matrices (*batch, d, m); "
        "got shape (3,).",
    ),
    (
        lambda: Product((Simplex(),), ((2, 3),)),
        "Product(shapes=...), block 0: one point of Simplex(radius=1.0) has 1 dimension(s) of at "
        "least 1; got shape (2, 3).",
    ),
]


@pytest.mark.parametrize(("make", "text"), MAKING, ids=[text[:40] for _, text in MAKING])
def test_a_wrong_domain_is_refused(make: Callable[[], Any], text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        make()


def test_wrong_types_are_refused() -> None:
    with pytest.raises(TypeError, match=r"Product\(domains=...\) must be a list or tuple, an item"):
        Product(Simplex(), ((2,),))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"Product\(shapes=...\) must be a list or tuple, .* got 2"):
        Product((Simplex(),), 2)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"Product\(domains=...\), block 0: 3 is not a Domain"):
        Product((3,), ((2,),))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"block 0 must be a tuple of sizes such as \(3,\); got 2"):
        Product((Simplex(),), (2,))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"shape must be a tuple of sizes such as \(3,\); got 3"):
        Simplex().start(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"GroupL1Ball\(groups=...\) must hold whole numbers; got"):
        GroupL1Ball(torch.tensor([0.5, 1.0]))
    with pytest.raises(TypeError, match=r"LpBall\(p=...\) must be a number; got tensor"):
        LpBall(torch.ones(2))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"Box\(lower=...\) must be a number or a torch.Tensor"):
        Box("low", 1.0)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"ConvexHull\(vertices=...\) must be float32 or float64"):
        ConvexHull(torch.ones(2, 2, dtype=torch.long))


SQUARE = TransportPolytope(torch.ones(2), torch.tensor([0.5, 1.0, 0.5]))
TRIANGLE = Polytope(ROW, ONE, bounds=(0.0, None))
ASKING: list[tuple[Domain, tuple[int, ...], str]] = [
    (KSparseBall(4), (3,), "cost: KSparseBall(k=4, radius=1.0) needs at least k=4 coordinates"),
    (HyperSimplex(4), (3,), "cost: HyperSimplex(k=4, radius=1.0) needs at least k=4 coordinates"),
    (
        Birkhoff(3),
        (2, 3),
        "cost: Birkhoff(n=3) takes 3 × 3 matrices; got shape (2, 3).",
    ),
    (Birkhoff(3), (3,), "cost: Birkhoff(n=3) takes matrices (*batch, d, m); got shape (3,)."),
    (
        Spectraplex(),
        (2, 3),
        "cost: Spectraplex(radius=1.0) takes square matrices; got shape (2, 3)",
    ),
    (TraceNormBall(), (3,), "TraceNormBall(radius=1.0) takes matrices (*batch, d, m)"),
    (L1Ball(), (), "cost: L1Ball(radius=1.0) takes vectors (*batch, n); got shape ()."),
    (
        GroupL1Ball(LABELS),
        (4,),
        "cost: GroupL1Ball(2 groups of 3, radius=1.0) takes vectors of 3 entries, one for each "
        "label; got shape (4,).",
    ),
    (
        Box(torch.zeros(3), 1.0),
        (4,),
        "cost: Box(tensor(3,), 1.0) has bounds of shape (3,); got shape (4,).",
    ),
    (
        SQUARE,
        (3, 2),
        "cost: TransportPolytope(2 × 3) takes 2 × 3 matrices; got shape (3, 2).",
    ),
    (
        TRIANGLE,
        (3,),
        "cost: Polytope(1 <=, 0 =, n=2) takes vectors of 2 entries; got shape (3,).",
    ),
    (
        ConvexHull(torch.ones(4, 2, 3)),
        (3,),
        "cost: ConvexHull(4 points of shape (2, 3)) takes points of shape (2, 3); got shape (3,).",
    ),
    (
        Product((Simplex(), L1Ball()), ((2,), (3,))),
        (4,),
        "cost: this Product takes vectors of 5 entries, its flattened blocks; got shape (4,).",
    ),
]


@pytest.mark.parametrize(
    ("domain", "shape", "text"), ASKING, ids=[text[6:40] for _, _, text in ASKING]
)
def test_a_cost_of_the_wrong_shape_is_refused(
    domain: Domain, shape: tuple[int, ...], text: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        domain.lmo(torch.ones(shape))
    with pytest.raises(ValueError, match=re.escape(text.replace("cost: ", "shape: "))):
        domain.start(shape)


@pytest.mark.parametrize("domain", [L1Ball(), TraceNormBall(), Birkhoff(2), TRIANGLE], ids=repr)
def test_a_cost_must_be_finite_and_real(domain: Domain) -> None:
    cost = torch.ones(2, 2)
    cost[1, 0] = math.nan
    with pytest.raises(ValueError, match=r"cost must be finite; entry \(1, 0\) is nan."):
        domain.lmo(cost)
    with pytest.raises(TypeError, match=r"cost must be float32 or float64; got torch.int64"):
        domain.lmo(torch.ones(2, 2, dtype=torch.long))
    with pytest.raises(TypeError, match=r"cost must be a torch.Tensor; got list"):
        domain.lmo([1.0, 2.0])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "make",
    [lambda: Birkhoff(2), lambda: TransportPolytope(ONE, ONE), lambda: Polytope(ROW, ONE)],
    ids=["Birkhoff", "TransportPolytope", "Polytope"],
)
def test_without_scipy_the_extra_is_named(
    make: Callable[[], Domain], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "scipy", None)
    text = 'needs SciPy. Install it with: pip install "fwnet[lp]"'
    with pytest.raises(ImportError, match=re.escape(text)):
        make()


@pytest.mark.parametrize("scale", [1e-20, 1e20])
def test_transport_plans_of_any_total(scale: float) -> None:
    sums = scale * torch.tensor([0.25, 0.75], dtype=torch.float64)
    domain = TransportPolytope(sums, sums)
    plan = domain.lmo(torch.tensor([[0.0, 1.0], [1.0, 0.0]], dtype=torch.float64)).dense()
    torch.testing.assert_close(plan, torch.diag(sums), rtol=1e-9, atol=1e-12 * scale)
    assert bool(domain.contains(plan))
    assert not bool(domain.contains(1.01 * plan))
