"""python tools/absolute_links.py URL: addresses for a package index.

Makes the links of README.md absolute, and adds the project's links to pyproject.toml. Pages lead to
the site, other files to the repository. URL is the README's own address, as
https://HOST/OWNER/NAME/blob/v0.1.0/README.md. The release workflow calls this before it builds, so
that no address stands in the sources.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from urllib.parse import urljoin

ROOT = Path(__file__).parents[1]
LINK = re.compile(r'(?<=\]\()[^)\s]+(?=\))|(?<=src=")[^"]+(?=")')
PAGE = re.compile(r"docs/([\w-]+)\.md(#.*)?")
MADE = {  # pages of the site that are made from other files
    "examples": "docs/gallery.md",
    "notebooks": "docs/notebooks.md",
    "benchmarks/README.md": "docs/benchmarks.md",
}


def absolute(text: str, address: str) -> str:
    """The text with every link resolved against its address; pictures from their raw files."""

    def resolved(match: re.Match[str]) -> str:
        page = PAGE.fullmatch(MADE.get(match.group(), match.group()))
        if page is not None:
            return f"{site(address)}{page.group(1)}.html{page.group(2) or ''}"
        link = urljoin(address, match.group())
        return link.replace("/blob/", "/raw/", 1) if link.endswith(".png") else link

    return LINK.sub(resolved, text)


def site(address: str) -> str:
    """Where the workflow of the documentation deploys the site."""
    owner, name = address.partition("/blob/")[0].split("/")[-2:]
    return f"https://{owner}.github.io/{name}/"


def project_urls(address: str) -> str:
    """The table of pyproject.toml with the links beside a release."""
    repository = address.partition("/blob/")[0]
    links = {
        "Documentation": site(address),
        "Source": repository,
        "Issues": f"{repository}/issues",
        "Changelog": urljoin(address, "CHANGELOG.md"),
    }
    return "\n".join(["", "[project.urls]", *(f'{k} = "{link}"' for k, link in links.items()), ""])


if __name__ == "__main__":
    readme, project = ROOT / "README.md", ROOT / "pyproject.toml"
    readme.write_text(absolute(readme.read_text(), sys.argv[1]))
    project.write_text(project.read_text() + project_urls(sys.argv[1]))
