"""Text for HTML."""

from __future__ import annotations

import html


def safe(text: str) -> str:
    """Text for HTML; signs such as % and ± stay with their number."""
    return html.escape(text.replace(" %", "\u00a0%").replace("± ", "±\u00a0"), quote=True)
