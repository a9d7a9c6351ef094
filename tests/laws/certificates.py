"""The law of certificates: what a solve says about its answer is true, whatever the problem.

    gap >= f(x) − f(y) − rounding for every y of the domain,   x in the domain,   an honest status

The gap is computed again in float64 with the formulas of `domains.cases`; by convexity it bounds
f(x) − f(y) for every y. The nearest points of the domains that have a formula are such y, too.
"""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import torch

import fwnet
from cases import DOMAINS, SOLVERS
from fwnet.estimators.low_rank.certificate import certify
from fwnet.estimators.low_rank.losses import SquaredLoss
from fwnet.low_rank import ArrayRows, Factors, RowProblem
from laws.hard_data import draw_scale, draw_spectrum
from laws.objectives import Look
from laws.sets import SIDES, Array, Set, draw_radius, draw_set, draw_sides
from laws.solves import DTYPES, Draw, draw_case

LANCZOS = {torch.float64: 1e-11, torch.float32: 1e-7}  # relative error of σ₁, as documented
LINEAR_PROGRAM = 1e-9  # HiGHS keeps constraints up to its absolute tolerance of 1e-10, or 1e-9


# Rounding ---------------------------------------------------------------------------------------


def unit_roundings(dtype: torch.dtype) -> float:
    """Of the solver and of the check."""
    return float(torch.finfo(dtype).eps + np.finfo(np.float64).eps)


def tiny(dtype: torch.dtype) -> float:
    """What is lost where products underflow."""
    return float(torch.finfo(dtype).tiny)


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


def oracle_slack(place: Set, look: Look, dtype: torch.dtype) -> float:
    """The documented error of oracles that iterate."""
    if isinstance(place.domain, fwnet.Polytope | fwnet.TransportPolytope | fwnet.Birkhoff):
        return LINEAR_PROGRAM * float(np.abs(look.gradient).sum()) * max(1.0, place.reach)
    if len(place.shape) == 2 or isinstance(place.domain, fwnet.Product):
        return LANCZOS[dtype] * float(np.linalg.norm(look.gradient)) * place.reach
    return 0.0


def may_leave(draw: Draw, steps: int) -> float:
    """By how much rounding may push an iterate out: each step rounds every entry once.

    The constraints are sums of n entries, each at most `reach`.
    """
    k = 8 * (int(np.prod(draw.place.shape)) + steps + 10)
    programs = fwnet.Polytope | fwnet.TransportPolytope | fwnet.Birkhoff
    absolute = LINEAR_PROGRAM if isinstance(draw.place.domain, programs) else 0.0
    return k * unit_roundings(draw.dtype) * draw.place.reach + absolute


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
    violation, allowed = draw.place.violation(x), may_leave(draw, draw.solver.max_steps)
    if violation > allowed:
        return draw.failure("infeasible", f"x leaves the domain by {violation:.3g}")
    look = draw.objective.looks[index](x)
    reach = draw.place.reach
    rounding = gap_rounding(draw, look, x, reach) + oracle_slack(draw.place, look, draw.dtype)
    most = torch.finfo(draw.dtype).max * 1e-6
    if not max(look.value_size, rounding / unit_roundings(draw.dtype)) < most:
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
        or check_reference(draw, look, gap, rounding + value_rounding(draw, look, x))
    )


def check_gap(draw: Draw, gap: float, true: float, rounding: float) -> str | None:
    if gap < true - rounding or gap < -rounding:
        return draw.failure(
            "false certificate", f"gap {gap!r}, but it is {true!r} (rounding {rounding:.3g})"
        )
    # An upper bound on it may be reported, but a useful one.
    if gap > true + rounding + 1e-3 * max(abs(true), rounding):
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
    if status not in ("converged", "max_steps", "stalled"):
        return draw.failure("other", f"status {status!r} for finite numbers")
    if steps > solver.max_steps or (
        status == "max_steps" and steps < solver.max_steps and not draw.objective.batched
    ):
        return draw.failure("other", f"status {status!r} after {steps} steps")
    if status == "max_steps" and gap <= solver.tol and gap > -rounding:
        return draw.failure("other", f"max_steps, but the gap {gap!r} is within tol")
    return None


def check_reference(draw: Draw, look: Look, gap: float, rounding: float) -> str | None:
    """f(x) − f(y) for the nearest point y of the domain to p, f = ½ w |x − p|²."""
    target, project = draw.objective.target, draw.place.projection
    if target is None or project is None:
        return None
    best = draw.objective.looks[0](project(target))
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
        rounding += oracle_slack(draw.place, look, draw.dtype)
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
    except Exception as error:  # a finite problem with a feasible start has an answer
        return draw.failure("other", f"raised {type(error).__name__}: {error}")
    for index in range(len(draw.objective.looks)):
        failure = check_problem(draw, result, index)
        if failure is not None:
            return failure
    return check_trace(draw, result)


# Oracles and factored certificates --------------------------------------------------------------


def attack_oracle(generator: np.random.Generator) -> str | None:
    """⟨c, lmo(c)⟩ is the minimum, from any guess, for dense and for implicit costs."""
    place = draw_set(generator)
    while len(place.shape) != 2:
        place = draw_set(generator)
    dtype = DTYPES[int(generator.random() < 0.4)]
    d, m = place.shape
    tensor = torch.from_numpy(draw_scale(generator) * draw_spectrum(generator, d, m)).to(dtype)
    cost = tensor.double().numpy()
    domain, text = place.domain, f"lmo of {place}, {dtype}"
    given: Any = tensor
    if generator.random() < 0.5:
        text += ", implicit"
        given = fwnet.numerics.tensors.ImplicitMatrix(
            tensor.shape,
            lambda v: tensor @ v,
            lambda u: tensor.mT @ u,
            lambda: tensor,
            dtype,
            tensor.device,
        )
    options = {}
    if isinstance(domain, fwnet.TraceNormBall | fwnet.Spectraplex) and generator.random() < 0.5:
        text += ", warm"
        vh = np.linalg.svd(cost)[2]
        start = vh[int(generator.integers(min(d, m)))] + 1e-3 * generator.standard_normal(m)
        options = {"start": torch.from_numpy(start).to(dtype)}
    vertex = domain.vertex(given, **options).dense().double().numpy()
    k = sum(place.shape) * 4 + 20
    rounding = k * unit_roundings(dtype) * float(np.linalg.norm(cost)) * place.reach
    rounding += LANCZOS[dtype] * float(np.linalg.norm(cost, 2)) * place.reach
    violation = place.violation(vertex)
    if violation > k * unit_roundings(dtype) * place.reach * max(place.shape):
        return f"infeasible: the vertex leaves the domain by {violation:.3g} [{text}]"
    if isinstance(domain, fwnet.Birkhoff | fwnet.TransportPolytope):
        rounding += LINEAR_PROGRAM * float(np.abs(cost).sum()) * max(1.0, place.reach)
    excess = float((cost * vertex).sum()) - place.minimum(cost)
    if excess > rounding:
        return (
            f"false certificate: ⟨c, lmo(c)⟩ is {excess:.3g} above the minimum "
            f"{place.minimum(cost):.3g} (rounding {rounding:.3g}) [{text}]"
        )
    return None


def attack_low_rank(generator: np.random.Generator) -> str | None:
    """`low_rank.certify`: its gap is an upper bound of ⟨G, W⟩ + radius · σ₁(G).

    With X = I and targets Y, G = (W − Y)/n: any spectrum can be made. The start of the oracle is
    the first right singular vector of W, so that W hides the top of G where it can.
    """
    large = generator.random() < 0.6
    n, m = draw_sides(generator) if large else (int(s) for s in generator.choice(SIDES, 2))
    dtype = DTYPES[int(generator.random() < 0.4)]
    G = draw_spectrum(generator, n, m)
    u, _, vh = np.linalg.svd(G, full_matrices=False)
    radius, rank = draw_radius(generator), int(generator.integers(1, min(n, m, 4) + 1))
    chosen = generator.permutation(min(n, m))[:rank]
    shares = generator.dirichlet(np.ones(rank)) * radius * generator.choice([0.1, 0.9, 1.0])
    U, V = (
        torch.from_numpy(np.ascontiguousarray(x)).to(dtype) for x in (u[:, chosen], vh[chosen].T)
    )
    W = Factors(U, torch.from_numpy(shares).to(dtype), V)
    dense = (W.U.double() * W.s.double()) @ W.V.double().mT
    size = max(radius, 1e-3) * draw_scale(generator, 3.0)
    targets = dense - size * torch.from_numpy(G)
    Y = targets.to(dtype)
    weight = torch.full((n,), 1.0 / n, dtype=dtype)
    problem = RowProblem(ArrayRows(torch.eye(n, dtype=dtype)), SquaredLoss(Y, weight))
    found = certify(problem, W, radius)
    exact = ((dense - Y.double()) * weight.double()[:, None]).numpy()
    true = float((exact * dense.numpy()).sum()) + radius * float(np.linalg.norm(exact, 2))
    sizes = (dense.abs() + Y.double().abs()).numpy() / n
    most = float((sizes * np.abs(dense.numpy())).sum()) + radius * float(np.linalg.norm(sizes))
    rounding = (2 * (n + m) + 4 * rank + 20) * unit_roundings(dtype) * most
    text = f"certify {n}x{m}, rank {rank}, radius {radius:.3g}, {dtype}"
    if found.gap < true - rounding:
        return (
            f"false certificate: gap {found.gap!r}, but it is {true!r} "
            f"(rounding {rounding:.3g}) [{text}]"
        )
    return None


def attack_outside(generator: np.random.Generator) -> str | None:
    """gap >= f(x) − f* with f* of Clarabel, which finds it to about ten digits."""
    case = DOMAINS[int(generator.integers(len(DOMAINS)))]
    suited = [solver for solver in SOLVERS if solver.suits(case)]
    solver = suited[int(generator.integers(len(suited)))]
    n, m = int(np.prod(case.shape)), int(generator.integers(3, 12))
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
    text = f"{solver} on {case}, {steps} steps"
    if lead < -error:
        return f"infeasible: f(x) is {-lead:.3g} below the minimum of Clarabel [{text}]"
    if float(result.gap) < lead - error:
        return f"false certificate: gap {float(result.gap):.6g}, f(x) − f* {lead:.6g} [{text}]"
    return None


def attack(generator: np.random.Generator) -> str | None:
    """One random case; None, or a sentence that says what is wrong."""
    kind = generator.random()
    if kind < 0.75:
        return attack_solve(generator)
    if kind < 0.88:
        return attack_oracle(generator)
    return attack_low_rank(generator) if kind < 0.97 else attack_outside(generator)
