"""LearnedStart: where to begin, for problems like those solved before."""

from __future__ import annotations

from typing import Any, NamedTuple, final

import torch
from torch import Tensor, nn

from fwnet.domains import Domain
from fwnet.iterates import Iterate
from fwnet.learned.controllers.base import Controller
from fwnet.numerics import checks
from fwnet.problems import Problem, Quadratic
from fwnet.problems.base import dense_gradient
from fwnet.quadratic.faces import pack
from fwnet.solvers import FrankWolfe, PairwiseFrankWolfe
from fwnet.starts import Start
from fwnet.vertices import Dense, OneHot

POINT_FEATURES = 11
ENOUGH = 1e-5  # relative: a round that gains less is the last
SOLVES = 4  # on a face and on what is left of it
COLUMNS = 256  # of the matrix at once, so that a large face fits into memory


class Visit(NamedTuple):
    """What a round leaves behind; tensors `(*batch, n)`."""

    guess: Iterate  # with its image
    linear: Tensor  # c of f(x) = ½ xᵀHx + cᵀx
    y: Tensor  # the best point so far
    slope: Tensor  # ∇f(y)
    u: Tensor  # the minimum over the last face's affine hull, which may have negative entries
    p: Tensor  # u without them
    p_slope: Tensor  # ∇f(p)


@final
class LearnedStart(Controller, Start):
    """A start on the simplex: a network chooses coordinates, a linear solve finds their values.

        S = {i : network(φ_i) > 0}
        u = argmin of f over {x : Σ x = radius, x = 0 outside S},   p = normalise(max(0, u))
        y <- argmin of f over the segment [y, p]

    for a few rounds, until S repeats or f stops falling. The first y is a guess: the solution of a
    neighbour (the last C of a path, the same points in other pairs of classes), or the barycentre.
    φ are scale-free features of a coordinate at y, u and p. Whatever the weights, the start is a
    point of the simplex where f is at most f(guess). Untrained, S is empty: the guess itself.

    A round costs one product with the matrix, the |S| columns of S and |S|³/3 operations. Needs a
    quadratic problem. Trained on `recurring.Starts`, whose problems come with guesses.

    Arguments:
        hidden: units of the network's two layers.
        rounds: at most.
        largest: most coordinates of S; those with the largest scores are kept.

    Example:
        >>> from fwnet import learned
        >>> problem = fwnet.Quadratic(torch.diag(torch.arange(1.0, 6.0)))
        >>> guess = torch.tensor([0.4, 0.3, 0.2, 0.1, 0.0])
        >>> start = learned.LearnedStart().near(guess)
        >>> fwnet.PairwiseFrankWolfe(fwnet.Simplex(), start=start)(problem).status
        'converged'

    Reference: Hintermüller, Ito and Kunisch (2002) for hand-designed S, the primal-dual active set.
    """

    def __init__(self, hidden: int = 24, rounds: int = 6, largest: int = 8192) -> None:
        checks.at_least("LearnedStart(hidden=...)", hidden, 1)
        checks.at_least("LearnedStart(rounds=...)", rounds, 0)
        checks.at_least("LearnedStart(largest=...)", largest, 1)
        super().__init__(hidden=hidden, rounds=rounds, largest=largest)
        self.rounds, self.largest = rounds, largest
        self.first = nn.Linear(POINT_FEATURES, hidden)
        self.second = nn.Linear(hidden, hidden)
        self.head = nn.Linear(hidden, 1)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def build_solver(self, domain: Domain, **budgets: Any) -> FrankWolfe:
        budgets.setdefault("start", self)
        return PairwiseFrankWolfe(domain, second_order=True, **budgets)

    def near(self, guess: Tensor) -> Start:
        """The same start from a guess, a point of the simplex `(*batch, n)`."""
        return _Near(self, checks.real_tensor("LearnedStart.near(guess)", guess))

    def forward(self, problem: Problem, domain: Domain) -> Tensor:
        assert problem.shape is not None
        guess = domain.start(tuple(problem.shape), problem.dtype, problem.device)
        return self.correct(problem, domain, guess)[-1]

    @torch.no_grad()
    def correct(self, problem: Problem, domain: Domain, guess: Tensor) -> list[Tensor]:
        """The guess and the points after each round, `(*batch, n)`."""
        self.check_domain(domain)
        if not problem.quadratic:
            raise TypeError(
                f"LearnedStart needs a quadratic problem; {type(problem).__name__} is not. Start "
                "at the guess itself."
            )
        if self.rounds == 0:
            return [guess]
        visit = self.begin(problem, guess)
        points, last = [guess], None
        for _ in range(self.rounds):
            face = self.face(self.scores(visit))
            if not bool(face.any()) or (last is not None and torch.equal(face, last)):
                break
            before, visit, last = visit, self.visit(problem, visit, face), face
            points.append(visit.y)
            # Exact for a quadratic: f(before) − f(after) = ½ ⟨both slopes, before − after⟩.
            fall = ((before.slope + visit.slope) * (before.y - visit.y)).sum(-1) / 2
            if bool((fall <= ENOUGH * (visit.slope * visit.y).sum(-1).abs()).all()):
                break
        return points

    def begin(self, problem: Problem, guess: Tensor) -> Visit:
        """At the guess, before any face."""
        it = problem.at(problem.check_point("guess", guess))
        slope = dense_gradient(problem.gradient(it))
        product = problem.hessian_vertex(Dense(it.x), it.image)
        assert product is not None
        linear = slope - dense_gradient(product)
        return Visit(it, linear, it.x, slope, torch.zeros_like(it.x), it.x, slope)

    def scores(self, visit: Visit) -> Tensor:  # (*batch, n)
        """The network's logit that a coordinate is positive at the solution."""
        features = point_features(visit).to(self.head.weight.dtype)
        hidden: Tensor = self.second(self.first(features).relu()).relu()
        scores: Tensor = self.head(hidden).squeeze(-1)
        return scores

    def face(self, scores: Tensor) -> Tensor:  # (*batch, n) booleans
        """S: the positive scores, `largest` of them at most."""
        kept = min(self.largest, scores.shape[-1])
        least = scores.topk(kept, -1).values[..., -1:]
        return (scores > 0) & (scores >= least)

    def visit(self, problem: Problem, before: Visit, face: Tensor) -> Visit:
        """Solve on the face, drop what is negative, and go to the best point of the segment."""
        y, slope = before.y, before.slope
        total = y.sum(-1, keepdim=True)  # the radius
        u, again = solve_face(problem, before, face)
        p = again.clamp_min(0)
        size = p.sum(-1, keepdim=True)
        p = torch.where(size > 0, total * p / size, y)
        p_slope = dense_gradient(problem.gradient(problem.at(p)))
        ahead, change = p - y, p_slope - slope  # on a segment, ∇f of a quadratic is linear
        fall = -torch.linalg.vecdot(slope, ahead)
        curve = torch.linalg.vecdot(ahead, change).clamp_min(torch.finfo(y.dtype).tiny)
        t = (fall / curve).clamp(0, 1).unsqueeze(-1)
        y, slope = (1 - t) * y + t * p, slope + t * change
        return before._replace(y=y, slope=slope, u=u, p=p, p_slope=p_slope)


@final
class _Near(Start):
    """A learned start that begins at a guess."""

    def __init__(self, start: LearnedStart, guess: Tensor) -> None:
        super().__init__()
        self.learned, self.guess = start, guess

    def forward(self, problem: Problem, domain: Domain) -> Tensor:
        return self.learned.correct(problem, domain, self.guess)[-1]


def solve_face(problem: Problem, visit: Visit, face: Tensor) -> tuple[Tensor, Tensor]:
    """argmin of f over {x : Σ x = Σ y, x = 0 outside the face}, and again without the negatives.

        H_SS x_S = level · 1 − c_S

    Both `(*batch, n)`, the second solved on ever smaller faces, a few times at most; y where there
    is no answer.

    Arguments:
        problem: quadratic.
        visit: with y and c.
        face: booleans `(*batch, n)`, S.
    """
    y, b = visit.y, problem.batch_dims
    if not bool(face.any()):
        return y, y
    index, mask = (part if b else part.squeeze(0) for part in pack(face if b else face[None]))
    block = _block(problem, visit.guess, index).double()  # once squared, float32 is too coarse
    block = (block + block.mT) / 2
    # A little ridge: duplicates and flat faces must not stop a start.
    size = torch.finfo(y.dtype).eps ** 0.6 * block.diagonal(dim1=-2, dim2=-1).mean(-1, keepdim=True)
    linear, total = visit.linear.gather(-1, index), y.sum(-1, keepdim=True)
    answers = []
    for _ in range(SOLVES):
        used = mask.double()
        padded = block * used.unsqueeze(-1) * used.unsqueeze(-2)
        factor, info = torch.linalg.cholesky_ex(padded + torch.diag_embed(size + 1 - used))
        right = torch.stack([used, -used * linear], -1)
        ones, rest = torch.cholesky_solve(right, factor).unbind(-1)
        level = (total - rest.sum(-1, keepdim=True)) / ones.sum(-1, keepdim=True)
        solved = ((rest + level * ones) * used).to(y.dtype)
        u = torch.zeros_like(y).scatter_add(-1, index, solved)  # padding adds 0 to coordinate 0
        fine = (info == 0).unsqueeze(-1) & torch.isfinite(u).all(-1, keepdim=True)
        answers.append(torch.where(fine & face.any(-1, keepdim=True), u, y))
        keep = mask & (solved > 0)
        if torch.equal(keep, mask):
            break
        mask = keep
    return answers[0], answers[-1]


def _block(problem: Problem, it: Iterate, index: Tensor) -> Tensor:  # (*batch, K, K)
    """H_SS of coordinates `(*batch, K)`."""

    def units(some: Tensor) -> OneHot:
        return OneHot(some, it.x.new_ones(some.shape), it.x.shape[-1], unit=True)

    if not isinstance(problem, Quadratic):
        every = units(index)
        return problem.gram(it, every.dense(), problem.vertex_images(every))
    parts = []
    for some in index.split(COLUMNS, -1):  # images are columns of H, of which K entries count
        places = index.unsqueeze(-2).expand(*some.shape, index.shape[-1])
        parts.append(problem.vertex_images(units(some)).gather(-1, places))
    return torch.cat(parts, -2)


@torch.no_grad()
def point_features(visit: Visit) -> Tensor:  # (*batch, n, POINT_FEATURES)
    """Each coordinate's surplus ⟨∇f, y⟩ − ∇f_i at three scales, n y_i at three, two of all; u, p.

    The scales of the surplus: its spread over y, the level ⟨∇f, y⟩, a tenth of it.
    """
    total = visit.y.sum(-1, keepdim=True)
    y, u, p = visit.y / total, visit.u / total, visit.p / total
    n, tiny = y.shape[-1], torch.finfo(y.dtype).tiny
    surplus = _surplus(y, visit.slope)
    spread = (y * surplus.square()).sum(-1, keepdim=True).sqrt().clamp_min(1e-9)
    used = 1 / (n * y.square().sum(-1, keepdim=True)).clamp_min(tiny)
    numbers = [
        torch.asinh(surplus / spread),
        torch.asinh(surplus),
        torch.asinh(10 * surplus),
        torch.asinh(n * y),
        (n * y + 0.01).log() / 3,
        (y > 0).to(y.dtype),
        used.log().expand_as(y),
        spread.log().expand_as(y) / 3,
        torch.asinh(3 * n * u),
        torch.asinh(4 * _surplus(p, visit.p_slope)),
        (u != 0).to(y.dtype),
    ]
    return torch.stack(numbers, -1)


def _surplus(x: Tensor, slope: Tensor) -> Tensor:
    level = (x * slope).sum(-1, keepdim=True)
    return (level - slope) / level.abs().clamp_min(torch.finfo(x.dtype).tiny)
