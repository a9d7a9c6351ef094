"""FrankWolfe: a solver holds its slots and budgets; `loop` takes the steps."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor, nn

from fwnet.directions import Direction, Toward
from fwnet.domains import Domain
from fwnet.iterates import ActiveSet, Iterate
from fwnet.numerics import checks
from fwnet.numerics.precision import without_autocast
from fwnet.oracles import Exact, Oracle
from fwnet.problems import Problem, as_problem
from fwnet.solvers.compiled.forward import FastForward, check_slots
from fwnet.solvers.loop import Ending, Method, SlotStates, run
from fwnet.solvers.observers import observers
from fwnet.solvers.watch import Watch
from fwnet.starts import Start
from fwnet.steps import LineSearch, OpenLoop, StepRule, as_rule
from fwnet.trace import MESSAGES, Observer, Result, Status

Objective = Problem | Callable[[Tensor], Tensor]
SLOTS: dict[str, type[nn.Module]] = {
    "rule": StepRule,
    "direction": Direction,
    "oracle": Oracle,
    "start": Start,
}


class FrankWolfe(Method):
    """Conditional gradients: linearise, ask for a vertex, step, never project.

        s = argmin over v in D of ⟨∇f(x), v⟩;   x <- x + γ d,   d = s − x

    Arguments:
        domain: where x lives.
        rule: how far to go, a `StepRule` or a function t -> γ; by default 2/(t + 2), or an exact
            line search for away, pairwise, blended and corrective directions.
        direction: where to go; toward the vertex by default.
        oracle: how the domain is asked for a vertex; exactly by default.
        start: where to begin if no x0 is given; at the domain's own start by default.
        max_steps: budget of steps.
        tol: stop when the duality gap is at most this.
        max_seconds: budget of time.
        check_every: steps between true certificates if the oracle is inexact, and between two
            looks at the gap on an accelerator; a problem that is solved in between stays put.
        refresh_every: steps after which Ax, and a gradient that moved with the steps, are
            recomputed, so that rounding does not accumulate.
        trace_every: `Result.trace` keeps the records whose t is a multiple of this, the first and
            the last; `on_step` still gets each.
        compiled: take the steps on arrays, without the call overhead that dominates small
            problems, and with each matrix of a batch in cache. They are the same up to rounding,
            for `LeastSquares`, `Quadratic` and `SVMDual` with dense matrices on the CPU, over
            `Simplex` and `L1Ball`, with most directions and rules; the clock, the observers and
            Ctrl-C are checked every few hundredths of a second. "auto" does so where it is faster,
            by NumPy, and in machine code as soon as that pays for loading it (needs Numba); True
            insists on machine code, whose first use compiles for some seconds, once per machine
            and dtype; False never does. `Result.message` says what ran.

    Example:
        >>> import torch, fwnet
        >>> problem = fwnet.LeastSquares(torch.eye(3), torch.tensor([0.5, 0.3, 0.2]))
        >>> solver = fwnet.FrankWolfe(fwnet.Simplex(), fwnet.LineSearch(), tol=1e-4)
        >>> solver(problem).status
        'converged'

    Reference: Frank and Wolfe (1956); Jaggi (2013).
    """

    def __init__(
        self,
        domain: Domain,
        rule: StepRule | Callable[[int], float | Tensor] | None = None,
        *,
        direction: Direction | None = None,
        oracle: Oracle | None = None,
        start: Start | None = None,
        max_steps: int = 1000,
        tol: float = 1e-6,
        max_seconds: float | None = None,
        check_every: int = 10,
        refresh_every: int = 1000,
        trace_every: int = 1,
        compiled: bool | Literal["auto"] = "auto",
    ) -> None:
        super().__init__()
        if not isinstance(domain, Domain):
            raise TypeError(
                f"domain must be a Domain such as Simplex(); got {domain!r}. "
                "The optimizer of a network's weights is fwnet.optim.FrankWolfe."
            )
        self.domain = domain
        self.direction = Toward() if direction is None else direction
        self.oracle = Exact() if oracle is None else oracle
        if rule is None:
            rule = LineSearch() if getattr(direction, "line_search", False) else OpenLoop()
        for name, kind in SLOTS.items():
            if name != "rule" and isinstance(rule, kind):  # a module can be called too
                raise TypeError(
                    f"rule must be a StepRule or a function of t; got {type(rule).__name__}, which "
                    f"is a {name}. Use FrankWolfe(domain, {name}=...)."
                )
        self.rule = as_rule(rule)
        self.start = start
        self._check_slots()
        self.max_steps = checks.at_least("max_steps", max_steps, 0)
        self.tol = checks.non_negative("tol", tol)
        if max_seconds is not None:
            checks.positive("max_seconds", max_seconds)
        self.max_seconds = max_seconds
        self.check_every = checks.at_least("check_every", check_every, 1)
        self.refresh_every = checks.at_least("refresh_every", refresh_every, 1)
        self.trace_every = checks.at_least("trace_every", trace_every, 1)
        if compiled not in ("auto", True, False):
            raise ValueError(f'compiled must be "auto", True or False; got {compiled!r}.')
        self.compiled = compiled if compiled == "auto" else bool(compiled)
        if self.compiled is True:
            check_slots(self)

    def extra_repr(self) -> str:
        compiled = "" if self.compiled == "auto" else f", compiled={self.compiled}"
        return f"domain={self.domain}, max_steps={self.max_steps}, tol={self.tol}{compiled}"

    @torch.no_grad()
    def forward(
        self,
        problem: Objective,
        x0: Tensor | Result | Iterate | None = None,
        *,
        on_step: Observer | None = None,
        progress: bool = False,
        verbose: bool = False,
    ) -> Result:
        """Minimise.

        Arguments:
            problem: a `Problem`, or any function of x that autograd can differentiate.
            x0: where to start: a point of the domain, which is not modified, or the `Result` of an
                earlier solve, with its atoms; the domain's own start by default. An `Iterate` of
                this problem is taken as it is, without a test.
            on_step: called with each `StepRecord`; stops the solve by returning True.
            progress: show a progress bar (needs rich).
            verbose: print a table of steps.
        """
        problem = as_problem(problem)
        with ExitStack() as stack:
            # The 8 bits of bfloat16 are too few for a certificate.
            stack.enter_context(without_autocast(problem.device))
            it, state = self.begin(problem, x0)
            ahead = FastForward.of(self, problem, it, state.rule)
            watching = observers(stack, on_step, progress, verbose, self.max_steps, self.tol)
            watch = Watch(self, problem, watching, it.x.device)
            try:
                end = run(self, problem, it, state, watch, ahead)
            except KeyboardInterrupt:
                end = Ending(watch.best or it, "interrupted", watch.taken)
            result = self._result(watch, end)
            if ahead is None or ahead.taken == 0:
                return result
            return replace(result, message=f"{result.message}; steps by {ahead.name}")

    def begin(
        self, problem: Problem, x0: Tensor | Result | Iterate | None
    ) -> tuple[Iterate, SlotStates]:
        """The first iterate and the slots' first states; an `Iterate` as x0 is trusted."""
        if isinstance(x0, Iterate):
            return x0, self._first_states(problem, x0)
        active = x0.active if isinstance(x0, Result) and self.direction.keeps_atoms else None
        x = self._start(problem, x0.x if isinstance(x0, Result) else x0)
        it = problem.at(x)
        if not self.oracle.reads_image:
            it = Iterate(it.x)
        if self.direction.keeps_atoms:
            if active is None or not self._holds(active):
                atoms, weights = self.domain.decompose(x)
                active = ActiveSet(atoms, weights).moved(0.0, (), x.new_zeros(()))  # no rounding
            own = active.atoms.each(lambda tensor, dims: tensor.clone())  # slots are reused
            it = Iterate(it.x, it.image, ActiveSet(own, active.weights))
        return it, self._first_states(problem, it)

    def _first_states(self, problem: Problem, it: Iterate) -> SlotStates:
        rule = self.rule.init(problem, it)  # first: its error names what the user chose
        return SlotStates(
            self.oracle.init(problem, self.domain, it),
            self.direction.init(problem, self.domain, it),
            rule,
        )

    def _check_slots(self) -> None:
        for name, kind in SLOTS.items():
            slot = getattr(self, name)
            if not isinstance(slot, kind) and not (slot is None and kind is Start):
                article = "an" if kind is Oracle else "a"
                raise TypeError(f"{name} must be {article} {kind.__name__}; got {slot!r}.")
        if self.rule.reads_objective and not self.oracle.reads_image:
            raise TypeError(
                f"{type(self.rule).__name__} evaluates f, of which {type(self.oracle).__name__} "
                "sees only a sample; use OpenLoop(), Constant(...) or ShortStep(...)."
            )

    def _start(self, problem: Problem, x0: Tensor | None) -> Tensor:
        if x0 is None:
            if problem.shape is None:
                raise ValueError(
                    "x0 must be given: the shape of a plain function's argument is unknown. Start "
                    "from domain.start(shape)."
                )
            self._check_batch(problem, tuple(problem.shape), "problem")
            if self.start is not None:
                return self._start(problem, self.start(problem, self.domain))
            x = self.domain.start(tuple(problem.shape), problem.dtype, problem.device)
            if not self.direction.keeps_atoms:
                return x
            return self.domain.vertex(problem.gradient(problem.at(x))).dense()
        x = problem.check_point("x0", x0)
        self._check_batch(problem, tuple(x.shape), "x0")
        inside = self.domain.contains(x)
        if not torch.compiler.is_compiling() and not bool(inside.all()):
            where = (
                "" if inside.ndim == 0 else f" (problem {int((~inside).nonzero()[0])} of the batch)"
            )
            near = self.domain.project(x)
            far = "" if near is None else f"; it is {float((x - near).norm()):.2g} away"
            raise ValueError(
                f"x0 must lie in {self.domain}{where}{far}. Start from domain.start(shape), or "
                "from domain.lmo(cost).dense()."
            )
        return x.clone()  # so that a result never aliases x0

    def _holds(self, active: ActiveSet) -> bool:
        """Whether the atoms of an earlier solve lie in this domain; otherwise x could leave it."""
        slots = range(active.weights.shape[-1])
        which = [active.weights.new_full(active.weights.shape[:-1], k).long() for k in slots]
        return all(
            bool((self.domain.contains(active.atoms.select(k).dense()) | ~used).all())
            for k, used in zip(which, active.used.unbind(-1), strict=True)
        )

    def _check_batch(self, problem: Problem, shape: tuple[int, ...], name: str) -> None:
        self.domain.check_shape(name, shape)
        points = len(shape) - problem.batch_dims
        if points != self.domain.event_dim:
            kind = "vectors" if self.domain.event_dim == 1 else "matrices"
            raise ValueError(
                f"{name}: {self.domain} holds {kind}, but shape {shape} with {problem.batch_dims} "
                f"batch dimensions has points of {points} dimensions. Flatten x, or build the "
                "problem with a batch dimension."
            )

    def _result(self, watch: Watch, end: Ending) -> Result:
        it, true = end.it, end.true
        sound = watch.sound(it)
        if true is None or sound is not it:
            it, true = watch.certify(sound)
        assert true.gap is not None
        status: Status | tuple[Status, ...] = end.status
        steps: int | tuple[int, ...] = end.t
        note = ""
        if true.value.ndim:
            status, steps, note = watch.outcomes(true.gap, end.status)
        elif watch.remote and watch.steps is not None:
            steps = int(watch.steps)  # without those of size 0 after the last check
        note = f" (step {end.t})" if end.status == "non_finite" else note
        message = MESSAGES[end.status] + note
        return Result(it.x, true.value, true.gap, status, steps, watch.trace, message, it.active)
