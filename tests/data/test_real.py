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
    there = available()
    assert there["digits"] == "scikit-learn"
    assert there["mnist"] is not None or not os.environ.get("FWNET_DATA")
    for name, counts in COUNTS.items():
        if there[name] is not None:
            dataset = load(name)
            np.testing.assert_array_equal(np.bincount(dataset.y), counts)
            assert len(dataset.classes) == len(counts)


def test_the_content_of_mnist_is_the_one_that_downloads_are_held_to() -> None:
    if available()["mnist"] is None:
        assert not os.environ.get("FWNET_DATA")
        return
    mnist = load("mnist")
    assert content_checksum((mnist.x, mnist.y)) == CONTENTS["mnist"][0]
    assert content_checksum((mnist.x_test, mnist.y_test)) == CONTENTS["mnist"][1]
