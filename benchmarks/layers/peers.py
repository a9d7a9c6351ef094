"""Other differentiable QP layers, each as a function K (batch, n, n) -> x (batch, n)."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch
from torch import Tensor

Layer = Callable[[Tensor], Tensor]


def qpth(batch: int, n: int) -> Layer:
    from qpth.qp import QPFunction

    solve = QPFunction(verbose=-1, check_Q_spd=False)
    ones, one = torch.ones(1, n).double(), torch.ones(1).double()
    G, h, p = -torch.eye(n).double(), torch.zeros(n).double(), torch.zeros(batch, n).double()
    return lambda K: solve(K, p, G, h, ones, one)


def proxsuite(batch: int, n: int) -> Layer:
    from proxsuite.torch.qplayer import QPFunction

    solve = QPFunction(omp_parallel=False)
    A, b = torch.ones(batch, 1, n).double(), torch.ones(batch, 1).double()
    G = torch.eye(n).double().expand(batch, n, n)
    low, high = torch.zeros(batch, n).double(), torch.full((batch, n), 1e20).double()
    return lambda K: solve(K, torch.zeros(batch, n).double(), A, b, G, low, high)[0]


def moreau(batch: int, n: int) -> Layer:
    import moreau as package
    from moreau.torch import Solver

    settings = package.Settings(solver="auto", device="cpu", batch_size=batch, enable_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        engine = Solver(
            n,
            n + 1,
            torch.arange(0, n * n + 1, n),
            torch.arange(n).repeat(n),
            torch.cat((torch.tensor([0]), torch.arange(n, 2 * n + 1))),
            torch.arange(n).repeat(2),
            package.Cones(num_zero_cones=1, num_nonneg_cones=n),
            settings,
        )
    A = torch.cat((torch.ones(n), -torch.ones(n))).double().repeat(batch, 1)
    b = torch.cat((torch.ones(1), torch.zeros(n))).double().repeat(batch, 1)
    q = torch.zeros(batch, n).double()
    return lambda K: engine.solve(K.reshape(batch, -1), A, q, b).x


def cvxpylayers(batch: int, n: int) -> Layer:
    import cvxpy as cp
    from cvxpylayers.torch import CvxpyLayer

    root, x = cp.Parameter((n, n)), cp.Variable(n)
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(root @ x)), [cp.sum(x) == 1, x >= 0])
    layer = CvxpyLayer(problem, [root], [x])
    return lambda K: layer(torch.linalg.cholesky(K).mT)[0]


PEERS = {"qpth": qpth, "proxsuite": proxsuite, "moreau": moreau, "cvxpylayers": cvxpylayers}
