"""Controllers on the Hub: a folder stands in for it."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from fwnet import learned
from learned_cases import with_random_weights


class FolderHub:
    """What is used of huggingface_hub, with repositories in a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.calls: list[Any] = []

    def create_repo(self, repo_id: str, *, private: bool, exist_ok: bool) -> None:
        self.calls.append(("create_repo", repo_id, private, exist_ok))
        (self.root / repo_id).mkdir(parents=True, exist_ok=exist_ok)

    def upload_folder(self, *, repo_id: str, folder_path: str, commit_message: str) -> None:
        self.calls.append(("upload_folder", repo_id, commit_message))
        shutil.copytree(folder_path, self.root / repo_id, dirs_exist_ok=True)

    def hf_hub_download(self, repo_id: str, filename: str, *, revision: str | None) -> str:
        self.calls.append(("hf_hub_download", repo_id, revision))
        return str(self.root / repo_id / filename)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FolderHub:
    found = FolderHub(tmp_path / "hub")
    client = SimpleNamespace(HfApi=lambda: found, hf_hub_download=found.hf_hub_download)
    monkeypatch.setitem(sys.modules, "huggingface_hub", client)
    return found


def test_a_controller_goes_to_the_hub_and_comes_back(hub: FolderHub) -> None:
    mine = with_random_weights(learned.LearnedStep(), 1, 0.5)
    assert learned.push_to_hub(mine, "me/mine", {"note": "β"}, private=True) == "me/mine"
    back = learned.from_pretrained("me/mine", revision="v1")
    assert type(back) is learned.LearnedStep
    assert back.card == {"note": "β"}
    for one, other in zip(mine.parameters(), back.parameters(), strict=True):
        assert torch.equal(one, other)
    assert hub.calls[0] == ("create_repo", "me/mine", True, True)
    assert hub.calls[-1] == ("hf_hub_download", "me/mine", "v1")
    page = (hub.root / "me/mine/README.md").read_text()
    assert page.startswith("---\nlibrary_name: fwnet\n")
    assert 'learned.from_pretrained("me/mine")' in page
    assert '"note": "β"' in page


def test_what_is_here_is_not_asked_for(
    hub: FolderHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("runs/mine").mkdir(parents=True)
    learned.save(learned.LearnedStep(), "runs/mine/controller.fwnet")
    for place in ("runs/mine", Path("runs/mine"), "simplex-qp", "runs/mine/controller.fwnet"):
        assert isinstance(learned.from_pretrained(place), learned.Controller)
    assert hub.calls == []
    with pytest.raises(ValueError, match="revision='v1' is for the Hub"):
        learned.from_pretrained("simplex-qp", revision="v1")


def test_what_cannot_be_pushed(hub: FolderHub) -> None:
    with pytest.raises(ValueError, match="must be \"owner/name\"; got 'mine'"):
        learned.push_to_hub(learned.LearnedStep(), "mine")
    with pytest.raises(TypeError, match=r"save\(controller\) must be a Controller"):
        learned.push_to_hub(torch.nn.Linear(2, 2), "me/mine")  # type: ignore[arg-type]
    assert hub.calls == []


def test_without_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ImportError, match=r"no file or folder 'me/mine'.*fwnet\[hub\]"):
        learned.from_pretrained("me/mine")
    with pytest.raises(ImportError, match=r'push_to_hub needs .*pip install "fwnet\[hub\]"'):
        learned.push_to_hub(learned.LearnedStep(), "me/mine")
