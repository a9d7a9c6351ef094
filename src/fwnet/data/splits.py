"""Three disjoint parts of a training set, as learning to learn needs them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, final

import numpy as np


@final
@dataclass(frozen=True, eq=False)
class Splits:
    """Disjoint rows for the optimizee, for the optimizer and for testing.

    Arguments:
        optimizee: rows of the problems that a learned optimizer is trained on.
        optimizer: rows of the problems that the trained optimizer then solves.
        test: rows that neither of them uses.

    Example:
        >>> import numpy as np
        >>> from fwnet.data import Splits
        >>> rows = Splits(np.arange(4), np.arange(4, 6), np.arange(6, 9))
        >>> len(rows.optimizee), len(rows.optimizer), len(rows.test)
        (4, 2, 3)
    """

    optimizee: np.ndarray
    optimizer: np.ndarray
    test: np.ndarray

    def __post_init__(self) -> None:
        parts = {"optimizee": self.optimizee, "optimizer": self.optimizer, "test": self.test}
        for name, rows in parts.items():
            if len(np.unique(rows)) != len(rows):
                raise ValueError(f"the {name} part names a row twice.")
        for (one, rows), (other, others) in combinations(parts.items(), 2):
            shared = np.intersect1d(rows, others)
            if shared.size:
                raise ValueError(
                    f"the {one} and {other} parts must be disjoint; both have row {shared[0]}."
                )


def splits(
    y: Any,  # (n,)
    shares: Sequence[float] = (0.4, 0.4, 0.2),
    seed: int = 0,
) -> Splits:
    """Split the rows of a training set into three disjoint parts, stratified and shuffled.

        every class c gives round(sᵢ · n_c) − round(sᵢ₋₁ · n_c) of its rows to part i,
        sᵢ = share₁ + … + shareᵢ

    Arguments:
        y: the class of each row.
        shares: of the optimizee, the optimizer and the test part, each at least 0, together at
            most 1. A share above 0 gives at least one row of each class.
        seed: of the shuffle. One seed gives the same parts on every machine.

    Example:
        >>> parts = splits([0] * 10 + [1] * 10, (0.5, 0.3, 0.2), seed=0)
        >>> len(parts.optimizee), len(parts.optimizer), len(parts.test)
        (10, 6, 4)

    Reference: Andrychowicz et al. (2016), "Learning to learn by gradient descent by gradient
    descent".
    """
    labels = np.asarray(y)
    if labels.ndim != 1 or labels.size == 0:
        raise ValueError(f"y must hold one class per row, shape (n,); got shape {labels.shape}.")
    try:
        share = np.asarray(shares, dtype=float)
    except (TypeError, ValueError):
        share = np.empty(0)
    if share.shape != (3,) or not (share >= 0).all() or not 0 < share.sum() <= 1 + 1e-12:
        raise ValueError(
            "shares must be three numbers of at least 0 that sum to at most 1 and more than 0; "
            f"got {shares!r}."
        )
    generator = np.random.default_rng(seed)
    parts: list[list[np.ndarray]] = [[], [], []]
    for label in np.unique(labels):
        rows = generator.permutation(np.flatnonzero(labels == label))
        ends = np.round(share.cumsum() * len(rows)).astype(int)
        starts = np.concatenate([[0], ends[:-1]])
        if ((ends == starts) & (share > 0)).any():
            raise ValueError(
                f"class {label.item()!r} has {len(rows)} rows, too few for the shares "
                f"{tuple(shares)!r}. Give more rows or more even shares."
            )
        for part, start, end in zip(parts, starts, ends, strict=True):
            part.append(rows[start:end])
    return Splits(*(np.sort(np.concatenate(part)) for part in parts))
