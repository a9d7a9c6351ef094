"""The real files, where FWNET_DATA holds them: counts that their publishers state."""

from __future__ import annotations

import os

import numpy as np

from fwnet.data import available, load
from fwnet.data.checksums import CONTENTS
from fwnet.data.openml import content_checksum

COUNTS = {
    "mnist": [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949],
    "cifar10-inception": [1000] * 10,
    "a9a": [24_720, 7_841],
    "digits": [119, 121, 118, 122, 121, 121, 121, 119, 116, 120],  # two thirds of each
}


def test_the_sets_on_this_machine_are_the_published_ones() -> None:
    there = {name for name, where in available().items() if where is not None}
    assert "digits" in there
    assert len(there) > 2 or not os.environ.get("FWNET_DATA")  # a folder that holds nothing
    for name in there & COUNTS.keys():
        dataset = load(name)
        np.testing.assert_array_equal(np.bincount(dataset.y), COUNTS[name])
        assert len(dataset.classes) == len(COUNTS[name])


def test_the_content_matches_its_checksum() -> None:
    sets = [load("mnist")] if available()["mnist"] else []  # CIFAR takes ten seconds to unpack
    for dataset in sets:
        train, test = CONTENTS[dataset.name]
        assert content_checksum((dataset.x, dataset.y)) == train
        assert content_checksum((dataset.x_test, dataset.y_test)) == test
