"""The command line of a folder of cases: parse, run, print, write."""

import argparse
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks import report
from benchmarks.harness import Case, Row

RESULTS = Path(__file__).parent / "results"


def run(
    prog: str,
    cases: Mapping[str, Case],
    results: Path,
    repeats: int = 7,
    arguments: Sequence[str] | None = None,
) -> int:
    """Run the cases that are named, or all; 1 if one failed.

    Arguments:
        results: where the figures are written, unless `--json` says otherwise.
        repeats: of each timing, unless `--repeats` says otherwise.
    """
    parser = argparse.ArgumentParser(prog=prog, description="Time fwnet and its peers.")
    parser.add_argument("case", nargs="*", help=f"which cases; all if left out: {', '.join(cases)}")
    parser.add_argument("--repeats", type=int, default=repeats, help=f"of each timing ({repeats})")
    parser.add_argument("--json", type=Path, default=results, help=f"where to write ({results})")
    parser.add_argument("--list", action="store_true", help="name the cases and stop")
    options = parser.parse_args(arguments)
    if options.list:
        for case in cases.values():
            print(f"{case.name:16}{case.title}")
        return 0
    unknown = [name for name in options.case if name not in cases]
    if unknown:
        parser.error(f"no case named {', '.join(unknown)}; choose from {', '.join(cases)}.")
    if options.repeats < 1:
        parser.error(f"--repeats must be at least 1; got {options.repeats}.")

    facts = report.environment()
    print(report.describe(facts), end="\n\n", flush=True)
    found: dict[str, list[Row]] = {}
    failures = 0
    started = time.perf_counter()
    for name in options.case or [name for name in cases if not cases[name].if_named]:
        print(f"{name}: {cases[name].title}", flush=True)
        try:
            found[name] = cases[name].run(options.repeats)
            print(report.table(found[name]), end="\n\n", flush=True)
        except Exception:
            failures += 1
            print(f"case {name} failed:\n{traceback.format_exc()}", flush=True)
    report.write(options.json, facts, found)
    every = [row for rows in found.values() for row in rows]
    print(f"{report.summary(every)}; {time.perf_counter() - started:.0f} s; {options.json}")
    return 1 if failures else 0
