"""Drawn solves: a problem, a domain, a solver with its slots, a start and budgets."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch

import fwnet
from cases import RULES, SOLVERS, RuleCase, SolverCase
from fwnet import learned
from fwnet.directions import Exchanges, ProjectedStep, SingularVertices
from laws.coverage import note
from laws.objectives import Objective, draw_objective
from laws.sets import Set, draw_set
from learned_cases import ON_THE_SIMPLEX, with_random_weights

DTYPES = (torch.float64, torch.float32)
COMPILED = ("FrankWolfe", "Away", "Pairwise", "Blended")
COMPILED_RULES = ("LineSearch", "OverRelaxed", "ShortStep", "OpenLoop", "Constant")
COMPILED_PROBLEMS = ("LeastSquares", "Quadratic", "SVMDual-kernel", "SVMDual-features")


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


# Directions, which meet every oracle.
@dataclass(frozen=True)
class DirectionCase:
    name: str
    make: Callable[[], fwnet.Direction]
    domains: tuple[type, ...] = (fwnet.Domain,)
    fits: Callable[[Objective], bool] = lambda objective: True


def _linear_image(objective: Objective) -> bool:
    return objective.linear_image


DIRECTIONS = [
    DirectionCase("Toward", fwnet.Toward),
    DirectionCase("Away", fwnet.Away),
    DirectionCase("Pairwise", fwnet.Pairwise),
    DirectionCase("SecondOrder", lambda: fwnet.Pairwise(True), fits=lambda o: o.quadratic),
    DirectionCase("Blended", fwnet.Blended),
    DirectionCase("Averaging", fwnet.Averaging),
    DirectionCase("Corrections, none", lambda: fwnet.Corrections(0, []), fits=_linear_image),
    DirectionCase(
        "Corrections, rounds", lambda: fwnet.Corrections(12, rounds=3), fits=_linear_image
    ),
    DirectionCase(
        "Corrections, exchanges",
        lambda: fwnet.Corrections(2, [Exchanges(2), ProjectedStep()], rounds=1),
        (fwnet.Simplex,),
        _linear_image,
    ),
    DirectionCase(
        "Corrections, singular",
        lambda: fwnet.Corrections(2, [SingularVertices(3)], rounds=1),
        (fwnet.TraceNormBall,),
        _linear_image,
    ),
]
CONTROLLERS: dict[str, Callable[[], learned.Controller]] = ON_THE_SIMPLEX | {
    "LearnedPowerIteration": lambda: learned.LearnedPowerIteration(steps=2),
    "LSTMPowerIteration": lambda: learned.LSTMPowerIteration(hidden=4, layers=1, steps=2),
    "LearnedTraceNorm": lambda: learned.LearnedTraceNorm(hidden=4),
    "LearnedLowRank": lambda: learned.LearnedLowRank(directions=3, memory=2),
}
# They refuse other problems than quadratics.
QUADRATIC_ONLY = ("LearnedPairwise", "LearnedStart", "LearnedAtoms", "LearnedAtoms, columns")


@dataclass(frozen=True, eq=False)
class Draw:
    """One solve: what, where, how."""

    place: Set
    objective: Objective
    dtype: torch.dtype
    solver: fwnet.FrankWolfe
    x0: torch.Tensor | None
    text: str
    again: bool  # solve once more, from the result

    def failure(self, kind: str, sentence: str) -> str:
        return f"{kind}: {sentence} [{self.text}]"


class Chosen(NamedTuple):
    """A solver and the names of its slots."""

    solver: fwnet.FrankWolfe
    name: str
    rule: str = "own"
    oracle: str = "own"


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
    if kind == "optimum" and objective.targets and place.projection is not None:
        points = [place.projection(target) for target in objective.targets]
    else:
        kind, points = "inside", [place.point(generator) for _ in objective.looks]
    x0 = np.stack(points) if objective.batched else points[0]
    return kind, torch.from_numpy(x0).to(dtype)


def draw_slots(
    generator: np.random.Generator,
    place: Set,
    objective: Objective,
    dtype: torch.dtype,
    budgets: dict[str, Any],
) -> Chosen:
    """Any direction with any oracle and any rule."""
    suited = [case for case in ORACLES if isinstance(place.domain, case.domains)]
    oracle = suited[int(generator.integers(len(suited)))]
    ways = [
        case
        for case in DIRECTIONS
        if isinstance(place.domain, case.domains) and case.fits(objective)
    ]
    direction = ways[int(generator.integers(len(ways)))]
    rule = draw_rule(generator, RULES, objective, dtype)
    seeded = torch.Generator().manual_seed(int(generator.integers(2**31)))
    solver = fwnet.FrankWolfe(
        place.domain,
        rule.make(),
        direction=direction.make(),
        oracle=oracle.make(seeded),
        **budgets,
    )
    return Chosen(solver, f"FrankWolfe, {direction.name}", rule.name, oracle.name)


def draw_controller(
    generator: np.random.Generator, place: Set, objective: Objective, budgets: dict[str, Any]
) -> Chosen | None:
    """A learned slot, as it begins or with wild weights; None where none suits."""
    names = [
        name
        for name, make in CONTROLLERS.items()
        if isinstance(place.domain, make().domains)
        and objective.linear_image
        and (objective.quadratic or name not in QUADRATIC_ONLY)
    ]
    if not names:
        return None
    name = names[int(generator.integers(len(names)))]
    scale, seed = float(generator.choice([0.0, 1.0, 100.0])), int(generator.integers(2**31))
    controller = CONTROLLERS[name]()
    if scale:
        controller = with_random_weights(controller, seed, scale)
    return Chosen(controller.solver(place.domain, **budgets), name)


def draw_solver(
    generator: np.random.Generator,
    place: Set,
    objective: Objective,
    dtype: torch.dtype,
    budgets: dict[str, Any],
) -> Chosen:
    domain, share = place.domain, generator.random()
    if share < 0.35:
        return draw_slots(generator, place, objective, dtype, budgets)
    if share < 0.45:
        chosen = draw_controller(generator, place, objective, budgets)
        if chosen is not None:
            return chosen
    suited_solvers = [
        case
        for case in SOLVERS
        if (isinstance(domain, fwnet.Product) or not case.product_only) and fits(case, objective)
    ]
    case = suited_solvers[int(generator.integers(len(suited_solvers)))]
    rule = draw_rule(generator, case.rules(), objective, dtype)
    if (
        case.name in COMPILED
        and rule.name in COMPILED_RULES
        and objective.name in COMPILED_PROBLEMS
        and isinstance(domain, fwnet.Simplex | fwnet.L1Ball)
        and is_dense(objective.problem)
        and generator.random() < 0.4
    ):
        solver = case.make(domain, rule.make(), compiled=True, **budgets)
        return Chosen(solver, f"compiled {case}", rule.name)
    return Chosen(case.make(domain, rule.make(), **budgets), case.name, rule.name)


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
    if generator.random() < 0.3:
        budgets |= {
            "check_every": int(generator.choice([1, 7])),
            "refresh_every": int(generator.choice([1, 3])),
            "trace_every": int(generator.choice([1, 4])),
            "max_seconds": None if generator.random() < 0.7 else 1e-9,
        }
    chosen = draw_solver(generator, place, objective, dtype, budgets)
    again = bool(generator.random() < 0.15)
    note(
        problem=objective.name,
        domain=type(place.domain).__name__,
        solver=chosen.name,
        rule=chosen.rule,
        oracle=chosen.oracle,
        dtype=dtype,
        batch=len(objective.looks) if objective.batched else "-",
        start=start,
        radius=magnitude(place.reach),
        size=size_class(place.shape),
    )
    text = (
        f"{objective.name} over {place}, {chosen.name}, rule {chosen.rule}, oracle "
        f"{chosen.oracle}, {dtype}, start {start}{', again' * again}, {budgets}"
    )
    return Draw(place, objective, dtype, chosen.solver, x0, text, again)


def magnitude(reach: float) -> str:
    return "tiny" if reach < 1e-2 else "huge" if reach > 1e2 else "1"


def size_class(shape: tuple[int, ...]) -> str:
    n = int(np.prod(shape))
    return str(n) if n <= 2 else "3 to 15" if n < 16 else "16 to 2000" if n <= 2000 else "larger"
