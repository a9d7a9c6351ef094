"""Gradients that move with the steps, by those kept at vertices: true, and never dearer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import fwnet
from cases import normal
from fwnet.solvers.compiled import forward, steps, store

STEPS = 3000
DIRECTIONS = [fwnet.Toward, fwnet.Away, fwnet.Pairwise, fwnet.Blended]
directions = pytest.mark.parametrize("direction", DIRECTIONS, ids=lambda make: make.__name__)


@pytest.fixture(params=["machine code", "NumPy"], autouse=True)
def _code(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "NumPy":
        monkeypatch.setattr(forward, "_machine_code", lambda: steps)
    for name in ("_ROWS", "_PRODUCT", "_NUMPY_PRODUCT"):
        monkeypatch.setattr(forward, name, 1)


def ill_conditioned() -> Tensor:
    left, right = (torch.linalg.qr(normal(k, 40, 30))[0] for k in (1, 2))
    return left * 10.0 ** -torch.linspace(0.0, 8.0, 30).double() @ right[:30].T


def badly_scaled() -> Tensor:
    return normal(3, 40, 30) * 10.0 ** torch.linspace(-3.0, 3.0, 30).double()


def solve(problem: fwnet.Problem, direction: Callable[[], Any], **options: Any) -> fwnet.Result:
    domain = options.pop("domain", fwnet.Simplex())
    rule = options.pop("rule", fwnet.LineSearch())
    options = {"tol": 0.0, "compiled": True} | options
    return fwnet.FrankWolfe(domain, rule, direction=direction(), **options)(problem)


@directions
@pytest.mark.parametrize("room", [4, 99], ids=["four kept", "all kept"])
@pytest.mark.parametrize("make", [ill_conditioned, badly_scaled])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
def test_gaps_after_long_runs(
    make: Callable[[], Tensor],
    dtype: torch.dtype,
    room: int,
    direction: Callable[[], Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """3000 steps on one gradient that only moves; the gap where they end, in long double."""
    monkeypatch.setattr(forward, "_FIRST", 10**6)
    monkeypatch.setattr(forward, "_STORE", room * (40 + 30) * dtype.itemsize)
    A = make()
    b = A @ torch.linspace(0.0, 1.0 / 15, 30).double() + 0.1 * A.abs().mean() * normal(3, 40)
    A, b = A.to(dtype), b.to(dtype)
    for rule in (fwnet.LineSearch(), fwnet.Constant(0.15)):
        options: dict[str, Any] = {"rule": rule, "refresh_every": 10**6}
        run = solve(fwnet.LeastSquares(A, b), direction, max_steps=STEPS, **options)
        last = int(run.steps) - 1
        there = solve(fwnet.LeastSquares(A, b), direction, max_steps=last, **options)
        exact, x, target = (t.numpy().astype(np.longdouble) for t in (A, there.x, b))
        gradient = exact.T @ (exact @ x - target)
        gap = float(gradient @ x - gradient.min())
        longest = float(A.double().norm(dim=0).max())
        scale = torch.finfo(dtype).eps * longest * (longest + float(b.double().norm()))
        assert run.trace.column("gap")[last] == pytest.approx(gap, abs=100 * scale)
        assert float(there.gap) == pytest.approx(gap, abs=10 * scale)  # the certificate


@directions
@pytest.mark.parametrize("room", [0, 4, 99], ids=["none kept", "four kept", "all kept"])
def test_a_step_takes_one_product_at_most(
    direction: Callable[[], Any], room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a vertex; without a store a step takes exactly one."""
    taken: list[int] = []
    plain = steps.adjoint

    def counted(A: Any, z: Any, product: Any) -> None:
        taken.append(1)
        plain(A, z, product)

    monkeypatch.setattr(forward, "_machine_code", lambda: steps)
    for module in (steps, store):
        monkeypatch.setattr(module, "adjoint", counted)
    monkeypatch.setattr(forward, "_STORE", room * (40 + 30) * 8)
    problem = fwnet.LeastSquares(normal(4, 40, 30), normal(5, 40))
    for domain in (fwnet.Simplex(), fwnet.L1Ball(0.5)):
        taken.clear()
        run = solve(problem, direction, domain=domain, max_steps=100, tol=1e-6)
        if room == 0:
            assert len(taken) >= int(run.steps)
        assert len(taken) <= int(run.steps) + 1
        if room == 99:
            assert len(taken) <= 2 * 60 + 1  # each vertex twice, and the first gradient


def test_the_memory_of_the_store_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forward, "_STORE", 10**5)
    problem = fwnet.LeastSquares(normal(6, 5, 40, 300), normal(7, 5, 40))
    solver = fwnet.PairwiseFrankWolfe(fwnet.L1Ball(2.0), compiled=True, tol=1e-8, max_steps=20_000)
    it, state = solver.begin(problem, None)
    ahead = forward.FastForward.of(solver, problem, it, state.rule)
    assert ahead is not None
    one = ahead.store.rows[0, 0].nbytes
    assert 4 * 5 * one <= ahead.store.rows.nbytes <= 10**5
    result = solver(problem)
    assert result.status == ("converged",) * 5
    plain = fwnet.PairwiseFrankWolfe(fwnet.L1Ball(2.0), compiled=False, tol=1e-8, max_steps=20_000)
    torch.testing.assert_close(result.value, plain(problem).value, rtol=0, atol=2e-8)


def test_matrices_for_which_products_are_cheap_keep_nothing() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forward, "_PRODUCT", 8193)
        patch.setattr(forward, "_NUMPY_PRODUCT", 8193)
        solver = fwnet.PairwiseFrankWolfe(fwnet.Simplex(), compiled=True)
        for shape, kept in (((64, 128), False), ((64, 129), True)):
            problem = fwnet.LeastSquares(normal(8, *shape), normal(9, 64))
            it, state = solver.begin(problem, None)
            ahead = forward.FastForward.of(solver, problem, it, state.rule)
            assert ahead is not None
            assert bool(ahead.store.owner.size) == kept
