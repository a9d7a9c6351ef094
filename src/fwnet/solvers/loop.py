"""The loop: look, judge, choose, move."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from torch import Tensor, nn

from fwnet.directions import Direction
from fwnet.domains import Domain
from fwnet.iterates import Iterate, Move
from fwnet.oracles import Linearization, Oracle
from fwnet.problems import Problem
from fwnet.steps import StepRule
from fwnet.trace import Status

if TYPE_CHECKING:
    from fwnet.solvers.compiled import FastForward
    from fwnet.solvers.watch import Watch


class SlotStates(NamedTuple):
    """What the slots remember from step to step."""

    oracle: Any
    direction: Any
    rule: Any


class Ending(NamedTuple):
    """Where and why a solve ended, and the true linearisation there if known."""

    it: Iterate
    status: Status
    t: int
    true: Linearization | None = None


class Method(nn.Module):
    """The slots of a solver, and what a step asks of them."""

    domain: Domain
    oracle: Oracle
    direction: Direction
    rule: StepRule

    def look(
        self, problem: Problem, it: Iterate, state: SlotStates
    ) -> tuple[Linearization, SlotStates]:
        """Gradient, vertex, gap or its estimate."""
        lin, oracle = self.oracle(problem, self.domain, it, state.oracle)
        return lin, SlotStates(oracle, state.direction, state.rule)

    def choose(
        self, problem: Problem, it: Iterate, lin: Linearization, state: SlotStates
    ) -> tuple[Move, Tensor, SlotStates]:
        """The move and its step size, clamped so that x stays in the domain."""
        move, direction = self.direction(problem, it, lin, state.direction)
        step_size, rule = self.rule(problem, it, move, state.rule)
        return move, move.clamped(step_size), SlotStates(state.oracle, direction, rule)


def run(
    method: Method,
    problem: Problem,
    it: Iterate,
    state: SlotStates,
    watch: Watch,
    ahead: FastForward | None = None,
    t: int = 0,
) -> Ending:
    """Take steps until the watch has a reason to stop.

        s = argmin over v in D of ⟨∇f(x), v⟩;   x <- x + γ d

    Arguments:
        it, state: the first iterate and the slots' first states.
        watch: certificates, budgets, records.
        ahead: takes as many steps as it can in machine code, if given.
        t: steps taken before, by a run that is resumed.
    """
    while True:
        if ahead is not None:
            it, state, t, stopped = ahead(it, state, t, watch)
            if stopped:
                return Ending(it, "stopped", t)
        lin = None
        if t < watch.max_steps:
            lin, state = method.look(problem, it, state)  # gradient, vertex, gap or its estimate
        seen = watch.judge(t, it, lin)  # f, the true gap where it is due, why to stop
        if seen.status is not None or seen.lin is None:
            return watch.ending(t, seen)
        move, step_size, state = method.choose(problem, seen.it, seen.lin, state)
        step_size = watch.freeze(seen.gap, step_size)
        if watch.record(t, seen.value, seen.gap, step_size):
            return Ending(seen.it, "stopped", t)
        it, t = watch.settled(move.arrive(step_size), t + 1), t + 1
