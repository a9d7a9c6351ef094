"""What holds for every test."""

from __future__ import annotations

import numpy as np
import pytest
import torch


@pytest.fixture(autouse=True)
def same_numbers() -> None:
    """Initial weights and shuffles do not depend on the order of the tests."""
    torch.default_generator.manual_seed(0)  # torch.manual_seed(0) formats the stack for CUDA
    np.random.seed(0)  # noqa: NPY002 - scikit-learn asks it where no state is given
