"""Problems that recur: a new one with a guess from those solved before, and a start that learns.

C-paths (the last C's solution), one-vs-one pairs (the same points in other pairs of classes) and
few-shot episodes (the barycentre: no point was seen before).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from fwnet import checks
from fwnet.learned.controllers import LearnedStart
from fwnet.learned.families import LinearKernel, LogUniform, RBFKernel
from fwnet.problems import Quadratic
from fwnet.quadratic_programs import simplex_qp

_C, _RATIO, _WIDTH = LogUniform(0.5, 50.0), LogUniform(1.6, 4.0), LogUniform(1.0, 1.0)


class Recurring(NamedTuple):
    """A batch of problems, a guess for each, and the minimum."""

    problem: Quadratic
    guess: Tensor  # (batch, n)
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
    steps: int = 3000,
    learning_rate: float = 5e-3,
    seed: int = 0,
) -> list[float]:
    """Train a start in place on tasks whose solutions are known; the losses.

        mean over rounds and problems of log10(f(p)/f* − 1 + 1e-7)

    No gradient passes from round to round: each learns to propose from where it finds itself.

    Arguments:
        start: to be trained.
        X: points `(rows, d)` in float64.
        y: their classes `(rows,)`, three or more for one-vs-one pairs.
        tasks: names in `TASKS`.
        steps: of Adam, one batch of eight problems each, drawn from 40 per task.
        learning_rate: falls to a tenth.
        seed: of the tasks.
    """
    checks.at_least("steps", steps, 1)
    generator = torch.Generator().manual_seed(seed)
    chosen = [TASKS[name] for name in tasks]
    pool = [
        make(X, y, 8, sizes[k % len(sizes)], generator) for make, sizes in chosen for k in range(40)
    ]
    adam = torch.optim.Adam(start.parameters(), learning_rate)
    losses = []
    for step in range(steps):
        adam.param_groups[0]["lr"] = learning_rate * (1 - 0.9 * step / steps)
        drawn = pool[int(torch.randint(len(pool), (), generator=generator))]
        problem, it = drawn.problem, drawn.problem.at(drawn.guess)
        values = []
        for _ in range(start.rounds):  # each round from where the ones before it ended
            p = start.propose(problem, it)
            values.append(problem.value(problem.at(p)))
            with torch.no_grad():
                it = start.toward(problem, it, p)
        loss = ((torch.stack(values) / drawn.best - 1).clamp_min(0) + 1e-7).log10().mean()
        adam.zero_grad()
        loss.backward()
        adam.step()
        losses.append(loss.item())
    return losses


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
    return Recurring(problem, guess, problem.value(problem.at(x)))
