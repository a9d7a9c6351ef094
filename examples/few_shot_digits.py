"""How few images of each digit does a certified SVM need?

    45 pairs of 8 × 8 digits; 1 to 50 images per digit for training, the rest for testing

All pairs are one fit: `FWSVC(multi_class="ovo")` solves the 45 problems on one kernel matrix.
C = 10, images scaled to unit length, an RBF kernel; the nearest class mean for comparison.

See: with one image per digit the two rules are the same, with one support vector each; with more
images the SVM is ahead. The gap is the largest of the 45 relative duality gaps: problems of up to
384 points are solved to the last bits, larger ones to tol = 1e-3.
"""

import numpy as np
from sklearn.datasets import load_digits

from fwnet.estimators import FWSVC
from fwnet.show.scripts import options, save, table, timed

SHOTS, C, GAMMA = (1, 2, 5, 10, 20, 50), 10.0, 1.0


def main() -> None:
    arguments = options(__doc__)
    pixels, digit = load_digits(return_X_y=True)
    X = pixels / np.linalg.norm(pixels, axis=1, keepdims=True)
    rows = []
    for shots in SHOTS:
        errors, support, gap, seconds = [], [], 0.0, 0.0
        for draw in range(3 if arguments.quick else 10):
            chosen = some_of_each(digit, shots, draw)
            rest = np.setdiff1d(np.arange(len(digit)), chosen)
            model = FWSVC(C, gamma=GAMMA, multi_class="ovo")
            fitted, took = timed(model.fit, X[chosen], digit[chosen])
            means = X[chosen].reshape(10, shots, -1).mean(1)
            nearest = (X[rest] @ means.T - 0.5 * (means**2).sum(1)).argmax(1)
            wrong = (fitted.predict(X[rest]) != digit[rest], nearest != digit[rest])
            errors.append([w.mean() for w in wrong])
            support.append(len(fitted.support_) / len(chosen))
            gap, seconds = max(gap, fitted.duality_gap_), seconds + took
        svm, centroid = np.mean(errors, axis=0)
        rows.append(
            (shots, f"{svm:.3f}", f"{centroid:.3f}", np.mean(support), f"{gap:.0e}", seconds)
        )
    table(("images per digit", "svm error", "mean error", "support", "gap", "seconds"), rows)
    if arguments.plot is not None:
        draw_errors(rows, arguments.plot)


def some_of_each(digit: np.ndarray, shots: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.permutation(np.flatnonzero(digit == k))[:shots] for k in range(10)])


def draw_errors(rows: list[tuple], file: str) -> None:
    from matplotlib import pyplot

    _, ax = pyplot.subplots(figsize=(7, 4), layout="constrained")
    for column, name in ((1, "FWSVC, 45 pairs"), (2, "nearest class mean")):
        ax.plot([row[0] for row in rows], [float(row[column]) for row in rows], "o-", label=name)
    ax.set_xscale("log")
    ax.set_xticks(SHOTS, [str(s) for s in SHOTS])
    ax.set_xlabel("training images per digit")
    ax.set_ylabel("test error")
    ax.set_ylim(bottom=0)
    ax.grid(alpha=0.3)
    ax.legend()
    save(ax, file)


if __name__ == "__main__":
    main()
