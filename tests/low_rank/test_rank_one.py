"""Rank-1 Frank-Wolfe with cached logits: dense matrices do the same, only slower."""

from __future__ import annotations

import pytest
import torch
from scipy.optimize import minimize_scalar

import fwnet
from fwnet.estimators.low_rank import rank_one
from fwnet.estimators.low_rank.rank_one import RankOneFrankWolfe, line_search
from fwnet.low_rank import Factors
from low_rank import cases


def steps(radius: float, count: int) -> RankOneFrankWolfe:
    start = Factors.zero(cases.D, cases.M, torch.float64)
    generator = torch.Generator().manual_seed(0)
    made = RankOneFrankWolfe(cases.softmax_problem(), radius, start, generator)
    for _ in range(count):
        made.step()
    return made


def test_its_iterates_are_those_of_dense_matrices() -> None:
    X, y = cases.data()

    def f(W: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(X @ W, y)

    W = torch.zeros(cases.D, cases.M, dtype=torch.float64)
    v = torch.randn(cases.M, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    u = torch.func.grad(f)(W) @ (v / v.norm())
    for _ in range(10):
        G = torch.func.grad(f)(W)
        after = G @ (v / v.norm())
        v = G.mT @ (u / u.norm())
        vertex = -10.0 * torch.outer(u / u.norm(), v / v.norm())
        found = minimize_scalar(
            lambda g, a=W, b=vertex: float(f(a + g * (b - a))), bounds=(0, 1), method="bounded"
        )
        W, u = W + found.x * (vertex - W), after
    ours = steps(10.0, 10)
    torch.testing.assert_close(ours.point().dense(), W, atol=1e-2, rtol=0)
    assert float(f(ours.point().dense())) == pytest.approx(float(f(W)), rel=1e-3)


def test_its_value_is_in_the_bracket_of_the_core() -> None:
    X, y = cases.data()
    core = fwnet.SoftmaxRegression(X, y, cases.M)
    ball = fwnet.TraceNormBall(10.0)
    best = fwnet.FrankWolfe(ball, fwnet.LineSearch(), max_steps=200, tol=1e-4)(core)
    assert best.value - best.gap <= steps(10.0, 300).value <= best.value


def test_logits_and_atoms_stay_together() -> None:
    X, _ = cases.data()
    ours = steps(10.0, 150)  # recompressed twice
    ours.find_vertex()  # arrives at the last step's end
    W = ours.point()
    torch.testing.assert_close(ours.logits, X @ W.dense(), atol=1e-5, rtol=0)
    assert float(W.s.sum()) <= 10.0
    assert sum(part.shape[1] for part in ours.left) <= 64 + cases.M


def test_the_line_search_finds_the_minimum() -> None:
    problem, generator = cases.softmax_problem(), torch.Generator().manual_seed(3)
    here = torch.randn(cases.N, cases.M, generator=generator, dtype=torch.float64)
    for scale in (0.1, 3.0, 100.0):
        ahead = -here + scale * torch.nn.functional.one_hot(problem.loss.y, cases.M)
        found = line_search(problem.loss, here, ahead)
        grid = torch.linspace(0, 1, 2001)
        values = [problem.loss.value(here + float(g) * ahead, slice(None)) for g in grid]
        reached = problem.loss.value(here + found * ahead, slice(None))
        assert reached <= min(values) + 1e-4 * values[0]
    assert line_search(problem.loss, here, torch.zeros_like(here)) == 0.0


def test_too_many_logits_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank_one, "_KEPT", 0)
    with pytest.raises(ValueError, match="keeps the logits, 300 x 12 numbers; that is too many"):
        steps(1.0, 0)
