"""Controllers: feasible, safe and finite whatever their weights; errors in words."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import fwnet
from fwnet import learned
from learned_cases import (
    ON_THE_SIMPLEX,
    seeded,
    svm_family,
    two_gaussians,
    values,
    with_random_weights,
)

EVERY = pytest.mark.parametrize("name", ON_THE_SIMPLEX)
RAW = (  # see the gradient with its unit
    "LSTMDirection",
    "L2LSoftmax",
    "L2LLagrangian",
    "HierarchicalDirection",
    "HierarchicalL2L",
)
KINDS = ("LearnedDirection", "LearnedPairwise", "LearnedAtoms", "LearnedStart")
GENERAL = [n for n in learned.available() if not n.startswith("paper-")]  # those with guarantees
SHIPPED = [n for n in GENERAL if issubclass(fwnet.Simplex, learned.load(n).domains)]
SAFE = [name for name in ON_THE_SIMPLEX if name.startswith(KINDS)]


@EVERY
@pytest.mark.parametrize("scale", [0.3, 3.0, 100.0])
def test_every_iterate_is_feasible_whatever_the_weights(name: str, scale: float) -> None:
    controller = with_random_weights(ON_THE_SIMPLEX[name](), 1, scale)
    problem = svm_family().sample(3, seeded())
    points = []
    net = fwnet.FWNet(controller.solver(fwnet.Simplex(), max_steps=25))
    with torch.no_grad():
        points = [cell.it.x for cell in net.cells(problem)]
    inside = torch.stack([fwnet.Simplex().contains(x) for x in points])
    assert bool(inside.all())


@EVERY
def test_a_batch_equals_a_loop(name: str) -> None:
    controller = with_random_weights(ON_THE_SIMPLEX[name](), 2, 0.5)
    K = svm_family().sample(3, seeded(5)).matrix.matrix
    solver = controller.solver(fwnet.Simplex(), max_steps=12, tol=0.0)
    together = solver(fwnet.Quadratic(K)).value
    alone = torch.stack([solver(fwnet.Quadratic(one)).value for one in K])
    assert torch.allclose(together, alone, rtol=1e-6)


@pytest.mark.parametrize("name", SAFE)
@pytest.mark.parametrize("scale", [0.3, 100.0])
def test_safe_controllers_never_increase_f(name: str, scale: float) -> None:
    controller = with_random_weights(ON_THE_SIMPLEX[name](), 3, scale)
    problem = svm_family(C=50.0).sample(3, seeded(2))
    f = values(controller.solver(fwnet.Simplex(), max_steps=25, tol=0.0)(problem))
    assert bool((f[1:] <= f[:-1] * (1 + 1e-12)).all())


@pytest.mark.parametrize("projected", [False, True])
@pytest.mark.parametrize("attack", ["random", "adversarial", "huge"])
def test_a_learned_direction_is_never_worse_than_the_steps_it_contains(
    attack: str, projected: bool
) -> None:
    """From every iterate of its own run, against Frank-Wolfe's line search from there."""
    problem = svm_family(C=30.0).sample(4, seeded(7))
    controller = learned.LearnedDirection(memory=2, projected=projected)
    with_random_weights(controller, 4, {"random": 1.0, "adversarial": 1.0, "huge": 1e6}[attack])
    if attack == "adversarial":
        _climb(controller, problem)
    solver = controller.solver(fwnet.Simplex())
    rivals = [fwnet.FrankWolfe(fwnet.Simplex(), fwnet.LineSearch())]
    with torch.no_grad():
        it, slots = solver.begin(problem, None)
        net = fwnet.FWNet(solver)
        for _ in range(15):
            cell = net.cell(problem, it, slots)
            mine = problem.value(cell.it)
            for rival in rivals:
                step = fwnet.FWNet(rival).cell(problem, *rival.begin(problem, it.x))
                theirs = problem.value(step.it)
                assert bool((mine <= theirs + 1e-12 * theirs.abs()).all())
            it, slots = cell.it, cell.slots


def _climb(
    controller: learned.Controller,
    problem: fwnet.Problem,
    domain: fwnet.Domain | None = None,
) -> None:
    """Train the weights to make f large."""
    domain = fwnet.Simplex() if domain is None else domain
    optimizer = torch.optim.Adam(controller.parameters(), 0.1, maximize=True)
    for _ in range(6):
        net = fwnet.FWNet(controller.solver(domain, max_steps=4))
        loss = torch.stack([problem.value(cell.it) for cell in net.cells(problem)]).log().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def _problems(family: learned.families.SVMFamily) -> dict[str, tuple[fwnet.Problem, fwnet.Domain]]:
    """A batch of quadratics, one ill-conditioned one, and an f whose curvature varies."""
    K = family.sample(3, seeded(3))
    spread = torch.logspace(-4, 2, 20, dtype=torch.float64)
    A = torch.randn(30, 20, generator=seeded(4), dtype=torch.float64)
    y = torch.where(torch.arange(30) % 3 == 0, 1.0, -1.0).double()
    return {
        "svm": (K, fwnet.Simplex()),
        "steep": (fwnet.Quadratic(torch.diag(spread), -spread.flip(0)), fwnet.L1Ball(3.0)),
        "logistic": (fwnet.LogisticRegression(A, y), fwnet.L1Ball(5.0)),
    }


@pytest.mark.parametrize("attack", ["random", "adversarial", "huge", "smallest c", "largest c"])
@pytest.mark.parametrize("name", ["svm", "steep", "logistic"])
def test_a_learned_step_is_never_behind_the_classic_one(name: str, attack: str) -> None:
    """At every step, far beyond any horizon, whatever the weights and the range of c."""
    problem, domain = _problems(svm_family())[name]
    controller = learned.LearnedStep(low=1e-3, high=1e3)
    with_random_weights(controller, 5, 1e6 if attack == "huge" else 1.0)
    if attack == "adversarial":
        _climb(controller, problem, domain)
    elif attack.endswith("c"):
        with torch.no_grad():
            controller.policy.copy_(torch.tensor([1e9 if attack == "largest c" else -1e9, 0.0]))
    budget: dict[str, Any] = {"max_steps": 600, "tol": 0.0}
    ours = values(controller.solver(domain, **budget)(problem))
    classic = values(fwnet.FrankWolfe(domain, compiled=False, **budget)(problem))
    assert bool((ours <= classic + 1e-12 * classic.abs()).all())


def test_the_shipped_step_far_beyond_its_horizon_is_ahead_of_the_classic_one() -> None:
    controller, family = learned.load("simplex-step"), svm_family()
    problem, steps = family.sample(4, seeded(8)), 2 * controller.card["horizon"][1]
    best, simplex = family.best_values(problem), fwnet.Simplex()
    ours = controller.solver(simplex, max_steps=steps, tol=0.0)(problem).value
    classic = fwnet.FrankWolfe(simplex, max_steps=steps, tol=0.0)(problem).value
    assert bool((ours - best < classic - best).all())


def test_an_untrained_direction_is_the_projected_step() -> None:
    """Zero heads: the learned point is P(x − η∇f) exactly."""
    problem = svm_family().sample(2, seeded(9))
    simplex = fwnet.Simplex()
    it = problem.at(simplex.start((2, 24), torch.float64))
    lin = fwnet.oracles.linearize(problem, simplex, it)
    point = learned.LearnedDirection().hull.proposals[0]
    state = point.init(problem, simplex, it)
    (first, *_), (step, _) = point(problem, simplex, it, lin, state)
    assert torch.allclose(
        first.points[:, 0], simplex.project(it.x - step.length.unsqueeze(-1) * lin.gradient)
    )


@pytest.mark.parametrize("name", [name for name in ON_THE_SIMPLEX if name not in RAW])
def test_units_do_not_matter(name: str) -> None:
    """1024 f has the same iterates."""
    controller = with_random_weights(ON_THE_SIMPLEX[name](), 6, 0.5)
    K = svm_family().sample(2, seeded(5)).matrix.matrix
    solver = controller.solver(fwnet.Simplex(), max_steps=10, tol=0.0)
    one, other = (solver(fwnet.Quadratic(scale * K)).x for scale in (1.0, 1024.0))
    assert torch.allclose(one, other, atol=1e-7)


@EVERY
def test_nan_weights_are_refused(name: str) -> None:
    controller = ON_THE_SIMPLEX[name]()
    with torch.no_grad():
        next(iter(controller.parameters())).view(-1)[0] = torch.nan
    problem = svm_family().sample(1, seeded())
    with pytest.raises(ValueError, match="has a NaN or infinite weight in"):
        controller.solver(fwnet.Simplex())(problem)


def test_a_foreign_domain_is_refused() -> None:
    """When a solver is asked for, and when the slot is put into one by hand."""
    problem = fwnet.Quadratic(torch.eye(4))
    for controller in (learned.LearnedDirection(), learned.LSTMDirection()):
        by_hand = fwnet.FrankWolfe(fwnet.L1Ball(), direction=controller)
        with pytest.raises(TypeError, match=r"was made for Simplex; got L1Ball"):
            controller.solver(fwnet.L1Ball())
        with pytest.raises(TypeError, match=r"was made for Simplex; got L1Ball"):
            by_hand(problem)
    with pytest.raises(TypeError, match="was made for TraceNormBall; got Simplex"):
        learned.LSTMPowerIteration().solver(fwnet.Simplex())


def test_the_paper_over_low_rank_matrices_is_feasible_and_differentiable() -> None:
    X = torch.randn(2, 12, 5, generator=seeded())
    problem = fwnet.SoftmaxRegression(X, torch.arange(24).reshape(2, 12) % 3)
    controller = learned.LSTMPowerIteration(hidden=4)
    ball = fwnet.TraceNormBall(3.0)
    net = fwnet.FWNet(controller.solver(ball, max_steps=6))
    result = net(problem)
    result.value.sum().backward()
    assert bool(ball.contains(result.x.detach()).all())
    assert all(bool(w.grad.abs().sum() > 0) for w in controller.network.head.parameters())


@pytest.mark.parametrize("scale", [0.0, 1.0, 100.0])
def test_a_learned_trace_norm_oracle_stays_in_the_ball_and_descends(scale: float) -> None:
    X = torch.randn(2, 30, 6, generator=seeded(), dtype=torch.float64)
    problem = fwnet.SoftmaxRegression(X, torch.arange(60).reshape(2, 30) % 4)
    ball = fwnet.TraceNormBall(5.0)
    controller = with_random_weights(learned.LearnedTraceNorm(), 1, scale)
    result = controller.solver(ball, max_steps=30, tol=0.0)(problem)
    assert bool(ball.contains(result.x).all())
    known = values(result)
    assert bool((known[1:] <= known[:-1] + 1e-12).all())
    sharp = controller.sharpness(torch.rand(3, 4), torch.rand(3), 5)
    assert bool(((sharp >= 0.099) & (sharp <= 100.1)).all())


def test_a_trace_norm_oracle_of_zero_weights_is_the_soft_one() -> None:
    X = torch.randn(1, 30, 6, generator=seeded(), dtype=torch.float64)
    problem = fwnet.SoftmaxRegression(X, torch.arange(30).reshape(1, 30) % 4)
    ball, beta = fwnet.TraceNormBall(5.0), 10**0.5
    soft = fwnet.FrankWolfe(ball, fwnet.LineSearch(), oracle=fwnet.SoftTraceNorm(beta), max_steps=9)
    learned_one = learned.LearnedTraceNorm().solver(ball, max_steps=9)
    assert torch.allclose(learned_one(problem).x, soft(problem).x, rtol=1e-6)


def test_bad_options_are_sentences() -> None:
    with pytest.raises(ValueError, match=r"0 < low <= high < inf; got low=0\.0"):
        learned.LearnedStep(low=0.0)
    with pytest.raises(ValueError, match="hidden must be a whole number of at least 1"):
        learned.LearnedDirection(hidden=0)


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_controllers_on_twenty_times_their_smallest_size(name: str) -> None:
    X, y = two_gaussians(1300)
    large = fwnet.SVMDual(X @ X.T / 5, 2.0 * y - 1.0, C=1.0)
    result = learned.load(name).solver(fwnet.Simplex(), max_steps=150, tol=1e-4)(large)
    plain = fwnet.FrankWolfe(fwnet.Simplex(), max_steps=150, tol=1e-4)(large)
    assert bool(fwnet.Simplex().contains(result.x))
    assert result.value <= plain.value


def test_the_shipped_direction_at_fifty_times_its_horizon() -> None:
    """Monotone to the end, and at the minimum there: an ill-conditioned problem, 14 steps a try."""
    family = svm_family(C=1e4)
    problem = family.sample(1, seeded(1))
    solver = learned.load("simplex-qp").solver(fwnet.Simplex(), max_steps=700, tol=1e-9)
    f = values(solver(problem))
    assert bool((f[1:] <= f[:-1] * (1 + 1e-12)).all())
    assert torch.allclose(f[-1], family.best_values(problem), rtol=1e-6)


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("weights", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("numbers", [torch.float32, torch.float64])
def test_weights_and_numbers_may_differ_in_precision(
    weights: torch.dtype, numbers: torch.dtype, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not compiled:
        monkeypatch.setattr("fwnet.learned.controllers.direction.machine_code", lambda name: None)
    A = torch.randn(60, 40, generator=seeded(0), dtype=numbers)
    controller = learned.load("simplex-qp").to(weights)
    result = controller.solver(fwnet.Simplex(), max_steps=50, tol=1e-3)(fwnet.Quadratic(A.mT @ A))
    assert result.status == "converged"
    assert result.x.dtype == numbers


def test_equal_curvatures_have_a_gradient() -> None:
    """Where H is a multiple of the identity, no eigenvector is preferred to another."""
    controller = learned.LearnedAtoms()
    solver = controller.solver(fwnet.Simplex(), max_steps=4, tol=0.0)
    K = torch.eye(6, dtype=torch.float64)[None]
    x0 = torch.tensor([[0.5, 0.3, 0.2, 0.0, 0.0, 0.0]], dtype=torch.float64)
    fwnet.FWNet(solver)(fwnet.Quadratic(K), x0).value.sum().backward()
    for weight in controller.parameters():
        assert weight.grad is not None
        assert torch.isfinite(weight.grad).all()


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("batch", [(), (2,)])
@pytest.mark.parametrize("radius", [1.0, 40.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("curvature", [0.0, 1.0, 1e6])
@pytest.mark.parametrize("name", ["simplex-qp", "corrective-atoms"])
def test_where_f_does_not_curve_the_vertex_is_found(
    name: str,
    curvature: float,
    dtype: torch.dtype,
    radius: float,
    batch: tuple[int, ...],
    compiled: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """f = ½ curvature (Σx)² + ⟨c, x⟩: η overflows, and the curvature along the hull is rounding."""
    if not compiled:
        for module in ("direction", "atoms"):
            monkeypatch.setattr(
                f"fwnet.learned.controllers.{module}.machine_code", lambda name: None
            )
    c = torch.randn(*batch, 7, generator=seeded(4), dtype=dtype)
    problem = fwnet.Quadratic(torch.full((*batch, 7, 7), curvature, dtype=dtype), c)
    domain = fwnet.Simplex(radius)
    result = learned.load(name).solver(domain, max_steps=20, tol=0.0)(problem)
    lowest = c.amin(-1) * radius
    slack = 8 * torch.finfo(dtype).eps * (curvature * radius**2 + lowest.abs())
    assert bool(domain.contains(result.x).all())
    assert bool((result.value - (curvature * radius**2 / 2 + lowest) <= slack).all())


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("weight", [1e38, -1e38])
def test_weights_that_overflow_are_no_worse_than_the_line_search(
    weight: float, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not compiled:
        monkeypatch.setattr("fwnet.learned.controllers.direction.machine_code", lambda name: None)
    problem = svm_family(n=40).sample(1, seeded(3)).matrix.matrix[0]
    controller = learned.LearnedDirection(memory=2)
    for parameter in controller.parameters():
        torch.nn.init.constant_(parameter, weight)
    domain = fwnet.Simplex()
    steps = {"max_steps": 1, "tol": 0.0}
    ours = controller.solver(domain, **steps)(fwnet.Quadratic(problem))
    plain = fwnet.FrankWolfe(domain, fwnet.LineSearch(), **steps)(fwnet.Quadratic(problem))
    assert bool(domain.contains(ours.x))
    assert float(ours.value) <= float(plain.value) * (1 + 1e-5)


@pytest.mark.parametrize("beta", [1.0, 10.0])
def test_the_papers_direction_is_a_softmin_of_sharpness_beta(beta: float) -> None:
    torch.manual_seed(0)
    direction = learned.LSTMDirection(beta=beta)
    problem, radius = svm_family(n=10).sample(1, seeded(1)), 2.0
    start = fwnet.Simplex(radius).start((1, 10), torch.float64)
    solver = fwnet.FrankWolfe(
        fwnet.Simplex(radius), fwnet.Constant(1.0), direction=direction, max_steps=1, tol=0.0
    )
    with torch.no_grad():
        reshaped, _ = direction.network(problem.gradient(problem.at(start)), None)
    expected = radius * torch.softmax(-beta * reshaped, -1)
    torch.testing.assert_close(solver(problem, start).x, expected)


def test_the_papers_lagrangian_is_what_l2l_sees() -> None:
    """The network's inputs are the gradients of ½ θᵀKθ − λ Σθ at the θ that it made."""
    torch.manual_seed(0)
    direction, multiplier = learned.L2LLagrangian(hidden=4, multiplier=0.7), 0.7
    problem = svm_family(n=10).sample(2, seeded(1))
    K = problem.matrix.matrix
    seen: list[tuple[torch.Tensor, torch.Tensor]] = []
    direction.network.register_forward_hook(lambda _, args, out: seen.append((args[0], out[0])))
    result = direction.solver(fwnet.Simplex(), max_steps=5, tol=0.0)(problem)
    theta = torch.full((2, 10), 0.1, dtype=torch.float64)
    for inputs, answers in seen[:5]:
        leaf = theta.clone().requires_grad_()
        (0.5 * torch.einsum("bi,bij,bj->", leaf, K, leaf) - multiplier * leaf.sum()).backward()
        torch.testing.assert_close(inputs, leaf.grad)
        theta = (theta + 0.01 * answers).clamp_min(0)
    torch.testing.assert_close(result.x, theta / theta.sum(-1, keepdim=True))


def test_the_papers_step_size_has_the_softmin_that_it_was_trained_with() -> None:
    controller, problem = learned.load("paper-step"), svm_family().sample(2, seeded(3))
    budget: dict[str, Any] = {"max_steps": 20, "tol": 0.0}
    ours = controller.solver(fwnet.Simplex(), **budget)(problem).x
    softmin = fwnet.Softmin(beta=10.0)
    solver = fwnet.FrankWolfe(fwnet.Simplex(), controller, oracle=softmin, **budget)
    torch.testing.assert_close(ours, solver(problem).x, rtol=0, atol=0)
    assert isinstance(learned.LSTMStep().solver(fwnet.L1Ball()).oracle, fwnet.Exact)
    with pytest.raises(ValueError, match=r"LSTMStep\(beta=...\) must be"):
        learned.LSTMStep(beta=0.0)
