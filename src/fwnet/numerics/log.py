"""The logger "fwnet": what the library tells without being asked, and what `verbose` asks for.

    WARNING   something takes long or was ignored
    INFO      the lines of `verbose`

Until the program configures logging, both appear on the standard error stream.
"""

from __future__ import annotations

import logging
import sys

logger = logging.getLogger("fwnet")


class _UntilConfigured(logging.Handler):
    """Writes to the standard error stream while there is no other handler, and nothing after."""

    def emit(self, record: logging.LogRecord) -> None:
        if logger.handlers == [self] and not logging.root.handlers:
            sys.stderr.write(f"{self.format(record)}\n")


logger.setLevel(logging.INFO)
logger.addHandler(_UntilConfigured())
