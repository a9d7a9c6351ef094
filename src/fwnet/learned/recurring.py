"""Problems that recur: a new one with a guess from those solved before, and a start that learns.

C-paths (the last C's solution), one-vs-one pairs (the same points in other pairs of classes) and
few-shot episodes (the barycentre: no point was seen before).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from fwnet.domains import Simplex
from fwnet.learned.controllers import LearnedStart
from fwnet.learned.families import LinearKernel, LogUniform, RBFKernel
from fwnet.numerics import checks
from fwnet.problems import Quadratic
from fwnet.quadratic.solve import simplex_qp
from fwnet.solvers import PairwiseFrankWolfe

_C, _RATIO, _WIDTH = LogUniform(0.5, 50.0), LogUniform(1.6, 4.0), LogUniform(1.0, 1.0)


class Recurring(NamedTuple):
    """A batch of problems, a guess for each, the solution and the minimum."""

    problem: Quadratic
    guess: Tensor  # (batch, n)
    solution: Tensor  # (batch, n)
    best: Tensor  # (batch,)


Task = Callable[[Tensor, Tensor, int, int, torch.Generator], Recurring]


def c_paths(X: Tensor, y: Tensor, batch: int, n: int, generator: torch.Generator) -> Recurring:
    """The next C of a path, 1.6 to 4 times the last one; the guess is the last one's solution."""
    grams, ridges = [], []
    for _ in range(batch):
        a, b = _classes(y, 2, generator)
        rows = torch.cat([_some(y, a, n // 2, generator), _some(y, b, n // 2, generator)])
        grams.append(_gram(X[rows], n // 2, _kernel(generator), generator))
        C = float(_C.sample(1, generator))
        ridges.append((1 / C, 1 / (C * float(_RATIO.sample(1, generator)))))
    K, eye = torch.stack(grams), torch.eye(n, dtype=torch.float64)
    last, new = (K + torch.tensor(r).reshape(-1, 1, 1) * eye for r in zip(*ridges, strict=True))
    return _solved(new, simplex_qp(last))


def one_vs_one(X: Tensor, y: Tensor, batch: int, n: int, generator: torch.Generator) -> Recurring:
    """Classes a and b; the guess is made of the solutions of (a, c) and (b, c), half each."""
    new, guesses = [], []
    half = n // 2
    for _ in range(batch):
        rows = [_some(y, label, half, generator) for label in _classes(y, 3, generator)]
        kernel, C = _kernel(generator), float(_C.sample(1, generator))
        eye = torch.eye(n, dtype=torch.float64) / C

        def matrix(one: Tensor, two: Tensor, kernel: Kernel = kernel, eye: Tensor = eye) -> Tensor:
            return _gram(X[torch.cat([one, two])], half, kernel, generator) + eye

        a, b, c = rows
        sides = [simplex_qp(matrix(side, c))[:half] for side in (a, b)]
        guesses.append(torch.cat([side / (2 * side.sum()) for side in sides]))
        new.append(matrix(a, b))
    return _solved(torch.stack(new), torch.stack(guesses))


def episodes(X: Tensor, y: Tensor, batch: int, n: int, generator: torch.Generator) -> Recurring:
    """Two classes, a few points of each; the guess is the barycentre."""
    new = []
    for _ in range(batch):
        a, b = _classes(y, 2, generator)
        rows = torch.cat([_some(y, a, n // 2, generator), _some(y, b, n // 2, generator)])
        gram = _gram(X[rows], n // 2, _kernel(generator), generator)
        new.append(gram + torch.eye(n, dtype=torch.float64) / float(_C.sample(1, generator)))
    return _solved(torch.stack(new), torch.full((batch, n), 1 / n, dtype=torch.float64))


TASKS: dict[str, tuple[Task, tuple[int, ...]]] = {  # with the sizes to train on
    "C-paths": (c_paths, (80, 120, 200)),
    "one-vs-one pairs": (one_vs_one, (80, 120, 200)),
    "few-shot episodes": (episodes, (20, 40, 60)),
}


def train_start(
    start: LearnedStart,
    X: Tensor,
    y: Tensor,
    *,
    tasks: Sequence[str] = tuple(TASKS),
    steps: int = 400,
    learning_rate: float = 5e-3,
    seed: int = 0,
) -> list[float]:
    """Train a start in place on tasks whose solutions are known; the losses.

        mean over rounds and coordinates of the cross entropy of {i : x*_i > 0}

    A coordinate that is missed costs twice one that is too many: the solver has to find it. No
    gradient passes from round to round: each learns to judge from where it finds itself.

    Arguments:
        start: to be trained.
        X: points `(rows, d)` in float64.
        y: their classes `(rows,)`, three or more for one-vs-one pairs.
        tasks: names in `TASKS`.
        steps: of Adam, one batch of eight problems each, drawn from 24 per task.
        learning_rate: falls to a tenth.
        seed: of the tasks.
    """
    checks.at_least("steps", steps, 1)
    generator = torch.Generator().manual_seed(seed)
    chosen = [TASKS[name] for name in tasks]
    pool = [
        make(X, y, 8, sizes[k % len(sizes)], generator) for make, sizes in chosen for k in range(24)
    ]
    adam = torch.optim.Adam(start.parameters(), learning_rate)
    losses = []
    for step in range(steps):
        adam.param_groups[0]["lr"] = learning_rate * (1 - 0.9 * step / steps)
        drawn = pool[int(torch.randint(len(pool), (), generator=generator))]
        total = _support_loss(start, drawn)
        adam.zero_grad()
        total.backward()
        adam.step()
        losses.append(total.item())
    return losses


@torch.no_grad()
def judge_start(
    start: LearnedStart, X: Tensor, y: Tensor, problems: int = 16, seed: int = 0
) -> dict[str, dict[str, float]]:
    """Of each task, the median of second-order pairwise steps to a relative suboptimality of 1e-4.

    A product of the start with the matrix counts as a step; its linear solves do not.

    Arguments:
        start: to be judged, against none (the solver's own start) and the guess itself.
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


def _support_loss(start: LearnedStart, drawn: Recurring) -> Tensor:
    """Over all rounds, each from where the ones before it ended."""
    x, missed = drawn.solution, torch.tensor(2.0)
    positive = (x > 1e-6 / x.shape[-1]).float()
    visit = start.begin(drawn.problem, drawn.guess)
    losses = []
    for _ in range(start.rounds):
        scores = start.scores(visit)
        losses.append(binary_cross_entropy_with_logits(scores, positive, pos_weight=missed))
        with torch.no_grad():
            visit = start.visit(drawn.problem, visit, start.face(scores))
    return torch.stack(losses).mean()


Kernel = LinearKernel | RBFKernel


def _kernel(generator: torch.Generator) -> Kernel:
    linear = bool(torch.randint(2, (), generator=generator))
    return LinearKernel() if linear else RBFKernel(_WIDTH)


def _gram(X: Tensor, half: int, kernel: Kernel, generator: torch.Generator) -> Tensor:
    signs = torch.ones(2 * half, dtype=X.dtype)
    signs[half:] = -1.0
    return signs.unsqueeze(-1) * (kernel(X, generator) + 1.0) * signs


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


def _solved(Q: Tensor, guess: Tensor) -> Recurring:
    problem, x = Quadratic(Q), simplex_qp(Q, start=guess)
    return Recurring(problem, guess, x, problem.value(problem.at(x)))
