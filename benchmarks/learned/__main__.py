"""Every target of the learned optimizers: ours, theirs, ratio, met or missed.

    python -m benchmarks.learned [--only start,atoms] [--problems 20] [--also FOLDER ...]

Held-out problems: digits, circles and MNIST pairs that no recipe has seen (MNIST from the folder
FWNET_DATA); for `untouched`, a9a and CIFAR-10, which were opened once; for `graphs`, the molecules
of NCI1 by a graph kernel. `--also` adds trainings with other seeds, as
`python -m fwnet.lab.recipes --seed 1 --out FOLDER` writes them; the figures are then medians over
problems and seeds.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks.learned.costs import costs
from benchmarks.learned.large import large
from benchmarks.learned.low_rank import low_rank
from benchmarks.learned.matrix_free import matrix_free
from benchmarks.learned.power import power
from benchmarks.learned.recurrent import recurrent
from benchmarks.learned.simplex import atoms, directions, pairwise, steps
from benchmarks.learned.starts import starts
from benchmarks.learned.targets import Missing, Target, as_json, table
from benchmarks.learned.untouched import graphs, untouched
from benchmarks.report import describe, environment
from fwnet import learned

Rows = list[Any]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="names, separated by commas")
    parser.add_argument("--problems", type=int, default=20, help="held-out problems of each kind")
    parser.add_argument("--quick", action="store_true", help="4 problems: does it run at all?")
    parser.add_argument("--also", nargs="*", type=Path, default=[], help="folders of other seeds")
    parser.add_argument("--n", type=int, default=20_000, help="of the matrix-free problem")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/learned.json"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    problems = 4 if arguments.quick else arguments.problems

    def trained(name: str) -> list[Any]:
        files = [folder / f"{name}.fwnet" for folder in arguments.also]
        return [learned.load(name), *(learned.load(file) for file in files if file.exists())]

    cases: dict[str, Callable[[], Rows]] = {
        "costs": lambda: costs(),
        "start": lambda: starts(trained("recurring-start"), problems),
        "atoms": lambda: atoms(trained("corrective-atoms"), problems),
        "pairwise": lambda: pairwise(trained("pairwise"), problems),
        "direction": lambda: directions(trained("simplex-qp"), problems),
        "large": lambda: large(
            trained("simplex-qp"), {500: 1} if arguments.quick else {2000: 3, 10_000: 1}
        ),
        "step": lambda: steps(trained("simplex-step"), problems),
        "matrix-free": lambda: matrix_free(
            {name: learned.load(name) for name in ("simplex-qp", "corrective-atoms")},
            trained("recurring-start"),
            2000 if arguments.quick else arguments.n,
        ),
        "low-rank": lambda: low_rank(trained("low-rank-softmax"), problems),
        "power": lambda: power(trained("power-iteration")),
        "recurrent": lambda: recurrent(problems, *((1, 5) if arguments.quick else ())),
        "untouched": lambda: untouched(trained, problems),
        "graphs": lambda: graphs(trained, problems),
    }
    chosen = arguments.only.split(",") if arguments.only else list(cases)
    unknown = sorted(set(chosen) - set(cases))
    if unknown:
        raise SystemExit(f"no such targets: {', '.join(unknown)}; there are {', '.join(cases)}.")
    facts = environment()
    print(describe(facts))
    rows: list[Target | Missing] = []
    for name in chosen:
        began = time.perf_counter()
        found = cases[name]()
        print(f"\n{name} ({time.perf_counter() - began:.0f} s)\n{table(found)}", flush=True)
        rows += found
    judged = [row for row in rows if isinstance(row, Target) and row.met is not None]
    lost = [
        row for row in rows if isinstance(row, Target) and row.ratio is not None and row.ratio < 1
    ]
    print(f"\n{sum(bool(row.met) for row in judged)} of {len(judged)} targets met")
    print("where we lose:" + ("" if lost else " nowhere"))
    for row in lost:
        print(f"  {row.name}: {row.ratio:.2f}× against {row.rival}")
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps({**facts, "targets": as_json(rows)}, indent=1) + "\n")


if __name__ == "__main__":
    main()
