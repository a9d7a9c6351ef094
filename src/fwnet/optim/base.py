"""What the optimizers share: groups with a domain, the step, a state_dict of plain data."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from functools import cached_property
from operator import itemgetter
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fwnet.domains import Domain
from fwnet.numerics import checks
from fwnet.optim.adam import AdamSteps, adam_options
from fwnet.optim.averages import Averages, averages_in_place
from fwnet.optim.fused import WORTH, FusedStep, machine, savings
from fwnet.optim.groups import Group, Held, State, check_rate, constrained, gradient_of, name_of
from fwnet.optim.layouts import place_of
from fwnet.optim.mixing import MATRIX_BALLS
from fwnet.optim.moves import Bucket, bucket_key
from fwnet.optim.points import check_fits, check_kind, check_known, warn_of_rows
from fwnet.optim.records import check_shapes, in_full_precision, packed, unpacked
from fwnet.optim.weights import conform, forget_weights, local
from fwnet.oracles import CostOracle, Exact, NewtonSchulz

Closure = Callable[[], Any]
RESCALES = (None, "vertex", "diameter", "gradient")


class StepPlan(NamedTuple):
    """What a step does, as long as the options and the gradients are those of the signature."""

    signature: list[Any]
    free: list[AdamSteps]
    buckets: list[Bucket]
    averages: list[Averages]
    slow: dict[Bucket, float]  # the seconds that machine code would save in a step, or nothing

    def is_current(self) -> bool:
        """Whether weights and schedules are still as its parts assume."""
        parts: Iterable[AdamSteps | Bucket] = (*self.free, *self.buckets)
        return False not in [part.is_current() for part in parts]


class VertexOptimizer(torch.optim.Optimizer):
    """An optimizer that moves parameters toward vertices of their domains, or by Adam.

        m <- β m + (1 − β) g,   v = argmin over the domain of ⟨m, v⟩,   w <- (1 − γ) w + γ v

    Attributes:
        feasible: whether weights start in their domains and must never leave them.
    """

    feasible: bool
    _loaded = False  # whether domains were loaded and the weights not checked since
    _plan_kept: StepPlan | None = None  # while it is valid
    _lost = 0.0  # seconds that machine code would have saved so far
    _averaged = False  # whether the parameters currently hold their averages

    def add_param_group(self, param_group: Group) -> None:
        """Add parameters with their own options; an invalid group raises and is not added."""
        warned = "param_names" in param_group  # by `constrain`, which made the group
        try:
            super().add_param_group(param_group)
        except ValueError as error:
            if "names" not in str(error):
                raise
            raise ValueError(
                f"{error}. Beside the groups of constrain(net), add those of constrain(module), or "
                "{'params': module.named_parameters(), ...}."
            ) from error
        try:
            self._check_names(group := self.param_groups[-1])
            self.check_group(group)
        except (TypeError, ValueError):
            self.param_groups.pop()
            raise
        if not warned:
            for name, parameter, _ in constrained(group):
                warn_of_rows(name, parameter, group["domain"], group["domain"])

    def check_group(self, group: Group) -> None:
        """Raise a clear error if the options do not fit each other or the parameters."""
        check_rate(group)
        for name in ("eps", "weight_decay"):
            checks.non_negative(name, group[name])
        _below_one("momentum", group["momentum"])
        if group["averaging"] is not None:
            checks.non_negative("averaging", group["averaging"])
        betas = group["betas"]
        if not isinstance(betas, tuple | list) or len(betas) != 2:
            raise TypeError(f"betas must be two numbers in [0, 1); got {betas!r}.")
        for k, beta in enumerate(betas):
            _below_one(f"betas[{k}]", beta)
        if group["rescale"] not in RESCALES:
            raise ValueError(f"rescale must be one of {RESCALES}; got {group['rescale']!r}.")
        domain, oracle = group["domain"], group["oracle"]
        check_kind(domain)
        if oracle is not None and not isinstance(oracle, CostOracle):
            raise TypeError(
                "oracle must be PowerIteration(), SoftTraceNorm(), NewtonSchulz() or Exact(); "
                f"got {oracle!r}."
            )
        for parameter in group["params"] if domain is not None else ():
            check_known(name_of(parameter, group), parameter)
        for name, parameter, place in constrained(group):
            check_fits(name, parameter, place)
            view = place.points(torch.empty_like(local(parameter)))
            oracle_of(place.domain, oracle).begin(place.domain, view)

    def _check_names(self, group: Group) -> None:
        """Reject a misspelt option: it would be ignored, and its weights left to Adam."""
        known = [*self.defaults, "params", "param_names", "norm"]
        for name in group:
            close = get_close_matches(name, known, n=1, cutoff=0.82)
            if close and name not in known:  # schedulers and users may add other options
                raise TypeError(f"a group has the option {name!r}; did you mean {close[0]!r}?")

    def step(self, closure: Closure | None = None) -> Any:
        """One step of every parameter that has a gradient.

        Arguments:
            closure: computes the loss and its gradients again; its value is returned.
        """
        if torch.compiler.is_compiling():  # Python numbers decide each step
            return torch.compiler.disable(self._step)(closure)
        return self._step(closure)

    def _step(self, closure: Closure | None) -> Any:
        if self._averaged:
            raise RuntimeError("step() inside averaged() would move the average; leave it first.")
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        recorded = torch.is_grad_enabled()
        torch.set_grad_enabled(False)  # a context manager would take twice as long
        try:
            self._move()
        finally:
            torch.set_grad_enabled(recorded)
        return loss

    def _move(self) -> None:
        if self._loaded:
            for group in self.param_groups:
                self.check_group(group)
            self._loaded = False
        plan = self._plan()
        if plan.slow:
            self._use_machine_code(plan)
        looks = [bucket.look() for bucket in plan.buckets]  # errors come before changes
        for adam in plan.free:
            self._notice_changes(adam.halves, [self.state[p] for p in adam.halves])
            adam.step(self.state)
            self._remember(adam.halves)
        for bucket, seen in zip(plan.buckets, looks, strict=True):
            owns = [self.state[p] for p in bucket.parameters]
            self._notice_changes(bucket.parameters, owns)
            bucket.move(seen, owns)
            self._remember(bucket.parameters)
        for averages in plan.averages:
            averages.update(self.state)

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Within the block the network has its averaged weights, to be evaluated or saved.

        They lie in their domains as the weights do. Buffers, of a batch norm for example, are not.

        Example:
            >>> from fwnet.optim import FrankWolfe
            >>> net = torch.nn.Linear(3, 2)
            >>> opt = FrankWolfe(net.parameters(), 0.1, TraceNormBall(9.0), averaging=8)
            >>> net(torch.ones(1, 3)).square().sum().backward()
            >>> opt.step()
            >>> with opt.averaged():
            ...     loss = net(torch.ones(1, 3)).square().sum()
        """
        if self._averaged:
            raise RuntimeError("averaged() inside averaged(): the weights are already averages.")
        if all(group["averaging"] is None for group in self.param_groups):
            raise RuntimeError("averaged() needs averages: pass averaging=8 to the optimizer.")
        self._averaged, versions = True, self._versions
        parameters = [p for group in self.param_groups for p in group["params"]]
        unchanged = [p for p in parameters if versions.get(id(p)) == p._version]
        try:
            with averages_in_place(self.param_groups, self.state, self.feasible):
                yield
        finally:
            self._averaged = False
            versions.update({id(p): p._version for p in unchanged})  # they came back to the bit

    def _plan(self) -> StepPlan:
        """Which parameters Adam moves and which move in their domains; kept while it is valid."""
        for group in self.param_groups:
            check_rate(group)  # a schedule may have changed it
        signature = _signature(self.param_groups)
        plan = self._plan_kept
        if plan is not None and plan.signature == signature and plan.is_current():
            return plan
        free: defaultdict[Any, list[tuple[Group, Tensor]]] = defaultdict(list)
        alike: defaultdict[Any, list[Held]] = defaultdict(list)
        for group in self.param_groups:
            options = adam_options(group)
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                _check_dense(parameter, group)
                conform(self.state[parameter], parameter)
                place = place_of(parameter, group["domain"])
                if place is None:
                    free[options].append((group, parameter))
                else:
                    oracle = oracle_of(place.domain, group["oracle"])
                    held = Held(parameter, group, place, oracle)
                    alike[bucket_key(held)].append(held)
        adams = [AdamSteps(*zip(*pairs, strict=True)) for pairs in free.values()]
        averages = [Averages(g) for g in self.param_groups if g["averaging"] is not None]
        buckets = [Bucket(members, self.feasible) for members in alike.values()]
        plan = StepPlan(signature, adams, buckets, averages, savings(buckets))
        self._plan_kept = plan
        return plan

    def _use_machine_code(self, plan: StepPlan) -> None:
        """Give the buckets their steps in machine code, once what they lost would pay for it.

        Only the steps of this optimizer count, so that a program repeats to the bit.
        """
        self._lost += round(sum(plan.slow.values()), 9)  # in whatever order
        if self._lost >= WORTH:
            code = machine()
            for bucket in plan.slow if code is not None else ():
                bucket.fused = FusedStep(bucket, code)
            plan.slow.clear()

    def _notice_changes(self, parameters: Sequence[Tensor], owns: Sequence[State]) -> None:
        """Forget what was computed from weights that the user has changed in place."""
        versions = self._versions
        for own, parameter in zip(owns, parameters, strict=True):
            now = parameter._version
            if versions.get(id(parameter), now) != now:
                forget_weights(own)

    def _remember(self, parameters: Sequence[Tensor]) -> None:
        versions = self._versions
        for parameter in parameters:
            versions[id(parameter)] = parameter._version

    @cached_property
    def _versions(self) -> dict[int, int]:
        """How often each parameter, by its id, had been changed after its last step."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """The state as numbers, strings and tensors, domains included."""
        state = super().state_dict()
        groups = [packed(group) for group in state["param_groups"]]
        return state | {"param_groups": groups, "seconds_lost": self._lost}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a `state_dict()`; its domains and oracles replace those of the groups.

        The weights must be those that belong to it; the next step checks that they fit.
        """
        saved = state_dict["param_groups"]
        now = [*self.param_groups, *({} for _ in saved)]
        groups = [unpacked(group, mine) for group, mine in zip(saved, now, strict=False)]
        for group, mine in zip(saved, self.param_groups, strict=False):
            check_shapes(state_dict["state"], group, mine)
        super().load_state_dict(state_dict | {"param_groups": groups})
        in_full_precision(self.state, self.param_groups, state_dict)
        self._lost = state_dict.get("seconds_lost", 0.0)
        self._versions.clear()
        self._plan_kept = None
        self._loaded = True

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_lost": self._lost}


def oracle_of(domain: Domain, chosen: CostOracle | None) -> CostOracle:
    """Exact for vectors; for matrices the chosen oracle, by default one that suits minibatches.

    Minibatch gradients agree a little in many singular directions but hardly in the first one, so
    rank-1 vertices cancel each other.
    """
    if domain.event_dim == 1:
        return _EXACT
    if chosen is not None:
        return chosen
    return _SPECTRAL if isinstance(domain, MATRIX_BALLS) else _EXACT


_EXACT, _SPECTRAL = Exact(), NewtonSchulz()


def _below_one(name: str, value: float) -> None:
    if not checks.non_negative(name, value) < 1:
        raise ValueError(f"{name} must lie in [0, 1); got {value!r}.")


def _signature(groups: list[Group]) -> list[Any]:
    """What a plan depends on: options, and which gradients there are."""
    return [
        (
            id(group),
            group.get("constrained"),
            _options(group),
            [None if p.grad is None else p.grad.layout for p in group["params"]],
        )
        for group in groups
    ]


_options = itemgetter("domain", "oracle", "rescale", "momentum", "maximize", "foreach", "averaging")


def _check_dense(parameter: Tensor, group: Group) -> None:
    if gradient_of(parameter).layout is not torch.strided:
        raise RuntimeError(
            f"{name_of(parameter, group)} has a sparse gradient, which this optimizer does not "
            "support. Use nn.Embedding(sparse=False), or torch.optim.SparseAdam for it."
        )
