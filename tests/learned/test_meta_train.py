"""Meta-training: its gradients, that it learns, that it resumes, that processes do not matter."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.utils import parameters_to_vector, vector_to_parameters

import fwnet
import scripts
from fwnet import learned
from fwnet.iterates import Iterate
from fwnet.learned.training import trainer
from fwnet.learned.training.gradients import Episode, MetaGradient
from fwnet.learned.training.rollouts import SolverRollout, SolverTask, draw
from fwnet.learned.training.runs import TrainingState
from learned_cases import ON_THE_SIMPLEX, seeded, svm_family, values, with_random_weights

QUICK = learned.MetaConfig(steps=4, unroll=5, batch=3, validate_every=2, validation_problems=4)


def weights(controller: learned.Controller) -> Tensor:
    return parameters_to_vector(controller.parameters()).detach()


def episode(controller: learned.Controller, horizon: int = 4, unroll: int = 4) -> Episode:
    drawn = draw(svm_family(n=10), 2, seeded(3))
    begin = partial(SolverRollout, controller, drawn, learned.LogSuboptimality())
    return Episode(controller, begin, horizon, unroll, seeded(8))


def loss_at(controller: learned.Controller, theta: Tensor, horizon: int = 4) -> float:
    vector_to_parameters(theta, controller.parameters())
    family = svm_family(n=10)
    problem = family.sample(2, seeded(3))
    solver = controller.solver(family.domain, max_steps=horizon, tol=0.0)
    f, best = values(solver(problem))[1:], family.best_values(problem)
    return ((f - best) / best + 1e-5).log10().mean().item()


def test_backpropagation_of_an_open_loop_is_the_finite_difference() -> None:
    """The paper's step rule sees nothing of f: stopping features takes nothing away."""
    controller = with_random_weights(learned.LSTMStep(hidden=2, layers=1), 1, 0.5).double()
    ((loss, gradient),) = learned.Backpropagation().along(episode(controller))
    theta = weights(controller)
    assert loss == pytest.approx(loss_at(controller, theta))
    for k in (0, 7, len(theta) - 1):
        step = torch.zeros_like(theta)
        step[k] = 1e-5
        ahead, behind = (loss_at(controller, theta + sign * step) for sign in (1, -1))
        assert gradient[k].item() == pytest.approx((ahead - behind) / 2e-5, rel=1e-3, abs=1e-7)


@pytest.mark.parametrize(
    "method", [learned.EvolutionStrategies(150, 0.02), learned.PersistentES(150, 0.02)]
)
def test_evolution_strategies_point_along_the_gradient(method: MetaGradient) -> None:
    controller = with_random_weights(learned.LSTMStep(hidden=1, layers=1), 2, 0.5)
    ((_, exact),) = learned.Backpropagation().along(episode(controller))
    before = weights(controller).clone()
    ((_, estimate),) = method.along(episode(controller))
    assert torch.equal(weights(controller), before)
    cosine = torch.cosine_similarity(exact, estimate, dim=0)
    assert cosine > 0.85  # of 150 pairs in 14 dimensions √(150/164) is expected


class Where(learned.Controller, fwnet.Start):
    """x0 = softmax(θ)."""

    def __init__(self) -> None:
        super().__init__()
        self.theta = torch.nn.Parameter(torch.linspace(-1.0, 1.0, 10))

    def build_solver(self, domain: fwnet.Domain, **budgets: Any) -> fwnet.FrankWolfe:
        return fwnet.FrankWolfe(domain, fwnet.Constant(0.1), start=self, **budgets)

    def forward(self, problem: fwnet.Problem, domain: fwnet.Domain) -> Tensor:
        return self.theta.detach().to(problem.dtype).softmax(0).expand(problem.shape or ())


@pytest.mark.parametrize(
    "method", [learned.EvolutionStrategies(150, 0.02), learned.PersistentES(150, 0.02)]
)
def test_evolution_strategies_see_where_a_learned_start_begins(method: MetaGradient) -> None:
    controller, exact = Where(), torch.zeros(10)
    ((_, estimate),) = method.along(episode(controller))
    theta = weights(controller)
    for k, unit in enumerate(torch.eye(10)):
        ahead, behind = (loss_at(controller, theta + sign * 0.01 * unit) for sign in (1, -1))
        exact[k] = (ahead - behind) / 0.02
    assert torch.cosine_similarity(exact, estimate, dim=0) > 0.85


@pytest.mark.slow
def test_persistent_strategies_see_across_stretches() -> None:
    """The mean over stretches is the gradient of the whole episode, not of its pieces."""
    controller = with_random_weights(learned.LSTMStep(hidden=1, layers=1), 2, 0.5)
    ((_, exact),) = learned.Backpropagation().along(episode(controller))
    method = learned.PersistentES(250, 0.02)
    parts = torch.stack([part for _, part in method.along(episode(controller, 4, 2))])
    assert torch.cosine_similarity(exact, parts.mean(0), dim=0) > 0.8


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "method"),
    [
        (learned.LearnedStep, learned.EvolutionStrategies(3, 0.1)),
        (learned.LearnedStep, learned.PersistentES(3, 0.1)),
        (partial(learned.LSTMStep, hidden=4), learned.Backpropagation()),
        (partial(learned.LSTMDirection, hidden=4), learned.Backpropagation()),
        (partial(learned.L2LSoftmax, hidden=4), learned.Backpropagation()),
    ],
)
def test_training_lowers_the_loss(
    make: Callable[[], learned.Controller], method: MetaGradient
) -> None:
    controller, rate = make(), 0.05
    if isinstance(controller, learned.LearnedStep):  # two numbers, far from where they should be
        rate = 0.3
        with torch.no_grad():
            controller.policy.fill_(2.0)
    config = replace(QUICK, steps=16, horizon=20, unroll=10, learning_rate=rate, gradient=method)
    family = svm_family(n=12)
    _, history = learned.meta_train(controller, family, config, validation=svm_family(n=14))
    judged = [record.validation for record in history if record.validation is not None]
    assert min(judged[-3:]) < judged[0] - 0.02


@pytest.mark.filterwarnings("ignore:the training of")  # so few episodes may find nothing
@pytest.mark.parametrize("name", ON_THE_SIMPLEX)
def test_every_controller_trains_and_the_given_one_stays(name: str) -> None:
    controller = ON_THE_SIMPLEX[name]()
    before = weights(controller).clone()
    config = QUICK
    if name == "LearnedStart":  # it acts before the first step
        with pytest.raises(ValueError, match="no path from LearnedStart's weights"):
            learned.meta_train(controller, svm_family(n=12), config)
        config = replace(QUICK, gradient=learned.EvolutionStrategies(2))
    trained, history = learned.meta_train(controller, svm_family(n=12), config)
    assert torch.equal(weights(controller), before)
    assert type(trained) is type(controller)
    assert len(history) == 4
    assert controller.card == {}
    assert trained.card["trained_on"].startswith("SVMFamily: ")
    assert trained.card["validation"] == {
        "first": history.initial,
        "best": min(history.validations),
    }


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the training of")  # so few episodes may find nothing
def test_an_interrupted_training_resumes_bit_for_bit(tmp_path: Path) -> None:
    class Stops(learned.ProblemFamily):
        """Fails after some problems, as a machine that is switched off."""

        domain = fwnet.Simplex()
        left = 6

        def sample(self, batch: int, generator: torch.Generator) -> fwnet.Problem:
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
            return svm_family(n=12).sample(batch, generator)

    config = replace(QUICK, steps=5, horizon=(5, 10), curriculum=True, groups=2)
    start, judge = learned.LearnedDirection(hidden=4, memory=1), svm_family(n=14)
    family = Stops()
    with pytest.raises(KeyboardInterrupt):
        learned.meta_train(start, family, config, validation=judge, out=tmp_path / "run")
    family.left = 1000
    resumed, history = learned.meta_train(
        start, family, config, validation=judge, out=tmp_path / "run"
    )
    family.left = 1000
    whole, straight = learned.meta_train(start, family, config, validation=judge)
    assert torch.equal(weights(resumed), weights(whole))
    assert [r[:4] for r in history] == [r[:4] for r in straight]
    lines = (tmp_path / "run" / "history.jsonl").read_text().splitlines()
    assert [json.loads(line)["loss"] for line in lines] == [r.loss for r in straight]
    best = learned.load(tmp_path / "run" / "controller.fwnet")
    assert torch.equal(weights(best), weights(whole))


class OwnStep(learned.Controller, fwnet.steps.StepRule):
    """A user's: one step size, learned."""

    def __init__(self) -> None:
        super().__init__()
        self.logit = torch.nn.Parameter(torch.tensor(-1.0))

    def build_solver(self, domain: fwnet.Domain, **budgets: Any) -> fwnet.FrankWolfe:
        return fwnet.FrankWolfe(domain, self, **budgets)

    def init(self, problem: fwnet.Problem, it: Iterate) -> None:
        self.check_weights()

    def forward(
        self, problem: fwnet.Problem, it: Iterate, move: Any, state: Any
    ) -> tuple[Tensor, Any]:
        return torch.sigmoid(self.logit).to(it.x), state


def test_a_controller_of_the_users_own_is_trained_and_resumes(tmp_path: Path) -> None:
    whole, _ = learned.meta_train(OwnStep(), svm_family(), QUICK)
    assert not torch.equal(weights(whole), weights(OwnStep()))
    resumed, _ = learned.meta_train(OwnStep(), svm_family(), QUICK, out=tmp_path)
    resumed, _ = learned.meta_train(OwnStep(), svm_family(), QUICK, out=tmp_path)
    assert torch.equal(weights(resumed), weights(whole))
    assert not (tmp_path / "controller.fwnet").exists()  # load could not build it


def test_validation_judges_the_mean_of_the_weights_and_training_returns_it(tmp_path: Path) -> None:
    one = replace(QUICK, steps=6, validate_every=1, batch=1, unroll=4)  # one update an episode
    step, mean = OwnStep(), -1.0
    state = TrainingState.begin(step, 0.1, 0)
    for t in range(1, 7):
        step.logit.grad = torch.tensor(float(t))
        state.update(0.5)
        share = min(0.5, (1 + t) / (10 + t))
        mean = share * mean + (1 - share) * step.logit.item()
        assert float(state.mean) == pytest.approx(mean, abs=1e-6)
    assert state.validate(lambda module: module.logit.item()) == pytest.approx(mean, abs=1e-6)
    assert torch.equal(state.best_weights, state.mean)
    assert step.logit.item() != pytest.approx(mean, abs=1e-3)  # training goes on from the weights
    averaged = replace(one, average=0.9)
    whole, history = learned.meta_train(OwnStep(), svm_family(), averaged)
    plain, _ = learned.meta_train(OwnStep(), svm_family(), one)
    assert not torch.equal(weights(whole), weights(plain))
    judge = SolverTask(svm_family()).judge(replace(averaged, horizon=4))
    assert judge(whole) == pytest.approx(min(history.validations), rel=1e-6)
    with pytest.warns(RuntimeWarning, match="ended after 0 episodes, before a validation"):
        learned.meta_train(OwnStep(), svm_family(), averaged, out=tmp_path, minutes=1e-9)
    resumed, _ = learned.meta_train(OwnStep(), svm_family(), averaged, out=tmp_path)
    assert torch.equal(weights(resumed), weights(whole))


def test_a_folder_of_another_training_is_refused(tmp_path: Path) -> None:
    learned.meta_train(learned.LearnedStep(), svm_family(), replace(QUICK, steps=1), out=tmp_path)
    with pytest.raises(
        ValueError, match=r"another training: steps was .1. there and is .4. here\. Delete"
    ):
        learned.meta_train(learned.LearnedStep(), svm_family(), QUICK, out=tmp_path)
    for others in (svm_family(n=16), svm_family(C=1.0)):  # the same class, other problems
        with pytest.raises(ValueError, match="another training: family was 'SVMFamily"):
            learned.meta_train(learned.LearnedStep(), others, replace(QUICK, steps=1), out=tmp_path)
    path = tmp_path / "state.safetensors"
    for state in (b"not a state", b""):
        path.write_bytes(state)
        with pytest.raises(
            ValueError, match=r"not a whole state of a training: .* Delete the folder"
        ):
            learned.meta_train(learned.LearnedStep(), svm_family(), QUICK, out=tmp_path)
    for other in ({"step": 3}, [1, 2]):  # of another program, which could hold code
        torch.save(other, path)
        with pytest.raises(
            ValueError, match=r"not a whole state of a training: .* Delete the folder"
        ):
            learned.meta_train(learned.LearnedStep(), svm_family(), QUICK, out=tmp_path)
    with pytest.raises(OSError, match="cannot be a folder: File exists"):
        learned.meta_train(learned.LearnedStep(), svm_family(), QUICK, out=path)


def test_problems_that_are_too_easy_are_named(caplog: pytest.LogCaptureFixture) -> None:
    few = replace(QUICK, steps=1, unroll=40)
    family = learned.families.QuadraticFamily(n=2)
    with pytest.warns(RuntimeWarning, match="failed"):
        learned.meta_train(learned.LearnedDirection(hidden=4, memory=1), family, few)
    assert "is near the least possible one, -5: these problems are too easy" in caplog.text
    caplog.clear()
    learned.meta_train(learned.LearnedStep(), svm_family(), replace(QUICK, steps=1))
    assert not caplog.text


def test_minutes_stop_it_early() -> None:
    with pytest.warns(RuntimeWarning, match="ended after 0 episodes, before a validation"):
        _, history = learned.meta_train(learned.LearnedStep(), svm_family(), QUICK, minutes=1e-9)
    assert len(history) == 0
    assert history.failed


def test_a_training_that_ends_before_a_validation_has_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its first weights are returned, since nothing says that others are better."""
    calls = iter([False, True])
    monkeypatch.setattr(trainer, "same_everywhere", lambda _: next(calls))
    first = OwnStep()
    with pytest.warns(RuntimeWarning, match="after 1 episodes, before a val.*Raise minutes"):
        trained, history = learned.meta_train(first, svm_family(), QUICK, minutes=1.0)
    assert history.failed
    assert len(history) == len(history.validations) == 1
    assert torch.equal(weights(trained), weights(first))


def test_a_folder_that_began_with_other_weights_is_named(tmp_path: Path) -> None:
    """As when a trained controller is to be trained further, in the same folder."""
    family, config = svm_family(), replace(QUICK, steps=2)
    trained, _ = learned.meta_train(OwnStep(), family, config, out=tmp_path)
    assert not torch.equal(weights(trained), weights(OwnStep()))
    with pytest.warns(UserWarning, match=r"began with other weights; .* choose another folder"):
        again, _ = learned.meta_train(trained, family, config, out=tmp_path)
    assert torch.equal(weights(again), weights(trained))


class Careless(learned.ProblemFamily):
    """Draws from torch's own generator."""

    domain = fwnet.Simplex()

    def sample(self, batch: int, generator: torch.Generator) -> fwnet.Problem:
        return fwnet.LeastSquares(torch.eye(4), torch.randn(batch, 4))


def test_a_family_that_does_not_use_its_generator_is_named() -> None:
    with pytest.warns(UserWarning, match=r"Careless.sample\(batch, generator\) drew other prob"):
        learned.meta_train(OwnStep(), Careless(), replace(QUICK, steps=1))


SCRIPT = """
import sys, torch
from torch import distributed
from torch.nn.utils import parameters_to_vector
from fwnet import learned
distributed.init_process_group("gloo", init_method=f"file://{sys.argv[1]}", rank=int(sys.argv[2]),
                               world_size=2)
torch.manual_seed(0)
config = learned.MetaConfig(steps=3, unroll=4, horizon=8, batch=2, groups=3, validation_problems=2)
family = learned.families.QuadraticFamily(n=8)
trained, _ = learned.meta_train(learned.LSTMStep(hidden=4), family, config)
torch.save(parameters_to_vector(trained.parameters()).detach(), "weights.pt")
distributed.destroy_process_group()
"""


@pytest.mark.slow
def test_two_processes_train_what_one_does(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    folders = [tmp_path / str(rank) for rank in range(2)]
    running = [
        scripts.start([str(script), str(tmp_path / "meet"), folder.name], folder)
        for folder in folders
    ]
    assert [scripts.finish(process) for process in running] == [0, 0]
    torch.manual_seed(0)
    config = learned.MetaConfig(
        steps=3, unroll=4, horizon=8, batch=2, groups=3, validation_problems=2
    )
    family = learned.families.QuadraticFamily(n=8)
    one, history = learned.meta_train(learned.LSTMStep(hidden=4), family, config)
    assert not history.failed  # else all would return the initial weights
    for folder in folders:
        assert torch.equal(torch.load(folder / "weights.pt", weights_only=True), weights(one))


class Broken(learned.ProblemFamily):
    domain = fwnet.Simplex()

    def sample(self, batch: int, generator: torch.Generator) -> fwnet.Problem:
        problem = fwnet.Quadratic(torch.eye(3).expand(batch, 3, 3).clone())
        problem.matrix.matrix[1] = torch.nan
        return problem


class Unbatched(learned.ProblemFamily):
    domain = fwnet.Simplex()

    def sample(self, batch: int, generator: torch.Generator) -> fwnet.Problem:
        return fwnet.Quadratic(torch.eye(3))


class Homeless(learned.ProblemFamily):
    def sample(self, batch: int, generator: torch.Generator) -> fwnet.Problem:
        return fwnet.Quadratic(torch.eye(3).expand(batch, 3, 3))


@pytest.mark.parametrize(
    ("run", "text"),
    [
        (
            lambda: learned.meta_train(learned.LearnedStep(), Broken(), QUICK),
            r"Broken.sample gave a problem whose f or gradient is NaN.*\(problem 1 of the batch",
        ),
        (
            lambda: learned.meta_train(learned.LearnedStep(), Unbatched(), QUICK),
            r"must return one Problem with a batch in front",
        ),
        (
            lambda: learned.meta_train(learned.LSTMUpdates(), svm_family()),
            r"must be a Controller or Slots; got LSTMUp(?s:.*)on families.TrainingRuns",
        ),
        (lambda: learned.meta_train(fwnet.OpenLoop(), svm_family()), "must be a Controller"),
        (lambda: learned.meta_train(learned.LearnedStep(), "svm"), "must be a ProblemFamily"),
        (lambda: learned.MetaConfig(steps=0), r"MetaConfig\(steps=...\) must be a whole number"),
        (lambda: learned.MetaConfig(horizon=(5, 2)), "low <= high"),
        (lambda: learned.MetaConfig(horizon="20"), r"\(horizon=...\) must be a whole number"),
        (lambda: learned.MetaConfig(horizon=2.5), r"\(horizon=...\) must be a whole number"),
        (lambda: learned.MetaConfig(gradient="es"), "must be a MetaGradient such as .*; got 'es'"),
        (
            lambda: learned.MetaConfig(loss=learned.SumOfValues),
            "must be a MetaLoss such as .*; got <class",
        ),
        (lambda: learned.MetaConfig(average=1.0), r"average=...\) must be in \[0, 1\)"),
        (lambda: learned.MetaConfig(seed="a"), "must be a whole number; got 'a'"),
        (
            lambda: learned.meta_train(learned.LearnedStep(), svm_family(), {"steps": 3}),
            "must be a MetaConfig; got {'steps': 3}",
        ),
        (
            lambda: learned.meta_train(learned.LearnedStep(), svm_family(), minutes=float("nan")),
            r"\(minutes=...\) must be a positive finite number; got nan",
        ),
        (
            lambda: learned.meta_train(learned.LearnedStep(), svm_family(), validation="svm"),
            r"\(validation=...\) must be a ProblemFamily; got 'svm'",
        ),
        (
            lambda: learned.meta_train(
                learned.LearnedStep(),
                svm_family(),
                validation=learned.families.QuadraticFamily(domain=fwnet.L1Ball()),
            ),
            "must be a family over Simplex",
        ),
        (
            lambda: learned.meta_train(learned.LearnedStep(), Homeless()),
            r"Homeless.domain must be a Domain such as Simplex\(\); got None",
        ),
        (lambda: learned.EvolutionStrategies(0), r"EvolutionStrategies\(pairs=\.\.\.\) must be"),
        (lambda: learned.LogSuboptimality(0.0), "floor"),
    ],
)
def test_errors_are_sentences(run: object, text: str) -> None:
    with pytest.raises((ValueError, TypeError), match=text):
        run()


def test_the_history_draws_itself() -> None:
    _, history = learned.meta_train(learned.LearnedStep(), svm_family(n=12), QUICK)
    ax = history.plot()
    assert [line.get_label() for line in ax.get_lines()] == ["training", "validation"]
    assert ax.get_lines()[0].get_ydata().tolist() == [record.loss for record in history]


def test_few_numbers_are_trained_by_the_config_that_suits_them() -> None:
    """A plain config hardly moves them: its learning rate is for networks."""
    for controller in (learned.LearnedAtoms(), learned.LearnedPairwise(), learned.LearnedStep()):
        suited = learned.MetaConfig.suited_to(controller)
        assert suited.learning_rate > 10 * learned.MetaConfig().learning_rate
        assert isinstance(suited.gradient, learned.EvolutionStrategies)
    _, history = learned.meta_train(learned.LearnedAtoms(), svm_family(n=(30, 60)))
    assert len(history) == learned.MetaConfig.suited_to(learned.LearnedAtoms()).steps
    assert not history.failed
    assert learned.MetaConfig.suited_to(learned.LSTMStep()) == learned.MetaConfig()
