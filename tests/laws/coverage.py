"""What the cases of a run met: each case notes facts, such as the domain and the solver it drew."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import combinations, product

Facts = dict[str, str]
# Facts whose pairs are counted.
PAIRED = ("problem", "domain", "solver", "rule", "oracle", "dtype", "face", "estimator", "kernel")
_NAMED = 12  # pairs that were not met
_noted: Facts = {}


def note(**facts: object) -> None:
    """Facts of the case that runs."""
    _noted.update({name: str(value) for name, value in facts.items()})


def take() -> Facts:
    """The facts of the last case; the next one begins without any."""
    facts = dict(_noted)
    _noted.clear()
    return facts


def tables(met: Iterable[Facts]) -> str:
    """Counts of every fact by kind of case, and the pairs of facts that no case met.

    Not every pair exists: a solver may not suit a domain.

    Arguments:
        met: the facts of each case; `kind` separates the tables.
    """
    lines: list[str] = []
    all_facts = list(met)
    for kind in sorted({facts.get("kind", "") for facts in all_facts}):
        rows = [facts for facts in all_facts if facts.get("kind", "") == kind]
        axes = sorted({axis for facts in rows for axis in facts} - {"kind"})
        lines.append(f"{kind or 'no kind'}: {len(rows)} cases")
        counts = {axis: Counter(facts.get(axis, "-") for facts in rows) for axis in axes}
        for axis in axes:
            ranked = ", ".join(f"{value} {count}" for value, count in counts[axis].most_common())
            lines.append(f"  {axis}: {ranked}")
        for one, other in combinations([axis for axis in axes if axis in PAIRED], 2):
            seen = {(facts.get(one, "-"), facts.get(other, "-")) for facts in rows}
            possible = list(product(sorted(counts[one]), sorted(counts[other])))
            missed = [f"{a}/{b}" for a, b in possible if (a, b) not in seen]
            named = f"; not {', '.join(missed[:_NAMED])}" if missed else ""
            more = " …" if len(missed) > _NAMED else ""
            lines.append(f"  {one} × {other}: {len(seen)} of {len(possible)} pairs{named}{more}")
    return "\n".join(lines)
