"""Results on disk: one folder a configuration, one file a seed, each written whole or not at all.

runs/quick/circles-1f0c9a2b/config.json
runs/quick/circles-1f0c9a2b/seed-0.json
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
from torch import Tensor

import fwnet
from fwnet.lab.paper.experiment import Profile, Results, SeedResult
from fwnet.numerics.files import write_text

_FORMAT = 1
_ADVICE = "Finished seeds are safe; make room or choose another folder, then go on with --resume."
_KINDS = {  # what a seed's file holds beside its metrics
    "experiment": str,
    "profile": str,
    "config": dict,
    "seed": int,
    "seconds": int | float,
    "environment": dict,
}
_DIGITS = 9  # significant: float32 is kept whole, and files stay small


class StoreError(RuntimeError):
    """Results cannot be written or read; the message says which and what to do."""


@final
@dataclass(frozen=True)
class Store:
    """The folder with all results.

    Arguments:
        folder: made on the first write.
        warn: called with a sentence for a damaged file, which is left out.
    """

    folder: Path
    warn: Callable[[str], object] = lambda sentence: None

    def place(self, experiment: str, profile: Profile, config: Any) -> Path:
        """The folder of an experiment; another configuration or release has another."""
        text = json.dumps([fwnet.__version__, plain(config)], sort_keys=True)
        short = hashlib.sha256(text.encode()).hexdigest()[:8]
        return self.folder / profile.value / f"{experiment}-{short}"

    def write(self, experiment: str, profile: Profile, config: Any, result: SeedResult) -> Path:
        """Keep the result of one seed, and the configuration beside it."""
        place = self.place(experiment, profile, config)
        about = {"experiment": experiment, "profile": profile.value, "config": plain(config)}
        metrics = plain(result.metrics)
        content = {
            "format": _FORMAT,
            **about,
            "seed": result.seed,
            "seconds": round(result.seconds, 3),
            "environment": result.environment,
            "checksum": _checksum(metrics),
            "metrics": metrics,
        }
        if not (place / "config.json").exists():
            _write(place / "config.json", json.dumps(about, indent=1))
        path = place / f"seed-{result.seed}.json"
        _write(path, json.dumps(content, separators=(",", ":"), allow_nan=False))
        return path

    def read(self, path: Path) -> SeedResult | None:
        """The result of one seed; None, with a warning, if the file is damaged."""
        content = self._content(path)
        return None if content is None else _result(content)

    def done(self, experiment: str, profile: Profile, config: Any, seed: int) -> SeedResult | None:
        """The result of a seed if it is there and whole."""
        path = self.place(experiment, profile, config) / f"seed-{seed}.json"
        return self.read(path) if path.exists() else None

    def trainings(self, experiment: str, profile: Profile, config: Any, seed: int) -> Path:
        """The folder for trainings that a seed has begun."""
        return self.place(experiment, profile, config) / f"seed-{seed}.trainings"

    def results(self) -> list[Results]:
        """All results, by profile and experiment; of two configurations, the newer."""
        newest: dict[tuple[str, str], tuple[float, Results]] = {}
        for place in sorted({path.parent for path in self.folder.glob("*/*/seed-*.json")}):
            files = sorted(place.glob("seed-*.json"), key=_number)
            contents = [c for c in map(self._content, files) if c is not None]
            if not contents:
                continue
            about = contents[0]
            results = Results(
                about["experiment"],
                Profile(about["profile"]),
                about["config"],
                [_result(content) for content in contents],
            )
            key = (about["profile"], about["experiment"])
            time = max(path.stat().st_mtime for path in files)
            if key not in newest or time > newest[key][0]:
                newest[key] = (time, results)
        return [results for _, results in newest.values()]

    def _content(self, path: Path) -> dict[str, Any] | None:
        """A seed's file as a dictionary; None, with a warning, if it is damaged."""
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            whole = (
                content["format"] == _FORMAT
                and _checksum(content["metrics"]) == content["checksum"]
                and all(isinstance(content[key], kind) for key, kind in _KINDS.items())
                and content["profile"] in {profile.value for profile in Profile}
            )
        except (OSError, ValueError, KeyError, TypeError):
            whole = False
        if not whole:
            self.warn(f"{path} is half-written or damaged: its seed counts as not done.")
            return None
        return content


def plain(value: Any, digits: int = _DIGITS) -> Any:
    """A value as JSON knows it: arrays become lists, NaN and Inf null.

    Arguments:
        value: of numbers, texts, arrays, tensors, dataclasses, dictionaries and lists.
        digits: that numbers keep: 9 in results, 17 are all.

    Example:
        >>> plain({"loss": np.array([1.0, np.nan]), "n": np.int64(3)})
        {'loss': [1.0, None], 'n': 3}
    """
    if value is None or isinstance(value, bool | int | str):
        return value.value if isinstance(value, Profile) else value
    if isinstance(value, float):
        return float(f"{value:.{digits}g}") if math.isfinite(value) else None
    if isinstance(value, Tensor):
        return plain(value.detach().cpu().numpy(), digits)
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist(), digits)
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value), digits)
    if isinstance(value, dict):
        return {str(key): plain(entry, digits) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry, digits) for entry in value]
    raise TypeError(
        f"results must be numbers, texts, arrays, lists and dictionaries; got "
        f"{type(value).__name__}."
    )


def _result(content: dict[str, Any]) -> SeedResult:
    return SeedResult(
        content["seed"], content["metrics"], content["seconds"], content["environment"]
    )


def _checksum(metrics: Any) -> str:
    text = json.dumps(metrics, separators=(",", ":"), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _number(path: Path) -> int:
    digits = path.stem.removeprefix("seed-")
    return int(digits) if digits.isdigit() else -1


def _write(path: Path, text: str) -> None:
    try:
        write_text(path, text, str(path), _ADVICE)
    except OSError as error:
        raise StoreError(str(error)) from None
