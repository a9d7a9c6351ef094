"""Files that are written whole or not at all, and read without running code of them.

FileFormat         tensors and plain facts in one file, with a hash over both
CheckpointSeries   numbered files of one format
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, final

import safetensors.torch
import torch
from torch import Tensor

ADVICE = "Choose a path in a folder that exists and has room."


class FileError(ValueError):
    """A file does not hold what it should; the message says what to do."""


class DamagedFile(FileError):
    """It is cut off, changed, or of no format of fwnet."""


class ForeignFile(FileError):
    """It is of another kind or version."""


class OtherRun(FileError):
    """It belongs to another run."""


@contextmanager
def written_whole(path: Path, name: str | None = None, advice: str = ADVICE) -> Iterator[BinaryIO]:
    """A file beside `path` that replaces it at the end: a killed run leaves the old one or the new.

    Arguments:
        path: of the file.
        name: what to call it in an error; the path by default.
        advice: what to do about an error, a sentence.
    """
    beside = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with open(beside, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError as error:
        message = f"{name or repr(str(path))} cannot be written: {reason(error)}. {advice}"
        raise OSError(message) from None
    finally:
        with suppress(OSError):  # it is gone, or never was
            beside.unlink()


def write_text(path: Path, text: str, name: str | None = None, advice: str = ADVICE) -> None:
    """Write a text file, whole or not at all, and make its folder; see `written_whole`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(path, name, advice) as file:
        file.write(text.encode())


@contextmanager
def folder_written_whole(folder: Path) -> Iterator[Path]:
    """A new folder beside `folder` that takes its name at the end; a failure leaves nothing.

    Arguments:
        folder: must not exist.
    """
    beside = folder.with_name(f"{folder.name}.{os.getpid()}.part")
    made = False
    try:
        if folder.exists():
            raise ValueError(
                f"folder={str(folder)!r} exists already; choose another, or delete it."
            )
        beside.mkdir(parents=True)
        made = True
        yield beside
        os.replace(beside, folder)
        made = False
    except OSError as error:
        file = Path(error.filename or beside)
        where = str(folder / file.relative_to(beside) if beside in file.parents else folder)
        with suppress(OSError):
            where += f" ({shutil.disk_usage(_existing(folder)).free:,} bytes are free)"
        raise OSError(f"{where} cannot be written: {reason(error)}. {ADVICE}") from None
    finally:
        if made:
            shutil.rmtree(beside, ignore_errors=True)


def make_folder(folder: Path, name: str | None = None) -> None:
    """Make a folder unless it exists.

    Arguments:
        folder: its path.
        name: what to call it in an error; the path by default.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:  # the latter for a zero byte in the name
        why = getattr(error, "strerror", None) or error
        message = f"{name or folder} cannot be a folder: {why}. Choose another folder."
        raise OSError(message) from None


@final
@dataclass(frozen=True)
class FileFormat:
    """One kind of file: tensors as safetensors, facts as JSON in the header, a hash over both.

        header   {kind: {"format": version, **facts, "sha256": hash of facts and tensors}}

    Arguments:
        kind: its name in the header.
        version: of what the facts and tensors mean.
        noun: what a person calls it, as "controller".
        advice: what to do with a file that cannot be used, a sentence.
    """

    kind: str
    version: int
    noun: str
    advice: str

    def write(
        self,
        path: Path,
        facts: Mapping[str, Any],
        tensors: Mapping[str, Tensor],
        name: str | None = None,
    ) -> None:
        """Write a file, whole or not at all.

        Arguments:
            path: of the file.
            facts: what JSON can express, by name; a TypeError or ValueError for anything else.
            tensors: by name; they may share memory.
            name: what to call the file in an error; the path by default.
        """
        json.dumps(facts, sort_keys=True)  # raises for names that are not all texts or numbers
        plain = json.loads(json.dumps({"format": self.version, **facts}))
        # Clones, because safetensors refuses tensors that share memory.
        copies = {key: value.detach().cpu().contiguous().clone() for key, value in tensors.items()}
        plain["sha256"] = _hash(plain, copies)
        data = safetensors.torch.save(copies, {self.kind: json.dumps(plain)})
        with written_whole(path, name) as file:
            file.write(data)

    def read(self, path: Path, name: str | None = None) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """The facts and the tensors of a file.

        Arguments:
            path: of the file.
            name: what to call it in an error; the path by default.
        """
        name = name or repr(str(path))
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            raise FileNotFoundError(f"{name} does not exist.") from None
        except OSError as error:
            raise OSError(f"{name} cannot be read: {error.strerror}. {self.advice}") from None
        facts = self._facts(name, data)
        try:
            tensors = dict(safetensors.torch.load(data))
        except Exception as error:  # of the library's own kind, which has no other base
            raise self._damaged(name, f"it is truncated or corrupted ({error})") from None
        if facts.pop("sha256", None) != _hash(facts, tensors):
            raise self._damaged(name, "its contents do not match its hash")
        del facts["format"]
        return facts, tensors

    def check_run(
        self, name: str, there: Mapping[str, Any], here: Mapping[str, Any], run: str = "fit"
    ) -> None:
        """Raise OtherRun unless a file's facts about its run are those of this one.

        Arguments:
            name: what to call the file.
            there: the facts in the file.
            here: the facts of this run.
            run: what a person calls it.
        """
        here = json.loads(json.dumps(here))  # as a file gives them back
        changes = [
            f"{fact} was {there.get(fact)!r} there and is {now!r} here"
            for fact, now in here.items()
            if there.get(fact) != now
        ]
        if changes:
            message = f"{name} belongs to another {run}: {'; '.join(changes)}. {self.advice}"
            raise OtherRun(message)

    def _facts(self, name: str, data: bytes) -> dict[str, Any]:
        """The facts, with kind and version checked before any tensor is read."""
        length = int.from_bytes(data[:8], "little") if len(data) >= 8 else -1
        if not 2 <= length <= len(data) - 8:
            raise self._damaged(name, "it is truncated, or something else")
        try:
            notes = dict(json.loads(data[8 : 8 + length])["__metadata__"])
            if self.kind not in notes:
                held = ", ".join(map(str, notes))[:100]
                raise ForeignFile(f"{name} holds a {held}, not a {self.noun}. {self.advice}")
            facts = dict(json.loads(notes[self.kind]))
            version = facts["format"]
        except ForeignFile:
            raise
        except (ValueError, KeyError, TypeError, RecursionError):
            raise self._damaged(name, "it is corrupted, or something else") from None
        if version != self.version:
            raise ForeignFile(
                f"{name} has format {version!r}, this fwnet reads {self.version}. Use the fwnet "
                f"that wrote it. {self.advice}"
            )
        return facts

    def _damaged(self, name: str, reason: str) -> DamagedFile:
        return DamagedFile(f"{name} is not a whole {self.noun}: {reason}. {self.advice}")


@final
@dataclass(frozen=True)
class CheckpointSeries:
    """Numbered files of one format in a folder, of which the last few are kept.

    Arguments:
        folder: made on the first write.
        format: of the files.
        stem: a file is called `<stem>-<number>.ckpt`.
        keep: how many stay; more than one, since one may be damaged.
    """

    folder: Path
    format: FileFormat
    stem: str = "step"
    keep: int = 2

    def write(self, number: int, facts: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        """Write the file of a number, and delete those that are too old."""
        make_folder(self.folder)
        path = self.folder / f"{self.stem}-{number:09d}.ckpt"
        self.format.write(path, facts, tensors)
        # Files of larger numbers were refused when this run began; they must not push out this one.
        older = [other for other in self._newest_first() if other.name <= path.name]
        for old in older[self.keep :]:
            os.remove(old)

    def read(
        self, say: Callable[[str], object]
    ) -> tuple[Path, dict[str, Any], dict[str, Tensor]] | None:
        """The path and the contents of the newest file that is whole, or None if there is none.

        Arguments:
            say: called with a sentence for every file that cannot be used.
        """
        for path in self._newest_first():
            try:
                return path, *self.format.read(path)
            except (FileError, OSError) as error:
                say(f"{error} It is refused; the one before it is used.")
        return None

    def _newest_first(self) -> list[Path]:
        files = (path for path in self.folder.glob(f"{self.stem}-*.ckpt") if path.is_file())
        return sorted(files, reverse=True)


def flattened(tree: Any) -> tuple[Any, dict[str, Tensor]]:
    """Nested containers as facts and tensors for `FileFormat.write`; `rebuilt` is the inverse.

    Example:
        >>> facts, tensors = flattened({"step": 3, "groups": [(0.9, torch.ones(2))]})
        >>> rebuilt(facts, tensors)
        {'step': 3, 'groups': [(0.9, tensor([1., 1.]))]}
    """
    tensors: dict[str, Tensor] = {}

    def plain(value: Any) -> Any:
        if isinstance(value, Tensor):
            tensors[f"{len(tensors)}"] = value
            return {"tensor": f"{len(tensors) - 1}"}
        if isinstance(value, Mapping):  # as pairs, since the keys of JSON are texts
            return {"dict": [[plain(key), plain(entry)] for key, entry in value.items()]}
        if isinstance(value, tuple):
            return {"tuple": [plain(entry) for entry in value]}
        return [plain(entry) for entry in value] if isinstance(value, list) else value

    return plain(tree), tensors


def rebuilt(facts: Any, tensors: Mapping[str, Tensor]) -> Any:
    """The containers that `flattened` took apart."""
    if isinstance(facts, list):
        return [rebuilt(entry, tensors) for entry in facts]
    if not isinstance(facts, dict):
        return facts
    ((kind, value),) = facts.items()
    if kind == "tensor":
        return tensors[value]
    if kind == "dict":
        return {rebuilt(key, tensors): rebuilt(entry, tensors) for key, entry in value}
    return tuple(rebuilt(entry, tensors) for entry in value)


def _hash(facts: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 of the facts, and of the names, types, shapes and bits of the tensors."""
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        if tensor.numel():  # an empty one of NumPy has a stride that no view accepts
            digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def file_hash(path: Path, kind: str = "sha256") -> str:
    """The hash of a file as hexadecimal digits, read a megabyte at a time."""
    digest = hashlib.new(kind, usedforsecurity=False)
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def fingerprint(*parts: Any) -> str:
    """16 hexadecimal digits for tensors and plain values, the same for the same contents."""
    tensors = {str(k): x.detach().cpu() for k, x in enumerate(parts) if isinstance(x, Tensor)}
    plain = {str(k): repr(x) for k, x in enumerate(parts) if not isinstance(x, Tensor)}
    return _hash(plain, tensors)[:16]


def reason(error: OSError) -> str:
    """Why the system refused, in a few words."""
    return "no space is left" if error.errno == errno.ENOSPC else error.strerror or str(error)


def _existing(path: Path) -> Path:
    """The nearest existing folder above a path."""
    return next((parent for parent in path.absolute().parents if parent.exists()), Path("/"))
