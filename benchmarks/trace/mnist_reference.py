"""The least loss of MNIST's pixels over the trace-norm ball of radius 40, in NumPy and float64.

    python -m benchmarks.trace.mnist_reference

FISTA with a full SVD in every projection, backtracking and restarts, until the duality gap
⟨G, W⟩ + 40 σ₁(G) is 1e-4 of the loss: the least loss is at most that far below. Nothing of fwnet
but the loader of the images. Writes mnist_reference.json beside this file.
"""

import json
import sys
from pathlib import Path

import numpy as np

from fwnet.data import load

RADIUS, STEPS, GOAL = 40.0, 4000, 1e-4
FILE = Path(__file__).with_suffix(".json")


def reference() -> dict[str, float]:
    """What the file says: loss, gap and steps."""
    found: dict[str, float] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def main() -> None:
    pixels, digits = load("mnist", download=False).train()
    X, y = pixels.reshape(len(pixels), -1).astype(np.float64), digits.astype(int)
    bound = np.linalg.norm(X.T @ X, 2) / (2 * len(y))  # of the curvature: no step need be shorter
    length, t = 8.0 / bound, 1.0
    W = last = np.zeros((X.shape[1], 10))
    Z = Z_last = X @ W  # logits move with W: one product forth and one back a step
    for step in range(1, STEPS + 1):
        following = (1 + np.sqrt(1 + 4 * t * t)) / 2
        ahead = (t - 1) / following
        Y = W + ahead * (W - last)
        value, E = loss_and_errors(Z + ahead * (Z - Z_last), y)
        G = (E.T @ X).T / len(y)
        while True:
            new = projected(Y - length * G)
            Z_new, move = X @ new, new - Y
            model = value + np.sum(G * move) + np.sum(move * move) / (2 * length)
            if length <= 1 / bound or loss_and_errors(Z_new, y)[0] <= model + 1e-12:
                break
            length = max(length / 2, 1 / bound)
        turned = np.sum((Y - new) * (new - W)) > 0
        last, Z_last, t = (new, Z_new, 1.0) if turned else (W, Z, following)
        W, Z = new, Z_new
        length *= 1.02
        if step % 50 == 0:
            value, E = loss_and_errors(X @ W, y)
            G = (E.T @ X).T / len(y)
            gap = np.sum(G * W) + RADIUS * np.linalg.norm(G, 2)
            print(f"step {step}: loss {value:.8f}, gap {gap:.2e}", file=sys.stderr, flush=True)
            write(value, gap, step)
            if gap <= GOAL * value:
                break


def write(value: float, gap: float, steps: int) -> None:
    command = "python -m benchmarks.trace.mnist_reference"
    found = {"loss": value, "gap": gap, "steps": steps, "radius": RADIUS, "command": command}
    FILE.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


def loss_and_errors(Z: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray]:
    """The mean loss at logits Z, and softmax(Z) − Y."""
    Z = Z - Z.max(1, keepdims=True)
    P = np.exp(Z)
    total, rows = P.sum(1), np.arange(len(y))
    value = float(np.mean(np.log(total) - Z[rows, y]))
    P /= total[:, None]
    P[rows, y] -= 1.0
    return value, P


def projected(W: np.ndarray) -> np.ndarray:
    """The nearest matrix whose singular values sum to at most the radius."""
    U, s, Vt = np.linalg.svd(W, full_matrices=False)
    if s.sum() <= RADIUS:
        return W
    excess = (np.cumsum(s) - RADIUS) / np.arange(1, len(s) + 1)
    level = excess[np.flatnonzero(s > excess)[-1]]
    return (U * np.maximum(s - level, 0.0)) @ Vt


if __name__ == "__main__":
    main()
