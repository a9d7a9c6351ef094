"""Exact simplex QPs against non-negative least squares, brute force and their own certificate."""

from __future__ import annotations

import itertools
import subprocess
import sys
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
import torch
from scipy.optimize import nnls
from torch import Tensor

from fwnet.quadratic import faces
from fwnet.quadratic.solve import simplex_qp, solve_simplex_qp


@pytest.fixture
def code(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The law with Numba, however few the problems are, or without it."""
    if request.param == "compiled":
        monkeypatch.setattr(faces, "_FEW", 1)
    else:
        monkeypatch.setattr(faces, "machine_code", lambda module: None)


in_both = pytest.mark.parametrize("code", ["compiled", "batched"], indirect=True)


@cache
def kernels(batch: int, n: int, seed: int = 0) -> dict[str, tuple[Tensor, Tensor | None]]:
    """Problems easy and hard: singular, duplicated, linear, badly scaled, nearly singular."""
    g = torch.Generator().manual_seed(seed)

    def randn(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=g, dtype=torch.float64)

    A, low, points = randn(batch, n, n), randn(batch, n, max(1, n // 4)), randn(batch, n, 3)
    twice = low.clone()
    twice[:, n // 2 :] = twice[:, : n - n // 2]
    y = randn(batch, n, 1).sign()
    rbf = torch.exp(-torch.cdist(points, points).square())
    rbf = (rbf + rbf.mT) / 2
    svm = y * (rbf + 1) * y.mT
    wide = rbf ** (1 / 50)
    eye = torch.eye(n, dtype=torch.float64)
    return {
        "wishart": (A @ A.mT / n, None),
        "wishart, linear term": (A @ A.mT / n, randn(batch, n)),
        "zero in the hull": (low @ low.mT, None),
        "low rank": ((low + 1) @ (low + 1).mT, None),
        "low rank, linear term": (low @ low.mT, randn(batch, n)),
        "duplicates": (twice @ twice.mT + 9, None),
        "linear": (torch.zeros(batch, n, n, dtype=torch.float64), randn(batch, n)),
        "constant": (torch.zeros(batch, n, n, dtype=torch.float64), None),
        "svm, C = 1": (svm + eye, None),
        "svm, C = 1e6": (svm + 1e-6 * eye, None),
        "nearly singular": ((wide + wide.mT) / 2, None),
        "tiny": (1e-6 * (A @ A.mT), 1e-6 * randn(batch, n)),
        "offset": (A @ A.mT / n + 1e4, None),
        "huge linear term": (A @ A.mT / n, 1e6 * randn(batch, n)),
    }


NAMES = list(kernels(1, 4))


def certificate(Q: Tensor, c: Tensor | None, x: Tensor) -> Tensor:
    """Gap over what it may be: 1e-12 of the level, or rounding of the gradient."""
    g = (Q @ x.unsqueeze(-1)).squeeze(-1) + (0 if c is None else c)
    gap = (x * (g - g.amin(-1, keepdim=True))).sum(-1)
    size = Q.diagonal(dim1=-2, dim2=-1).amax(-1) + (0 if c is None else c.abs().amax(-1))
    rounding = 100 * torch.finfo(Q.dtype).eps * size
    return gap / torch.maximum(1.01e-12 * (x * g).sum(-1).abs(), rounding).clamp_min(1e-300)


@in_both
@pytest.mark.parametrize("n", [1, 2, 8, 30, 70])
@pytest.mark.parametrize("name", NAMES)
def test_batches_are_feasible_and_certified(code: None, name: str, n: int) -> None:
    Q, c = kernels(12, n)[name]
    x = simplex_qp(Q, c)
    assert x.min() >= 0
    assert (x.sum(-1) - 1).abs().max() < 1e-14
    assert certificate(Q, c, x).max() <= 1


@in_both
@pytest.mark.parametrize("n", [1, 2, 8, 30])
@pytest.mark.parametrize("name", NAMES)
def test_single_problems_are_certified_and_equal_the_batch(code: None, name: str, n: int) -> None:
    Q, c = kernels(12, n)[name]
    together = solve_simplex_qp(Q, c)
    for b in range(12):
        linear = None if c is None else c[b]
        x = simplex_qp(Q[b], linear)
        assert x.min() >= 0
        assert certificate(Q[b], linear, x) <= 1
        values = [
            float(0.5 * v @ Q[b] @ v + (0 if linear is None else linear @ v))
            for v in (x, together.x[b])
        ]
        assert values[0] == pytest.approx(values[1], rel=1e-10, abs=1e-13 * float(Q[b].max()))


@in_both
@pytest.mark.parametrize("n", [5, 40])
def test_optimum_of_scipy(code: None, n: int) -> None:
    """α = u/Σu for the non-negative least squares u of min ½ uᵀQu − Σu."""
    Q, _ = kernels(6, n)["wishart"]
    Q = Q + 0.01 * torch.eye(n, dtype=torch.float64)
    x = simplex_qp(Q)
    for b in range(6):
        root = np.linalg.cholesky(Q[b].numpy())
        u, _ = nnls(root.T, np.linalg.solve(root, np.ones(n)), maxiter=100 * n)
        assert np.abs(x[b].numpy() - u / u.sum()).max() < 1e-10  # conditioning 1e3


@in_both
@pytest.mark.parametrize("name", ["wishart, linear term", "low rank, linear term", "svm, C = 1"])
def test_value_of_brute_force(code: None, name: str) -> None:
    """The least value over the minimisers of every face that lie in it."""
    Q, c = kernels(8, 5, seed=3)[name]
    c = torch.zeros(8, 5, dtype=torch.float64) if c is None else c
    solution = solve_simplex_qp(Q, c)
    for b in range(8):
        best = np.inf
        for size in range(1, 6):
            for face in map(list, itertools.combinations(range(5), size)):
                system = np.ones((size + 1, size + 1))
                system[:size, :size], system[size, size] = Q[b].numpy()[np.ix_(face, face)], 0
                right = np.append(-c[b].numpy()[face], 1.0)
                x = np.linalg.lstsq(system, right, rcond=1e-12)[0][:size]
                if x.min() >= 0 and abs(x.sum() - 1) < 1e-9:
                    value = 0.5 * x @ Q[b].numpy()[np.ix_(face, face)] @ x + c[b].numpy()[face] @ x
                    best = min(best, value)
        ours = solution.x[b]
        assert float(0.5 * ours @ Q[b] @ ours + c[b] @ ours) == pytest.approx(best, abs=1e-12)


HARD: dict[str, list[list[int]]] = {  # rows V of Q = VVᵀ: ties, duplicates, rank 1, a corner at 0
    "ties": [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [0, 1, 1], [1, 0, 1]],
    "duplicates": [[2, 1], [2, 1], [-1, 3], [-1, 3], [0, 5], [0, 5]],
    "rank 1": [[3], [-2], [7], [0], [1], [-2]],
    "one point": [[1, 2, 3]] * 6,
    "zero inside": [[1, 0], [-1, 0], [0, 1], [0, -1], [5, 5], [-5, 4]],
    "a thin triangle": [[1, 10**6], [2, 10**6], [3, 10**6], [4, 10**6 + 1], [0, 10**6], [9, 10**7]],
    "many sizes": [[1, 0, 0], [0, 10**4, 0], [0, 0, 10**-0], [10**4, 1, 0], [1, 1, 1], [0, 0, 9]],
}


Rational = tuple[list[list[Fraction]], list[Fraction], Fraction]


@cache
def rational_problem(name: str, linear: tuple[int, ...]) -> Rational:
    """Q, c and the least value over the faces, in rational numbers.

    Where a face is singular, the minimum is on a smaller one too: only regular ones are solved.
    """
    V = [[Fraction(entry) for entry in row] for row in HARD[name]]
    Q = [[sum(a * b for a, b in zip(v, w, strict=True)) for w in V] for v in V]
    c = [Fraction(entry) for entry in linear]
    n, best = len(c), None
    for size in range(1, n + 1):
        for face in itertools.combinations(range(n), size):
            rows = [[Q[i][j] for j in face] + [Fraction(1), -c[i]] for i in face]
            rows.append([Fraction(1)] * size + [Fraction(0), Fraction(1)])
            solution = eliminated(rows)
            if solution is None or min(solution[:size]) < 0:
                continue
            x = dict(zip(face, solution[:size], strict=True))
            value = sum(x[i] * (sum(Q[i][j] * x[j] for j in face) / 2 + c[i]) for i in face)
            best = value if best is None else min(best, value)
    assert best is not None
    return Q, c, best


def eliminated(rows: list[list[Fraction]]) -> list[Fraction] | None:
    """Gauss and Jordan; None for a singular system."""
    for k in range(len(rows)):
        pivot = next((i for i in range(k, len(rows)) if rows[i][k] != 0), None)
        if pivot is None:
            return None
        rows[k], rows[pivot] = rows[pivot], rows[k]
        rows[k] = [entry / rows[k][k] for entry in rows[k]]
        for i in range(len(rows)):
            if i != k and rows[i][k] != 0:
                rows[i] = [a - rows[i][k] * b for a, b in zip(rows[i], rows[k], strict=True)]
    return [row[-1] for row in rows]


@in_both
@pytest.mark.parametrize("scale", [-40, 0, 40])
@pytest.mark.parametrize("linear", [(0,) * 6, (1, 1, 0, 0, 2, -1)])
@pytest.mark.parametrize("name", HARD)
def test_value_of_rational_arithmetic(
    code: None, name: str, linear: tuple[int, ...], scale: int
) -> None:
    Q, c, best = rational_problem(name, linear)
    factor = 2.0**scale  # a power of two: Q stays exact
    matrix = factor * torch.tensor([[float(q) for q in row] for row in Q], dtype=torch.float64)
    vector = factor * torch.tensor([float(entry) for entry in c], dtype=torch.float64)
    many = matrix.expand(9, 6, 6).contiguous(), vector.expand(9, 6).contiguous()
    size = max(float(Q[i][i]) for i in range(6)) + 2
    for x in (simplex_qp(matrix, vector), *simplex_qp(*many)[[0, -1]]):
        point = [Fraction(float(entry)) for entry in x]
        total = sum(point)
        value = sum(
            point[i] * (sum(Q[i][j] * point[j] for j in range(6)) / (2 * total) + c[i]) / total
            for i in range(6)
        )
        assert 0 <= float(value - best) <= 1e-12 * abs(float(best)) + 100 * 2.2e-16 * size


@pytest.mark.slow
def test_numba_needs_no_scipy() -> None:
    script = """
import sys, torch
sys.modules["scipy"] = None
from fwnet.quadratic import simplex_qp
A = torch.randn(16, 6, 6, dtype=torch.float64)
A[8:, 3:] = A[8:, :3]
assert simplex_qp(A @ A.mT).shape == (16, 6)
assert "numba" in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@in_both
def test_certificate_start_shapes_and_dtypes(code: None) -> None:
    Q, c = kernels(6, 9)["wishart, linear term"]
    solution = solve_simplex_qp(Q.reshape(2, 3, 9, 9), c.reshape(2, 3, 9))
    assert solution.x.shape == (2, 3, 9)
    assert solution.gap.shape == solution.converged.shape == (2, 3)
    assert bool(solution.converged.all())
    again = simplex_qp(Q, c, start=solution.x.reshape(6, 9))
    assert torch.allclose(again, solution.x.reshape(6, 9), atol=1e-12)
    shared = simplex_qp(Q, c[0])
    assert torch.allclose(shared[1], simplex_qp(Q[1], c[0]), atol=1e-12)
    single = simplex_qp(Q.float(), c.float())
    assert single.dtype == torch.float32
    assert (single.double() - solution.x.reshape(6, 9)).abs().max() < 1e-4
    assert simplex_qp(Q[0].float(), c[0].float()).dtype == torch.float32


@in_both
@pytest.mark.parametrize("shape", [(3, 3), (2, 3, 3), (2, 40, 40)])
def test_bad_matrices_raise_a_clear_error(code: None, shape: tuple[int, ...]) -> None:
    good = torch.eye(shape[-1], dtype=torch.float64).expand(shape).clone()
    bad = good.clone()
    bad[..., 0, 1] = 0.5
    with pytest.raises(ValueError, match=r"Q must be symmetric.* 0\.5 and 0"):
        simplex_qp(bad)
    for value in (torch.nan, torch.inf):
        bad = good.clone()
        bad[..., 1, 1] = value
        with pytest.raises(ValueError, match="Q must be finite"):
            simplex_qp(bad)
    bad = good.clone()
    bad[..., 0, 0] = -5.0
    with pytest.raises(ValueError, match="Q must be positive semidefinite"):
        simplex_qp(bad)


@in_both
@pytest.mark.parametrize("shape", [(3, 3), (2, 3, 3), (2, 40, 40)])
def test_saddle_points_are_not_solutions(code: None, shape: tuple[int, ...]) -> None:
    """The barycentre is stationary for 2 · 11ᵀ − I, and a maximum."""
    bad = 2 - torch.eye(shape[-1], dtype=torch.float64).expand(shape)
    with pytest.raises(ValueError, match="Q must be positive semidefinite"):
        simplex_qp(bad)


@in_both
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(3, 3), (64, 16, 16)])
def test_a_zero_matrix_is_semidefinite(
    code: None, shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    """With a linear term, its minimiser is the smallest entry; tiny matrices are no errors."""
    c = torch.linspace(1, 2, shape[-1], dtype=dtype).flip(0).expand(shape[:-1])
    for size in (0.0, 1e-42):
        x = simplex_qp(size * torch.eye(shape[-1], dtype=dtype).expand(shape), c)
        assert torch.equal(x[..., -1], torch.ones(shape[:-2], dtype=dtype))
    saddle = torch.zeros(shape, dtype=dtype)
    saddle[..., 0, 1] = saddle[..., 1, 0] = 1e-3
    with pytest.raises(ValueError, match="Q must be positive semidefinite"):
        simplex_qp(saddle)


@pytest.mark.parametrize("seed", [907, 1482])
def test_factors_that_are_all_rounding_divide_nothing_by_zero(seed: int) -> None:
    """Matrices of rank 1 or 2 whose rows differ by ten powers of ten; warnings are errors."""
    random = np.random.default_rng(seed)
    n, rank = (int(random.integers(*ends)) for ends in ((2, 7), (1, 3)))
    rows = random.standard_normal((n, rank)) * 10 ** random.uniform(-5, 5, (n, 1))
    c = random.standard_normal(n) * 10 ** random.uniform(-12, 2, n)
    rows[0] = c[0] = 0.0
    Q, linear = torch.from_numpy(rows @ rows.T), torch.from_numpy(c)
    found = solve_simplex_qp(Q, linear, trusted=True)
    g = Q @ found.x + linear
    assert float(found.gap) == pytest.approx(float(found.x @ g - g.min()), rel=1e-6)
    assert float(0.5 * found.x @ (g + linear)) <= 0.0  # f at the vertex of zeros


@in_both
@pytest.mark.parametrize("name", NAMES)
def test_float32_is_feasible_and_near(code: None, name: str) -> None:
    Q, c = kernels(12, 20)[name]
    low = simplex_qp(Q.float(), None if c is None else c.float())
    assert low.min() >= 0
    assert (low.sum(-1) - 1).abs().max() < 1e-6
    x, x_star = low.double(), simplex_qp(Q, c)
    value, best = (
        0.5 * (v * (Q @ v.unsqueeze(-1)).squeeze(-1)).sum(-1)
        + (0 if c is None else (c * v).sum(-1))
        for v in (x, x_star)
    )
    size = Q.diagonal(dim1=-2, dim2=-1).amax(-1) + (0 if c is None else c.abs().amax(-1))
    assert ((value - best) / size.clamp_min(1e-300)).max() < 1e-4  # rounding of Q itself is 1e-7


def test_bad_arguments_raise_a_clear_error() -> None:
    eye = torch.eye(3, dtype=torch.float64)
    with pytest.raises(TypeError, match=r"Q must be a torch\.Tensor"):
        simplex_qp([[1.0]])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"Q must be float32 or float64; got torch\.int64"):
        simplex_qp(eye.long())
    with pytest.raises(ValueError, match="Q must not be empty"):
        simplex_qp(eye[:0, :0])
    with pytest.raises(ValueError, match=r"Q must have shape \(\*batch, n, n\); got \(3, 2\)"):
        simplex_qp(eye[:, :2])
    with pytest.raises(ValueError, match=r"c must have shape \(3,\).*got \(2,\)"):
        simplex_qp(eye, torch.zeros(2, dtype=torch.float64))
    with pytest.raises(TypeError, match="c and Q must share a dtype"):
        simplex_qp(eye, torch.zeros(3))
    with pytest.raises(ValueError, match="start must have a positive entry"):
        simplex_qp(eye, start=torch.zeros(3, dtype=torch.float64))
    with pytest.raises(ValueError, match="tol must be a positive finite number"):
        simplex_qp(eye, tol=0.0)
    with pytest.raises(ValueError, match="max_steps must be a whole number of at least 1"):
        simplex_qp(eye, max_steps=0)
