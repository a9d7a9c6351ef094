"""FrankWolfe: stochastic Frank-Wolfe as a torch optimizer, Adam for the rest."""

from __future__ import annotations

from typing import Any, final

from torch import Tensor, nn
from torch.optim.optimizer import ParamsT

from fwnet.domains import Domain
from fwnet.optim.base import VertexOptimizer
from fwnet.optim.groups import Group, constrained, warn
from fwnet.optim.layouts import Layout
from fwnet.optim.norms import OperatorNorm
from fwnet.optim.points import check_inside, is_inside
from fwnet.oracles import CostOracle


@final
class FrankWolfe(VertexOptimizer):
    """Stochastic Frank-Wolfe: every layer stays in its domain at every step.

        m <- β m + (1 − β) g,   v = argmin over the domain of ⟨m, v⟩,   w <- (1 − γ) w + γ v

    A weight is one point of its domain: a vector for vector domains, a matrix outputs × (all other
    dimensions) for matrix domains; `rows`, `columns` and `stack` make it many. A bias in a group
    with a matrix domain, and every parameter of a group without a domain, is moved by AdamW with
    the same lr.

    `rescale` determines the step γ, which is at most 1:

        "vertex"     γ = lr · sqrt(n) / (2 ‖v‖)     entries move by at most lr (root mean square)
        "diameter"   γ = lr · sqrt(n) / diameter    the same, if v lies on the sphere
        "gradient"   γ = lr · ‖g‖ / ‖v − w‖         as far as gradient descent would go
        None         γ = lr

    With "vertex", one lr suits layers, balls and oracles of all sizes, and Adam. It differs from
    "diameter" only in trace-norm balls, where soft and spectral vertices are short.

    Rounding cannot leave the domain either: in balls of vectors weights are scaled back; in balls
    of matrices they keep a small distance from the sphere (4e-3 of the radius at 1000 × 1000 in
    float32, 9e-4 at 100 × 50), and singular values are computed when a bound on the norm, which is
    carried along, reaches the radius. Weights in bfloat16 and float16 have a float32 master.

    The defaults train as fast as a tuned Adam on small networks with `constrain(net)`:
    `python -m benchmarks.optim_defaults` measures it.

    Arguments:
        params: parameters, or groups with their own options; see `constrain`.
        lr: learning rate, a number or a tensor of one entry.
        domain: where the parameters live, or None for AdamW; `spectral(...)`, `sign(...)` and
            `row(...)` take their radius from each shape.
        momentum: β; minibatches need it, since their vertices point in very different directions.
        rescale: how lr becomes γ.
        oracle: of matrix domains; by default `NewtonSchulz()` for the spectral and the trace-norm
            ball, which moves all singular directions about equally, and the exact oracle elsewhere.
            `SoftTraceNorm` moves the large ones more and needs an SVD; `PowerIteration(1)`, a
            vertex of rank 1, is the cheapest and gives a low rank, but is slow on minibatches.
        averaging: a, to keep averages in which the t-th weights count like tᵃ, for `averaged()`; 8
            is a good choice. Steps of constant length keep jumping around the optimum; the averages
            do not. They cost the memory of one more copy of the weights.
        betas, eps, weight_decay, foreach: of AdamW.
        maximize: ascend instead of descend.

    Example:
        >>> from fwnet.optim import FrankWolfe
        >>> layer = torch.nn.Linear(20, 10)
        >>> opt = FrankWolfe(layer.parameters(), lr=1e-2, domain=TraceNormBall(20.0))
        >>> layer(torch.ones(3, 20)).square().sum().backward()
        >>> opt.step()
        >>> bool(TraceNormBall(20.0).contains(layer.weight))
        True

    Reference: Pokutta, Spiegel and Zimmer, Deep Neural Network Training with Frank-Wolfe (2020);
    Mokhtari, Hassani and Karbasi, Stochastic Conditional Gradient Methods (2020).
    """

    feasible = True
    _chosen = False  # whether the user has said, of any group, where its parameters live

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 5e-3,
        domain: Domain | OperatorNorm | Layout | None = None,
        *,
        momentum: float = 0.9,
        rescale: str | None = "vertex",
        oracle: CostOracle | None = None,
        averaging: float | None = None,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        defaults: dict[str, Any] = {
            "lr": lr,
            "domain": domain,
            "momentum": momentum,
            "rescale": rescale,
            "oracle": oracle,
            "averaging": averaging,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
        }
        if isinstance(params, nn.Module | Domain):
            raise TypeError(
                "FrankWolfe(params) takes parameters or the groups of constrain(net); got a "
                f"{type(params).__name__}. Write FrankWolfe(constrain(net))."
            )
        self._chosen = domain is not None
        super().__init__(params, defaults)
        if not self._chosen:
            warn(
                "FrankWolfe: no parameter has a domain, so AdamW moves all of them. Write "
                "FrankWolfe(constrain(net)), or pass domain=.... If AdamW is what you want, say "
                'so in a group, {"params": ..., "domain": None}, or use torch.optim.AdamW.'
            )

    def add_param_group(self, param_group: Group) -> None:
        """Add parameters, with a domain of their own or that of the optimizer."""
        self._chosen |= "domain" in param_group
        super().add_param_group(param_group)

    def is_feasible(self) -> bool:
        """Whether every parameter lies in its domain, up to 1e-6 of the domain's size.

        Example:
            >>> from fwnet.optim import FrankWolfe, constrain
            >>> net = torch.nn.Linear(3, 2)
            >>> opt = FrankWolfe(constrain(net, {"weight": TraceNormBall(1.0)}))
            >>> opt.is_feasible()
            True
        """
        return all(
            is_inside(parameter, place)
            for group in self.param_groups
            for _, parameter, place in constrained(group)
        )

    def check_group(self, group: Group) -> None:
        super().check_group(group)
        if "norm" in group:
            raise TypeError('a group of FrankWolfe takes a domain, not a norm: {"domain": ...}.')
        for name, parameter, place in constrained(group):
            check_inside(name, parameter, place)
