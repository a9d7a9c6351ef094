"""An extension of griffe: examples are code, and a named tuple shows its fields.

griffe reads the section `Example:` as an admonition, whose `>>>` Markdown turns into quotations of
prose; `Examples:` is code. It shows no signature of a class that inherits from `NamedTuple`.
"""

from __future__ import annotations

import re
from typing import Any

import griffe


class Docstrings(griffe.Extension):
    """Change docstrings while the sources are read."""

    def on_instance(self, *, obj: Any, **_: Any) -> None:
        """Called for every module, class, function and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = re.sub(r"(?m)^Example:$", "Examples:", obj.docstring.value)

    def on_class_members(self, *, cls: Any, **_: Any) -> None:
        """Called when the members of a class are known: those of a named tuple are its fields."""
        if cls.docstring is None or "NamedTuple" not in map(str, cls.bases):
            return
        fields = [
            f"{name}: {member.annotation}" + (f" = {member.value}" if member.value else "")
            for name, member in cls.members.items()
            if member.is_attribute and "property" not in member.labels
        ]
        lines = "".join(f"        {field},\n" for field in fields)
        first, _, rest = cls.docstring.value.partition("\n\n")
        cls.docstring.value = f"{first}\n\n    {cls.name}(\n{lines}    )\n\n{rest}"
