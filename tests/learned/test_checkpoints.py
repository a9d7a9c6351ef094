"""Files of controllers: they come back as they were, and broken ones are refused in words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import fwnet
from fwnet import learned
from fwnet.learned import checkpoints
from learned_cases import ON_THE_SIMPLEX, seeded, svm_family, with_random_weights


@pytest.mark.parametrize("name", ON_THE_SIMPLEX)
def test_a_controller_comes_back(name: str, tmp_path: Path) -> None:
    controller = with_random_weights(ON_THE_SIMPLEX[name](), 1, 0.5)
    learned.save(controller, tmp_path / "mine.fwnet", {"note": "β = 2"})
    back = learned.load(tmp_path / "mine.fwnet")
    assert type(back) is type(controller)
    assert back.card == {"note": "β = 2"}
    problem = svm_family().sample(2, seeded())
    runs = [c.solver(fwnet.Simplex(), max_steps=8)(problem).x for c in (controller, back)]
    assert torch.equal(*runs)


@pytest.mark.parametrize("name", learned.available())
def test_a_shipped_controller(name: str) -> None:
    path = Path(checkpoints.__file__).parent / "shipped" / f"{name}.fwnet"
    assert path.stat().st_size < 200_000
    controller = learned.load(name)
    for entry in ("trained_on", "horizon", "validation", "licence", "recipe", "seed"):
        assert controller.card[entry] is not None, entry
    if issubclass(fwnet.Simplex, controller.domains):
        family: learned.ProblemFamily = svm_family(n=40, dtype=torch.float32)
    else:
        X = torch.randn(60, 5, generator=seeded())
        family = learned.families.SoftmaxFamily([(X, X[:, :3].argmax(1))], radius=3.0, n=50)
    problem = family.sample(2, seeded())
    result = controller.solver(family.domain, max_steps=200, tol=1e-4)(problem)
    assert bool(family.domain.contains(result.x).all())
    if not name.startswith("paper-"):  # the paper's LSTMs know only problems like their own
        best = family.best_values(problem)
        assert bool(((result.value - best) / best < 0.05).all())


@pytest.mark.parametrize("name", learned.available())
def test_a_shipped_controller_is_saved_as_the_same_bytes(name: str, tmp_path: Path) -> None:
    path = Path(checkpoints.__file__).parent / "shipped" / f"{name}.fwnet"
    controller = learned.load(name)
    learned.save(controller, tmp_path / "again.fwnet", controller.card)
    assert (tmp_path / "again.fwnet").read_bytes() == path.read_bytes()


def test_what_is_shipped() -> None:
    assert {"simplex-qp", "simplex-step"} <= set(learned.available())


def resealed(
    path: Path,
    change: Callable[[dict[str, Any]], object] = lambda facts: None,
    weights: Callable[[torch.Tensor], torch.Tensor] = lambda weights: weights,
    version: int = 1,
) -> None:
    """The file with other contents and the hash that belongs to them."""
    facts, tensors = checkpoints.FORMAT.read(path)
    change(facts)
    changed = {name: weights(part) for name, part in tensors.items()}
    replace(checkpoints.FORMAT, version=version).write(path, facts, changed)


def edited(path: Path) -> None:
    """The file with another version of its features, and its old hash."""
    data = path.read_bytes()
    assert rb"\"features\": 1" in data
    path.write_bytes(data.replace(rb"\"features\": 1", rb"\"features\": 2", 1))


def nested(path: Path) -> None:
    """Lists in lists, far deeper than JSON is read."""
    text = ("[" * 200_000).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text)


BREAKS: dict[str, tuple[Callable[[Path], object], str]] = {
    "empty": (lambda p: p.write_bytes(b""), "not a whole controller: it is truncated"),
    "text": (lambda p: p.write_text("hello, this is no controller"), "not a whole controller"),
    "half": (lambda p: p.write_bytes(p.read_bytes()[: p.stat().st_size // 2]), "truncated"),
    "one bit": (
        lambda p: p.write_bytes(p.read_bytes()[:-1] + bytes([p.read_bytes()[-1] ^ 1])),
        "is not a whole controller: its contents do not match its hash. Copy or train it again",
    ),
    "newer": (lambda p: resealed(p, version=99), "has format 99, this fwnet reads 1. Use"),
    "features": (
        lambda p: resealed(p, lambda f: f.update(features=99)),
        "was trained on features of version 99",
    ),
    "kind": (lambda p: resealed(p, lambda f: f.update(kind="os.system")), "unknown kind"),
    "kinds": (lambda p: resealed(p, lambda f: f.update(kind=["LearnedStep"])), "unknown kind"),
    "card": (lambda p: resealed(p, lambda f: f.update(card="none")), "is corrupted: its options"),
    "options": (
        lambda p: resealed(p, lambda f: f["options"].update(hidden=3)),
        "does not fit the LearnedStep of this fwnet",
    ),
    "edited": (edited, "do not match its hash"),
    "pickle": (lambda p: torch.save({"weights": torch.ones(2)}, p), "not a whole controller"),
    "deep": (nested, "not a whole controller: it is corrupted"),
    "int8": (
        lambda p: resealed(p, weights=lambda w: w.to(torch.int8)),
        r"weights must be real floating-point numbers; \S+ is torch\.int8\. Save",
    ),
    "complex": (
        lambda p: resealed(p, weights=lambda w: w.to(torch.complex64)),
        r"weights must be real floating-point numbers; \S+ is torch\.complex64\. Save",
    ),
    "nan": (
        lambda p: resealed(p, weights=lambda w: w * torch.nan),
        r"weights must be finite; \S+ is not\. Train",
    ),
}


def test_a_card_is_kept(tmp_path: Path) -> None:
    learned.save(learned.LearnedStep(), tmp_path / "a.fwnet", {"licence": "MIT"})
    learned.save(learned.load(tmp_path / "a.fwnet"), tmp_path / "b.fwnet")
    assert learned.load(tmp_path / "b.fwnet").card == {"licence": "MIT"}


@pytest.mark.parametrize("name", BREAKS)
def test_a_broken_file_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.fwnet"
    learned.save(learned.LearnedStep(), path)
    damage, text = BREAKS[name]
    damage(path)
    with pytest.raises(ValueError, match=text):
        learned.load(path)


def test_an_unknown_name_lists_the_known() -> None:
    with pytest.raises(FileNotFoundError, match=r"Shipped are .*'simplex-qp'"):
        learned.load("simplex-cp")
    with pytest.raises(TypeError, match="must be a name or a path; got 3"):
        learned.load(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["a" * 5000, "b/" * 3000, "zero\0byte"])
def test_a_name_that_no_file_can_have(name: str) -> None:
    with pytest.raises(FileNotFoundError, match=r"load\(.{0,210}\): .*Shipped are .*'simplex-qp'"):
        learned.load(name)


def test_a_folder_in_place_of_a_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="that is not a file, and no shipped controller"):
        learned.load(tmp_path)


def test_a_card_that_is_too_deep(tmp_path: Path) -> None:
    card: dict[str, Any] = {}
    for _ in range(100_000):
        card = {"card": card}
    with pytest.raises(TypeError, match="must hold what JSON can say: maximum recursion"):
        learned.save(learned.LearnedStep(), tmp_path / "mine.fwnet", card)
    assert not list(tmp_path.iterdir())


def test_a_file_that_could_not_be_read_is_not_written(tmp_path: Path) -> None:
    class LearnedStep(learned.Controller):
        def build_solver(self, domain: fwnet.Domain, **budgets: Any) -> fwnet.FrankWolfe:
            return fwnet.FrankWolfe(domain, **budgets)

    with pytest.raises(TypeError, match=r"of a kind that load can build: .*got LearnedStep"):
        learned.save(LearnedStep(), tmp_path / "mine.fwnet")
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="cannot be written"):
        learned.save(learned.LearnedStep(), tmp_path / "missing" / "mine.fwnet")
    for card, text in (
        ("note", "must be a dictionary; got 'note'"),
        ({"loss": torch.ones(1)}, "must hold what JSON can say: Object of type Tensor"),
        ({3: "a", "b": 1}, "must hold what JSON can say"),
    ):
        with pytest.raises(TypeError, match=text):
            learned.save(learned.LearnedStep(), tmp_path / "mine.fwnet", card)
    with pytest.raises(TypeError, match="must be a Controller"):
        learned.save(fwnet.OpenLoop(), tmp_path / "mine.fwnet")


def test_weights_that_load_refuses_are_not_saved(tmp_path: Path) -> None:
    controller = learned.LearnedStep()
    torch.nn.init.constant_(next(controller.parameters()), torch.nan)
    with pytest.raises(ValueError, match="LearnedStep has a NaN or infinite weight"):
        learned.save(controller, tmp_path / "nan.fwnet")
    assert not list(tmp_path.iterdir())


def test_saving_over_a_file_leaves_no_other(tmp_path: Path) -> None:
    for _ in range(2):
        learned.save(learned.LearnedStep(), tmp_path / "mine.fwnet")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.fwnet"]


def test_the_folder_of_a_training_is_loaded(tmp_path: Path) -> None:
    learned.save(learned.LearnedStep(), tmp_path / "controller.fwnet", {"from": "a folder"})
    assert learned.load(tmp_path).card == {"from": "a folder"}


def test_slots_are_saved_one_by_one_and_evaluated_together(tmp_path: Path) -> None:
    template = fwnet.FrankWolfe(fwnet.Simplex(), oracle=fwnet.Softmin(10.0), max_steps=5)
    parts = {"rule": learned.LSTMStep(), "direction": learned.LSTMDirection()}
    pair = learned.Slots(parts, template)
    with pytest.raises(TypeError, match=r"got Slots of rule, direction. Save each, as in"):
        learned.save(pair, tmp_path / "pair.fwnet")
    for name in parts:
        learned.save(pair[name], tmp_path / f"{name}.fwnet")
    back = learned.Slots(
        {name: learned.load(tmp_path / f"{name}.fwnet") for name in parts}, template
    )
    problem = svm_family().sample(2, seeded())
    assert torch.equal(pair.solver()(problem).x, back.solver()(problem).x)
    baselines = [learned.baselines.FISTA()]
    found = learned.evaluate({"pair": back}, svm_family(), baselines, problems=1, max_steps=5)
    assert found.methods[0] == "pair"
