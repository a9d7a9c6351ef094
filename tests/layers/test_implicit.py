"""Gradients at the solution against closed forms and finite differences on its face."""

import pytest
import torch
from torch import Tensor

import fwnet
from fwnet.layers import ImplicitLayer

N = 6
E = torch.eye(N).double()
ONES = torch.ones(N).double()
NEAR = 1e-6


def pinned(x: Tensor, *values: float) -> list[Tensor]:
    """e_i for each coordinate at one of the values."""
    return [E[i] for i in range(N) if any(abs(float(x[i]) - v) < NEAR for v in values)]


# Each domain with the normals of the constraints that bind at x, written out by hand.
DOMAINS = [
    (fwnet.Simplex(), lambda x: [ONES, *pinned(x, 0.0)]),
    (fwnet.Simplex(2.0), lambda x: [ONES, *pinned(x, 0.0)]),
    (fwnet.HyperSimplex(2), lambda x: [ONES, *pinned(x, 0.0, 1.0)]),
    (fwnet.L1Ball(0.7), lambda x: [x.sign(), *pinned(x, 0.0)]),
    (fwnet.L1Ball(100.0), lambda x: []),  # the optimum is inside
    (fwnet.LInfBall(0.2), lambda x: pinned(x, -0.2, 0.2)),
    (fwnet.Box(-0.1, 0.3), lambda x: pinned(x, -0.1, 0.3)),
    (
        fwnet.Polytope(ONES[None], ONES[:1], bounds=(0.0, 0.5)),
        lambda x: ([ONES] if abs(float(x.sum()) - 1) < NEAR else []) + pinned(x, 0.0, 0.5),
    ),
]


def data(seed: int, batch: tuple[int, ...] = ()) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    A = torch.randn(*batch, 9, N, generator=generator, dtype=torch.float64)
    b = torch.randn(*batch, 9, generator=generator, dtype=torch.float64)
    return A, b


def solver(domain: fwnet.Domain, tol: float = 1e-11) -> fwnet.FrankWolfe:
    return fwnet.PairwiseFrankWolfe(domain, max_steps=3000, tol=tol)


def on_its_face(A: Tensor, b: Tensor, x: Tensor, normals: Tensor) -> Tensor:
    """The minimum of ½‖Ax − b‖² over the affine hull of x's face, by its KKT equations."""
    _, sizes, rows = torch.linalg.svd(normals)
    free = rows[int((sizes > 1e-9).sum()) :]  # (k, n): orthogonal to every normal
    reduced = A @ free.mT
    return x + free.mT @ torch.linalg.solve(reduced.mT @ reduced, reduced.mT @ (b - A @ x))


@pytest.mark.parametrize(("domain", "normals"), DOMAINS, ids=[str(d) for d, _ in DOMAINS])
def test_gradients_in_the_data(domain, normals):
    A, b = data(0)
    weights = torch.linspace(-1, 2, N).double()
    A1, b1, A2, b2 = (t.clone().requires_grad_() for t in (A, b, A, b))
    x = ImplicitLayer(solver(domain))(fwnet.LeastSquares(A1, b1)).x
    binding = torch.stack([torch.zeros(N).double(), *normals(x.detach())])
    exact = on_its_face(A2, b2, x.detach(), binding)
    torch.testing.assert_close(x, exact, atol=1e-6, rtol=0)
    ((weights * x).sum() + x.square().sum()).backward()
    ((weights * exact).sum() + exact.square().sum()).backward()
    torch.testing.assert_close(b1.grad, b2.grad, atol=1e-5, rtol=0)
    torch.testing.assert_close(A1.grad, A2.grad, atol=1e-5, rtol=0)


VERTICES = [
    (fwnet.Simplex(), [1.0, 0, 0, 0, 0, 0]),
    (fwnet.Simplex(2.0), [0, 0, 2.0, 0, 0, 0]),
    (fwnet.HyperSimplex(2), [0, 1.0, 0, 1.0, 0, 0]),
    (fwnet.L1Ball(0.7), [0, 0, 0, -0.7, 0, 0]),
    (fwnet.LInfBall(0.2), [0.2, -0.2, 0.2, 0.2, -0.2, 0.2]),
    (fwnet.Box(-0.1, 0.3), [-0.1, 0.3, -0.1, -0.1, 0.3, 0.3]),
    (fwnet.Polytope(ONES[None], ONES[:1], bounds=(0.0, 0.5)), [0, 0.5, 0, 0, 0.5, 0]),
]


@pytest.mark.parametrize(("domain", "vertex"), VERTICES, ids=[str(d) for d, _ in VERTICES])
@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_a_vertex_does_not_move(domain, vertex, size):
    """f falls steeply toward the vertex: it stays the minimum when the data changes a little."""
    vertex = torch.tensor(vertex, dtype=torch.float64)
    A, _ = data(6)
    K = size * A.mT @ A
    c = (-K @ vertex - 100 * size * (vertex - vertex.mean())).requires_grad_()
    K.requires_grad_()
    x = ImplicitLayer(solver(domain))(fwnet.Quadratic(K, c)).x
    torch.testing.assert_close(x.detach(), vertex, atol=1e-12, rtol=0)
    (x * torch.linspace(-1, 2, N).double()).sum().backward()
    assert c.grad.abs().max() == 0
    assert K.grad.abs().max() == 0


def test_a_face_with_little_curvature():
    """The largest curvature, 1e9, is along a direction that the simplex does not have."""
    A, _ = data(7)
    K = A.mT @ A + 1e9
    c = torch.linspace(0, 0.3, N).double().requires_grad_()
    x = ImplicitLayer(solver(fwnet.Simplex()))(fwnet.Quadratic(K, c)).x
    free = x.detach() > NEAR
    assert 2 <= int(free.sum()) < N
    centred = E[free] - E[free].mean(0)
    inside = centred @ (A.mT @ A) @ centred.mT
    (x * torch.linspace(-1, 2, N).double()).sum().backward()
    weights = centred @ torch.linspace(-1, 2, N).double()
    wanted = -centred.mT @ torch.linalg.pinv(inside, rtol=1e-9, hermitian=True) @ weights
    torch.testing.assert_close(c.grad, wanted, rtol=1e-4, atol=1e-6)


def test_rows_of_constraints_may_have_any_length():
    """A binding row of 1e-7 binds as the same row of length 1 does."""
    A, b = data(8)
    found = []
    for size in (1.0, 1e-7):
        rows = torch.stack([ONES, -ONES, size * (E[0] - E[1]), size * (E[1] - E[0])])
        limits = torch.tensor([1.0, -1.0, 0.0, 0.0]).double()
        leaf = b.clone().requires_grad_()
        domain = fwnet.Polytope(rows, limits, bounds=(0.0, 1.0))
        x = ImplicitLayer(solver(domain))(fwnet.LeastSquares(A, leaf)).x
        (x * torch.linspace(-1, 2, N).double()).sum().backward()
        found.append(leaf.grad)
    torch.testing.assert_close(*found, atol=1e-6, rtol=0)


def test_a_box_that_is_far_from_the_origin():
    """What binds is measured in widths of the box, not in the size of x; for each problem."""
    corner = torch.tensor([[1e6], [0.0]]).double().expand(2, N)
    domain = fwnet.Box(corner, corner + 1)
    b = (corner + torch.tensor([0.05, 0.5, 0.95, 2.0, -1.0, 0.3]).double()).requires_grad_()
    x = ImplicitLayer(solver(domain))(fwnet.LeastSquares(E.expand(2, N, N), b)).x
    x.sum().backward()
    wanted = torch.tensor([1.0, 1.0, 1.0, 0.0, 0.0, 1.0]).double().expand(2, N)
    torch.testing.assert_close(b.grad, wanted)


def test_a_constraint_with_multiplier_0_stays_binding():
    """x* = e_1 with equal slopes: a tie, at which the derivative has two sides; the finite one."""
    for K in (torch.eye(2).double(), torch.diag(torch.tensor([1.0, 3.0])).double()):
        c = torch.tensor([-1.0, 0.0]).double().requires_grad_()
        x = ImplicitLayer(solver(fwnet.Simplex()))(fwnet.Quadratic(K, c)).x
        assert x.tolist() == [1.0, 0.0]
        x[0].backward()
        assert c.grad.tolist() == [0.0, 0.0]


def test_a_batch_equals_a_loop():
    A, b = data(1, (4,))
    b.requires_grad_()
    layer = ImplicitLayer(solver(fwnet.Simplex()))
    weights = torch.linspace(-1, 2, N).double()
    (layer(fwnet.LeastSquares(A, b)).x * weights).sum().backward()
    for i in range(4):
        one = b[i].detach().clone().requires_grad_()
        (layer(fwnet.LeastSquares(A[i], one)).x * weights).sum().backward()
        torch.testing.assert_close(one.grad, b.grad[i], atol=1e-9, rtol=0)


def newton_on_its_face(function, x: Tensor, normals: list[Tensor]) -> Tensor:
    """The minimum of a smooth function over the affine hull of x's face, by Newton's method."""
    _, sizes, rows = torch.linalg.svd(torch.stack([torch.zeros(N).double(), *normals]))
    free = rows[int((sizes > 1e-9).sum()) :]
    for _ in range(20):
        gradient = free @ torch.autograd.functional.jacobian(function, x)
        curvature = free @ torch.autograd.functional.hessian(function, x) @ free.mT
        x = x - free.mT @ torch.linalg.solve(curvature, gradient)
    return x


def check_along(solve, reference, data: Tensor) -> None:
    """The directional derivative of Σ w x*, by the layer and by central differences."""
    generator = torch.Generator().manual_seed(9)
    way = torch.randn(data.shape, generator=generator, dtype=torch.float64)
    weights = torch.linspace(-1, 2, N).double()
    leaf = data.clone().requires_grad_()
    x = solve(leaf)
    (x * weights).sum().backward()
    ahead, behind = (reference(data + h * way, x.detach()) for h in (1e-5, -1e-5))
    expected = ((ahead - behind) * weights).sum() / 2e-5
    torch.testing.assert_close((leaf.grad * way).sum(), expected, atol=1e-5, rtol=0)


def test_a_problem_that_is_not_quadratic():
    X, _ = data(2)
    y = torch.tensor([1.0, -1, 1, 1, -1, -1, 1, -1, 1]).double()

    def reference(X: Tensor, x: Tensor) -> Tensor:
        def mean_loss(w: Tensor) -> Tensor:
            return torch.log1p(torch.exp(-y * (X @ w))).mean()

        return newton_on_its_face(mean_loss, x, [x.sign(), *pinned(x, 0.0)])

    layer = ImplicitLayer(solver(fwnet.L1Ball(1.5)))
    check_along(lambda X: layer(fwnet.LogisticRegression(X, y)).x, reference, X)


def test_a_plain_function():
    goal = torch.tensor([0.4, 0.3, -0.2, 0.5, 0.1, 0.0]).double()

    def distance(x: Tensor, goal: Tensor) -> Tensor:
        return ((x - goal) ** 2).sum() + ((x - goal) ** 4).sum()

    def solve(goal: Tensor) -> Tensor:
        problem = fwnet.Function(lambda x: distance(x, goal))
        return ImplicitLayer(solver(fwnet.Simplex()))(problem, ONES / N).x

    def reference(goal: Tensor, x: Tensor) -> Tensor:
        normals = [ONES, *pinned(x, 0.0)]
        return newton_on_its_face(lambda point: distance(point, goal), x, normals)

    check_along(solve, reference, goal)


def test_value_has_the_envelope_gradient():
    A, b = data(3)
    b.requires_grad_()
    result = ImplicitLayer(solver(fwnet.Simplex()))(fwnet.LeastSquares(A, b))
    result.value.backward()
    residual = A @ result.x.detach() - b.detach()
    torch.testing.assert_close(b.grad, -residual, atol=1e-6, rtol=0)


def test_second_derivatives_are_refused():
    A, b = data(5)
    b.requires_grad_()
    x = ImplicitLayer(solver(fwnet.Simplex()))(fwnet.LeastSquares(A, b)).x
    with pytest.raises(RuntimeError, match="first derivatives only"):
        torch.autograd.grad(x[0], b, create_graph=True)


def test_a_round_domain_is_refused():
    with pytest.raises(TypeError, match="knows its faces"):
        ImplicitLayer(fwnet.FrankWolfe(fwnet.L2Ball()))
