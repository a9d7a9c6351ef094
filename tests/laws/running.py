"""Runs the laws over processes, prints each failure with its replay, and a table."""

from __future__ import annotations

import argparse
import importlib
import multiprocessing
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np

from laws import coverage

HERE = Path(__file__).parent
KINDS = ("false certificate", "wrong gradient", "infeasible", "other")


class Outcome(NamedTuple):
    """One case: which, what is wrong with it, if anything, and what it met."""

    law: str
    number: int
    failure: str | None
    facts: coverage.Facts


def laws() -> list[str]:
    """The modules of this folder with a function `attack`."""
    names = sorted(path.stem for path in HERE.glob("*.py"))
    return [name for name in names if "\ndef attack(" in (HERE / f"{name}.py").read_text()]


def run(case: tuple[str, int]) -> Outcome:
    """Draw and check one case, in whatever process."""
    law, number = case
    coverage.take()
    module = importlib.import_module(f"laws.{law}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            failure = module.attack(np.random.default_rng(number))
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(where.filename).name}:{where.lineno}"
        failure = f"other: the case raised {type(error).__name__}: {error} ({place})"
    return Outcome(law, number, failure, {"kind": law} | coverage.take())


def kind_of(failure: str) -> str:
    """The first words of the sentence."""
    start = failure.partition(":")[0]
    return start if start in KINDS else "other"


def prepare() -> None:
    """In each process: torch takes one thread."""
    import torch

    torch.set_num_threads(1)


def table(counts: Counter[tuple[str, str]], names: list[str]) -> str:
    heads = ("law", "cases", "false certificates", "wrong gradients", "infeasible", "other")
    rows = [heads] + [
        (law, *(str(counts[law, kind]) for kind in ("cases", *KINDS))) for law in names
    ]
    widths = [max(len(row[k]) for row in rows) for k in range(len(heads))]
    return "\n".join(
        " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    )


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.laws", description="Attack the library with random cases."
    )
    parser.add_argument("--cases", type=int, default=20_000, help="of all laws together")
    parser.add_argument("--minutes", type=float, default=60.0, help="stop then, cases or not")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="laws, separated by commas")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--coverage", action="store_true", help="count what the cases met")
    parser.add_argument("--replay", action="append", default=[], metavar="LAW:NUMBER")
    return parser.parse_args()


def main() -> int:
    given = options()
    prepare()
    if given.replay:
        cases = [(law, int(number)) for law, _, number in (r.partition(":") for r in given.replay)]
        outcomes = [run(case) for case in cases]
        for outcome in outcomes:
            print(f"{outcome.law}:{outcome.number} {outcome.failure or 'holds'}")
        return int(any(outcome.failure for outcome in outcomes))
    names = given.only.split(",") if given.only else laws()
    unknown = sorted(set(names) - set(laws()))
    if unknown:
        print(f"--only: there is no law {unknown[0]!r}; choose from {', '.join(laws())}.")
        return 2
    first = given.seed * 10_000_000
    cases = [(names[i % len(names)], first + i // len(names)) for i in range(given.cases)]
    counts: Counter[tuple[str, str]] = Counter()
    met: list[coverage.Facts] = []
    began = said = time.monotonic()
    context = multiprocessing.get_context("spawn")
    with context.Pool(given.processes, prepare) as pool:
        for outcome in pool.imap_unordered(run, cases, chunksize=8):
            counts[outcome.law, "cases"] += 1
            met.append(outcome.facts)
            if outcome.failure is not None:
                counts[outcome.law, kind_of(outcome.failure)] += 1
                replay = f"python -m tests.laws --replay {outcome.law}:{outcome.number}"
                print(f"{outcome.failure}\n    {replay}", flush=True)
            now = time.monotonic()
            if now - said > 30:
                done = sum(counts[law, "cases"] for law in names)
                print(f"{done} of {given.cases} cases in {now - began:.0f} s", flush=True)
                said = now
            if now - began > 60 * given.minutes:
                print(f"{given.minutes:g} minutes are over.")
                pool.terminate()
                break
    if given.coverage:
        print(coverage.tables(met))
    print(table(counts, names))
    return int(any(counts[law, kind] for law in names for kind in KINDS))
