"""Step rules against closed forms and SciPy."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import scipy.optimize
import torch
from torch import Tensor

import fwnet
from cases import F64, L1, RULES, RuleCase, labels, normal, problem_for, spd, walk
from fwnet.iterates import Iterate, Move, Term
from fwnet.steps import ByIndex, as_rule
from fwnet.vertices import Dense


@torch.no_grad()
def segment(problem: fwnet.Problem, x: Tensor, target: Tensor, max_step: Any = 1.0) -> Move:
    """The move from x toward a point."""
    it = problem.at(x)
    value, gradient, along = problem.first_order(it)
    vertex = Dense(target)
    image = None if it.image is None else problem.vertex_image(vertex)
    slope = vertex.inner(gradient) - along
    return Move(it, -1.0, (Term(1.0, vertex, image),), value, slope, max_step)


@torch.no_grad()
def choose(rule: Any, problem: fwnet.Problem, move: Move, steps: int = 1) -> Tensor:
    """The rule's answer to the same move, after some steps."""
    state = rule.init(problem, move.it)
    for _ in range(steps):
        step_size, state = rule(problem, move.it, move, state)
    return move.clamped(step_size)


def test_schedules() -> None:
    problem = fwnet.Quadratic(torch.eye(3, dtype=F64))
    move = segment(problem, torch.ones(3, dtype=F64) / 3, torch.eye(3, dtype=F64)[0])
    for t in range(6):
        log = math.log(t + 1)
        for rule, wanted in (
            (fwnet.OpenLoop(), 2 / (t + 2)),
            (fwnet.OpenLoop(30), 2 / (t + 30)),
            (fwnet.LogOpenLoop(), (2 + log) / (t + 2 + log)),
            (fwnet.Constant(0.25), 0.25),
            (ByIndex(lambda t: 1 / (t + 3)), 1 / (t + 3)),
            (as_rule(lambda t: torch.tensor(0.5)), 0.5),
        ):
            assert float(choose(rule, problem, move, t + 1)) == pytest.approx(wanted, rel=1e-14)


@pytest.mark.parametrize("limit", [1.0, 0.05, torch.tensor(0.02, dtype=F64)])
@pytest.mark.parametrize("rule", RULES, ids=str)
def test_always_within_the_segment(rule: RuleCase, limit: Any) -> None:
    problem = fwnet.LeastSquares(normal(1, 10, 4), normal(2, 10))
    made = as_rule(rule.make())
    for seed in range(5):
        move = segment(problem, 0.3 * normal(seed, 4), normal(seed + 50, 4), limit)
        size = choose(made, problem, move, 3)
        assert size.shape == ()
        assert 0 <= float(size) <= float(limit)
        if float(move.slope) > 0 and rule.monotone:
            assert float(size) <= 1e-9  # nowhere to go


@pytest.mark.parametrize("limit", [3.0, torch.tensor(3.0)], ids=["number", "tensor"])
def test_a_size_that_float32_cannot_hold_is_the_longest_step(limit: Any) -> None:
    """Where f is linear up to rounding, a line search asks for a step of any length."""
    problem = fwnet.Quadratic(torch.eye(2))
    move = segment(problem, torch.ones(2) / 2, torch.eye(2)[0], limit)
    assert float(move.clamped(1e60)) == float(move.clamped(math.inf)) == 3.0


def test_line_search_on_quadratics_is_exact() -> None:
    K, c = spd(3, 5, 5), normal(4, 5)
    problem = fwnet.Quadratic(K, c)
    for seed in range(10):
        x, target = 0.2 * normal(seed, 5), 3.0 * normal(seed + 30, 5)
        move = segment(problem, x, target)
        d = target - x
        wanted = min(max(-float((K @ x + c) @ d) / float(d @ K @ d), 0.0), 1.0)
        assert float(choose(fwnet.LineSearch(), problem, move)) == pytest.approx(wanted, abs=1e-12)
        relaxed = float(choose(fwnet.OverRelaxed(1.5), problem, move))
        free = -float((K @ x + c) @ d) / float(d @ K @ d)
        assert relaxed == pytest.approx(min(max(1.5 * free, 0.0), 1.0), abs=1e-12)


def test_line_search_without_curvature_goes_to_the_end() -> None:
    problem = fwnet.Quadratic(torch.zeros(3, 3, dtype=F64), torch.tensor([1.0, 0, 0]).double())
    downhill = segment(problem, torch.eye(3, dtype=F64)[0], torch.eye(3, dtype=F64)[1])
    uphill = segment(problem, torch.eye(3, dtype=F64)[1], torch.eye(3, dtype=F64)[0])
    assert float(choose(fwnet.LineSearch(), problem, downhill)) == 1.0
    assert float(choose(fwnet.LineSearch(), problem, uphill)) == 0.0


def minimum(function: Any, x: Tensor, target: Tensor) -> float:
    answer = scipy.optimize.minimize_scalar(
        lambda g: float(function(x + g * (target - x))),
        bounds=(0, 1),
        method="bounded",
        options={"xatol": 1e-12},
    )
    return float(answer.x)


@pytest.mark.parametrize("as_function", [False, True], ids=["Newton", "secant"])
def test_line_search_elsewhere(as_function: bool) -> None:
    X, y = normal(5, 12, 4), labels(6, 12)
    logistic = fwnet.LogisticRegression(X, y)

    def function(w: Tensor) -> Tensor:
        return torch.nn.functional.softplus(-y * (X @ w)).mean()

    problem = fwnet.Function(function) if as_function else logistic
    interior = 0
    for seed in range(20):
        x, target = 0.1 * normal(seed, 4), 4.0 * normal(seed + 30, 4)
        move = segment(problem, x, target)
        found = float(choose(fwnet.LineSearch(tol=1e-10, max_evaluations=60), problem, move))
        if float(move.slope) < 0:
            assert found == pytest.approx(minimum(function, x, target), abs=1e-6)
            interior += 0 < found < 1
        else:
            assert found <= 1e-9
    assert interior >= 5


STEEP = {
    "exponential": (lambda x: torch.exp(40 * x[0]) - 60 * x[0], math.log(1.5) / 40),
    "very steep": (lambda x: torch.exp(500 * x[0]) - 750 * x[0], math.log(1.5) / 500),
    "overflow": (lambda x: torch.exp(2000 * x[0]) - 3000 * x[0], math.log(1.5) / 2000),
    "quartic": (lambda x: (x[0] - 0.7) ** 4, 0.7),
    "barrier": (lambda x: -torch.log(1 - x[0]) - 4 * x[0], 0.75),
    "root": (lambda x: -torch.sqrt(0.5 - x[0]) * 0.5 - x[0] * 0.1 + x[0] ** 2, None),
    "flat then steep": (
        lambda x: torch.nn.functional.softplus(300 * (x[0] - 0.9)) - 30 * x[0],
        None,
    ),
}


@pytest.mark.parametrize("name", STEEP)
def test_line_search_on_steep_functions(name: str) -> None:
    """Far ends that are huge, infinite or undefined, from a start where f falls."""
    function, wanted = STEEP[name]
    x, target = torch.tensor([0.0, 1.0], dtype=F64), torch.tensor([1.0, 0.0], dtype=F64)
    problem = fwnet.Function(function)
    if wanted is None:
        grid = torch.linspace(0, 0.4999 if name == "root" else 1, 200_001, dtype=F64)
        wanted = float(grid[function(grid.unsqueeze(0)).argmin()])
    found = float(
        choose(fwnet.LineSearch(tol=1e-6, max_evaluations=60), problem, segment(problem, x, target))
    )
    assert found == pytest.approx(wanted, abs=5e-3 if name == "quartic" else 1e-4, rel=2e-3)
    few = float(choose(fwnet.LineSearch(), problem, segment(problem, x, target)))
    here, there = function(x), function(torch.tensor([few, 1 - few], dtype=F64))
    best = function(torch.tensor([wanted, 1 - wanted], dtype=F64))
    assert float(here - there) >= 0.9 * float(here - best)


def test_line_search_of_a_batch_settles_each_for_itself() -> None:
    X, y = normal(7, 3, 12, 4), labels(8, 3, 12)
    together = fwnet.LogisticRegression(X, y)
    x, target = 0.1 * normal(9, 3, 4), 5.0 * normal(10, 3, 4)
    found = choose(fwnet.LineSearch(), together, segment(together, x, target))
    for i in range(3):
        one = fwnet.LogisticRegression(X[i], y[i])
        alone = choose(fwnet.LineSearch(), one, segment(one, x[i], target[i]))
        assert float(found[i]) == pytest.approx(float(alone), rel=1e-12)


def test_short_step_minimises_the_upper_bound() -> None:
    problem = fwnet.LeastSquares(normal(11, 10, 4), normal(12, 10))
    smoothness = float(torch.linalg.matrix_norm(normal(11, 10, 4), 2)) ** 2
    move = segment(problem, torch.zeros(4, dtype=F64), 3.0 * normal(13, 4))
    wanted = -float(move.slope) / (smoothness * float(move.direction.square().sum()))
    wanted = min(max(wanted, 0.0), 1.0)
    assert float(choose(fwnet.ShortStep(), problem, move)) == pytest.approx(wanted, rel=1e-10)
    given = float(choose(fwnet.ShortStep(2 * smoothness), problem, move))
    assert given == pytest.approx(wanted / 2, rel=1e-10)


def test_backtracking_satisfies_its_bound() -> None:
    X, y = normal(14, 20, 5), labels(15, 20)
    problem = fwnet.LogisticRegression(X, y)
    rule = fwnet.Backtracking()
    state = rule.init(problem, problem.at(torch.zeros(5, dtype=F64)))
    x = torch.zeros(5, dtype=F64)
    for seed in range(30):
        target = -fwnet.L2Ball(3.0).lmo(-problem.gradient(problem.at(x))).dense()
        target = -target + 0.1 * normal(seed, 5)
        move = segment(problem, x, target)
        step_size, state = rule(problem, move.it, move, state)
        size = move.clamped(step_size)
        length = float(move.direction.square().sum())
        bound = move.value + size * move.slope + 0.5 * size**2 * state * length
        assert float(problem.value(move.trial(size))) <= float(bound) + 1e-14
        assert float(state) <= 2.1 * float(problem.smoothness())
        x = move.trial(size).x


def test_backtracking_needs_one_value_per_step_once_settled() -> None:
    calls = 0

    class Counted(fwnet.Problem):
        shape, dtype, device = torch.Size((8,)), F64, torch.device("cpu")
        inner = problem_for(L1)

        def value(self, it: Iterate) -> Tensor:
            nonlocal calls
            calls += 1
            return self.inner.value(it)

        def gradient(self, it: Iterate) -> Any:
            return self.inner.gradient(it)

        def image(self, x: Tensor) -> Any:
            return self.inner.image(x)

    solver = fwnet.FrankWolfe(L1.domain, fwnet.Backtracking(), max_steps=200, tol=0.0)
    solver(Counted())
    assert calls <= 2.5 * 201  # one by the loop, one by the rule, some more while L adapts


def test_armijo_falls_by_its_share() -> None:
    problem = fwnet.LeastSquares(normal(16, 10, 4), normal(17, 10))
    for share in (0.1, 0.4):
        move = segment(problem, torch.zeros(4, dtype=F64), 20.0 * normal(18, 4))
        if float(move.slope) > 0:
            move = segment(problem, torch.zeros(4, dtype=F64), -20.0 * normal(18, 4))
        size = float(choose(fwnet.Armijo(share=share), problem, move))
        assert math.log2(size) == round(math.log2(size))

        def falls(step: float, move: Move = move, share: float = share) -> bool:
            there = problem.value(move.trial(torch.tensor(step, dtype=F64)))
            return bool(there <= move.value + share * step * move.slope)

        assert falls(size)
        assert size == 1.0 or not falls(2 * size)


def test_monotonic_is_the_open_loop_halved_permanently() -> None:
    problem = problem_for(L1)
    solver = fwnet.FrankWolfe(L1.domain, fwnet.Monotonic())
    factors = []
    for t, (_, _, _, step_size, _) in enumerate(
        walk(solver, problem, torch.zeros(8, dtype=F64), 60)
    ):
        factors.append(float(step_size) * (t + 2) / 2)
    for before, after in itertools.pairwise(factors):
        assert after <= before + 1e-15
        assert math.log2(after) == pytest.approx(round(math.log2(after)), abs=1e-9)


@pytest.mark.parametrize(
    "rule", [fwnet.LineSearch, fwnet.Armijo, fwnet.Backtracking, fwnet.Monotonic]
)
def test_an_undefined_far_end_is_too_far(rule: type) -> None:
    """f is NaN where a coordinate falls below 0.05, as every vertex does."""

    def objective(x: Tensor) -> Tensor:
        return -torch.sqrt(x - 0.05).sum()

    solver = fwnet.FrankWolfe(fwnet.Simplex(), rule(), tol=1e-2, max_steps=500)
    result = solver(objective, torch.tensor([0.8, 0.1, 0.1], dtype=F64))
    assert result.status == "converged"
    torch.testing.assert_close(result.x, torch.full((3,), 1 / 3, dtype=F64), rtol=0, atol=0.1)
