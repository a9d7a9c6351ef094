"""The recipes of docs/training-loops.md run in the libraries that they name.

`make test-integrations` installs these libraries; `make test` does not need them.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from fwnet.optim import FrankWolfe

PAGE = (Path(__file__).parents[1] / "docs" / "training-loops.md").read_text()
COMMON = re.search(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
RECIPES = re.findall(r"^```python (\w+)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_every_library_has_a_recipe() -> None:
    assert [name for name, _ in RECIPES] == ["lightning", "accelerate", "transformers", "skorch"]


@pytest.mark.filterwarnings("ignore")  # of the libraries
@pytest.mark.parametrize(("name", "recipe"), RECIPES, ids=[name for name, _ in RECIPES])
def test_a_recipe_trains_inside_the_domains(
    name: str, recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert COMMON is not None
    space: dict[str, Any] = {"__name__": "recipe"}
    exec(COMMON[1], space)
    made: list[FrankWolfe] = []

    def recorded(*args: Any, **options: Any) -> FrankWolfe:
        made.append(FrankWolfe(*args, **options))
        return made[-1]

    space["FrankWolfe"] = recorded
    exec(recipe, space)
    (opt,) = made
    trained = {id(parameter) for parameter in space["net"].parameters()}
    held = [(g["domain"], p) for g in opt.param_groups if g["domain"] for p in g["params"]]
    assert len(held) == 2
    for domain, parameter in held:
        assert id(parameter) in trained
        assert "momentum" in opt.state[parameter]  # it moved
        assert bool(domain.contains(parameter.detach(), tol=0.0))
