"""Deep-SVM duals: kernels of networks, new and part-trained."""

from __future__ import annotations

import pytest
import torch

import fwnet
from fwnet import learned
from fwnet.learned.families import DeepSVMFamily, deep_svms
from learned_cases import seeded


def rings(count: int = 80) -> tuple[torch.Tensor, torch.Tensor]:
    angle = torch.linspace(0, 12, count, dtype=torch.float64)
    y = torch.arange(count) % 2
    radius = 0.3 + 0.7 * y
    return torch.stack([radius * angle.cos(), radius * angle.sin()], -1), y


def family(**options: object) -> DeepSVMFamily:
    return DeepSVMFamily([rings()], **({"n": 40, "C": 10.0, "dtype": torch.float64} | options))


def matrix(made: DeepSVMFamily, seed: int, batch: int = 4) -> torch.Tensor:
    return made.sample(batch, seeded(seed)).matrix.matrix


def test_the_matrix_is_that_of_an_svm() -> None:
    """yyᵀ ∘ (φφᵀ/s + 1) + I/C with φ in two dimensions: rank 3 beside the ridge, mean norm 1."""
    K = matrix(family(), 0)
    y = torch.ones(40, dtype=K.dtype)
    y[20:] = -1
    gram = y.unsqueeze(-1) * (K - torch.eye(40) / 10.0) * y - 1.0
    assert torch.allclose(gram, gram.mT)
    values = torch.linalg.eigvalsh(gram)
    assert bool((values[:, :-2].abs() < 1e-9 * values[:, -1:]).all())
    assert torch.allclose(gram.diagonal(dim1=-2, dim2=-1).mean(-1), torch.ones(4, dtype=K.dtype))


def test_training_the_kernel_widens_the_margin() -> None:
    """min f grows with the squared margin of the SVM."""
    new, old = (family(C=100.0, updates=(count, count), widths=(8, 2)) for count in (0, 120))
    margins = [f.best_values(f.sample(3, seeded(1))).mean() for f in (new, old)]
    assert margins[1] > 2 * margins[0]


def test_seeded_in_parts_and_inside_no_grad() -> None:
    with torch.no_grad():
        once = matrix(family(), 3)
    assert torch.equal(once, matrix(family(), 3))
    assert not torch.equal(once, matrix(family(), 4))
    train, validation, test = family(n=8).split(0)
    assert isinstance(test, DeepSVMFamily)
    assert train.sample(1, seeded()).shape == validation.sample(1, seeded()).shape == (1, 8)


def test_real_data_and_a_controller() -> None:
    problems = deep_svms("test", n=48)
    solver = learned.load("simplex-qp").solver(fwnet.Simplex(), max_steps=60, tol=1e-4)
    problem = problems.sample(3, seeded(2))
    result = solver(problem)
    best = problems.best_values(problem)
    assert torch.allclose(result.value, best, rtol=2e-3)


def test_bad_arguments_are_sentences() -> None:
    with pytest.raises(ValueError, match=r"DeepSVMFamily\(widths=...\) needs at least one layer"):
        family(widths=())
    with pytest.raises(ValueError, match=r"DeepSVMFamily\(updates=...\) must be \(low, high\)"):
        family(updates=(5, 2))
    with pytest.raises(ValueError, match="must have at least two classes"):
        DeepSVMFamily([(torch.randn(9, 2), torch.zeros(9))])
