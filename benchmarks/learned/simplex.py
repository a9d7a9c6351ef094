"""Targets on SVM duals: steps, directions, pairwise steps, atoms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch

from benchmarks.learned.targets import Target
from fwnet import learned
from fwnet.directions import Averaging
from fwnet.domains import Domain
from fwnet.lab.recipes import SEED
from fwnet.learned import Evaluation, baselines
from fwnet.learned.baselines import Baseline, Tuned, default_baselines
from fwnet.learned.families import LogUniform, SVMFamily, circles, digits_pairs, mnist_pairs
from fwnet.learned.families.real import all_digits
from fwnet.solvers import FrankWolfe

Family = Callable[..., SVMFamily]
SIZES = (200, 360)


def unseen_digits(part: str, C: LogUniform | float, n: tuple[int, int] | int) -> SVMFamily:
    """Pairs of digits that the larger recipes held out (other pairs share their points)."""
    place = ("train", "validation", "test").index(part)
    return SVMFamily([all_digits()], C, n).split(SEED)[place]


LARGE: dict[str, Family] = {"digits": unseen_digits, "circles": circles, "mnist": mnist_pairs}
SMALL: dict[str, Family] = {"digits": digits_pairs, "circles": circles, "mnist": mnist_pairs}


def by_name(*names: str) -> list[Baseline | Tuned]:
    return [b for b in default_baselines() if b.name in names]


def compare(
    controllers: Sequence[learned.Controller] | Mapping[str, Sequence[learned.Controller]],
    family: Family,
    C: LogUniform | float,
    rivals: Sequence[Baseline | Tuned],
    problems: int,
    max_steps: int,
    n: tuple[int, int] | int = SIZES,
    tolerances: Sequence[float] = (1e-2, 1e-3, 1e-4),
) -> Evaluation:
    """On the test part, constants tuned on the validation part."""
    return learned.evaluate(
        controllers,
        family("test", C, n),
        rivals,
        validation=family("validation", C, n),
        problems=problems,
        tolerances=tolerances,
        max_steps=max_steps,
        generator=torch.Generator().manual_seed(1),
    )


def target(
    name: str,
    found: Evaluation,
    rival: str,
    tolerance: float,
    by: str,
    least: float | None,
    method: str = "learned",
) -> Target:
    low, middle, high = found.speedup(method, rival, tolerance, by)
    ours, theirs = (found.quartiles(m, tolerance, by)[1] for m in (method, rival))
    chosen = found.choices.get(rival)
    label = rival if chosen is None else f"{rival} [{chosen.constant:g}]"
    return Target(name, ours, by, theirs, label, middle, (low, high), least)


def steps(
    controllers: Sequence[learned.Controller], problems: int, families: Mapping[str, Family] = LARGE
) -> list[Target]:
    """L2LC_γ: fewer iterations to 1e-2 than line search, 2/(t+2), 1.1/(t+2) and the tuned c/(t+2).

    And, without a target, than the same average of the 2/(t+2) path with a tuned constant.
    """
    fixed = baselines.Solver("1.1/(t+2)", lambda d: FrankWolfe(d, lambda t: 1.1 / (t + 2)))
    targets = {
        "line search FW": 3.0,
        "2/(t+2)": 1.0,
        "c/(t+2)": 1.0,
        fixed.name: 1.0,
        AVERAGED: None,
    }
    rivals = [*by_name(*targets), fixed, Tuned(_averaged, (2.0, 3.0, 4.0, 6.0))]
    rows = []
    for data, family in families.items():
        found = compare(controllers, family, LogUniform(1.0, 10.0), rivals, problems, 2500)
        rows += [
            target(f"step to {tolerance:g}, {data}", found, rival, tolerance, "iterations", least)
            for tolerance in (1e-2, 1e-3)
            for rival, least in targets.items()
            if tolerance == 1e-2 or rival in ("2/(t+2)", AVERAGED)
        ]
        rows += _beyond(controllers, family, data, max(2, problems // 2))
    return rows


AVERAGED = "averaged, c/(t+c)"


def _averaged(c: float) -> Baseline:
    def make(domain: Domain) -> FrankWolfe:
        return FrankWolfe(domain, lambda t: c / (t + c), direction=Averaging())

    return baselines.Solver(AVERAGED, make)


def _beyond(
    controllers: Sequence[learned.Controller], family: Family, data: str, problems: int
) -> list[Target]:
    """(f − f*)(2/(t+2)) / (f − f*)(ours) beyond the trained horizon.

    The least of all problems, controllers and steps up to ten horizons, where it is a target: never
    behind. And the median at three and ten horizons.
    """
    drawn = family("test", LogUniform(1.0, 10.0), SIZES)
    drawn.dtype = torch.float64  # late differences are below the rounding of float32
    problem = drawn.sample(problems, torch.Generator().manual_seed(2))
    best, (rival,) = drawn.best_values(problem), by_name("2/(t+2)")
    assert isinstance(rival, Baseline)
    horizon = max(controller.card["horizon"][1] for controller in controllers)
    theirs = rival.run(problem, drawn.domain, 10 * horizon).values / best - 1
    runs = [
        baselines.Solver("learned", partial(baselines.as_solver, controller)).run(
            problem, drawn.domain, 10 * horizon
        )
        for controller in controllers
    ]
    ours = torch.cat([run.values / best - 1 for run in runs], -1)
    ratios = theirs.repeat(1, len(runs)) / ours.clamp_min(1e-12)
    figures = [
        (f"worst, {horizon} to {10 * horizon}", -1, ratios[horizon:].min(), 1.0),
        (f"median after {3 * horizon}", 3 * horizon, ratios[3 * horizon].median(), None),
        (f"median after {10 * horizon}", -1, ratios[-1].median(), None),
    ]
    return [
        Target(
            f"step, {what}, {data}",
            float(ours[t].median()),
            "f/f* − 1",
            float(theirs[t].median()),
            "2/(t+2)",
            float(ratio),
            None,
            least,
        )
        for what, t, ratio, least in figures
    ]


def directions(controllers: Sequence[learned.Controller], problems: int) -> list[Target]:
    """L2LC_∇: iterations to 1e-2, against FISTA to 1e-4, and at sizes never trained on."""
    rows = []
    for C, most in ((1.0, 20.0), (10.0, 40.0)):
        found = compare(controllers, unseen_digits, C, _HULLS, problems, 700, 356)
        ours = found.quartiles("learned", 1e-2)[1]
        rows.append(Target(f"direction to 1e-2, digits C={C:g}", ours, "iterations", most=most))
        rows += _against(found, f"digits C={C:g}")
    rows += against_hulls(controllers, problems, {"mnist": mnist_pairs})
    found = compare(
        controllers,
        circles,
        LogUniform(1.0, 10.0),
        by_name("FISTA"),
        max(2, problems // 5),
        400,
        1600,
    )
    name = "direction to 1e-4, circles n=1600"
    return [*rows, target(name, found, "FISTA", 1e-4, "gradients", 1.0)]


def against_hulls(
    controllers: Sequence[learned.Controller], problems: int, families: Mapping[str, Family]
) -> list[Target]:
    """L2LC_∇ against FISTA and hulls without a network, to 1e-4."""
    rows = []
    for data, family in families.items():
        found = compare(controllers, family, LogUniform(1.0, 10.0), _HULLS, problems, 700)
        rows += _against(found, data)
    return rows


_HULLS = [*by_name("FISTA"), baselines.corrective(6), baselines.corrective(8, 4)]


def _against(found: Evaluation, data: str) -> list[Target]:
    name = f"direction to 1e-4, {data}"
    return [
        target(name, found, "FISTA", 1e-4, "gradients", 3.0),
        target(name, found, "corrective, 6 atoms", 1e-4, "gradients", None),
        target(name, found, "corrective, 8 atoms, 8 columns", 1e-4, "gradients", None),
    ]


def pairwise(
    controllers: Sequence[learned.Controller], problems: int, families: Mapping[str, Family] = SMALL
) -> list[Target]:
    """Learned over-relaxed pairwise against pairwise, its tuned ω, and second-order partners."""
    rows = []
    rivals = {"pairwise": 2.0, "over-relaxed pairwise": 1.2, "second-order pairwise": None}
    for data, family in families.items():
        for C in (10.0, 100.0):
            found = compare(controllers, family, C, by_name(*rivals), problems, 2500)
            rows += [
                target(f"pairwise to 1e-4, {data} C={C:g}", found, rival, 1e-4, "iterations", least)
                for rival, least in rivals.items()
            ]
    return rows


def atoms(
    controllers: Sequence[learned.Controller], problems: int, families: Mapping[str, Family] = SMALL
) -> list[Target]:
    """Learned atoms against the corrective solver with as many, and with three times as many."""
    rows = []
    rivals = [baselines.corrective(6), baselines.corrective(18), baselines.corrective(6, 4)]
    for data, family in families.items():
        ratios = 1.0
        for C in (1.0, 10.0, 100.0):
            found = compare(controllers, family, C, rivals, problems, 200)
            name = f"atoms to 1e-4, {data} C={C:g}"
            same = target(name, found, "corrective, 6 atoms", 1e-4, "gradients", None)
            rows.append(same)
            rows += [target(name, found, r.name, 1e-4, "gradients", None) for r in rivals[1:]]
            assert same.ratio is not None
            ratios *= same.ratio ** (1 / 3)
        rows.append(
            Target(f"atoms, {data}, mean of the three C", ratios, "×", ratio=ratios, least=1.3)
        )
    return rows
