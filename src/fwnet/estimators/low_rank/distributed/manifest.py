"""The manifest of a folder of shards: which files belong to it, how long they are, their hashes.

    {"format": 1, "features": d, "classes": m, "dtype": "float32",
     "shards": [{"name": "part-00000", "rows": n,
                 "files": {"part-00000.X.npy": {"bytes": …, "sha256": …}, …}}, …]}

Without it a lost file would be a smaller data set. A folder of files that somebody else wrote has
none; there, labels without rows and gaps in the numbers of the names are errors.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, final

from fwnet.numerics.files import file_hash

MANIFEST = "manifest.json"
OUR_STEM = "part-"  # of the names that write_shards chooses
_FORMAT = 1
_REMEDY = f"Write the shards again; if the change was meant, delete {MANIFEST}."


@final
@dataclass(frozen=True)
class FileNote:
    """Length and hash of a file."""

    bytes: int
    sha256: str


@final
@dataclass(frozen=True)
class ShardNote:
    """One shard: its name, its rows, its files."""

    name: str
    rows: int
    files: Mapping[str, FileNote]


@final
@dataclass(frozen=True)
class Manifest:
    """What `write_shards` wrote, in order.

    Arguments:
        features: d.
        classes: m, the largest label plus 1.
        dtype: of X, NumPy's name.
        shards: in order of name.
    """

    features: int
    classes: int
    dtype: str
    shards: tuple[ShardNote, ...]

    def write(self, folder: Path) -> None:
        """Write it into a folder."""
        text = json.dumps({"format": _FORMAT, **asdict(self)}, indent=1)
        (folder / MANIFEST).write_text(text + "\n", encoding="utf-8")

    def check_files(self, folder: Path, names: Sequence[str]) -> None:
        """Raise unless the shards in a folder are these, each file of the right length."""
        wanted = [shard.name for shard in self.shards]
        extra = sorted(set(names) - set(wanted))
        if extra:
            raise ValueError(f"{folder / extra[0]}.* is not in {MANIFEST}. {_REMEDY}")
        for shard in self.shards:
            for file, note in shard.files.items():
                path = folder / file
                if not path.is_file():
                    raise ValueError(
                        f"{path} is missing: {MANIFEST} lists {len(wanted)} shards of "
                        f"{sum(s.rows for s in self.shards)} rows. {_REMEDY}"
                    )
                if path.stat().st_size != note.bytes:
                    raise ValueError(
                        f"{path} has {path.stat().st_size} bytes, but {note.bytes} were written: "
                        f"it is cut off or was changed. {_REMEDY}"
                    )

    def check_hashes(self, folder: Path, index: int) -> None:
        """Raise unless the files of a shard hold what was written."""
        for file, note in self.shards[index].files.items():
            if file_hash(folder / file) != note.sha256:
                raise ValueError(
                    f"{folder / file} does not match its hash in {MANIFEST}: it is damaged, was "
                    f"changed or was swapped. {_REMEDY}"
                )


def read_manifest(folder: Path) -> Manifest | None:
    """The manifest of a folder, or None if it has none."""
    path = folder / MANIFEST
    if not path.exists():
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        version = found.pop("format")
        if version == _FORMAT:
            return Manifest(**found | {"shards": tuple(map(_shard, found["shards"]))})
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        reason = str(error)[:200]
        raise ValueError(f"{path} is not the manifest of shards: {reason}. {_REMEDY}") from None
    raise ValueError(
        f"{path} has format {version!r}, this fwnet reads {_FORMAT}. Upgrade fwnet, or write the "
        "shards again."
    )


def check_names(folder: Path, names: Sequence[str], labels: Sequence[str]) -> None:
    """Raise where a shard has two kinds of rows, or where one seems to be lost.

    Arguments:
        names: of the shards with rows.
        labels: of the shards with labels.
    """
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{folder / name} has dense and CSR rows. Delete one of them.")
    orphans = sorted(set(labels) - set(names))
    if orphans:
        raise ValueError(
            f"{folder / orphans[0]} has labels and no rows. Restore its rows, or delete its labels."
        )
    matches = [re.fullmatch(r"(.*?)(\d+)", name) for name in names]
    stems = {match[1] for match in matches if match}
    if not all(matches) or len(stems) != 1:
        return  # not the parts of one series
    found = {int(match[2]) for match in matches if match}
    first = 0 if stems == {OUR_STEM} else min(found)
    lost = sorted(set(range(first, max(found))) - found)
    if lost:
        raise ValueError(
            f"{folder} has {len(names)} shards, the last of them {max(names)}, but number "
            f"{lost[0]} is missing. Restore it, or number the shards without a gap"
            f"{' from 0' if first == 0 else ''}."
        )


def _shard(found: dict[str, Any]) -> ShardNote:
    files = {str(name): FileNote(**note) for name, note in found["files"].items()}
    return ShardNote(str(found["name"]), int(found["rows"]), files)
