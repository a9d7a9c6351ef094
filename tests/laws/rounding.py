"""What rounding, and the documented errors of oracles, may make of a number."""

from __future__ import annotations

import numpy as np
import torch

LANCZOS = {torch.float64: 1e-11, torch.float32: 1e-7}  # relative error of a bound of σ₁
TIED = {torch.float64: 1e-8, torch.float32: 1e-6}  # that of a vertex where the top values are tied
LINEAR_PROGRAM = 1e-9  # HiGHS keeps constraints up to its absolute tolerance of 1e-10, or 1e-9


def unit_roundings(dtype: torch.dtype) -> float:
    """Of the solver and of the check."""
    return float(torch.finfo(dtype).eps + np.finfo(np.float64).eps)


def tiny(dtype: torch.dtype) -> float:
    """What is lost where products underflow."""
    return float(torch.finfo(dtype).tiny)
