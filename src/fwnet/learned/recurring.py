"""Problems that recur: a new one with a guess from those solved before, and a start that learns.

C-paths (the last C's solution), one-vs-one pairs (the same points in other pairs of classes) and
few-shot episodes (the barycentre: no point was seen before).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar, NamedTuple, final

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from fwnet.domains import Simplex
from fwnet.learned.controllers import LearnedStart
from fwnet.learned.families import LinearKernel, LogUniform, RBFKernel
from fwnet.learned.training.config import MetaConfig
from fwnet.learned.training.gradients import Rollout
from fwnet.learned.training.tasks import TrainingTask, mean_loss
from fwnet.numerics import checks
from fwnet.problems import Quadratic
from fwnet.problems.svm import dual_matrix
from fwnet.quadratic.solve import simplex_qp
from fwnet.solvers import PairwiseFrankWolfe

_C, _RATIO, _WIDTH = LogUniform(0.5, 50.0), LogUniform(1.6, 4.0), LogUniform(1.0, 1.0)


class Recurring(NamedTuple):
    """A batch of problems, a guess for each, the solution and the minimum."""

    problem: Quadratic
    guess: Tensor  # (batch, n)
    solution: Tensor  # (batch, n)
    best: Tensor  # (batch,)


MakeRecurring = Callable[[Tensor, Tensor, int, int, torch.Generator], Recurring]


def c_paths(X: Tensor, y: Tensor, batch: int, n: int, generator: torch.Generator) -> Recurring:
    """The next C of a path, 1.6 to 4 times the last one; the guess is the last one's solution."""
    last, new = [], []
    for _ in range(batch):
        rows = [_some(y, label, n // 2, generator) for label in _classes(y, 2, generator)]
        gram = _kernel(generator)(X[torch.cat(rows)], generator)
        C = float(_C.sample(1, generator))
        last.append(_dual(gram, C))
        new.append(_dual(gram, C * float(_RATIO.sample(1, generator))))
    return _solved(new, simplex_qp(torch.stack(last)))


def one_vs_one(X: Tensor, y: Tensor, batch: int, n: int, generator: torch.Generator) -> Recurring:
    """Classes a and b; the guess is made of the solutions of (a, c) and (b, c), half each."""
    new, guesses = [], []
    half = n // 2
    for _ in range(batch):
        a, b, c = (_some(y, label, half, generator) for label in _classes(y, 3, generator))
        kernel, C = _kernel(generator), float(_C.sample(1, generator))
        a_c, b_c, a_b = (
            _dual(kernel(X[torch.cat(pair)], generator), C) for pair in ((a, c), (b, c), (a, b))
        )
        sides = [simplex_qp(matrix)[:half] for matrix in (a_c, b_c)]
        guesses.append(torch.cat([side / (2 * side.sum()) for side in sides]))
        new.append(a_b)
    return _solved(new, torch.stack(guesses))


def episodes(X: Tensor, y: Tensor, batch: int, n: int, generator: torch.Generator) -> Recurring:
    """Two classes, a few points of each; the guess is the barycentre."""
    new = []
    for _ in range(batch):
        rows = [_some(y, label, n // 2, generator) for label in _classes(y, 2, generator)]
        gram = _kernel(generator)(X[torch.cat(rows)], generator)
        new.append(_dual(gram, float(_C.sample(1, generator))))
    return _solved(new, torch.full((batch, n), 1 / n, dtype=torch.float64))


TASKS: dict[str, tuple[MakeRecurring, tuple[int, ...]]] = {  # with the sizes to train on
    "C-paths": (c_paths, (80, 120, 200)),
    "one-vs-one pairs": (one_vs_one, (80, 120, 200)),
    "few-shot episodes": (episodes, (20, 40, 60)),
}


@final
class Starts(TrainingTask):
    """Recurring problems whose solutions are known: what a `LearnedStart` is trained on.

        mean over rounds and coordinates of the cross entropy of {i : x*_i > 0}

    A missing coordinate costs twice a superfluous one, since the solver has to find it. No gradient
    passes between rounds: each is trained on the point where it begins.

    Arguments:
        X: points `(rows, d)` in float64.
        y: their classes `(rows,)`, three or more for one-vs-one pairs.
        tasks: names in `TASKS`.
        pool: batches of each task that episodes are drawn from.
    """

    trains: ClassVar[tuple[type[nn.Module], ...]] = (LearnedStart,)

    def __init__(
        self, X: Tensor, y: Tensor, *, tasks: Sequence[str] = tuple(TASKS), pool: int = 24
    ) -> None:
        self.X, self.y, self.tasks = X, y, tuple(tasks)
        unknown = [name for name in self.tasks if name not in TASKS]
        if unknown or not self.tasks:
            raise ValueError(f"Starts(tasks=...) must be of {', '.join(TASKS)}; got {tasks!r}.")
        self.pool = checks.at_least("Starts(pool=...)", pool, 1)
        self._drawn: dict[tuple[int, int, int], list[Recurring]] = {}

    def horizon(self, learned: LearnedStart) -> int:
        return learned.rounds

    def episode(
        self, learned: LearnedStart, config: MetaConfig, generator: torch.Generator
    ) -> Callable[[], Rollout]:
        pool = self._pool(config.seed, config.batch, self.pool)
        return partial(
            _Rounds, learned, pool[int(torch.randint(len(pool), (), generator=generator))]
        )

    def judge(self, config: MetaConfig) -> Callable[[LearnedStart], float]:
        """The same loss on as many problems of each task, of every size."""
        count = max(1, config.validation_problems // config.batch)
        held = self._pool(config.seed + 1, config.batch, count)
        return lambda learned: mean_loss((_Rounds(learned, d) for d in held), config.limits[1])

    def describe(self, config: MetaConfig, generator: torch.Generator) -> str:
        rows = f"{tuple(self.X.shape)}, Σ X = {float(self.X.sum()):.6g}"
        return f"Starts: {rows}, {', '.join(self.tasks)}, {self.pool}"

    def _pool(self, seed: int, batch: int, count: int) -> list[Recurring]:
        """`count` batches of each task, drawn once."""
        key = (seed, batch, count)
        if key not in self._drawn:
            generator = torch.Generator().manual_seed(seed)
            chosen = [TASKS[name] for name in self.tasks]
            self._drawn[key] = [
                make(self.X, self.y, batch, sizes[k % len(sizes)], generator)
                for make, sizes in chosen
                for k in range(count)
            ]
        return self._drawn[key]


@final
class _Rounds(Rollout):
    """The rounds of a start on a batch of problems, each from where the ones before it ended."""

    def __init__(self, start: LearnedStart, drawn: Recurring) -> None:
        self.start, self.problem, x = start, drawn.problem, drawn.solution
        self.positive = (x > 1e-6 / x.shape[-1]).float()
        self.visit = start.begin(drawn.problem, drawn.guess)

    def run(self, steps: int) -> Tensor:
        losses, missed = [], torch.tensor(2.0)
        for _ in range(steps):
            scores = self.start.scores(self.visit)
            losses.append(
                binary_cross_entropy_with_logits(scores, self.positive, pos_weight=missed)
            )
            with torch.no_grad():
                self.visit = self.start.visit(self.problem, self.visit, self.start.face(scores))
        return torch.stack(losses).mean()

    def detach(self) -> None:
        """Nothing to cut: no gradient passes from round to round."""


@torch.no_grad()
def judge_start(
    start: LearnedStart, X: Tensor, y: Tensor, problems: int = 16, seed: int = 0
) -> dict[str, dict[str, float]]:
    """Of each task, the median of second-order pairwise steps to a relative suboptimality of 1e-4.

    A product of the start with the matrix counts as a step; its linear solves do not.

    Arguments:
        start: compared with the solver's own start and with the guess itself.
        X: points `(rows, d)` in float64, of classes that it was not trained on.
        y: their classes `(rows,)`.
        problems: of each task, of the largest size that it is trained on.
        seed: of the tasks.
    """
    table = {}
    for name, (make, sizes) in TASKS.items():
        drawn = make(X, y, problems, max(sizes), torch.Generator().manual_seed(seed))
        K = drawn.problem.matrix.matrix  # type: ignore[attr-defined]
        counts: dict[str, list[int]] = {"learned": [], "cold": [], "neighbour": []}
        for one, guess, best in zip(K, drawn.guess, drawn.best, strict=True):
            problem, target = Quadratic(one), best * (1 + 1e-4)
            points = start.correct(problem, Simplex(), guess)
            counts["learned"].append(len(points) - 1 + _steps(problem, target, points[-1]))
            counts["cold"].append(_steps(problem, target, None))
            counts["neighbour"].append(_steps(problem, target, guess))
        table[name] = {who: float(torch.tensor(c).median()) for who, c in counts.items()}
    return table


def _steps(problem: Quadratic, target: Tensor, x0: Tensor | None) -> int:
    solver = PairwiseFrankWolfe(Simplex(), second_order=True, max_steps=2000, tol=0.0)
    result = solver(problem, x0, on_step=lambda record: bool(record.value <= target))
    return len(result.trace) - 1


def _kernel(generator: torch.Generator) -> LinearKernel | RBFKernel:
    linear = bool(torch.randint(2, (), generator=generator))
    return LinearKernel() if linear else RBFKernel(_WIDTH)


def _dual(gram: Tensor, C: float) -> Tensor:  # (n, n)
    """The matrix of an SVM's dual whose first half of points is in one class."""
    signs = torch.ones(len(gram), dtype=torch.float64)
    signs[len(gram) // 2 :] = -1.0
    return dual_matrix(gram, signs, 1 / C, bias=True)


def _classes(y: Tensor, count: int, generator: torch.Generator) -> list[int]:
    labels = y.unique()
    if len(labels) < count:
        raise ValueError(f"y must hold at least {count} classes; got {labels.tolist()}.")
    return labels[torch.randperm(len(labels), generator=generator)[:count]].tolist()


def _some(y: Tensor, label: int, count: int, generator: torch.Generator) -> Tensor:
    rows = (y == label).nonzero().squeeze(-1)
    if len(rows) < count:
        raise ValueError(f"class {label} has {len(rows)} points, {count} are asked for.")
    return rows[torch.randperm(len(rows), generator=generator)[:count]]


def _solved(matrices: list[Tensor], guess: Tensor) -> Recurring:
    Q = torch.stack(matrices)
    problem, x = Quadratic(Q), simplex_qp(Q, start=guess)
    return Recurring(problem, guess, x, problem.value(problem.at(x)))
