"""An extension of griffe: the section `Example:` of a docstring is code, as `Examples:` is.

griffe reads `Example:` as an admonition, whose `>>>` Markdown turns into quotations of prose.
"""

from __future__ import annotations

import re
from typing import Any

import griffe


class Examples(griffe.Extension):
    """Rename the section while the sources are read."""

    def on_instance(self, *, obj: Any, **_: Any) -> None:
        """Called for every module, class, function and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = re.sub(r"(?m)^Example:$", "Examples:", obj.docstring.value)
