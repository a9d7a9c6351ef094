"""python -m benchmarks [case ...] [--repeats N] [--json FILE] [--list]"""

import argparse
import sys
import time
import traceback
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from benchmarks import report
from benchmarks.cases import CASES
from benchmarks.harness import Row

RESULTS = Path(__file__).parent / "results"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Time fwnet's peers.")
    parser.add_argument("case", nargs="*", help=f"which cases; all if left out: {', '.join(CASES)}")
    parser.add_argument("--repeats", type=int, default=7, help="rounds of each timing (7)")
    parser.add_argument("--json", type=Path, help="where to write; results/<date>.json if left out")
    parser.add_argument("--list", action="store_true", help="name the cases and stop")
    options = parser.parse_args(arguments)
    if options.list:
        for case in CASES.values():
            print(f"{case.name:12}{case.title}")
        return 0
    unknown = [name for name in options.case if name not in CASES]
    if unknown:
        parser.error(f"no case named {', '.join(unknown)}; choose from {', '.join(CASES)}.")
    if options.repeats < 1:
        parser.error(f"--repeats must be at least 1; got {options.repeats}.")

    facts = report.environment()
    print(report.describe(facts), end="\n\n", flush=True)
    results: dict[str, list[Row]] = {}
    failures = 0
    started = time.perf_counter()
    for name in options.case or CASES:
        print(f"{name}: {CASES[name].title}", flush=True)
        try:
            results[name] = CASES[name].run(options.repeats)
            print(report.table(results[name]), end="\n\n", flush=True)
        except Exception:
            failures += 1
            print(f"case {name} failed:\n{traceback.format_exc()}", flush=True)
    path = options.json or RESULTS / f"{datetime.now():%Y-%m-%d_%H%M%S}.json"
    report.write(path, facts, results)
    every = [row for rows in results.values() for row in rows]
    print(f"{report.summary(every)}; {time.perf_counter() - started:.0f} s; written to {path}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
