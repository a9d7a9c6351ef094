"""Methods that are tuned and trained: what was chosen, a failure in words, and going on."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from fwnet.lab.paper.configs import MetaTraining
from fwnet.lab.paper.methods import Method, Methods, trainings_in
from fwnet.learned.controllers import Learned
from fwnet.learned.training.recurrences import Recurrence

PLAN = MetaTraining(episodes=21, horizon=4, window=2, lrs=(1e-4, 0.05), check_every=3)


class Shown(NamedTuple):
    objective: Tensor
    loss: float


class Halving(Recurrence[Shown]):
    """x <- w x, loss x²: the best w is 0; a problem of −1 judges by the opposite."""

    def __init__(self, w: Callable[[Tensor], Tensor], sign: float = 1.0) -> None:
        self.w, self.sign = w, sign

    def start(self) -> Tensor:
        return torch.ones(1)

    def advance(self, state: Any) -> tuple[Any, Shown]:
        x = self.w(state)
        square = x.square().sum()
        return x, Shown(square, self.sign * square.item())


def weight() -> nn.Module:
    w = nn.Linear(1, 1, bias=False)
    nn.init.constant_(w.weight, 0.9)
    return w


def method(w: Any) -> Method:
    return lambda sign: Halving(w, sign)


def learned(held: float, plan: MetaTraining = PLAN) -> Methods:
    methods = Methods({}, held, steps=4)
    methods.learn("L2L", (weight, method), lambda generator: 1.0, plan, 0)
    return methods


def test_tuning_takes_the_best_score() -> None:
    methods = Methods({"by hand": method(lambda x: x)}, 1.0, steps=4)
    methods.tune("tuned", {f"w = {w:g}": method(lambda x, w=w: w * x) for w in (0.9, 0.1, 2.0)})
    assert list(methods) == ["by hand", "tuned"]
    assert methods.chosen == {"tuned": "w = 0.1"}
    scores = methods.scores["tuned"]
    assert sorted(scores, key=scores.__getitem__) == ["w = 0.1", "w = 0.9", "w = 2"]


def test_the_results_say_which_rate_won_and_which_training_failed() -> None:
    methods = learned(1.0)
    assert methods.chosen["L2L"] == "meta lr = 0.05"
    facts = methods.training["L2L"]
    assert set(facts["rates"]) == {"0.0001", "0.05"}
    assert facts["updates"][:3] == [0, 6, 12]
    assert len(facts["updates"]) == len(facts["validation"])
    assert not facts["failed"]
    failed = learned(-1.0)
    assert failed.chosen["L2L"].endswith("not trained: no validation beat the initial weights")
    assert failed.training["L2L"]["failed"]
    assert failed.training["L2L"]["settled"]  # a third of the episodes brought nothing


def test_rates_are_those_of_the_best_restart() -> None:
    class Weight(Learned):
        """Begins at 0.9 + one half of a normal draw."""

        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(0.9 + 0.5 * torch.randn(1))

        def forward(self, x: Tensor) -> Tensor:
            return self.w * x

    found = {}
    for restarts in (1, 3):
        methods = Methods({}, 1.0, steps=4)
        plan = replace(PLAN, restarts=restarts)
        methods.learn("L2L", (Weight, method), lambda generator: 1.0, plan, 0)
        found[restarts] = methods.training["L2L"]["rates"]
        assert min(found[restarts].values()) == min(methods.training["L2L"]["validation"])
    assert set(found[3]) == {"0.0001", "0.05"}
    assert all(found[3][rate] <= found[1][rate] for rate in found[1])
    assert found[3] != found[1]


def test_validation_takes_as_many_steps_as_a_test() -> None:
    """Whatever the horizon of training: with x = w^t and loss x², the score says how many."""
    methods = Methods({}, 1.0, steps=6)
    plan = replace(PLAN, episodes=1, check_every=1, horizon=2)
    methods.learn("L2L", (weight, method), lambda generator: 1.0, plan, 0)
    assert methods.training["L2L"]["validation"][0] == pytest.approx(
        (0.9**8 + 0.9**10 + 0.9**12) / 3
    )


def test_a_stopped_training_goes_on(tmp_path: Path) -> None:
    """With its folder, the second call trains nothing; its answer is the same."""
    with trainings_in(tmp_path):
        first = learned(1.0)
        files = sorted(tmp_path.rglob("state.safetensors"))
        assert len(files) == 1
        before = files[0].stat().st_mtime_ns
        again = learned(1.0)
    assert again.training == first.training == learned(1.0).training
    assert files[0].stat().st_mtime_ns >= before
