"""What can be learned about the step size of Frank-Wolfe, and is it better than a constant?

    x <- x + γ_t (z_{t+1} − x),   γ_t = min(1, c_t / (t + 1)),   z the path of 2/(t + 2)

Trained by evolution strategies on SVM duals of some pairs of digits, chosen on other pairs, tested
on a third part: the median number of steps to a relative suboptimality of 10 % and 1 %.

See: an average of the classic path needs far fewer steps than the path itself or the exact line
search, and never more, whatever was learned. Most of the gain comes from the average: a constant
c = 3 comes close. A learned direction gains much more: the last row is the shipped one.
"""

from typing import Any

import torch
from sklearn.datasets import load_digits

import fwnet
from fwnet import learned
from fwnet.plotting import plot_curves
from fwnet.show.scripts import options, save, table


def steps_to(values: torch.Tensor, best: torch.Tensor, goal: float) -> str:
    """Median over the problems of the first step that reaches the target."""
    reached = (values - best) / best <= goal
    first = torch.where(reached.any(0), reached.int().argmax(0), len(values))
    median = int(first.median())
    return str(median) if median < len(values) else f"> {len(values) - 1}"


def main() -> None:
    arguments = options(__doc__)
    X, y = load_digits(return_X_y=True)
    family = learned.families.SVMFamily([(torch.as_tensor(X), torch.as_tensor(y))], n=(64, 200))
    training, validation, test = family.split(seed=0)
    config = learned.MetaConfig(
        steps=3 if arguments.quick else 40,
        unroll=100,
        horizon=(20, 100),
        learning_rate=0.05,
        gradient=learned.EvolutionStrategies(pairs=3, sigma=0.1),
        validate_every=5,
    )
    trained, _ = learned.meta_train(learned.LearnedStep(), training, config, validation=validation)
    simplex = fwnet.Simplex()
    budget: dict[str, Any] = {"max_steps": 100 if arguments.quick else 400, "tol": 0.0}
    average = fwnet.Averaging()
    solvers = {
        "2/(t + 2)": fwnet.FrankWolfe(simplex, **budget),
        "1.1/(t + 2)": fwnet.FrankWolfe(simplex, lambda t: 1.1 / (t + 2), **budget),
        "exact line search": fwnet.FrankWolfe(simplex, fwnet.LineSearch(), **budget),
        "3/(t + 3), averaging": fwnet.FrankWolfe(
            simplex, lambda t: 3 / (t + 3), direction=average, **budget
        ),
        "learned here": trained.solver(simplex, **budget),
        "shipped simplex-step": learned.load("simplex-step").solver(simplex, **budget),
    }
    shipped = learned.load("simplex-qp")
    solvers["shipped simplex-qp (direction)"] = shipped.solver(simplex, max_steps=40, tol=0.0)
    problem = test.sample(8, torch.Generator().manual_seed(1))
    best, rows, curves = test.best_values(problem), [], {}
    for name, solver in solvers.items():
        values = torch.stack([record.value for record in solver(problem).trace])
        rows.append((name, *(steps_to(values, best, goal) for goal in (0.1, 0.01))))
        away = ((values - best) / best).clamp_min(1e-7).median(1).values
        curves[name] = (range(len(away)), away.tolist())
    table(("step size", "steps to 10 %", "to 1 %"), rows)
    if arguments.plot:
        for hidden in ("1.1/(t + 2)", "shipped simplex-step"):  # close to another
            del curves[hidden]
        ax = plot_curves(curves, "step", "relative suboptimality, median of 8 problems")
        ax.set_yscale("log")
        save(ax, arguments.plot)


if __name__ == "__main__":
    main()
