"""Steps on arrays, by NumPy and in machine code: the same as the loop's; the same endings."""

from __future__ import annotations

import itertools
import signal
import threading
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import torch
from torch import Tensor

import fwnet
from cases import F64, FEASIBLE, L1, SIMPLEX, DomainCase, csr, labels, normal, seeded, solved
from fwnet.solvers.compiled import forward as compiled
from fwnet.solvers.compiled import steps as array_steps

Make = Callable[[], Any]
DIRECTIONS: dict[str, Make] = {
    "toward": fwnet.Toward,
    "away": fwnet.Away,
    "pairwise": fwnet.Pairwise,
    "blended": fwnet.Blended,
}
RULES: dict[str, Make] = {
    "LineSearch": fwnet.LineSearch,
    "OverRelaxed": lambda: fwnet.OverRelaxed(1.7),
    "OpenLoop": lambda: fwnet.OpenLoop(3.0),
    "LogOpenLoop": fwnet.LogOpenLoop,
    "Constant": lambda: fwnet.Constant(0.15),
    "ShortStep": fwnet.ShortStep,
}
# An exact line search between atoms leaves them tied, and rounding chooses among them.
TIED = {("pairwise", "LineSearch"), ("blended", "LineSearch")}
SLOTS = [pair for pair in itertools.product(DIRECTIONS, RULES) if pair not in TIED]
# The other rules are kin of these; the naive method below has them all.
CHOSEN = ("LineSearch", "Constant", "ShortStep")
CLOSE = {torch.float32: 1e-5, torch.float64: 1e-12}
both = pytest.mark.parametrize("dtype", CLOSE, ids=["float32", "float64"])
domains = pytest.mark.parametrize("case", [SIMPLEX, L1], ids=str)


@pytest.fixture(params=["machine code", "NumPy"], autouse=True)
def _code(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test runs with the functions as they are, too, and gradients are kept however small."""
    if request.param == "NumPy":
        monkeypatch.setattr(compiled, "_machine_code", lambda: array_steps)
    for name in ("_ROWS", "_PRODUCT", "_NUMPY_PRODUCT"):
        monkeypatch.setattr(compiled, name, 1)


def problems(dtype: torch.dtype) -> Iterator[tuple[str, fwnet.Problem]]:
    """Every kind of problem that has machine code, alone and in a batch."""
    for batch in ((), (3,)):
        A, b = normal(1, *batch, 13, 8).to(dtype), normal(2, *batch, 13).to(dtype)
        y, X = labels(3, *batch, 8).to(dtype), normal(4, *batch, 8, 5).to(dtype)
        ridge = torch.rand(8, generator=seeded(5)).to(dtype)
        yield f"least squares {batch}", fwnet.LeastSquares(A, b)
        yield f"ridge {batch}", fwnet.LeastSquares(A, b, ridge=ridge)
        yield f"one ridge {batch}", fwnet.LeastSquares(A, b, ridge=0.3)
        yield f"quadratic {batch}", fwnet.Quadratic(A.mT @ A)
        yield f"tilted {batch}", fwnet.Quadratic(A.mT @ A, normal(6, *batch, 8).to(dtype))
        yield f"svm, features {batch}", fwnet.SVMDual(features=X, y=y)
        yield f"svm, kernel {batch}", fwnet.SVMDual(X @ X.mT, y)
    yield "one A", fwnet.LeastSquares(A[0], b)
    yield "one K", fwnet.Quadratic(A[0].mT @ A[0], normal(7, 3, 8).to(dtype))
    yield "one c", fwnet.Quadratic(A.mT @ A, normal(8, 8).to(dtype))


def start_for(case: DomainCase, problem: fwnet.Problem) -> Tensor:
    """A mean of vertices, another for each problem of a batch."""
    assert problem.shape is not None
    costs = normal(9, 4, *problem.shape).to(problem.dtype)
    return case.domain.lmo(costs).dense().mean(0)


def solver_for(case: DomainCase, direction: str, rule: str, compiled: bool) -> fwnet.FrankWolfe:
    return fwnet.FrankWolfe(
        case.domain,
        RULES[rule](),
        direction=DIRECTIONS[direction](),
        max_steps=11,
        tol=1e-3,
        refresh_every=4,
        compiled=compiled,
    )


def slots_for(k: int) -> Iterator[tuple[str, str]]:
    """Of problem k: "toward" with every rule, and every direction with a rule in turn."""
    yield from (("toward", rule) for rule in CHOSEN)
    for direction in ("away", "pairwise", "blended"):
        possible = [rule for rule in CHOSEN if (direction, rule) not in TIED]
        yield direction, possible[k % len(possible)]


@cache
def by_the_loop(case: DomainCase, dtype: torch.dtype) -> list[tuple[Any, ...]]:
    """Problems with slots, starts and results of the plain loop."""
    found: list[tuple[Any, ...]] = []
    for k, (name, problem) in enumerate(problems(dtype)):
        x0 = start_for(case, problem)
        for direction, rule in slots_for(k):
            plain = solver_for(case, direction, rule, compiled=False)(problem, x0)
            found.append((f"{name}, {direction}, {rule}", problem, direction, rule, x0, plain))
    return found


@domains
@both
def test_the_same_steps_as_the_loop(case: DomainCase, dtype: torch.dtype) -> None:
    tol = CLOSE[dtype]
    for what, problem, direction, rule, x0, plain in by_the_loop(case, dtype):
        kept = x0.clone()
        fast = solver_for(case, direction, rule, compiled=True)(problem, x0)
        assert (fast.status, fast.steps) == (plain.status, plain.steps), what
        assert fast.x.dtype == dtype
        assert torch.equal(x0, kept), what
        for a, b in ((fast.x, plain.x), (fast.value, plain.value), (fast.gap, plain.gap)):
            torch.testing.assert_close(a, b, rtol=30 * tol, atol=30 * tol, msg=what)
        for field in ("t", "value", "gap", "step_size"):
            columns = (result.trace.column(field) for result in (fast, plain))
            np.testing.assert_allclose(*columns, rtol=100 * tol, atol=30 * tol, err_msg=what)
        if fast.active is not None:
            torch.testing.assert_close(fast.active.point(), fast.x, rtol=0, atol=tol, msg=what)


# A naive method: every vertex a row, every product in full.


def naive(
    f: tuple[np.ndarray, np.ndarray],
    vertices: np.ndarray,
    weights: np.ndarray,
    direction: str,
    rule: str,
) -> np.ndarray:
    """x after nine steps of minimising ½ xᵀKx + cᵀx over the hull of the vertices."""
    K, c = f
    largest = float(np.linalg.eigvalsh(K)[-1])
    for t in range(9):
        x = vertices.T @ weights
        costs = vertices @ (K @ x + c)
        best, held = int(costs.argmin()), np.flatnonzero(weights > 1e-13)
        worst, local = held[costs[held].argmax()], held[costs[held].argmin()]
        change, limit = np.eye(len(vertices))[best] - weights, 1.0
        here = weights @ costs
        if direction == "pairwise":
            change = np.eye(len(vertices))[best] - np.eye(len(vertices))[worst]
            limit = weights[worst]
        elif direction == "away" and costs[worst] - here > here - costs[best]:
            change = weights - np.eye(len(vertices))[worst]
            limit = weights[worst] / (1 - weights[worst])
        elif direction == "blended" and costs[worst] - costs[local] >= here - costs[best]:
            change = np.eye(len(vertices))[local] - np.eye(len(vertices))[worst]
            limit = weights[worst]
        d = vertices.T @ change
        step = {
            "LineSearch": -(costs @ change) / (d @ K @ d),
            "OverRelaxed": -1.7 * (costs @ change) / (d @ K @ d),
            "OpenLoop": 2 / (t + 3),
            "LogOpenLoop": (2 + np.log(t + 1)) / (t + 2 + np.log(t + 1)),
            "Constant": 0.15,
            "ShortStep": -(costs @ change) / (largest * (d @ d)),
        }[rule]
        weights = weights + min(max(step, 0.0), limit) * change
    return vertices.T @ weights


@domains
@pytest.mark.parametrize("room", [0, 4, 99], ids=["none kept", "four kept", "all kept"])
@pytest.mark.parametrize(("direction", "rule"), SLOTS)
def test_the_same_steps_as_a_naive_method(
    case: DomainCase, direction: str, rule: str, room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled, "_STORE", room * 8 * (13 + 8))
    A, b = normal(10, 13, 8), normal(11, 13)
    K, c = A.T @ A, -A.T @ b
    eye = case.domain.radius * np.eye(8)  # type: ignore[attr-defined]
    vertices = eye if case is SIMPLEX else np.concatenate([eye, -eye])
    weights = np.random.default_rng(0).dirichlet(np.ones(len(vertices)))
    x0 = torch.from_numpy(weights @ vertices)
    atoms = fwnet.ActiveSet(case.domain.lmo(-torch.from_numpy(vertices)), torch.from_numpy(weights))
    for problem in (fwnet.LeastSquares(A, b), fwnet.Quadratic(K, c)):
        solver = fwnet.FrankWolfe(
            case.domain,
            RULES[rule](),
            direction=DIRECTIONS[direction](),
            max_steps=9,
            tol=0.0,
            compiled=True,
        )
        first = solver(problem, x0)
        begun = fwnet.Result(x0, first.value, first.gap, "", 0, first.trace, "", atoms)
        found = solver(problem, begun).x.numpy()
        expected = naive((K.numpy(), c.numpy()), vertices, weights, direction, rule)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


@domains
@pytest.mark.parametrize("direction", DIRECTIONS)
@both
def test_feasible_at_every_iterate_and_the_gap_bounds_the_primal_gap(
    case: DomainCase, direction: str, dtype: torch.dtype
) -> None:
    A, b = normal(12, 13, 8), normal(13, 13)
    variable = cp.Variable(8)
    goal = cp.Minimize(0.5 * cp.sum_squares(A.numpy() @ variable - b.numpy()))
    best = solved(cp.Problem(goal, case.constraints(variable)))
    problem = fwnet.LeastSquares(A.to(dtype), b.to(dtype))
    slack = 1e-9 if dtype == F64 else 1e-4
    for rule in RULES.values():
        for steps in range(14):
            result = fwnet.FrankWolfe(
                case.domain,
                rule(),
                direction=DIRECTIONS[direction](),
                max_steps=steps,
                tol=0.0,
                compiled=True,
            )(problem, start_for(case, problem))
            outside = float(case.violation(result.x[None].double()))
            assert outside <= FEASIBLE[dtype] * case.size
        for record in result.trace:
            assert record.gap >= record.value - best - slack
        assert float(result.value) >= best - slack


@domains
@pytest.mark.parametrize("direction", ["away", "pairwise", "blended"])
def test_reaches_the_optimum_of_each_problem(case: DomainCase, direction: str) -> None:
    A, b = normal(14, 5, 13, 8), normal(15, 5, 13)
    solver = fwnet.FrankWolfe(
        case.domain,
        fwnet.LineSearch(),
        direction=DIRECTIONS[direction](),
        max_steps=3000,
        tol=1e-9,
        compiled=True,
    )
    together = solver(fwnet.LeastSquares(A, b))
    assert together.status == ("converged",) * 5
    for k in range(5):
        variable = cp.Variable(8)
        goal = cp.Minimize(0.5 * cp.sum_squares(A[k].numpy() @ variable - b[k].numpy()))
        best = solved(cp.Problem(goal, case.constraints(variable)))
        assert float(together.value[k]) == pytest.approx(best, abs=1e-8)
        alone = solver(fwnet.LeastSquares(A[k], b[k]))
        assert alone.status == "converged"
        assert float(alone.value) == pytest.approx(best, abs=1e-8)


def test_minimize_and_the_presets_take_it() -> None:
    A, b = normal(16, 30, 12), normal(17, 30)
    problem = fwnet.LeastSquares(A, b)
    slow = fwnet.minimize(problem, fwnet.L1Ball(2.0), tol=1e-9, compiled=False)
    fast = fwnet.minimize(problem, fwnet.L1Ball(2.0), tol=1e-9, compiled=True)
    assert fast.status == slow.status == "converged"
    torch.testing.assert_close(fast.x, slow.x, rtol=0, atol=1e-6)
    for make in (fwnet.AwayFrankWolfe, fwnet.PairwiseFrankWolfe, fwnet.BlendedPairwise):
        result = make(fwnet.Simplex(), tol=1e-8, compiled=True)(problem)
        assert result.status == "converged"
        again = make(fwnet.Simplex(), tol=1e-8, compiled=True)(problem, result)
        assert again.steps == 0


def test_atoms_of_another_domain_are_decomposed_again() -> None:
    problem = fwnet.LeastSquares(normal(18, 13, 8), normal(19, 13))
    small = fwnet.PairwiseFrankWolfe(fwnet.L1Ball(0.4), tol=1e-9)(problem)
    large = fwnet.PairwiseFrankWolfe(fwnet.L1Ball(1.0), tol=1e-9, compiled=True)(problem, small)
    fresh = fwnet.PairwiseFrankWolfe(fwnet.L1Ball(1.0), tol=1e-9, compiled=False)(problem)
    assert large.status == "converged"
    assert float(large.value) == pytest.approx(float(fresh.value), abs=2e-9)


# Running ----------------------------------------------------------------------------------------

PROBLEM = fwnet.LeastSquares(normal(20, 13, 8), normal(21, 13))
BATCH = fwnet.LeastSquares(normal(22, 3, 13, 8), normal(23, 3, 13))


def solver(compiled: bool = True, **options: Any) -> fwnet.FrankWolfe:
    rule = options.pop("rule", None) or fwnet.LineSearch()
    return fwnet.FrankWolfe(SIMPLEX.domain, rule, compiled=compiled, **options)


def test_problems_of_a_batch_stop_on_their_own() -> None:
    fast, plain = (solver(way, tol=0.3, max_steps=500)(BATCH) for way in (True, False))
    assert fast.status == ("converged",) * 3
    assert fast.steps == plain.steps
    assert len(set(plain.steps)) > 1  # type: ignore[arg-type]
    assert len(fast.trace) == len(plain.trace)
    assert isinstance(fast.trace[0].value, Tensor)


def test_the_records_of_a_solve() -> None:
    result = solver(tol=1e-3, max_steps=10**5, refresh_every=50)(PROBLEM)
    assert result.status == "converged"
    assert float(result.gap) <= 1e-3
    assert [record.t for record in result.trace] == list(range(int(result.steps) + 1))  # type: ignore[arg-type]
    assert bool((np.diff(result.trace.column("seconds")) >= 0).all())
    assert result.trace[-1].step_size == 0
    assert result.trace[-1].value == pytest.approx(float(result.value), rel=1e-12)


@pytest.mark.parametrize("chunk", [1, 500, 2**30], ids=["a step", "five steps", "all"])
def test_chunks_do_not_change_the_steps(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    free = solver(tol=0.0, max_steps=40)(PROBLEM)
    monkeypatch.setattr(compiled, "_CHUNK", chunk)
    cut = solver(tol=0.0, max_steps=40)(PROBLEM)
    torch.testing.assert_close(cut.x, free.x, rtol=0, atol=1e-13)
    assert (cut.status, cut.steps, len(cut.trace)) == ("max_steps", 40, 41)


def test_no_steps() -> None:
    assert solver(max_steps=0)(PROBLEM).steps == 0


def test_on_step_stops_where_it_asked_to() -> None:
    for problem in (PROBLEM, BATCH):
        stopped = solver(tol=0.0)(problem, on_step=lambda record: record.t == 7)
        seven = solver(tol=0.0, max_steps=7)(problem)
        assert torch.equal(stopped.x, seven.x)
        assert len(stopped.trace) == 8
        single = problem is PROBLEM
        assert stopped.status == ("stopped" if single else ("stopped",) * 3)
        assert stopped.steps == (7 if single else (7, 7, 7))
    at_once = solver(tol=0.0)(PROBLEM, on_step=lambda record: True)
    assert (at_once.status, at_once.steps) == ("stopped", 0)


def test_max_seconds() -> None:
    """Of steps: what the first use compiles does not count."""
    steps = solver(rule=fwnet.Constant(0.3), tol=0.0, max_steps=10**9, max_seconds=0.2)
    result = steps(PROBLEM)
    assert result.status == "max_seconds"
    assert 0.2 <= result.trace[-1].seconds < 3.0


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """SIGINT raises KeyboardInterrupt, also where a runner of tests ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def press_ctrl_c(stopped: threading.Event) -> None:
    """Twice at most: Python drops an interrupt that meets the callback of a weak reference."""
    for seconds in (0.3, 5.0):
        if not stopped.wait(seconds):
            signal.raise_signal(signal.SIGINT)


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a dropped one
def test_ctrl_c_returns_the_best_iterate() -> None:
    """A real signal, while steps run."""
    rule = fwnet.Constant(0.3)  # f rises and falls
    for make in (fwnet.Toward, fwnet.Pairwise):
        stopped = threading.Event()
        slots: dict[str, Any] = {"rule": rule, "direction": make()}
        solver(**slots, max_steps=3)(PROBLEM)  # compiles
        threading.Thread(target=press_ctrl_c, args=[stopped], daemon=True).start()
        try:
            result = solver(**slots, tol=0.0, max_steps=10**9, max_seconds=30.0)(PROBLEM)
        finally:
            stopped.set()
        assert result.status == "interrupted"
        best = min(record.value for record in result.trace)
        assert float(result.value) <= best + 1e-12
        assert float(SIMPLEX.violation(result.x[None])) <= 1e-10


def test_ctrl_c_in_an_observer() -> None:
    def interrupt(record: fwnet.StepRecord) -> None:
        if record.t == 9:
            raise KeyboardInterrupt

    result = solver(tol=0.0)(PROBLEM, on_step=interrupt)
    assert (result.status, result.steps, len(result.trace)) == ("interrupted", 9, 10)


def test_numbers_that_are_not_finite() -> None:
    huge = normal(24, 3, 13, 8)
    huge[1] *= 1e200
    for fast in (True, False):
        result = solver(fast, max_steps=6, tol=0.0)(fwnet.LeastSquares(huge, normal(25, 3, 13)))
        assert result.status == ("max_steps", "non_finite", "max_steps")
        assert bool(SIMPLEX.domain.contains(result.x).all())
        alone = solver(fast)(fwnet.LeastSquares(huge[1], normal(25, 3, 13)[1]))
        assert (alone.status, alone.steps) == ("non_finite", 0)
        assert bool(SIMPLEX.domain.contains(alone.x))


def test_numbers_that_become_infinite_during_a_run() -> None:
    """Steps of size 1 go from the middle to a vertex where f overflows."""
    K = torch.eye(8, dtype=F64) * torch.linspace(1.0, 2.0, 8).double()
    K[0, 0] = 1e308
    c = torch.zeros(8, dtype=F64)
    c[0] = -1e308
    results = [
        solver(fast, rule=fwnet.Constant(1.0))(fwnet.Quadratic(K, c)) for fast in (True, False)
    ]
    assert {result.status for result in results} == {"non_finite"}
    assert results[0].steps == results[1].steps == 1
    torch.testing.assert_close(results[0].x, results[1].x)


def test_a_solve_that_stalls() -> None:
    """Steps that float32 rounds to 0."""
    problem = fwnet.LeastSquares(normal(26, 30, 8).float(), normal(27, 30).float())
    fast, plain = (solver(way, rule=fwnet.ShortStep(1e60))(problem) for way in (True, False))
    assert fast.status == plain.status == "stalled"
    assert fast.steps == plain.steps


def test_threads_share_a_batch() -> None:
    alone = solver(tol=1e-6, max_steps=300)(BATCH)
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        shared = solver(tol=1e-6, max_steps=300)(BATCH)
    finally:
        torch.set_num_threads(threads)
    torch.testing.assert_close(shared.x, alone.x, rtol=0, atol=1e-12)
    assert shared.steps == alone.steps


def test_data_may_require_gradients_and_be_transposed() -> None:
    A = normal(28, 8, 13).requires_grad_()
    found = solver(max_steps=20)(fwnet.LeastSquares(A.mT, normal(29, 13).requires_grad_()))
    plain = solver(False, max_steps=20)(fwnet.LeastSquares(A.mT, normal(29, 13)))
    torch.testing.assert_close(found.x, plain.x, rtol=0, atol=1e-12)
    assert not found.x.requires_grad


def test_a_start_may_be_transposed() -> None:
    x0 = start_for(SIMPLEX, BATCH).T.contiguous().T
    assert not x0.is_contiguous()
    found = solver(max_steps=5, tol=0.0)(BATCH, x0)
    plain = solver(False, max_steps=5, tol=0.0)(BATCH, x0)
    torch.testing.assert_close(found.x, plain.x, rtol=0, atol=1e-12)


def test_a_start_slot_is_used() -> None:
    class Corner(fwnet.Start):
        def forward(self, problem: fwnet.Problem, domain: fwnet.Domain) -> Tensor:
            assert problem.shape is not None
            return domain.lmo(torch.ones(problem.shape, dtype=problem.dtype)).dense()

    found = solver(start=Corner(), max_steps=5, tol=0.0)(PROBLEM)
    plain = solver(False, start=Corner(), max_steps=5, tol=0.0)(PROBLEM)
    torch.testing.assert_close(found.x, plain.x, rtol=0, atol=1e-12)


# Errors -----------------------------------------------------------------------------------------

EYE = torch.eye(3)
UNSUPPORTED: dict[str, tuple[Callable[[], Any], str]] = {
    "domain": (lambda: fwnet.FrankWolfe(fwnet.L2Ball(), compiled=True), "L2Ball(radius=1.0)"),
    "oracle": (lambda: fwnet.LazyFrankWolfe(fwnet.Simplex(), compiled=True), "Lazy("),
    "direction": (lambda: fwnet.Corrective(fwnet.Simplex(), compiled=True), "Corrections("),
    "second order": (
        lambda: fwnet.PairwiseFrankWolfe(fwnet.Simplex(), second_order=True, compiled=True),
        "Pairwise(second_order=True)",
    ),
    "rule": (lambda: fwnet.FrankWolfe(fwnet.Simplex(), fwnet.Armijo(), compiled=True), "Armijo("),
    "callable": (lambda: fwnet.FrankWolfe(fwnet.Simplex(), lambda t: 1.0, compiled=True), "ByInd"),
    "function": (lambda: solver()(lambda x: x.sum(), torch.full((3,), 0.7)), "Function"),
    "problem": (
        lambda: solver()(fwnet.LogisticRegression(EYE, torch.tensor([1.0, -1.0, 1.0]))),
        "LogisticRegression",
    ),
    "sparse": (lambda: solver()(fwnet.Quadratic(csr(EYE))), "Quadratic with a SparseMap"),
    "matrix-free": (
        lambda: solver()(
            fwnet.LeastSquares(fwnet.MatrixFree(lambda x: x, lambda z: z, (3, 3)), torch.ones(3))
        ),
        "LeastSquares with a MatrixFree",
    ),
}


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_what_has_no_machine_code_raises_a_clear_error(name: str) -> None:
    call, what = UNSUPPORTED[name]
    with pytest.raises(TypeError) as caught:
        call()
    assert str(caught.value).startswith(f"compiled=True has no machine code for {what}")
    assert "dense matrices on the CPU, over Simplex or L1Ball" in str(caught.value)


def test_compiled_is_true_or_false_or_auto() -> None:
    with pytest.raises(ValueError, match="compiled must be \"auto\", True or False; got 'yes'"):
        fwnet.FrankWolfe(fwnet.Simplex(), compiled="yes")  # type: ignore[arg-type]
