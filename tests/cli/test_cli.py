"""The command line: what it prints, where it writes, how it fails."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from rich.console import Console
from scipy.optimize import lsq_linear, nnls
from sklearn.datasets import load_iris

import fwnet.lab.paper.experiments as experiments
from fwnet.cli.app import app
from fwnet.cli.errors import say
from fwnet.cli.fit import MODELS
from fwnet.cli.output import table
from fwnet.cli.warm_up import PARTS
from fwnet.estimators import load_model
from fwnet.lab.paper.claims import Verdict
from fwnet.lab.paper.experiment import Results
from fwnet.lab.paper.figures import Figure, Table
from fwnet.lab.paper.run import Job
from fwnet.numerics.compiled import Compilation
from paper.toy import Toy

RUNNER = CliRunner()


class Plain(Toy):
    """Without pictures, which take most of the time of a page; `tests/paper` looks at them."""

    def figures(self, results: Results) -> Sequence[Figure]:
        return [figure for figure in super().figures(results) if isinstance(figure, Table)]


def call(*arguments: object, code: int = 0) -> tuple[str, str]:
    """Standard output and error of a command that ends with the code, as in a later use of it."""
    done = RUNNER.invoke(app, [str(a) for a in arguments], env={"COLUMNS": "200"})
    assert done.exit_code == code, (done.exit_code, done.output, done.exception)
    assert "Traceback" not in done.output
    return done.stdout, re.sub("fwnet compiles machine code .*\n", "", done.stderr)


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(experiments, "EXPERIMENTS", (Plain(),))
    return tmp_path


@pytest.fixture
def mixture(tmp_path: Path) -> Path:
    """Least squares whose optimum over the simplex is known to SciPy."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((30, 6))
    b = A @ [0.5, 0.3, 0.2, 0, 0, 0] + 0.1 * rng.standard_normal(30)
    np.savez(tmp_path / "mixture.npz", A=A, b=b)
    np.savetxt(tmp_path / "mixture.csv", np.column_stack([A, b]), delimiter=",", fmt="%.17g")
    return tmp_path / "mixture.npz"


def test_help_shows_every_command_and_examples() -> None:
    out, _ = call("--help")
    for name in ("solve", "fit", "reproduce", "report", "features", "bench", "info"):
        assert name in out
        assert f"fwnet {name}" in call(name, "--help")[0].replace("\n", " ")
    assert "--install-completion" in out


@pytest.mark.parametrize("solver", ["auto", "away", "pairwise", "blended", "corrective"])
def test_solve_agrees_with_scipy_on_the_simplex(mixture: Path, solver: str) -> None:
    out, _ = call("solve", mixture, "--solver", solver, "--tol", 1e-8, "--json")
    answer = json.loads(out)
    with np.load(mixture) as arrays:
        A, b = arrays["A"], arrays["b"]
    # Σ x = 1 as a heavy row: 1e4 weighs it 1e8 times the others.
    expected, _ = nnls(np.vstack([A, np.full(6, 1e4)]), np.append(b, 1e4))
    np.testing.assert_allclose(answer["x"], expected, atol=1e-4)
    assert answer["status"] == "converged"
    assert answer["gap"] <= 1e-8


def test_solve_reads_csv_and_writes_table_file_and_plot(mixture: Path, tmp_path: Path) -> None:
    csv = mixture.with_suffix(".csv")
    out, _ = call(
        "solve", csv, "--domain", "linf", "--radius", 0.25, "--solver", "plain",
        "--tol", 1e-3, "--out", "x.csv", "--plot", "gap.png",
    )  # fmt: skip
    assert "converged" in out
    with np.load(mixture) as arrays:
        expected = lsq_linear(arrays["A"], arrays["b"], (-0.25, 0.25)).x
    np.testing.assert_allclose(np.loadtxt("x.csv"), expected, atol=0.02)  # the gap bounds f
    assert Path("gap.png").read_bytes().startswith(b"\x89PNG")


def test_solve_svm(tmp_path: Path) -> None:
    X, y = load_iris(return_X_y=True)
    rows = [
        ",".join(map(str, [*x, "ab"[label]])) for x, label in zip(X[:100], y[:100], strict=True)
    ]
    (tmp_path / "iris.csv").write_text("a,b,c,d,kind\n" + "\n".join(rows))
    answer = json.loads(call("solve", "iris.csv", "--task", "svm", "-C", 10, "--json")[0])
    assert answer["status"] == "converged"
    np.testing.assert_allclose(sum(answer["x"]), 1, atol=1e-9)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "bad.csv is empty."),
        ("a,b\n", "bad.csv has a header but no rows."),
        ("1,2\n3\n", "bad.csv: line 2 has 1 columns, but the first has 2."),
        ("1,2\nx,3\n", "bad.csv: line 2 has 'x', which is not a finite number."),
        ("nan,2\n1,2\n", "bad.csv: line 1 has 'nan', which is not a finite number."),
        ("1,a\n2,b\n", "bad.csv: the target must hold finite numbers; entry 0 is 'a'."),
        ("1,2\n3,inf\n", "bad.csv: the target must hold finite numbers; entry 1 is 'inf'."),
        ("a,b\n\n1,2\n\nx,3\n", "bad.csv: line 5 has 'x', which is not a finite number."),
        ("1;2;3\n4;5;6\n", "bad.csv has one column: '1;2;3'. Columns are separated by commas"),
        ("1,2,\n4,5,\n", "bad.csv: line 1 has no target; a comma at its end adds a column."),
        ("1e300,1e300\n1e300,2\n", "bad.csv: f or its gap became NaN or infinite"),
    ],
)
def test_bad_files_raise_a_clear_error(content: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text(content)
    _, error = call("solve", "bad.csv", code=1)
    assert error.startswith(f"fwnet: {sentence}")


def test_wrong_arguments_are_usage_errors(mixture: Path) -> None:
    assert "no experiment 'tyo'. Did you mean 'toy'?" in call("reproduce", "tyo", code=2)[1]
    assert "remove --domain" in call("solve", mixture, "--task", "svm", "--domain", "l1", code=2)[1]
    call("solve", mixture, "--radius", "big", code=2)
    call("nothing", code=2)
    assert "must be a positive finite number" in call("solve", mixture, "--radius", 0, code=1)[1]
    assert "there is no file no.npz" in call("solve", "no.npz", code=1)[1]
    Path("text.npz").write_text("text")
    assert "text.npz is not an NPZ file" in call("solve", "text.npz", code=1)[1]
    assert "must hold X and y; it has A, b" in call("solve", mixture, "--task", "svm", code=1)[1]


@pytest.mark.slow
def test_fit_saves_a_model_that_predicts(tmp_path: Path) -> None:
    X, y = load_iris(return_X_y=True)
    np.savez("iris.npz", X=X, y=y)
    facts = json.loads(call("fit", "iris.npz", "--save", "m.fwnet", "--json")[0])
    assert facts["test_accuracy"] > 0.9
    assert (facts["train_points"], facts["test_points"]) == (112, 38)
    assert load_model("m.fwnet").score(X, y) > 0.9
    deep = json.loads(call("fit", "iris.npz", "--model", "deep-svc", "--updates", 20, "--json")[0])
    assert deep["test_accuracy"] > 0.8
    out, error = call("fit", "iris.npz", "--model", "low-rank", "--radius", 20, "--json")
    assert error.startswith(
        "fwnet: LowRankSoftmaxClassifier stopped"
    )  # a warning without file and line
    flat = json.loads(out)
    assert flat["test_accuracy"] > 0.8
    assert flat["rank"] <= 2
    Path("tiny.svm").write_text("1 1:1\n1 1:2\n-1 2:1\n-1 2:2\n")
    assert "support vectors" in call("fit", "tiny.svm", "--test", 0.5, "--kernel", "linear")[0]


def test_fit_regression() -> None:
    x = np.linspace(-2, 2, 60)
    Path("wave.csv").write_text("\n".join(f"{a},{b}" for a, b in zip(x, np.sin(x), strict=True)))
    facts = json.loads(call("fit", "wave.csv", "--model", "svr", "-C", 100, "--json")[0])
    assert facts["test_r2"] > 0.97  # a tube of 0.1 is left: 1 − 0.01 / 0.5
    assert "classes" not in facts
    small = [f"{a},{b / 1000}" for a, b in zip(x, np.sin(x), strict=True)]  # within the tube
    Path("small.csv").write_text("\n".join(small))
    out, notes = call("fit", "small.csv", "--model", "svr", "-C", 100, "--json")
    assert json.loads(out)["support_vectors"] == 0
    assert "every target lies within epsilon=0.1 of 0" in notes
    fine = ("--model", "svr", "-C", 100, "--epsilon", 1e-5, "--json")
    assert json.loads(call("fit", "small.csv", *fine)[0])["test_r2"] > 0.97
    Path("words.csv").write_text("1,a\n2,b\n3,c\n4,d\n")
    error = call("fit", "words.csv", "--model", "svr", code=1)[1]
    assert "of words.csv: regression needs numbers to predict" in error
    error = call("fit", "wave.csv", code=1)[1]
    assert "fwnet: column 1 of wave.csv needs two classes or more" in error
    assert "For numbers, --model svr." in error


def test_fit_errors() -> None:
    assert "--save no/m needs the folder no" in call("fit", "digits", "--save", "no/m", code=2)[1]
    assert all(name in call("fit", "--help")[0] for name in MODELS)
    assert "no model 'svcc'. Did you mean 'svc'?" in call("fit", "x", "--model", "svcc", code=2)[1]
    np.savez("one.npz", X=np.ones((4, 1)), y=np.ones(4))
    assert "needs two classes or more" in call("fit", "one.npz", code=1)[1]
    assert "no data set of that name" in call("fit", "nothing", code=1)[1]
    assert (
        "--gamma must be scale, auto or a number"
        in call("fit", "digits", "--gamma", "x", code=2)[1]
    )
    assert "kernel must be one of" in call("fit", "digits", "--kernel", "x", code=1)[1]


def test_reproduce_resumes_and_report_rebuilds() -> None:
    out, error = call("reproduce", "--seeds", 2, "--workers", 1)
    assert "report/index.html" in out
    assert "does not hold" in out
    assert "seed 1" in error
    assert Path("report/index.html").is_file()
    out, error = call("reproduce", "toy", "toy", "--seeds", 3, "--workers", 1, "--json")
    assert error.count("kept from before") == 2
    assert error.count("seed 2") == 1
    claims = json.loads(out)["claims"]
    assert [claim["verdict"] for claim in claims] == [each.value for each in Verdict]
    out, _ = call("report", "runs", "--out", "again")
    assert Path("again/index.html").is_file()
    assert (
        "no results of the profile full" in call("report", "runs", "--profile", "full", code=1)[1]
    )
    assert "there is no folder nowhere" in call("report", "nowhere", code=1)[1]


def test_reproduce_keeps_the_others_when_one_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiments, "EXPERIMENTS", (Plain(broken_at=1),))
    _, error = call("reproduce", "--workers", 1, code=1)
    assert "fwnet: toy, seed 1: RuntimeError: the toy broke" in error
    assert "1 of 1 experiments failed; the others are kept." in error
    assert Path("report/index.html").is_file()


def save_text(name: str) -> str:
    np.savez(name, text=np.array(["no points"]))
    return name


def test_features_from_a_torch_factory_and_from_onnx(monkeypatch: pytest.MonkeyPatch) -> None:
    import onnx
    from onnx import TensorProto, helper

    Path("nets.py").write_text(
        "import torch\n\ndef halves():\n    return torch.nn.AvgPool2d(4)\n\ndef text():\n"
        "    return 'no'\n\ndef boom():\n    raise RuntimeError('boom')\n\ndef wide():\n"
        "    return torch.nn.Linear(9, 2)\n"
    )
    monkeypatch.setattr(sys, "path", [*sys.path])  # the command adds this folder
    call("features", "digits", "--model", "nets:halves", "--limit", 5, "--out", "torch.npz")
    node = helper.make_node("AveragePool", ["x"], ["y"], kernel_shape=[4, 4], strides=[4, 4])
    shapes = [("x", ["n", 1, 8, 8]), ("y", ["n", 1, 2, 2])]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, s) for name, s in shapes]
    graph = helper.make_graph([node], "pool", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, "pool.onnx")
    out, _ = call(
        "features", "digits", "--model", "pool.onnx", "--limit", 5, "--out", "o.npz", "--json"
    )
    assert json.loads(out)["train_x"] == [5, 4]
    for end in (*model.graph.input, *model.graph.output):
        end.type.tensor_type.shape.dim[0].dim_value = 2  # as exporters write it by default
    onnx.save(model, "pairs.onnx")
    call("features", "digits", "--model", "pairs.onnx", "--limit", 5, "--out", "pairs.npz")
    with np.load("o.npz") as one, np.load("pairs.npz") as two:
        np.testing.assert_array_equal(one["train_x"], two["train_x"])
    many = "many.npz"
    call("features", "digits", "--model", "pool.onnx", "--limit", 300, "--out", many)
    with np.load("torch.npz") as ours, np.load("o.npz") as theirs:
        np.testing.assert_allclose(ours["train_x"], theirs["train_x"], rtol=1e-6)
        np.testing.assert_array_equal(ours["test_y"], theirs["test_y"])
    assert "must hold arrays X and y, or train_x" in call("fit", save_text("a.npz"), code=1)[1]
    facts = json.loads(call("fit", many, "--json")[0])
    assert facts["train_points"] + facts["test_points"] == 300
    for model_name, sentence in (
        ("nets:text", "must return a torch module; got str"),
        ("nets:none", "the module nets has no 'none'."),
        ("net:none", "cannot be imported"),
        ("nets:boom", "could not be called without arguments: RuntimeError: boom"),
        ("nets:wide", "nets:wide failed on a batch of shape (64, 1, 8, 8); see --size. Runtime"),
        ("nets", "neither a file nor module:factory"),
        ("no.onnx", "there is no file no.onnx"),
    ):
        assert (
            sentence
            in call("features", "digits", "--model", model_name, "--out", "a.npz", code=1)[1]
        )
    call("features", "circles", "--model", "pool.onnx", "--out", "a.npz", code=1)
    call("features", "digits", "--model", "pool.onnx", "--out", "no/a.npz", code=2)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            "--model low-rank -C 3",
            "-C does not apply to --model low-rank, which takes --radius, --tol,",
        ),
        ("--model low-rank-cv --radius 3", "low-rank-cv, which takes --tol, --max-iter."),
        (
            "--updates 5",
            "--updates does not apply to --model svc, which takes -C, --kernel, --gamma,",
        ),
    ],
)
def test_an_option_that_a_model_does_not_have_is_refused(arguments: str, sentence: str) -> None:
    error = call("fit", "digits", *arguments.split(), code=2)[1]
    assert sentence in " ".join(error.replace("│", " ").split())


def test_a_target_is_a_column_of_a_csv_file() -> None:
    assert "digits is not one" in call("fit", "digits", "--target", "y", code=1)[1]


def test_version() -> None:
    assert call("--version")[0] == f"fwnet {fwnet_version()}\n"


def test_folders_are_checked_before_the_work(tmp_path: Path) -> None:
    Path("file").write_text("")
    for option in ("--runs", "--out"):
        error = call("reproduce", "toy", option, "file", code=2)[1]
        assert f"{option} file cannot be a folder: File exists." in error


def test_info_is_json_too(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = json.loads(call("info", "--json")[0])
    assert facts["versions"]["fwnet"] == fwnet_version()
    assert facts["data"]["digits"] == "scikit-learn"
    assert "torch runs on" in call("info")[0]


def test_info_names_the_file_that_a_set_lacks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "train-labels-idx1-ubyte.gz").write_bytes(b"")
    monkeypatch.setenv("FWNET_DATA", str(tmp_path))
    facts = json.loads(call("info", "--json")[0])
    assert facts["data"]["mnist"] is None
    assert "train-images-idx3-ubyte.gz is missing, although" in facts["incomplete"]["mnist"]
    assert "train-images" in call("info")[0]


def fwnet_version() -> str:
    import fwnet

    return fwnet.__version__


def test_the_package_is_the_command_too() -> None:
    command = [sys.executable, "-m", "fwnet", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"fwnet {fwnet_version()}\n"


def test_another_encoding_of_the_output_stream_works() -> None:
    command = [sys.executable, "-m", "fwnet", "solve", "--help"]
    latin = os.environ | {"PYTHONIOENCODING": "latin-1"}
    done = subprocess.run(command, capture_output=True, encoding="latin-1", check=True, env=latin)
    assert "the gap bounds f(x) \\u2212 min" in done.stdout


def test_warm_up_compiles_what_it_names(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["layers", "learned", "optim", "solvers"]
    found = json.loads(call("warm-up", *names, "--json")[0])["seconds"]
    assert list(found) == names

    def compile_for_a_second() -> None:
        Compilation.seconds += 1.0

    monkeypatch.setitem(PARTS, "svm", compile_for_a_second)
    assert json.loads(call("warm-up", "svm", "--json")[0])["seconds"]["svm"] == pytest.approx(1.0)
    assert "no part 'svn'. Did you mean 'svm'?" in call("warm-up", "svn", code=2)[1]
    monkeypatch.setattr("fwnet.numerics.compiled.numba_or_none", lambda: None)
    assert "nothing to compile without Numba" in call("warm-up", code=1)[1]


def test_colours_are_for_terminals(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    made = table("", ["status", "x"], [["converged", 1.0], ["[max_steps]", None]])
    for colours in (True, False):
        console = Console(file=io.StringIO(), force_terminal=colours)
        console.print(made)
        text = console.file.getvalue()
        assert ("\x1b[32mconverged" in text) is colours
        assert "[max_steps]" in text  # no markup
    say("it failed")
    assert capsys.readouterr().err == "fwnet: it failed\n"


def test_bench_needs_a_checkout() -> None:
    assert "Run the command in a checkout of fwnet" in call("bench", code=1)[1]


def test_a_bug_of_ours_shows_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def faulty(*arguments: object) -> list[Job]:
        raise LookupError("deep inside")

    monkeypatch.setattr("fwnet.lab.paper.run.plan", faulty)
    _, error = call("reproduce", code=1)
    assert error.startswith("fwnet: LookupError: deep inside. This is a bug in fwnet; FWNET_DEBUG")


def test_ctrl_c_prints_a_message_and_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(Plain):
        def run(self, config: Any, seed: int, progress: Any) -> dict[str, Any]:
            if seed:
                signal.raise_signal(signal.SIGINT)
            return super().run(config, seed, progress)

    monkeypatch.setattr(experiments, "EXPERIMENTS", (Interrupted(),))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a background shell has none
    try:
        error = call("reproduce", "--workers", 1, code=130)[1]
    finally:
        signal.signal(signal.SIGINT, before)
    assert "fwnet: Stopped. Finished seeds are kept in runs; the same command resumes" in error
    assert [path.name for path in Path().glob("runs/*/*/seed-*.json")] == ["seed-0.json"]


def test_dates_are_not_points() -> None:
    X = np.arange(20).reshape(10, 2).astype("datetime64[s]")
    np.savez("dates.npz", X=X, y=np.arange(10) % 2)
    _, error = call("fit", "dates.npz", code=1)
    assert "dates.npz: X must hold numbers; got datetime64[s]. Convert it first" in error
