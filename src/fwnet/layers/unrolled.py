"""FWNet: a solver unrolled as a recurrent network, the paper's Fig. 1."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint as save_memory

from fwnet.domains import Domain
from fwnet.iterates import Iterate
from fwnet.layers.domain_parameters import UNROLLED, refuse_gradients
from fwnet.numerics.precision import without_autocast
from fwnet.oracles import certify
from fwnet.problems import Problem, as_problem
from fwnet.solvers import FrankWolfe, Objective, SlotStates
from fwnet.trace import Result, Status, StepRecord, Trace


@final
@dataclass(frozen=True, eq=False)
class CellState:
    """What flows from cell to cell: the iterate and the slots' states; and f at the cell."""

    it: Iterate
    slots: SlotStates
    value: Tensor  # f before the step
    step_size: Tensor


@final
class FWNet(nn.Module):
    """`max_steps` Frank-Wolfe steps as a recurrent network.

        x_{t+1} = cell(x_t) = x_t + γ_t d(x_t),   t = 0, …, T − 1

    Differentiable in the problem's data, in x0, in any weights that the solver's slots hold, and in
    the bounds of a `Box` and the vertices of a `ConvexHull`; every iterate is feasible. All T steps
    are taken: the solver's `tol`, clock and `compiled` do not apply. Under autocast it computes in
    the precision of the problem's data.

    Arguments:
        solver: any `FrankWolfe`; its slots become the cell.
        checkpoint: recompute each cell in the backward pass instead of storing its activations.

    Example:
        >>> import torch, fwnet
        >>> solver = fwnet.FrankWolfe(fwnet.Simplex(), oracle=fwnet.Softmin(10.0), max_steps=20)
        >>> net = fwnet.FWNet(solver)
        >>> K = torch.eye(4, requires_grad=True)
        >>> net(fwnet.Quadratic(K)).value.backward()
        >>> K.grad.shape
        torch.Size([4, 4])
    """

    def __init__(self, solver: FrankWolfe, checkpoint: bool = False) -> None:
        super().__init__()
        if not isinstance(solver, FrankWolfe):
            raise TypeError(f"FWNet(solver) must be a FrankWolfe solver; got {solver!r}.")
        self.solver, self.checkpoint = solver, checkpoint

    def forward(self, problem: Objective, x0: Tensor | None = None) -> Result:
        """Unroll all steps; `trace` holds tensors, through which gradients flow."""
        problem = as_problem(problem)
        with without_autocast(problem.device):
            return self._unroll(problem, x0)

    def _unroll(self, problem: Problem, x0: Tensor | None) -> Result:
        records: list[StepRecord] = []
        it, slots = self.solver.begin(problem, x0)
        for t, cell in enumerate(self._cells(problem, it, slots)):
            it = cell.it
            records.append(StepRecord(t, cell.value, torch.nan, cell.step_size, 0.0))
        message = "all steps of the network were taken"
        steps = self.solver.max_steps
        return all_steps_taken(problem, self.solver.domain, it, steps, records, message)

    def cells(self, problem: Objective, x0: Tensor | None = None) -> Iterator[CellState]:
        """The network cell by cell, for losses over the whole trajectory."""
        problem = as_problem(problem)
        with without_autocast(problem.device):
            it, slots = self.solver.begin(problem, x0)
        yield from self._cells(problem, it, slots)

    def _cells(self, problem: Problem, it: Iterate, slots: SlotStates) -> Iterator[CellState]:
        refuse_gradients("FWNet", self.solver.domain, UNROLLED)
        for _ in range(self.solver.max_steps):
            if self.checkpoint and torch.is_grad_enabled():
                state: CellState = save_memory(self.cell, problem, it, slots, use_reentrant=False)
            else:
                state = self.cell(problem, it, slots)
            it, slots = state.it, state.slots
            yield state

    def cell(self, problem: Problem, it: Iterate, slots: SlotStates) -> CellState:
        """One step as a recurrent cell: (x, states) -> (x, states)."""
        with without_autocast(problem.device):
            lin, slots = self.solver.look(problem, it, slots)
            move, step_size, slots = self.solver.choose(problem, it, lin, slots)
            return CellState(move.arrive(step_size), slots, lin.value, step_size)


def all_steps_taken(
    problem: Problem,
    domain: Domain,
    it: Iterate,
    steps: int,
    records: list[StepRecord],
    message: str,
) -> Result:
    """The result of a fixed number of steps, with the certified gap of its last iterate."""
    end = problem.at(it.x)
    with torch.no_grad():
        gap = certify(problem, domain, end).gap
    assert gap is not None
    status: Status = "max_steps"
    return Result(
        it.x,
        problem.value(end),
        gap,
        (status,) * len(gap) if gap.ndim else status,
        (steps,) * len(gap) if gap.ndim else steps,
        Trace(records=records),
        message,
        it.active,
    )
