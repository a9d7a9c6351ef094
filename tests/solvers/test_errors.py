"""Error texts for bad input."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import fwnet

EYE, POINT = torch.eye(3), torch.ones(3) / 3
QUADRATIC = fwnet.Quadratic(EYE)
SOLVER = fwnet.FrankWolfe(fwnet.Simplex())
NAN, INF = float("nan"), float("inf")


def spoiled(value: float, *shape: int) -> Tensor:
    tensor = torch.ones(*shape)
    tensor.view(-1)[1] = value
    return tensor


def vector(x: Tensor) -> Tensor:
    return x**2


CASES: list[tuple[str, Callable[[], Any], type[Exception], str]] = [
    # x0
    (
        "x0 shape",
        lambda: SOLVER(QUADRATIC, torch.ones(4) / 4),
        ValueError,
        "x0 must have shape (3,) for this Quadratic; got (4,).",
    ),
    (
        "x0 dtype",
        lambda: SOLVER(QUADRATIC, POINT.double()),
        TypeError,
        "x0 must be torch.float32 like the data of this Quadratic; got torch.float64. Convert one",
    ),
    (
        "x0 integers",
        lambda: SOLVER(QUADRATIC, torch.tensor([1, 0, 0])),
        TypeError,
        "x0 must be float32 or float64; got torch.int64. Convert with .float() or .double().",
    ),
    (
        "x0 a list",
        lambda: SOLVER(QUADRATIC, [1.0, 0.0, 0.0]),
        TypeError,
        "x0 must be a torch.Tensor; got list. Convert with torch.as_tensor(...).",
    ),
    (
        "x0 NaN",
        lambda: SOLVER(QUADRATIC, spoiled(NAN, 3)),
        ValueError,
        "x0 must be finite; entry (1,) is nan.",
    ),
    (
        "x0 empty",
        lambda: SOLVER(vector, torch.zeros(0)),
        ValueError,
        "x0 must not be empty; got shape (0,).",
    ),
    (
        "x0 infeasible",
        lambda: SOLVER(QUADRATIC, torch.ones(3)),
        ValueError,
        "x0 must lie in Simplex(radius=1.0); it is 1.2 away. Start from domain.start(shape)",
    ),
    (
        "x0 infeasible in a batch",
        lambda: SOLVER(
            fwnet.Quadratic(torch.stack([EYE, EYE])), torch.stack([POINT, torch.ones(3)])
        ),
        ValueError,
        "x0 must lie in Simplex(radius=1.0) (problem 1 of the batch); it is",
    ),
    (
        "x0 missing",
        lambda: SOLVER(lambda x: x.sum()),
        ValueError,
        "x0 must be given: the shape of a plain function's argument is unknown.",
    ),
    (
        "batched x0, one problem",
        lambda: SOLVER(QUADRATIC, torch.stack([POINT, POINT])),
        ValueError,
        "x0 must have shape (3,) for this Quadratic; got (2, 3).",
    ),
    (
        "batched x0, one function",
        lambda: SOLVER(lambda x: x.sum(), torch.stack([POINT, POINT])),
        ValueError,
        "x0: Simplex(radius=1.0) holds vectors, but shape (2, 3) with 0 batch dimensions "
        "has points of 2 dimensions. Flatten x, or build the problem with a batch dimension.",
    ),
    (
        "one x0, batched function",
        lambda: SOLVER(fwnet.Function(lambda x: x.sum(-1), batched=True), POINT),
        ValueError,
        "x0: Simplex(radius=1.0) holds vectors, but shape (3,) with 1 batch dimensions",
    ),
    (
        "matrices on a domain of vectors",
        lambda: SOLVER(fwnet.SoftmaxRegression(EYE, torch.tensor([0, 1, 1]))),
        ValueError,
        "problem: Simplex(radius=1.0) holds vectors, but shape (3, 2) with 0 batch",
    ),
    (
        "vectors on a domain of matrices",
        lambda: fwnet.FrankWolfe(fwnet.TraceNormBall())(QUADRATIC),
        ValueError,
        "problem: TraceNormBall(radius=1.0) takes matrices (*batch, d, m); got shape (3,).",
    ),
    # objectives
    (
        "vector objective",
        lambda: SOLVER(vector, POINT),
        ValueError,
        "the objective must return a tensor of shape (); got (3,). Sum or average it; for a batch "
        "of problems pass Function(f, batched=True).",
    ),
    (
        "scalar objective of a batch",
        lambda: SOLVER(fwnet.Function(lambda x: x.sum(), batched=True), torch.stack([POINT] * 2)),
        ValueError,
        "the objective must return a tensor of shape (2,); got (). Return one value for each",
    ),
    (
        "objective returns a float",
        lambda: SOLVER(lambda x: 1.0, POINT),
        TypeError,
        "the objective must return a tensor; got float. Compute it with torch operations.",
    ),
    (
        "objective without a graph",
        lambda: SOLVER(lambda x: torch.tensor(x.detach().numpy().sum()), POINT),
        ValueError,
        "the objective's value does not depend on x through torch operations",
    ),
    (
        "objective no function",
        lambda: SOLVER(3.0, POINT),
        TypeError,
        "an objective must be a Problem or a function of x; got float.",
    ),
    # the solver
    (
        "domain",
        lambda: fwnet.FrankWolfe(fwnet.Simplex),
        TypeError,
        "domain must be a Domain such as Simplex(); got <class",
    ),
    (
        "minimize: domain",
        lambda: fwnet.minimize(QUADRATIC, "simplex"),
        TypeError,
        "domain must be a Domain such as Simplex(); got 'simplex'.",
    ),
    (
        "rule",
        lambda: fwnet.FrankWolfe(fwnet.Simplex(), "line search"),
        TypeError,
        "rule must be a StepRule or a function of t; got 'line search'.",
    ),
    (
        "a preset's rule",
        lambda: fwnet.Corrective(fwnet.Simplex(), torch.ones(2)),
        TypeError,
        "rule must be a StepRule or a function of t; got tensor([1., 1.]).",
    ),
    (
        "a direction as rule",
        lambda: fwnet.FrankWolfe(fwnet.Simplex(), fwnet.Pairwise()),
        TypeError,
        "got Pairwise, which is a direction. Use FrankWolfe(domain, direction=...).",
    ),
    (
        "oracle",
        lambda: fwnet.FrankWolfe(fwnet.Simplex(), oracle=fwnet.Softmin),
        TypeError,
        "oracle must be an Oracle; got <class",
    ),
    (
        "direction",
        lambda: fwnet.FrankWolfe(fwnet.Simplex(), direction="away"),
        TypeError,
        "direction must be a Direction; got 'away'.",
    ),
    (
        "max_steps",
        lambda: fwnet.FrankWolfe(fwnet.Simplex(), max_steps=-1),
        ValueError,
        "max_steps must be a whole number of at least 0; got -1.",
    ),
    (
        "max_steps a float",
        lambda: fwnet.FrankWolfe(fwnet.Simplex(), max_steps=1e3),
        ValueError,
        "max_steps must be a whole number of at least 0; got 1000.0.",
    ),
    (
        "tol",
        lambda: fwnet.FrankWolfe(fwnet.Simplex(), tol=-1e-3),
        ValueError,
        "tol must be a finite number of at least 0; got -0.001.",
    ),
    (
        "tol NaN",
        lambda: fwnet.FrankWolfe(fwnet.Simplex(), tol=math.nan),
        ValueError,
        "tol must be a finite number of at least 0; got nan.",
    ),
    (
        "max_seconds",
        lambda: fwnet.FrankWolfe(fwnet.Simplex(), max_seconds=0),
        ValueError,
        "max_seconds must be a positive finite number; got 0.",
    ),
    (
        "check_every",
        lambda: fwnet.FrankWolfe(fwnet.Simplex(), check_every=0),
        ValueError,
        "check_every must be a whole number of at least 1; got 0.",
    ),
    (
        "rules that look at f, and samples",
        lambda: fwnet.StochasticFrankWolfe(fwnet.Simplex(), fwnet.LineSearch(), batch_size=4),
        TypeError,
        "LineSearch evaluates f, of which Stochastic sees only a sample; use OpenLoop()",
    ),
    (
        "FWNet",
        lambda: fwnet.FWNet(fwnet.Simplex()),
        TypeError,
        "FWNet(solver) must be a FrankWolfe solver; got Simplex(radius=1.0).",
    ),
    # slots that do not fit
    (
        "softmin elsewhere",
        lambda: fwnet.FrankWolfe(fwnet.L1Ball(), oracle=fwnet.Softmin())(QUADRATIC),
        TypeError,
        "Softmin supports only Simplex; got L1Ball(radius=1.0). Use Exact().",
    ),
    (
        "power iteration elsewhere",
        lambda: fwnet.FrankWolfe(fwnet.Simplex(), oracle=fwnet.PowerIteration())(QUADRATIC),
        TypeError,
        "PowerIteration supports only TraceNormBall; got Simplex(radius=1.0). Use Exact().",
    ),
    (
        "soft trace norm elsewhere",
        lambda: fwnet.FrankWolfe(fwnet.Simplex(), oracle=fwnet.SoftTraceNorm())(QUADRATIC),
        TypeError,
        "SoftTraceNorm supports only TraceNormBall; got Simplex(radius=1.0). Use Exact().",
    ),
    (
        "blocks elsewhere",
        lambda: fwnet.BlockCoordinateFrankWolfe(fwnet.Simplex())(QUADRATIC),
        TypeError,
        "Blocks supports only Product; got Simplex(radius=1.0).",
    ),
    (
        "no terms",
        lambda: fwnet.StochasticFrankWolfe(fwnet.Simplex(), batch_size=1)(QUADRATIC),
        TypeError,
        "Quadratic is not a sum of terms that can be sampled; use FrankWolfe, or LeastSquares",
    ),
    (
        "batch_size",
        lambda: fwnet.StochasticFrankWolfe(fwnet.Simplex())(fwnet.LeastSquares(EYE, POINT)),
        ValueError,
        "Stochastic(batch_size=64) exceeds the 3 terms of f.",
    ),
    (
        "second order",
        lambda: fwnet.PairwiseFrankWolfe(fwnet.Simplex(), second_order=True)(
            fwnet.LogisticRegression(EYE, torch.tensor([1, -1, 1]))
        ),
        TypeError,
        "Pairwise(second_order=True) needs a quadratic problem; LogisticRegression is not.",
    ),
    (
        "corrections without curvature",
        lambda: fwnet.Corrective(fwnet.Simplex())(lambda x: x.square().sum(), POINT),
        TypeError,
        "Corrections needs a problem that knows its curvature; Function does not",
    ),
    (
        "short step",
        lambda: fwnet.FrankWolfe(fwnet.Simplex(), fwnet.ShortStep())(lambda x: x.sum(), POINT),
        ValueError,
        "ShortStep: Function does not know its smoothness; pass ShortStep(smoothness=...)",
    ),
    (
        "the class of a rule",
        lambda: fwnet.FrankWolfe(fwnet.Simplex(), fwnet.LineSearch),
        TypeError,
        "rule must be a StepRule object; got its class. Use LineSearch(...).",
    ),
    (
        "a rule without a number",
        lambda: fwnet.FrankWolfe(fwnet.Simplex(), lambda t: None)(QUADRATIC, EYE[0]),
        TypeError,
        "a rule that is a function must return a number at each step; got None at t = 0.",
    ),
    (
        "a rule of the wrong shape",
        lambda: fwnet.FrankWolfe(fwnet.Simplex(), lambda t: torch.ones(2))(QUADRATIC, EYE[0]),
        TypeError,
        "must return a number at each step; got tensor([1., 1.]) at t = 0.",
    ),
    (
        "on_step",
        lambda: SOLVER(QUADRATIC, on_step=3),
        TypeError,
        "on_step must be a function; got 3.",
    ),
    (
        "gradient not a function",
        lambda: fwnet.Function(lambda x: x.sum(), gradient=3),
        TypeError,
        "Function(gradient=...) must be a function; got 3.",
    ),
    (
        "batched not a bool",
        lambda: fwnet.Function(lambda x: x.sum(), batched="yes"),
        ValueError,
        "Function(batched=...) must be True or False; got 'yes'.",
    ),
    (
        "gradient not a tensor",
        lambda: SOLVER(fwnet.Function(lambda x: x.sum(), gradient=lambda x: None), POINT),
        TypeError,
        "Function(gradient=...) must return a tensor; got NoneType.",
    ),
    (
        "gradient of the wrong shape",
        lambda: SOLVER(fwnet.Function(lambda x: x.sum(), gradient=lambda x: x[:, None]), POINT),
        ValueError,
        "Function(gradient=...) must return shape (3,) in torch.float32, like x; got (3, 1)",
    ),
    (
        "complex objective",
        lambda: SOLVER(lambda x: (x + 0j).sum(), POINT),
        TypeError,
        "the objective must return a real number; got torch.complex64.",
    ),
    (
        "sparse x0",
        lambda: SOLVER(QUADRATIC, POINT.to_sparse()),
        TypeError,
        "x0 must be dense; got torch.sparse_coo. Convert with .to_dense().",
    ),
    (
        "tol a string",
        lambda: fwnet.FrankWolfe(fwnet.Simplex(), tol="1e-3"),
        TypeError,
        "tol must be a number; got '1e-3'.",
    ),
    # rules and oracles
    ("omega", lambda: fwnet.OverRelaxed(2.0), ValueError, "must be below 2; got 2.0."),
    (
        "omega 0",
        lambda: fwnet.OverRelaxed(0),
        ValueError,
        "must be a positive finite number; got 0",
    ),
    ("offset", lambda: fwnet.OpenLoop(1.0), ValueError, "must be at least 2; got 1.0."),
    ("constant", lambda: fwnet.Constant(1.5), ValueError, "must be at most 1; got 1.5."),
    ("constant text", lambda: fwnet.Constant("a"), TypeError, "must be a number; got 'a'."),
    ("armijo", lambda: fwnet.Armijo(share=1.0), ValueError, "Armijo(share=...) must be below 1"),
    ("shrink", lambda: fwnet.Armijo(shrink=2.0), ValueError, "Armijo(shrink=...) must be below 1"),
    ("decrease", lambda: fwnet.Backtracking(1.1), ValueError, "must be at most 1; got 1.1."),
    ("increase", lambda: fwnet.Backtracking(0.9, 1.0), ValueError, "must be above 1; got 1.0."),
    ("smoothness", lambda: fwnet.ShortStep(-1.0), ValueError, "ShortStep(smoothness=...) must be"),
    ("line search tol", lambda: fwnet.LineSearch(0.0), ValueError, "LineSearch(tol=...) must be"),
    (
        "evaluations",
        lambda: fwnet.LineSearch(max_evaluations=1),
        ValueError,
        "of at least 2; got 1.",
    ),
    ("beta", lambda: fwnet.Softmin(0.0), ValueError, "Softmin(beta=...) must be a positive finite"),
    ("beta NaN", lambda: fwnet.Softmin(NAN), ValueError, "Softmin(beta=...) must be a positive"),
    ("growth", lambda: fwnet.Softmin(1.0, growth=-1.0), ValueError, "Softmin(growth=...) must be"),
    ("soft beta", lambda: fwnet.SoftTraceNorm(-1.0), ValueError, "SoftTraceNorm(beta=...) must be"),
    ("steps", lambda: fwnet.PowerIteration(0), ValueError, "PowerIteration(steps=...) must be"),
    ("memory", lambda: fwnet.Lazy(0), ValueError, "Lazy(memory=...) must be a whole number of"),
    ("corrections", lambda: fwnet.Corrections(-1), ValueError, "Corrections(memory=...) must be"),
    ("sample", lambda: fwnet.Stochastic(0), ValueError, "Stochastic(batch_size=...) must be"),
]


@pytest.mark.parametrize(
    ("make", "kind", "text"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_error_text(make: Callable[[], Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=re.escape(text)):
        make()
