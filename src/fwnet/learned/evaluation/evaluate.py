"""evaluate: learned methods against tuned hand-designed ones on held-out problems."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from fwnet.domains import Domain
from fwnet.learned.baselines import (
    Baseline,
    Choice,
    Solver,
    Trajectory,
    Tuned,
    as_solver,
    default_baselines,
    tune,
)
from fwnet.learned.baselines.solvers import Slot
from fwnet.learned.evaluation.results import Cost, Evaluation
from fwnet.learned.families import ProblemFamily
from fwnet.learned.families.base import check_family
from fwnet.learned.training.rollouts import sampled
from fwnet.numerics import checks
from fwnet.problems import Problem
from fwnet.show.progress import progress_bar

if TYPE_CHECKING:
    Controllers = Slot | Sequence[Slot] | Mapping[str, Slot | Sequence[Slot]]

POINTS = 80  # of a curve
TUNING_BATCHES, TUNING_BATCH = 2, 5  # validation problems, two sizes of five each


def evaluate(
    controllers: Controllers,
    family: ProblemFamily,
    baselines: str | Sequence[Baseline | Tuned] = "default",
    *,
    validation: ProblemFamily | None = None,
    problems: int = 20,
    tolerances: Sequence[float] = (1e-2, 1e-3, 1e-4),
    max_steps: int = 2000,
    generator: torch.Generator | None = None,
    progress: bool = False,
) -> Evaluation:
    """Run learned and hand-designed methods on the same problems, one by one.

        cost to ε = the first t, and what it had cost, with  f(x_t) − f* <= ε |f*|

    f* is the family's `best_values`: an exact quadratic programme for SVM duals. Baselines with a
    constant choose it on the validation problems, each from its own grid, before a held-out
    problem is seen. Seconds are those of the processor: run on one thread.

    Arguments:
        controllers: a step rule, direction, oracle, the `Slots` of a training, or a `FrankWolfe`
            with such slots; several of them for several training seeds; or a mapping from names to
            these.
        family: held-out problems.
        baselines: "default" for `default_baselines()`, or a list of them.
        validation: where constants are tuned; other draws of `family` if left out, which favours
            the baselines.
        problems: how many held-out problems.
        tolerances: relative suboptimalities ε.
        max_steps: budget of a run.
        generator: source of the problems.
        progress: show a bar (needs rich); all baselines on twenty problems take minutes.

    Example:
        >>> from fwnet import learned
        >>> family = learned.families.QuadraticFamily(n=20)
        >>> found = learned.evaluate(
        ...     fwnet.OverRelaxed(1.5), family, [learned.baselines.corrective(6)], problems=3
        ... )
        >>> found.methods
        ['learned', 'corrective, 6 atoms']

    Reference: Moré and Wild (2009) for the data profiles.
    """
    check_family("evaluate(family)", family)
    named, chosen = _named(controllers), _chosen(baselines)
    _check_distinct(named, chosen)
    checks.at_least("problems", problems, 1)
    checks.at_least("max_steps", max_steps, 1)
    epsilons = _epsilons(tolerances)
    contest = _Contest(family, epsilons, max_steps)
    generator = torch.Generator().manual_seed(0) if generator is None else generator
    held_out = contest.draw(family, problems, generator)
    _check_runs(named, held_out[0][0], family.domain)
    others = family if validation is None else validation
    check_family("evaluate(validation)", others)
    tuning = contest.draw(others, TUNING_BATCHES, generator, TUNING_BATCH)
    methods: list[tuple[str, int, Baseline]] = [
        (name, seed, Solver(name, partial(as_solver, slot)))
        for name, slots in named.items()
        for seed, slot in enumerate(slots)
    ]
    grid = np.unique(np.round(np.geomspace(1, max_steps, POINTS)))
    costs: list[Cost] = []
    curves: dict[str, list[np.ndarray]] = {}
    with ExitStack() as stack:
        show = progress_bar(stack, len(chosen) + problems) if progress else _silent
        ready, choices = _tuned(chosen, contest, tuning, show)
        methods += [(baseline.name, 0, baseline) for baseline in ready]
        if baselines != "default":
            _warn_of_absent(chosen, ready, contest.domain, held_out)
        for place, (problem, best) in enumerate(held_out):
            show(len(chosen) + place, f"problem {place + 1}")
            for name, seed, run in contest.runs(methods, problem, best):
                contest.check(name, run, problem, best)
                costs += contest.costs(name, seed, place, run, best)
                curves.setdefault(name, []).append(_curve(run, best, grid))
        show(len(chosen) + problems, "")
    facts: dict[str, object] = {
        "family": type(family).__name__,
        "problems": problems,
        "sizes": [int(problem.shape[-1]) for problem, _ in held_out if problem.shape is not None],
        "max_steps": max_steps,
        "threads": torch.get_num_threads(),
        "validation": "other draws of the family" if validation is None else "its own family",
    }
    stacked = {name: np.stack(rows) for name, rows in curves.items()}
    return Evaluation(tuple(named), tuple(costs), choices, grid, stacked, facts)


def _check_distinct(named: Iterable[str], chosen: Iterable[Baseline | Tuned]) -> None:
    shared = sorted(set(named) & {baseline.name for baseline in chosen})
    if shared:
        raise ValueError(f"controllers must not be named as a baseline is; rename {shared}.")


def _check_runs(named: Mapping[str, list[Slot]], problem: Problem, domain: Domain) -> None:
    """Raise before anything is tuned if a controller cannot solve such problems."""
    for name, slots in named.items():
        for slot in slots:
            try:
                as_solver(slot, domain).begin(problem, None)
            except TypeError as error:
                raise TypeError(f"{name!r} cannot run on these problems: {error}") from error


def _epsilons(tolerances: Sequence[float]) -> list[float]:
    """The tolerances, largest first."""
    if not isinstance(tolerances, Sequence) or not tolerances:
        raise ValueError(f"tolerances must be a list of at least one; got {tolerances!r}.")
    return sorted((checks.positive("tolerances", tol) for tol in tolerances), reverse=True)


class _Contest:
    """Runs of methods on problems with known minima, and what each cost to reach a tolerance."""

    def __init__(self, family: ProblemFamily, tolerances: list[float], max_steps: int) -> None:
        self.domain, self.tolerances, self.max_steps = family.domain, tolerances, max_steps

    def draw(
        self, family: ProblemFamily, count: int, generator: torch.Generator, batch: int = 1
    ) -> list[tuple[Problem, Tensor]]:
        if not isinstance(generator, torch.Generator):
            raise TypeError(f"generator must be a torch.Generator; got {generator!r}.")
        if family.domain != self.domain:
            raise ValueError(
                f"validation must be a family over {self.domain}, as the held-out one; it is over "
                f"{family.domain}."
            )
        found = []
        for problem, first in [sampled(family, batch, generator) for _ in range(count)]:
            best = family.best_values(problem)
            if bool((best.abs() <= 1e-12 * first.abs()).any()):
                raise ValueError(
                    f"{type(family).__name__}.sample gave a problem whose minimum is 0, of which "
                    "no tolerance is a share. Add a constant to f, or noise to the data."
                )
            found.append((problem, best.double()))
        return found

    def targets(self, best: Tensor) -> Tensor:  # (tolerances, batch)
        return torch.stack([best + tol * best.abs() for tol in self.tolerances])

    def runs(
        self, methods: Sequence[tuple[str, int, Baseline]], problem: Problem, best: Tensor
    ) -> Iterator[tuple[str, int, Trajectory]]:
        """The runs of all methods that fit, side by side, so that all see the same machine."""
        goal = self.targets(best)[-1]
        for name, seed, method in methods:
            if method.fits(problem, self.domain):
                yield name, seed, method.run(problem, self.domain, self.max_steps, goal)

    def check(self, name: str, run: Trajectory, problem: Problem, best: Tensor) -> None:
        """Raise unless the reported values can be those of points of the domain."""
        slack = 1e-2 * best.abs()  # more than rounding
        if bool((run.values < best - slack).any()):
            raise ValueError(
                f"{name} reported f = {float(run.values.min()):.6g}, below the minimum "
                f"{float(best.min()):.6g}: it must report values of points of {self.domain}."
            )
        if run.x is None or not bool(torch.isfinite(run.values[-1]).all()):
            return
        x = torch.as_tensor(run.x, dtype=problem.dtype)  # the method may be in NumPy
        if x.shape != problem.shape:
            raise ValueError(
                f"{name} must report points of shape {tuple(problem.shape or ())}; got one of "
                f"shape {tuple(x.shape)}."
            )
        if not bool(
            self.domain.contains(x.double(), tol=1e-4 * max(1.0, float(x.abs().max()))).all()
        ):
            raise ValueError(f"{name} reported a point that is not in {self.domain}.")
        value = problem.value(problem.at(x)).double()
        if bool(((value - run.values[-1]).abs() > slack + 1e-3 * value.abs()).any()):
            raise ValueError(
                f"{name} reported f = {float(run.values[-1].max()):.6g} with a point where f is "
                f"{float(value.max()):.6g}."
            )

    def costs(self, name: str, seed: int, place: int, run: Trajectory, best: Tensor) -> list[Cost]:
        found = []
        for tolerance, target in zip(self.tolerances, self.targets(best), strict=True):
            t = int(run.first(target))
            there = (t, int(run.gradients[t]), float(run.seconds[t])) if t >= 0 else (np.inf,) * 3
            found.append(Cost(name, seed, place, tolerance, *there))
        return found


def _tuned(
    chosen: Sequence[Baseline | Tuned],
    contest: _Contest,
    tuning: Sequence[tuple[Problem, Tensor]],
    show: Callable[[float, str | None], None],
) -> tuple[list[Baseline], dict[str, Choice]]:
    ready: list[Baseline] = []
    choices = {}
    for place, entry in enumerate(chosen):
        show(place, f"tuning {entry.name}")
        if isinstance(entry, Baseline):
            ready.append(entry)
            continue
        if not all(entry.make(entry.grid[0]).fits(p, contest.domain) for p, _ in tuning):
            continue
        targets = [contest.targets(best) for _, best in tuning]
        problems = [problem for problem, _ in tuning]
        baseline, choice = tune(entry, problems, targets, contest.domain, contest.max_steps)
        ready.append(baseline)
        choices[baseline.name] = choice
    return ready, choices


def _warn_of_absent(
    chosen: Sequence[Baseline | Tuned],
    ready: Sequence[Baseline],
    domain: Domain,
    held_out: Sequence[tuple[Problem, Tensor]],
) -> None:
    """Warn about requested methods that the tables will not show."""
    there = {
        each.name for each in ready if any(each.fits(problem, domain) for problem, _ in held_out)
    }
    absent = [each.name for each in chosen if each.name not in there]
    if absent:
        warnings.warn(
            f"evaluate leaves out {', '.join(map(repr, absent))}, which cannot run on these "
            f"problems over {domain}.",
            stacklevel=3,
        )


def _curve(run: Trajectory, best: Tensor, grid: np.ndarray) -> np.ndarray:
    """The best relative suboptimality within each number of gradient evaluations."""
    excess = ((run.values - best) / best.abs()).flatten().cummin(0).values.clamp_min(0).numpy()
    place = np.searchsorted(run.gradients.numpy(), grid, side="right") - 1
    return np.where(place < 0, np.nan, excess[np.maximum(place, 0)])


def _silent(done: float, text: str | None) -> None:
    pass


def _named(controllers: Controllers) -> dict[str, list[Slot]]:
    if not isinstance(controllers, Mapping):
        controllers = {"learned": controllers}
    if not controllers:
        raise ValueError("controllers must not be empty.")
    named = {name: _listed(slots) for name, slots in controllers.items()}
    for name, slots in named.items():
        if not slots:
            raise ValueError(f"controllers must not be empty; {name!r} is.")
        for slot in slots:
            if not isinstance(slot, Slot):
                raise TypeError(
                    "controllers must be step rules, directions, oracles or FrankWolfe solvers; "
                    f"got {_brief(slot)}. learned.load(...) reads one, shipped or from a file."
                )
        kinds = sorted({type(slot).__name__ for slot in slots})
        if len(kinds) > 1:
            raise ValueError(
                f"controllers of one list are seeds of one training; these are {', '.join(kinds)}. "
                "Name them: {'one': ..., 'other': ...}."
            )
    return named


def _listed(slots: object) -> list[Any]:
    """Several seeds as a list; one controller, or a string, as a list of one."""
    several = isinstance(slots, Sequence) and not isinstance(slots, str)
    return list(slots) if several else [slots]  # type: ignore[call-overload]


def _brief(thing: object) -> str:
    """The class of a module, whose own text fills a page; the text of anything else."""
    return type(thing).__name__ if isinstance(thing, torch.nn.Module) else repr(thing)


def _chosen(baselines: str | Sequence[Baseline | Tuned]) -> Sequence[Baseline | Tuned]:
    if isinstance(baselines, str):
        if baselines != "default":
            raise ValueError(f'baselines must be "default" or a list; got {baselines!r}.')
        return default_baselines()
    if not isinstance(baselines, list | tuple):
        raise TypeError(f'baselines must be "default" or a list; got {baselines!r}.')
    for baseline in baselines:
        if not isinstance(baseline, Baseline | Tuned):
            raise TypeError(
                "baselines must be objects such as learned.baselines.FISTA(), or "
                f'learned.baselines.Solver("a name", solver); got {baseline!r} among them.'
            )
        if not isinstance(getattr(baseline, "name", None), str):
            raise TypeError(
                f"{type(baseline).__name__} needs a name, a string that stands in the tables."
            )
    names = [baseline.name for baseline in baselines]
    if len(set(names)) < len(names):
        raise ValueError(f"baselines must have names of their own; got {names}.")
    return baselines
