"""Odd or even? What does a certificate say that a test error does not?

    MNIST from the folder FWNET_DATA (4000 images), else scikit-learn's 8 × 8 digits

`FWSVC` with an RBF kernel, once for each tolerance. (P − D)/P bounds how far the objective is from
the optimum of this kernel, without knowing that optimum. Here it is known: P* comes from a fit to
1e-8, so the bound can be checked.

See: the bound holds at every tolerance, with the true value a little below it, and the test error
hardly changes below 1e-1. A number of iterations would show neither.
"""

import numpy as np

from fwnet.data import available, load
from fwnet.estimators import FWSVC
from fwnet.plotting import plot_curves
from fwnet.show.scripts import options, save, table, timed

TOLERANCES, C = (3e-1, 1e-1, 1e-2, 1e-3, 1e-4), 10.0


def main() -> None:
    arguments = options(__doc__)
    X, odd, test_X, test_odd, name = images(1000 if arguments.quick else 4000)
    print(f"{name}: {len(X)} images for training, {len(test_X)} for the test\n")
    best = primal(FWSVC(C, tol=1e-8).fit(X, odd), X, odd)
    rows = []
    for tol in TOLERANCES:
        model, seconds = timed(FWSVC(C, tol=tol).fit, X, odd)
        excess = max(1 - best / primal(model, X, odd), 0)
        error = 1 - model.score(test_X, test_odd)
        bound = f"{model.duality_gap_:.1e}"
        rows.append((tol, bound, f"{excess:.1e}", f"{error:.4f}", len(model.support_), seconds))
    table(("tol", "gap (bound)", "1 - P*/P", "test error", "support", "seconds"), rows)
    last = model
    print(f"\ncertified: P is at most {last.duality_gap_:.1e} above its minimum, relative to P")
    if arguments.plot is not None:
        tols = [row[0] for row in rows]
        curves = {
            "bound: the duality gap": (tols, [float(row[1]) for row in rows]),
            "truth: 1 − P*/P": (tols, [max(float(row[2]), 1e-9) for row in rows]),
        }
        ax = plot_curves(curves, "tol", "share of the objective above its minimum")
        ax.set(xscale="log", yscale="log")
        save(ax, arguments.plot)


def primal(model: FWSVC, X: np.ndarray, odd: np.ndarray) -> float:
    """P = ½|w|² + ½b² + ½C Σ max(0, 1 − y f)², |w|² being Σ cᵢ(f(xᵢ) − b) over support vectors."""
    f, y, b = model.decision_function(X), np.where(odd, 1.0, -1.0), model.intercept_[0]
    square = model.dual_coef_[0] @ (f[model.support_] - b)
    return 0.5 * (square + b**2 + C * np.sum(np.maximum(0.0, 1.0 - y * f) ** 2))


def images(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, str]:
    name = "digits" if available()["mnist"] is None else "mnist"
    data = load(name)
    (X, digit), (test_X, test_digit) = data.train(slice(n)), data.test()
    flat, test_flat = X.reshape(len(X), -1), test_X.reshape(len(test_X), -1)
    return flat.astype(float), digit % 2 == 1, test_flat.astype(float), test_digit % 2 == 1, name


if __name__ == "__main__":
    main()
