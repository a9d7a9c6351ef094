"""compiled: machine code by Numba, kept on the disk where there is one to write to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from numba import njit


def compiled(
    *flags: str, fast: bool = False, error_model: str = "numpy"
) -> Callable[[Any], Callable[..., Any]]:
    """Compile a function at its first call, without the lock of the interpreter.

    Arguments:
        flags: what may be done to sums and products of floats, as LLVM names it; none if left out.
        fast: all of it.
        error_model: "numpy" divides by zero without a test, which blocks vector instructions.
    """

    def wrap(function: Any) -> Callable[..., Any]:
        options: dict[str, Any] = {
            "nogil": True,
            "error_model": error_model,
            "fastmath": fast or set(flags),
        }
        try:
            code = njit(cache=True, **options)(function)
        except RuntimeError:  # no folder to write to, as in a container: once per process then
            code = njit(**options)(function)
        return cast(Callable[..., Any], code)

    return wrap
