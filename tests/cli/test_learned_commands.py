"""meta-train, evaluate and shard on the command line."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from cli.test_cli import call as run
from fwnet import learned

SMALL = ("--family", "quadratic", "--controller", "step", "--unroll", 5, "--size", 8, 12)


def call(*arguments: object, code: int = 0) -> str:
    """What a command that ends with the code printed."""
    return "".join(run(*arguments, code=code))


@pytest.mark.slow
def test_meta_train_resumes(tmp_path: Path) -> None:
    run = tmp_path / "run"
    first = json.loads(call("meta-train", *SMALL, "--steps", 2, "--out", run, "--json"))
    before = (run / "controller.fwnet").read_bytes()
    again = json.loads(call("meta-train", *SMALL, "--steps", 2, "--out", run, "--json"))
    assert first["episodes"] == again["episodes"] == 2
    assert (run / "controller.fwnet").read_bytes() == before
    assert isinstance(learned.load(run / "controller.fwnet"), learned.LearnedStep)
    assert len((run / "history.jsonl").read_text().splitlines()) == 2
    assert (run / "curves.png").stat().st_size > 1000
    other = call("meta-train", *SMALL, "--steps", 3, "--out", run, code=1)
    assert "belongs to another training" in other


@pytest.mark.slow
def test_deep_svms_can_be_trained_on_and_judged_by(tmp_path: Path) -> None:
    run = tmp_path / "run"
    small = ("--controller", "hierarchical", "--unroll", 3, "--steps", 1, "--size", 8, 12)
    call("meta-train", "--family", "deep-svm", *small, "--out", run, "--json")
    assert isinstance(learned.load(run / "controller.fwnet"), learned.HierarchicalDirection)
    few = ("--problems", 1, "--size", 12, "--max-steps", 6)
    found = json.loads(call("evaluate", run, "--on", "deep-svm", *few, "--json"))
    assert "learned" in found["deep-svm"]


def test_meta_train_refuses_minutes_of_zero(tmp_path: Path) -> None:
    assert "--minutes must be positive" in call(
        "meta-train", "--minutes", 0, "--out", tmp_path, code=2
    )


def test_evaluate_a_shipped_controller(tmp_path: Path) -> None:
    small = ("--problems", 2, "--size", 24, "--max-steps", 20)
    found = json.loads(call("evaluate", "simplex-qp", *small, "--out", tmp_path / "e", "--json"))
    medians = found["digits"]["learned"]["iterations"]
    assert 0 < medians["0.01"] <= 20
    costs = json.loads((tmp_path / "e" / "digits.json").read_text())["costs"]
    mine = [c["iterations"] for c in costs if c["method"] == "learned" and c["tolerance"] == 0.01]
    assert medians["0.01"] in mine
    assert (tmp_path / "e" / "digits.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (
            ("evaluate", "simplex-qp", "--on", "digit"),
            2,
            "no family 'digit'. Did you mean 'digits'?",
        ),
        (("evaluate", "simplex-qp", "--C", "0"), 2, "--C must be positive"),
        (("evaluate", "simplex-qp", "--out", __file__), 2, "cannot be a folder: File exists"),
        (("meta-train", "--out", __file__), 2, "cannot be a folder: File exists"),
        (("meta-train", "--out", "x", "--minutes", "nan"), 2, "--minutes must be positive"),
        (("evaluate", "nothing-here"), 1, "no shipped controller of that name"),
        (("evaluate", "power-iteration"), 1, "was made for TraceNormBall; got Simplex"),
    ],
)
def test_evaluate_errors(arguments: tuple[str, ...], code: int, sentence: str) -> None:
    assert sentence in " ".join(call(*arguments, code=code).split())


def test_shard_writes_what_was_given(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).standard_normal((10, 3)).astype(np.float32)
    np.save(tmp_path / "X.npy", rows)
    np.save(tmp_path / "y.npy", np.arange(10) % 2)
    out = tmp_path / "parts"
    call("distributed", "shard", tmp_path / "X.npy", tmp_path / "y.npy", "--out", out, "--rows", 4)
    parts = [np.load(path) for path in sorted(out.glob("*.X.npy"))]
    assert [len(part) for part in parts] == [4, 4, 2]
    np.testing.assert_array_equal(np.concatenate(parts), rows)
    missing = call(
        "distributed", "shard", tmp_path / "Z.npy", tmp_path / "y.npy", "--out", out, code=1
    )
    assert "Z.npy" in missing


OWN = """
import torch, fwnet
from fwnet import learned

class Prices(learned.ProblemFamily):
    domain = fwnet.Simplex()
    def sample(self, batch, generator):
        return fwnet.LeastSquares(torch.eye(6), torch.randn(batch, 6, generator=generator))

class Sizes:
    pass
"""


@pytest.mark.slow
def test_a_family_of_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])  # the command adds this folder
    (tmp_path / "own_prices.py").write_text(OWN)
    mine = ("--family", "own_prices:Prices")
    small = ("--controller", "step", "--unroll", 3, "--steps", 1, "--out", "run", "--json")
    first = json.loads(call("meta-train", *mine, *small))
    again = json.loads(call("meta-train", *mine, *small))  # resumes
    assert first["episodes"] == again["episodes"] == 1
    few = ("--problems", 1, "--max-steps", 5, "--out", "e", "--json")
    found = json.loads(call("evaluate", "run", *mine, *few, "--tolerances", "0.5,0.1"))
    assert list(found["own_prices:Prices"]["learned"]["iterations"]) == ["0.5", "0.1"]
    wrong = call("evaluate", "run", *mine, "--tolerances", "1e-2;1e-3", code=2)
    assert "--tolerances must be numbers with commas between them; got '1e-2;1e-3'." in wrong
    assert (tmp_path / "e" / "own_prices-Prices.json").is_file()
    wrong = call("meta-train", "--family", "own_prices:Sizes", "--out", "x", code=2)
    assert "must return a family of problems (learned.ProblemFamily); got Sizes." in wrong
    assert "cannot be imported" in call("evaluate", "pairwise", "--on", "own_price:No", code=2)
    wrong = call("evaluate", "pairwise", "--on", "own_prices:Price", code=2)
    assert "own_prices has no 'Price'. Did you mean 'Prices'?" in wrong
    wrong = call("evaluate", "pairwise", "--on", "own_prices.py:Prices", code=2)
    assert "must name a module, not a file: own_prices:Prices." in wrong
    wrong = call("meta-train", *mine, "--size", 8, 9, "--out", "x", code=2)
    assert "--size does not apply to own_prices:Prices, which has its own." in wrong
    wrong = call("evaluate", "pairwise", *mine, "--C", 3, code=2)
    assert "--C and --size do not apply to own_prices:Prices" in wrong
    assert "no family 'svn'" in call("meta-train", "--family", "svn", "--out", "x", code=2)
