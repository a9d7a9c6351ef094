"""The minimum of f over a hull whose images are known: no product with A, whatever f is."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from fwnet.domains.minimizers import weights_following
from fwnet.iterates import Iterate
from fwnet.problems import Problem
from fwnet.quadratic.solve import solve_simplex_qp

_ALONG = 5  # Newton steps of the line search toward the vertex: its error is squared by each
_HALVINGS = 20
_SHARE = 0.1  # of the promised decrease that a step must keep


def quadratic_weights(gram: Tensor, slopes: Tensor) -> Tensor:
    """argmin of ½ wᵀ gram w + slopesᵀw over w >= 0, Σ w <= 1, differentiable on its face.

    Arguments:
        gram: `(*batch, K, K)`, semidefinite; slopes: `(*batch, K)`.
    """
    # The first weight is that of x itself, from which slopes and Gram matrix are measured.
    gram, slopes = pad(gram, (1, 0, 1, 0)), pad(slopes, (1, 0))
    matrix, linear = gram, slopes
    if gram.device.type != "cpu":  # a few numbers: one wait for the device, not one for each face
        both = torch.cat([gram, slopes.unsqueeze(-2)], -2).detach().cpu()
        matrix, linear = both[..., :-1, :], both[..., -1, :]
    # For nearly linear f the Gram matrix is rounding error, so it is not checked.
    weights = solve_simplex_qp(matrix, linear, trusted=True).x.to(gram.device)
    return _attached(weights, gram, slopes)[..., 1:]


def hull_weights(
    problem: Problem,
    it: Iterate,
    directions: Tensor,  # (*batch, K, *shape), from x to the points
    changes: Tensor,  # (*batch, K, m), their images
    rounds: int,
) -> Tensor:  # (*batch, K)
    """argmin of f(x + Σ w_k directions_k) over w >= 0, Σ w <= 1, by damped Newton steps.

        w <- w + γ (v − w),   v = argmin of the second-order model at w,   γ = 1, ½, ¼, …

    It starts from the line search toward the first point and f never rises, so the answer is at
    most what that line search reaches, after any number of rounds.

    Arguments:
        rounds: Newton steps over the whole hull.
    """
    b = problem.batch_dims
    with torch.no_grad():
        first = directions.narrow(b, 0, 1), changes.narrow(b, 0, 1)
        along = _descend(
            problem, it, *first, directions.new_zeros(*directions.shape[:b], 1), _ALONG
        )
        start = pad(along, (0, directions.shape[b] - 1))
        weights = _descend(problem, it, directions, changes, start, rounds)
    if not (torch.is_grad_enabled() and (directions.requires_grad or changes.requires_grad)):
        return weights
    here = _at(it, directions, changes, weights)
    slopes = problem.slopes(here, directions, changes)
    gram = semidefinite(problem.gram(here, directions, changes))
    whole = pad(weights, (1, 0))
    whole[..., 0] = 1 - weights.sum(-1)
    linear = slopes - (gram @ weights.unsqueeze(-1)).squeeze(-1)
    return _attached(whole, pad(gram, (1, 0, 1, 0)), pad(linear, (1, 0)))[..., 1:]


def semidefinite(gram: Tensor) -> Tensor:
    """Symmetric and without a negative diagonal: the rounding errors of a small Gram matrix."""
    gram = (gram + gram.mT) / 2
    diagonal = gram.diagonal(dim1=-2, dim2=-1)
    return gram + torch.diag_embed(diagonal.clamp_min(0) - diagonal)


def mix(weights: Tensor, points: Tensor) -> Tensor:
    """Σ_k weights_k · points_k."""
    shape = (*weights.shape[:-1], *points.shape[weights.ndim :])
    return (weights.unsqueeze(-2) @ points.flatten(weights.ndim)).reshape(shape)


def _descend(
    problem: Problem, it: Iterate, directions: Tensor, changes: Tensor, w: Tensor, rounds: int
) -> Tensor:
    here = _at(it, directions, changes, w)
    value = problem.value(here)
    for _ in range(rounds):
        slopes = problem.slopes(here, directions, changes)
        gram = semidefinite(problem.gram(here, directions, changes))
        if w.shape[-1] == 1:  # one weight needs no programme
            tiny = torch.finfo(w.dtype).tiny
            direction = (w - slopes / gram.squeeze(-1).clamp_min(tiny)).clamp(0.0, 1.0) - w
        else:
            linear = slopes - (gram @ w.unsqueeze(-1)).squeeze(-1)
            direction = quadratic_weights(gram, linear) - w
        promise = (direction * slopes).sum(-1)
        done = promise >= -torch.finfo(value.dtype).eps * value.abs()
        step = torch.where(done, 0.0, 1.0)
        for _ in range(_HALVINGS):
            trial = w + step.unsqueeze(-1) * direction
            there = _at(it, directions, changes, trial)
            ahead = problem.value(there)
            high = ~(ahead <= value + _SHARE * step * promise) & ~done  # NaN is too high
            if not bool(high.any()):
                break
            step = torch.where(high, step / 2, step)
        else:  # rounding: no step is known to descend
            trial = torch.where(high.unsqueeze(-1), w, trial)
            there = _at(it, directions, changes, trial)
            ahead = problem.value(there)
        w, here, value = trial, there, ahead
        if bool(done.all()):
            break
    return w


def _at(it: Iterate, directions: Tensor, changes: Tensor, weights: Tensor) -> Iterate:
    assert it.image is not None
    return Iterate(it.x + mix(weights, directions), it.image + mix(weights, changes))


def _attached(weights: Tensor, gram: Tensor, slopes: Tensor) -> Tensor:
    """The weights with the derivative of a minimiser on its face of the simplex."""
    if not (torch.is_grad_enabled() and (gram.requires_grad or slopes.requires_grad)):
        return weights
    gradient = (gram @ weights.unsqueeze(-1)).squeeze(-1) + slopes
    return weights_following(weights, gradient, gram, 1e-9)
