"""FrankWolfe: stochastic Frank-Wolfe as a torch optimizer, Adam for the rest."""

from __future__ import annotations

from typing import Any, final

from torch import Tensor
from torch.optim.optimizer import ParamsT

from fwnet.domains import Domain
from fwnet.optim.base import Group, VertexOptimizer
from fwnet.optim.norms import OperatorNorm
from fwnet.optim.points import check_inside, domain_of, name_of
from fwnet.oracles import CostOracle


@final
class FrankWolfe(VertexOptimizer):
    """Stochastic Frank-Wolfe: every layer stays in its domain at every step.

        m <- β m + (1 − β) g,   v = argmin over the domain of ⟨m, v⟩,   w <- (1 − γ) w + γ v

    A weight is one point of its domain: a vector for vector domains, for matrix domains the matrix
    outputs × (the rest), as of a convolution. A bias in a group with a matrix domain, and every
    parameter of a group without a domain, is moved by AdamW with the same lr.

    The step γ, at most 1, by `rescale`:

        "vertex"     γ = lr · sqrt(n) / (2 ‖v‖)     entries move by at most lr (root mean square)
        "diameter"   γ = lr · sqrt(n) / diameter    the same, if v lies on the sphere
        "gradient"   γ = lr · ‖g‖ / ‖v − w‖         as far as gradient descent would
        None         γ = lr

    so that with the first one lr serves layers, balls and oracles of all sizes, and Adam too. It
    differs from the second in trace-norm balls only, where soft and spectral vertices are short.

    Rounding stays inside too: balls of vectors are scaled back; balls of matrices keep a small
    distance from the sphere (4e-3 of the radius at 1000 × 1000 in float32, 3e-5 at 100 × 50) and
    have their singular values measured every min(outputs, inputs) steps.

    The defaults train as fast as a tuned Adam on small networks with `constrain(net)`:
    `python -m benchmarks.optim_defaults` measures it.

    Arguments:
        params: parameters, or groups, each with options of its own; see `constrain`.
        lr: learning rate.
        domain: where the parameters live, or None for AdamW; a `spectral(...)`, `sign(...)` or
            `row(...)` takes its radius from each shape.
        momentum: β; minibatches need it, their vertices alone point everywhere.
        rescale: how lr becomes γ.
        oracle: how a matrix domain is asked; by default `NewtonSchulz` for the spectral and the
            trace-norm ball, which moves all singular directions alike, else exactly.
            `SoftTraceNorm` moves the large ones more and needs an SVD; `PowerIteration(1)`, a
            vertex of rank 1, is the cheapest and gives a low rank, but minibatches make it slow.
        averaging: a, to keep averages in which the t-th weights count like tᵃ, for `averaged()`; 8
            is a good choice. Steps of one length keep jumping around the place where they should
            end; the averages do not. They take the memory of one more copy of the weights.
        betas, eps, weight_decay, foreach: of AdamW.
        maximize: ascend.

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

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 5e-3,
        domain: Domain | OperatorNorm | None = None,
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
        super().__init__(params, defaults)

    def check_group(self, group: Group) -> None:
        super().check_group(group)
        if "norm" in group:
            raise TypeError('a group of FrankWolfe has a domain, not a norm: {"domain": ...}.')
        for parameter in group["params"]:
            domain = domain_of(parameter, group["domain"])
            if domain is not None:
                check_inside(name_of(parameter, group), parameter, domain)
