"""The laws that also hold on an accelerator, in a process of their own.

A device that was registered stays registered, and changes how torch saves random states,
checkpoints and autocasts from then on: other tests must not see it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent


@pytest.mark.slow
@pytest.mark.parametrize("room", ["domains", "layers", "solvers"])
def test_laws_hold_on_a_device(room: str) -> None:
    options = ["-q", "-o", "addopts=", "-p", "no:xdist", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(TESTS / room / "on_device.py")],
        cwd=TESTS.parent, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout.splitlines()[-1]
