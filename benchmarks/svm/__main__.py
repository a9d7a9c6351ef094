"""python -m benchmarks.svm [case ...]: measure FWSVC, print ratios, write results.

"million" takes half an hour and runs only if it is named. One process, one thread. MNIST and a9a
are read from the folder FWNET_DATA; without it their cases are left out, as are peers that are not
installed.
"""

from __future__ import annotations

import os

# Before NumPy is imported, which reads them then: hence the imports below.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

import json  # noqa: E402
import platform  # noqa: E402
import sys  # noqa: E402
from collections.abc import Callable  # noqa: E402
from dataclasses import asdict  # noqa: E402
from pathlib import Path  # noqa: E402

from threadpoolctl import threadpool_limits  # noqa: E402

from benchmarks.svm import cases, data, many_points, others, peers  # noqa: E402
from benchmarks.svm.agreement import agreement  # noqa: E402
from benchmarks.svm.race import Line  # noqa: E402

CASES: dict[str, Callable[[], list[Line]]] = {
    "agreement": agreement,
    "circles1k": lambda: cases.circles(1000),
    "circles5k": lambda: cases.circles(5000),
    "circles20k": lambda: cases.circles(20_000),
    "memory": cases.memory,
    "pairs": cases.digit_pairs,
    "clusters": lambda: cases.linear("clusters", (0.15, 0.5)),
    "blobs": lambda: cases.linear("blobs", (None, None)),
    "noise": lambda: cases.linear("noise", (None, None)),
    "regression": others.linear_regression,
    "regression-rbf": others.kernel_regression,
    "outliers": others.outliers,
    "parity": cases.mnist_parity,
    "ten": cases.mnist_ten,
    "images": cases.image_pairs,
    "large": many_points.large,
    "million": many_points.million,
    "many": lambda: cases.linear("mnist", (1.2, 1.2)),
    "a9a": lambda: cases.linear("a9a", (1.5, None)),
    "a9a-rbf": cases.a9a_rbf,
}
NEED_DATA = {"parity", "ten", "images", "many", "a9a", "a9a-rbf"}


def main(names: list[str]) -> None:
    """Run the named cases, or all but the longest."""
    wrong = sorted(set(names) - set(CASES))
    if wrong:
        raise SystemExit(f"Unknown case {wrong[0]!r}; choose from {', '.join(CASES)}.")
    daal = peers.optional("daal4py")
    if daal is not None:
        daal.daalinit(1)
    lines = []
    with threadpool_limits(1):
        for name in names or [name for name in CASES if name != "million"]:
            if name in NEED_DATA and data.folder() is None:
                sys.stdout.write(f"{name}: left out, FWNET_DATA names no folder\n")
                continue
            for line in CASES[name]():
                lines.append(line)
                sys.stdout.write(f"{line}\n")
                sys.stdout.flush()
    target = Path(__file__).parents[1] / "results" / "svm.json"
    target.parent.mkdir(exist_ok=True)
    record = {"machine": platform.processor(), "lines": [asdict(line) for line in lines]}
    target.write_text(json.dumps(record, indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
