"""Meta-training of any run."""

import torch
from torch import Tensor, nn

from fwnet.lab.paper.meta import MetaTraining, meta_train, seeded


class Halving:
    """x <- w x, loss x²: the best w is 0."""

    def __init__(self, w: nn.Linear, start: float) -> None:
        self.w, self.x = w, torch.tensor([start])

    def step(self) -> Tensor:
        self.x = self.w(self.x)
        return self.x.square().sum()

    def score(self) -> float:
        return self.x.square().sum().item()

    def detach(self) -> None:
        self.x = self.x.detach()


def test_training_lowers_the_score_and_keeps_the_best() -> None:
    w = seeded(lambda: nn.Linear(1, 1, bias=False), 0)
    with torch.no_grad():
        w.weight.fill_(0.9)
    plan = MetaTraining(episodes=40, horizon=4, window=2, lrs=(1e-4, 0.05), check_every=1)
    found = meta_train([w], lambda e: Halving(w, 1.0 + e % 3), lambda: Halving(w, 1.0), plan)
    slow, fast = found.scores.values()
    assert found.lr == 0.05
    assert len(slow) == len(fast) == 41
    assert slow[0] == fast[0]  # both rates start from the same weights
    assert min(slow) > 0.5 * slow[0]
    kept = Halving(w, 1.0)
    for _ in range(4):
        kept.step()
    assert kept.score() == found.best == min(fast) < 1e-3 * fast[0]


def test_scores_that_are_not_numbers_are_never_chosen() -> None:
    w = seeded(lambda: nn.Linear(1, 1, bias=False), 0)
    with torch.no_grad():
        w.weight.fill_(0.9)
    plan = MetaTraining(episodes=1, horizon=40, window=40, lrs=(1e30, 1e-3), check_every=1)
    found = meta_train([w], lambda e: Halving(w, 1.0), lambda: Halving(w, 1.0), plan)
    assert found.lr == 1e-3
    assert found.scores["1e+30"][1] == float("inf")
    assert w.weight.isfinite().all()


def test_seeded_modules_leave_the_generator_alone() -> None:
    state = torch.get_rng_state()
    one, two = (seeded(lambda: nn.Linear(3, 3), 5) for _ in range(2))
    assert torch.equal(one.weight, two.weight)
    assert torch.equal(torch.get_rng_state(), state)
