"""The law of certificates: what a solve says about its answer is true, whatever the problem.

    gap >= f(x) − f(y) − rounding for every y of the domain,   x in the domain,   an honest status

The gap is computed again in float64 with the formulas of `domains.cases`; by convexity it bounds
f(x) − f(y) for every y. The nearest points of the domains that have a formula are such y, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np
import torch

import fwnet
from cases import DOMAINS, SOLVERS
from laws.coverage import note
from laws.objectives import Look
from laws.oracles import (
    PROGRAMS,
    attack_low_rank,
    attack_oracle,
    attack_products,
    attack_spectra,
    oracle_slack,
)
from laws.rounding import LINEAR_PROGRAM, tiny, unit_roundings
from laws.sets import Array, Set
from laws.solves import Draw, draw_case

# Rounding ---------------------------------------------------------------------------------------


def gap_rounding(draw: Draw, look: Look, x: Array, reach: float) -> float:
    """Bound on the rounding of ⟨g, x⟩ − min ⟨g, v⟩.

    An entry of g errs by γ times its size, the inner products by γ times the sum of absolute
    values; |⟨g_size, |v|⟩| <= |g_size| |v| <= |g_size| reach. A decomposition errs by a modest
    multiple of (its sides) · u · |g| (LAPACK Users' Guide, section 4.8).
    """
    k = 2 * draw.objective.terms + 2 * sum(x.shape) + x.size + 20
    most = float((look.gradient_size * np.abs(x)).sum())
    most += float(np.linalg.norm(look.gradient_size)) * reach
    return k * (unit_roundings(draw.dtype) * most + tiny(draw.dtype) * (1 + reach))


def value_rounding(draw: Draw, look: Look, x: Array) -> float:
    k = 2 * draw.objective.terms + x.size + 20
    return k * (unit_roundings(draw.dtype) * look.value_size + tiny(draw.dtype))


def may_leave(draw: Draw, place: Set) -> float:
    """By how much rounding may push an iterate out: each step rounds every entry once.

    The constraints are sums of n entries, each at most `reach`.
    """
    k = 8 * (int(np.prod(place.shape)) + draw.solver.max_steps + 10)
    program = isinstance(place.domain, PROGRAMS)
    absolute = LINEAR_PROGRAM * max(1.0, place.reach) if program else 0.0
    return k * unit_roundings(draw.dtype) * place.reach + absolute


# Checking ---------------------------------------------------------------------------------------


def per_problem(value: Any, index: int, batched: bool) -> Any:
    return value[index] if batched else value


def check_problem(draw: Draw, result: fwnet.Result, index: int) -> str | None:
    """One problem of a batch, or the only one."""
    batched = draw.objective.batched
    x = np.asarray(per_problem(result.x, index, batched).double().numpy())
    gap = float(per_problem(result.gap, index, batched))
    value = float(per_problem(result.value, index, batched))
    status = per_problem(result.status, index, batched)
    steps = per_problem(result.steps, index, batched)
    if not np.isfinite(x).all():
        return draw.failure("infeasible", "x is not finite")
    for place, block in draw.place.blocks(x):
        if place.violation(block) > may_leave(draw, place):
            sentence = f"x leaves {place} by {place.violation(block):.3g}"
            return draw.failure("infeasible", sentence)
    look = draw.objective.looks[index](x)
    reach = draw.place.reach
    rounding = gap_rounding(draw, look, x, reach) + oracle_slack(
        draw.place, look.gradient, draw.dtype
    )
    most = torch.finfo(draw.dtype).max * 1e-6
    note(status=status)
    if not max(look.value_size, rounding / unit_roundings(draw.dtype)) < most:
        note(status=f"{status}, near overflow")
        return (
            None
            if status == "non_finite" or np.isfinite(gap)
            else draw.failure("other", f"status {status!r} with gap {gap}")
        )
    if not (np.isfinite(gap) and np.isfinite(value)):
        return draw.failure("other", f"f = {value}, gap = {gap}, status {status!r}")
    if abs(value - look.value) > value_rounding(draw, look, x):
        return draw.failure("other", f"value {value!r}, but f(x) = {look.value!r}")
    true = float((look.gradient * x).sum()) - draw.place.minimum(look.gradient)
    return (
        check_gap(draw, gap, true, rounding)
        or check_status(draw, str(status), int(steps), gap, true, rounding)
        or check_reference(draw, index, look, gap, rounding + value_rounding(draw, look, x))
    )


def check_gap(draw: Draw, gap: float, true: float, rounding: float) -> str | None:
    if gap < true - rounding or gap < -rounding:
        return draw.failure(
            "false certificate", f"gap {gap!r}, but it is {true!r} (rounding {rounding:.3g})"
        )
    # An upper bound on it may be reported, but a useful one; by Lanczos it may be 1 % above.
    loose = 1.1e-2 if len(draw.place.shape) == 2 else 1e-3
    if gap > true + rounding + loose * max(abs(true), rounding):
        return draw.failure("other", f"gap {gap!r} is far above {true!r} ({rounding:.3g})")
    return None


def check_status(
    draw: Draw, status: str, steps: int, gap: float, true: float, rounding: float
) -> str | None:
    solver = draw.solver
    if status == "converged" and not true <= solver.tol + rounding:
        return draw.failure("false certificate", f"converged with a gap of {true!r}")
    if status == "converged" and not gap <= solver.tol:
        return draw.failure("other", f"converged with a reported gap of {gap!r}")
    ends = ("converged", "max_steps", "stalled", "max_seconds")
    if status not in ends or (status == "max_seconds" and solver.max_seconds is None):
        return draw.failure("other", f"status {status!r} for finite numbers")
    if steps > solver.max_steps or (
        status == "max_steps" and steps < solver.max_steps and not draw.objective.batched
    ):
        return draw.failure("other", f"status {status!r} after {steps} steps")
    if status == "max_steps" and gap <= solver.tol and gap > -rounding:
        return draw.failure("other", f"max_steps, but the gap {gap!r} is within tol")
    return None


def check_reference(draw: Draw, index: int, look: Look, gap: float, rounding: float) -> str | None:
    """f(x) − f(y) for the nearest point y of the domain to p, f = ½ w |x − p|²."""
    project = draw.place.projection
    if not draw.objective.targets or project is None:
        return None
    target = draw.objective.targets[index]
    best = draw.objective.looks[index](project(target))
    rounding += unit_roundings(torch.float64) * 20 * target.size * best.value_size
    if gap < look.value - best.value - rounding:
        sentence = f"gap {gap!r}, but f(x) − f* = {look.value - best.value!r}"
        return draw.failure("false certificate", sentence)
    if look.value < best.value - rounding:
        return draw.failure("infeasible", f"f(x) is below f* by {best.value - look.value!r}")
    return None


def check_trace(draw: Draw, result: fwnet.Result) -> str | None:
    """Every recorded gap bounds what was gained after it."""
    if not draw.objective.convex or len(result.trace) == 0:
        return None
    count = len(draw.objective.looks)
    values = result.trace.column("value").reshape(-1, count)
    gaps = result.trace.column("gap").reshape(-1, count)
    for index, look_at in enumerate(draw.objective.looks):
        # The largest absolute values on the whole domain; z = Ax rounds once more a step.
        corner = np.full(draw.place.shape, draw.place.reach)
        look = look_at(corner)
        if not look.value_size < torch.finfo(draw.dtype).max * 1e-6:
            continue
        rounding = gap_rounding(draw, look, corner, draw.place.reach * corner.size**0.5)
        rounding += oracle_slack(draw.place, look.gradient, draw.dtype)
        rounding += value_rounding(draw, look, corner)
        rounding *= 2 + len(values)
        known = np.isfinite(gaps[:, index]) & np.isfinite(values[:, index])
        gained = values[known, index] - float(
            per_problem(result.value, index, draw.objective.batched)
        )
        short = gained - gaps[known, index]
        if len(short) and short.max() > rounding:
            sentence = f"a gap of the trace is {short.max():.3g} below what was gained later"
            return draw.failure("false certificate", sentence)
    return None


def attack_solve(generator: np.random.Generator) -> str | None:
    draw = draw_case(generator)
    try:
        result = draw.solver(draw.objective.problem, draw.x0)
        if draw.again:  # from its x and its atoms
            result = draw.solver(draw.objective.problem, result)
    except Exception as error:  # a finite problem with a feasible start has an answer
        return draw.failure("other", f"raised {type(error).__name__}: {error}")
    for index in range(len(draw.objective.looks)):
        failure = check_problem(draw, result, index)
        if failure is not None:
            return failure
    return check_trace(draw, result)


# Against another solver ------------------------------------------------------------------------


def attack_outside(generator: np.random.Generator) -> str | None:
    """gap >= f(x) − f* with f* of Clarabel, which finds it to about ten digits."""
    case = DOMAINS[int(generator.integers(len(DOMAINS)))]
    suited = [solver for solver in SOLVERS if solver.suits(case)]
    solver = suited[int(generator.integers(len(suited)))]
    n, m = int(np.prod(case.shape)), int(generator.integers(4, 12))
    A, b = generator.standard_normal((m, n)), generator.standard_normal(m)
    x = cp.Variable(case.shape)
    flat = cp.vec(x, order="C")
    problem: Any = fwnet.LeastSquares(torch.from_numpy(A), torch.from_numpy(b))
    if len(case.shape) == 2:
        d, k = case.shape
        A, b = np.eye(n), generator.standard_normal(n)
        places = (torch.from_numpy(i.ravel().copy()) for i in np.indices((d, k)))
        problem = fwnet.MatrixCompletion(*places, torch.from_numpy(b), case.shape)
    if not solver.looks and len(case.shape) == 2:
        return None  # completion is not sampled
    objective = cp.Minimize(0.5 * cp.sum_squares(A @ flat - b))
    reference = cp.Problem(objective, case.constraints(x))
    tight = {"tol_gap_abs": 1e-10, "tol_gap_rel": 1e-10, "tol_feas": 1e-10}
    best = float(np.asarray(reference.solve(solver=cp.CLARABEL, **tight)))
    if reference.status != "optimal":
        return None  # there is no reference
    steps = int(generator.choice([0, 3, 30]))
    result = solver.make(case.domain, max_steps=steps, tol=0.0)(problem)
    lead = float(result.value) - best
    error = 1e-8 * (1.0 + abs(best) + float(b @ b))
    note(domain=case, solver=solver)
    text = f"{solver} on {case}, {steps} steps"
    if lead < -error:
        return f"infeasible: f(x) is {-lead:.3g} below the minimum of Clarabel [{text}]"
    if float(result.gap) < lead - error:
        return f"false certificate: gap {float(result.gap):.6g}, f(x) − f* {lead:.6g} [{text}]"
    return None


SHARES: dict[str, tuple[Callable[[np.random.Generator], str | None], float]] = {
    "solve": (attack_solve, 0.72),
    "oracle": (attack_oracle, 0.07),
    "spectra": (attack_spectra, 0.08),
    "products": (attack_products, 0.01),
    "low rank": (attack_low_rank, 0.09),
    "Clarabel": (attack_outside, 0.03),
}


def attack(generator: np.random.Generator) -> str | None:
    """One random case; None, or a sentence that says what is wrong."""
    names = list(SHARES)
    name = names[int(generator.choice(len(names), p=[SHARES[name][1] for name in names]))]
    note(kind=f"certificates, {name}")
    return SHARES[name][0](generator)
