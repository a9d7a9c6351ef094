"""`fwnet distributed`: shards of rows, and a fit to them on many workers.

`torchrun -m fwnet.distributed fit …` starts the same command on every worker.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from fwnet.cli.errors import command

if TYPE_CHECKING:
    from fwnet.estimators.low_rank.distributed.config import Report

distributed = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Fit low-rank softmax regression on many workers.",
)


def fit(
    data: Annotated[Path, typer.Option(help="Folder of shards.")],
    out: Annotated[Path, typer.Option(help="Folder of the model.")],
    classes: Annotated[int, typer.Option(help="Number of classes; labels are 0, 1, …")],
    radius: Annotated[float, typer.Option(help="Radius of the trace-norm ball.")],
    max_steps: Annotated[int, typer.Option(help="Step limit.")] = 1000,
    tol: Annotated[
        float,
        typer.Option(help="Stop when the certified gap is at most this fraction of the loss."),
    ] = 1e-2,
    power_steps: Annotated[int, typer.Option(help="Power iterations per step.")] = 2,
    memory: Annotated[int, typer.Option(help="How many of the last vertices a step may mix.")] = 8,
    search_rows: Annotated[
        int, typer.Option(help="Rows that the mixture and the line search use.")
    ] = 65_536,
    checkpoint_every: Annotated[
        int, typer.Option(help="Steps between checkpoints: the most that a crash can cost.")
    ] = 100,
    block: Annotated[
        int, typer.Option(help="Rows per block, the unit of every sum; a multiple of 16.")
    ] = 1024,
    max_seconds: Annotated[
        float | None, typer.Option(help="Time limit, checked where a gap is certified.")
    ] = None,
    device: Annotated[Literal["cpu", "cuda"], typer.Option(help="Where to compute.")] = "cpu",
    threads: Annotated[
        int, typer.Option(help="Threads per worker; other numbers may round differently.")
    ] = 1,
) -> None:
    """Fit a classifier to shards; the same command resumes from the last checkpoint.

    Examples:

        fwnet distributed fit --data parts --classes 1000 --radius 188 --out model

        torchrun --nproc-per-node 4 -m fwnet.distributed fit --data parts --classes 1000 \\
            --radius 188 --out model
    """
    import torch

    from fwnet.estimators.low_rank.distributed.config import FitConfig
    from fwnet.estimators.low_rank.distributed.fit import fit as fit_shards
    from fwnet.estimators.low_rank.distributed.team import join, leave
    from fwnet.numerics import checks

    torch.set_num_threads(checks.at_least("threads", threads, 1))
    team = join(device)
    if team.size > 1:  # an interrupted worker must not wait for the others: checkpoints are on disk
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        config = FitConfig(
            classes=classes,
            radius=radius,
            max_steps=max_steps,
            tol=tol,
            power_steps=power_steps,
            memory=memory,
            search_rows=search_rows,
            checkpoint_every=checkpoint_every,
            block=block,
            max_seconds=max_seconds,
        )
        fit_shards(data, out, config, team, on_report=_show, say=_say)
    except ValueError:
        if team.rank == 0:
            raise
        raise typer.Exit(1) from None  # worker 0 prints the message
    finally:
        leave()


def shard(
    X: Annotated[
        Path,
        typer.Argument(help="Rows (n, d), float32 or float64: .npy, or a SciPy .npz if sparse."),
    ],
    y: Annotated[Path, typer.Argument(help="Labels, .npy, (n,), whole numbers from 0.")],
    out: Annotated[Path, typer.Option(help="A folder that does not exist yet.")],
    rows: Annotated[int, typer.Option(min=1, help="Rows per shard.")] = 250_000,
) -> None:
    """Write rows and labels as shards that workers map into memory.

    Examples:

        fwnet distributed shard X.npy y.npy --out parts

        fwnet shard X.npz y.npy --out parts
    """
    from fwnet.estimators.low_rank.distributed.shards import write_shards

    labels = _read("y", y)
    folder = write_shards(out, _read("X", X), labels, rows)
    print(f"{len(labels)} rows in {len(list(folder.glob('*.y.npy')))} shards: {folder}")


distributed.command()(command(fit))
distributed.command()(command(shard))


def _read(name: str, path: Path) -> Any:
    """A .npy file, mapped into memory, or a CSR matrix from an .npz file of SciPy."""
    import numpy as np

    from fwnet.estimators.low_rank.distributed.matrix_files import scipy_sparse

    sparse = path.suffix == ".npz"
    try:
        if sparse:
            return scipy_sparse().load_npz(path)
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except ImportError:
        raise
    except Exception as error:  # of zip, zlib, NumPy or SciPy, which have no other base
        kind = "a matrix of scipy.sparse.save_npz" if sparse else "a .npy file"
        raise ValueError(
            f"{name}={str(path)!r} cannot be read as {kind}: {str(error) or type(error).__name__}."
        ) from None


def _show(report: Report) -> None:
    share = report.gap / report.value if report.value else 0.0
    print(
        f"step {report.t:>6}  loss {report.value:.6f}  gap {report.gap:.3e} ({share:.2%})  "
        f"rank {report.rank:>4}  {report.seconds:.1f} s",
        flush=True,
    )


def _say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)
