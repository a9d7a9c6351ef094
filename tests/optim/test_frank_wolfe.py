"""FrankWolfe: closed forms for one step, torch's AdamW, feasibility over thousands of steps."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import fwnet
from fwnet.optim import FrankWolfe, constrain, spectral

F64 = torch.float64

# A domain of vectors holds the whole weight here; test_layouts.py tests the warning.
pytestmark = pytest.mark.filterwarnings("ignore:.* holds vectors, so all")


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def parameter(*shape: int, seed: int = 0, scale: float = 0.01, dtype: torch.dtype = F64) -> Tensor:
    return nn.Parameter(scale * torch.randn(*shape, generator=seeded(seed), dtype=dtype))


def gradient(*shape: int, seed: int = 1, dtype: torch.dtype = F64) -> Tensor:
    return torch.randn(*shape, generator=seeded(seed), dtype=dtype)


def top_pair(matrix: Tensor) -> Tensor:
    u, _, vh = torch.linalg.svd(matrix)
    return torch.outer(u[:, 0], vh[0])


def polar(matrix: Tensor) -> Tensor:
    u, _, vh = torch.linalg.svd(matrix, full_matrices=False)
    return u @ vh


def soft(matrix: Tensor, beta: float) -> Tensor:
    u, s, vh = torch.linalg.svd(matrix, full_matrices=False)
    return u @ torch.diag(torch.softmax(beta * s / s[0], 0)) @ vh


# (domain, oracle, vertex of a gradient G in closed form)
STEPS: list[tuple[fwnet.Domain, object, Callable[[Tensor], Tensor]]] = [
    (fwnet.TraceNormBall(3.0), fwnet.PowerIteration(200), lambda G: -3.0 * top_pair(G)),
    (fwnet.TraceNormBall(3.0), fwnet.Exact(), lambda G: -3.0 * top_pair(G)),
    (fwnet.TraceNormBall(3.0), fwnet.SoftTraceNorm(4.0), lambda G: -3.0 * soft(G, 4.0)),
    (fwnet.TraceNormBall(3.0), fwnet.NewtonSchulz(8), lambda G: -3.0 / 4 * polar(G)),
    (fwnet.SpectralBall(3.0), fwnet.NewtonSchulz(8), lambda G: -3.0 * polar(G)),
    (fwnet.SpectralBall(3.0), fwnet.Exact(), lambda G: -3.0 * polar(G)),
    (fwnet.RowBall(3.0), None, lambda G: -3.0 * G / G.norm(dim=1, keepdim=True)),
    (fwnet.LInfBall(3.0), None, lambda G: -3.0 * G.sign()),
    (fwnet.L2Ball(3.0), None, lambda G: -3.0 * G / G.norm()),
    (fwnet.L1Ball(3.0), None, lambda G: -3.0 * G.sign() * (G.abs() == G.abs().max())),
]


@pytest.mark.parametrize("case", STEPS, ids=lambda case: f"{case[0]}-{case[1]}")
def test_two_steps_in_closed_form(case) -> None:
    domain, oracle, vertex = case
    w = parameter(4, 6)
    expected = w.detach().clone()
    opt = FrankWolfe([w], lr=0.1, domain=domain, oracle=oracle, momentum=0.75, rescale=None)
    first, second = gradient(4, 6, seed=1), gradient(4, 6, seed=2)
    for given, averaged in ((first, first), (second, 0.75 * first + 0.25 * second)):
        w.grad = given.clone()
        opt.step()
        expected = 0.9 * expected + 0.1 * vertex(averaged)
        torch.testing.assert_close(w.detach(), expected, rtol=0, atol=1e-9)


def test_a_convolution_is_folded_and_a_vector_domain_sees_one_vector() -> None:
    w = parameter(4, 2, 3, 3)
    opt = FrankWolfe([w], lr=0.5, domain=fwnet.SpectralBall(2.0), momentum=0.0, rescale=None)
    start, w.grad = w.detach().clone(), gradient(4, 2, 3, 3)
    opt.param_groups[0]["oracle"] = fwnet.Exact()
    opt.step()
    expected = 0.5 * start - polar(w.grad.reshape(4, 18)).reshape(4, 2, 3, 3)
    torch.testing.assert_close(w.detach(), expected, rtol=0, atol=1e-9)
    flat = parameter(4, 2, 3, 3)
    opt = FrankWolfe([flat], lr=1.0, domain=fwnet.L1Ball(2.0), momentum=0.0, rescale=None)
    flat.grad = gradient(4, 2, 3, 3)
    opt.step()
    assert int((flat != 0).sum()) == 1  # one vertex of one ball, not one a row


def test_channels_last_moves_like_contiguous() -> None:
    plain = parameter(4, 2, 3, 3)
    other = nn.Parameter(plain.detach().clone().to(memory_format=torch.channels_last))
    for w in (plain, other):
        opt = FrankWolfe([w], lr=0.1, domain=fwnet.TraceNormBall(2.0))
        for seed in range(3):
            w.grad = gradient(4, 2, 3, 3, seed=seed)
            opt.step()
    assert other.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(other, plain, rtol=0, atol=1e-12)


@pytest.mark.parametrize("shape", [(4, 6), (40, 60), (10, 3, 5, 5)])
def test_rescaled_steps_have_the_length_they_promise(shape: tuple[int, ...]) -> None:
    domain, lr, rank1 = fwnet.TraceNormBall(7.0), 1e-3, fwnet.PowerIteration(1)
    w = parameter(*shape, scale=1e-9)
    opt = FrankWolfe([w], lr=lr, domain=domain, momentum=0.0, rescale="diameter", oracle=rank1)
    w.grad = gradient(*shape)
    before = w.detach().clone()
    opt.step()
    moved = (w.detach() - before).square().mean().sqrt()  # from the centre: half the diameter
    assert float(moved) == pytest.approx(lr / 2, rel=1e-6)
    opt = FrankWolfe([w], lr=lr, domain=domain, momentum=0.0, rescale="gradient")
    before = w.detach().clone()
    opt.step()
    assert float((w.detach() - before).norm()) == pytest.approx(lr * float(w.grad.norm()), rel=1e-6)


BALLS = [
    (fwnet.TraceNormBall(7.0), None),
    (fwnet.TraceNormBall(7.0), fwnet.SoftTraceNorm(3.0)),
    (fwnet.TraceNormBall(7.0), fwnet.PowerIteration(1)),
    (fwnet.TraceNormBall(70.0), None),
    (fwnet.SpectralBall(7.0), fwnet.Exact()),
    (fwnet.L1Ball(7.0), None),
    (fwnet.LInfBall(7.0), None),
]


@pytest.mark.parametrize(("domain", "oracle"), BALLS, ids=str)
@pytest.mark.parametrize("shape", [(4, 6), (40, 60)])
def test_one_rate_moves_all_layers_balls_and_oracles_equally(domain, oracle, shape) -> None:
    """From the centre, entries move by half of lr, root mean square: half of the longest move."""
    w, lr = parameter(*shape, scale=1e-9), 1e-3
    opt = FrankWolfe([w], lr=lr, domain=domain, momentum=0.0, oracle=oracle)
    w.grad = gradient(*shape)
    before = w.detach().clone()
    opt.step()
    moved = (w.detach() - before).square().mean().sqrt()
    assert float(moved) == pytest.approx(lr / 2, rel=1e-6)


def test_a_step_is_never_longer_than_to_the_vertex() -> None:
    w = parameter(3, 4)
    opt = FrankWolfe([w], lr=1e6, domain=fwnet.LInfBall(2.0), momentum=0.0)
    w.grad = gradient(3, 4)
    opt.step()
    torch.testing.assert_close(w.detach(), -2.0 * w.grad.sign())


def test_a_bias_next_to_a_matrix_domain_is_moved_by_adam() -> None:
    layer = nn.Linear(6, 4, dtype=F64)
    twin = nn.Parameter(layer.bias.detach().clone())
    opt = FrankWolfe(layer.parameters(), lr=0.01, domain=fwnet.TraceNormBall(50.0))
    adam = torch.optim.Adam([twin], lr=0.01)
    for seed in range(3):
        layer.weight.grad, layer.bias.grad = gradient(4, 6, seed=seed), gradient(4, seed=seed)
        twin.grad = gradient(4, seed=seed)
        opt.step()
        adam.step()
    torch.testing.assert_close(layer.bias.detach(), twin.detach(), rtol=1e-12, atol=0)


def test_a_parameter_without_gradient_changes_nothing_else() -> None:
    weights = [parameter(3, 4, seed=k) for k in range(3)]
    separate = nn.Parameter(weights[2].detach().clone())
    options = {"lr": 0.1, "domain": fwnet.TraceNormBall(1.0)}
    opt, single = FrankWolfe(weights, **options), FrankWolfe([separate], **options)
    before = weights[1].detach().clone()
    for seed in range(3):
        weights[0].grad, weights[2].grad = gradient(3, 4), gradient(3, 4, seed=seed)
        separate.grad = gradient(3, 4, seed=seed)
        opt.step()
        single.step()
    assert torch.equal(weights[1], before)
    torch.testing.assert_close(weights[2], separate)  # a batch may round differently


def test_a_gradient_of_zeros_moves_nothing() -> None:
    for momentum in (0.0, 0.9):
        w = parameter(3, 4)
        before = w.detach().clone()
        opt = FrankWolfe([w], lr=0.1, domain=fwnet.TraceNormBall(1.0), momentum=momentum)
        w.grad = torch.zeros(3, 4, dtype=F64)
        opt.step()
        assert torch.equal(w, before)
        w.grad = torch.full((3, 4), 1e-200, dtype=F64)  # its square is 0
        opt.step()
        assert not torch.equal(w, before)


def test_maximize_is_minimize_with_the_other_sign() -> None:
    up, down = parameter(3, 4), parameter(3, 4)
    ascent = FrankWolfe([up], lr=0.1, domain=fwnet.SpectralBall(1.0), maximize=True)
    descent = FrankWolfe([down], lr=0.1, domain=fwnet.SpectralBall(1.0))
    up.grad, down.grad = gradient(3, 4), -gradient(3, 4)
    ascent.step()
    descent.step()
    torch.testing.assert_close(up, down, rtol=0, atol=1e-12)


RUNS = [
    (fwnet.TraceNormBall(2.0), fwnet.PowerIteration(1), 2000),
    (fwnet.TraceNormBall(2.0), None, 2000),
    (fwnet.SpectralBall(0.3), None, 2000),
    (fwnet.RowBall(0.5), None, 1000),
    (fwnet.L1Ball(2.0), None, 1000),
    (fwnet.L2Ball(1.5), None, 1000),
    (fwnet.LInfBall(0.1), None, 1000),
    (fwnet.KSparseBall(5, 0.5), None, 1000),
]


@pytest.mark.slow
@pytest.mark.parametrize(("ball", "oracle", "steps"), RUNS, ids=lambda value: str(value))
@pytest.mark.parametrize("kind", ["random", "steady"])
def test_thousands_of_steps_stay_in_the_ball(ball, oracle, steps: int, kind: str) -> None:
    """In float32, from the sphere, where a steady gradient holds the weight there."""
    steps = steps if kind == "random" else 1000
    net = nn.Linear(24, 16, bias=False)
    with torch.no_grad():
        net.weight.copy_(10 * gradient(16, 24, dtype=torch.float32))
    opt = FrankWolfe(constrain(net, {"weight": ball}), rescale=None, oracle=oracle)
    steady = -net.weight.detach().clone()
    worst, noise = 0.0, seeded(3)
    for t in range(steps):
        opt.param_groups[0]["lr"] = (1e-1, 1e-3, 1e-5)[t // 50 % 3]
        random = kind == "random"
        net.weight.grad = torch.randn(16, 24, generator=noise) if random else steady
        opt.step()
        if t < 100 or t % 50 == 0:
            x = net.weight.detach().double()
            worst = max(worst, float(ball.norm(x if ball.event_dim == 2 else x.flatten())))
    assert 0 < worst <= ball.radius * (1 + 1e-6)


def test_a_radius_can_shrink_during_training() -> None:
    w, noise = nn.Parameter(torch.zeros(40, 30)), seeded(2)
    opt = FrankWolfe([w], lr=0.1, domain=fwnet.TraceNormBall(5.0), rescale=None)
    for t in range(30):
        radius = 5.0 - t // 10
        opt.param_groups[0]["domain"] = fwnet.TraceNormBall(radius)
        w.grad = torch.randn(40, 30, generator=noise)
        opt.step()
        assert float(torch.linalg.svdvals(w.detach().double()).sum()) <= radius


@pytest.mark.parametrize("lr", [1e-7, 1e-6, 1e-4, 1e-2])
def test_a_large_matrix_on_the_sphere_stays_inside(lr: float) -> None:
    """W = the vertex of rank 1 that the gradient asks for: rounding is all that happens."""
    u, v = torch.linspace(-1, 2, 200), torch.linspace(1, 3, 300)
    w = nn.Parameter(5.0 * torch.outer(u, v) / (u.norm() * v.norm()) * (1 - 2e-7))
    ball, rank1 = fwnet.TraceNormBall(5.0), fwnet.PowerIteration(1)
    opt = FrankWolfe([w], lr=lr, domain=ball, rescale=None, oracle=rank1)
    w.grad = -w.detach().clone()
    for t in range(600):
        opt.step()
        if t % 60 == 59:
            assert float(torch.linalg.svdvals(w.detach().double()).sum()) <= 5.0 * (1 + 1e-6)


@pytest.mark.parametrize("lr", [1e-4, 1e-2])
def test_polytopes_without_a_projection_do_not_drift(lr: float) -> None:
    """Sums of rows and columns, of one vector in a large simplex too: to float32's last digits."""
    net = nn.ParameterDict({"square": torch.rand(8, 8), "large": torch.rand(30)})
    domains = {"square": fwnet.Birkhoff(8), "large": fwnet.Simplex(1e4)}
    opt = FrankWolfe(constrain(net, domains), lr=lr, rescale=None)
    square, large, noise = net["square"], net["large"], seeded(6)
    for _ in range(2000):
        for p in (square, large):
            p.grad = torch.randn(p.shape, generator=noise)
        opt.step()
    x = square.detach().double()
    assert float((torch.cat([x.sum(0), x.sum(1)]) - 1).abs().max()) <= 3e-7
    assert float(x.min()) >= 0
    assert float(large.detach().double().sum()) == pytest.approx(1e4, rel=1e-7)


def test_a_simplex_and_a_box_keep_their_sums_and_bounds() -> None:
    w = nn.Parameter(torch.full((50,), 0.02))
    box = nn.Parameter(torch.zeros(4, 5))
    groups = [
        {"params": [w], "domain": fwnet.Simplex()},
        {"params": [box], "domain": fwnet.Box(-0.5, 1.5)},
    ]
    opt = FrankWolfe(groups, lr=1e-2, rescale=None)
    noise = seeded(5)
    for _ in range(1000):
        w.grad, box.grad = torch.randn(50, generator=noise), torch.randn(4, 5, generator=noise)
        opt.step()
        assert abs(float(w.detach().double().sum()) - 1) <= 1e-6
        assert bool((w >= 0).all())
        assert bool(((box >= -0.5 - 1e-6) & (box <= 1.5 + 1e-6)).all())


def test_it_solves_a_convex_problem_at_the_rate_of_the_theory() -> None:
    """f(w_T) − f* <= 2 L diameter² / (T + 2), with f* by projected gradient descent."""
    A, b = gradient(60, 8, seed=4), gradient(60, 5, seed=5)
    radius, steps = 0.2, 300
    smoothness = 2 * float(torch.linalg.matrix_norm(A, 2)) ** 2 / b.numel()
    best = torch.zeros(8, 5, dtype=F64)
    for _ in range(300):
        u, s, vh = torch.linalg.svd(best - 2 * A.T @ (A @ best - b) / b.numel() / smoothness)
        if s.sum() > radius:
            total = (s.cumsum(0) - radius) / torch.arange(1, 6)
            s = (s - total[s > total][-1]).clamp_min(0)
        best = u[:, :5] @ torch.diag(s) @ vh
    w = nn.Parameter(torch.zeros(8, 5, dtype=F64))
    domain = fwnet.TraceNormBall(radius)
    opt = FrankWolfe([w], 1.0, domain, momentum=0.0, rescale=None, oracle=fwnet.Exact())
    scheduler = torch.optim.lr_scheduler.LambdaLR(opt, lambda t: 2 / (t + 2))
    for _ in range(steps):
        opt.zero_grad()
        (A @ w - b).square().mean().backward()
        opt.step()
        scheduler.step()
    excess = float((A @ w.detach() - b).square().mean() - (A @ best - b).square().mean())
    assert -1e-12 <= excess <= 2 * smoothness * (2 * radius) ** 2 / (steps + 2)


def test_a_preset_gives_every_layer_its_own_ball() -> None:
    net = nn.Sequential(nn.Linear(4, 9), nn.Linear(9, 1))
    opt = FrankWolfe(constrain(net, {"*": spectral(0.2)}), lr=1.0, rescale=None, momentum=0.0)
    for p in net.parameters():
        p.grad = gradient(*p.shape, dtype=torch.float32)
    opt.step()
    for layer, bound in ((net[0], 0.2 * 1.5), (net[1], 0.2 / 3)):
        size = float(torch.linalg.matrix_norm(layer.weight.detach().double(), 2))
        assert 0.99 * bound <= size <= bound  # what NewtonSchulz guarantees
    assert float(net[0].bias.detach().square().mean().sqrt()) == pytest.approx(0.2, rel=1e-5)
