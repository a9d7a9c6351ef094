"""`fwnet distributed`: shards of rows, and a fit to them on many workers.

`torchrun -m fwnet.distributed fit …` starts the same command on every worker.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fwnet.cli.errors import command
from fwnet.cli.output import FILE

if TYPE_CHECKING:
    from fwnet.estimators.low_rank.distributed.config import Report


@click.group("distributed")
def distributed() -> None:
    """Fit low-rank softmax regression on many workers."""


@command("fit")
@click.option("--data", type=FILE, required=True, help="Folder of shards.")
@click.option("--out", type=FILE, required=True, help="Folder of the model.")
@click.option("--classes", type=int, required=True, help="Number of classes; labels are 0, 1, …")
@click.option("--radius", type=float, required=True, help="Radius of the trace-norm ball.")
@click.option("--max-steps", default=1000, help="Step limit.")
@click.option(
    "--tol",
    default=1e-2,
    help="Stop when the certified gap is at most this fraction of the loss.",
)
@click.option("--power-steps", default=2, help="Power iterations per step.")
@click.option("--memory", default=8, help="How many of the last vertices a step may mix.")
@click.option(
    "--search-rows", default=65_536, help="Rows that the mixture and the line search use."
)
@click.option(
    "--checkpoint-every",
    default=100,
    help="Steps between checkpoints: the most that a crash can cost.",
)
@click.option(
    "--block", default=1024, help="Rows per block, the unit of every sum; a multiple of 16."
)
@click.option("--max-seconds", type=float, help="Time limit, checked where a gap is certified.")
@click.option(
    "--device", type=click.Choice(("cpu", "cuda")), default="cpu", help="Where to compute."
)
@click.option(
    "--threads", default=1, help="Threads per worker; other numbers may round differently."
)
def fit(data: Path, out: Path, device: str, threads: int, **limits: Any) -> None:
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
        config = FitConfig(**limits)
        fit_shards(data, out, config, team, on_report=_show, say=_say)
    except ValueError:
        if team.rank == 0:
            raise
        raise click.exceptions.Exit(1) from None  # worker 0 prints the message
    finally:
        leave()


@command("shard")
@click.argument(
    "X", type=FILE, help="Rows (n, d), float32 or float64: .npy, or a SciPy .npz if sparse."
)
@click.argument("y", type=FILE, help="Labels, .npy, (n,), whole numbers from 0.")
@click.option("--out", type=FILE, required=True, help="A folder that does not exist yet.")
@click.option("--rows", type=click.IntRange(min=1), default=250_000, help="Rows per shard.")
def shard(x: Path, y: Path, out: Path, rows: int) -> None:
    """Write rows and labels as shards that workers map into memory.

    Examples:

        fwnet distributed shard X.npy y.npy --out parts
        fwnet shard X.npz y.npy --out parts
    """
    from fwnet.estimators.low_rank.distributed.shards import write_shards

    labels = _read("y", y)
    folder = write_shards(out, _read("X", x), labels, rows)
    print(f"{len(labels)} rows in {len(list(folder.glob('*.y.npy')))} shards: {folder}")


distributed.add_command(fit)
distributed.add_command(shard)


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
