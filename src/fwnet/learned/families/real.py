"""SVM duals of real data in three parts that share neither classes nor points."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from fwnet.data import available, load
from fwnet.learned.families.deep_svm import DeepSVMFamily
from fwnet.learned.families.svm import RBFKernel, SVMFamily
from fwnet.learned.ranges import LogUniform
from fwnet.numerics.optional import optional

Part = Literal["train", "validation", "test"]
# Pairs of classes: six to train on, three to tune by, three for the test.
CLASSES: dict[str, tuple[int, ...]] = {
    "train": (0, 1, 2, 3),
    "validation": (4, 5, 6),
    "test": (7, 8, 9),
}
_C = LogUniform(0.3, 100.0)


def digits_pairs(
    part: Part, C: LogUniform | float = _C, n: tuple[int, int] | int = (64, 360)
) -> SVMFamily:
    """Pairs of scikit-learn's 8×8 digits, linear and rbf kernels.

    Example:
        >>> from fwnet.learned import families
        >>> family = families.digits_pairs("test", C=10.0, n=32)
        >>> family.sample(2, torch.Generator().manual_seed(0))
        Quadratic(shape=(2, 32), dtype=torch.float32)
    """
    return SVMFamily([digits(part)], C, n)


def mnist_pairs(
    part: Part, C: LogUniform | float = _C, n: tuple[int, int] | int = (64, 512)
) -> SVMFamily:
    """Pairs of MNIST's digits, read from the folder `FWNET_DATA`; else of scikit-learn's.

    Example:
        >>> from fwnet.learned import families
        >>> family = families.mnist_pairs("test", C=10.0, n=32)
        >>> family.sample(2, torch.Generator().manual_seed(0)).shape
        torch.Size([2, 32])
    """
    return SVMFamily([_of_part(*(_mnist() or _digits()), part)], C, n)


def circles(
    part: Part, C: LogUniform | float = _C, n: tuple[int, int] | int = (64, 512)
) -> SVMFamily:
    """The paper's concentric circles, noisy, an rbf kernel; each part has draws of its own.

    Example:
        >>> from fwnet.learned import families
        >>> families.circles("test", C=10.0, n=32).sample(2, torch.Generator().manual_seed(0))
        Quadratic(shape=(2, 32), dtype=torch.float32)
    """
    _check(part)
    return SVMFamily([circle_points(part)], C, n, kernels=[RBFKernel()])


def deep_svms(
    part: Part, C: LogUniform | float = _C, n: tuple[int, int] | int = (64, 512)
) -> DeepSVMFamily:
    """Circles and pairs of digits under the paper's 4 – 2 network, new to nearly trained.

    Example:
        >>> from fwnet.learned import families
        >>> families.deep_svms("test", C=10.0, n=32).domain
        Simplex(radius=1.0)
    """
    return DeepSVMFamily([circle_points(part), digits(part)], C, n)


def circle_points(part: Part) -> tuple[Tensor, Tensor]:
    """2000 points `(2000, 2)` in [−1, 1]² of the part's own draw, and their circle."""
    _check(part)
    X, y = sklearn_datasets().make_circles(
        2000, factor=0.2, noise=0.1, random_state=100 + list(CLASSES).index(part)
    )
    return torch.as_tensor(X / np.abs(X).max()), torch.as_tensor(y)


def digits(part: Part) -> tuple[Tensor, Tensor]:
    """Images `(rows, 64)` in [0, 1] of the part's digits, and their classes.

    Example:
        >>> from fwnet.learned import families
        >>> X, y = families.digits("test")
        >>> X.shape[1], y.unique()
        (64, tensor([7, 8, 9]))
    """
    return _of_part(*_digits(), part)


def all_digits() -> tuple[Tensor, Tensor]:
    """Images of all ten digits, and their classes."""
    X, y = _digits()
    return torch.as_tensor(X), torch.as_tensor(y)


def _of_part(X: np.ndarray, y: np.ndarray, part: Part) -> tuple[Tensor, Tensor]:
    _check(part)
    kept = np.isin(y, CLASSES[part])
    return torch.as_tensor(X[kept]), torch.as_tensor(y[kept])


def _check(part: str) -> None:
    if part not in CLASSES:
        raise ValueError(f"part must be one of {', '.join(CLASSES)}; got {part!r}.")


def _digits() -> tuple[np.ndarray, np.ndarray]:
    X, y = sklearn_datasets().load_digits(return_X_y=True)
    return X / 16.0, y


def all_mnist() -> tuple[np.ndarray, np.ndarray] | None:
    """The training images `(60000, 784)` as bytes and their digits; None if not here."""
    if available()["mnist"] is None:
        return None
    data = load("mnist", download=False)
    return data.x.reshape(len(data.x), -1), data.y


def _mnist() -> tuple[np.ndarray, np.ndarray] | None:
    """The first 600 images of each digit, in [0, 1]."""
    data = all_mnist()
    if data is None:
        return None
    images, labels = data
    rows = np.concatenate([np.flatnonzero(labels == digit)[:600] for digit in range(10)])
    return images[rows] / 255.0, labels[rows]


def sklearn_datasets() -> Any:
    """`sklearn.datasets`, or an error that says how to install it."""
    return optional("sklearn.datasets", "a family of digits or circles", "svm")
