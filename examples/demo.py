"""What does fwnet do? Five real problems in a minute or two, and a page to look at.

    python examples/demo.py --out report [--quick]

Digits by support vector machines, diabetes by sparse regression, a matrix from a tenth of its
entries, pixels told apart by their correlations, and an SVM solved by a network: each by several
solvers, every answer with its certificate. Writes one self-contained file, report/index.html.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import time
from datetime import datetime
from pathlib import Path

import torch
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

import fwnet
from page import page
from stories import SEED, STORIES, Show


def facts(seconds: float, arguments: argparse.Namespace) -> dict[str, str]:
    packages = ("torch", "numpy", "scipy", "scikit-learn", "matplotlib")
    versions = [f"{name} {importlib.metadata.version(name)}" for name in packages]
    return {
        "Command": "python examples/demo.py" + (" --quick" if arguments.quick else ""),
        "Versions": f"fwnet {fwnet.__version__}, Python {platform.python_version()}, "
        + ", ".join(versions),
        "Seed": str(SEED),
        "Machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, "
        f"{torch.get_num_threads()} thread used, CPU only",
        "Time": f"{seconds:.0f} s, {datetime.now().astimezone():%Y-%m-%d %H:%M %Z}",
        "Data": "scikit-learn's digits and diabetes; the matrix is synthetic",
        "Gap": "⟨∇f(x), x − s⟩ with the true gradient and an exact oracle: f(x) is at most this "
        "far above the minimum",
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("report"), help="folder of the page")
    parser.add_argument("--quick", action="store_true", help="a twentieth of the steps")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    start = time.perf_counter()
    stories = []
    columns = (
        TextColumn("{task.description:<28}"),
        BarColumn(),
        TextColumn("{task.fields[gap]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns) as progress:
        whole = progress.add_task("problems", total=len(STORIES), gap="")
        show = Show(progress, arguments.quick)
        for tell in STORIES:
            stories.append(tell(show))
            progress.advance(whole)
            worst = max(run.seconds for run in stories[-1].runs)
            progress.console.print(f"{stories[-1].title}: slowest run {worst:.1f} s")
    text = page(
        "fwnet: five problems, each with its certificate",
        "Frank-Wolfe methods for PyTorch. The gap bounds how far f(x) is above the minimum.",
        stories,
        facts(time.perf_counter() - start, arguments),
    )
    arguments.out.mkdir(parents=True, exist_ok=True)
    file = arguments.out / "index.html"
    file.write_text(text, encoding="utf-8")
    print(f"{file} ({len(text) // 1000} kB) in {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
