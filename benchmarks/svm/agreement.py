"""The same optimum as the peers, to 1e-6: liblinear, OneClassSVM on K, CVXPY."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import make_moons
from sklearn.metrics.pairwise import rbf_kernel

from benchmarks.harness import Row, figure
from benchmarks.svm import peers
from fwnet.estimators import FWSVC


def agreement(repeats: int) -> list[Row]:
    """Relative differences of the optimal values; nothing is timed."""
    X, y = make_moons(400, noise=0.3, random_state=0)
    sign = 2 * y - 1
    K = rbf_kernel(X, gamma=1.5)
    Q = sign[:, None] * (K + 1.0) * sign + np.eye(400)
    ours = FWSVC(gamma=1.5, tol=1e-10).fit(X, y)
    value = 0.5 * float(np.abs(ours.dual_coef_).sum())  # P = D = ½Σβ at the optimum
    alpha = peers.one_class(X, sign, 1.5, 1.0, 1e-10)
    rows = [_row("OneClassSVM on K", value, 0.5 / float(alpha @ Q @ alpha))]
    linear = FWSVC(kernel="linear", tol=1e-10).fit(X, y)
    mine = peers.primal_value(X, sign, linear.coef_[0], float(linear.intercept_[0]), 1.0)
    peer = peers._linear_svc(X, sign, 1.0, False, 1e-10)()
    other = peers.primal_value(X, sign, peer.coef_[0], float(peer.intercept_[0]), 1.0)
    rows.append(_row("liblinear", mine, other))
    cvxpy = peers.optional("cvxpy")
    if cvxpy is not None:
        beta = cvxpy.Variable(400, nonneg=True)
        root = np.linalg.cholesky(Q)
        goal = cvxpy.Maximize(cvxpy.sum(beta) - 0.5 * cvxpy.sum_squares(root.T @ beta))
        rows.append(_row("CVXPY", value, float(cvxpy.Problem(goal).solve())))
    return rows


def _row(peer: str, ours: float, other: float) -> Row:
    return figure(f"same optimum as {peer}", [abs(ours - other) / other], "", 1e-6, f"{ours:.9g}")
