"""The paper's claims as rows of data: its words, our numbers, and the rule that judges them."""

from __future__ import annotations

import operator
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any, Literal, final

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
    """A measured number beside its bound, such as 2.4 > 3; NaN satisfies no rule."""

    number: float
    rule: Literal["<", "<=", ">", ">="]
    bound: float

    def __bool__(self) -> bool:
        return bool(_RULES[self.rule](self.number, self.bound))


@final
@dataclass(frozen=True)
class Claim:
    """A claim of the paper beside what we measured.

    Arguments:
        question: "Q1" to "Q4", or "text".
        words: the claim as the paper puts it.
        paper: the paper's number, such as "20 against 500 iterations".
        ours: the same from our runs.
        spread: over seeds or problems, such as "± 12 (5 seeds)" or "17 to 45 (44 pairs)".
        grid: what the baselines were tuned over.
        numbers: must all be satisfied, in the paper's setting.
        tuned: must be satisfied as well, against tuned baselines; empty where nothing is tuned.
        why: one sentence that states the rule in plain words.
        reading: the claim is ambiguous, and the numbers belong to one reading of it.
        trained: False if the training that the claim needs did not succeed.
    """

    question: str
    words: str
    paper: str
    ours: str
    spread: str
    grid: str
    numbers: tuple[Comparison, ...]
    tuned: tuple[Comparison, ...] = ()
    why: str = ""
    reading: bool = False
    trained: bool = True

    @property
    def verdict(self) -> Verdict:
        """The word that the numbers earn."""
        if not self.trained:
            return Verdict.UNTRAINED
        if not all(self.numbers):
            return Verdict.FAILS
        if not all(self.tuned):
            return Verdict.UNTUNED
        return Verdict.READING if self.reading else Verdict.HOLDS

    def facts(self) -> dict[str, Any]:
        """Everything as plain data, the verdict included."""
        return asdict(self) | {"verdict": self.verdict.value}
