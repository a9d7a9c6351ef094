"""python tools/absolute_links.py URL: makes the links of README.md absolute, for a package index.

URL is the README's own address, as https://HOST/OWNER/NAME/blob/v0.1.0/README.md. The release
workflow calls this before it builds, so that no address stands in the sources.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from urllib.parse import urljoin

README = Path(__file__).parents[1] / "README.md"
LINK = re.compile(r'(?<=\]\()[^)\s]+(?=\))|(?<=src=")[^"]+(?=")')


def absolute(text: str, address: str) -> str:
    """The text with every link resolved against its address; pictures from their raw files."""

    def resolved(match: re.Match[str]) -> str:
        link = urljoin(address, match.group())
        return link.replace("/blob/", "/raw/", 1) if link.endswith(".png") else link

    return LINK.sub(resolved, text)


if __name__ == "__main__":
    README.write_text(absolute(README.read_text(), sys.argv[1]))
