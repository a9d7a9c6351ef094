"""`compiled="auto"`: steps on arrays where they are faster, machine code once it pays."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import fwnet
from cases import csr, normal
from fwnet.solvers.compiled import forward, steps

A, b = normal(1, 30, 12), normal(2, 30)
PROBLEM = fwnet.LeastSquares(A, b)
BATCH = fwnet.LeastSquares(normal(3, 4, 30, 12), normal(4, 4, 30))


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process that has not solved anything."""
    monkeypatch.setattr(forward.CodeUse, "loaded", set())
    monkeypatch.setattr(forward.CodeUse, "numpy_steps", 0)


def solve(problem: Any = PROBLEM, domain: Any = None, **options: Any) -> fwnet.Result:
    solver = fwnet.PairwiseFrankWolfe(domain or fwnet.L1Ball(2.0), tol=1e-9, **options)
    result: fwnet.Result = solver(problem)
    return result


def ran(result: fwnet.Result) -> str:
    return result.message.rpartition("; steps by ")[2] if "; steps by" in result.message else ""


def test_the_default_is_auto_and_the_message_says_what_ran() -> None:
    fast, plain = solve(), solve(compiled=False)
    assert fast.status == plain.status == "converged"
    assert (ran(fast), ran(plain)) == ("NumPy", "")
    assert ran(fwnet.minimize(PROBLEM, fwnet.Simplex())) == "NumPy"
    assert float(fast.value) == pytest.approx(float(plain.value), abs=2e-9)


def test_machine_code_once_it_is_loaded() -> None:
    assert ran(solve(compiled=True)) == "machine code"
    assert ran(solve()) == "machine code"
    assert ran(solve(BATCH)) == "machine code"
    single = fwnet.LeastSquares(A.float(), b.float())
    assert ran(solve(single, max_steps=20)) == "NumPy"  # another dtype


def test_machine_code_once_it_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    solve(compiled=True)  # on the disk from here
    forward.CodeUse.loaded.clear()
    monkeypatch.setattr(forward, "_LOADING", 1)
    assert (ran(solve()), ran(solve())) == ("NumPy", "machine code")


def test_code_that_must_be_compiled_pays_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forward, "is_ready", lambda *arguments: False)
    monkeypatch.setattr(forward, "_LOADING", 1)
    assert [ran(solve()) for _ in range(3)] == ["NumPy"] * 3
    monkeypatch.setattr(forward, "_COMPILING", 1)
    assert ran(solve()) == "machine code"


def test_without_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forward, "machine_code", lambda name: None)
    monkeypatch.setattr(forward, "_LOADING", 0)
    assert ran(solve()) == "NumPy"
    assert ran(solve(BATCH)) == ""


@pytest.mark.parametrize(
    ("problem", "options"),
    [
        (fwnet.LeastSquares(csr(A), b), {}),
        (fwnet.LogisticRegression(A, torch.sign(b)), {}),
        (PROBLEM, {"domain": fwnet.Box(-torch.ones(12).double(), torch.ones(12).double())}),
        (PROBLEM, {"second_order": True}),
        (PROBLEM, {"rule": fwnet.Armijo()}),
        (PROBLEM, {"max_steps": 5}),
        (fwnet.LeastSquares(A, normal(5, 4, 30)), {"max_steps": 50}),  # one product for all
    ],
    ids=["sparse", "logistic", "box", "second order", "Armijo", "few steps", "one matrix"],
)
def test_elsewhere_the_plain_loop_runs(problem: fwnet.Problem, options: dict[str, Any]) -> None:
    result = solve(problem, **({"max_steps": 50} | options))
    assert ran(result) == ""


def test_large_problems_on_many_threads_stay_with_torch() -> None:
    solver = fwnet.FrankWolfe(fwnet.Simplex())
    large = fwnet.LeastSquares(torch.ones(1000, 1000), torch.ones(1000))
    it, state = solver.begin(large, None)
    ahead = forward.FastForward(solver, large, it, state.rule)
    threads = torch.get_num_threads()
    try:
        for few in (1, 2):
            torch.set_num_threads(few)
            assert ahead.pays()
        torch.set_num_threads(8)
        assert not ahead.pays()
    finally:
        torch.set_num_threads(threads)


def test_the_same_program_gives_the_same_bits() -> None:
    first, second = solve(), solve()
    assert torch.equal(first.x, second.x)
    assert first.steps == second.steps


def test_observers_see_every_step_and_stop_where_they_ask() -> None:
    seen: list[int] = []

    def stop(record: fwnet.StepRecord) -> bool:
        seen.append(record.t)
        return record.t == 7

    result = fwnet.PairwiseFrankWolfe(fwnet.L1Ball(2.0), tol=0.0)(PROBLEM, on_step=stop)
    assert (result.status, result.steps, seen) == ("stopped", 7, list(range(8)))
    assert ran(result) == "NumPy"


def test_the_trace_keeps_the_records_it_is_asked_for() -> None:
    whole = solve(trace_every=1).trace
    some = solve(trace_every=7).trace
    last = whole[-1].t
    assert [record.t for record in some] == [*range(0, last, 7), last]
    for record in some[:-1]:
        assert record[:4] == whole[record.t][:4]


def test_the_steps_module_needs_no_numba() -> None:
    assert not hasattr(steps.take_steps, "overloads")
