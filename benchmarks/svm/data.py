"""Data for the SVM benchmarks: made on the spot, or read from the folder FWNET_DATA."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import make_classification

from fwnet.data import load


def folder() -> Path | None:
    """The folder with mnist/ and svm/, if the environment names one."""
    path = os.environ.get("FWNET_DATA")
    return Path(path) if path else None


def mnist(part: str = "train") -> tuple[np.ndarray, np.ndarray]:
    """Images (n, 784) in [0, 1] as float64 and digits (n,)."""
    return images("mnist", part)


def images(name: str, part: str = "train") -> tuple[np.ndarray, np.ndarray]:
    """Images (n, pixels) in [0, 1] as float64 and classes (n,)."""
    data = load(name, download=False)
    pixels, classes = data.train() if part == "train" else data.test()
    return pixels.reshape(len(pixels), -1).astype(float), classes


def a9a() -> tuple[Any, np.ndarray]:
    """The a9a training set, CSR with 32-bit indices."""
    data = load("a9a")
    return data.x, 2 * data.y - 1


def separable(kind: str) -> tuple[np.ndarray, np.ndarray]:
    """20,000 linearly separable points in 784 dimensions.

    "clusters": two clusters, 20 informative features, tens of support vectors.
    "blobs": two Gaussian blobs, hundreds of them.
    "noise": isotropic noise pushed off a hyperplane, as many as there are features.
    """
    rng = np.random.default_rng(0)
    if kind == "clusters":
        X, y = make_classification(
            20_000, 784, n_informative=20, n_redundant=50, class_sep=3.0,
            n_clusters_per_class=1, flip_y=0, random_state=0,
        )  # fmt: skip
        return np.ascontiguousarray(X), 2 * y - 1
    y = rng.choice([-1, 1], 20_000)
    if kind == "blobs":
        centre = rng.uniform(-1, 1, 784)
        return 4.0 * rng.normal(size=(20_000, 784)) + np.outer(y, centre), y
    X, w = rng.normal(size=(20_000, 784)), rng.normal(size=784) / 28
    y = np.sign(X @ w).astype(np.int64)
    return X + np.outer(y, w) / (w @ w), y
