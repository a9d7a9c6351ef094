"""Data by name: from every form of the files, checked, with clear errors."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import lzma
import os
import pickle
import struct
import sys
import tarfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import sklearn.datasets
import torch

from fwnet.data import NAMES, DataError, available, extract_features, load, note_sources, openml
from fwnet.data import download as official
from fwnet.data.checksums import CHECKSUMS, CONTENTS
from fwnet.data.formats import pickled_batch
from fwnet.data.openml import content_checksum

RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, (60, 3, 32, 32), dtype=np.uint8)
LABELS = np.arange(60, dtype=np.uint8) % 10
NAMES_OF_BATCHES = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """FWNET_DATA and the cache in a folder of the test; no known checksums."""
    data = tmp_path / "data"
    data.mkdir()
    monkeypatch.setenv("FWNET_DATA", str(data))
    monkeypatch.setenv("FWNET_CACHE", str(tmp_path / "cache"))
    closed = {name: ("http://127.0.0.1:9", files) for name, (_, files) in official._SITES.items()}
    monkeypatch.setattr(official, "_SITES", closed)  # no test asks a site of others
    return data


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our small files have the names of the official ones, but not their checksums."""
    for name in list(CHECKSUMS):
        monkeypatch.delitem(CHECKSUMS, name)


def write_idx(path: Path, array: np.ndarray) -> None:
    head = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    content = head + array.tobytes()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


def write_mnist(folder: Path, suffix: str = ".gz") -> None:
    folder.mkdir(parents=True)
    for part, rows in (("train", slice(0, 50)), ("t10k", slice(50, 60))):
        write_idx(folder / f"{part}-images-idx3-ubyte{suffix}", PIXELS[rows, 0, :28, :28])
        write_idx(folder / f"{part}-labels-idx1-ubyte{suffix}", LABELS[rows])


def batch_bytes(kind: str, i: int, labels: int = 1) -> bytes:
    """Ten images in one of CIFAR's forms, written here by the description of the form."""
    x, y = PIXELS[10 * i : 10 * i + 10], LABELS[10 * i : 10 * i + 10]
    if kind == "bin":
        columns = [np.zeros((10, labels - 1), np.uint8), y[:, None], x.reshape(10, -1)]
        return np.concatenate(columns, axis=1).tobytes()
    if kind == "py":
        key = "labels" if labels == 1 else "fine_labels"
        content = pickle.dumps({"data": x.reshape(10, -1), key: y.tolist()}, protocol=2)
        return content.replace(b"numpy._core", b"numpy.core")  # as NumPy 1 wrote it
    r, g, b = (x[:, c].astype(int) for c in range(3))
    planes = np.stack([g, r - g, b - g])
    planes = np.diff(np.diff(planes, axis=3, prepend=0), axis=2, prepend=0)
    return lzma.compress(y.tobytes() + (planes % 256).astype(np.uint8).tobytes())


def write_archive(path: Path, files: dict[str, bytes]) -> None:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(f"some-folder/{name}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))


@pytest.mark.parametrize(("name", "seed"), [("digits", 0), ("circles", 12345)])
def test_a_set_of_scikit_learn_says_how_to_install_it(
    name: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fwnet.data.load import _load

    _load.cache_clear()
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(ImportError, match=rf'load\("{name}"\) needs scikit-learn\. .*fwnet\[svm\]'):
        load(name, seed=seed)


def test_a_data_loader_of_torch_yields_every_training_point_once(folder: Path) -> None:
    digits = load("digits")
    batches = list(torch.utils.data.DataLoader(digits, batch_size=500, shuffle=True))
    assert [len(x) for x, _ in batches] == [500, 500, 198]
    found = {
        (tuple(p.flatten().tolist()), int(c)) for x, y in batches for p, c in zip(x, y, strict=True)
    }
    pixels, classes = sklearn.datasets.load_digits(return_X_y=True)
    known = {(tuple(p), int(c)) for p, c in zip((pixels / 16).tolist(), classes, strict=True)}
    assert len(found) == len(digits) == 1198
    assert found <= known


@pytest.mark.parametrize("place", ["mnist", "MNIST/raw", "."])
@pytest.mark.parametrize("suffix", [".gz", ""])
def test_mnist_from_idx_files(folder: Path, place: str, suffix: str, unchecked: None) -> None:
    target = folder / place
    if place == ".":
        folder.rmdir()
    write_mnist(target, suffix)
    mnist = load("mnist")
    np.testing.assert_array_equal(mnist.x, PIXELS[:50, :1, :28, :28])
    np.testing.assert_array_equal(mnist.y_test, LABELS[50:])
    x, _ = mnist.train([0, 2])
    np.testing.assert_allclose(x, PIXELS[[0, 2], :1, :28, :28] / 255, rtol=1e-6)


@pytest.mark.parametrize("form", ["xz", "bin", "py", "bin.tar.gz", "py.tar.gz"])
def test_cifar10_from_every_form(folder: Path, form: str, unchecked: None) -> None:
    kind, _, archive = form.partition(".")
    suffix = {"xz": ".xz", "bin": ".bin", "py": ""}[kind]
    files = {f"{name}{suffix}": batch_bytes(kind, i) for i, name in enumerate(NAMES_OF_BATCHES)}
    if archive:
        official = {"bin": "cifar-10-binary.tar.gz", "py": "cifar-10-python.tar.gz"}[kind]
        write_archive(folder / official, files)
    else:
        (folder / "cifar-10").mkdir()
        for name, content in files.items():
            (folder / "cifar-10" / name).write_bytes(content)
    cifar = load("cifar10")
    np.testing.assert_array_equal(cifar.x, PIXELS[:50])
    np.testing.assert_array_equal(cifar.x_test, PIXELS[50:])
    np.testing.assert_array_equal(cifar.y, LABELS[:50])
    assert cifar.classes[int(cifar.y[1])] == "automobile"
    assert cifar.source.startswith("FWNET_DATA/")


@pytest.mark.parametrize("kind", ["bin", "py"])
@pytest.mark.parametrize("archived", [False, True])
def test_cifar100_has_fine_labels(folder: Path, kind: str, archived: bool, unchecked: None) -> None:
    suffix, word = {"bin": (".bin", "binary"), "py": ("", "python")}[kind]
    files = {f"{part}{suffix}": batch_bytes(kind, i, 2) for i, part in enumerate(("train", "test"))}
    if archived:
        write_archive(folder / f"cifar-100-{word}.tar.gz", files)
    else:
        (folder / f"cifar-100-{word}").mkdir()
        for name, content in files.items():
            (folder / f"cifar-100-{word}" / name).write_bytes(content)
    cifar = load("cifar100")
    np.testing.assert_array_equal(cifar.x, PIXELS[:10])
    np.testing.assert_array_equal(cifar.y_test, LABELS[10:20])


def test_a_pickle_makes_arrays_and_nothing_else(folder: Path, unchecked: None) -> None:
    class Trap:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.system, ("false",)

    for name in NAMES_OF_BATCHES:
        (folder / name).write_bytes(pickle.dumps({"data": Trap(), "labels": []}))
    with pytest.raises(DataError, match=r"it refers to \w+\.system, which no batch needs"):
        load("cifar10")


def test_a_damaged_file_is_named_with_its_checksum(folder: Path) -> None:
    write_mnist(folder / "mnist")
    path = folder / "mnist" / "train-images-idx3-ubyte.gz"
    found = hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()
    with pytest.raises(DataError) as error:
        load("mnist")
    assert str(error.value) == (
        f"{path} is damaged: its checksum must be md5:f68b3c2dcbeaaa9fbdd348bbdeb94873; got "
        f"md5:{found} ({path.stat().st_size} bytes). Delete it and download it again."
    )


def test_a_missing_file_is_named_with_its_checksum(folder: Path) -> None:
    write_mnist(folder / "mnist")
    (folder / "mnist" / "t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(
        DataError, match=r"t10k-labels-idx1-ubyte\.gz is missing, although .* checksum "
    ):
        load("mnist")


def test_a_file_cut_short_is_damaged(folder: Path, unchecked: None) -> None:
    write_mnist(folder / "mnist", suffix="")
    path = folder / "mnist" / "train-images-idx3-ubyte"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DataError, match=r"header says \(50, 28, 28\), and 39199 bytes follow"):
        load("mnist")


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        (
            "train-images-idx3-ubyte",
            b"\0\0\x08\3\0",
            r"IDX file of bytes of rank 3: .* has 5 bytes",
        ),
        ("train-images-idx3-ubyte", b"\0\0\x08\1" + bytes(4), r"of rank 3: .*\\x08\\x01"),
        ("train-labels-idx1-ubyte", b"\0\0\x08\3" + bytes(12), r"of rank 1: .*\\x08\\x03"),
    ],
)
def test_an_idx_file_has_the_axes_of_its_name(
    folder: Path, unchecked: None, name: str, content: bytes, text: str
) -> None:
    write_mnist(folder / "mnist", suffix="")
    (folder / "mnist" / name).write_bytes(content)
    with pytest.raises(DataError, match=text):
        load("mnist")


def test_points_have_one_shape(folder: Path, unchecked: None) -> None:
    write_mnist(folder / "mnist", suffix="")
    write_idx(folder / "mnist" / "train-images-idx3-ubyte", PIXELS[:50, 0, :20, :28])
    with pytest.raises(
        ValueError, match=r"mnist \(FWNET_DATA/mnist\): points must have one shape; "
    ):
        load("mnist")


@pytest.mark.parametrize(
    "batch",
    [
        {"data": PIXELS[:2].reshape(2, -1)[:, :3000], "labels": [0, 1]},
        {"data": PIXELS[:2].reshape(2, -1), "labels": [-1, 300]},
        {"data": PIXELS[:2].reshape(2, -1), "labels": ["cat", "dog"]},
        [PIXELS[:2]],
    ],
)
def test_a_pickle_that_is_not_a_batch_raises_a_data_error(
    folder: Path, unchecked: None, batch: object
) -> None:
    for name in NAMES_OF_BATCHES:
        (folder / name).write_bytes(pickle.dumps(batch))
    with pytest.raises(DataError, match="data_batch_1 is not a CIFAR batch for Python: "):
        load("cifar10")


@pytest.mark.parametrize(("old", "new"), [(b"latin1", b"latiX1"), (b"labels", b"lable\xff")])
def test_a_damaged_pickle_raises_a_data_error(old: bytes, new: bytes) -> None:
    content = pickle.dumps({"data": PIXELS[0].reshape(1, -1), "labels": [1]}, protocol=2)
    assert old in content
    with pytest.raises(DataError, match="data_batch_1 is not a CIFAR batch for Python: "):
        pickled_batch(content.replace(old, new), Path("data_batch_1"))


def test_an_incomplete_set_is_not_available(folder: Path) -> None:
    write_mnist(folder / "mnist")
    (folder / "mnist" / "t10k-labels-idx1-ubyte.gz").unlink()
    assert available()["mnist"] is None
    assert available()["digits"] == "scikit-learn"


def test_libsvm_files_by_name(folder: Path) -> None:
    (folder / "svm").mkdir()
    (folder / "svm" / "small.bz2").write_bytes(bz2.compress(b"+1 1:0.5 3:2\n-1 2:1\n"))
    (folder / "svm" / "small.t").write_bytes(b"-1 5:1\n")
    small = load("small")
    np.testing.assert_array_equal(small.x.toarray(), [[0.5, 0, 2, 0, 0], [0, 1, 0, 0, 0]])
    assert small.x_test.shape == (1, 5)
    assert small.classes == ("-1", "1")
    assert [*small.y, *small.y_test] == [1, 0, 0]
    (folder / "svm" / "bad").write_bytes(b"this is not LIBSVM\n")
    with pytest.raises(DataError, match="is not a file in LIBSVM format"):
        load("bad")
    (folder / "svm" / "wide").write_bytes(b"+1 99999999999:1\n")
    with pytest.raises(DataError, match="wide is not a file in LIBSVM format: value too large"):
        load("wide")
    (folder / "svm" / "none").write_bytes(b"")
    with pytest.raises(DataError, match="none has no rows"):
        load("none")
    (folder / "svm" / "holes").write_bytes(b"+1 1:nan\n-1 1:2\n")
    with pytest.raises(DataError, match="holes holds NaN or infinite numbers"):
        load("holes")


def test_a_file_that_was_written_again_is_read_again(folder: Path) -> None:
    path = folder / "mine"
    path.write_bytes(b"+1 1:1\n-1 1:2\n")
    first = load("mine")
    assert load("mine") is first
    path.write_bytes(b"+1 1:1\n-1 1:2\n+1 1:3\n")
    os.utime(path, ns=(1, 1))  # the clock of a file system may be slow
    assert load("mine").x.shape == (3, 1)
    with pytest.raises(TypeError, match=r"load\(name\) must be a string such as 'digits'; got 3"):
        load(3)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"extractor": "inception"}, "extractor must be a function; got 'inception'"),
        ({"size": 0}, "size must be a whole number of at least 1; got 0"),
        ({"batch_size": 0.5}, "batch_size must be a whole number of at least 1; got 0.5"),
        ({"images": [[1.0]]}, r"images must have shape \(n, channels.*got \(1, 1\)"),
        ({"images": np.ones((2, 8, 8, 4)), "size": 4}, "one or three channels; got 8"),
    ],
)
def test_features_need_images(options: dict[str, object], text: str) -> None:
    given = {"extractor": lambda x: x, "images": np.ones((2, 1, 4, 4), dtype=np.float32)} | options
    with pytest.raises((ValueError, TypeError), match=text):
        extract_features(**given)


def test_features_of_ones_own_need_no_checksum(folder: Path) -> None:
    with pytest.raises(
        DataError, match=r"no inception_v3_pool3\.npz in .* make features of your own"
    ):
        load("cifar10-inception")
    (folder / "cifar10-inception").mkdir()
    arrays = {"train_x": np.eye(3), "train_y": [0, 9, 1], "test_x": np.eye(3)[:1], "test_y": [2]}
    np.savez(folder / "cifar10-inception" / "features.npz", **arrays)
    own = load("cifar10-inception")
    np.testing.assert_array_equal(own.train()[0], np.eye(3))
    assert own.source == "FWNET_DATA/cifar10-inception/features.npz"
    (folder / "inception_v3_pool3.npz").write_bytes(b"not the published one")
    with pytest.raises(DataError, match=r"inception_v3_pool3\.npz is damaged: .*sha256:5ed0abea"):
        load("cifar10-inception", download=False)  # another key of what is kept


def packed(**arrays: object) -> bytes:
    content = io.BytesIO()
    np.savez(content, **arrays)
    return content.getvalue()


FEATURES = {"train_x": np.eye(3), "train_y": [0, 9, 1], "test_x": np.eye(3)[:1], "test_y": [2]}


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", r"features\.npz is damaged: No data left"),
        (packed(**FEATURES)[:200], r"features\.npz is damaged: "),
        (packed(train_x=np.eye(3)), r"features\.npz is damaged: .*train_y"),
        (packed(**FEATURES | {"train_x": np.eye(3) * np.nan}), "features that are not finite"),
        (packed(**FEATURES | {"test_y": [0.5]}), "classes of type float64; they must be integers"),
        (packed(**FEATURES | {"train_y": [[0], [9], [1]]}), r"got shapes \(3, 3\) and \(3, 1\)"),
        (packed(**FEATURES | {"test_x": np.ones((1, 2))}), r"training have \(3,\), those for test"),
    ],
)
def test_features_of_ones_own_are_checked(folder: Path, content: bytes, text: str) -> None:
    (folder / "cifar10-inception").mkdir()
    (folder / "cifar10-inception" / "features.npz").write_bytes(content)
    with pytest.raises((DataError, ValueError), match=text):
        load("cifar10-inception")


def test_unknown_names_get_a_hint() -> None:
    with pytest.raises(DataError, match=r"no data set 'minst'\. Did you mean 'mnist'\? Known: "):
        load("minst")


def test_a_wrong_folder_raises_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FWNET_DATA", "/nowhere")
    with pytest.raises(DataError, match="FWNET_DATA is '/nowhere', which is not a folder"):
        load("digits")


def test_without_a_download_a_missing_set_raises_a_clear_error() -> None:
    with pytest.raises(DataError, match="mnist is not here: no file of it in"):
        load("mnist", download=False)


def test_a_download_is_checked_and_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pixels, labels = PIXELS[:, :1, :28, :28], LABELS

    def answer(**arguments: object) -> SimpleNamespace:  # floats and texts, as OpenML has them
        return SimpleNamespace(data=pixels.reshape(60, -1).astype(float), target=labels.astype(str))

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", answer)
    monkeypatch.setitem(openml._SETS, "mnist", (554, 50, (1, 28, 28)))
    with pytest.raises(
        DataError, match="train part of mnist from OpenML's set 554 is not the publ"
    ):
        load("mnist")
    sums = [content_checksum((pixels[p], labels[p])) for p in (slice(50), slice(50, None))]
    monkeypatch.setitem(CONTENTS, "mnist", tuple(sums))
    assert load("mnist").source == "OpenML 554"
    path = tmp_path / "cache" / "mnist.npz"
    again = tmp_path / "again"  # another cache, to which the file was copied
    again.mkdir()
    (again / "mnist.npz").write_bytes(path.read_bytes())
    monkeypatch.setenv("FWNET_CACHE", str(again))
    monkeypatch.delattr(sklearn.datasets, "fetch_openml")
    kept = load("mnist")
    assert kept.source == available()["mnist"] == "cache/mnist.npz"
    np.testing.assert_array_equal(kept.x_test, pixels[50:])
    monkeypatch.setenv("FWNET_CACHE", str(tmp_path / "damaged"))
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "mnist.npz").write_bytes(path.read_bytes()[:1000])
    with pytest.raises(DataError, match=r"mnist\.npz is damaged"):
        load("mnist")


def test_embedded_sets_are_always_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FWNET_DATA")
    found = available()
    assert list(found) == list(NAMES)
    assert {name for name, where in found.items() if where} == {"circles", "digits"}
    digits = load("digits")
    whole = sklearn.datasets.load_digits()
    assert digits.x.max() == 16
    assert digits.x.sum() + digits.x_test.sum() == whole.data.sum()
    circles, again, other = (load("circles", seed=s) for s in (1, 1, 2))
    assert circles is again
    assert not np.array_equal(circles.x, other.x)
    assert np.abs(circles.x).max() == 1
    inner = np.hypot(*circles.x[circles.y == 1].T).mean()
    outer = np.hypot(*circles.x[circles.y == 0].T).mean()
    np.testing.assert_allclose(inner / outer, 0.2, atol=0.05)  # noise pushes the inner ring out


def test_a_set_is_read_only() -> None:
    with pytest.raises(ValueError, match="read-only"):
        load("digits").x[0] = 0


def test_sources_are_recorded_within_the_block() -> None:
    """By name, with a fingerprint of the content; nothing outside the context."""
    with note_sources() as noted:
        digits, circles = load("digits"), load("circles", seed=3)
        load("digits")
        load("circles", seed=31)
    load("circles", seed=4)
    assert list(noted) == [
        f"digits: {digits.source}", "circles: made, seed 3", "circles: made, seed 31",
    ]  # fmt: skip
    assert noted["circles: made, seed 3"] == circles.fingerprint()
    changed = replace(circles, y=1 - circles.y)
    moved = replace(circles, source="elsewhere")
    assert moved.fingerprint() == circles.fingerprint() != changed.fingerprint()


def test_a_sparse_set_has_a_fingerprint(folder: Path) -> None:
    (folder / "svm").mkdir()
    for name, rows in (("one", "+1 1:2\n-1 2:3\n"), ("two", "+1 1:2\n-1 2:4\n")):
        for part in (name, f"{name}.t"):
            (folder / "svm" / part).write_text(rows)
    assert load("one").fingerprint() != load("two").fingerprint()
