"""Ten classes: does a low-rank classifier need Frank-Wolfe at all?

    min over ‖W‖_* <= radius of the mean log loss of softmax(XW)

MNIST's 784 pixels from the folder FWNET_DATA, or scikit-learn's digits without it. With ten
classes an SVD is cheap, so the default fit is accelerated projection; Frank-Wolfe with rank-1
vertices is the core's loop with exact line search, for as many steps.

See: projection wins, the more the larger the ball, and the certified gap shows it without knowing
the optimum. On MNIST a larger ball has the smaller loss and the better test accuracy, up to 0.91.
"""

import numpy as np
import torch

import fwnet
from fwnet.data import available, load
from fwnet.estimators import LowRankSoftmaxClassifier
from fwnet.show.scripts import options, save, table

Data = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def images(quick: bool) -> Data:
    """Training rows, their labels, test rows, their labels."""
    name = "digits" if quick or available()["mnist"] is None else "mnist"
    data = load(name)
    (X, y), (X_test, y_test) = data.train(slice(10_000)), data.test()
    return X.reshape(len(X), -1), y, X_test.reshape(len(X_test), -1), y_test


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
    if arguments.plot:
        draw([(name, float(radius), gap) for radius, name, _, _, gap, *_ in lines], arguments.plot)


def draw(gaps: list[tuple[str, float, float]], file: str) -> None:
    """The certified gap by the radius, for both solvers."""
    from matplotlib import pyplot

    _, ax = pyplot.subplots(figsize=(7, 4), layout="constrained")
    for name in ("Frank-Wolfe", "projection"):
        radii, found = zip(*[gap[1:] for gap in gaps if gap[0] == name], strict=True)
        ax.plot(radii, found, "-o", label=name)
    ax.set(xlabel="radius of the ball", ylabel="certified gap", yscale="log")
    ax.legend(title="W by")
    save(ax, file)


if __name__ == "__main__":
    main()
