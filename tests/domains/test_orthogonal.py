"""orthogonalize: near the polar factor, and never outside the spectral ball."""

from __future__ import annotations

import pytest
import torch

from fwnet.numerics.polar import coefficients, orthogonalize, peak


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def matrix(kind: str, d: int, m: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    G = torch.randn(d, m, generator=seeded(d + m), dtype=torch.float64)
    u, s, vh = torch.linalg.svd(G, full_matrices=False)
    r = len(s)
    spectra = {
        "random": s,
        "flat": torch.ones(r, dtype=torch.float64),
        "rank 1": torch.eye(r, dtype=torch.float64)[0],
        "decaying": torch.logspace(0, -6, r, dtype=torch.float64),
        "tied pairs": torch.arange(r, 0, -1).div(2, rounding_mode="floor").double() + 1,
        "huge": 1e30 * s,
        "tiny": 1e-30 * s,
    }
    return (u @ torch.diag(spectra[kind]) @ vh).to(dtype)


@pytest.mark.parametrize(
    "kind", ["random", "flat", "rank 1", "decaying", "tied pairs", "huge", "tiny"]
)
@pytest.mark.parametrize("shape", [(1, 1), (5, 5), (16, 200), (200, 16), (120, 150)])
@pytest.mark.parametrize("steps", [1, 2, 3, 4, 7])
def test_no_singular_value_passes_one(kind: str, shape: tuple[int, int], steps: int) -> None:
    x = orthogonalize(matrix(kind, *shape), steps)
    assert float(torch.linalg.svdvals(x.double())[0]) <= 1.0


@pytest.mark.parametrize("kind", ["random", "flat", "rank 1", "tied pairs", "huge"])
@pytest.mark.parametrize("shape", [(5, 5), (16, 200), (200, 16), (60, 80)])
def test_it_finds_the_polar_factor(kind: str, shape: tuple[int, int]) -> None:
    G = matrix(kind, *shape, dtype=torch.float64)
    u, s, vh = torch.linalg.svd(G, full_matrices=False)
    rank = int((s > 1e-10 * s[0]).sum())
    factor = u[:, :rank] @ vh[:rank]
    torch.testing.assert_close(orthogonalize(G, 12), factor, rtol=0, atol=1e-9)
    for steps, least in ((3, 0.82), (4, 0.998)):
        share = float((G * orthogonalize(G, steps)).sum() / s.sum())
        assert least <= share <= 1.0
    scaled = orthogonalize(G, scale=-2.0)
    torch.testing.assert_close(scaled, -2.0 * orthogonalize(G))


def test_singular_values_above_a_fiftieth_of_the_bound_end_near_one() -> None:
    values = torch.logspace(0, -3, 60, dtype=torch.float64)
    bound = float((values**8).sum() ** (1 / 8))
    for steps, least in ((3, 0.82), (4, 0.998)):
        ends = orthogonalize(torch.diag(values), steps).diagonal()[values >= 0.021 * bound]
        assert least <= float(ends.min()) <= float(ends.max()) <= 1.0


def test_a_batch_equals_a_loop_and_zero_stays_zero() -> None:
    G = torch.randn(3, 4, 6, generator=seeded(0))
    G[1] = 0.0
    batch = orthogonalize(G)
    for one, single in zip(batch, G, strict=True):
        torch.testing.assert_close(one, orthogonalize(single))
    assert bool((batch[1] == 0).all())


@pytest.mark.parametrize("scale", [1e-30, 1e-7, 1e-5, 1e5, 1e7, 1e30])
@pytest.mark.parametrize("shape", [(6, 9), (9, 6), (3, 6, 9), (3, 9, 6)])
def test_the_size_of_a_matrix_does_not_matter(shape: tuple[int, ...], scale: float) -> None:
    G = torch.randn(shape, generator=seeded(0))
    u, _, vh = torch.linalg.svd(G.double(), full_matrices=False)
    torch.testing.assert_close(orthogonalize(scale * G, 12).double(), u @ vh, rtol=0, atol=1e-4)


@pytest.mark.parametrize("shape", [(6, 9), (3, 9, 6)])
def test_numbers_below_the_normal_ones_count(shape: tuple[int, ...]) -> None:
    """Nothing is 0 / 0, and the smallest numbers of float32 are scaled like others."""
    signs = torch.randn(shape, generator=seeded(0)).sign()
    torch.testing.assert_close(orthogonalize(1.4e-45 * signs), orthogonalize(signs))


@pytest.mark.parametrize("steps", [1, 2, 3, 4, 5, 8])
def test_the_peak_is_the_largest_value_on_a_grid(steps: int) -> None:
    s = torch.linspace(0, 1, 200_001, dtype=torch.float64)
    for a, b, c in coefficients(steps):
        s = a * s + b * s**3 + c * s**5
    assert 0.999 * peak(steps) <= float(s.max()) <= peak(steps) + 1e-12


def test_steps_must_be_positive() -> None:
    with pytest.raises(
        ValueError, match=r"orthogonalize\(steps=...\) must be a whole number of at"
    ):
        orthogonalize(torch.eye(2), 0)
