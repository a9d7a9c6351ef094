"""The law of estimators: the gap that a fit reports is that of what it returns.

Primal and dual are computed again from public attributes alone, in extended precision. What double
precision cannot tell apart is forgiven up to a tenth of `tol`; beyond it the fit has to warn.
"""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import torch

from fwnet.estimators import FWSVC, FWSVR, DeepSVC, FWOneClassSVM
from fwnet.estimators.svm import integer_grid
from laws.coverage import note
from laws.exact import FEW, Array, Gap, Kernel, Machine, U, lifted, parts, positive, relative_gap
from laws.fits import Points, draw_pixels, draw_points, fitted, two_sides
from laws.low_rank_fits import attack_low_rank

SOLVERS = ("auto", "pairwise", "corrective", "newton", "liblinear", "fwnet")
SINGLE = 384  # points above which kernel values may be off by 1e-3·tol: FWOneClassSVM says so
KERNELS = ("linear", "linear", "rbf", "poly", "precomputed")


def draw_kernel(generator: np.random.Generator, points: Points) -> Kernel:
    name = "rbf" if points.pixels else str(generator.choice(KERNELS))
    spread = max(float(points.X.var(axis=0).sum()), 1e-30)
    gamma = float(generator.choice([0.3, 1.0, 3.0]) / spread)
    coef0 = float(generator.choice([0.0, 0.3, 1.0, 10.0])) if name == "poly" else 1.0
    return Kernel(name, gamma, degree=2, coef0=coef0)


def draw_budget(generator: np.random.Generator) -> dict[str, Any]:
    """Enough steps mostly; else so few, or so little time, that the gap is far above rounding."""
    if generator.random() < 0.1:
        return {"max_time": 1e-9}
    return {"max_iter": int(generator.choice([1, 10, 200_000], p=[0.15, 0.15, 0.7]))}


def options(kernel: Kernel) -> dict[str, Any]:
    return {
        "kernel": kernel.name,
        "gamma": kernel.gamma,
        "degree": kernel.degree,
        "coef0": kernel.coef0,
    }


def verdict(reported: float, gap: Gap, tol: float, warned: bool, text: str) -> str | None:
    if not np.isfinite(reported) or reported < 0:
        return f"other: duality_gap_ = {reported} [{text}]"
    slack = gap.rounding if warned else min(gap.rounding, 0.1 * tol)
    if reported < gap.relative - slack:
        return (
            f"false certificate: duality_gap_ {reported:.6g}, but it is {gap.relative:.6g} "
            f"(rounding {gap.rounding:.3g}, tol {tol:g}, warned {warned}) [{text}]"
        )
    if reported > tol and not warned:
        return f"other: duality_gap_ {reported:.6g} is above tol {tol:g} without a warning [{text}]"
    return None


# Kernel machines --------------------------------------------------------------------------------


def spread_out(model: Any, row: int, n: int) -> Array:
    coef = np.zeros(n)
    coef[model.support_] = model.dual_coef_[row]
    return coef


def machine_of(model: Any, row: int, X: Array, box: Array, kernel: Kernel) -> Machine:
    linear = kernel.name == "linear" and hasattr(model, "coef_")
    w = np.atleast_2d(model.coef_)[row] if linear else None
    intercept = float(model.intercept_[row]) if hasattr(model, "intercept_") else 0.0
    gram = X if kernel.name == "precomputed" else None
    return Machine(X, spread_out(model, row, len(box)), intercept, w, box, kernel, gram)


def gram_of(points: Points, kernel: Kernel) -> Array:
    """A precomputed matrix is data: whatever it holds is exact."""
    if kernel.name != "precomputed":
        return points.X
    centred = points.X - points.X.mean(0)
    K = np.exp(-kernel.gamma * ((centred[:, None] - centred[None]) ** 2).sum(-1))
    return (K + K.T) / 2


def attack_svc(generator: np.random.Generator, points: Points | None = None) -> str | None:
    points = points or draw_points(generator, int(generator.choice([40, 40, 40, 300, 420])))
    kernel = draw_kernel(generator, points)
    solver = str(generator.choice(SOLVERS))
    if solver in ("newton", "liblinear"):
        kernel = Kernel("linear")
    classes = 2 if generator.random() < 0.7 or len(points.y) < 9 else 3
    labels = two_sides(generator, points.y, classes)
    scheme = str(generator.choice(["ovr", "ovo"]))
    C, tol = float(10.0 ** generator.uniform(-3, 3)), float(generator.choice([1e-2, 1e-3, 1e-6]))
    weight = generator.uniform(0.1, 3, len(labels)) if generator.random() < 0.3 else None
    X = gram_of(points, kernel)
    budget = draw_budget(generator)
    model = FWSVC(C, solver=solver, tol=tol, multi_class=scheme, **budget, **options(kernel))
    text = f"FWSVC(C={C:.4g}, solver={solver!r}, {scheme}), {classes} classes, {kernel.name}"
    text += f", tol={tol:g}, {budget}, {points.text}"
    note(estimator="FWSVC", solver=solver, kernel=kernel.name, scheme=scheme, classes=classes)
    model, warned, refusal = fitted(model, X, labels, weight)
    note(refused=refusal is not None, warned=warned)
    if refusal is not None:
        return None
    box = C * (np.ones(len(labels)) if weight is None else weight)
    pairs = [(i, j) for i in range(classes) for j in range(i + 1, classes)]
    rows = [(1, 0)] if classes == 2 else pairs if scheme == "ovo" else [(c, -1) for c in range(3)]
    for row, (plus, minus) in enumerate(rows):
        used = (labels == plus) | (labels == minus) if minus >= 0 else labels >= 0
        whole = machine_of(model, row, X, box, kernel)
        part = X[np.ix_(used, used)] if kernel.name == "precomputed" else X[used]
        machine = Machine(
            part,
            whole.coef[used],
            whole.intercept,
            whole.w,
            box[used],
            kernel,
            part if whole.gram is not None else None,
        )
        side = np.where(labels[used] == plus, 1, -1)
        if (machine.coef * side < 0).any() or whole.coef[~used].any():
            return f"infeasible: a coefficient has the wrong sign [{text}]"
        linear = lifted(machine.coef * side, used.sum() > FEW).sum()
        gap = relative_gap(machine, lambda f, s=side: s * positive(1 - s * f), linear)
        failure = verdict(float(model.duality_gaps_[row]), gap, tol, warned, f"row {row}, {text}")
        if failure is not None:
            return failure
    return None


def attack_svr(generator: np.random.Generator, points: Points | None = None) -> str | None:
    points = points or draw_points(generator, int(generator.choice([40, 40, 200])))
    kernel = draw_kernel(generator, points)
    y = points.y * 10.0 ** generator.choice([-3, 0, 0, 3])
    epsilon = float(generator.choice([0.0, 0.1, 1.0]) * (y.std() + 1e-12))
    C, tol = float(10.0 ** generator.uniform(-3, 3)), float(generator.choice([1e-3, 1e-6]))
    X = gram_of(points, kernel)
    budget = draw_budget(generator)
    model = FWSVR(C, epsilon=epsilon, tol=tol, **budget, **options(kernel))
    text = f"FWSVR(C={C:.4g}, epsilon={epsilon:.3g}), {kernel.name}, tol={tol:g}"
    text += f", {budget}, {points.text}"
    note(estimator="FWSVR", kernel=kernel.name)
    model, warned, refusal = fitted(model, X, y)
    note(refused=refusal is not None, warned=warned)
    if refusal is not None:
        return None
    n = len(y)
    machine = machine_of(model, 0, X, np.full(n, C), kernel)
    many = n > FEW
    target, coef = lifted(y, many), lifted(machine.coef, many)
    width = lifted(epsilon, many)[()]

    def excess(f: Array) -> Array:
        return positive(np.abs(target - f) - width)

    linear = (target * coef).sum() - width * np.abs(coef).sum()
    gap = relative_gap(machine, excess, linear)
    size = float(np.abs(y) @ np.abs(machine.coef))
    primal_floor = float(np.abs(linear)) or 1e-300
    gap = Gap(gap.relative, gap.rounding * (1 + np.abs(y).max()) + 4 * n * U * size / primal_floor)
    return verdict(model.duality_gap_, gap, tol, warned, text)


def attack_one_class(generator: np.random.Generator, points: Points | None = None) -> str | None:
    """ρ is at most duality_gap_ · ρ above its minimum, which is at least 1/(2P)."""
    points = points or draw_points(generator, int(generator.choice([40, 40, 420])))
    kernel = draw_kernel(generator, points)
    C, tol = float(10.0 ** generator.uniform(-3, 3)), float(generator.choice([1e-3, 1e-6]))
    X = gram_of(points, kernel)
    budget = draw_budget(generator)
    model = FWOneClassSVM(C, tol=tol, **budget, **options(kernel))
    text = f"FWOneClassSVM(C={C:.4g}), {kernel.name}, tol={tol:g}, {budget}, {points.text}"
    note(estimator="FWOneClassSVM", kernel=kernel.name)
    model, warned, refusal = fitted(model, X)
    note(refused=refusal is not None, warned=warned)
    if refusal is not None:
        return None
    n = len(X)
    box = np.full(n, C)
    machine = machine_of(model, 0, X, box, kernel)
    if (machine.coef < 0).any() or abs(machine.coef.sum() - 1) > 4 * n * U:
        return f"infeasible: dual_coef_ is not on the simplex [{text}]"
    found = parts(machine)
    coef = lifted(machine.coef, n > FEW)
    total = coef.sum()
    rho = (found.dual_square + (coef * coef).sum() / C) / total**2
    f = found.scores / total / rho
    slack = positive(1 - f)
    primal = (found.square / (total * rho) ** 2 + C * (slack * slack).sum()) / 2
    relative = float(1 - 1 / (2 * primal * rho))
    rounding = found.square_error / float(rho) * 4 + 4 * n * U
    rounding += float((C * (slack.astype(float) + 1e-9) * found.scores_error).sum()) / float(
        rho * primal
    )
    single = 1e-3 * tol / float(rho) if n > SINGLE and tol >= 1e-5 else 0.0
    if abs(model.offset_ - float(rho)) > (min(rounding + single, 0.1 * tol) + 1e-12) * float(rho):
        return f"other: offset_ {model.offset_!r}, but ρ = {float(rho)!r} [{text}]"
    return verdict(model.duality_gap_, Gap(relative, rounding), tol, warned, text)


def attack_pixels(generator: np.random.Generator) -> str | None:
    """Kernel values from 8-bit integers, also on processors that multiply others faster."""
    note(points="pixels")
    points = draw_pixels(generator)
    machine = generator.choice(3, p=[0.5, 0.25, 0.25])
    with mock.patch.object(integer_grid, "has_fast_products", return_value=True):
        return (attack_svc, attack_svr, attack_one_class)[machine](generator, points)


def attack_deep(generator: np.random.Generator) -> str | None:
    points = draw_points(generator, 30)
    X = (points.X - points.X.mean(0)) / np.maximum(points.X.std(0), 1e-12)
    labels = two_sides(generator, points.y, 2)
    C = float(10.0 ** generator.uniform(-2, 2))
    mode = str(generator.choice(["exact", "forward", "unrolled"]))
    model = DeepSVC(C=C, mode=mode, max_iter=3, random_state=int(generator.integers(100)))
    text = f"DeepSVC(C={C:.4g}, mode={mode!r}), {points.text}"
    note(estimator="DeepSVC", solver=mode)
    model, warned, _ = fitted(model, X, labels)
    with torch.no_grad():
        dtype = next(model.module_.parameters()).dtype
        H = model.module_.eval()(torch.from_numpy(X).to(dtype)).double().numpy()
    machine = machine_of(model, 0, H, np.full(len(X), C), Kernel("linear"))
    side = np.where(labels == 1, 1, -1)
    linear = lifted(machine.coef * side, False).sum()
    gap = relative_gap(machine, lambda f: side * positive(1 - side * f), linear)
    return verdict(model.duality_gap_, gap, 1e-6, warned, text)


def attack(generator: np.random.Generator) -> str | None:
    """One random fit; None, or a sentence that says what is wrong."""
    kind = generator.random()
    if kind < 0.02:
        return attack_pixels(generator)
    if kind < 0.45:
        return attack_svc(generator)
    if kind < 0.6:
        return attack_svr(generator)
    if kind < 0.72:
        return attack_one_class(generator)
    return attack_deep(generator) if kind < 0.76 else attack_low_rank(generator)
