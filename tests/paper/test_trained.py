"""Meta-training in the experiments: what was chosen, and a failure in words."""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from fwnet.lab.paper.configs import MetaTraining
from fwnet.lab.paper.runs import chosen_text, meta_scores, trained
from fwnet.learned.training.recurrences import Recurrence


class Shown(NamedTuple):
    objective: Tensor
    loss: float


class Halving(Recurrence[Shown]):
    """x <- w x, loss x²: the best w is 0; `sign` −1 judges by the opposite."""

    def __init__(self, w: nn.Linear, sign: float = 1.0) -> None:
        self.w, self.sign = w, sign

    def start(self) -> Tensor:
        return torch.ones(1)

    def advance(self, state: Any) -> tuple[Any, Shown]:
        x = self.w(state)
        square = x.square().sum()
        return x, Shown(square, self.sign * square.item())


def test_the_results_say_which_rate_won_and_which_training_failed() -> None:
    w = nn.Linear(1, 1, bias=False)
    nn.init.constant_(w.weight, 0.9)
    plan = MetaTraining(episodes=20, horizon=4, window=2, lrs=(1e-4, 0.05), check_every=5)
    best, history = trained(w, lambda w, _: Halving(w), Halving, plan, 0)
    assert abs(best.weight.item()) < 0.5
    assert chosen_text(history) == "meta lr = 0.05"
    assert {rate: len(found) for rate, found in meta_scores(history).items()} == {
        "0.0001": 5,
        "0.05": 5,
    }
    same, history = trained(w, lambda w, _: Halving(w), lambda w: Halving(w, -1.0), plan, 0)
    assert same.weight.item() == w.weight.item()
    assert chosen_text(history).endswith("not trained: no validation beat the first weights")
