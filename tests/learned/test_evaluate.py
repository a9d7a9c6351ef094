"""evaluate and Evaluation: costs by hand, tables, files, pictures, bad input."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import fwnet
from fwnet import learned
from fwnet.learned import Cost, Evaluation
from fwnet.learned.families import circles, digits_pairs, mnist_pairs

SMALL = learned.families.QuadraticFamily(n=(12, 24), dtype=torch.float64)


@pytest.fixture(scope="module")
def evaluation() -> Evaluation:
    seeds = [fwnet.OverRelaxed(1.3), fwnet.OverRelaxed(1.7)]
    return learned.evaluate(
        {"relaxed": seeds, "atoms": learned.LearnedAtoms(4)},
        SMALL,
        [learned.baselines.corrective(4), learned.baselines.default_baselines()[1]],
        problems=4,
        max_steps=80,
        tolerances=(1e-1, 1e-3),
    )


@dataclass
class Given(learned.ProblemFamily):
    """Least squares whose truth, of four equal weights, lies in the simplex: min f = 0."""

    make: Callable[[Tensor, Tensor], fwnet.Problem]
    domain = fwnet.Simplex()

    def sample(self, batch: int, generator: torch.Generator) -> fwnet.Problem:
        A = torch.randn(5, 6, generator=generator, dtype=torch.float64)
        x = torch.tensor([0.25, 0.25, 0.25, 0.25, 0.0, 0.0], dtype=torch.float64)
        return self.make(A, (A @ x).expand(batch, 5))


def made(ours: list[float], theirs: list[float]) -> Evaluation:
    rows = [
        Cost(name, 0, k, 1e-4, value, value, value / 1000)
        for name, values in (("ours", ours), ("theirs", theirs))
        for k, value in enumerate(values)
    ]
    return Evaluation(("ours",), tuple(rows))


def test_every_method_meets_every_problem(evaluation: Evaluation) -> None:
    assert evaluation.methods == ["relaxed", "atoms", "corrective, 4 atoms", "c/(t+2)"]
    assert len(evaluation.of("relaxed", 1e-3)) == 8  # four problems, two seeds
    assert len(evaluation.of("c/(t+2)", 1e-3)) == 4
    assert set(evaluation.choices) == {"c/(t+2)"}
    assert len(evaluation.choices["c/(t+2)"].scores) == 7  # the whole grid is in the result
    for name in evaluation.methods:
        assert (evaluation.of(name, 1e-1) <= evaluation.of(name, 1e-3)).all()


def test_costs_are_those_of_a_plain_solve() -> None:
    """Iterations to 1e-3 as the solver's own trace shows them."""
    rule = fwnet.LineSearch()
    found = learned.evaluate(
        rule, SMALL, [], problems=3, max_steps=60, tolerances=(1e-3,),
        generator=torch.Generator().manual_seed(5),
    )  # fmt: skip
    generator = torch.Generator().manual_seed(5)
    for cost in found.of("learned", 1e-3):
        problem = SMALL.sample(1, generator)
        best = SMALL.best_values(problem)
        trace = fwnet.FrankWolfe(fwnet.Simplex(), rule, max_steps=60, tol=0.0)(problem).trace
        below = np.flatnonzero(trace.column("value")[:, 0] <= float(best + 1e-3 * best.abs()))
        assert cost == (below[0] if len(below) else math.inf)


def test_medians_and_ratios_by_hand() -> None:
    found = made([2, 4, 10, math.inf], [4, 4, 30, math.inf])
    assert found.quartiles("ours", 1e-4) == (2, 4, 10)
    assert found.speedup("ours", "theirs", 1e-4) == (1, 1, 2)  # ratios 1, 1, 2, 3
    assert found.losses() == []
    lost = made([5, 5], [4, 1]).losses()
    assert lost == [("ours", "theirs", 1e-4, 0.2)]
    assert "ours against theirs: 0.20× to 1e-04" in made([5, 5], [4, 1]).report()
    budgets, shares = found.profile("ours", 1e-4, "iterations")
    assert budgets.tolist() == [2, 4, 10]
    assert shares.tolist() == [0.25, 0.5, 0.75]


def test_a_report_has_one_short_line_for_each_loss() -> None:
    costs = {"ours": {1e-1: 8, 1e-2: 10, 1e-3: 10}, "theirs": {1e-1: 4, 1e-2: 2, 1e-3: 9}}
    rows = [Cost(m, 0, 0, tol, n, n, n / 1e3) for m, to in costs.items() for tol, n in to.items()]
    lines = Evaluation(("ours",), tuple(rows)).report().splitlines()
    found = [line for line in lines if "ours against theirs" in line]
    assert found == ["  ours against theirs: 0.20× to 1e-02"] * 2  # by gradients, and by seconds


def test_tables_name_their_constants(evaluation: Evaluation) -> None:
    text = evaluation.report()
    constant = evaluation.choices["c/(t+2)"].constant
    assert f"c/(t+2) [{constant:g}]" in text
    assert "* relaxed" in text
    assert text.count("where we lose") == 2  # by gradients, and by seconds
    assert str(evaluation) == text
    assert html.escape(text) in evaluation._repr_html_()


def test_what_no_run_reached_is_said_once() -> None:
    text = made([math.inf, math.inf], [4, 1]).table()
    assert text.splitlines()[1].split() == ["*", "ours", "never"]


def test_the_end_of_the_budget_is_told(evaluation: Evaluation) -> None:
    lines = evaluation.ends().splitlines()
    assert [line.split("  ")[0] for line in lines[1:3]] == ["* relaxed", "* atoms"]
    ends = np.sort(evaluation.curves["atoms"][:, -1])
    assert f"{ends[(len(ends) - 1) // 2]:.1e} (" in evaluation.ends()
    assert evaluation.ends() in evaluation.report()


def test_goes_to_json_and_pandas(evaluation: Evaluation, tmp_path: Path) -> None:
    path = tmp_path / "new" / "found.json"
    evaluation.save(path)
    data = json.loads(path.read_text())
    assert len(data["costs"]) == len(evaluation.costs) == len(evaluation.to_pandas())
    assert data["choices"]["c/(t+2)"]["constant"] == evaluation.choices["c/(t+2)"].constant
    assert not list(path.parent.glob("*.part"))


def test_progress_goes_to_the_standard_error_stream(capsys: pytest.CaptureFixture[str]) -> None:
    learned.evaluate(fwnet.LineSearch(), SMALL, [], problems=2, max_steps=5, progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert "2/2" in err


def test_draws(evaluation: Evaluation, tmp_path: Path) -> None:
    from matplotlib import pyplot

    figure = evaluation.plot()
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == evaluation.methods
    pyplot.close(figure)


@dataclass
class Reports(learned.baselines.Baseline):
    """A user's: it reports these values, whatever the problem."""

    values: list[float]
    name = "mine"

    def follow(
        self,
        problem: fwnet.Problem,
        domain: fwnet.Domain,
        max_steps: int,
        report: learned.baselines.Report,
    ) -> None:
        for value in self.values:
            if report(torch.full((1,), value)):
                return


def test_a_baseline_that_cannot_be_believed_is_refused() -> None:
    rule, few = fwnet.LineSearch(), {"problems": 2, "max_steps": 5}
    found = learned.evaluate(rule, SMALL, [Reports([math.nan])], **few)  # type: ignore[arg-type]
    assert all(cost.iterations == math.inf for cost in found.costs if cost.method == "mine")
    with pytest.raises(ValueError, match=r"mine\.follow must call report at least once"):
        learned.evaluate(rule, SMALL, [Reports([])], **few)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"mine reported f = -1e\+09, below the minimum .*Simplex"):
        learned.evaluate(rule, SMALL, [Reports([-1e9])], **few)  # type: ignore[arg-type]
    outside = Follows(lambda problem, x: (problem.value(problem.at(x)), 5 * x))
    with pytest.raises(ValueError, match=r"mine reported a point that is not in Simplex"):
        learned.evaluate(rule, SMALL, [outside], **few)  # type: ignore[arg-type]
    flattered = Follows(lambda problem, x: (SMALL.best_values(problem), x))
    with pytest.raises(ValueError, match=r"mine reported f = \S+ with a point where f is"):
        learned.evaluate(rule, SMALL, [flattered], **few)  # type: ignore[arg-type]


class Follows(learned.baselines.Baseline):
    """Stays where it starts, says what a function makes of it, and never stops by itself."""

    name = "mine"

    def __init__(self, says: Callable[[fwnet.Problem, torch.Tensor], tuple[Any, Any]]) -> None:
        self.says = says

    def follow(self, problem, domain, max_steps, report) -> None:  # type: ignore[no-untyped-def]
        x = domain.start(tuple(problem.shape), problem.dtype)
        for _ in range(50):
            report(*self.says(problem, x))


def test_a_method_that_computes_its_own_gradients_pays_one_a_step() -> None:
    def honest(problem: fwnet.Problem, x: torch.Tensor) -> tuple[Any, Any]:
        K, c = problem.matrix.matrix, problem.c  # type: ignore[attr-defined]
        value = 0.5 * (x @ K @ x.mT)[..., 0] + (0 if c is None else (c * x).sum(-1))
        return value[0], x

    problem = SMALL.sample(1, torch.Generator().manual_seed(0))
    found = Follows(honest).run(problem, fwnet.Simplex(), max_steps=6)
    assert found.gradients.tolist() == [0, 1, 2, 3, 4, 5, 6]  # and the budget ends the run


def test_points_may_be_arrays_of_numpy_and_have_the_shape_of_the_problem() -> None:
    def says(shape: Callable[[Any], Any]) -> Follows:
        return Follows(lambda problem, x: (problem.value(problem.at(x)), shape(x.numpy())))

    few: dict[str, Any] = {"problems": 1, "max_steps": 3}
    found = learned.evaluate(fwnet.LineSearch(), SMALL, [says(lambda x: x)], **few)
    assert found.methods == ["learned", "mine"]
    with pytest.raises(ValueError, match=r"mine must report points of shape \(1, \d+\); got one"):
        learned.evaluate(fwnet.LineSearch(), SMALL, [says(lambda x: x[0])], **few)


def test_a_matrix_that_rounding_made_unsymmetric_has_a_minimum() -> None:
    F = torch.randn(3, 40, 6, generator=torch.Generator().manual_seed(0))
    K = 0.05 * F @ F.mT + torch.eye(40)
    K[:, 0, 1:] *= 1 + 1e-6
    single, double = fwnet.Quadratic(K), fwnet.Quadratic(((K + K.mT) / 2).double())
    torch.testing.assert_close(SMALL.best_values(single).double(), SMALL.best_values(double))


def test_a_baseline_that_cannot_run_is_named() -> None:
    family = learned.families.QuadraticFamily(n=8, domain=fwnet.L1Ball())
    asked: list[Any] = [learned.baselines.FISTA(), learned.baselines.MirrorDescent()]
    asked += [b for b in learned.baselines.default_baselines() if b.name == "Adam softmax"]
    with pytest.warns(UserWarning, match="leaves out 'mirror descent', 'Adam softmax', which"):
        found = learned.evaluate(fwnet.LineSearch(), family, asked, problems=1, max_steps=5)
    assert found.methods == ["learned", "FISTA"]


def test_bad_input_gets_a_sentence(evaluation: Evaluation) -> None:
    with pytest.raises(TypeError, match=r"controllers must be step rules.*got 'x'. learned.load"):
        learned.evaluate({"a": ["x"]}, SMALL)  # type: ignore[dict-item]
    with pytest.raises(
        TypeError, match=r"got 'simplex-qp'. learned.load\(...\) reads one, shipped"
    ):
        learned.evaluate("simplex-qp", SMALL)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match='baselines must be "default" or a list'):
        learned.evaluate(fwnet.LineSearch(), SMALL, "best")
    with pytest.raises(TypeError, match='baselines must be "default" or a list; got FISTA'):
        learned.evaluate(fwnet.LineSearch(), SMALL, learned.baselines.FISTA())
    with pytest.raises(TypeError, match=r"objects such as learned.baselines.FISTA\(\)"):
        learned.evaluate(fwnet.LineSearch(), SMALL, ["FISTA"])
    nameless = Follows(lambda problem, x: (0.0, x))
    nameless.name = None  # type: ignore[assignment]
    with pytest.raises(TypeError, match="Follows needs a name, a string that stands in the tables"):
        learned.evaluate(fwnet.LineSearch(), SMALL, [nameless])
    with pytest.raises(ValueError, match="controllers must not be empty; 'learned' is"):
        learned.evaluate([], SMALL, [])
    with pytest.raises(ValueError, match="seeds of one training; these are LearnedStep, LineSea"):
        learned.evaluate([fwnet.LineSearch(), learned.LearnedStep()], SMALL, [])
    with pytest.raises(ValueError, match=r"over L1Ball\(radius=1.0\) cannot be compared"):
        learned.evaluate(fwnet.FrankWolfe(fwnet.L1Ball()), SMALL, [])
    with pytest.raises(TypeError, match="LearnedPowerIteration was made for TraceNormBall"):
        learned.evaluate(learned.LearnedPowerIteration(), SMALL, [])
    with pytest.raises(TypeError, match="must be a ProblemFamily; got 'svm'"):
        learned.evaluate(fwnet.LineSearch(), "svm", [])
    with pytest.raises(TypeError, match=r"evaluate\(validation\) must be a ProblemFamily"):
        learned.evaluate(fwnet.LineSearch(), SMALL, [], validation="svm")
    other = learned.families.QuadraticFamily(n=8, domain=fwnet.L1Ball())
    with pytest.raises(ValueError, match="validation must be a family over Simplex"):
        learned.evaluate(fwnet.LineSearch(), SMALL, [], validation=other)
    for tolerances in ((), 1e-3):
        with pytest.raises(ValueError, match="tolerances must be a list of at least one"):
            learned.evaluate(fwnet.LineSearch(), SMALL, [], tolerances=tolerances)
    with pytest.raises(TypeError, match=r"generator must be a torch.Generator; got 0"):
        learned.evaluate(fwnet.LineSearch(), SMALL, [], generator=0)
    with pytest.raises(ValueError, match="whose minimum is 0"):
        learned.evaluate(fwnet.LineSearch(), Given(fwnet.LeastSquares), [])
    with pytest.raises(TypeError, match=r"Given.sample must return one Problem with a batch"):
        learned.evaluate(fwnet.LineSearch(), Given(lambda A, b: fwnet.LeastSquares(A, b[0])), [])
    with pytest.raises(ValueError, match="names of their own"):
        learned.evaluate(fwnet.LineSearch(), SMALL, [learned.baselines.corrective(3)] * 2)
    with pytest.raises(ValueError, match=r"not be named as a baseline is; rename \['pairwise'\]"):
        learned.evaluate({"pairwise": fwnet.LineSearch()}, SMALL)
    with pytest.raises(ValueError, match="problems must be a whole number"):
        learned.evaluate(fwnet.LineSearch(), SMALL, problems=0)
    with pytest.raises(ValueError, match="by must be one of"):
        evaluation.of("atoms", 1e-3, "joules")
    with pytest.raises(ValueError, match="tolerance must be one of"):
        evaluation.of("atoms", 1e-9)
    with pytest.raises(ValueError, match="method must be one of"):
        evaluation.of("magic", 1e-3)


@pytest.mark.parametrize("make", [digits_pairs, circles, mnist_pairs])
def test_the_parts_of_real_data_share_nothing(make) -> None:  # type: ignore[no-untyped-def]
    rows, labels = {}, {}
    for part in ("train", "validation", "test"):
        (source,) = make(part)._sources
        rows[part] = {row.numpy().tobytes() for row in source.X}
        labels[part] = len(source.pairs)
    assert not rows["train"] & rows["validation"]
    assert not rows["train"] & rows["test"]
    assert not rows["validation"] & rows["test"]
    with pytest.raises(ValueError, match="part must be one of train, validation, test"):
        make("holdout")


def test_a_controller_that_cannot_run_is_refused_before_anything_is_tuned() -> None:
    class Logistic(learned.ProblemFamily):
        domain = fwnet.L1Ball(2.0)

        def sample(self, batch: int, generator: torch.Generator) -> fwnet.Problem:
            X = torch.randn(batch, 9, 4, generator=generator)
            return fwnet.LogisticRegression(X, torch.ones(batch, 9))

    def fails(constant: float) -> Follows:
        return Follows(lambda problem, x: (1 / 0, x))

    tuned = learned.baselines.Tuned(fails, (1.0,))
    for name, why in (("pairwise", "needs a quadratic problem"), ("paper-step", "only Simplex")):
        with pytest.raises(TypeError, match=rf"'ours' cannot run on these problems: .*{why}"):
            learned.evaluate({"ours": learned.load(name)}, Logistic(), [tuned], problems=1)
