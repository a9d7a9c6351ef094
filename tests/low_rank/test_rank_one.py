"""Rank-1 Frank-Wolfe with cached logits: the core's loop does the same, only slower."""

from __future__ import annotations

import pytest
import torch
from tests.low_rank import cases

import fwnet
from fwnet.low_rank import Factors, problems
from fwnet.low_rank.rank_one import RankOneFrankWolfe, line_search


def steps(radius: float, count: int) -> RankOneFrankWolfe:
    start = Factors.zero(cases.D, cases.M, torch.float64)
    generator = torch.Generator().manual_seed(0)
    made = RankOneFrankWolfe(cases.softmax_problem(), radius, start, generator)
    for _ in range(count):
        made.step()
    return made


def test_its_iterates_are_those_of_the_core() -> None:
    X, y = cases.data()
    ours = steps(10.0, 10)
    core = fwnet.SoftmaxRegression(X, y, cases.M)
    oracle = fwnet.PowerIteration(1, generator=torch.Generator().manual_seed(0))
    solver = fwnet.FrankWolfe(
        fwnet.TraceNormBall(10.0), fwnet.LineSearch(), oracle=oracle, max_steps=10, tol=1e-12
    )
    theirs = solver(core)
    torch.testing.assert_close(ours.point().dense(), theirs.x, atol=1e-2, rtol=0)
    value = float(core.value(core.at(ours.point().dense())))
    assert value == pytest.approx(float(theirs.value), rel=1e-3)


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
    monkeypatch.setattr(problems, "_CACHED", 0)
    with pytest.raises(ValueError, match="keeps the logits, 300 x 12 numbers; that is too many"):
        steps(1.0, 0)
