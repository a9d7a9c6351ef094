"""The problems of `core`: a question, several solvers, and what came out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, final

import numpy as np
import torch
from sklearn.datasets import load_diabetes, load_digits
from sklearn.metrics.pairwise import rbf_kernel

import fwnet
from fwnet.lab.paper.figures import thinned


class Solve(NamedTuple):
    """One solve of a problem."""

    solver: str
    result: fwnet.Result

    def facts(self) -> dict[str, Any]:
        """As plain data: the largest gap and most steps of a batch, and the curve of the gap."""
        steps, status = self.result.steps, self.result.status
        words = status if isinstance(status, str) else ", ".join(dict.fromkeys(status))
        gap = self.result.trace.column("gap")
        gap = gap if gap.ndim == 1 else gap.max(axis=1)
        known = np.flatnonzero(np.isfinite(gap) & (gap > 0))
        known = known[thinned(len(known))]
        return {
            "solver": self.solver,
            "steps": max(steps) if isinstance(steps, tuple) else steps,
            "gap": float(self.result.gap.detach().max()),
            "seconds": self.result.trace[-1].seconds,
            "status": words.replace("_", " "),
            "at": known + 1,  # steps count from 1, so that the first has a place on a log axis
            "curve": gap[known],
        }


class Example(NamedTuple):
    """One problem: what is asked, how it is written, its solves, and what came out."""

    name: str
    title: str
    question: str
    formula: str
    findings: list[str]
    runs: list[Solve]

    def facts(self) -> dict[str, Any]:
        """As plain data."""
        return self._asdict() | {"runs": [run.facts() for run in self.runs]}


@final
@dataclass(frozen=True)
class Budgeted:
    """Solves with a share of the full budget of steps.

    Arguments:
        share: of the steps that a solve may take.
        seed: of what is drawn at random.
        progress: called with the solver's name when it starts.
    """

    share: float
    seed: int
    progress: Callable[[str], object]

    def steps(self, full: int) -> int:
        """The budget of a solve."""
        return max(20, int(self.share * full))

    def solve(
        self,
        problem: fwnet.Problem,
        solvers: dict[str, fwnet.FrankWolfe],
        x0: torch.Tensor | None = None,
    ) -> list[Solve]:
        """One solve by each solver."""
        found = []
        for name, solver in solvers.items():
            self.progress(name)
            found.append(Solve(name, solver(problem, x0)))
        return found


@cache
def digits(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Unit-length images, their digits, and which are for training."""
    pixels, digit = load_digits(return_X_y=True)
    pixels = pixels / np.linalg.norm(pixels, axis=1, keepdims=True)
    return pixels, digit, np.random.default_rng(seed).random(len(digit)) < 0.4


def digit_svms(budget: Budgeted) -> Example:
    """Ten SVM duals over simplices, as one batch."""
    X, digit, train = digits(budget.seed)
    kernel = torch.tensor(rbf_kernel(X, X[train], gamma=4.0))
    labels = torch.tensor(np.where(digit[train] == np.arange(10)[:, None], 1.0, -1.0))
    K = kernel[train].expand(10, -1, -1)
    problem = fwnet.SVMDual(K, labels, C=10.0)
    simplex, steps = fwnet.Simplex(), budget.steps(1000)
    solvers = {
        "plain, 2/(t + 2)": fwnet.FrankWolfe(simplex, max_steps=steps),
        "pairwise": fwnet.PairwiseFrankWolfe(simplex, second_order=True, max_steps=steps),
        "corrective": fwnet.Corrective(simplex, max_steps=steps),
    }
    runs = budget.solve(problem, solvers)
    alpha = runs[-1].result.x
    scores = (kernel[~train] + 1) @ (alpha * labels / runs[-1].result.value[:, None]).T
    right = float((scores.argmax(1).numpy() == digit[~train]).mean())
    support = int((alpha > 1e-9).any(0).sum())
    n, rest = int(train.sum()), int((~train).sum())
    return Example(
        "digits",
        "Digits: ten support vector machines in one solve",
        "Which digit is it? One machine for each digit against the rest, all ten as one batch.",
        "min ½ αᵀQα over the simplex,  Q = yyᵀ ∘ (k(X, X) + 1) + I/10",
        [
            f"{n} images to learn from, {rest} to test on: {100 * right:.1f} % are classified "
            f"correctly, by {support} support vectors. Each of the ten stops by its own "
            "certificate; the table and the curves show the worst of them."
        ],
        runs,
    )


def diabetes(budget: Budgeted) -> Example:
    """Least squares over an l1 ball."""
    X, y = load_diabetes(return_X_y=True)
    pairs = np.triu_indices(X.shape[1])
    features = np.hstack([X, X[:, pairs[0]] * X[:, pairs[1]]])
    features = (features - features.mean(0)) / features.std(0)
    goal = (y - y.mean()) / y.std()
    own = load_diabetes().feature_names
    names = own + [f"{own[i]}·{own[j]}" for i, j in zip(*pairs, strict=True)]
    scale = len(y) ** -0.5
    problem = fwnet.LeastSquares(torch.tensor(scale * features), torch.tensor(scale * goal))
    ball = fwnet.L1Ball(1.0)
    limits: dict[str, Any] = {"max_steps": budget.steps(2000), "tol": 1e-10}
    solvers = {
        "plain, line search": fwnet.FrankWolfe(ball, fwnet.LineSearch(), **limits),
        "away": fwnet.AwayFrankWolfe(ball, **limits),
        "pairwise": fwnet.PairwiseFrankWolfe(ball, **limits),
        "corrective": fwnet.Corrective(ball, **limits),
    }
    runs = budget.solve(problem, solvers)
    c = runs[-1].result.x.numpy()
    order = np.argsort(-np.abs(c))[:4]
    used = int((np.abs(c) > 1e-9).sum())
    explained = 1 - 2 * float(runs[-1].result.value)
    return Example(
        "diabetes",
        "Diabetes: a sparse regression",
        "Which of ten measurements and their 55 products predict the course of the disease?",
        "min 1/(2m) ‖Ac − y‖² over {c : Σ |cⱼ| ≤ 1},  65 standardised features, 442 patients",
        [
            f"{used} of {len(c)} features are used and explain {100 * explained:.0f} % of the "
            "variance; the largest are "
            + ", ".join(f"{names[i]} ({c[i]:+.2f})" for i in order)
            + "."
        ],
        runs,
    )


def completion(budget: Budgeted) -> Example:
    """Matrix completion over a trace-norm ball."""
    rng = np.random.default_rng(budget.seed)
    d, m, rank = 600, 400, 5
    truth = rng.standard_normal((d, rank)) @ rng.standard_normal((rank, m)) / rank**0.5
    seen = np.sort(rng.choice(d * m, d * m // 10, replace=False))
    rows, cols = np.divmod(seen, m)
    values = truth[rows, cols] + 0.1 * rng.standard_normal(len(seen))
    entries = (torch.tensor(rows), torch.tensor(cols), torch.tensor(values))
    problem = fwnet.MatrixCompletion(*entries, (d, m))
    ball = fwnet.TraceNormBall(float(np.linalg.norm(truth, "nuc")))
    search = fwnet.LineSearch()
    limits: dict[str, Any] = {
        "max_steps": budget.steps(600),
        "tol": 0.01 * 0.5 * float(np.sum(values**2)),
    }
    power = fwnet.PowerIteration(steps=2)
    solvers = {
        "exact oracle": fwnet.FrankWolfe(ball, search, **limits),
        "power iteration": fwnet.FrankWolfe(ball, search, oracle=power, **limits),
        "lazy": fwnet.LazyFrankWolfe(ball, **limits),
    }
    runs = budget.solve(problem, solvers)
    hidden = np.ones(d * m, dtype=bool)
    hidden[seen] = False
    x = runs[0].result.x.numpy().ravel()
    error = np.linalg.norm((x - truth.ravel())[hidden]) / np.linalg.norm(truth.ravel()[hidden])
    return Example(
        "completion",
        "A matrix from a tenth of its entries",
        "600 × 400 numbers of rank 5, of which 10 % are seen, with noise: what are the others?",
        "min ½ Σ (Xᵢⱼ − Mᵢⱼ)² over seen (i, j),  Σ singular values of X ≤ radius",
        [
            f"The hidden entries are found with a relative error of {100 * error:.0f} %; the "
            f"tolerance is 1 % of f(0). Every step adds one pair of singular vectors, "
            "and the gradient is a sparse matrix that is never made dense. Where an oracle is not "
            "exact, the true gap is computed from time to time."
        ],
        runs,
    )


def pixels(budget: Budgeted) -> Example:
    """Graph matching over doubly stochastic matrices."""
    images, _ = load_digits(return_X_y=True)
    rng = np.random.default_rng(budget.seed)
    order = rng.permutation(len(images))
    kept = images.std(0) > 1  # pixels that change at all
    first, second = (np.cov(images[half][:, kept].T) for half in (order[::2], order[1::2]))
    n = len(first)
    shuffle = rng.permutation(n)
    A = torch.tensor(first / first.max())
    B = torch.tensor(second[np.ix_(shuffle, shuffle)] / first.max())

    def gradient(x: torch.Tensor) -> torch.Tensor:
        residual = A @ x - x @ B
        return A @ residual - residual @ B

    problem = fwnet.Function(lambda x: 0.5 * (A @ x - x @ B).square().sum(), gradient)
    domain = fwnet.Birkhoff(n)
    x0 = domain.lmo(torch.eye(n, dtype=torch.float64)).dense()
    limits: dict[str, Any] = {"max_steps": budget.steps(3000), "tol": 0.02}
    solvers = {
        "plain": fwnet.FrankWolfe(domain, fwnet.LineSearch(), **limits),
        "lazy": fwnet.LazyFrankWolfe(domain, **limits),
        "blended pairwise": fwnet.BlendedPairwise(domain, **limits),
    }
    runs = budget.solve(problem, solvers, x0)
    found = [
        int((shuffle[domain.lmo(-run.result.x).dense().argmax(1).numpy()] == np.arange(n)).sum())
        for run in runs
    ]
    return Example(
        "pixels",
        "Pixels identified by their correlations",
        f"The {n} pixels of half the digits were shuffled. Which is which, given only covariances?",
        "min ½ ‖AX − XB‖² over doubly stochastic X",
        [
            "The nearest permutation to X (one more assignment problem) puts "
            + ", ".join(f"{k} ({run.solver})" for k, run in zip(found, runs, strict=True))
            + f" of {n} pixels in their place."
        ],
        runs,
    )


def network(budget: Budgeted) -> Example:
    """An SVM dual by FWNet, with three oracles."""
    X, digit, _ = digits(budget.seed)
    chosen = (digit == 3) | (digit == 8)
    y = torch.tensor(np.where(digit[chosen] == 3, 1.0, -1.0))
    problem = fwnet.SVMDual(torch.tensor(rbf_kernel(X[chosen], gamma=4.0)), y, C=10.0)
    simplex, rule, steps = fwnet.Simplex(), fwnet.OpenLoop(30), budget.steps(400)
    oracles = {
        "softmin, β = 10": fwnet.Softmin(10.0),
        "relative, annealed": fwnet.Softmin(10.0, relative=True, growth=0.5),
        "exact oracle": fwnet.Exact(),
    }
    limits: dict[str, Any] = {"max_steps": steps, "tol": 0.0, "check_every": 1}
    solvers = {n: fwnet.FrankWolfe(simplex, rule, oracle=o, **limits) for n, o in oracles.items()}
    runs = budget.solve(problem, solvers)
    best = fwnet.PairwiseFrankWolfe(simplex, second_order=True, max_steps=20_000, tol=1e-9)(problem)
    excess = [100 * (float(run.result.value / best.value) - 1) for run in runs]
    agreement = gradient_agreement(problem_data=(X[chosen], y), alpha=best.x)
    return Example(
        "network",
        "An SVM solved by a network",
        f"FWNet: {steps} Frank-Wolfe steps as a recurrent network with a softmin for an oracle.",
        "s = softmin(β ∇f(α)),  α ← α + γ (s − α),  γ = 2/(t + 30)",
        [
            "Above the optimum: "
            + ", ".join(f"{e:.1f} % ({run.solver})" for run, e in zip(runs, excess, strict=True))
            + ". The sharpness β of the softmin must be measured in units of the gradient.",
            "Back-propagation through a network of 40 such cells (β = 5) gives the change of f "
            "with the weight of every image; its cosine with the derivative at the optimum is "
            f"{agreement:.4f}.",
        ],
        runs,
    )


def gradient_agreement(problem_data: tuple[np.ndarray, torch.Tensor], alpha: torch.Tensor) -> float:
    """Cosine of df/dlog w, by unrolling and by the envelope theorem; K_ij becomes w_i w_j K_ij."""
    X, y = problem_data
    K = torch.tensor(rbf_kernel(X, gamma=4.0))
    logs = torch.zeros(len(y), dtype=torch.float64, requires_grad=True)
    oracle = fwnet.Softmin(5.0, relative=True)
    solver = fwnet.FrankWolfe(fwnet.Simplex(), fwnet.OpenLoop(30), oracle=oracle, max_steps=40)
    weighted = logs.exp()[:, None] * K * logs.exp()
    fwnet.FWNet(solver)(fwnet.SVMDual(weighted, y, C=10.0)).value.backward()
    signed = alpha * y
    exact = signed * (K @ signed)
    assert logs.grad is not None
    return float(torch.cosine_similarity(logs.grad, exact, dim=0))


EXAMPLES: tuple[Callable[[Budgeted], Example], ...] = (
    digit_svms,
    diabetes,
    completion,
    pixels,
    network,
)
