"""Oracles: exact limits, soft vertices, true estimates."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from torch import Tensor

import fwnet
from cases import (
    DOMAINS,
    F64,
    L1,
    SIMPLEX,
    TRACE_NORM,
    DomainCase,
    csr,
    normal,
    problem_for,
    seeded,
    sparse_like,
    spd,
    walk,
)
from fwnet.numerics.singular import power_iteration
from fwnet.oracles import Linearization, linearize

X = normal(1, 20, 6)
LABELS = torch.randint(0, 4, (20,), generator=seeded(2))
SOFTMAX = fwnet.SoftmaxRegression(X, LABELS)
BALL = fwnet.TraceNormBall(2.5)


def ask(
    oracle: fwnet.Oracle, problem: fwnet.Problem, domain: fwnet.Domain, x: Tensor, steps: int = 1
) -> Linearization:
    it = problem.at(x)
    state: Any = oracle.init(problem, domain, it)
    for _ in range(steps):
        lin, state = oracle(problem, domain, it, state)
    return lin


def simplex_point(seed: int, n: int, radius: float = 1.0) -> Tensor:
    raw = torch.rand(n, dtype=F64, generator=seeded(seed))
    return radius * raw / raw.sum()


@pytest.mark.parametrize("case", DOMAINS, ids=str)
def test_exact_is_the_true_linearisation(case: DomainCase) -> None:
    problem = problem_for(case)
    x = case.domain.lmo(normal(3, 4, *case.shape)).dense().mean(0)
    lin = ask(fwnet.Exact(), problem, case.domain, x)
    gradient = lin.gradient if isinstance(lin.gradient, Tensor) else lin.gradient.dense()
    assert lin.exact
    vertex = lin.vertex.dense()
    assert float(lin.decrease) == pytest.approx(float((gradient * (x - vertex)).sum()), rel=1e-10)
    others = case.domain.lmo(normal(4, 50, *case.shape)).dense()
    assert bool(((gradient * (x - others)).flatten(1).sum(-1) <= lin.decrease + 1e-10).all())


# Softmin ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("radius", [1.0, 2.1])
@pytest.mark.parametrize("relative", [False, True])
def test_softmin_formula(radius: float, relative: bool) -> None:
    domain, problem = fwnet.Simplex(radius), fwnet.Quadratic(spd(5, 6, 4), normal(6, 6))
    x = simplex_point(7, 6, radius)
    gradient = spd(5, 6, 4) @ x + normal(6, 6)
    for t in range(4):
        oracle = fwnet.Softmin(3.0, relative=relative, growth=0.5)
        lin = ask(oracle, problem, domain, x, steps=t + 1)
        scale = abs(float(gradient @ x)) / radius if relative else 1.0
        weights = torch.exp(-3.0 * (t + 1) ** 0.5 * gradient / scale)
        wanted = radius * weights / weights.sum()
        torch.testing.assert_close(lin.vertex.dense(), wanted, rtol=1e-12, atol=1e-12)
        assert not lin.exact
        assert bool(domain.contains(lin.vertex.dense(), 1e-12))
        assert float(lin.decrease) == pytest.approx(float(gradient @ (x - wanted)), rel=1e-10)
        exact = float(gradient @ x) - radius * float(gradient.min())
        assert float(lin.decrease) <= exact + 1e-12  # an estimate from below


def test_softmin_limit_is_the_exact_oracle() -> None:
    problem, domain = fwnet.Quadratic(spd(5, 6, 4), normal(6, 6)), fwnet.Simplex(2.1)
    x = simplex_point(7, 6, 2.1)
    exact = linearize(problem, domain, problem.at(x))
    infinite = ask(fwnet.Softmin(math.inf), problem, domain, x)
    assert torch.equal(infinite.vertex.dense(), exact.vertex.dense())
    assert torch.equal(infinite.decrease, exact.decrease)
    sharp = ask(fwnet.Softmin(1e6), problem, domain, x)
    torch.testing.assert_close(sharp.vertex.dense(), exact.vertex.dense(), rtol=0, atol=1e-12)
    annealed = ask(fwnet.Softmin(1.0, growth=8.0), problem, domain, x, steps=30)
    torch.testing.assert_close(annealed.vertex.dense(), exact.vertex.dense(), rtol=0, atol=1e-9)
    solvers = [
        fwnet.FrankWolfe(domain, max_steps=30, tol=0.0, oracle=oracle, compiled=False)
        for oracle in (fwnet.Softmin(math.inf), fwnet.Exact())
    ]
    soft, hard = (solver(problem, x) for solver in solvers)
    assert torch.equal(soft.x, hard.x)


def test_relative_softmin_has_no_units() -> None:
    K, x, domain = spd(8, 6, 6), simplex_point(9, 6), fwnet.Simplex()
    answers = [
        ask(fwnet.Softmin(5.0, relative=True), fwnet.Quadratic(s * K), domain, x).vertex.dense()
        for s in (1.0, 1e-6, 1e6)
    ]
    torch.testing.assert_close(answers[0], answers[1])
    torch.testing.assert_close(answers[0], answers[2])
    stuck = ask(fwnet.Softmin(5.0), fwnet.Quadratic(1e-6 * K), domain, x).vertex.dense()
    torch.testing.assert_close(stuck, torch.full((6,), 1 / 6, dtype=F64), rtol=1e-4, atol=0)
    zero = fwnet.Quadratic(torch.zeros(6, 6, dtype=F64))  # no unit to measure in
    assert bool(
        torch.isfinite(ask(fwnet.Softmin(relative=True), zero, domain, x).vertex.dense()).all()
    )


def test_annealed_relative_softmin_converges_and_certifies() -> None:
    problem = problem_for(SIMPLEX)
    solver = fwnet.FrankWolfe(
        SIMPLEX.domain,
        oracle=fwnet.Softmin(5.0, relative=True, growth=1.0),
        max_steps=2000,
        tol=0.5,
    )
    result = solver(problem)
    assert result.status == "converged"
    true = linearize(problem, SIMPLEX.domain, problem.at(result.x))
    assert float(result.gap) == pytest.approx(float(true.decrease), rel=1e-9)
    known = [record.gap for record in result.trace if not math.isnan(record.gap)]
    assert len(known) < len(result.trace)


# The trace-norm ball ----------------------------------------------------------------------------


def true_pair(x: Tensor) -> tuple[Tensor, Tensor]:
    gradient = SOFTMAX.gradient(SOFTMAX.at(x)).dense()
    u, s, vt = torch.linalg.svd(gradient)
    return -2.5 * torch.outer(u[:, 0], vt[0]), s


def test_power_iteration_converges_to_the_svd() -> None:
    x = 0.3 * normal(10, 6, 4)
    wanted, s = true_pair(x)
    lin = ask(fwnet.PowerIteration(500), SOFTMAX, BALL, x)
    torch.testing.assert_close(lin.vertex.dense(), wanted, rtol=0, atol=1e-8)
    assert not lin.exact
    gradient = SOFTMAX.gradient(SOFTMAX.at(x)).dense()
    assert float(lin.decrease) == pytest.approx(float((gradient * x).sum() + 2.5 * s[0]), rel=1e-10)


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_few_power_iterations_stay_in_the_ball_and_underestimate(steps: int) -> None:
    for seed in range(10):
        x = 0.3 * normal(20 + seed, 6, 4)
        _, s = true_pair(x)
        lin = ask(fwnet.PowerIteration(steps, generator=seeded(seed)), SOFTMAX, BALL, x)
        vertex = lin.vertex.dense()
        assert float(torch.linalg.svdvals(vertex).sum()) == pytest.approx(2.5, rel=1e-12)
        gradient = SOFTMAX.gradient(SOFTMAX.at(x)).dense()
        true_gap = float((gradient * x).sum() + 2.5 * s[0])
        assert float(lin.decrease) <= true_gap + 1e-12
        assert float(lin.decrease) == pytest.approx(
            float((gradient * (x - vertex)).sum()), rel=1e-9
        )


def test_warm_start_improves_from_call_to_call() -> None:
    x = 0.3 * normal(10, 6, 4)
    wanted, _ = true_pair(x)
    warm = ask(fwnet.PowerIteration(1), SOFTMAX, BALL, x, steps=400)
    torch.testing.assert_close(warm.vertex.dense(), wanted, rtol=0, atol=1e-7)
    first = ask(fwnet.PowerIteration(1, warm_start=False), SOFTMAX, BALL, x)
    cold = ask(fwnet.PowerIteration(1, warm_start=False), SOFTMAX, BALL, x, steps=5)
    assert torch.equal(first.vertex.dense(), cold.vertex.dense())


def starts_of(oracle: fwnet.PowerIteration, count: int) -> list[Tensor]:
    """The v that each of some calls begins with."""
    state, gradient = oracle.begin(BALL, normal(10, 6, 4)), normal(13, 6, 4)
    found = []
    for _ in range(count):
        found.append(state[0] if isinstance(state, tuple) else state)
        state = oracle.answer(BALL, gradient, state).state
    return found


def test_where_power_iterations_begin() -> None:
    fixed = starts_of(fwnet.PowerIteration(2, start="fixed"), 3)
    assert all(torch.equal(v, fixed[0]) for v in fixed)
    assert torch.equal(fixed[1], starts_of(fwnet.PowerIteration(2, warm_start=False), 2)[1])
    oracle = fwnet.PowerIteration(2, start="random")
    random = starts_of(oracle, 40)
    torch.testing.assert_close(torch.stack(random).norm(dim=-1), torch.ones(40, dtype=F64))
    assert float(torch.stack(random).mean(0).abs().max()) < 0.3  # in all directions
    assert all(not torch.equal(a, b) for a, b in itertools.combinations(random, 2))
    assert all(map(torch.equal, random, starts_of(oracle, 40)))  # a solve repeats
    own = starts_of(fwnet.PowerIteration(2, generator=seeded(7), start="random"), 3)
    assert not torch.equal(own[0], random[0])
    assert not torch.equal(own[0], own[1])
    with pytest.raises(
        ValueError, match=r"\(start=...\) must be one of warm, fixed, random; got 3"
    ):
        fwnet.PowerIteration(start=3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"\(warm_start=...\) must be True or False; got tensor"):
        fwnet.PowerIteration(warm_start=torch.ones(2))  # type: ignore[arg-type]


def test_the_number_of_power_iterations_may_grow() -> None:
    asked = []

    def steps(t: int) -> int:
        asked.append(t)
        return 1 + t

    oracle = fwnet.PowerIteration(steps, start="fixed")
    state, gradient = oracle.begin(BALL, normal(10, 6, 4)), normal(13, 6, 4)
    v = state[0]
    for t in range(4):
        vertex, inner, state = oracle.answer(BALL, gradient, state)
        u, sigma, w = power_iteration(gradient, v, 1 + t)
        torch.testing.assert_close(vertex.dense(), -2.5 * torch.outer(u, w))
        assert float(inner) == pytest.approx(-2.5 * float(sigma))
    assert asked == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="at t = 0 must be a whole number of at least 1; got 0"):
        ask(fwnet.PowerIteration(lambda t: t), SOFTMAX, BALL, normal(10, 6, 4))
    solver = fwnet.FrankWolfe(
        BALL, oracle=fwnet.PowerIteration(lambda t: 2 + t.bit_length(), start="random"), tol=0.05
    )
    assert solver(SOFTMAX).status == "converged"


def test_soft_trace_norm_and_its_ends() -> None:
    x = 0.3 * normal(10, 6, 4)
    rank1, _ = true_pair(x)
    gradient = SOFTMAX.gradient(SOFTMAX.at(x)).dense()
    u, s, vt = torch.linalg.svd(gradient, full_matrices=False)
    sharp = ask(fwnet.SoftTraceNorm(1e4), SOFTMAX, BALL, x).vertex.dense()
    torch.testing.assert_close(sharp, rank1, rtol=0, atol=1e-10)
    assert float(s[3]) < 1e-15  # rows of P − Y sum to 0: the last direction has no sign
    flat = ask(fwnet.SoftTraceNorm(0.0), SOFTMAX, BALL, x).vertex.dense()
    torch.testing.assert_close(flat, -2.5 / 3 * u[:, :3] @ vt[:3])
    for beta in (0.0, 1.0, 10.0):
        lin = ask(fwnet.SoftTraceNorm(beta), SOFTMAX, BALL, x)
        vertex = lin.vertex.dense()
        assert float(torch.linalg.svdvals(vertex).sum()) == pytest.approx(2.5, rel=1e-12)
        shares = torch.softmax(beta * s[:3] / s[0], 0)
        torch.testing.assert_close(vertex, -2.5 * (u[:, :3] * shares) @ vt[:3])
        assert float(lin.decrease) == pytest.approx(
            float((gradient * (x - vertex)).sum()), rel=1e-9
        )
        assert not lin.exact


def test_soft_trace_norm_of_full_rank_is_the_spectral_oracle_at_its_end() -> None:
    problem, x = problem_for(TRACE_NORM), 0.1 * normal(19, 4, 3)
    flat = ask(fwnet.SoftTraceNorm(0.0), problem, TRACE_NORM.domain, x).vertex.dense()
    gradient = problem.gradient(problem.at(x)).dense()
    torch.testing.assert_close(flat, fwnet.SpectralBall(1.3 / 3).lmo(gradient).dense())
    nothing = problem.at(normal(32, 4, 3))  # the target: gradient 0
    lin = ask(fwnet.SoftTraceNorm(1.0), problem, TRACE_NORM.domain, nothing.x)
    assert float(torch.linalg.svdvals(lin.vertex.dense()).sum()) == pytest.approx(1.3, rel=1e-12)


@pytest.mark.parametrize("oracle", [fwnet.PowerIteration(3), fwnet.SoftTraceNorm(20.0)])
def test_matrix_oracles_in_a_batch(oracle: fwnet.Oracle) -> None:
    Xs = normal(11, 3, 12, 5)
    ys = torch.randint(0, 4, (3, 12), generator=seeded(12))
    solver = fwnet.FrankWolfe(fwnet.TraceNormBall(1.5), oracle=oracle, max_steps=4)
    *_, last = (there for *_, there in walk(solver, fwnet.SoftmaxRegression(Xs, ys, 4), None, 4))
    for i in range(3):
        # one problem draws the first v of the batch: compare where the start does not matter
        one = fwnet.SoftmaxRegression(Xs[i], ys[i], 4)
        if isinstance(oracle, fwnet.SoftTraceNorm):
            *_, alone = (there for *_, there in walk(solver, one, None, 4))
            torch.testing.assert_close(last.x[i], alone.x, rtol=0, atol=1e-9)
        assert float(torch.linalg.svdvals(last.x[i]).sum()) <= 1.5 + 1e-10


# Lazy, stochastic, blocks -----------------------------------------------------------------------


def test_lazy_calls_the_oracle_rarely_and_its_gap_is_true() -> None:
    calls = 0

    class Counted(fwnet.Domain):
        inner = L1.domain

        def vertex(self, cost: Any) -> Any:
            nonlocal calls
            calls += 1
            return self.inner.vertex(cost)

        def contains(self, x: Tensor, tol: float | None = None) -> Tensor:
            return self.inner.contains(x, tol)

        def diameter(self, shape: tuple[int, ...]) -> float:
            return self.inner.diameter(shape)

    problem = problem_for(L1)
    solver = fwnet.LazyFrankWolfe(Counted(), max_steps=500, tol=0.0, check_every=1000)
    steps = list(walk(solver, problem, torch.zeros(8, dtype=F64), 500))
    assert calls <= 150
    for it, lin, *_ in steps[::25]:
        true = linearize(problem, L1.domain, it)
        assert float(lin.decrease) <= float(true.decrease) + 1e-10
        if lin.exact:
            assert float(lin.decrease) == pytest.approx(float(true.decrease), rel=1e-9)
        else:
            assert float(lin.decrease) > 0
    lean = fwnet.LazyFrankWolfe(L1.domain, memory=2, max_steps=2000, tol=1e-1)(problem)
    assert lean.status == "converged"


def test_stochastic_averages_its_gradients() -> None:
    A, b = normal(13, 12, 5), normal(14, 12)
    problem, domain = fwnet.LeastSquares(A, b), fwnet.L1Ball(1.0)
    x = torch.zeros(5, dtype=F64)
    full = ask(fwnet.Stochastic(12), problem, domain, x, steps=3)
    assert isinstance(full.gradient, Tensor)
    torch.testing.assert_close(full.gradient, A.T @ -b)
    assert not full.exact
    noisy = [ask(fwnet.Stochastic(2, seeded(i)), problem, domain, x).gradient for i in range(400)]
    mean = torch.stack([g for g in noisy if isinstance(g, Tensor)]).mean(0)
    spread = torch.stack([g for g in noisy if isinstance(g, Tensor)]).std(0) / 20
    assert bool(((mean - A.T @ -b).abs() <= 4.5 * spread).all())
    many = ask(fwnet.Stochastic(2), problem, domain, x, steps=300)
    assert isinstance(many.gradient, Tensor)
    one = torch.stack([(g - A.T @ -b).norm() for g in noisy if isinstance(g, Tensor)]).mean()
    assert float((many.gradient - A.T @ -b).norm()) < 0.5 * float(one)


def test_stochastic_draws_anew_at_every_step_and_solve() -> None:
    problem = fwnet.LeastSquares(normal(13, 12, 5), normal(14, 12))
    generator = seeded(3)
    solver = fwnet.StochasticFrankWolfe(
        fwnet.L1Ball(1.0), batch_size=2, generator=generator, max_steps=6, tol=0.0
    )
    first, second = solver(problem), solver(problem)
    assert not torch.equal(first.x, second.x)
    fixed = fwnet.StochasticFrankWolfe(fwnet.L1Ball(1.0), batch_size=2, max_steps=6, tol=0.0)
    assert torch.equal(fixed(problem).x, fixed(problem).x)


def test_blocks_visit_every_block_once_a_round() -> None:
    domain = fwnet.Product([fwnet.Simplex()] * 4, [(2,), (3,), (1,), (2,)])
    problem = fwnet.LeastSquares(normal(15, 10, 8), normal(16, 10))
    for shuffle in (True, False):
        solver = fwnet.BlockCoordinateFrankWolfe(domain, shuffle=shuffle)
        starts = []
        for it, lin, move, _, there in walk(solver, problem, None, 24):
            block = next(b for b in domain.blocks if b.start == lin.vertex.start)
            starts.append(block.start)
            changed = (there.x != it.x).nonzero().flatten().tolist()
            assert all(block.start <= i < block.stop for i in changed)
            gradient = problem.gradient(it)[block.start : block.stop]
            assert float(move.slope) == pytest.approx(-float(lin.decrease))
            here = it.x[block.start : block.stop]
            wanted = float(gradient @ here - gradient.min())
            assert float(lin.decrease) == pytest.approx(wanted, rel=1e-9, abs=1e-12)
        rounds = [starts[i : i + 4] for i in range(0, 24, 4)]
        assert all(sorted(one) == [0, 2, 5, 6] for one in rounds)
        assert (len({tuple(one) for one in rounds}) > 1) == shuffle


@pytest.mark.parametrize("form", ["csr", "free", "dense"])
def test_blocks_of_any_matrix(form: str) -> None:
    from cases import forms

    domain = fwnet.Product([fwnet.Simplex()] * 2, [(4,), (4,)])
    problem = fwnet.LeastSquares(forms(normal(17, 10, 8))[form], normal(18, 10), 0.1)
    result = fwnet.BlockCoordinateFrankWolfe(domain, max_steps=1000, tol=1e-2)(problem)
    assert result.status == "converged"


def test_a_soft_oracle_in_the_trace_norm_ball_solves() -> None:
    for oracle in (fwnet.SoftTraceNorm(100.0), fwnet.PowerIteration(1)):
        solver = fwnet.FrankWolfe(
            TRACE_NORM.domain, fwnet.LineSearch(), oracle=oracle, tol=5e-2, max_steps=1000
        )
        assert solver(problem_for(TRACE_NORM)).status == "converged"


def test_stochastic_on_sparse_rows_equals_dense() -> None:
    A, b = sparse_like(61, 40, 6), normal(62, 40)
    solver = fwnet.StochasticFrankWolfe(fwnet.Simplex(), batch_size=8, max_steps=20)
    dense, sparse = (solver(fwnet.LeastSquares(matrix, b)) for matrix in (A, csr(A)))
    torch.testing.assert_close(dense.x, sparse.x)


@pytest.mark.parametrize("domain", [fwnet.SpectralBall(2.5), BALL], ids=repr)
def test_newton_schulz_answers_with_the_polar_factor(domain: fwnet.Domain) -> None:
    lin = ask(fwnet.NewtonSchulz(12), SOFTMAX, domain, torch.zeros(6, 4, dtype=F64))
    G = lin.gradient if isinstance(lin.gradient, Tensor) else lin.gradient.dense()
    u, s, vt = torch.linalg.svd(G, full_matrices=False)
    rank = int((s > 1e-10 * s[0]).sum())  # errors sum to 0 in every row: one direction is lost
    share = 1 if isinstance(domain, fwnet.SpectralBall) else 4
    expected = -2.5 / share * (u[:, :rank] @ vt[:rank])
    torch.testing.assert_close(lin.vertex.dense(), expected, rtol=0, atol=1e-8)
    assert float(lin.decrease) == pytest.approx(2.5 / share * float(s.sum()), rel=1e-8)
    assert not lin.exact


def test_newton_schulz_needs_a_ball_of_singular_values() -> None:
    problem = fwnet.LeastSquares(torch.eye(3, dtype=F64), torch.ones(3, dtype=F64))
    with pytest.raises(TypeError, match="supports only SpectralBall and TraceNormBall; got L1"):
        ask(fwnet.NewtonSchulz(), problem, fwnet.L1Ball(), torch.zeros(3, dtype=F64))


def test_a_relative_softmin_where_the_gradient_has_no_size_is_the_exact_oracle() -> None:
    """⟨g, x⟩ = 0 at a vertex whose entry of g is 0, so that β is infinite."""
    problem = fwnet.Quadratic(torch.zeros(3, 3).double(), torch.tensor([0.0, 2.0, -3.0]).double())
    it = problem.at(torch.tensor([1.0, 0.0, 0.0]).double())
    oracle = fwnet.Softmin(5.0, relative=True)
    lin, _ = oracle(problem, fwnet.Simplex(), it, oracle.init(problem, fwnet.Simplex(), it))
    assert lin.vertex.dense().tolist() == [0.0, 0.0, 1.0]
