"""Team: the workers of one fit, and what they send each other."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar, final

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

_T = TypeVar("_T")
_CPU = torch.device("cpu")


@final
@dataclass
class Traffic:
    """What went through all-reduce so far."""

    calls: int = 0
    numbers: int = 0  # of 8 bytes each


@final
@dataclass(frozen=True)
class Team:
    """One worker's view of its team; a team of one sends nothing.

    Every method is a collective: all workers call it, in the same order.

    Arguments:
        rank, size: which worker this is, of how many.
        device: where it computes.
        traffic: counts what it hands to all-reduce.

    Example:
        >>> from fwnet.distributed import Team
        >>> Team().rank, Team().size
        (0, 1)
    """

    rank: int = 0
    size: int = 1
    device: torch.device = _CPU
    traffic: Traffic = field(default_factory=Traffic)

    def sum(self, numbers: Tensor) -> Tensor:
        """Σ over the workers of int64 tensors: exact, so the same in any order."""
        return self._reduce(numbers, dist.ReduceOp.SUM)

    def max(self, numbers: Tensor) -> Tensor:
        """The largest, entry by entry."""
        return self._reduce(numbers, dist.ReduceOp.MAX)

    def share(self, value: _T) -> _T:
        """The value of worker 0."""
        if self.size == 1:
            return value
        box = [value]
        with _in_touch(self.rank):
            dist.broadcast_object_list(box, src=0, device=self.device)
        return box[0]

    def together(self, work: Callable[[], _T]) -> _T:
        """work() on every worker; if it fails on one, the same message is raised on all.

        Without this the others would wait for a worker that is gone.
        """
        answer: _T | None = None
        failure: str | None = None
        try:
            answer = work()
        except (ValueError, TypeError, OSError) as error:
            failure = str(error)
        failures: list[Any] = [failure]
        if self.size > 1:
            failures = [None] * self.size
            with _in_touch(self.rank):
                dist.all_gather_object(failures, failure)
        for rank, text in enumerate(failures):
            if text is not None:
                raise ValueError(text if self.size == 1 else f"worker {rank}: {text}")
        return answer  # type: ignore[return-value]  # nothing failed, so work() answered

    def on_first(self, work: Callable[[], _T]) -> _T | None:
        """work() on worker 0 only; if it fails there, its message is raised on all."""
        return self.together(work if self.rank == 0 else lambda: None)

    def agree(self, digest: int) -> bool:
        """Whether all workers hold the same number, of at most 62 bits."""
        pair = torch.tensor([digest, -digest], device=self.device)
        high, low = self.max(pair).tolist()
        return bool(high == -low)

    def _reduce(self, numbers: Tensor, how: Any) -> Tensor:
        if self.size > 1:
            self.traffic.calls += 1
            self.traffic.numbers += numbers.numel()
            with _in_touch(self.rank):
                dist.all_reduce(numbers, op=how)
        return numbers


def join(device: str = "cpu", patience: float = 600.0) -> Team:
    """Join the team that torchrun started, or be a team of one.

    Arguments:
        device: "cpu" (gloo) or "cuda" (NCCL, one device a worker).
        patience: seconds after which a worker that does not answer counts as lost.

    Example:
        >>> from fwnet.distributed import join, leave
        >>> team = join()
        >>> team.size
        1
        >>> leave()
    """
    size = int(os.environ.get("WORLD_SIZE", "1"))
    place = torch.device(device)
    if place.type == "cuda":
        if not torch.cuda.is_available():
            raise ValueError(f"device={device!r} needs a CUDA device; none was found. Take 'cpu'.")
        place = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(place)
    if size == 1:
        return Team(device=place)
    backend = "nccl" if place.type == "cuda" else "gloo"
    limit = timedelta(seconds=patience)
    rank = int(os.environ["RANK"])
    with _in_touch(rank):
        store, _, _ = next(rendezvous("env://", timeout=limit))
        # torchrun keeps its store when it restarts workers: without a name of its own, the new
        # team would read the addresses of the old one, and wait.
        store = PrefixStore(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"), store)
        dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=limit)
    return Team(rank, size, place)


@contextmanager
def _in_touch(rank: int) -> Iterator[None]:
    """Raise a clear error when a worker died, or did not answer in time."""
    try:
        yield
    except RuntimeError as error:
        raise ConnectionError(
            f"worker {rank} lost the others: {str(error).splitlines()[0][-80:]} "
            "Start the fit again; it goes on from its last checkpoint."
        ) from None


def leave() -> None:
    """Close the connections that `join` opened.

    Example:
        >>> from fwnet.distributed import join, leave
        >>> team = join()
        >>> leave()
    """
    if dist.is_initialized():
        dist.destroy_process_group()
