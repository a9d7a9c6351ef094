"""What the steps on arrays read and write."""

from __future__ import annotations

from typing import Any, NamedTuple


class KeptGradients(NamedTuple):
    """Vertices whose gradients are kept, as many as there is room for."""

    rows: Any  # (batch, room, n + m): ∇f(v), and behind it A v
    row_of: Any  # (batch, n or 2 n) of +radius e_i and −radius e_i, negative if it is not kept
    owner: Any  # (batch, room) which vertex
    last: Any  # (batch, room) when it was last used
    count: Any  # (batch, 4): vertices kept, uses of rows, visits and returns so far


class Data(NamedTuple):
    """The problems: for least squares A and b, for a quadratic K and c."""

    matrix: Any  # (batch or 1, m, n)
    shift: Any  # (batch, m)
    ridge: Any  # (n,), or (0,) without one
    store: KeptGradients
    sizes: Any  # (count,) of the rule GIVEN


class Plan(NamedTuple):
    """What a step does."""

    quadratic: bool
    direction: int
    signed: bool  # the l1 ball, not the simplex
    radius: float
    rule: int
    number: float  # ω of SEARCH, smoothness of SHORT
    tol: float
    dust: float  # weights up to this are rounding
    whole: float  # above 1 − this, one atom is considered to be all of x


class Position(NamedTuple):
    """Where the problems are; changed in place."""

    x: Any  # (batch, n)
    image: Any  # (batch, m)
    weights: Any  # (batch, 1 or 2, n) of the vertices +radius e_i and −radius e_i; (batch, 0, n)


class Log(NamedTuple):
    """What the steps saw; columns after a problem's last step repeat its last numbers."""

    value: Any  # (batch, count)
    gap: Any  # (batch, count)
    step_size: Any  # (batch, count)
    taken: Any  # (batch,) steps
    best: Any  # (batch,) smallest f before a step
    best_x: Any  # (batch, n) where
