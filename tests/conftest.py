"""What holds for every test."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture(autouse=True)
def same_first_weights() -> None:
    """Networks begin the same in whatever order the tests are run."""
    torch.manual_seed(0)
