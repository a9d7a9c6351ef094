"""Weights of an optimizer: in their domains after every step, in every precision."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributed import init_process_group

import fwnet
from fwnet.optim import FrankWolfe, columns, constrain, rows, stack, whole
from fwnet.optim.fused import WORTH
from fwnet.optim.layouts import place_of

BALLS: list[Callable[[float], Any]] = [
    fwnet.SpectralBall,
    fwnet.TraceNormBall,
    fwnet.RowBall,
    fwnet.LInfBall,
    lambda radius: whole(fwnet.L1Ball(radius)),
    lambda radius: whole(fwnet.L2Ball(radius)),
    lambda radius: whole(fwnet.LpBall(3.0, radius)),
    lambda radius: whole(fwnet.KSparseBall(5, radius)),
    lambda radius: rows(fwnet.L1Ball(radius)),
    lambda radius: columns(fwnet.L2Ball(radius)),
    lambda radius: stack(fwnet.SpectralBall(radius)),
    lambda radius: stack(fwnet.TraceNormBall(radius)),
]
OTHERS: list[Callable[[float], Any]] = [
    lambda radius: whole(fwnet.Simplex(radius)),
    lambda radius: rows(fwnet.Simplex(radius)),
    lambda radius: fwnet.Box(-radius, 2 * radius),
]
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
STEPS = 200


def outside(weight: Tensor, domain: Any) -> float:
    """How far a weight is outside, relative to the radius; at most 0 inside."""
    place = place_of(weight, domain)
    assert place is not None
    points, inner = place.points(weight.detach()).double(), place.domain
    if isinstance(inner, fwnet.domains.NormBall):
        return float(inner.norm(points).max()) / inner.radius - 1
    if isinstance(inner, fwnet.Box):
        size = float(inner.upper)
        return float(torch.maximum(points - inner.upper, inner.lower - points).max()) / size
    radius: float = inner.radius  # type: ignore[attr-defined]
    return max(float((points.sum(-1) - radius).abs().max()), float(-points.min())) / radius


@dataclass(frozen=True)
class Walk:
    """Steps of one weight with random and steady gradients of any size and rates that change."""

    domain: Any
    dtype: torch.dtype
    shape: tuple[int, ...]
    rescale: str | None = "vertex"
    oracle: Any = None
    steady: bool = True  # gradients that hold the weight on the sphere, between random ones
    sharded: bool = False  # a DTensor, on a mesh of one worker
    fused: bool = False  # machine code from the first step, where there is any

    def run(self, steps: int, generator: np.random.Generator) -> str | None:
        """What went wrong, or None."""
        noise = torch.Generator().manual_seed(int(generator.integers(2**31)))
        start = torch.randn(self.shape, generator=noise) * 10 ** generator.uniform(-3, 1)
        net = nn.ParameterDict({"w": self._placed(start.to(self.dtype))})
        opt = FrankWolfe(
            constrain(net, {"w": self.domain}),
            rescale=self.rescale,
            oracle=self.oracle,
            averaging=8,
        )
        opt.load_state_dict(opt.state_dict() | {"seconds_lost": WORTH * self.fused})
        limit = 0.0 if self.dtype in (torch.bfloat16, torch.float16) else 1e-6
        weight, size = net["w"], 10 ** generator.uniform(-3, 3)
        if size < 2e-3:  # as small as numbers get
            size = torch.finfo(self.dtype).smallest_normal * torch.finfo(self.dtype).eps
        for t in range(steps):
            opt.param_groups[0]["lr"] = float(10 ** generator.uniform(-6, 0))
            if self.steady and t % 20:
                weight.grad = -weight.detach()
            else:
                drawn = size * torch.randn(self.shape, generator=noise)
                weight.grad = self._placed(drawn.to(self.dtype))
            opt.step()
            far = outside(self._whole(weight), self.domain)
            if not far <= limit:
                return f"infeasible: {self}: {far:.2e} after {t + 1} steps"
        with opt.averaged():
            far = outside(self._whole(weight), self.domain)
        return None if far <= limit else f"infeasible: average in {self}: {far:.2e}"

    def _placed(self, tensor: Tensor) -> Tensor:
        if not self.sharded:
            return tensor
        # Imported here: it takes seconds, which every run of the tests would pay.
        from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh

        mesh = init_device_mesh("cpu", (1,))
        return distribute_tensor(tensor, mesh, [Shard(0)])

    def _whole(self, tensor: Any) -> Tensor:
        whole: Tensor = tensor.full_tensor() if self.sharded else tensor
        return whole


def attack(generator: np.random.Generator) -> str | None:
    """Any domain, precision, shape and size, from any start."""
    dtype = DTYPES[generator.integers(len(DTYPES))]
    kinds = kinds_of(dtype)
    domain = kinds[generator.integers(len(kinds))](float(10 ** generator.uniform(-2, 1)))
    shape = tuple(int(n) for n in generator.integers(3, 25, 3 if "stack" in str(domain) else 2))
    rescale = (None, "vertex", "diameter", "gradient")[generator.integers(4)]
    oracle = None
    if isinstance(domain, fwnet.TraceNormBall):
        oracle = (None, fwnet.PowerIteration(1), fwnet.SoftTraceNorm(3.0))[generator.integers(3)]
    quarter = int(4 * generator.random())  # two choices in one draw, as the known cases expect
    walk = Walk(domain, dtype, shape, rescale, oracle, quarter < 2, fused=quarter % 2 == 0)
    return walk.run(STEPS, generator)


def kinds_of(dtype: torch.dtype) -> list[Callable[[float], Any]]:
    """The domains that weights of this precision can have."""
    return BALLS if dtype in (torch.bfloat16, torch.float16) else BALLS + OTHERS


def main() -> int:
    """python -m tests.laws.weights: many steps in every domain and precision, 0 infeasible."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--dtype", nargs="+", default=[str(d).split(".")[1] for d in DTYPES])
    parser.add_argument("--sharded", action="store_true", help="DTensors on one worker")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.sharded:
        meeting = tempfile.mkdtemp()
        init_process_group("gloo", init_method=f"file://{meeting}/meet", rank=0, world_size=1)
    count, wrong = 0, 0
    for name in options.dtype:
        dtype: torch.dtype = getattr(torch, name)
        walks = [
            Walk(domain, dtype, (4, 6, 5) if "stack" in str(domain) else (12, 9))
            for domain in (kind(0.7) for kind in kinds_of(dtype))
        ]
        walks.append(Walk(fwnet.TraceNormBall(0.7), dtype, (12, 9), oracle=fwnet.PowerIteration(1)))
        walks += [
            replace(walk, fused=True)
            for walk in walks
            if isinstance(walk.domain, fwnet.SpectralBall | fwnet.TraceNormBall)
        ]
        for number, walk in enumerate(walks):
            generator = np.random.default_rng([options.seed, number])
            failure = replace(walk, sharded=options.sharded).run(options.steps, generator)
            count, wrong = count + 1, wrong + (failure is not None)
            if failure is not None:
                sys.stdout.write(failure + "\n")
        sys.stdout.write(
            f"{name}{', sharded' * options.sharded}: {count} walks of {options.steps} steps, "
            f"{wrong} infeasible\n"
        )
        sys.stdout.flush()
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
