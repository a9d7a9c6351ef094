"""Downloads against a server of our own: broken, resumed, corrupted, out of reach, out of space."""

from __future__ import annotations

import errno
import hashlib
import io
import re
import shutil
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn.datasets

from data.test_load import LABELS, PIXELS, write_mnist
from fwnet.data import DataError, load
from fwnet.data import download as official
from fwnet.data.checksums import CHECKSUMS
from fwnet.data.download import Unreachable, fetch

CONTENT = np.random.default_rng(0).integers(0, 256, 300_000, dtype=np.uint8).tobytes()


class Site(ThreadingHTTPServer):
    """Serves `files`, records the Range of every request, and misbehaves on demand."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {"/file": CONTENT}
        self.asked: list[str] = []
        self.knows_ranges = True
        self.breaks_after: list[int] = []  # bytes of the next answers
        self.says_start: int | None = None  # a lie about where the answer starts
        self.url = f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Site

    def do_GET(self) -> None:
        site, wanted = self.server, self.headers.get("Range", "")
        site.asked.append(wanted)
        content = site.files.get(self.path)
        if content is None:
            self.send_error(404, "Not Found")
            return
        start = int(re.findall(r"\d+", wanted)[0]) if wanted and site.knows_ranges else 0
        if start >= len(content):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        if start:
            said = start if site.says_start is None else site.says_start
            self.send_header("Content-Range", f"bytes {said}-{len(content) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        end = start + site.breaks_after.pop(0) if site.breaks_after else None
        self.wfile.write(content[start:end])

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing on the screen."""


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as site:
        thread = threading.Thread(target=site.serve_forever, args=(0.01,))
        thread.start()
        yield site
        site.shutdown()
        thread.join()


def md5(content: bytes) -> str:
    return f"md5:{hashlib.md5(content, usedforsecurity=False).hexdigest()}"


def test_a_broken_download_resumes(site: Site, tmp_path: Path) -> None:
    site.breaks_after = [100_000, 50_000]
    fetch(f"{site.url}/file", tmp_path / "file", md5(CONTENT))
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert site.asked == ["", "bytes=100000-", "bytes=150000-"]
    assert not (tmp_path / "file.part").exists()


def test_a_terminal_shows_a_bar(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    site.breaks_after = [100_000]
    fetch(f"{site.url}/file", tmp_path / "file", md5(CONTENT))
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert "file" in screen.getvalue()
    assert "200.0/200.0 kB" in screen.getvalue()  # what was missing after the break


def test_complete_files_are_not_downloaded_again(site: Site, tmp_path: Path) -> None:
    (tmp_path / "file.part").write_bytes(CONTENT[:299_999])
    fetch(f"{site.url}/file", tmp_path / "file", md5(CONTENT))
    assert site.asked == ["bytes=299999-"]
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_a_complete_part_needs_no_download(site: Site, tmp_path: Path) -> None:
    (tmp_path / "file.part").write_bytes(CONTENT)
    fetch(f"{site.url}/file", tmp_path / "file", md5(CONTENT))  # the server answers 416
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_a_server_without_ranges_starts_over(site: Site, tmp_path: Path) -> None:
    site.knows_ranges = False
    (tmp_path / "file.part").write_bytes(b"x" * 1000)
    fetch(f"{site.url}/file", tmp_path / "file", md5(CONTENT))
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_a_part_of_another_file_is_dropped_once(site: Site, tmp_path: Path) -> None:
    (tmp_path / "file.part").write_bytes(b"x" * 1000)
    fetch(f"{site.url}/file", tmp_path / "file", md5(CONTENT))
    assert site.asked == ["bytes=1000-", ""]
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_a_wrong_file_is_named_with_both_checksums(site: Site, tmp_path: Path) -> None:
    expected = md5(b"another")
    with pytest.raises(DataError) as error:
        fetch(f"{site.url}/file", tmp_path / "file", expected)
    assert str(error.value) == (
        f"{site.url}/file is not the published file: its checksum must be {expected}; got "
        f"{md5(CONTENT)} (300000 bytes)."
    )
    assert list(tmp_path.iterdir()) == []


def test_a_broken_connection_keeps_the_received_bytes(site: Site, tmp_path: Path) -> None:
    site.breaks_after = [1000, 0]
    with pytest.raises(DataError) as error:
        fetch(f"{site.url}/file", tmp_path / "file", md5(CONTENT))
    assert re.search(
        r"broke off after 1000 bytes \(299000 of 300000 bytes are mi", str(error.value)
    )
    assert f"kept in {tmp_path / 'file.part'}; the same call resumes from there" in str(error.value)
    assert (tmp_path / "file.part").read_bytes() == CONTENT[:1000]
    fetch(f"{site.url}/file", tmp_path / "file", md5(CONTENT))
    assert site.asked[-1] == "bytes=1000-"


def test_a_server_that_sends_another_part_is_not_trusted(site: Site, tmp_path: Path) -> None:
    site.says_start = 7
    (tmp_path / "file.part").write_bytes(CONTENT[:1000])
    with pytest.raises(Unreachable, match="the server did not continue at byte 1000"):
        fetch(f"{site.url}/file", tmp_path / "file", md5(CONTENT))
    assert (tmp_path / "file.part").read_bytes() == CONTENT[:1000]


def test_a_missing_page_is_reported(site: Site, tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match=r"/nothing answers 404 Not Found\."):
        fetch(f"{site.url}/nothing", tmp_path / "file", "md5:0")


@pytest.mark.parametrize(
    ("stop", "raised", "words"),
    [
        (OSError(errno.ENOSPC, "No space"), DataError, "no space is left. The 1000 bytes received"),
        (KeyboardInterrupt(), KeyboardInterrupt, "^$"),
    ],
)
def test_an_interrupted_download_keeps_its_bytes(
    site: Site,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    stop: BaseException,
    raised: type[BaseException],
    words: str,
) -> None:
    def copy(source: Any, target: Any, length: int) -> None:
        target.write(source.read(1000))
        raise stop

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "copyfileobj", copy)
        with pytest.raises(raised, match=words):
            fetch(f"{site.url}/file", tmp_path / "file", md5(CONTENT))
    assert (tmp_path / "file.part").read_bytes() == CONTENT[:1000]
    fetch(f"{site.url}/file", tmp_path / "file", md5(CONTENT))
    assert site.asked[-1] == "bytes=1000-"


@pytest.fixture
def cache(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, no FWNET_DATA, and a small MNIST on our site."""
    monkeypatch.delenv("FWNET_DATA", raising=False)
    monkeypatch.setenv("FWNET_CACHE", str(tmp_path / "cache"))
    write_mnist(tmp_path / "site")
    for path in (tmp_path / "site").iterdir():
        site.files[f"/mnist/{path.name}"] = path.read_bytes()
        monkeypatch.setitem(CHECKSUMS, path.name, md5(path.read_bytes()))
    monkeypatch.setitem(
        official._SITES, "mnist", (f"{site.url}/mnist", official._SITES["mnist"][1])
    )
    return tmp_path / "cache"


def test_load_downloads_once(site: Site, cache: Path) -> None:
    mnist = load("mnist")
    np.testing.assert_array_equal(mnist.x, PIXELS[:50, :1, :28, :28])
    np.testing.assert_array_equal(mnist.y_test, LABELS[50:])
    assert mnist.source == "cache/mnist"
    assert len(site.asked) == 4
    official.download("mnist")  # another process that waited for the first
    assert len(site.asked) == 4


def test_load_downloads_only_missing_files(
    site: Site, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = official._SITES["mnist"][1][-1]
    content = site.files.pop(f"/mnist/{last}")

    def offline(**arguments: object) -> None:
        raise TimeoutError("nobody answers")

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", offline)
    with pytest.raises(DataError) as error:
        load("mnist")
    assert re.search(
        rf"mnist is not here and cannot be downloaded: .*{last} answers 404 Not Found\. OpenML "
        r"cannot be reached \(nobody answers\)\. Check the connection, or put the official files",
        str(error.value),
    )
    site.files[f"/mnist/{last}"], site.asked = content, []
    assert load("mnist").y.size == 50
    assert len(site.asked) == 1  # three were there
    assert sorted(path.name for path in cache.iterdir()) == ["mnist", "mnist.lock"]


def test_many_processes_download_once(site: Site, cache: Path) -> None:
    threads = [threading.Thread(target=official.download, args=("mnist",)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(site.asked) == 4
    assert load("mnist").y.size == 50


def test_offline_raises_at_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through the real clients, on a machine that knows no names."""
    asked: list[str] = []

    def unknown(host: str, *arguments: object, **options: object) -> None:
        asked.append(host)
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setitem(official._SITES, "mnist", ("http://site.invalid", ("train.gz",)))
    monkeypatch.setitem(CHECKSUMS, "train.gz", "md5:0")
    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(DataError) as error:
        load("mnist")
    assert str(error.value) == (
        "mnist is not here and cannot be downloaded: http://site.invalid/train.gz cannot be "
        "reached ([Errno -2] Name or service not known). OpenML cannot be reached ([Errno -2] Name "
        "or service not known). Check the connection, or put the official files of mnist in a "
        "folder and set FWNET_DATA to it."
    )
    assert len(asked) <= 5  # no minutes of retries
    assert socket.getdefaulttimeout() is None
