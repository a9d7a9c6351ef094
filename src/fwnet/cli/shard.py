"""`fwnet shard`: rows and labels as memory-mapped shards for `fwnet.distributed`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fwnet.cli.errors import Failed
from fwnet.estimators.low_rank.distributed.command import run_shard


def shard(
    X: Annotated[
        Path,
        typer.Argument(help="Rows (n, d), float32 or float64: .npy, or a SciPy .npz if sparse."),
    ],
    y: Annotated[Path, typer.Argument(help="Labels, .npy, (n,), whole numbers from 0.")],
    out: Annotated[Path, typer.Option(help="A folder that does not exist yet.")],
    rows: Annotated[int, typer.Option(min=1, help="Rows per shard.")] = 250_000,
) -> None:
    """Write rows and labels as shards that torchrun workers map into memory.

    Examples:

        fwnet shard X.npy y.npy --out parts

        fwnet shard X.npz y.npy --out parts

        torchrun --nproc-per-node 4 -m fwnet.distributed fit --data parts --classes 1000 \\
            --radius 188 --out model
    """
    if run_shard(X, y, out, rows):
        raise Failed("the shards were not written.")
