"""What certificates stand on: vertices, bounds of extreme singular values, factored gaps."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

import fwnet
from domains.cases import implicit, spectraplex, trace_norm
from fwnet.estimators.low_rank.losses import SquaredLoss
from fwnet.estimators.low_rank.problems import certify
from fwnet.low_rank import ArrayRows, Factors, RowProblem
from fwnet.numerics.singular import top_singular_pair
from fwnet.numerics.tensors import ImplicitMatrix
from fwnet.vertices import Rank1, Vertex
from laws.coverage import note
from laws.hard_data import draw_scale, draw_singular_values, draw_spectrum
from laws.rounding import LANCZOS, LINEAR_PROGRAM, TIED, unit_roundings
from laws.sets import LARGE_SIDES, SIDES, Set, draw_radius, draw_set, draw_sides
from laws.solves import DTYPES

Array = np.ndarray
PROGRAMS = (fwnet.Polytope, fwnet.TransportPolytope, fwnet.Birkhoff)
HUGE_SIDES = (300, 700, 1500, 4095, 4097, 5000)  # above 4096 no matrix is made dense


def oracle_slack(place: Set, gradient: Array, dtype: torch.dtype) -> float:
    """The documented error of certificates whose oracle iterates."""
    if place.parts:
        return sum(oracle_slack(part, block, dtype) for part, block in place.blocks(gradient))
    if isinstance(place.domain, PROGRAMS):
        return LINEAR_PROGRAM * float(np.abs(gradient).sum()) * max(1.0, place.reach)
    if isinstance(place.domain, fwnet.Spectraplex):
        values = np.linalg.eigvalsh((gradient + gradient.T) / 2)
        spread = np.linalg.norm(values - values[0]) + np.linalg.norm(gradient)
        return LANCZOS[dtype] * float(spread) * place.reach
    if len(place.shape) == 2 or isinstance(place.domain, fwnet.Product):
        return LANCZOS[dtype] * float(np.linalg.norm(gradient)) * place.reach
    return 0.0


def attack_oracle(generator: np.random.Generator) -> str | None:
    """⟨c, lmo(c)⟩ is the minimum, from any guess, for dense and for implicit costs."""
    place = draw_set(generator)
    while len(place.shape) != 2:
        place = draw_set(generator)
    return oracle_verdict(generator, place, draw_spectrum(generator, *place.shape))


def attack_spectra(generator: np.random.Generator) -> str | None:
    """The same for extreme singular vectors and eigenvectors that are found by iterations."""
    radius, side = draw_radius(generator), int(generator.choice(LARGE_SIDES[-6:]))
    if generator.random() < 0.5:
        place = Set(trace_norm(side, side + int(generator.integers(3)), radius), radius)
        return oracle_verdict(generator, place, draw_spectrum(generator, *place.shape))
    values = draw_singular_values(generator, side, (0, 1, 4, 5)) * generator.choice([-1.0, 1.0])
    basis = np.eye(side)
    if generator.random() < 0.6:
        basis = np.linalg.qr(generator.standard_normal((side, side)))[0]
    cost = (basis * values) @ basis.T
    place = Set(spectraplex(side, radius), radius)
    return oracle_verdict(generator, place, (cost + cost.T) / 2)


def oracle_verdict(generator: np.random.Generator, place: Set, cost: Array) -> str | None:
    """Of a vertex and of a certified one, for the cost in some dtype, scale and form."""
    dtype = DTYPES[int(generator.random() < 0.4)]
    tensor = torch.from_numpy(draw_scale(generator) * cost).to(dtype)
    cost, domain, side = tensor.double().numpy(), place.domain, min(place.shape)
    products, warm = bool(generator.random() < 0.5), False
    given: Any = implicit(tensor) if products else tensor
    if isinstance(domain, fwnet.TraceNormBall) and generator.random() < 0.5:
        warm, vh = True, np.linalg.svd(cost)[2]
        guess = vh[int(generator.integers(side))] + 1e-3 * generator.standard_normal(len(vh))
        u, _, v = top_singular_pair(given, torch.from_numpy(guess).to(dtype))
        found: Vertex = Rank1(-domain.radius * u, v)
    else:
        found = domain.vertex(given)
    note(domain=type(domain).__name__, dtype=dtype, implicit=products, warm=warm, side=side)
    text = f"{place}, {dtype}{', implicit' * products}{', warm' * warm}"
    vertex = found.dense().double().numpy()
    k = sum(place.shape) * 4 + 20
    rounding = k * unit_roundings(dtype) * float(np.linalg.norm(cost)) * place.reach
    rounding += oracle_slack(place, cost, dtype)
    violation = place.violation(vertex)
    if violation > k * unit_roundings(dtype) * place.reach * max(place.shape):
        return f"infeasible: the vertex leaves the domain by {violation:.3g} [lmo of {text}]"
    least = place.minimum(cost)
    excess = float((cost * vertex).sum()) - least
    tied = TIED[dtype] * float(np.linalg.norm(cost, 2)) * place.reach
    if excess > rounding + tied:
        return (
            f"false certificate: ⟨c, lmo(c)⟩ is {excess:.3g} above the minimum {least:.3g} "
            f"(rounding {rounding:.3g}) [lmo of {text}]"
        )
    best, bound = domain.certified_vertex(given)
    inner = float((best.dense().double().numpy() * cost).sum())
    return bound_verdict(float(bound), least, inner, rounding, text)


def bound_verdict(
    bound: float, least: float, inner: float, rounding: float, text: str
) -> str | None:
    """A certified bound is at most the minimum, and the vertex beside it reaches that.

    Arguments:
        inner: ⟨c, vertex⟩.
    """
    if bound > least + rounding:
        return (
            f"false certificate: the bound {bound!r} is above the minimum {least!r} "
            f"(rounding {rounding:.3g}) [certified_vertex of {text}]"
        )
    if not bound >= inner - 2 * rounding:
        return (
            f"other: the bound {bound!r} is far below ⟨c, vertex⟩ = {inner!r} "
            f"(rounding {rounding:.3g}) [certified_vertex of {text}]"
        )
    return None


# Known by their products ------------------------------------------------------------------------


def reflected(x: Tensor, normals: list[Tensor]) -> Tensor:
    """The product of reflections I − 2nnᵀ and x, `(n,)` or `(n, 1)`."""
    for normal in normals:
        column = normal if x.ndim == 1 else normal.unsqueeze(-1)
        x = x - 2 * column * (normal @ x)
    return x


def draw_normals(generator: np.random.Generator, n: int, dtype: torch.dtype) -> list[Tensor]:
    drawn = (torch.from_numpy(generator.standard_normal(n)) for _ in range(2))
    return [(x / x.norm()).to(dtype) for x in drawn]


def attack_products(generator: np.random.Generator) -> str | None:
    """Bounds of matrices too large to decompose, with singular values that are known.

    H₁ diag(s) H₂ with products of reflections; symmetric for the spectraplex, with signs.
    """
    dtype = DTYPES[int(generator.random() < 0.3)]
    choice = generator.choice(HUGE_SIDES, 2, p=[0.5, 0.25, 0.1, 0.05, 0.05, 0.05])
    d, m = (int(side) for side in choice)
    symmetric = bool(generator.random() < 0.4)
    d = m if symmetric else d
    k = min(d, m)
    size, radius = draw_scale(generator, 3.0), draw_radius(generator)
    s = torch.from_numpy(size * draw_singular_values(generator, k)).to(dtype)
    domain: Any = fwnet.TraceNormBall(radius)
    if symmetric:
        domain = fwnet.Spectraplex(radius)
        s = s * torch.from_numpy(generator.choice([-1.0, 1.0], k)).to(dtype)
    left = draw_normals(generator, d, dtype)
    right = left if symmetric else draw_normals(generator, m, dtype)

    def times(v: Tensor, first: list[Tensor], last: list[Tensor], rows: int) -> Tensor:
        """H_last diag(s) H_firstᵀ v; a reflection is its own transpose."""
        v = reflected(v, first[::-1])[:k]
        out = v.new_zeros(rows, *v.shape[1:])
        out[:k] = (s if v.ndim == 1 else s.unsqueeze(-1)) * v
        return reflected(out, last)

    cost = ImplicitMatrix(
        torch.Size((d, m)),
        lambda v: times(v, right, left, d),
        lambda u: times(u, left, right, m),
        lambda: times(torch.eye(m, dtype=dtype), right, left, d),
        dtype,
        torch.device("cpu"),
    )
    bound = domain.certified_vertex(cost)[1]
    values = s.double()
    least = radius * float(values.min() if symmetric else -values.abs().max())
    rounding = 40 * radius * unit_roundings(dtype) * float(values.norm())
    note(domain=type(domain).__name__, dtype=dtype, side=k)
    text = f"{domain}, {d}x{m}, {dtype}, products only"
    if float(bound) > least + rounding:
        return (
            f"false certificate: the bound {float(bound)!r} is above the minimum {least!r} "
            f"(rounding {rounding:.3g}) [certified_vertex of {text}]"
        )
    return None


# Factored ---------------------------------------------------------------------------------------


def attack_low_rank(generator: np.random.Generator) -> str | None:
    """`low_rank.certify`: its gap is an upper bound of ⟨G, W⟩ + radius · σ₁(G).

    With X = I and targets Y, G = (W − Y)/n: any spectrum can be made. The start of the oracle is
    the first right singular vector of W, so that W hides the top of G where it can.
    """
    large = generator.random() < 0.6
    n, m = draw_sides(generator) if large else (int(s) for s in generator.choice(SIDES, 2))
    dtype = DTYPES[int(generator.random() < 0.4)]
    G = draw_spectrum(generator, n, m)
    u, _, vh = np.linalg.svd(G, full_matrices=False)
    radius, rank = draw_radius(generator), int(generator.integers(1, min(n, m, 4) + 1))
    chosen = generator.permutation(min(n, m))[:rank]
    shares = generator.dirichlet(np.ones(rank)) * radius * generator.choice([0.1, 0.9, 1.0])
    U, V = (
        torch.from_numpy(np.ascontiguousarray(x)).to(dtype) for x in (u[:, chosen], vh[chosen].T)
    )
    W = Factors(U, torch.from_numpy(shares).to(dtype), V)
    dense = (W.U.double() * W.s.double()) @ W.V.double().mT
    size = max(radius, 1e-3) * draw_scale(generator, 3.0)
    targets = dense - size * torch.from_numpy(G)
    Y = targets.to(dtype)
    weight = torch.full((n,), 1.0 / n, dtype=dtype)
    problem = RowProblem(ArrayRows(torch.eye(n, dtype=dtype)), SquaredLoss(Y, weight))
    found = certify(problem, W, radius)
    exact = ((dense - Y.double()) * weight.double()[:, None]).numpy()
    true = float((exact * dense.numpy()).sum()) + radius * float(np.linalg.norm(exact, 2))
    sizes = (dense.abs() + Y.double().abs()).numpy() / n
    most = float((sizes * np.abs(dense.numpy())).sum()) + radius * float(np.linalg.norm(sizes))
    rounding = (2 * (n + m) + 4 * rank + 20) * unit_roundings(dtype) * most
    note(dtype=dtype, side=min(n, m), rank=rank)
    text = f"certify {n}x{m}, rank {rank}, radius {radius:.3g}, {dtype}"
    if found.gap < true - rounding:
        return (
            f"false certificate: gap {found.gap!r}, but it is {true!r} "
            f"(rounding {rounding:.3g}) [{text}]"
        )
    return None
