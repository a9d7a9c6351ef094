"""Results on disk: whole or not at all, found again, never mixed up."""

from __future__ import annotations

import errno
import json
import math
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from fwnet.lab.paper.experiment import Profile, SeedResult
from fwnet.lab.paper.store import Store, StoreError, plain

from .toy import ToyConfig

CONFIG = ToyConfig(steps=3)


def result(seed: int = 0, loss: float = 1.0) -> SeedResult:
    return SeedResult(seed, {"loss": [loss, 0.5]}, 2.0, {"fwnet": "0"})


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    store = Store(tmp_path)
    path = store.write("toy", Profile.QUICK, CONFIG, result(3))
    assert path.name == "seed-3.json"
    back = store.done("toy", Profile.QUICK, CONFIG, 3)
    assert back is not None
    assert (back.seed, back.metrics, back.seconds) == (3, {"loss": [1.0, 0.5]}, 2.0)
    about = json.loads((path.parent / "config.json").read_text())
    assert about == {"experiment": "toy", "profile": "quick", "config": {"steps": 3}}


def test_another_configuration_or_profile_has_another_place(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write("toy", Profile.QUICK, CONFIG, result())
    assert store.done("toy", Profile.QUICK, ToyConfig(steps=4), 0) is None
    assert store.done("toy", Profile.PAPER, CONFIG, 0) is None
    assert store.done("toy", Profile.QUICK, CONFIG, 1) is None


@pytest.mark.parametrize("damage", ["cut", "empty", "changed", "other"])
def test_a_damaged_file_is_reported_and_counts_as_not_done(tmp_path: Path, damage: str) -> None:
    said: list[str] = []
    store = Store(tmp_path, warn=said.append)
    path = store.write("toy", Profile.QUICK, CONFIG, result())
    text = path.read_text()
    path.write_text(
        {
            "cut": text[: len(text) // 2],
            "empty": "",
            "changed": text.replace("0.5", "0.4"),
            "other": "[1, 2]",
        }[damage]
    )
    assert store.done("toy", Profile.QUICK, CONFIG, 0) is None
    assert said == [f"{path} is half-written or damaged: its seed counts as not done."]
    assert store.results() == []


@pytest.mark.parametrize(
    "change",
    [{"profile": "huge"}, {"seconds": None}, {"environment": []}, {"config": 3}, {"seed": "0"}],
)
def test_a_file_without_its_facts_is_damaged(tmp_path: Path, change: dict[str, object]) -> None:
    said: list[str] = []
    store = Store(tmp_path, warn=said.append)
    path = store.write("toy", Profile.QUICK, CONFIG, result())
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    assert store.results() == []
    assert said == [f"{path} is half-written or damaged: its seed counts as not done."]


def test_seeds_are_found_without_the_configuration_beside_them(tmp_path: Path) -> None:
    store = Store(tmp_path)
    (store.write("toy", Profile.QUICK, CONFIG, result()).parent / "config.json").unlink()
    (found,) = store.results()
    assert found.config == {"steps": 3}


def test_results_are_by_seed_and_of_the_newer_configuration(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for seed in (10, 2):
        store.write("toy", Profile.QUICK, CONFIG, result(seed))
    old = store.write("toy", Profile.QUICK, ToyConfig(steps=9), result(0))
    os.utime(old, (1, 1))
    (found,) = store.results()
    assert [each.seed for each in found.seeds] == [2, 10]
    assert found.config == {"steps": 3}
    np.testing.assert_array_equal(found.over_seeds("loss"), [[1.0, 0.5], [1.0, 0.5]])
    with pytest.raises(KeyError, match="toy, seed 2: no entry loss/Adam"):
        found.first("loss", "Adam")


def test_no_space_left_is_a_sentence_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path)
    kept = store.write("toy", Profile.QUICK, CONFIG, result(0)).read_text()

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match=r"no space is left\. Finished seeds are safe"):
        store.write("toy", Profile.QUICK, CONFIG, result(1))
    place = store.place("toy", Profile.QUICK, CONFIG)
    assert sorted(path.name for path in place.iterdir()) == ["config.json", "seed-0.json"]
    assert (place / "seed-0.json").read_text() == kept


def test_plain_values() -> None:
    value = {"a": torch.tensor([1.0, math.inf]), 2: (np.float32(0.1), True), "c": CONFIG}
    assert plain(value) == {"a": [1.0, None], "2": [0.100000001, True], "c": {"steps": 3}}
    with pytest.raises(TypeError, match="numbers, texts, arrays, lists and dictionaries; got set"):
        plain({"a": {1, 2}})
