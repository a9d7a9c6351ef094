"""What an experiment is: a configuration and a seed go in, plain results come out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, Generic, TypeVar, final

import numpy as np

from fwnet.lab.paper.claims import Claim, Promise
from fwnet.lab.paper.figures import Figure

Config = TypeVar("Config")
Progress = Callable[[float, str], None]
"""Called with the share that is done, 0 to 1, and what is being done."""


@final
class Profile(str, Enum):
    """How much is run: minutes on embedded data, what the paper needs, or everything."""

    QUICK = "quick"
    PAPER = "paper"
    FULL = "full"

    @property
    def seeds(self) -> int:
        """The number of seeds where the user names none."""
        return {"quick": 2, "paper": 3, "full": 10}[self.value]


@final
@dataclass(frozen=True, eq=False)
class SeedResult:
    """What one seed gave: a file of the store.

    Arguments:
        seed: of the run.
        metrics: what `run` returned, read back from JSON: lists, numbers, texts, dictionaries;
            a number that was not finite is None.
        seconds: the run took.
        environment: versions, machine, time, where the data came from.
    """

    seed: int
    metrics: dict[str, Any]
    seconds: float
    environment: dict[str, str]


@final
@dataclass(frozen=True, eq=False)
class Results:
    """All seeds of an experiment in one configuration.

    Arguments:
        experiment: its name.
        profile: that was run.
        config: as a dictionary.
        seeds: results, by ascending seed; at least one.
    """

    experiment: str
    profile: Profile
    config: dict[str, Any]
    seeds: Sequence[SeedResult] = field(repr=False)

    def over_seeds(self, *keys: str) -> np.ndarray:  # (seeds, *shape)
        """An entry of the metrics for every seed, stacked: `over_seeds("loss", "FWNet")`."""
        return np.array([self._entry(result, keys) for result in self.seeds], dtype=float)

    def by_name(self, key: str, *rest: str) -> dict[str, np.ndarray]:  # (seeds, *shape) of each
        """`over_seeds(key, name, *rest)` of every name under the key, such as every method."""
        return {name: self.over_seeds(key, name, *rest) for name in self.first(key)}

    def first(self, *keys: str) -> Any:
        """An entry of the first seed's metrics, as it is."""
        return self._entry(self.seeds[0], keys)

    def chosen(self, name: str) -> str:
        """What tuning chose for a method, over all seeds."""
        return "; ".join(sorted({str(r.metrics["chosen"].get(name, "")) for r in self.seeds}))

    def _entry(self, result: SeedResult, keys: tuple[str, ...]) -> Any:
        entry: Any = result.metrics
        for key in keys:
            if not isinstance(entry, dict) or key not in entry:
                raise KeyError(f"{self.experiment}, seed {result.seed}: no entry {'/'.join(keys)}.")
            entry = entry[key]
        return entry


class Experiment(ABC, Generic[Config]):
    """One experiment of the paper: what is run, what is drawn from it, what it says.

    `run` computes and returns plain data (dictionaries, lists, numbers, texts, NumPy arrays,
    tensors); the others only read results, so that a page is rebuilt without training. `run`
    takes all its randomness from the seed: the same seed gives the same numbers on one kind of
    processor.

    Attributes:
        name: on the command line, such as "cifar2".
        title: of its section.
        paper: its place in the paper, such as "Figure 4".
        question: what it asks, in a sentence or two.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    paper: ClassVar[str]
    question: ClassVar[str]

    @abstractmethod
    def config(self, profile: Profile) -> Config:
        """The frozen dataclass of plain values that says what a profile runs."""

    @abstractmethod
    def run(self, config: Config, seed: int, progress: Progress) -> dict[str, Any]:
        """Compute the results of one seed."""

    @abstractmethod
    def figures(self, results: Results) -> Sequence[Figure]:
        """Draw: curves, maps and tables from the results of all seeds."""

    def findings(self, results: Results) -> Sequence[str]:
        """Sentences above the figures that say what came out; none by default."""
        return ()

    def claims(self, results: Results) -> Sequence[Claim]:
        """The paper's claims that this experiment measures; none by default."""
        return ()

    def promises(self, results: Results) -> Sequence[Promise]:
        """The paper's quantified promises and the best of the library for them; none by default."""
        return ()

    def seeds(self, profile: Profile) -> int:
        """How many seeds a profile runs where the user names none."""
        return profile.seeds
