"""The law of gradients: every layer's derivative is that of what it computes.

    ⟨∇θ loss, way⟩ = (loss(θ + h way) − loss(θ − h way)) / 2h

at interior points, faces, edges and vertices. What a solution layer is compared with is no layer:
the minima of `laws.faces`, Newton's on a face, all supports of a small dual, one after the other,
and where they are installed qpth and cvxpylayers. A network's reference is the network itself,
evaluated twice: its derivative must be that of its steps. At a kink of a network, and at a tie of a
dual, a derivative must be finite and is compared with nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from itertools import product
from typing import NamedTuple

import numpy as np

from cases import SOLVERS
from laws.differences import Difference
from laws.faces import FAMILIES
from laws.networks import (
    Setting,
    data_setting,
    draw_network,
    draw_oracle_network,
    draw_solver_network,
    draw_sparse_softmax,
    face_setting,
    small_cases,
    suits,
)
from laws.peers import draw_logistic, draw_peer
from laws.solution_layers import (
    FACES,
    KERNELS,
    draw_feature_qp,
    draw_implicit,
    draw_simplex_qp,
    draw_svm,
)
from laws.solves import ORACLES

Draw = Callable[[np.random.Generator], Difference | None]
DrawSetting = Callable[[np.random.Generator], Setting]
Network = Callable[[np.random.Generator, Setting], Difference | None]


class Case(NamedTuple):
    """One comparison, drawn from its own seed."""

    name: str
    draw: Draw
    seed: int


def cases(seed: int) -> list[Case]:
    """Every layer on every domain that it takes, at every kind of face."""
    named = solutions() + networks()
    return [Case(name, draw, seed + k) for k, (name, draw) in enumerate(named)]


def solutions() -> list[tuple[str, Draw]]:
    """The layers that solve."""
    named: list[tuple[str, Draw]] = []
    for face in FACES:
        for family in FAMILIES:
            name = f"ImplicitLayer, {family.__name__}, {face} corners"
            named.append((name, partial(draw_implicit, family=family, face=face)))
        named.append((f"SimplexQP, {face} corners", partial(draw_simplex_qp, face=face)))
        named.append((f"SimplexQP, features, {face} corners", partial(draw_feature_qp, face=face)))
    for kernel, turn in product(KERNELS, range(4)):
        named.append((f"SVMLayer, {kernel}, {turn}", partial(draw_svm, kernel=kernel)))
    return named


def networks() -> list[tuple[str, Draw]]:
    """Every solver on every polytope, every domain with several solvers and all its oracles.

    Kinds of faces and solvers take turns; random cases meet all of their pairs.
    """
    named: list[tuple[str, Draw]] = [("NeuralSparseSoftmax", draw_sparse_softmax)]
    faced = [solver for solver in SOLVERS if solver.looks and not solver.product_only]
    for k, (solver, family) in enumerate(product(faced, FAMILIES)):
        face = FACES[k % len(FACES)]
        setting: DrawSetting = partial(face_setting, family=family, face=face)
        network: Network = partial(draw_solver_network, solver=solver)
        name = f"FWNet, {solver}, {family.__name__}, {face} corners"
        named.append((name, partial(in_setting, setting=setting, network=network)))
    for k, case in enumerate(small_cases()):
        setting = partial(data_setting, case=case)
        drawn = setting(np.random.default_rng(0))
        choices: list[tuple[str, Network]] = [
            (oracle.name, partial(draw_oracle_network, oracle=oracle))
            for oracle in ORACLES
            if isinstance(case.domain, oracle.domains)
        ]
        solvers = [solver for solver in SOLVERS if suits(solver, drawn)]
        choices += [(s.name, partial(draw_solver_network, solver=s)) for s in solvers[k % 3 :: 3]]
        for name, network in choices:
            draw = partial(in_setting, setting=setting, network=network)
            named.append((f"FWNet, {name}, {case}, data {k}", draw))
    return named


def in_setting(
    generator: np.random.Generator,
    setting: DrawSetting,
    network: Network,
) -> Difference | None:
    return network(generator, setting(generator))


@cache
def outcome(case: Case) -> Difference | None:
    """The comparison, None at a kink."""
    return case.draw(np.random.default_rng(case.seed))


def check(case: Case) -> str | None:
    """None, or a sentence that says what is wrong."""
    found = outcome(case)
    return None if found is None else found.failure()


SHARES: dict[Draw, float] = {
    draw_implicit: 0.2,
    draw_logistic: 0.05,
    draw_peer: 0.05,
    draw_network: 0.45,
    draw_simplex_qp: 0.05,
    draw_feature_qp: 0.05,
    draw_svm: 0.1,
    draw_sparse_softmax: 0.05,
}


def attack(generator: np.random.Generator) -> str | None:
    """One random case; None, or a sentence that says what is wrong."""
    draws = list(SHARES)
    found = draws[int(generator.choice(len(draws), p=list(SHARES.values())))](generator)
    return None if found is None else found.failure()
