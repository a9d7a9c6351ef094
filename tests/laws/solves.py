"""Drawn solves: a problem, a domain, a solver with its slots, a start and budgets."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import fwnet
from cases import RULES, SOLVERS, RuleCase, SolverCase
from laws.objectives import Objective, draw_objective
from laws.sets import Set, draw_set

DTYPES = (torch.float64, torch.float32)
COMPILED = ("FrankWolfe", "Away", "Pairwise", "Blended")


# Inexact oracles; all of them end with the certificate of the exact one.
@dataclass(frozen=True)
class OracleCase:
    name: str
    make: Callable[[torch.Generator], fwnet.Oracle]
    domains: tuple[type, ...] = (fwnet.Domain,)


ORACLES = [
    OracleCase("Exact", lambda g: fwnet.Exact()),
    OracleCase("Lazy", lambda g: fwnet.Lazy()),
    OracleCase("Softmin", lambda g: fwnet.Softmin(5.0, relative=True), (fwnet.Simplex,)),
    OracleCase("Power", lambda g: fwnet.PowerIteration(3, generator=g), (fwnet.TraceNormBall,)),
    OracleCase("SoftTraceNorm", lambda g: fwnet.SoftTraceNorm(), (fwnet.TraceNormBall,)),
    OracleCase(
        "NewtonSchulz", lambda g: fwnet.NewtonSchulz(), (fwnet.SpectralBall, fwnet.TraceNormBall)
    ),
]


@dataclass(frozen=True, eq=False)
class Draw:
    """One solve: what, where, how."""

    place: Set
    objective: Objective
    dtype: torch.dtype
    solver: fwnet.FrankWolfe
    x0: torch.Tensor | None
    text: str

    def failure(self, kind: str, sentence: str) -> str:
        return f"{kind}: {sentence} [{self.text}]"


# Drawing ----------------------------------------------------------------------------------------


def draw_rule(
    generator: np.random.Generator, rules: Iterable[RuleCase], objective: Objective, dtype: Any
) -> RuleCase:
    """One that suits: "backward" answers in float64, a short step needs the smoothness."""
    kept = [
        rule
        for rule in rules
        if (rule.name != "ShortStep" or objective.smooth)
        and (rule.name != "backward" or dtype == torch.float64)
    ]
    return kept[int(generator.integers(len(kept)))]


def fits(solver: SolverCase, objective: Objective) -> bool:
    """Whether the solver takes such problems, as documented."""
    if solver.name == "SecondOrder":
        return objective.quadratic
    if solver.name == "Corrective":
        return objective.linear_image
    return solver.looks or objective.sampled


def draw_start(
    generator: np.random.Generator, place: Set, objective: Objective, dtype: torch.dtype
) -> tuple[str, torch.Tensor | None]:
    shape = (len(objective.looks), *place.shape) if objective.batched else place.shape
    known = getattr(objective.problem, "shape", None) is not None
    kind = ("own", "vertex", "inside", "optimum")[int(generator.integers(4))]
    if kind == "own" and known:
        return kind, None
    if kind == "vertex":
        cost = torch.from_numpy(generator.standard_normal(shape)).to(dtype)
        return kind, place.domain.lmo(cost).dense().clone()
    if kind == "optimum" and objective.target is not None and place.projection is not None:
        nearest = place.projection(objective.target)
        return kind, torch.from_numpy(nearest).to(dtype)
    points = [place.point(generator) for _ in objective.looks]
    x0 = np.stack(points) if objective.batched else points[0]
    return "inside", torch.from_numpy(x0).to(dtype)


def draw_solver(
    generator: np.random.Generator,
    place: Set,
    objective: Objective,
    dtype: torch.dtype,
    budgets: dict[str, Any],
) -> tuple[str, fwnet.FrankWolfe]:
    domain = place.domain
    if generator.random() < 0.2:
        suited = [case for case in ORACLES if isinstance(domain, case.domains)]
        oracle = suited[int(generator.integers(len(suited)))]
        rule = draw_rule(generator, RULES, objective, dtype)
        seeded = torch.Generator().manual_seed(int(generator.integers(2**31)))
        made = fwnet.FrankWolfe(domain, rule.make(), oracle=oracle.make(seeded), **budgets)
        return f"FrankWolfe, oracle {oracle.name}, rule {rule}", made
    suited_solvers = [
        case
        for case in SOLVERS
        if (isinstance(domain, fwnet.Product) or not case.product_only) and fits(case, objective)
    ]
    case = suited_solvers[int(generator.integers(len(suited_solvers)))]
    rule = draw_rule(generator, case.rules(), objective, dtype)
    names = ("LineSearch", "OverRelaxed", "ShortStep", "OpenLoop", "Constant")
    if (
        case.name in COMPILED
        and rule.name in names
        and objective.name in ("LeastSquares", "Quadratic", "SVMDual-kernel", "SVMDual-features")
        and isinstance(domain, fwnet.Simplex | fwnet.L1Ball)
        and is_dense(objective.problem)
        and generator.random() < 0.3
    ):
        return f"compiled {case}, rule {rule}", case.make(
            domain, rule.make(), compiled=True, **budgets
        )
    return f"{case}, rule {rule}", case.make(domain, rule.make(), **budgets)


def is_dense(problem: Any) -> bool:
    form = getattr(problem, "form", problem)
    return type(form.matrix).__name__ == "DenseMap"


def draw_case(generator: np.random.Generator) -> Draw:
    place = draw_set(generator)
    dtype = DTYPES[int(generator.random() < 0.35)]
    objective = draw_objective(generator, place, dtype)
    start, x0 = draw_start(generator, place, objective, dtype)
    large = int(np.prod(place.shape)) > 2000
    budgets: dict[str, Any] = {
        "max_steps": int(generator.choice([0, 1, 3] if large else [0, 1, 2, 5, 20, 100]))
    }
    at = np.zeros(place.shape) if x0 is None else x0.double().numpy()
    first = [
        look(at if not objective.batched or x0 is None else at[k])
        for k, look in enumerate(objective.looks)
    ]
    typical = max(float(np.linalg.norm(look.gradient)) for look in first) * place.reach
    budgets["tol"] = float(typical * 10.0 ** generator.choice([-np.inf, -12, -6, -3, -1]))
    if not np.isfinite(budgets["tol"]):
        budgets["tol"] = 0.0
    how, solver = draw_solver(generator, place, objective, dtype, budgets)
    text = (
        f"{objective.name} over {place}, {how}, {dtype}, start {start}, "
        f"max_steps={budgets['max_steps']}, tol={budgets['tol']:.3g}"
    )
    return Draw(place, objective, dtype, solver, x0, text)
