"""How close does the paper's FWNet come to the exact SVM, and which β does it need?

    min ½ αᵀQ α  over the simplex,   Q = yyᵀ ∘ (k(X, X) + 1) + I/C

This is solved by an unrolled network of T steps whose oracle is a softmin with sharpness β. The
data are the digits 3 and 8 of scikit-learn, scaled to unit length, with an RBF kernel and C = 10;
f* comes from a pairwise solver with a gap of 1e-10, whose certificate is printed last.

See: an absolute β of 1 or 10, as in the paper, barely prefers one point over another, because the
gradients of an SVM are small; the network stalls far above f*. Measured in units of αᵀQα (relative)
and annealed, the same network follows the exact oracle, and stays differentiable.
"""

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.metrics.pairwise import rbf_kernel

import fwnet
from fwnet.show.scripts import options, plot_gaps, table, timed

STEPS, C, GAMMA = 300, 10.0, 2.0


def main() -> None:
    arguments = options(__doc__)
    pixels, digit = load_digits(return_X_y=True)
    chosen = (digit == 3) | (digit == 8)
    X = pixels[chosen] / np.linalg.norm(pixels[chosen], axis=1, keepdims=True)
    y = torch.tensor(np.where(digit[chosen] == 3, 1.0, -1.0))
    train, test = np.arange(len(X)) % 2 == 0, np.arange(len(X)) % 2 == 1
    kernel = torch.tensor(rbf_kernel(X, X[train], gamma=GAMMA))
    problem = fwnet.SVMDual(kernel[train], y[train], C=C)

    def error(alpha: torch.Tensor) -> float:
        scores = (kernel[test] + 1) @ (alpha * y[train])
        return float((scores.sign() != y[test]).double().mean())

    simplex = fwnet.Simplex()
    exact = fwnet.PairwiseFrankWolfe(simplex, second_order=True, max_steps=20_000, tol=1e-10)
    best, seconds = timed(exact, problem)
    oracles = {
        "softmin, β = 1": fwnet.Softmin(1.0),
        "softmin, β = 10": fwnet.Softmin(10.0),
        "softmin, β = 1000": fwnet.Softmin(1000.0),
        "relative β = 10": fwnet.Softmin(10.0, relative=True),
        "relative β = 10, annealed": fwnet.Softmin(10.0, relative=True, growth=0.5),
        "exact oracle (β = ∞)": fwnet.Exact(),
    }
    rows, results = [], {}
    for name, oracle in oracles.items():
        # 2/(t + 30): the start is the mean of all points, which a first step of 1 would discard.
        solver = fwnet.FrankWolfe(
            simplex, fwnet.OpenLoop(30), oracle=oracle, max_steps=STEPS, tol=0.0, check_every=1
        )
        with torch.no_grad():
            net, took = timed(fwnet.FWNet(solver), problem)
        excess = float(net.value / best.value) - 1
        rows.append((name, STEPS, excess, float(net.gap), error(net.x), took))
        if arguments.plot and name != "softmin, β = 1":  # like β = 10, further up
            results[name] = solver(problem)  # the same steps, with the gap at each of them
    rows.append(("pairwise solver", best.steps, 0.0, float(best.gap), error(best.x), seconds))
    columns = ("network", "steps", "f/f* - 1", "gap", "test error", "seconds")
    table(columns, rows)
    plot_gaps(results, arguments.plot, "SVM dual, digits 3 and 8")


if __name__ == "__main__":
    main()
