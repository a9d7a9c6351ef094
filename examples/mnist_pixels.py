"""Ten classes: does a low-rank classifier need Frank-Wolfe at all?

    min over ‖W‖_* <= radius of the mean log loss of softmax(XW)

MNIST's 784 pixels from the folder FWNET_DATA, or scikit-learn's digits without it. With ten
classes an SVD is free, so the default fit is accelerated projection; Frank-Wolfe with rank-1
vertices is the core's loop with exact line search, for as many steps.

See: projection wins by far, and the certified gap says so without knowing the optimum. A larger
ball has a smaller loss and a higher rank; somewhere in between the test error is best.
"""

import gzip
import os
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits

import fwnet
from fwnet.estimators import LowRankSoftmaxClassifier
from show import options, table

Data = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def images(quick: bool) -> Data:
    """Training rows, their labels, test rows, their labels."""
    folder = Path(os.environ.get("FWNET_DATA", "")) / "mnist"
    if quick or not folder.is_dir() or "FWNET_DATA" not in os.environ:
        X, y = load_digits(return_X_y=True)
        X = (X / 16).astype(np.float32)
        return X[:1200], y[:1200], X[1200:], y[1200:]
    parts = []
    for name, head in (("images-idx3", 16), ("labels-idx1", 8)):
        for split in ("train", "t10k"):
            with gzip.open(folder / f"{split}-{name}-ubyte.gz") as file:
                parts.append(np.frombuffer(file.read(), np.uint8, offset=head))
    train, test = (part.reshape(-1, 784) / np.float32(255) for part in parts[:2])
    return train[:10_000], parts[2][:10_000].astype(int), test, parts[3].astype(int)


def main() -> None:
    arguments = options(__doc__)
    X, y, X_test, y_test = images(arguments.quick)
    steps = 20 if arguments.quick else 150
    lines = []
    for radius in (5.0, 15.0, 40.0):
        model = LowRankSoftmaxClassifier(radius, fit_intercept=False, tol=5e-2)
        model.fit(X, y)
        problem = fwnet.SoftmaxRegression(torch.from_numpy(X), torch.from_numpy(y))
        ball = fwnet.TraceNormBall(radius)
        solver = fwnet.FrankWolfe(ball, fwnet.LineSearch(), max_steps=steps, tol=1e-9)
        result = solver(problem)
        guess = (torch.from_numpy(X_test) @ result.x).argmax(-1).numpy()
        rank = int(torch.linalg.matrix_rank(result.x, rtol=1e-3))
        for name, loss, gap, size, right, count in (
            (
                "projection",
                model.value_,
                model.duality_gap_,
                model.rank_,
                model.score(X_test, y_test),
                model.n_iter_,
            ),
            (
                "Frank-Wolfe",
                float(result.value),
                float(result.gap),
                rank,
                float((guess == y_test).mean()),
                steps,
            ),
        ):
            lines.append((f"{radius:g}", name, count, loss, gap, size, right))
    table(("radius", "W by", "steps", "loss", "gap", "rank", "test accuracy"), lines)


if __name__ == "__main__":
    main()
