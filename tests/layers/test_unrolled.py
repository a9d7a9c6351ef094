"""FWNet: gradients against finite differences, checkpoints, state_dict, compilation, batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import gradcheck

import fwnet
from cases import F64, FEASIBLE, labels, normal, seeded, spd
from fwnet.oracles import Linearization


def net(rule: Any = None, steps: int = 6, domain: Any = None, **slots: Any) -> fwnet.FWNet:
    checkpoint = slots.pop("checkpoint", False)
    solver = fwnet.FrankWolfe(domain or fwnet.Simplex(), rule, max_steps=steps, **slots)
    return fwnet.FWNet(solver, checkpoint=checkpoint)


def softmin(**slots: Any) -> fwnet.FWNet:
    return net(oracle=fwnet.Softmin(3.0, relative=True, growth=0.5), **slots)


def symmetric(K: Tensor) -> Tensor:
    return (K + K.mT) / 2


START = torch.tensor([0.4, 0.3, 0.2, 0.1], dtype=F64)


def on_the_simplex(x0: Tensor) -> Tensor:
    return x0 / x0.sum(-1, keepdim=True)


@pytest.mark.parametrize("checkpoint", [False, True])
def test_gradients_of_softmin_in_k_c_and_x0(checkpoint: bool) -> None:
    network = softmin(checkpoint=checkpoint)

    def run(K: Tensor, c: Tensor, x0: Tensor) -> tuple[Tensor, Tensor]:
        result = network(fwnet.Quadratic(symmetric(K), c), on_the_simplex(x0))
        return result.x, result.value

    inputs = (spd(1, 4, 4), normal(2, 4), START)
    assert gradcheck(run, tuple(v.clone().requires_grad_() for v in inputs))


def test_gradients_in_a() -> None:
    def run(A: Tensor, b: Tensor) -> Tensor:
        return softmin()(fwnet.LeastSquares(A, b, 0.2)).x

    assert gradcheck(run, (normal(3, 5, 4).requires_grad_(), normal(4, 5).requires_grad_()))


def test_gradients_through_the_trace() -> None:
    def run(K: Tensor) -> Tensor:
        result = softmin()(fwnet.Quadratic(symmetric(K)))
        values = torch.stack([record.value for record in result.trace])
        return values.log().mean()

    assert gradcheck(run, (spd(1, 4, 4).requires_grad_(),))


def quadratic(K: Tensor) -> fwnet.Problem:
    return fwnet.Quadratic(symmetric(K), normal(5, 4))


Y = labels(6, 6)
TARGETS = torch.tensor([0, 1, 2, 0, 1, 1])
EXACT = fwnet.LineSearch(tol=1e-13, max_evaluations=60)
PATHS: dict[str, tuple[fwnet.FWNet, Callable[[Tensor], fwnet.Problem], Tensor]] = {
    "exact, open loop": (net(fwnet.OpenLoop()), quadratic, spd(1, 4, 4)),
    "exact, line search": (net(fwnet.LineSearch()), quadratic, spd(1, 4, 4)),
    "softmin, line search": (softmin(rule=fwnet.LineSearch()), quadratic, spd(1, 4, 4)),
    "corrective": (
        net(fwnet.LineSearch(), steps=3, direction=fwnet.Corrections(2)),
        quadratic,
        spd(1, 4, 4),
    ),
    "over-relaxed": (softmin(rule=fwnet.OverRelaxed(1.5)), quadratic, spd(1, 4, 4)),
    "short step": (net(fwnet.ShortStep(20.0), domain=fwnet.L2Ball()), quadratic, spd(1, 4, 4)),
    "l2 ball": (net(fwnet.LineSearch(), domain=fwnet.L2Ball()), quadratic, spd(1, 4, 4)),
    "pairwise": (
        fwnet.FWNet(fwnet.PairwiseFrankWolfe(fwnet.Simplex(), fwnet.OverRelaxed(1.5), max_steps=6)),
        quadratic,
        spd(1, 4, 4),
    ),
    "away": (
        fwnet.FWNet(fwnet.AwayFrankWolfe(fwnet.Simplex(), fwnet.OverRelaxed(1.5), max_steps=6)),
        quadratic,
        spd(1, 4, 4),
    ),
    "blended": (
        fwnet.FWNet(fwnet.BlendedPairwise(fwnet.Simplex(), fwnet.OverRelaxed(1.5), max_steps=6)),
        quadratic,
        spd(1, 4, 4),
    ),
    "stochastic": (
        fwnet.FWNet(fwnet.StochasticFrankWolfe(fwnet.L2Ball(), batch_size=3, max_steps=4)),
        lambda A: fwnet.LeastSquares(A, normal(7, 6)),
        normal(8, 6, 4),
    ),
    "logistic, line search": (
        net(EXACT, 4, fwnet.L2Ball(3.0)),
        lambda X: fwnet.LogisticRegression(X, Y),
        normal(9, 6, 4),
    ),
    "function, line search": (
        net(EXACT, 3, fwnet.Simplex(), oracle=fwnet.Softmin(2.0)),
        lambda X: fwnet.Function(lambda w: nn.functional.softplus(-Y * (X @ w)).mean()),
        normal(9, 6, 4),
    ),
    "power iteration": (
        net(fwnet.OpenLoop(4), 4, fwnet.TraceNormBall(1.3), oracle=fwnet.PowerIteration(2)),
        lambda X: fwnet.SoftmaxRegression(X, TARGETS),
        normal(10, 6, 4),
    ),
    "soft trace norm": (
        net(fwnet.OpenLoop(4), 3, fwnet.TraceNormBall(1.3), oracle=fwnet.SoftTraceNorm(2.0)),
        lambda X: fwnet.SoftmaxRegression(X, TARGETS),
        normal(10, 6, 4),
    ),
    "exact trace norm": (
        net(fwnet.OpenLoop(4), 3, fwnet.TraceNormBall(1.3)),
        lambda X: fwnet.SoftmaxRegression(X, TARGETS),
        normal(10, 6, 4),
    ),
}


@pytest.mark.parametrize("name", PATHS)
def test_gradients_of_every_path(name: str) -> None:
    network, build, data = PATHS[name]
    start = START if "function" in name else None

    def run(values: Tensor) -> Tensor:
        return network(build(values), start).x

    assert gradcheck(run, (data.clone().requires_grad_(),))


@pytest.mark.parametrize(("n", "steps", "seed"), [(3, 3, 3), (3, 6, 3), (4, 6, 0), (4, 6, 12)])
def test_gradients_of_corrections_past_the_minimum(n: int, steps: int, seed: int) -> None:
    """Once x is the minimum, the next direction is rounding: its noise must not reach gradients."""
    A = normal(seed, n, n)
    network = net(fwnet.LineSearch(), steps=steps, direction=fwnet.Corrections(2))

    def run(K: Tensor) -> Tensor:
        return network(fwnet.Quadratic((K + K.mT) / 2)).x

    K = A @ A.mT / n + 0.1 * torch.eye(n, dtype=torch.float64)
    assert gradcheck(run, (K.requires_grad_(),))


def test_gradients_of_corrections_that_met_the_minimum_on_a_line() -> None:
    """The minimum lies between the start and the first vertex; later steps would follow c."""
    K = torch.tensor([[2.0, 0.5], [0.5, 1.0]], dtype=F64)
    c = (-K @ torch.full((2,), 0.25, dtype=F64)).requires_grad_()
    network = fwnet.FWNet(fwnet.Corrective(fwnet.LInfBall(1.0), max_steps=3))
    x = network(fwnet.Quadratic(K, c), torch.full((2,), -1.0, dtype=F64)).x
    (found,) = torch.autograd.grad(x[0], c)
    assert found.tolist() == pytest.approx((-torch.linalg.inv(K))[0].tolist(), abs=1e-6)


def test_gradients_of_corrections_past_the_minimum_of_a_loss() -> None:
    """A line search along a direction of rounding would divide noise by a smaller curvature."""
    generator = torch.Generator().manual_seed(2959)
    A, _, more = (torch.randn(6, k, dtype=F64, generator=generator) for k in (3, 1, 3))
    y = torch.tensor([1.0, -1.0, 1.0, -1.0, 1.0, 1.0], dtype=F64)

    def run(t: Tensor, steps: int) -> Tensor:
        rule = fwnet.LineSearch(1e-13, 100)
        network = fwnet.FWNet(fwnet.Corrective(fwnet.Simplex(1.5), rule, max_steps=steps))
        return network(fwnet.LogisticRegression(A + t * more, y)).x

    for steps in (6, 12, 24):
        t = torch.zeros((), dtype=F64, requires_grad=True)
        (found,) = torch.autograd.grad(run(t, steps)[2], t)
        ahead, behind = (run(torch.tensor(h, dtype=F64), 24)[2] for h in (1e-4, -1e-4))
        assert float(found) == pytest.approx(float(ahead - behind) / 2e-4, rel=1e-3)


@pytest.mark.parametrize("cost", [[1.0, -2.0, 0.5], [1.0, 0.0, 0.0]])
@pytest.mark.parametrize("rule", [fwnet.LineSearch(), fwnet.Backtracking()], ids=repr)
@pytest.mark.parametrize("solver", [fwnet.FrankWolfe, fwnet.PairwiseFrankWolfe])
def test_gradients_of_a_linear_function(solver: Any, rule: Any, cost: list[float]) -> None:
    """The minimum is a vertex, which stays; the slope along a step does not depend on the step."""
    ones = torch.ones(1, 3, dtype=F64)
    domains = (
        fwnet.ConvexHull(torch.eye(3, dtype=F64)),
        fwnet.Polytope(A_ub=ones, b_ub=ones[0, :1], bounds=(-1, 1)),
        fwnet.Box(-1.0, 1.0),
    )
    for domain in domains:
        c = torch.tensor(cost, dtype=F64)
        network, start = fwnet.FWNet(solver(domain, rule, max_steps=4)), domain.start((3,), F64)
        plain = network(lambda x, c=c: (c * x).sum(), start)
        c.requires_grad_()
        result = network(lambda x, c=c: (c * x).sum(), start)
        torch.testing.assert_close(result.x, plain.x)
        (found,) = torch.autograd.grad((result.x * c.new_tensor([3, 2, 1])).sum() + 0 * c.sum(), c)
        assert float(found.abs().max()) < 1e-12


@pytest.mark.parametrize("name", PATHS)
def test_checkpointing_gives_equal_gradients(name: str) -> None:
    network, build, data = PATHS[name]
    start = START if "function" in name else None
    gradients = []
    for checkpoint in (False, True):
        leaf = data.clone().requires_grad_()
        result = fwnet.FWNet(network.solver, checkpoint)(build(leaf), start)
        (result.value + result.x.square().sum()).backward()
        gradients.append(leaf.grad)
    torch.testing.assert_close(*gradients, rtol=1e-12, atol=1e-13)


def test_gradients_of_a_matrix_that_lanczos_would_be_asked_for() -> None:
    """17 classes and more: the oracle sees only products of the gradient, unless someone learns."""
    y = torch.randint(0, 18, (30,), generator=seeded(12))
    network = net(fwnet.OpenLoop(4), 2, fwnet.TraceNormBall(1.3))

    def value(X: Tensor) -> Tensor:
        return network(fwnet.SoftmaxRegression(X, y, 18)).value

    X, way, h = normal(13, 30, 20).requires_grad_(), normal(14, 30, 20), 1e-5
    (gradient,) = torch.autograd.grad(value(X), X)
    with torch.no_grad():
        numeric = float(value(X + h * way) - value(X - h * way)) / (2 * h)
    assert float((gradient * way).sum()) == pytest.approx(numeric, rel=1e-6)


def test_checkpointing_saves_memory() -> None:
    kept = []
    for checkpoint in (False, True):
        count = 0

        def pack(tensor: Tensor) -> Tensor:
            nonlocal count
            count += tensor.numel()
            return tensor

        K = spd(11, 40, 40).requires_grad_()
        problem = fwnet.Quadratic(symmetric(K))
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            softmin(steps=30, checkpoint=checkpoint)(problem)
        kept.append(count)
    assert kept[1] < 0.5 * kept[0]


def test_the_network_is_the_solver() -> None:
    """All steps of the loop, no more, no less, whatever the tolerance."""
    problem = fwnet.Quadratic(spd(1, 6, 6))
    plain: Any = {"max_steps": 12, "tol": 0.0, "compiled": False}
    for solver in (
        fwnet.FrankWolfe(fwnet.Simplex(), fwnet.LineSearch(), **plain),
        fwnet.PairwiseFrankWolfe(fwnet.Simplex(), **plain),
        fwnet.BlendedPairwise(fwnet.Simplex(), **plain),
        fwnet.FrankWolfe(fwnet.Simplex(), oracle=fwnet.Softmin(3.0), **plain),
    ):
        solved, unrolled = solver(problem), fwnet.FWNet(solver)(problem)
        torch.testing.assert_close(unrolled.x, solved.x, rtol=0, atol=1e-12)
        torch.testing.assert_close(unrolled.gap, solved.gap, rtol=0, atol=1e-11)
        assert (unrolled.status, unrolled.steps) == ("max_steps", 12)
        assert len(unrolled.trace) == 12
        values = [float(record.value) for record in unrolled.trace]
        assert values == pytest.approx([r.value for r in solved.trace[:12]], rel=1e-10)
    wide = fwnet.FrankWolfe(fwnet.Simplex(), max_steps=9, tol=1e3)
    assert fwnet.FWNet(wide)(problem).steps == 9


def test_cells_are_the_network() -> None:
    problem, network = fwnet.Quadratic(spd(1, 6, 6)), softmin(steps=5)
    cells = list(network.cells(problem))
    assert len(cells) == 5
    assert torch.equal(cells[-1].it.x, network(problem).x)
    assert [float(c.step_size) for c in cells] == pytest.approx([2 / (t + 2) for t in range(5)])
    it, slots = network.solver.begin(problem, None)
    for wanted in cells:
        state = network.cell(problem, it, slots)
        it, slots = state.it, state.slots
        assert torch.equal(it.x, wanted.it.x)


@pytest.mark.parametrize("dtype", FEASIBLE)
def test_every_cell_is_feasible(dtype: torch.dtype) -> None:
    K = spd(1, 6, 6).to(dtype).requires_grad_()
    for network in (softmin(steps=30), net(fwnet.LineSearch(), 30), net(lambda t: 9.0, 30)):
        for cell in network.cells(fwnet.Quadratic(K)):
            x = cell.it.x.detach().double()
            assert float(x.min()) >= -FEASIBLE[dtype]
            assert float((x.sum() - 1).abs()) <= FEASIBLE[dtype]


def test_a_batch_equals_a_loop_with_its_gradients() -> None:
    K = torch.stack([spd(i, 5, 5) for i in range(3)])
    for network in (softmin(), net(fwnet.LineSearch())):
        together = K.clone().requires_grad_()
        result = network(fwnet.Quadratic(together))
        assert result.status == ("max_steps",) * 3
        assert result.steps == (6, 6, 6)
        result.value.sum().backward()
        assert together.grad is not None
        for i in range(3):
            one = K[i].clone().requires_grad_()
            alone = network(fwnet.Quadratic(one))
            alone.value.backward()
            torch.testing.assert_close(result.x[i], alone.x, rtol=0, atol=1e-12)
            torch.testing.assert_close(together.grad[i], one.grad, rtol=1e-9, atol=1e-12)


def test_x0_is_never_changed_and_gets_its_gradient() -> None:
    x0 = START.clone().requires_grad_()
    result = softmin()(fwnet.Quadratic(spd(1, 4, 4)), x0)
    assert torch.equal(x0.detach(), START)
    result.value.backward()
    assert x0.grad is not None
    assert bool(torch.isfinite(x0.grad).all())


def test_gradients_stay_finite_at_a_vertex() -> None:
    """The optimum is a vertex: directions, slopes and curvatures all vanish there."""
    for rule in (fwnet.LineSearch(), fwnet.OpenLoop(), fwnet.OverRelaxed(1.5)):
        K = torch.diag(torch.tensor([1.0, 10.0, 10.0])).double().requires_grad_()
        c = torch.tensor([-5.0, 0.0, 0.0]).double().requires_grad_()
        network = net(rule, 20)
        network(fwnet.Quadratic(K, c)).value.backward()
        assert K.grad is not None
        assert c.grad is not None
        wanted = torch.zeros(3, 3, dtype=F64)
        wanted[0, 0] = 0.5  # f = ½ xᵀKx + cᵀx at e_1, by the envelope theorem
        torch.testing.assert_close(K.grad, wanted, rtol=0, atol=1e-6)
        torch.testing.assert_close(c.grad, torch.tensor([1.0, 0, 0]).double(), rtol=0, atol=1e-6)


# Slots with weights -----------------------------------------------------------------------------


class LearnedStep(fwnet.StepRule):
    def __init__(self) -> None:
        super().__init__()
        self.size = nn.Parameter(torch.zeros(5, dtype=F64))

    def init(self, problem: Any, it: Any) -> int:
        return 0

    def forward(self, problem: Any, it: Any, move: Any, state: Any) -> tuple[Tensor, int]:
        return torch.sigmoid(self.size[state]), state + 1


class LearnedOracle(fwnet.Oracle):
    def __init__(self) -> None:
        super().__init__()
        self.log_beta = nn.Parameter(torch.tensor(0.5, dtype=F64))

    def forward(self, problem: Any, domain: Any, it: Any, state: Any) -> tuple[Linearization, Any]:
        value, gradient, along = problem.first_order(it)
        point = domain.radius * torch.softmax(-self.log_beta.exp() * gradient, -1)
        vertex = fwnet.vertices.Dense(point)
        decrease = along - vertex.inner(gradient)
        return Linearization(value, gradient, along, vertex, decrease, exact=False), state


class LearnedDirection(fwnet.Direction):
    """Part of the way toward the vertex, part toward the barycentre."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Parameter(torch.tensor(0.3, dtype=F64))

    def forward(self, problem: Any, it: Any, lin: Any, state: Any) -> tuple[Any, Any]:
        share = torch.sigmoid(self.mix)
        point = share * lin.vertex.dense() + (1 - share) / it.x.shape[-1]
        vertex = fwnet.vertices.Dense(point)
        term = fwnet.iterates.Term(1.0, vertex, problem.vertex_image(vertex))
        slope = vertex.inner(lin.gradient) - lin.along
        return fwnet.iterates.Move(it, -1.0, (term,), lin.value, slope), state


def learned() -> fwnet.FWNet:
    return net(LearnedStep(), 5, oracle=LearnedOracle(), direction=LearnedDirection())


def test_state_dict_round_trip() -> None:
    first, second = learned(), learned()
    names = set(first.state_dict())
    assert names == {"solver.rule.size", "solver.oracle.log_beta", "solver.direction.mix"}
    for i, weight in enumerate(first.parameters()):
        nn.init.normal_(weight, generator=seeded(i))
    problem = fwnet.Quadratic(spd(1, 4, 4))
    assert not torch.equal(first(problem).x, second(problem).x)
    second.load_state_dict(first.state_dict())
    assert torch.equal(first(problem).x, second(problem).x)


def test_gradients_in_weights() -> None:
    network, problem = learned(), fwnet.Quadratic(spd(1, 4, 4), normal(2, 4))
    weights = list(network.parameters())
    result = network(problem)
    analytic = torch.autograd.grad(result.value, weights)
    for weight, gradient in zip(weights, analytic, strict=True):
        for i in range(weight.numel()):
            values = []
            for h in (1e-5, -1e-5):
                with torch.no_grad():
                    weight.view(-1)[i] += h
                    values.append(float(network(problem).value))
                    weight.view(-1)[i] -= h
            numeric = (values[0] - values[1]) / 2e-5
            assert float(gradient.reshape(-1)[i]) == pytest.approx(numeric, rel=1e-6, abs=1e-9)


def test_weights_learn() -> None:
    network, problem = learned(), fwnet.Quadratic(spd(1, 4, 4))
    before = float(network(problem).value.detach())
    optimizer = torch.optim.Adam(network.parameters(), lr=0.1)
    for _ in range(20):
        optimizer.zero_grad()
        network(problem).value.backward()
        optimizer.step()
    assert float(network(problem).value.detach()) < before - 1e-4
    solved = network.solver(problem)  # the same slots in the plain loop
    assert solved.x.requires_grad is False


def test_modules_move_and_print() -> None:
    network = learned().float()
    assert {weight.dtype for weight in network.parameters()} == {torch.float32}
    assert "LearnedOracle" in repr(network)
    assert "beta=3.0, relative=True, growth=0.5" in repr(softmin())


# Compilation ------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["softmin", "exact"])
def test_compiles_to_one_graph(kind: str) -> None:
    network = softmin(steps=2) if kind == "softmin" else net(fwnet.LineSearch(), 2)

    def loss(K: Tensor, x0: Tensor) -> tuple[Tensor, Tensor]:
        result = network(fwnet.Quadratic(symmetric(K)), x0)
        return result.value, result.x

    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    gradients, answers = [], []
    for run in (loss, compiled):
        K = spd(1, 4, 4).requires_grad_()
        value, x = run(K, START)
        value.backward()
        gradients.append(K.grad)
        answers.append(x.detach())
    torch.testing.assert_close(*answers, rtol=1e-13, atol=1e-14)
    torch.testing.assert_close(*gradients, rtol=1e-12, atol=1e-13)
    whole = torch.compile(network, fullgraph=True, backend="aot_eager")
    with torch.no_grad():
        problem = fwnet.Quadratic(torch.stack([spd(i, 4, 4) for i in range(2)]))
        eager, fast = network(problem), whole(problem)
        torch.testing.assert_close(eager.x, fast.x, rtol=1e-13, atol=1e-14)
        torch.testing.assert_close(eager.gap, fast.gap, rtol=1e-12, atol=1e-13)
