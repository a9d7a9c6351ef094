"""python -m benchmarks.svm [case ...] [--repeats N] [--json FILE] [--list]

"million" takes half an hour and runs only if it is named. MNIST, CIFAR-10 and a9a are read from the
folder FWNET_DATA; without it their cases are left out, as are peers that are not installed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

from threadpoolctl import threadpool_limits

from benchmarks.command import RESULTS, run
from benchmarks.harness import Case, Row, figure
from benchmarks.svm import cases, data, many_points, others, peers
from benchmarks.svm.agreement import agreement


def _from_files(measure: Callable[[int], list[Row]], repeats: int) -> list[Row]:
    if data.folder() is None:
        return [figure("left out", [], "", note="FWNET_DATA names no folder")]
    return measure(repeats)


def _linear(name: str, *targets: float | None) -> Callable[[int], list[Row]]:
    return partial(cases.linear, name, targets)


_MADE = (
    Case("agreement", "the same optimum as the peers, to 1e-6", agreement),
    Case("circles1k", "rbf, 1000 points on circles", partial(cases.circles, 1000)),
    Case("circles5k", "rbf, 5000 points on circles", partial(cases.circles, 5000)),
    Case("circles20k", "rbf, 20,000 points on circles", partial(cases.circles, 20_000)),
    Case("memory", "peak memory of a fit, n = 20,000", cases.memory),
    Case("pairs", "linear, 45 pairs of digits", cases.digit_pairs),
    Case("clusters", "linear, two clusters", _linear("clusters", 0.15, 0.5)),
    Case("blobs", "linear, two Gaussian blobs", _linear("blobs", None, None)),
    Case("noise", "linear, noise pushed off a hyperplane", _linear("noise", None, None)),
    Case("regression", "linear regression", others.linear_regression),
    Case("regression-rbf", "rbf regression", others.kernel_regression),
    Case("outliers", "rbf outliers", others.outliers),
    Case("large", "rbf, 100,000 points", many_points.large),
    Case("million", "rbf, 1,000,000 points, half an hour", many_points.million, if_named=True),
)
_FROM_FILES = (
    Case("parity", "rbf, MNIST, odd against even", cases.mnist_parity),
    Case("ten", "rbf, MNIST, ten classes", cases.mnist_ten),
    Case("images", "rbf, pairs of classes of images", cases.image_pairs),
    Case("many", "linear, MNIST, many support vectors", _linear("mnist", 1.2, 1.2)),
    Case("a9a", "linear, a9a", _linear("a9a", 1.5, None)),
    Case("a9a-rbf", "rbf, a9a", cases.a9a_rbf),
)
CASES = {case.name: case for case in _MADE}
CASES |= {c.name: Case(c.name, c.title, partial(_from_files, c.run)) for c in _FROM_FILES}


if __name__ == "__main__":
    daal = peers.optional("daal4py")
    if daal is not None:
        daal.daalinit(1)
    with threadpool_limits(1):
        sys.exit(run("python -m benchmarks.svm", CASES, RESULTS / "svm.json", repeats=25))
