"""Groups of problems over the processes of torch.distributed, with the same result for any."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor, distributed

Stream = Iterator[tuple[float, Tensor]]


def gathered(starts: Sequence[Callable[[], Stream]]) -> Iterator[list[tuple[float, Tensor]]]:
    """Losses and gradients of all groups, stretch by stretch, in the order of the groups.

    Process g mod world size computes group g and sends its loss and gradient to all others. Every
    process then sees the same numbers in the same order, so that the sum over groups, and with it
    the training, does not depend on the number of processes (on processors of one kind).
    """
    world, rank = size_and_rank()
    streams = [start() if g % world == rank else None for g, start in enumerate(starts)]
    while True:
        mine = {g: next(stream, None) for g, stream in enumerate(streams) if stream is not None}
        if world == 1:
            results = [mine[g] for g in range(len(streams))]
        else:
            everyone: list[dict[int, tuple[float, Tensor] | None]] = [{} for _ in range(world)]
            distributed.all_gather_object(everyone, mine)
            results = [everyone[g % world][g] for g in range(len(streams))]
        found = [result for result in results if result is not None]
        if not found:
            return
        yield found


def size_and_rank() -> tuple[int, int]:
    """How many processes train together, and which this one is: (1, 0) without `torchrun`."""
    if not (distributed.is_available() and distributed.is_initialized()):
        return 1, 0
    return distributed.get_world_size(), distributed.get_rank()


def same_everywhere(flag: bool) -> bool:
    """The answer of process 0, for decisions that depend on its clock."""
    if size_and_rank()[0] == 1:
        return flag
    answer = torch.tensor(int(flag))
    distributed.broadcast(answer, 0)
    return bool(answer)
