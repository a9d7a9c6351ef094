"""Controllers on the Hugging Face Hub: a repository with `controller.fwnet` and a page about it."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fwnet.learned.checkpoints import BEST, load, save
from fwnet.learned.controllers import Learned
from fwnet.numerics.optional import optional

_PAGE = """---
library_name: fwnet
tags: [frank-wolfe, learned-optimization]
---
# {name}

A `{kind}` of fwnet, with these options:

{options}

What is known about it:

{card}

```python
from fwnet import learned

controller = learned.from_pretrained("{name}")
```
"""


def from_pretrained(name_or_path: str | Path, *, revision: str | None = None) -> Any:
    """Read a controller: whatever `load` can read, else from the Hub.

    Files hold numbers and JSON only, so a controller from a stranger runs no code. The Hub needs
    `pip install "fwnet[hub]"`.

    Arguments:
        name_or_path: "owner/name" on the Hub, or whatever `load` takes: a file, a folder, the name
            of a shipped controller.
        revision: branch, tag or commit on the Hub.

    Example:
        >>> from fwnet import learned
        >>> type(learned.from_pretrained("simplex-qp")).__name__
        'LearnedDirection'
    """
    asked = str(name_or_path)
    here = isinstance(name_or_path, Path) or asked.count("/") != 1 or Path(asked).exists()
    if here:
        if revision is not None:
            raise ValueError(f"revision={revision!r} is for the Hub; {asked!r} is not there.")
        return load(name_or_path)
    caller = f"there is no file or folder {asked!r}; from_pretrained reads the Hub and"
    hub = optional("huggingface_hub", caller, "hub")
    return load(Path(hub.hf_hub_download(asked, BEST, revision=revision)))


def push_to_hub(
    controller: Learned,
    name: str,
    card: Mapping[str, Any] | None = None,
    *,
    private: bool = False,
    message: str = "Add a controller of fwnet",
) -> str:
    """Write a controller, and a page that shows its card, to a repository of the Hub.

    The repository is made if it does not exist. Needs `pip install "fwnet[hub]"` and a login:
    `hf auth login`.

    Arguments:
        controller: as for `save`.
        name: "owner/name".
        card: as for `save`: the controller's own if left out.
        private: whether a new repository is hidden from others.
        message: of the commit.

    Returns:
        The name of the repository, which `from_pretrained` takes.

    Example:
        >>> from fwnet import learned
        >>> def share(controller):  # after `hf auth login`
        ...     return learned.push_to_hub(controller, "owner/name")
        ...
    """
    if not isinstance(name, str) or name.count("/") != 1:
        raise ValueError(f'push_to_hub(name) must be "owner/name"; got {name!r}.')
    with tempfile.TemporaryDirectory() as folder:
        save(controller, Path(folder, BEST), card)
        Path(folder, "README.md").write_text(_page(name, load(folder)), encoding="utf-8")
        hub = optional("huggingface_hub", "push_to_hub", "hub").HfApi()
        hub.create_repo(name, private=private, exist_ok=True)
        hub.upload_folder(repo_id=name, folder_path=folder, commit_message=message)
    return name


def _page(name: str, controller: Learned) -> str:
    parts = {"options": controller.options, "card": controller.card}
    shown = {key: json.dumps(value, indent=2, ensure_ascii=False) for key, value in parts.items()}
    blocks = {key: f"```json\n{text}\n```" for key, text in shown.items()}
    return _PAGE.format(name=name, kind=type(controller).__name__, **blocks)
