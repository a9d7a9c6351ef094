"""Starts for problems that recur, atoms from an affine hull, and the slot of the core."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import fwnet
from fwnet import learned
from fwnet.learned.controllers import atoms
from fwnet.learned.families.real import digits
from fwnet.learned.recurring import TASKS, Starts
from fwnet.quadratic.solve import simplex_qp
from learned_cases import seeded, svm_family, with_random_weights

SIMPLEX = fwnet.Simplex()


@pytest.mark.parametrize("name", TASKS)
def test_a_task_has_a_feasible_guess_and_the_minimum(name: str) -> None:
    """The minimum by another solver: pairwise steps with a certificate."""
    task = TASKS[name][0](*digits("train"), 2, 24, seeded())
    assert bool(SIMPLEX.contains(task.guess).all())
    solver = fwnet.PairwiseFrankWolfe(SIMPLEX, second_order=True, max_steps=20_000, tol=1e-10)
    assert torch.allclose(solver(task.problem).value, task.best, rtol=1e-7)
    if name != "few-shot episodes":  # a neighbour is nearer than the barycentre
        centre = torch.full_like(task.guess, 1 / 24)
        near, far = (task.problem.value(task.problem.at(x)) for x in (task.guess, centre))
        assert bool((near < far).all())


@pytest.mark.parametrize("scale", [0.0, 1.0, 100.0])
def test_a_start_is_feasible_and_not_above_its_guess(scale: float) -> None:
    start = with_random_weights(learned.LearnedStart(hidden=6), 0, scale)
    problem = svm_family().sample(3, seeded(1))
    guess = torch.rand(3, 24, generator=seeded(2), dtype=torch.float64)
    guess = guess / guess.sum(-1, keepdim=True)
    points = start.correct(problem, SIMPLEX, guess)
    f = torch.stack([problem.value(problem.at(point)) for point in points])
    assert bool(torch.stack([SIMPLEX.contains(point) for point in points]).all())
    assert bool((f[1:] <= f[:-1] * (1 + 1e-9)).all())


@pytest.mark.parametrize("name", TASKS)
def test_on_the_right_face_a_start_is_the_solution(name: str) -> None:
    """One round, against block pivoting to the end."""
    task = TASKS[name][0](*digits("train"), 2, 24, seeded())
    start = learned.LearnedStart()
    visit = start.begin(task.problem, task.guess)
    after = start.visit(task.problem, visit, task.solution > 1e-9)
    assert torch.allclose(after.y, task.solution, atol=1e-7)
    assert torch.allclose(after.slope, task.problem.image(after.y))


def test_a_face_is_solved_whatever_the_problem_is_made_of() -> None:
    """½|Ax − b|² by its columns, by its matrix, and by elimination in NumPy."""
    A = torch.randn(9, 6, generator=seeded(1), dtype=torch.float64)
    b = torch.randn(9, generator=seeded(2), dtype=torch.float64)
    face = torch.tensor([True, False, True, True, False, True])
    guess = torch.full((6,), 0.5, dtype=torch.float64)  # of a simplex of radius 3
    problems = (fwnet.LeastSquares(A, b), fwnet.Quadratic(A.mT @ A, -(A.mT @ b)))
    start = learned.LearnedStart()
    one, other = (start.visit(p, start.begin(p, guess), face).u for p in problems)
    H, c = (A.mT @ A).numpy()[np.ix_(np.asarray(face), np.asarray(face))], -(A.mT @ b).numpy()[face]
    ones = np.ones(4)
    level = (3 + ones @ np.linalg.solve(H, c)) / (ones @ np.linalg.solve(H, ones))
    expected = np.linalg.solve(H, level * ones - c)
    for u in (one, other):
        assert np.allclose(u.numpy()[face], expected, atol=1e-6)
        assert bool((u[~face] == 0).all())


def test_a_face_has_at_most_the_largest_number_of_coordinates() -> None:
    scores = torch.tensor([[3.0, -1.0, 2.0, 1.0], [-1.0, -2.0, -3.0, 0.5]])
    face = learned.LearnedStart(largest=2).face(scores)
    assert face.tolist() == [[True, False, True, False], [False, False, False, True]]


@pytest.mark.slow
def test_training_brings_the_start_nearer() -> None:
    torch.manual_seed(0)
    training, validation = (
        Starts(*digits(part), tasks=("few-shot episodes",), pool=6)
        for part in ("train", "validation")
    )
    config = learned.MetaConfig(steps=150, learning_rate=5e-3, validate_every=50, seed=1)
    start, history = learned.meta_train(
        learned.LearnedStart(hidden=8, rounds=2), training, config, validation=validation
    )
    assert {record.horizon for record in history} == {2}
    assert min(history.validations) < 0.8 * history.initial
    task = TASKS["few-shot episodes"][0](*digits("test"), 4, 40, seeded(3))
    points = start.correct(task.problem, SIMPLEX, task.guess)
    before, after = (task.problem.value(task.problem.at(p)) for p in (points[0], points[-1]))
    assert bool((after - task.best < 0.8 * (before - task.best)).all())


def test_the_slot_begins_where_the_start_says() -> None:
    problem = fwnet.Quadratic(torch.diag(torch.arange(1.0, 6.0)))
    guess = torch.tensor([0.5, 0.2, 0.1, 0.1, 0.1])
    solver = fwnet.FrankWolfe(SIMPLEX, start=learned.LearnedStart().near(guess), max_steps=0)
    assert torch.allclose(solver(problem).x, guess)
    assert torch.equal(solver(problem, torch.eye(5)[0]).x, torch.eye(5)[0])  # x0 goes before
    with pytest.raises(TypeError, match="start must be a Start; got 3"):
        fwnet.FrankWolfe(SIMPLEX, start=3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"must have shape \(5,\)"):
        fwnet.FrankWolfe(SIMPLEX, start=learned.LearnedStart().near(torch.ones(3) / 3))(problem)


def test_a_start_outside_the_domain_is_refused() -> None:
    class Outside(fwnet.Start):
        def forward(self, problem: fwnet.Problem, domain: fwnet.Domain) -> torch.Tensor:
            return torch.ones(4)

    with pytest.raises(ValueError, match="x0 must lie in Simplex"):
        fwnet.FrankWolfe(SIMPLEX, start=Outside())(fwnet.Quadratic(torch.eye(4)))


def test_untrained_atoms_are_the_hand_designed_ones() -> None:
    problem = svm_family().sample(2, seeded(4))
    hand = fwnet.Corrective(SIMPLEX, memory=5, max_steps=8, tol=0.0)(problem)
    ours = learned.LearnedAtoms(memory=5).solver(SIMPLEX, max_steps=8, tol=0.0)(problem)
    assert torch.allclose(hand.x, ours.x, atol=1e-9)


def test_the_model_of_an_atom_is_minimised_over_the_simplex() -> None:
    """Against the exact solver on the dense matrix σI + ZZᵀ."""
    x = SIMPLEX.start((3, 12), torch.float64)
    Z = torch.randn(3, 12, 4, generator=seeded(3), dtype=torch.float64)
    ahead = 0.2 * torch.randn(3, 12, generator=seeded(4), dtype=torch.float64)
    sigma = torch.tensor([[0.3], [1.0], [4.0]], dtype=torch.float64)
    v = atoms._model_minimum(SIMPLEX, x, ahead, Z, sigma)
    low_rank = Z @ Z.mT
    Q = low_rank + sigma.unsqueeze(-1) * torch.eye(12)
    c = -(low_rank @ x.unsqueeze(-1)).squeeze(-1) - sigma * (x + ahead)
    assert torch.allclose(v, simplex_qp(Q, c), atol=1e-8)


def test_an_atom_knows_the_curvature_along_the_hull() -> None:
    """(σI + ZZᵀ) w = Hw where H has more curvature than σ everywhere."""
    root = torch.randn(2, 8, 8, generator=seeded(5), dtype=torch.float64)
    H = root @ root.mT + torch.eye(8)
    directions = torch.nn.functional.normalize(
        torch.randn(2, 3, 8, generator=seeded(6), dtype=torch.float64), dim=-1
    )
    sigma = torch.full((2, 1), 0.5, dtype=torch.float64)
    Z = atoms._known_curvature(directions, directions @ H, sigma, torch.tensor(1e-12))
    assert torch.allclose(0.5 * directions + directions @ Z @ Z.mT, directions @ H)


def test_controllers_of_quadratics_say_what_they_need() -> None:
    problem = fwnet.LogisticRegression(torch.eye(4), torch.tensor([1.0, -1.0, 1.0, -1.0]))
    for controller in (
        learned.LearnedAtoms(),
        learned.LearnedPairwise(),
        learned.LearnedPairwise(second_order=False),
        learned.LearnedStart(),
    ):
        name = type(controller).__name__
        with pytest.raises(TypeError, match=f"{name} needs a quadratic problem"):
            controller.solver(SIMPLEX)(problem)


def test_tasks_say_what_they_need() -> None:
    X, y = digits("train")
    make = TASKS["one-vs-one pairs"][0]
    with pytest.raises(ValueError, match=r"class \d has \d+ points, 200 are asked for"):
        make(X, y, 1, 400, seeded())
    with pytest.raises(ValueError, match=r"y must hold at least 3 classes; got \[0, 1\]"):
        make(X[y < 2], y[y < 2], 1, 20, seeded())
    with pytest.raises(ValueError, match="must be of C-paths, one"):
        Starts(X, y, tasks=["paths"])
    with pytest.raises(TypeError, match="must be a LearnedStart; got LearnedStep"):
        learned.meta_train(learned.LearnedStep(), Starts(X, y))
