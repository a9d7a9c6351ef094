"""python -m benchmarks.trace [case ...] [--repeats N] [--list]

Every module of this folder that has a list CASES of `benchmarks.harness.Case` is run.
"""

import argparse
import importlib
import pkgutil
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from benchmarks import report
from benchmarks.harness import Case, Row

FOLDER = Path(__file__).parent


def cases() -> dict[str, Case]:
    """The cases of all modules, by name."""
    found: dict[str, Case] = {}
    for module in sorted(pkgutil.iter_modules([str(FOLDER)]), key=lambda module: module.name):
        if module.name != "__main__":
            loaded = importlib.import_module(f"benchmarks.trace.{module.name}")
            found |= {case.name: case for case in getattr(loaded, "CASES", [])}
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    known = cases()
    parser = argparse.ArgumentParser(prog="python -m benchmarks.trace")
    parser.add_argument("case", nargs="*", help=f"all if left out: {', '.join(known)}")
    parser.add_argument("--repeats", type=int, default=5, help="rounds of each timing (5)")
    parser.add_argument("--list", action="store_true", help="name the cases and stop")
    options = parser.parse_args(arguments)
    if options.list:
        for case in known.values():
            print(f"{case.name:12}{case.title}")
        return 0
    unknown = [name for name in options.case if name not in known]
    if unknown:
        parser.error(f"no case named {', '.join(unknown)}; choose from {', '.join(known)}.")
    facts = report.environment()
    print(report.describe(facts), end="\n\n", flush=True)
    results: dict[str, list[Row]] = {}
    failures, started = 0, time.perf_counter()
    for name in options.case or known:
        print(f"{name}: {known[name].title}", flush=True)
        try:
            results[name] = known[name].run(options.repeats)
            print(report.table(results[name]), end="\n\n", flush=True)
        except Exception:
            failures += 1
            print(f"case {name} failed:\n{traceback.format_exc()}", flush=True)
    report.write(FOLDER.parent / "results" / "trace.json", facts, results)
    every = [row for rows in results.values() for row in rows]
    print(f"{report.summary(every)}; {time.perf_counter() - started:.0f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
