"""SimplexQP: solutions from outside, gradients by finite differences, degenerate faces included."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from fwnet.layers.simplex_qp import SimplexQP
from fwnet.quadratic import faces
from fwnet.quadratic.solve import simplex_qp

layer = SimplexQP()


@pytest.fixture(params=["compiled", "batched"], autouse=True)
def code(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every law with Numba, however few the problems are, and without it."""
    if request.param == "compiled":
        monkeypatch.setattr(faces, "_FEW", 1)
    else:
        monkeypatch.setattr(faces, "machine_code", lambda module: None)


def randn(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def gram(B: Tensor, ridge: float = 0.1) -> Tensor:
    return B @ B.mT + ridge * torch.eye(B.shape[-2], dtype=B.dtype)


def central(f: object, x: Tensor, step: float = 1e-6) -> Tensor:
    """Finite differences of a scalar function, entry by entry."""
    out = torch.zeros_like(x)
    for i in range(x.numel()):
        e = torch.zeros_like(x)
        e.view(-1)[i] = step
        out.view(-1)[i] = (f(x + e) - f(x - e)) / (2 * step)  # type: ignore[operator]
    return out


@pytest.mark.parametrize("n", [1, 2, 5, 9, 55])
def test_first_and_second_derivatives(n: int) -> None:
    B, c = randn(3, n, min(n, 6)).requires_grad_(), (0.3 * randn(3, n, seed=1)).requires_grad_()
    inputs = (B, c)

    def solve(B: Tensor, c: Tensor) -> Tensor:
        return layer(gram(B), c)

    assert gradcheck(solve, inputs, fast_mode=n > 50)
    assert gradgradcheck(solve, inputs, fast_mode=n > 5)  # along random directions


@pytest.mark.parametrize(("n", "d"), [(2, 1), (6, 2), (9, 3)])
def test_derivatives_through_features(n: int, d: int) -> None:
    Z = randn(3, n, d).requires_grad_()
    D = (0.1 + randn(3, n, seed=1).abs()).requires_grad_()
    c = (0.3 * randn(3, n, seed=2)).requires_grad_()

    def solve(Z: Tensor, D: Tensor, c: Tensor) -> Tensor:
        return layer(features=Z, diagonal=D, c=c)

    assert gradcheck(solve, (Z, D, c))
    assert gradgradcheck(solve, (Z, D, c), fast_mode=n > 6)


@pytest.mark.parametrize("C", [0.1, 1.0, 1e4])
@pytest.mark.parametrize("n", [20, 150])
def test_features_agree_with_the_dense_matrix(n: int, C: float) -> None:
    Z, weight = randn(8, n, 5), randn(8, n, seed=1)
    answers = []
    for use in (
        lambda Z: layer(features=Z, diagonal=1 / C),
        lambda Z: layer(Z @ Z.mT + torch.eye(n, dtype=torch.float64) / C),
    ):
        points = Z.clone().requires_grad_()
        x = use(points)
        (gradient,) = torch.autograd.grad((x * weight).sum(), points)
        answers.append((x.detach(), gradient))
    (x, gradient), (dense_x, dense_gradient) = answers
    assert (x - dense_x).abs().max() < 1e-9  # eps times the conditioning, 1e7 at worst
    assert (gradient - dense_gradient).abs().max() < 1e-6 * dense_gradient.abs().max()


def test_weakly_active_coordinate_gives_the_central_difference() -> None:
    """x = (½, ½, 0) with multiplier 0: one-sided derivatives differ, their mean is the gradient."""
    K = torch.tensor([[2.0, 0.0, 1.0], [0.0, 2.0, 1.0], [1.0, 1.0, 3.0]], dtype=torch.float64)
    weight = torch.tensor([0.3, -1.0, 2.0], dtype=torch.float64)
    assert torch.allclose(layer(K), torch.tensor([0.5, 0.5, 0.0], dtype=torch.float64), atol=1e-12)
    c = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(layer(K, c) @ weight, c)
    expected = central(lambda c: simplex_qp(K, c) @ weight, c.detach())
    assert (gradient - expected).abs().max() < 1e-6

    def moved(t: Tensor, other: Tensor) -> Tensor:
        return simplex_qp(K + t * (other + other.T)) @ weight

    matrix = K.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(layer(matrix) @ weight, matrix)
    for seed in range(5):
        other = randn(3, 3, seed=seed)
        # across a kink a central difference errs by O(step)
        slope = (moved(torch.tensor(1e-7), other) - moved(torch.tensor(-1e-7), other)) / 2e-7
        assert abs(slope - (gradient * (other + other.T)).sum()) < 1e-6


def test_vertex_solution_has_no_gradient() -> None:
    K = torch.diag(torch.tensor([1.0, 9.0, 9.0], dtype=torch.float64)) + 5
    c = torch.tensor([-9.0, 0.0, 0.0], dtype=torch.float64, requires_grad=True)
    x = layer(K, c)
    assert torch.equal(x.detach(), torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64))
    (gradient,) = torch.autograd.grad(x[1], c)
    assert gradient.abs().max() == 0


def test_singular_face_is_exact_for_what_is_determined() -> None:
    """Duplicated points without a ridge: weights are free, the value and Zᵀx are not."""
    base = randn(2, 4, 2) + torch.tensor([2.0, 0.0], dtype=torch.float64)
    direction = randn(2, 2, seed=5)

    def outputs(base: Tensor, solve: object) -> Tensor:
        Z = torch.cat((base, base), 1)
        x = solve(Z @ Z.mT)  # type: ignore[operator]
        image = (x.unsqueeze(1) @ Z).squeeze(1)
        return (image * direction).sum() + image.square().sum()

    points = base.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(outputs(points, layer), points)
    expected = central(lambda b: outputs(b, simplex_qp), base)
    assert (gradient - expected).abs().max() < 1e-6


def test_float32_unbatched_and_nested_batches() -> None:
    K = gram(randn(6, 8, 8))
    x = layer(K)
    assert torch.allclose(layer(K[0]), x[0], atol=1e-12)
    assert torch.allclose(layer(K.reshape(2, 3, 8, 8)).reshape(6, 8), x, atol=1e-12)
    single = K.float().requires_grad_()
    low = layer(single)
    assert low.dtype == torch.float32
    low[:, 0].sum().backward()
    double = K.clone().requires_grad_()
    layer(double)[:, 0].sum().backward()
    assert (single.grad - double.grad).abs().max() < 1e-3 * double.grad.abs().max()


def test_bad_input_raises_a_clear_error() -> None:
    eye = torch.eye(3, dtype=torch.float64).expand(2, 3, 3)
    with pytest.raises(ValueError, match="takes either K or features"):
        layer()
    with pytest.raises(ValueError, match="takes either K or features"):
        layer(eye, features=eye)
    with pytest.raises(ValueError, match=r"diagonal=\.\.\. goes with features"):
        layer(eye, diagonal=1.0)
    with pytest.raises(ValueError, match=r"features=\.\.\. needs diagonal"):
        layer(features=eye)
    with pytest.raises(ValueError, match="diagonal must be a positive finite number; got 0"):
        layer(features=eye, diagonal=0.0)
    with pytest.raises(ValueError, match="diagonal must be positive; its minimum is -1"):
        layer(features=eye, diagonal=-torch.ones(3, dtype=torch.float64))
    with pytest.raises(ValueError, match="features must be finite"):
        layer(features=eye * torch.nan, diagonal=1.0)
    with pytest.raises(ValueError, match=r"features must have shape \(\*batch, n, d\)"):
        layer(features=eye[0, 0], diagonal=1.0)
    with pytest.raises(ValueError, match="features must not be empty"):
        layer(features=eye[:0], diagonal=1.0)
    with pytest.raises(TypeError, match="features must be float32 or float64"):
        layer(features=eye.half(), diagonal=1.0)
    with pytest.raises(TypeError, match="K must be float32 or float64"):
        layer(eye.long())
    with pytest.raises(ValueError, match="K must not be empty"):
        layer(eye[:0])
    with pytest.raises(ValueError, match=r"K must have shape \(\*batch, n, n\); got \(2, 3, 2\)"):
        layer(eye[..., :2])
    with pytest.raises(ValueError, match=r"c must have shape \(2, 3\); got \(2, 2\)"):
        layer(eye, eye[..., 0, :2])
    with pytest.raises(ValueError, match=r"c must have shape \(2, 3\); got \(4, 3\)"):
        layer(eye, torch.ones(4, 3, dtype=torch.float64))
    with pytest.raises(ValueError, match=r"c must have shape \(2, 3\); got \(\)"):
        layer(eye, torch.tensor(1.0, dtype=torch.float64))
    with pytest.raises(ValueError, match=r"diagonal must have shape \(2, 3\); got \(4,\)"):
        layer(features=eye, diagonal=torch.ones(4, dtype=torch.float64))
    with pytest.raises(TypeError, match=r"K must be dense; got torch\.sparse_coo"):
        layer(eye[0].to_sparse())
    with pytest.raises(ValueError, match="K must be symmetric"):
        layer(eye + torch.tensor([0.0, 1.0, 2.0], dtype=torch.float64))
    with pytest.raises(ValueError, match="must be finite"):
        layer(eye * torch.nan)
