"""ConditionalGradient: norm-constrained steps for whole networks."""

from __future__ import annotations

from typing import Any, final

from torch import Tensor
from torch.optim.optimizer import ParamsT

from fwnet.domains import Domain
from fwnet.optim.base import VertexOptimizer
from fwnet.optim.groups import Group
from fwnet.optim.layouts import Layout
from fwnet.optim.norms import OperatorNorm, spectral
from fwnet.oracles import CostOracle


@final
class ConditionalGradient(VertexOptimizer):
    """Steps of constant length in a norm that fits the layer: Scion.

        m <- β m + (1 − β) g,   v = argmin over the ball of ⟨m, v⟩
        constrained:    w <- (1 − lr) w + lr · v     the ball pulls w inside, a weight decay
        unconstrained:  w <- w + lr · v              the ball only measures the step

    The radius follows each layer's shape, so that one lr serves networks of all widths. Weights
    may start outside their ball: the distance shrinks by the factor 1 − lr per step. To start
    inside and stay there, use `FrankWolfe`.

    Arguments:
        params: parameters, or groups with their own options.
        lr: learning rate, at most 1.
        norm: `spectral(...)`, `sign(...)`, `row(...)`, or any domain; usually spectral for
            hidden layers and sign for the last one. None means AdamW.
        momentum: β.
        constrained: whether the ball pulls w inside.
        oracle, averaging: as for `FrankWolfe`.

    Example:
        >>> from fwnet.optim import ConditionalGradient, sign, spectral
        >>> net = torch.nn.Sequential(torch.nn.Linear(8, 9), torch.nn.Tanh(), torch.nn.Linear(9, 3))
        >>> groups = [
        ...     {"params": net[0].parameters(), "norm": spectral(3.0)},
        ...     {"params": net[2].parameters(), "norm": sign(10.0)},
        ... ]
        >>> opt = ConditionalGradient(groups, lr=0.02)
        >>> net(torch.ones(4, 8)).square().sum().backward()
        >>> opt.step()

    Reference: Pethick et al., Training Deep Learning Models with Norm-Constrained LMOs (2025).
    """

    feasible = False

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        norm: OperatorNorm | Domain | Layout | None = spectral(),  # noqa: B008, frozen
        *,
        momentum: float = 0.9,
        constrained: bool = True,
        oracle: CostOracle | None = None,
        averaging: float | None = None,
        maximize: bool = False,
    ) -> None:
        defaults: dict[str, Any] = {
            "lr": lr,
            "domain": norm,
            "momentum": momentum,
            "rescale": None,
            "oracle": oracle,
            "averaging": averaging,
            "betas": (0.9, 0.999),
            "eps": 1e-8,
            "weight_decay": 0.0,
            "foreach": None,
            "maximize": maximize,
            "constrained": constrained,
        }
        super().__init__(params, defaults)

    def add_param_group(self, param_group: Group) -> None:
        """Add parameters with a norm of their own."""
        if "norm" in param_group:
            param_group["domain"] = param_group.pop("norm")
        super().add_param_group(param_group)

    def check_group(self, group: Group) -> None:
        super().check_group(group)
        if group["domain"] is not None and float(group["lr"]) > 1:
            raise ValueError(f"lr must be at most 1, a full step to the vertex; got {group['lr']}.")
