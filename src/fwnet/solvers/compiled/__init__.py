"""Steps of a solve in machine code (Numba)."""

from fwnet.solvers.compiled.forward import FastForward, check_slots

__all__ = ["FastForward", "check_slots"]
