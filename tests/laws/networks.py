"""Networks: their derivatives beside those of the same steps taken twice."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

import fwnet
from cases import RULES, SOLVERS, SolverCase
from domains.cases import Case, all_cases
from fwnet.layers import FWNet, NeuralSparseSoftmax
from laws.coverage import note
from laws.differences import Difference, along_a_line
from laws.faces import Family, draw_polyhedron, draw_quadratic
from laws.solution_layers import FACES
from laws.solves import ORACLES, OracleCase


@cache
def small_cases() -> list[Case]:
    return [case for case in all_cases() if int(np.prod(case.shape)) <= 30]


class Setting(NamedTuple):
    """Where a network runs: numbers are of order 1, so that a step of 1e-6 is small."""

    domain: fwnet.Domain
    shape: tuple[int, ...]
    problem: Callable[[Tensor], fwnet.Problem]  # of t (2,)
    quadratic: bool
    sampled: bool  # f is a sum of terms
    text: str
    face: str = "-"


def moved(x: Tensor, ways: Tensor, t: Tensor) -> Tensor:
    """x + Σ t_k ways_k."""
    return x + torch.tensordot(t, ways, 1)


def face_setting(
    generator: np.random.Generator, family: Family | None = None, face: int | None = None
) -> Setting:
    """A quadratic whose minimum is on a chosen face."""
    place = draw_polyhedron(generator, family)
    while not 0.1 < place.size < 10:
        place = draw_polyhedron(generator, family)
    drawn = draw_quadratic(generator, place, int(generator.choice(FACES)) if face is None else face)
    scale = np.abs(drawn.K).max()
    K, c = (torch.from_numpy(part / scale) for part in (drawn.K, drawn.c))
    roots = generator.standard_normal((2, *drawn.K.shape))
    dK = torch.from_numpy(roots + roots.transpose(0, 2, 1))
    dc = torch.from_numpy(generator.standard_normal((2, len(c))))
    return Setting(
        place.domain,
        (len(c),),
        lambda t: fwnet.Quadratic(moved(K, dK, t), moved(c, dc, t)),
        quadratic=True,
        sampled=False,
        text=f"{place.domain}, face of dimension {drawn.dimension}",
        face=str(min(drawn.dimension, 3)),
    )


def data_setting(generator: np.random.Generator, case: Case | None = None) -> Setting:
    """Least squares or softmax regression of random data, on any domain."""
    every = small_cases()
    case = every[int(generator.integers(len(every)))] if case is None else case
    far = float(generator.choice([0.2, 1.0, 5.0]))
    if len(case.shape) == 1:
        n = case.shape[0]
        A, *dA = torch.from_numpy(generator.standard_normal((3, n + 2, n)))
        b, *db = torch.from_numpy(far * generator.standard_normal((3, n + 2)))

        def problem(t: Tensor) -> fwnet.Problem:
            return fwnet.LeastSquares(moved(A, torch.stack(dA), t), moved(b, torch.stack(db), t))
    else:
        X, *dX = torch.from_numpy(generator.standard_normal((3, 9, case.shape[0])))
        y = torch.from_numpy(generator.integers(0, case.shape[1], 9))

        def problem(t: Tensor) -> fwnet.Problem:
            return fwnet.SoftmaxRegression(far * moved(X, torch.stack(dX), t), y, case.shape[1])

    return Setting(case.domain, case.shape, problem, len(case.shape) == 1, True, f"{case}, data")


def draw_rule(generator: np.random.Generator, looks: bool, quadratic: bool) -> tuple[str, Any]:
    """Any rule with a derivative: not one whose search stops early, nor `ShortStep`, whose
    smoothness is a number without a derivative.
    """
    kept = [
        rule
        for rule in RULES
        if rule.name != "ShortStep"
        and (looks or not rule.monotone)
        and (quadratic or rule.name != "OverRelaxed")
    ]
    rule = kept[int(generator.integers(len(kept)))]
    if rule.name == "LineSearch" and not quadratic:
        return rule.name, fwnet.LineSearch(tol=1e-13, max_evaluations=60)
    return rule.name, rule.make()


def suits(solver: SolverCase, setting: Setting) -> bool:
    if solver.product_only and not isinstance(setting.domain, fwnet.Product):
        return False
    if solver.name == "SecondOrder":
        return setting.quadratic
    return solver.looks or setting.sampled


def draw_solver_network(
    generator: np.random.Generator, setting: Setting, solver: SolverCase
) -> Difference | None:
    """A network of a named solver."""
    steps, (name, rule) = _steps(generator), draw_rule(generator, solver.looks, setting.quadratic)
    note(solver=solver, rule=name, oracle="own")
    network = FWNet(solver.make(setting.domain, rule, max_steps=steps))
    return _compare(generator, setting, lambda: network, f"{solver}, rule {name}, {steps} steps")


def draw_oracle_network(
    generator: np.random.Generator, setting: Setting, oracle: OracleCase
) -> Difference | None:
    """A network of plain steps with a named oracle."""
    steps, seed = _steps(generator), int(generator.integers(2**31))
    name, rule = draw_rule(generator, True, setting.quadratic)
    note(solver="FrankWolfe", rule=name, oracle=oracle.name)

    def network() -> FWNet:  # each with its own randomness, and the same
        asked = oracle.make(torch.Generator().manual_seed(seed))
        return FWNet(fwnet.FrankWolfe(setting.domain, rule, oracle=asked, max_steps=steps))

    return _compare(
        generator, setting, network, f"oracle {oracle.name}, rule {name}, {steps} steps"
    )


def draw_network(generator: np.random.Generator) -> Difference | None:
    setting = (face_setting if generator.random() < 0.5 else data_setting)(generator)
    if generator.random() < 0.3:
        oracles = [case for case in ORACLES if isinstance(setting.domain, case.domains)]
        oracle = oracles[int(generator.integers(len(oracles)))]
        return draw_oracle_network(generator, setting, oracle)
    solvers = [case for case in SOLVERS if suits(case, setting)]
    solver = solvers[int(generator.integers(len(solvers)))]
    return draw_solver_network(generator, setting, solver)


def _steps(generator: np.random.Generator) -> int:
    return int(generator.integers(1, 7))


def _compare(
    generator: np.random.Generator, setting: Setting, network: Callable[[], FWNet], text: str
) -> Difference | None:
    weights = torch.from_numpy(generator.standard_normal(setting.shape))
    found = along_a_line(
        lambda t: (network()(setting.problem(t)).x * weights).sum(),
        f"FWNet, {text}, {setting.text}",
    )
    domain, face = type(setting.domain).__name__, setting.face
    note(kind="gradients, FWNet", domain=domain, face=face, compared=found is not None)
    return found


def draw_sparse_softmax(generator: np.random.Generator) -> Difference | None:
    """The loss of a minibatch in its features, with and without a path through the steps."""
    n, d, m = 8, int(generator.integers(2, 6)), int(generator.integers(2, 5))
    X, *ways = torch.from_numpy(generator.standard_normal((3, n, d)))
    dX = torch.stack(ways)
    y = torch.from_numpy(generator.integers(0, m, n))
    unrolled, cells = bool(generator.random() < 0.5), int(generator.integers(1, 4))
    radius = float(10 ** generator.uniform(-1, 1))
    before = torch.from_numpy(generator.standard_normal((d, m)))
    before = radius * before / torch.linalg.svdvals(before).sum()

    def layer() -> NeuralSparseSoftmax:
        made = NeuralSparseSoftmax(
            d, m, radius=radius, step_size=0.3, cells=cells, unrolled=unrolled
        ).double()
        made.weight = before.clone()
        return made

    fixed = layer()
    fixed.loss(X, y)

    def run(t: Tensor) -> Tensor:
        if unrolled or t.requires_grad:
            return layer().loss(moved(X, dX, t), y)
        return cross_entropy(moved(X, dX, t) @ fixed.weight, y)

    note(kind="gradients, NeuralSparseSoftmax", unrolled=unrolled)
    return along_a_line(run, f"NeuralSparseSoftmax({d}, {m}), {cells} cells, unrolled={unrolled}")
