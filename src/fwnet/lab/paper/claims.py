"""The paper's claims as rows of data: its words, our numbers, and the rule that judges them."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any, Literal, final

Rule = Literal["<", "<=", ">", ">="]
_RULES = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


@final
class Verdict(str, Enum):
    """What our numbers say of a claim: the only list of these words."""

    HOLDS = "holds"
    READING = "holds for a reading"
    UNTUNED = "holds against the untuned baseline only"
    FAILS = "does not hold"
    UNTRAINED = "could not be trained"


@final
@dataclass(frozen=True)
class Comparison:
    """A measured number beside its bound, such as 2.4 > 3; NaN satisfies no rule.

    Arguments:
        number: measured.
        rule: what it must be to the bound.
        bound: another number that was measured, or a target.
        what: the two in words, such as "FWNet / L2LC_γ, iterations".
    """

    number: float
    rule: Rule
    bound: float
    what: str = ""

    def __bool__(self) -> bool:
        return bool(_RULES[self.rule](self.number, self.bound))

    def __str__(self) -> str:
        if math.isnan(self.number):
            return f"{self.what}: not measured".lstrip(": ")
        sign = "yes" if self else "no"
        return f"{self.what}: {self.number:.3g} {self.rule} {self.bound:.3g}, {sign}".lstrip(": ")


@final
@dataclass(frozen=True)
class Reading:
    """One way to read a claim, and the numbers that judge it.

    Arguments:
        name: of the reading, such as "area under the curve".
        numbers: must all be satisfied, in the paper's setting.
        tuned: must be satisfied as well, against tuned baselines; empty where nothing is tuned.
    """

    name: str
    numbers: tuple[Comparison, ...]
    tuned: tuple[Comparison, ...] = ()

    @classmethod
    def of(cls, name: str, number: float, rule: Rule, bound: float, what: str) -> Reading:
        """A reading with one number, where nothing is tuned."""
        return cls(name, (Comparison(number, rule, bound, what),))

    @property
    def verdict(self) -> Verdict:
        """Holds, holds against the untuned baseline only, or does not hold."""
        if not all(self.numbers):
            return Verdict.FAILS
        return Verdict.HOLDS if all(self.tuned) else Verdict.UNTUNED


@final
@dataclass(frozen=True)
class Claim:
    """A claim of the paper beside what we measured.

    Arguments:
        question: "Q1" to "Q4", or "abstract".
        words: the claim as the paper puts it.
        paper: the paper's number, such as "20 against 500 iterations".
        sentence: what we found, in one plain sentence with its number.
        readings: all of them, the one that favours the paper first.
        spread: over seeds or problems, such as "17 to 45 (44 pairs)".
        grid: what the baselines were tuned over.
        untrained: why it could not be judged: the training that it needs did not succeed.
    """

    question: str
    words: str
    paper: str
    sentence: str
    readings: Sequence[Reading]
    spread: str
    grid: str
    untrained: str = ""

    @property
    def verdict(self) -> Verdict:
        """The word that the numbers earn."""
        if self.untrained:
            return Verdict.UNTRAINED
        found = {reading.verdict for reading in self.readings}
        if found == {Verdict.HOLDS}:
            return Verdict.HOLDS
        if Verdict.HOLDS in found:
            return Verdict.READING
        return Verdict.UNTUNED if Verdict.UNTUNED in found else Verdict.FAILS

    def facts(self) -> dict[str, Any]:
        """Everything as plain data, the verdict included."""
        return asdict(self) | {"verdict": self.verdict.value}


@final
@dataclass(frozen=True)
class Promise:
    """A quantified promise of the paper, and the best that this library has for it today.

    Arguments:
        promise: in the paper's words.
        goal: the paper's number; ours should be at least that.
        learned: our number with the paper's learned optimizer, against the paper's baseline.
        best: the name of the best method of the library.
        against_paper: its number against the paper's baseline.
        against_tuned: its number against the tuned baseline.
    """

    promise: str
    goal: float
    learned: float
    best: str
    against_paper: float
    against_tuned: float
