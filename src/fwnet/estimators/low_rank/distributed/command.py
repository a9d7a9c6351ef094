"""The commands `fit` and `shard`: parse, call, print."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fwnet.estimators.low_rank.distributed.config import FitConfig, Report
from fwnet.estimators.low_rank.distributed.fit import fit
from fwnet.estimators.low_rank.distributed.matrix_files import scipy_sparse
from fwnet.estimators.low_rank.distributed.shards import write_shards
from fwnet.estimators.low_rank.distributed.team import join, leave
from fwnet.numerics import checks

_HELP = {
    "classes": "number of classes; labels are 0, 1, …",
    "radius": "of the trace-norm ball",
    "max_steps": "budget of steps",
    "tol": "stop when the certified gap is at most this fraction of the loss",
    "power_steps": "power iterations of a step",
    "memory": "how many of the last vertices a step may mix",
    "search_rows": "rows that the mixture and the line search look at",
    "checkpoint_every": "steps between checkpoints: what a crash can cost",
    "block": "rows of a block, the unit of every sum",
    "max_seconds": "budget of time, looked at where a gap is certified",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return 0, or 1 after a message on standard error."""
    options = vars(_parser().parse_args(arguments))
    command = options.pop("command")
    try:
        return int(command(**options))
    except (ValueError, TypeError, OSError, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def run_fit(data: Path, out: Path, device: str, threads: int, **asked: float) -> int:
    """`fit`: one worker's part; torchrun starts one for each of its processes."""
    torch.set_num_threads(checks.at_least("threads", threads, 1))
    team = join(device)
    if team.size > 1:  # an interrupted worker must not wait for the others: checkpoints are on disk
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        config = FitConfig(**asked)  # type: ignore[arg-type]  # argparse converts by field
        fit(data, out, config, team, on_report=_show, say=_say)
    except ValueError:
        if team.rank == 0:
            raise
        return 1  # worker 0 says it
    finally:
        leave()
    return 0


def run_shard(X: Path, y: Path, out: Path, rows: int) -> int:
    """`shard`: a file of rows and one of labels to a folder of shards."""
    labels = _read("y", y)
    folder = write_shards(out, _read("X", X), labels, rows)
    print(f"{len(labels)} rows in {len(list(folder.glob('*.y.npy')))} shards: {folder}")
    return 0


def _read(name: str, path: Path) -> Any:
    """A .npy file, mapped, or a CSR matrix from an .npz file of SciPy."""
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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="fwnet.distributed", description=__doc__)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("fit", help="fit a classifier to shards; start it with torchrun")
    one.set_defaults(command=run_fit)
    one.add_argument("--data", type=Path, required=True, help="folder of shards")
    one.add_argument("--out", type=Path, required=True, help="folder of the model")
    for field in fields(FitConfig):
        one.add_argument(
            "--" + field.name.replace("_", "-"),
            type=int if field.type == "int" else float,
            default=None if field.default is MISSING else field.default,
            required=field.default is MISSING,
            help=_HELP[field.name],
        )
    one.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    one.add_argument(
        "--threads", type=int, default=1, help="of a worker; other numbers may round differently"
    )
    two = commands.add_parser("shard", help="write X and y as shards")
    two.set_defaults(command=run_shard)
    two.add_argument(
        "X", type=Path, help=".npy, or .npz of scipy.sparse.save_npz; (n, d), float32 or float64"
    )
    two.add_argument("y", type=Path, help=".npy, (n,), whole numbers from 0")
    two.add_argument("--out", type=Path, required=True, help="a folder that does not exist yet")
    two.add_argument("--rows", type=int, default=250_000, help="of one shard")
    return parser
