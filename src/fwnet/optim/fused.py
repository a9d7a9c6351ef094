"""The step of a bucket as one call of machine code, where that is faster than calls of torch."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np
import torch
from torch import Tensor
from torch.autograd.graph import increment_version

from fwnet.domains import SpectralBall, TraceNormBall
from fwnet.numerics import polar
from fwnet.numerics.compiled import machine_code
from fwnet.optim.groups import State, rate_of
from fwnet.oracles import NewtonSchulz, PowerIteration

if TYPE_CHECKING:
    from fwnet.optim.moves import Bucket

WORTH = 1.0  # seconds that must have been lost before machine code is loaded, which takes as long
_CALLS = 4e-5  # seconds of Python and of torch's calls that a weight's step saves, about
_PER_OPERATION, _PER_ENTRY = 6e-12, 4e-10  # saved in products, and in passes over the memory
_LARGE = 1024  # columns above which products are left to BLAS
_THREADED = 2**26, 2**18  # operations and entries that torch's other threads may take over


def savings(buckets: Iterable[Bucket]) -> dict[Bucket, float]:
    """The seconds that machine code would save in a step of each bucket that it knows.

    Deterministic algorithms of torch keep the plain step, whose rounding never changes in a run.
    """
    if torch.are_deterministic_algorithms_enabled():
        return {}
    return {bucket: seconds for bucket in buckets if (seconds := _saving(bucket))}


def _saving(bucket: Bucket) -> float:
    """The seconds; 0 if there is no machine code for a bucket, or torch's threads are faster."""
    if not _is_plain(bucket) or not isinstance(bucket.domain, SpectralBall | TraceNormBall):
        return 0.0
    oracle, least, count = bucket.oracle, min(bucket.shape), len(bucket.members)
    entries, share = count * math.prod(bucket.shape), 1 - 1 / torch.get_num_threads()
    if type(oracle) is NewtonSchulz:
        work = 6 * oracle.steps * entries * least
        pays = least <= _LARGE and work * share <= _THREADED[0]
        return pays * (count * _CALLS + work * _PER_OPERATION)
    pays = type(oracle) is PowerIteration and oracle.steps == 1 and oracle.start == "warm"
    return (pays and entries * share <= _THREADED[1]) * (count * _CALLS + entries * _PER_ENTRY)


def _is_plain(bucket: Bucket) -> bool:
    """Whether weights are one matrix each in the memory, and take steps of the usual kind."""
    group, kinds = bucket.group, (Tensor, torch.nn.Parameter)
    conditions = (
        bucket.on_cpu,
        bucket.views,
        len(bucket.shape) == 2,
        bucket.members[0].place.kind == "whole",
        all(type(p) in kinds for p in bucket.parameters),
        not any(p.is_neg() for p in bucket.parameters),
        group["momentum"] > 0,
        group["rescale"] != "gradient",
        group.get("constrained", True),
    )
    return all(conditions)


@final
class FusedStep:
    """One call for the momenta, vertices and moves of a bucket: the same step, rounded differently.

    Arguments:
        bucket: one of `savings`.
        code: what `machine` returned.
    """

    def __init__(self, bucket: Bucket, code: Any) -> None:
        self.bucket, self.code = bucket, code
        first, oracle, count = bucket.members[0], bucket.oracle, len(bucket.members)
        assert isinstance(oracle, NewtonSchulz | PowerIteration)
        rows, columns = self.shape = bucket.shape
        self.spectral = isinstance(oracle, NewtonSchulz)
        self.step = code.spectral if self.spectral else code.rank_one
        self.entries = first.parameter.numel()
        # of gradients, momenta, weights, and v of a power iteration
        self.addresses = np.zeros((4, count), np.int64)
        self.addresses[2] = bucket.addresses
        self.gradients = self.addresses[0].data  # a quick way to write there
        self.states: list[tuple[Any, Any, float | None]] = []  # momentum, oracle's state, radius
        kind = np.float64 if first.parameter.dtype == torch.float64 else np.float32
        sign = -1.0 if bucket.group["maximize"] else 1.0
        share = 1.0 - float(bucket.group["momentum"])
        self.numbers = np.array([share, sign, bucket.root / 2, 0.0, 0.0], kind)
        self.sizes = np.zeros((count, 4))
        self.sizes[:, 0] = -np.array(bucket.radii) * (1 - bucket.margin)
        self.sizes[:, 1] = 1.0 if bucket.group["rescale"] is None else bucket.by_diameter
        self.groups = list({id(m.group): m.group for m in bucket.members}.values())
        self.rates: list[Any] = []
        if self.spectral:
            most, least = max(self.shape), min(self.shape)
            ball = isinstance(bucket.domain, TraceNormBall)
            self.sizes[:, 0] /= polar.peak_of(oracle.steps, most, first.parameter.dtype)
            self.sizes[:, 0] /= least if ball else 1
            height, width = (code.padded(n, kind().itemsize) for n in (most, least))
            table = [*polar.coefficients(oracle.steps), (polar.ROUNDED_UP, 0.0, 0.0)]
            by_length = ball and bucket.group["rescale"] == "vertex"
            self.rest: tuple[Any, ...] = (
                # by torch, which begins at a multiple of a register
                torch.zeros(2, height, width, dtype=first.parameter.dtype).numpy(),
                torch.zeros(2, width, width, dtype=first.parameter.dtype).numpy(),
                np.array(table, kind),
                self.numbers,
                by_length,
            )
        else:
            self.rest = (
                np.zeros((count, rows), kind),
                np.zeros((count, columns), kind),
                self.numbers,
            )

    def reads(self) -> bool:
        """Whether learning rates are numbers, and all gradients plain, finite and not 0."""
        rates = [rate_of(group) for group in self.groups]
        if rates != self.rates:
            if not all(type(rate) is float for rate in rates):
                return False
            self.rates = rates
            self.sizes[:, 2] = [rate_of(member.group) for member in self.bucket.members]
        for k, parameter in enumerate(self.bucket.parameters):
            gradient = parameter.grad
            if type(gradient) is not Tensor or gradient.dtype is not parameter.dtype:
                return False
            if not gradient.is_contiguous() or gradient.is_neg():
                return False
            self.gradients[k] = gradient.data_ptr()
        usable: bool = self.code.are_usable(self.addresses, self.entries, self.numbers)
        return usable

    def move(self, owns: Sequence[State], xs: Sequence[Tensor]) -> bool:
        """One step of every member, after `reads`; False if it could update only the momenta."""
        bucket = self.bucket
        if not self._knows(owns):
            bucket.begin(owns, xs)
            bucket.momenta.joined(bucket.signed(bucket.gradient()), owns)
            self._remember(owns)
        if not self.step(self.addresses, self.sizes, self.shape, *self.rest):
            return False
        for parameter in bucket.parameters:
            increment_version(parameter)
        if bucket.matrices:
            bucket.stay_inside(owns, xs, self.sizes[:, 3].tolist())
        return True

    def _knows(self, owns: Sequence[State]) -> bool:
        """Whether the states are those that it remembers."""
        if not self.states:
            return False
        for own, (momentum, state, radius) in zip(owns, self.states, strict=True):
            if own.get("momentum") is not momentum or own.get("oracle") is not state:
                return False
            if own.get("radius") != radius:
                return False
        return True

    def _remember(self, owns: Sequence[State]) -> None:
        """Where the states are: new ones, or others than before."""
        if not self.spectral:
            for own in owns:  # it will change in place, and a loaded one may belong to another
                own["oracle"] = own["oracle"].clone(memory_format=torch.contiguous_format)
            self.addresses[3] = [own["oracle"].data_ptr() for own in owns]
        self.addresses[1] = [own["momentum"].data_ptr() for own in owns]
        self.states = [(own["momentum"], own["oracle"], own.get("radius")) for own in owns]


def machine() -> Any | None:
    """The machine code of a step; None without Numba."""
    return machine_code("fwnet.optim.compiled_moves")
