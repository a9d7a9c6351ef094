"""What a fit shows while it trains: a progress bar, lines in the log."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import ExitStack

from fwnet.estimators.deep.training import DeepRound
from fwnet.numerics.log import logger
from fwnet.show.progress import progress_bar


def shown(
    stack: ExitStack, progress: bool, verbose: int, max_iter: int
) -> Callable[[DeepRound], None]:
    """A function that shows a round; the stack closes what it opens."""
    advance = progress_bar(stack, max_iter) if progress else None

    def show(record: DeepRound) -> None:
        text = _text(record)
        if verbose:
            logger.info("DeepSVC update %d: %s, %.2f s", record.t, text, record.seconds)
        if advance is not None:
            advance(record.t, text)

    return show


def _text(record: DeepRound) -> str:
    parts = [f"loss {record.loss:.4f}"]
    if not math.isnan(record.gap):
        parts.append(f"gap {record.gap:.1e}")
    parts.append(f"accuracy {record.accuracy:.4f}")
    if not math.isnan(record.validation_accuracy):
        parts.append(f"validation {record.validation_accuracy:.4f}")
    return ", ".join(parts)
