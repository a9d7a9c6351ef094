"""One experiment as the page needs it: its figures, claims and findings, read from results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, final

from fwnet.lab.paper.claims import Claim, Promise
from fwnet.lab.paper.experiment import Experiment, Results
from fwnet.lab.paper.figures import Curves, Figure


@final
@dataclass(frozen=True, eq=False)
class Section:
    """An experiment and what its results show."""

    experiment: Experiment[Any]
    results: Results
    figures: Sequence[Figure]
    claims: Sequence[Claim]
    promises: Sequence[Promise]
    findings: Sequence[str]

    @property
    def name(self) -> str:
        """Of the experiment; files and links carry it."""
        return self.experiment.name


def sections(
    experiments: Iterable[Experiment[Any]],
    results: Sequence[Results],
    warn: Callable[[str], object],
) -> list[Section]:
    """The experiments that have results, in their order; `warn` names those that are left out.

    Results of another release may miss entries that an experiment draws today; the rest of the
    page is written all the same.
    """
    found = {each.experiment: each for each in results}
    parts = []
    for experiment in experiments:
        mine = found.get(experiment.name)
        if mine is None:
            continue
        try:
            section = Section(
                experiment,
                mine,
                list(experiment.figures(mine)),
                list(experiment.claims(mine)),
                list(experiment.promises(mine)),
                list(experiment.findings(mine)),
            )
        except Exception as error:
            warn(
                f"{experiment.name} is left out: its results cannot be shown "
                f"({type(error).__name__}: {error}). Run it again with --fresh."
            )
            continue
        parts.append(section)
    return parts


def colours(section: Section) -> dict[str, int]:
    """A number for every name in the legends of an experiment, in the order of appearance."""
    numbers: dict[str, int] = {}
    for figure in section.figures:
        if isinstance(figure, Curves):
            for series in figure.series:
                numbers.setdefault(series.name, len(numbers))
    return numbers
