"""The cases: each returns its rows, of at most `repeats` rounds."""

from __future__ import annotations

import subprocess
import sys
from functools import partial

import numpy as np
from sklearn.datasets import load_digits, make_circles
from sklearn.svm import SVC, LinearSVC

from benchmarks.harness import Row, figure
from benchmarks.svm import data, peers
from benchmarks.svm.race import race
from fwnet.estimators import FWSVC


def circles(n: int, repeats: int) -> list[Row]:
    """rbf on concentric circles, gap 1e-3."""
    X, y = make_circles(n, factor=0.2, noise=0.1, random_state=0)
    sign, gamma = 2 * y - 1, float(1.0 / (2 * X.var()))
    test = make_circles(n, factor=0.2, noise=0.1, random_state=1)
    ours, svc = FWSVC().fit(X, y), SVC().fit(X, y)
    note = f"accuracy {ours.score(*test):.4f} / SVC {svc.score(*test):.4f}"
    lines = race(
        f"rbf circles n={n}",
        lambda: FWSVC().fit(X, y),
        {"SVC": (lambda: SVC().fit(X, y), 1.0 if n == 1000 else 1.5)},
        min(repeats, 25 if n <= 5000 else 9),
        note,
    )
    one = peers.one_class_at(X, sign, gamma, 1.0, 1e-3)
    gap = f"gap {ours.duality_gap_:.1e}, {ours.solver_}"
    lines += race(
        f"rbf circles n={n}",
        lambda: FWSVC().fit(X, y),
        {"OneClassSVM on K": (one, 0.5)},
        min(repeats, 9 if n <= 5000 else 1),
        gap,
    )
    return lines


def memory(repeats: int) -> list[Row]:
    """Peak memory of a fit at n = 20,000, in a process of its own."""
    code = (
        "from sklearn.datasets import make_circles; from fwnet.estimators import FWSVC;"
        "FWSVC().fit(*make_circles(20000, factor=.2, noise=.1, random_state=0));"
        "print(open('/proc/self/status').read().split('VmHWM:')[1].split()[0])"
    )  # not ru_maxrss, which a child inherits from its parent
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    gigabytes = int(out.stdout) / 2**20
    return [figure("rbf circles n=20000, peak memory", [gigabytes], "GB", 1.0)]


def mnist_parity(repeats: int) -> list[Row]:
    """rbf, odd against even digits, n = 5000, d = 784."""
    X, digits = data.mnist()
    X, y = np.ascontiguousarray(X[:5000]), digits[:5000] % 2
    test = data.mnist("t10k")
    gamma = float(1.0 / (784 * X.var()))
    ours, svc = FWSVC().fit(X, y), SVC().fit(X, y)
    note = (
        f"gap {ours.duality_gap_:.1e}, accuracy {ours.score(test[0], test[1] % 2):.4f} / "
        f"SVC {svc.score(test[0], test[1] % 2):.4f}"
    )
    rivals = {
        "OneClassSVM on K": (peers.one_class_at(X, 2 * y - 1, gamma, 1.0, 1e-3), 0.5),
        "SVC": (lambda: SVC().fit(X, y), 0.15),
    }
    intelex = peers.optional("sklearnex.svm")
    if intelex is not None:
        rivals["scikit-learn-intelex SVC"] = (lambda: intelex.SVC().fit(X, y), 0.35)
    return race(
        "rbf MNIST odd/even n=5000", lambda: FWSVC().fit(X, y), rivals, min(repeats, 5), note
    )


def image_pairs(repeats: int) -> list[Row]:
    """rbf, pairs of classes that look alike, n = 2000 images by pixels, gap 1e-3."""
    lines = []
    for name, first, second in (("mnist", 4, 9), ("mnist", 3, 8), ("cifar10", 3, 5)):
        images, classes = data.images(name)
        some = np.flatnonzero((classes == first) | (classes == second))[:2000]
        X, y = np.ascontiguousarray(images[some]), np.where(classes[some] == first, 1, -1)
        gamma = float(1.0 / (X.shape[1] * X.var()))
        ours = FWSVC().fit(X, y)
        note = f"gap {ours.duality_gap_:.1e}, {len(ours.support_)} support vectors, {ours.solver_}"
        rivals = {"OneClassSVM on K": (peers.one_class_at(X, y, gamma, 1.0, 1e-3), 0.4)}
        case = f"rbf {name} {first}/{second} n=2000"
        lines += race(case, partial(FWSVC().fit, X, y), rivals, min(repeats, 7), note)
    return lines


def mnist_ten(repeats: int) -> list[Row]:
    """rbf, ten digits, n = 10,000; 500 MB of cache for both."""
    X, y = data.mnist()
    X, y, test = np.ascontiguousarray(X[:10_000]), y[:10_000], data.mnist("t10k")
    ours = FWSVC(cache_size=500).fit(X, y)
    svc = SVC(cache_size=500).fit(X, y)
    note = f"gap {ours.duality_gap_:.1e}, accuracy {ours.score(*test):.4f} / {svc.score(*test):.4f}"
    rivals = {"SVC": (lambda: SVC(cache_size=500).fit(X, y), 0.3)}
    return race(
        "rbf MNIST ten classes n=10000",
        lambda: FWSVC(cache_size=500).fit(X, y),
        rivals,
        min(repeats, 2),
        note,
    )


def a9a_rbf(repeats: int) -> list[Row]:
    """rbf on a9a, C = 8, γ = 1/32, gap 1e-3, both with their default cache."""
    X, y = data.a9a()

    def fit() -> FWSVC:
        return FWSVC(C=8.0, gamma=1 / 32).fit(X, y)

    ours = fit()
    note = f"gap {ours.duality_gap_:.1e}, {ours.solver_}"
    rivals = {"SVC": (lambda: SVC(C=8.0, gamma=1 / 32).fit(X, y), 0.6)}
    return race(f"rbf a9a n={X.shape[0]}", fit, rivals, 1, note)


def linear(name: str, targets: tuple[float | None, ...], repeats: int) -> list[Row]:
    """Linear SVMs to gap 1e-3: targets are those against LinearSVC and Snap ML."""
    if name == "mnist":
        X, digits = data.mnist()
        X, y = np.ascontiguousarray(X[:20_000]), 2 * (digits[:20_000] % 2) - 1
    elif name == "a9a":
        X, y = data.a9a()
    else:
        X, y = data.separable(name)
    ours = FWSVC(kernel="linear").fit(X, y)
    best = FWSVC(kernel="linear", tol=1e-7).fit(X, y)
    value = peers.primal_value(X, y, best.coef_[0], float(best.intercept_[0]), 1.0)
    fit, label, _ = peers.linear_svc_at(X, y, 1.0, 1e-3, value)
    rivals = {label: (fit, targets[0])}
    snap = peers.snap_at(X, y, 1e-3, value)
    if snap is not None:
        rivals["Snap ML"] = (snap, targets[1])
    note = f"gap {ours.duality_gap_:.1e}, {len(ours.support_)} support vectors, {ours.solver_}"
    return race(
        f"linear {name} n={X.shape[0]} d={X.shape[1]}",
        lambda: FWSVC(kernel="linear").fit(X, y),
        rivals,
        min(repeats, 5),
        note,
    )


def digit_pairs(repeats: int) -> list[Row]:
    """45 pairs of scikit-learn's digits, linear, gap 1e-4."""
    X, y = load_digits(return_X_y=True)
    X = X / 16.0
    pairs = []
    for i in range(10):
        for j in range(i + 1, 10):
            points = (y == i) | (y == j)
            pairs.append((np.ascontiguousarray(X[points]), y[points]))

    def fits(**options: object) -> list[LinearSVC]:
        return [LinearSVC(C=0.5, **options).fit(*pair) for pair in pairs]

    model = FWSVC(kernel="linear", multi_class="ovo", tol=1e-4)
    note = f"worst gap {model.fit(X, y).duality_gap_:.1e}"
    rivals = {
        "45 LinearSVC(dual=False)": (lambda: fits(dual=False), 1.0),
        "45 LinearSVC(dual=True)": (lambda: fits(dual=True), 1.0),
    }
    return race("45 digit pairs", lambda: model.fit(X, y), rivals, min(repeats, 15), note)
