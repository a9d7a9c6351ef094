"""The minimum of f over a hull whose images are known: no product with A, whatever f is."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from fwnet.domains import Simplex
from fwnet.iterates import Iterate
from fwnet.numerics.sensitivity import Face, reattached
from fwnet.problems import Problem
from fwnet.quadratic.solve import solve_simplex_qp

_ALONG = 5  # Newton steps of the line search toward the vertex: its error is squared by each
_HALVINGS = 20
_SHARE = 0.1  # of the promised decrease that a step must keep


def quadratic_weights(bends: Tensor, slopes: Tensor) -> Tensor:
    """argmin of ½ wᵀ bends w + slopesᵀw over w >= 0, Σ w <= 1, differentiable on its face.

    Arguments:
        bends: `(*batch, K, K)`, semidefinite; slopes: `(*batch, K)`.
    """
    # The first weight is that of x itself, from which slopes and bends are measured.
    bends, slopes = pad(bends, (1, 0, 1, 0)), pad(slopes, (1, 0))
    # Where f hardly curves, bends are rounding.
    weights = solve_simplex_qp(bends, slopes, trusted=True).x
    return _attached(weights, bends, slopes)[..., 1:]


def hull_weights(
    problem: Problem,
    it: Iterate,
    ways: Tensor,  # (*batch, K, *shape), from x to the points
    bent: Tensor,  # (*batch, K, m), their images
    rounds: int,
) -> Tensor:  # (*batch, K)
    """argmin of f(x + Σ w_k ways_k) over w >= 0, Σ w <= 1, by damped Newton steps.

        w <- w + γ (v − w),   v = argmin of the second-order model at w,   γ = 1, ½, ¼, …

    It starts from the line search toward the first point and f never rises, so the answer is at
    most what that line search reaches, after any number of rounds.

    Arguments:
        rounds: Newton steps over the whole hull.
    """
    b = problem.batch_dims
    with torch.no_grad():
        first = ways.narrow(b, 0, 1), bent.narrow(b, 0, 1)
        along = _descend(problem, it, *first, ways.new_zeros(*ways.shape[:b], 1), _ALONG)
        start = pad(along, (0, ways.shape[b] - 1))
        weights = _descend(problem, it, ways, bent, start, rounds)
    if not (torch.is_grad_enabled() and (ways.requires_grad or bent.requires_grad)):
        return weights
    here = _at(it, ways, bent, weights)
    slopes, bends = problem.slopes(here, ways, bent), semidefinite(problem.gram(here, ways, bent))
    whole = pad(weights, (1, 0))
    whole[..., 0] = 1 - weights.sum(-1)
    linear = slopes - (bends @ weights.unsqueeze(-1)).squeeze(-1)
    return _attached(whole, pad(bends, (1, 0, 1, 0)), pad(linear, (1, 0)))[..., 1:]


def semidefinite(gram: Tensor) -> Tensor:
    """Symmetric and without a negative diagonal, which is how far rounding bends a small one."""
    gram = (gram + gram.mT) / 2
    diagonal = gram.diagonal(dim1=-2, dim2=-1)
    return gram + torch.diag_embed(diagonal.clamp_min(0) - diagonal)


def mix(weights: Tensor, points: Tensor) -> Tensor:
    """Σ_k weights_k · points_k."""
    shape = (*weights.shape[:-1], *points.shape[weights.ndim :])
    return (weights.unsqueeze(-2) @ points.flatten(weights.ndim)).reshape(shape)


def _descend(
    problem: Problem, it: Iterate, ways: Tensor, bent: Tensor, w: Tensor, rounds: int
) -> Tensor:
    here = _at(it, ways, bent, w)
    value = problem.value(here)
    for _ in range(rounds):
        slopes = problem.slopes(here, ways, bent)
        bends = semidefinite(problem.gram(here, ways, bent))
        if w.shape[-1] == 1:  # one weight needs no programme
            tiny = torch.finfo(w.dtype).tiny
            way = (w - slopes / bends.squeeze(-1).clamp_min(tiny)).clamp(0.0, 1.0) - w
        else:
            linear = slopes - (bends @ w.unsqueeze(-1)).squeeze(-1)
            way = quadratic_weights(bends, linear) - w
        promise = (way * slopes).sum(-1)
        done = promise >= -torch.finfo(value.dtype).eps * value.abs()
        step = torch.where(done, 0.0, 1.0)
        for _ in range(_HALVINGS):
            trial = w + step.unsqueeze(-1) * way
            there = _at(it, ways, bent, trial)
            ahead = problem.value(there)
            high = ~(ahead <= value + _SHARE * step * promise) & ~done  # NaN is too high
            if not bool(high.any()):
                break
            step = torch.where(high, step / 2, step)
        else:  # rounding: no step is known to descend
            trial = torch.where(high.unsqueeze(-1), w, trial)
            there = _at(it, ways, bent, trial)
            ahead = problem.value(there)
        w, here, value = trial, there, ahead
        if bool(done.all()):
            break
    return w


def _at(it: Iterate, ways: Tensor, bent: Tensor, weights: Tensor) -> Iterate:
    assert it.image is not None
    return Iterate(it.x + mix(weights, ways), it.image + mix(weights, bent))


def _attached(weights: Tensor, bends: Tensor, slopes: Tensor) -> Tensor:
    """The weights with the derivative of a minimiser on its face of the simplex."""
    if not (torch.is_grad_enabled() and (bends.requires_grad or slopes.requires_grad)):
        return weights
    with torch.no_grad():
        face = Face.of(Simplex().normals(weights, 1e-9))
        response = face.response(face.basis @ bends @ face.basis.mT)
    gradient = (bends @ weights.unsqueeze(-1)).squeeze(-1) + slopes
    return reattached(weights, gradient, response)
