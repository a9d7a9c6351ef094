"""The tensor that moves for a parameter: itself, a float32 master, or the whole of its shards."""

from __future__ import annotations

import math
import sys
from typing import Any

import torch
from torch import Tensor

from fwnet.domains import NormBall, TraceNormBall
from fwnet.optim.layouts import Place
from fwnet.optim.mixing import MATRIX_BALLS, precision

HALF = (torch.bfloat16, torch.float16)


def is_sharded(tensor: Tensor) -> bool:
    """Whether it is a DTensor, without importing torch.distributed."""
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(tensor, module.DTensor)


def local(tensor: Any) -> Tensor:
    """The part of a DTensor that this worker holds; any other tensor as it is."""
    part: Tensor = tensor.to_local() if is_sharded(tensor) else tensor
    return part


def gathered(tensor: Any) -> Tensor:
    """All of a DTensor, by a collective that every worker calls; any other tensor as it is."""
    full: Tensor = tensor.full_tensor() if is_sharded(tensor) else tensor
    return full


def norm_of_shards(tensor: Any) -> Tensor:
    """The Euclidean norm of a DTensor, the same on all workers, infinite if it is not finite."""
    shards = sys.modules["torch.distributed.tensor"]
    square = local(tensor).float().square().sum().nan_to_num(nan=math.inf)
    partial = [shards.Partial() if p.is_shard() else p for p in tensor.placements]
    whole = shards.DTensor.from_local(square, tensor.device_mesh, partial, run_check=False)
    norm: Tensor = whole.full_tensor().sqrt()
    return norm


def like_shards(part: Tensor, parameter: Any) -> Any:
    """A DTensor like the parameter, of which this worker holds `part`."""
    shards = sys.modules["torch.distributed.tensor"]
    mesh, placements = parameter.device_mesh, parameter.placements
    shape, stride = parameter.shape, parameter.stride()
    return shards.DTensor.from_local(
        part, mesh, placements, run_check=False, shape=shape, stride=stride
    )


def precise(tensor: Tensor) -> Tensor:
    """In float32 if it has half precision."""
    return tensor.float() if tensor.dtype in HALF else tensor


def forget_weights(own: dict[str, Any]) -> None:
    """Drop what a state has computed from the weights."""
    for name in ("radius", "master", "rest"):
        own.pop(name, None)


def conform(own: dict[str, Any], parameter: Tensor) -> None:
    """Put a state into the dtype in which its parameter moves: that of the network may change."""
    kind = precision(parameter)
    known = {name: x for name, x in own.items() if isinstance(x, Tensor) and name != "step"}
    wrong = [name for name, x in known.items() if x.is_floating_point() and x.dtype != kind]
    if wrong or ("master" in own and parameter.dtype not in HALF):
        own.update({name: own[name].to(kind) for name in wrong})
        forget_weights(own)


def read(parameter: Tensor, own: dict[str, Any]) -> Tensor:
    """The tensor to move; moving it in place moves the parameter if it is the parameter itself."""
    if parameter.dtype in HALF and "master" not in own:
        own["master"] = parameter.detach().float()
    return gathered(own.get("master", parameter.detach()))


def write(parameter: Tensor, own: dict[str, Any], moved: Tensor, place: Place | None) -> None:
    """Store what was read and moved: in the master, in the parameter, in this worker's shard."""
    if parameter.dtype in HALF:
        _store(own["master"], moved)
        moved = round_inward(moved, place, own.get("bound", math.inf), parameter.dtype)
    _store(parameter, moved)


def _store(target: Any, value: Tensor) -> None:
    if is_sharded(target):
        shards = sys.modules["torch.distributed.tensor"]
        parts = shards.distribute_tensor(
            value, target.device_mesh, target.placements, src_data_rank=None
        )
        target.to_local().copy_(parts.to_local())
    elif value.data_ptr() != target.data_ptr():
        target.copy_(value)


def round_inward(x: Tensor, place: Place | None, bound: float, dtype: torch.dtype) -> Tensor:
    """x in half precision, no further from 0 in the norm of its ball.

    In norms that see only sizes of entries, entries are rounded toward 0. The singular values of a
    matrix move by at most the Frobenius norm of the rounding, ε ‖X‖_F, and their sum by √k times
    that; so X is scaled by radius / (‖X‖ + that) first, if this is below 1.

    Arguments:
        bound: the norm of x is at most this, and at most the radius.
    """
    if place is None:
        return x.to(dtype)
    ball = place.domain
    if isinstance(ball, MATRIX_BALLS):
        points = place.points(x)
        side = min(points.shape[-2:]) if isinstance(ball, TraceNormBall) else 1
        # to nearest: half of eps; below the normal numbers: half of the smallest spacing
        kind = torch.finfo(dtype)
        entries = math.sqrt(points.shape[-1] * points.shape[-2])
        error = torch.linalg.matrix_norm(points, keepdim=True) * (0.502 * kind.eps)
        error = (error + entries * kind.smallest_normal * kind.eps) * math.sqrt(side)
        share = (ball.radius * (1 - 1e-6) / (min(bound, ball.radius) + error)).clamp_max(1.0)
        return place.tensor(points * share, tuple(x.shape)).to(dtype)
    assert isinstance(ball, NormBall)
    x = x * (1 - 1e-6)  # float32 holds the norm of x up to that
    near = x.to(dtype)
    outward = near.float().abs() > x.abs()  # one step toward 0 in the order of the bits
    return (near.view(torch.int16) - outward.to(torch.int16)).view(dtype)
