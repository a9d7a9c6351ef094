"""The one trainer: solver templates, several slots, tasks, learning rates, restarts, failures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector

import fwnet
from fwnet import learned
from fwnet.learned.training.gradients import Rollout
from fwnet.learned.training.rollouts import draw
from fwnet.learned.training.runs import TrainingFolder
from fwnet.learned.training.tasks import seeded, with_seed
from learned_cases import svm_family, values

QUICK = learned.MetaConfig(
    steps=4, unroll=4, batch=3, validate_every=1, validation_problems=4, learning_rate=0.02
)
SOFT = fwnet.FrankWolfe(fwnet.Simplex(), oracle=fwnet.Softmin(beta=10.0), max_steps=8, tol=0.0)


def weights(module: nn.Module) -> Tensor:
    return parameters_to_vector(module.parameters()).detach()


class OneProblem(learned.ProblemFamily):
    """Always the same problem, so that a test can solve it too."""

    domain = fwnet.Simplex()

    def sample(self, batch: int, generator: torch.Generator) -> fwnet.Problem:
        root = torch.linspace(-1, 1, 30, dtype=torch.float64).cos().reshape(6, 5)
        Q = root @ root.mT + torch.diag(torch.arange(1.0, 7.0, dtype=torch.float64))
        return fwnet.Quadratic(Q.expand(batch, 6, 6).clone())


def test_a_slot_is_trained_in_the_solver_that_is_given() -> None:
    """The losses are those of this solver: soft oracle, its own steps, as many as it takes."""
    rule = with_seed(learned.LSTMStep, 0)
    config = replace(QUICK, loss=learned.SumOfValues())
    trained, history = learned.meta_train(rule, OneProblem(), config, solver=SOFT)
    assert isinstance(trained, learned.LSTMStep)
    assert history[0].horizon == SOFT.max_steps
    problem = OneProblem().sample(1, torch.Generator())
    for controller, found in ((rule, history.initial), (trained, min(history.validations))):
        solver = fwnet.FrankWolfe(
            fwnet.Simplex(), controller, oracle=fwnet.Softmin(beta=10.0), max_steps=8, tol=0.0
        )
        assert values(solver(problem))[1:].sum().item() == pytest.approx(found, rel=1e-6)
    assert not history.failed
    assert SOFT.rule is not rule  # the template stays as it is


def test_the_template_decides_how_far_a_learned_direction_goes() -> None:
    direction = with_seed(learned.LSTMDirection, 0)
    template = fwnet.FrankWolfe(fwnet.Simplex(), fwnet.Constant(0.05), max_steps=6, tol=0.0)
    _, history = learned.meta_train(
        direction, OneProblem(), replace(QUICK, loss=learned.SumOfValues()), solver=template
    )
    solver = fwnet.FrankWolfe(
        fwnet.Simplex(), fwnet.Constant(0.05), direction=direction, max_steps=6, tol=0.0
    )
    f = values(solver(OneProblem().sample(1, torch.Generator())))[1:]
    assert f.sum().item() == pytest.approx(history.initial, rel=1e-6)


def test_several_slots_are_trained_together(tmp_path: Path) -> None:
    rule, direction = with_seed(learned.LSTMStep, 1), with_seed(learned.LSTMDirection, 2)
    both = {"rule": rule, "direction": direction}
    pair, history = learned.meta_train(
        both, svm_family(n=12), QUICK, solver=SOFT, validation=svm_family(n=14), out=tmp_path
    )
    assert min(history.validations) < history.initial
    for name, first in both.items():
        assert not torch.equal(weights(pair[name]), weights(first))
        assert torch.equal(weights(learned.load(tmp_path / f"{name}.fwnet")), weights(pair[name]))
    solver = pair.solver(max_steps=3)
    assert (solver.rule, solver.direction) == (pair["rule"], pair["direction"])
    assert isinstance(solver.oracle, fwnet.Softmin)
    assert (solver.max_steps, solver.tol) == (3, 0.0)
    again, _ = learned.meta_train(
        both, svm_family(n=12), QUICK, solver=SOFT, validation=svm_family(n=14), out=tmp_path
    )
    assert torch.equal(weights(again), weights(pair))


def test_weights_of_the_template_are_not_trained() -> None:
    fixed = with_seed(learned.LSTMDirection, 3)
    before = weights(fixed).clone()
    template = fwnet.FrankWolfe(fwnet.Simplex(), direction=fixed, max_steps=6)
    rule = with_seed(learned.LSTMStep, 1)
    trained, _ = learned.meta_train(rule, svm_family(n=12), QUICK, solver=template)
    assert not torch.equal(weights(trained), weights(rule))
    assert torch.equal(weights(fixed), before)


class Line(Rollout):
    """x <- w x, loss x²: the best w is 0."""

    def __init__(self, w: nn.Linear, start: float) -> None:
        self.w, self.x = w, torch.tensor([start])

    def run(self, steps: int) -> Tensor:
        total = torch.zeros(())
        for _ in range(steps):
            self.x = self.w(self.x)
            total = total + self.x.square().sum()
        return total

    def detach(self) -> None:
        self.x = self.x.detach()


class Halving(learned.TrainingTask):
    trains = (nn.Linear,)

    def __init__(self, sign: float = 1.0) -> None:
        self.sign = sign

    def episode(
        self, learned: nn.Linear, config: learned.MetaConfig, generator: torch.Generator
    ) -> Callable[[], Rollout]:
        start = 1 + float(torch.rand((), generator=generator))
        return lambda: Line(learned, start)

    def judge(self, config: learned.MetaConfig) -> Callable[[nn.Linear], float]:
        @torch.no_grad()
        def judged(w: nn.Linear) -> float:
            return self.sign * Line(w, 1.0).run(config.limits[1]).item()

        return judged


def line(weight: float = 0.9) -> nn.Linear:
    w = nn.Linear(1, 1, bias=False)
    nn.init.constant_(w.weight, weight)
    return w


LINE = learned.MetaConfig(
    steps=40, horizon=4, unroll=2, validate_every=1, schedule=learned.Linear(1.0)
)


def test_validation_chooses_among_learning_rates() -> None:
    config = replace(LINE, learning_rate=(1e-4, 0.05))
    w, history = learned.meta_train(line(), Halving(), config)
    slow, fast = history.attempts
    assert history is fast
    assert (slow.learning_rate, fast.learning_rate) == (1e-4, 0.05)
    assert len(slow.validations) == len(fast.validations) == 41
    assert slow.initial == fast.initial  # both start from the same weights
    assert min(slow.validations) > 0.5 * slow.initial
    assert Halving().judge(config)(w) == min(fast.validations) < 1e-3 * fast.initial


def test_a_diverged_attempt_is_never_chosen() -> None:
    config = replace(LINE, steps=3, learning_rate=(1e30, 1e-3))
    w, history = learned.meta_train(line(), Halving(), config)
    assert history.learning_rate == 1e-3
    assert bool(w.weight.isfinite().all())
    assert history.attempts[0].skipped > 0
    with pytest.raises(FloatingPointError, match="NaN or infinite in all of episode 1"):
        learned.meta_train(line(), Halving(), replace(config, learning_rate=1e30))


def test_a_training_that_finds_nothing_better_has_failed() -> None:
    """Validation measures the opposite of what is trained: every update makes it worse."""
    first = line()
    with pytest.warns(RuntimeWarning, match=r"training of Linear failed: no validation was better"):
        w, history = learned.meta_train(first, Halving(-1.0), replace(LINE, learning_rate=0.01))
    assert history.failed
    assert torch.equal(w.weight, first.weight)
    _, history = learned.meta_train(first, Halving(), replace(LINE, learning_rate=0.01))
    assert not history.failed


def test_restarts_begin_with_weights_of_their_own(tmp_path: Path) -> None:
    config = replace(QUICK, restarts=3, steps=2)
    first, family = with_seed(learned.LSTMStep, 0), svm_family(n=12)
    trained, history = learned.meta_train(first, family, config)
    once, _ = learned.meta_train(first, family, replace(config, restarts=1))
    assert len({attempt.initial for attempt in history.attempts}) == 3
    best = min(min(attempt.validations) for attempt in history.attempts)
    assert min(history.validations) == best
    if history is history.attempts[0]:
        assert torch.equal(weights(trained), weights(once))
    for _ in range(2):  # from nothing, and from a folder that is done
        again, _ = learned.meta_train(first, family, config, out=tmp_path)
        assert torch.equal(weights(again), weights(trained))
    with pytest.raises(TypeError, match=r"\(restarts=3\) needs something Learned"):
        learned.meta_train(line(), Halving(), replace(LINE, restarts=3))


def test_patience_ends_a_training() -> None:
    config = replace(LINE, learning_rate=0.01, patience=3)
    with pytest.warns(RuntimeWarning, match="failed"):
        _, history = learned.meta_train(line(), Halving(-1.0), config)
    assert len(history) == 3


@pytest.mark.parametrize(
    ("run", "text"),
    [
        (
            lambda: learned.meta_train({"rule": learned.LSTMStep()}, svm_family()),
            "several slots needs solver=",
        ),
        (
            lambda: learned.meta_train({"steps": learned.LSTMStep()}, svm_family(), solver=SOFT),
            "a slot is one of rule, direction, oracle, start; got 'steps'",
        ),
        (
            lambda: learned.meta_train({"oracle": learned.LSTMStep()}, svm_family(), solver=SOFT),
            "the slot 'oracle' needs a Controller with the second base Oracle; got LSTMStep",
        ),
        (
            lambda: learned.meta_train(learned.LSTMStep(), svm_family(), solver="soft"),
            "solver=... in meta_train, must be a FrankWolfe; got 'soft'",
        ),
        (
            lambda: learned.meta_train(
                learned.LSTMStep(), svm_family(), solver=fwnet.FrankWolfe(fwnet.L1Ball())
            ),
            r"\(solver=...\) must be over Simplex",
        ),
        (lambda: learned.meta_train(learned.LSTMStep(), Halving()), "must be a Linear; got LSTM"),
        (
            lambda: learned.meta_train(line(), Halving(), validation=svm_family()),
            "must be a TrainingTask",
        ),
        (
            lambda: learned.meta_train(line(), Halving(), solver=fwnet.FrankWolfe(fwnet.Simplex())),
            r"\(solver=...\) is for a ProblemFamily; Halving needs none",
        ),
        (lambda: learned.MetaConfig(learning_rate=()), "needs at least one rate"),
        (lambda: learned.MetaConfig(schedule=0.1), "must be a RateSchedule such as .*; got 0.1"),
        (lambda: learned.Linear(-1.0), r"Linear\(final=...\) must be"),
    ],
)
def test_what_is_missing_is_named(run: Callable[[], Any], text: str) -> None:
    with pytest.raises((ValueError, TypeError), match=text):
        run()


@pytest.mark.parametrize(("episode", "saves"), [(30.0, 100), (1.0, 6), (0.01, 1)])
def test_saving_takes_a_small_share_of_the_time(
    episode: float, saves: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second for each save: after the first, it takes at most 5 % of the time."""
    now, saved = 0.0, 0

    def save(attempts: Any) -> None:
        nonlocal now, saved
        now, saved = now + 1.0, saved + 1

    folder = TrainingFolder(tmp_path, {})
    monkeypatch.setattr(folder, "save", save)
    monkeypatch.setattr("fwnet.learned.training.runs.time.perf_counter", lambda: now)
    for _ in range(100):
        now += episode
        folder.save_if_due([])
    assert saved == saves
    assert saved - 1 <= 0.05 * now


def test_a_validation_measures_what_is_judged() -> None:
    """f(x_T) of fresh problems, though the training makes Σ f small."""
    rule, family = with_seed(learned.LSTMStep, 0), svm_family(n=12)
    config = learned.MetaConfig(
        steps=1,
        batch=3,
        loss=learned.SumOfValues(),
        validation_loss=learned.FinalSuboptimality(),
        validation_problems=3,
    )
    _, history = learned.meta_train(rule, family, config, solver=SOFT)
    drawn = draw(family, 3, seeded(config.seed, "validation", 3))
    end = fwnet.FrankWolfe(fwnet.Simplex(), rule, oracle=SOFT.oracle, max_steps=8, tol=0.0)
    reached = end(drawn.problem).value
    expected = ((reached - drawn.best) / drawn.best).mean().item()
    assert history.initial == pytest.approx(expected, rel=1e-4)
