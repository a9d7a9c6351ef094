"""The logger "fwnet": seen by default, silent once the program has logging of its own."""

from __future__ import annotations

import io
import logging
from pathlib import Path

import pytest

import fwnet
from fwnet.numerics.log import logger


def test_messages_go_to_standard_error_until_logging_is_configured(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.root, "handlers", [])  # pytest has some
    logger.info("a line of verbose")
    logger.warning("it takes long")
    logger.debug("nobody asked")
    assert capsys.readouterr().err == "a line of verbose\nit takes long\n"

    text = io.StringIO()
    own = logging.StreamHandler(text)
    for target in (logging.root, logger):
        target.addHandler(own)
        logger.info("to the program")
        target.removeHandler(own)
    assert text.getvalue() == "to the program\n" * 2
    assert capsys.readouterr().err == ""


def test_a_level_silences() -> None:
    assert logging.getLogger("fwnet") is logger
    assert logger.isEnabledFor(logging.INFO)
    assert not logger.isEnabledFor(logging.DEBUG)


def test_nothing_else_writes_to_the_standard_error_stream() -> None:
    package = Path(fwnet.__file__).parent
    for path in package.rglob("*.py"):
        if path.relative_to(package).parts[0] != "cli" and path.name != "log.py":
            text = path.read_text()
            assert "stderr.write" not in text, path
            assert "file=sys.stderr" not in text, path
