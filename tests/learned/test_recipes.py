"""Recipes: one for every shipped controller, and a file that says which."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from fwnet import learned
from fwnet.data import available
from fwnet.lab.recipes import RECIPES, Recipe, __main__, svm_families

CARD = {"trained_on", "how", "horizon", "size", "validation", "validation_is", "recipe", "seed"}


def test_every_shipped_controller_has_its_recipe() -> None:
    assert sorted(RECIPES) == sorted(learned.available())


@pytest.mark.parametrize("name", RECIPES)
def test_the_card_is_that_of_the_recipe(name: str) -> None:
    card, recipe = learned.load(name).card, RECIPES[name]
    assert set(card) >= CARD | {"licence", "torch"}
    assert card["recipe"] == f"python -m fwnet.lab.recipes {name}"
    assert card["how"] == recipe.how
    assert card["trained_on"] == recipe.trained_on
    assert (card["horizon"], card["size"]) == (list(recipe.horizon), list(recipe.size))
    assert card["seed"] == recipe.seed
    assert card.get("config", {}).get("seed", str(recipe.seed)) == str(recipe.seed)
    assert "learned" in str(card["validation"])


@pytest.mark.slow
@pytest.mark.skipif(available()["cifar10-inception"] is None, reason="needs features of CIFAR-10")
@pytest.mark.parametrize("name", ["paper-step", "paper-direction"])
def test_the_papers_optimizers_are_as_their_cards_say(name: str) -> None:
    """Within the rounding of another processor."""
    controller = learned.load(name)
    found, card = RECIPES[name].judge(controller), controller.card["validation"]
    assert found.keys() == card.keys()
    for solver, numbers in card.items():
        assert found[solver] == pytest.approx(numbers, rel=0.05)
    assert found["learned"]["end"] < found["line search"]["end"]


def test_a_recipe_writes_what_it_trained(tmp_path: Path) -> None:
    def trained(seed: int) -> learned.LearnedStep:
        controller = learned.LearnedStep()
        with torch.no_grad():
            controller.policy.fill_(seed)
        return controller

    recipe = Recipe(
        "By hand.", trained, lambda controller: {"learned": 1}, "nothing", (1, 2), (3, 4)
    )
    loaded = learned.load(recipe.follow("mine", tmp_path, seed=7))
    assert isinstance(loaded, learned.LearnedStep)
    assert bool((loaded.policy == 7).all())
    assert loaded.card["how"] == "By hand."
    assert loaded.card["seed"] == 7


def test_training_and_validation_share_no_point() -> None:
    points: list[set[tuple[float, ...]]] = []
    for family in svm_families((20, 30)):
        points.append({tuple(row) for source in family._sources for row in source.X.tolist()})
    assert len(points[0]) > 3000 < len(points[1])
    assert not points[0] & points[1]


def test_an_unknown_name_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["recipes", "simplex"])
    with pytest.raises(SystemExit, match="no recipe 'simplex'; there are simplex-step, simplex-qp"):
        __main__.main()
