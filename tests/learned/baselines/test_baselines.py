"""Laws of every baseline, against an exact solver and by counting by hand."""

from __future__ import annotations

import math

import pytest
import torch

import fwnet
from fwnet.learned import baselines
from fwnet.learned.baselines import Baseline, Tuned, default_baselines
from fwnet.learned.families import digits_pairs
from fwnet.quadratic.solve import simplex_qp

ALL = {b.name: b.make(b.grid[len(b.grid) // 2]) if isinstance(b, Tuned) else b
       for b in default_baselines()}  # fmt: skip
# Line search alone is the straw man of the comparison, and over-relaxed it is little better.
LOOSE = {"line search FW": 0.3, "over-relaxed FW": 0.3, "mirror descent": 0.02, "c/(t+2)": 0.02,
         "2/(t+2)": 0.02, "Adam softmax": 0.02}  # fmt: skip
# Exact steps between two atoms leave their gradients equal, so that rounding chooses the next one.
TIED = {"pairwise", "second-order pairwise"}


def matrices(batch: int, n: int = 30) -> torch.Tensor:
    generator = torch.Generator().manual_seed(3)
    A = torch.randn(batch, n, n // 2, generator=generator, dtype=torch.float64)
    A[..., 0] += 3  # away from the origin: the minimum is not 0
    return A @ A.mT / n + 0.02 * torch.eye(n, dtype=torch.float64)


def minimum(Q: torch.Tensor) -> torch.Tensor:
    x = simplex_qp(Q)
    return 0.5 * (x.unsqueeze(-2) @ Q @ x.unsqueeze(-1)).squeeze(-1).squeeze(-1)


@pytest.mark.parametrize("name", ALL)
def test_comes_to_the_minimum_from_above(name: str) -> None:
    Q = matrices(3)
    best = minimum(Q)
    run = ALL[name].run(fwnet.Quadratic(Q), fwnet.Simplex(), 400, best * (1 + 1e-4))
    excess = (run.values - best) / best
    assert run.values.shape == (len(run.gradients), 3)
    assert float(excess.min()) > -1e-9  # feasible points only: none below the minimum
    assert float(excess.amin(0).max()) < LOOSE.get(name, 1e-3)


@pytest.mark.parametrize("name", ALL)
def test_single_precision_comes_as_far_as_double(name: str) -> None:
    """Families draw float32: a peer that stalls in it would be a straw man."""
    family = digits_pairs("test", 10.0, 120)
    Q = family.sample(1, torch.Generator().manual_seed(0)).matrix.matrix[0].double()
    best = minimum(Q)
    near = best * (1 + 1e-5)
    runs = [ALL[name].run(fwnet.Quadratic(q), fwnet.Simplex(), 600, near) for q in (Q, Q.float())]
    double, single = (float((run.values.min() - best) / best) for run in runs)
    assert single < 1.5 * double + 2e-5


@pytest.mark.parametrize("name", ALL)
def test_a_batch_equals_a_loop(name: str) -> None:
    """Step by step; where gradients tie and rounding chooses an atom, at the end of the path."""
    Q, tied = matrices(2, 20), name in TIED or "columns" in name
    steps = 300 if tied else 12
    whole = ALL[name].run(fwnet.Quadratic(Q), fwnet.Simplex(), steps)
    for k in range(2):
        one = ALL[name].run(fwnet.Quadratic(Q[k]), fwnet.Simplex(), steps)
        same, single = whole.values[: len(one.values), k], one.values  # it may be solved sooner
        if tied:
            same, single = whole.values[-1, k], one.values[-1]
        torch.testing.assert_close(same, single, rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("name", ALL)
def test_stops_at_the_target_and_at_the_budget(name: str) -> None:
    problem = fwnet.Quadratic(matrices(1)[0])
    run = ALL[name].run(problem, fwnet.Simplex(), 7)
    if len(run.values) < 8:  # a gap of 0: it has solved the problem
        assert float(run.values[-1]) == pytest.approx(float(minimum(matrices(1)[0])), rel=1e-12)
    assert len(run.values) <= 8
    target = run.values[:4].min()
    short = ALL[name].run(problem, fwnet.Simplex(), 7, target)
    assert int(short.first(target)) == len(short.values) - 1 <= 3


def test_products_are_counted() -> None:
    """One product a step for FISTA and Barzilai-Borwein without a rejected step, by hand."""
    calls = 0

    def matvec(x: torch.Tensor) -> torch.Tensor:
        nonlocal calls
        calls += 1
        return Q @ x

    Q = matrices(1)[0]
    shape = (30, 30)
    for baseline in (baselines.SpectralProjectedGradient(), baselines.MirrorDescent(1.0)):
        calls = 0
        free = fwnet.Quadratic(fwnet.MatrixFree(matvec, matvec, shape, torch.float64))
        run = baseline.run(free, fwnet.Simplex(), 10)
        vertex = isinstance(baseline, baselines.SpectralProjectedGradient)  # one column, at first
        assert calls == int(run.gradients[-1]) + vertex


def test_a_second_product_a_step_is_paid() -> None:
    """Second-order pairwise on A needs Aᵀ(A s) besides the gradient: two a step."""
    generator = torch.Generator().manual_seed(0)
    A = torch.randn(8, 12, generator=generator, dtype=torch.float64)
    problem = fwnet.LeastSquares(A, torch.randn(8, generator=generator, dtype=torch.float64))
    second = ALL["second-order pairwise"].run(problem, fwnet.Simplex(), 5)
    plain = ALL["pairwise"].run(problem, fwnet.Simplex(), 5)
    assert len(second.values) == len(plain.values) == 6
    assert int(second.gradients[-1] - plain.gradients[-1]) == 5  # one more for each step


def test_adam_matches_torch() -> None:
    """The reparameterised objective by torch.optim.Adam and autograd."""
    Q = matrices(1)[0]
    logits = torch.zeros(30, dtype=torch.float64, requires_grad=True)
    adam = torch.optim.Adam([logits], lr=0.1, eps=1e-16)
    values = []
    for _ in range(20):
        x = logits.softmax(-1)
        value = 0.5 * x @ Q @ x
        values.append(value.item())
        adam.zero_grad()
        value.backward()
        adam.step()
    run = baselines.AdamSoftmax(0.1).run(fwnet.Quadratic(Q), fwnet.Simplex(), 19)
    torch.testing.assert_close(
        run.values, torch.tensor(values, dtype=torch.float64), rtol=1e-5, atol=0
    )


def test_tuning_finds_the_constant_that_is_best() -> None:
    class Slow(Baseline):
        name = "slow"

        def __init__(self, steps: float) -> None:
            self.steps = int(steps)

        def follow(self, problem, domain, max_steps, report) -> None:  # type: ignore[no-untyped-def]
            it = problem.at(domain.start(tuple(problem.shape), problem.dtype))
            for t in range(max_steps + 1):
                problem.gradient(it)
                if report(torch.tensor([0.0 if t >= self.steps else 1.0])):
                    return

    problem = fwnet.Quadratic(matrices(1, 5))
    chosen, choice = baselines.tune(
        Tuned(Slow, (30.0, 10.0, 99.0)), [problem], [torch.tensor([[0.5]])], fwnet.Simplex(), 50
    )
    assert choice.constant == 10.0
    assert isinstance(chosen, Slow)
    assert choice.scores[30.0] == pytest.approx(math.log10(31))
    assert choice.scores[99.0] == pytest.approx(math.log10(500))  # never: ten times the budget


def test_a_method_says_where_it_does_not_fit() -> None:
    problem = fwnet.Quadratic(torch.eye(4))
    with pytest.raises(TypeError, match="Adam softmax does not fit Quadratic over L1Ball"):
        baselines.AdamSoftmax().run(problem, fwnet.L1Ball(), 3)
    with pytest.raises(TypeError, match="a controller must be a StepRule"):
        baselines.as_solver("fast", fwnet.Simplex())  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ALL)
def test_called_as_a_solver_it_returns_a_certified_point(name: str) -> None:
    K, domain = matrices(2), fwnet.Simplex()
    problem, method = fwnet.Quadratic(K), ALL[name]
    result = method(problem, domain, max_steps=30)
    assert bool(domain.contains(result.x).all())
    values = 0.5 * torch.einsum("bi,bij,bj->b", result.x, K, result.x)
    torch.testing.assert_close(result.value, values)
    torch.testing.assert_close(torch.as_tensor(result.trace[-1].value).to(values), values)
    assert bool((result.value - minimum(K) <= result.gap + 1e-9).all())
    assert max(result.steps) <= 30


def test_a_method_that_reports_no_points_says_so_when_it_is_called() -> None:
    class Silent(Baseline):
        name = "silent"

        def follow(self, problem, domain, max_steps, report):  # type: ignore[no-untyped-def]
            while not report(1.0):
                pass

    problem = fwnet.Quadratic(torch.eye(3))
    assert len(Silent().run(problem, fwnet.Simplex(), 4).values) == 5
    with pytest.raises(TypeError, match="must report its points too"):
        Silent()(problem, fwnet.Simplex(), 4)


def test_the_papers_lagrangian_has_a_constant_multiplier() -> None:
    """θ moves by Adam on ½ θᵀKθ − λ Σθ, clipped at 0: torch's own Adam on that objective."""
    K, rate, multiplier = matrices(1)[0], 0.5, 0.7
    theta = torch.full((30,), 1 / 30, dtype=K.dtype, requires_grad=True)
    adam = torch.optim.Adam([theta], rate / 30, eps=0.0)
    expected = []
    for _ in range(20):
        x = theta.detach() / theta.detach().sum()
        expected.append(0.5 * float(x @ K @ x))
        adam.zero_grad()
        (0.5 * theta @ K @ theta - multiplier * theta.sum()).backward()
        adam.step()
        with torch.no_grad():
            theta.clamp_(min=0)
    method = baselines.AdamLagrangian(rate, multiplier)
    found = method.run(fwnet.Quadratic(K), fwnet.Simplex(), 19).values
    assert found.tolist() == pytest.approx(expected, rel=1e-5)
