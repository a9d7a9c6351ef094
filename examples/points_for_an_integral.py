"""Where to evaluate f? Points for an integral that Frank-Wolfe chooses, with an error bound.

    ∫ f dπ ≈ Σ wᵢ f(xᵢ),   π a mixture of two Gaussians in the plane

Frank-Wolfe chooses points where the kernel mean of π is represented worst, Bayesian quadrature
weighs them, gradients move them. The worst-case error bounds the error for every f of unit norm.

See: as few points as a tenth of Monte Carlo's give a smaller error, and the true error lies within
two posterior standard deviations.
"""

import math

import torch

from fwnet.quadrature import RBF, Gaussian, MixtureMeasure, QuadratureRule, quadrature
from fwnet.quadrature.rules import worst_case_error
from fwnet.show.scripts import options, save, table


def f(x: torch.Tensor) -> torch.Tensor:
    return torch.sin(x[:, 0] + 0.5) * torch.exp(-0.5 * x[:, 1] ** 2)


def main() -> None:
    arguments = options(__doc__)
    parts = [Gaussian([-1.0, 0.5], [0.5, 1.0]), Gaussian([1.5, -0.5], [[1.0, 0.4], [0.4, 0.6]])]
    measure, kernel = MixtureMeasure([0.4, 0.6], parts), RBF(1.0)
    generator = torch.Generator().manual_seed(0)
    true = float(f(measure.sample(200_000 if arguments.quick else 5_000_000, generator)).mean())
    rows = []
    for n in (10, 20, 40):
        drawn = measure.sample(10 * n, generator)
        equal = torch.full((10 * n,), 0.1 / n, dtype=torch.float64)
        error = worst_case_error(kernel, measure, drawn, equal)
        mean = float(f(drawn).mean())
        rows.append((f"Monte Carlo, {10 * n} points", mean, math.nan, mean - true, error))
        for method in ("herding", "pairwise", "sequential"):
            rule = quadrature(measure, n, kernel, method=method)
            found = rule.integrate(f)
            name = f"{method}, {n} points"
            rows.append((name, found.value, found.std, found.value - true, rule.worst_case_error))
    table(("points", "estimate", "std", "error", "worst-case error"), rows)
    if arguments.plot is not None:
        draw(measure, quadrature(measure, 40, kernel), arguments.plot)


def draw(measure: MixtureMeasure, rule: QuadratureRule, file: str) -> None:
    """The points over the density, weights as areas."""
    from matplotlib import pyplot

    _, ax = pyplot.subplots(figsize=(5.5, 4.5), layout="constrained")
    grid = torch.linspace(-4, 5, 160, dtype=torch.float64)
    x, y = torch.meshgrid(grid, grid - 0.5, indexing="xy")
    at = torch.stack([x.flatten(), y.flatten()], 1)
    density = torch.zeros(len(at), dtype=torch.float64)
    for share, part in zip(measure.weights, measure.parts, strict=True):
        assert isinstance(part, Gaussian)
        normal = torch.distributions.MultivariateNormal(part.mean, part.covariance)
        density += share * normal.log_prob(at).exp()
    ax.contourf(x, y, density.reshape(x.shape), levels=12, cmap="Blues")
    size = 3000 * rule.weights.abs()
    colour = ["tab:orange" if w > 0 else "tab:red" for w in rule.weights.tolist()]
    ax.scatter(
        rule.points[:, 0], rule.points[:, 1], s=size, c=colour, edgecolor="white", linewidth=0.7
    )
    ax.set(xlabel="x₁", ylabel="x₂", title="40 points; areas are weights, red ones negative")
    save(ax, file)


if __name__ == "__main__":
    main()
