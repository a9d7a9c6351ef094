"""`fwnet solve` over every domain: nearest points that are known in closed form, and its errors."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cvxpy
import numpy as np
import pytest

from cli.test_cli import RUNNER, call
from fwnet.cli.app import app
from fwnet.cli.domains import DOMAINS

b = np.array([3.0, -1.0, 0.5, 0.2])
B = np.diag([3.0, 1.0, 0.5])
SWAP = np.eye(3)[[1, 0, 2]]
# The point of the domain that is nearest to b or B: options, arrays, answer.
NEAREST: dict[str, tuple[list[Any], dict[str, Any], Any]] = {
    "simplex": ([], {}, [1, 0, 0, 0]),
    "hypersimplex": (["--k", 2], {}, [1, 0, 0.65, 0.35]),  # clip(b + 0.15, 0, 1)
    "l1": (["--radius", 2], {}, [2, 0, 0, 0]),
    "l2": ([], {}, b / np.linalg.norm(b)),
    "linf": ([], {}, [1, -1, 0.5, 0.2]),
    "lp": (["--p", 3], {"b": [3.0] * 4}, [4 ** (-1 / 3)] * 4),
    "k-sparse": (["--k", 2], {}, [1, -0.75, 0.25, 0]),  # shrunk by 0.25, then clipped
    "group-l1": ([], {"groups": [5, 5, 7, 7]}, [*(b[:2] / np.sqrt(10)), 0, 0]),
    "box": (["--lower", 0, "--upper", 1], {}, [1, 0, 0.5, 0.2]),
    "polytope": (["--lower", 0], {"A_ub": np.ones((1, 4)), "b_ub": [1.0]}, [1, 0, 0, 0]),
    "hull": ([], {"vertices": [[0, 0, 0, 0], [2, 0, 0, 0]]}, [2, 0, 0, 0]),
    "trace-norm": (["--radius", 2], {}, np.diag([2, 0, 0])),
    "schatten": (["--p", 3], {"b": 3.0 * np.eye(3)}, 3 ** (-1 / 3) * np.eye(3)),
    "spectral": ([], {}, np.diag([1, 1, 0.5])),
    "row-norms": ([], {}, np.diag([1, 1, 0.5])),
    "spectraplex": ([], {}, np.diag([1, 0, 0])),
    "birkhoff": ([], {"b": 10 * SWAP}, SWAP),
}


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def saved(name: str, **arrays: Any) -> str:
    np.savez(name, **{key: np.asarray(value) for key, value in arrays.items()})
    return name


def test_every_domain_is_tested() -> None:
    assert NEAREST.keys() == DOMAINS.keys()


@pytest.mark.parametrize("name", NEAREST)
def test_the_nearest_point_of_every_domain(name: str) -> None:
    options, arrays, expected = NEAREST[name]
    goal = B if DOMAINS[name].matrix else b
    own = {key: value for key, value in arrays.items() if key == "b"}
    file = saved("problem.npz", **({"A": np.eye(len(goal)), "b": goal} | own))
    apart = {key: value for key, value in arrays.items() if key != "b"}
    more = ["--constraints", saved("domain.npz", **apart)] if apart else []
    arguments = ["solve", file, "--domain", name, "--tol", 1e-3, *options, *more, "--json"]
    answer = json.loads(call(*arguments)[0])
    assert answer["domain"] == name
    assert answer["status"] == "converged"
    # ½‖x − b‖² is 1-strongly convex: ‖x − x*‖² ≤ 2 gap.
    assert np.linalg.norm(np.array(answer["x"]) - expected) <= np.sqrt(2 * answer["gap"]) + 1e-9
    if apart:  # the same arrays beside A and b
        file = saved("both.npz", A=np.eye(len(goal)), b=goal, **apart)
        again = call("solve", file, "--domain", name, "--tol", 1e-3, *options, "--json")[0]
        assert json.loads(again)["x"] == answer["x"]


def test_completion_from_rows_of_a_csv_file() -> None:
    u, v = np.array([1.0, 2.0, -1.0]), np.array([1.0, 0.5, -1.0, 2.0])
    M = np.outer(u, v)
    seen = [(i, j) for i in range(3) for j in range(4) if (i + j) % 4]  # 9 of 12
    rows = [f"{i},{j},{M[i, j]}" for i, j in seen]
    Path("ratings.csv").write_text("row,column,value\n" + "\n".join(rows))
    size = np.linalg.norm(M, "nuc")
    out = call(
        "solve", "ratings.csv", "--task", "completion", "--radius", size, "--solver", "corrective",
        "--tol", 1e-8, "--out", "X.csv", "--json",
    )[0]  # fmt: skip
    answer = json.loads(out)
    assert answer["domain"] == "trace-norm"
    X = np.loadtxt("X.csv", delimiter=",")
    assert answer["rank"] == np.linalg.matrix_rank(X, tol=1e-9)
    assert np.linalg.norm(X, "nuc") <= size + 1e-9
    error = [X[place] - M[place] for place in seen]  # M itself lies in the ball: f* = 0
    assert np.linalg.norm(error) <= np.sqrt(2e-8)
    arrays = dict(zip(("rows", "cols"), np.array(seen).T, strict=True))
    values = [M[i, j] for i, j in seen]
    file = saved("ratings.npz", **arrays, values=values, shape=[3, 5])
    wide = call("solve", file, "--task", "completion", "--radius", size, "--tol", 0.1, "--json")[0]
    assert np.shape(json.loads(wide)["x"]) == (3, 5)


def test_table_file_and_plot() -> None:
    file = saved("problem.npz", A=np.eye(4), b=b)
    out, _ = call("solve", file, "--domain", "l1", "--out", "x.npz", "--plot", "gap.svg")
    assert "Answer, l1, x of shape 4" in out
    assert "Nonzero" in out
    with np.load("x.npz") as arrays:
        np.testing.assert_allclose(arrays["x"], [1, 0, 0, 0], atol=1e-6)
    assert "<svg" in Path("gap.svg").read_text()


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        ("--domain simplx", 2, "there is no domain 'simplx'. Did you mean 'simplex'? Known: "),
        ("--domain lp", 2, "--domain lp needs --p."),
        ("--domain k-sparse", 2, "--domain k-sparse needs --k."),
        ("--k 2", 2, "--k does not apply to --domain simplex, which takes --radius."),
        ("--domain hull --radius 2", 2, "--domain hull, which takes no such option."),
        ("--domain box --lower 0", 2, "--domain box needs --lower and --upper, or arrays"),
        ("--domain hull", 1, "--domain hull needs an array vertices, in the NPZ file of the"),
        ("--domain trace-norm", 2, "x is a vector, but --domain trace-norm holds matrices."),
        ("--task svm --domain l1", 2, "--task svm is always on the simplex; remove --domain."),
        ("--out x.txt", 2, "--out must end in .csv or .npz; got x.txt."),
        ("--plot x.gif", 2, "--plot must end in .png, .svg or .pdf; got x.gif."),
        ("--out no/x.csv", 2, "--out no/x.csv needs the folder no, which does not exist."),
        ("--plot no/x.png", 2, "--plot no/x.png needs the folder no, which does not exist."),
        ("--plot .", 2, "--plot must end in .png, .svg or .pdf; got ."),
        ("--out problem.npz/x.csv", 2, "needs the folder problem.npz, which does not"),
        ("-C 2", 2, "-C applies only to --task svm, not least-squares; remove it."),
        ("--max-steps 0", 2, "--max-steps"),
        ("--domain lp --p 0.5", 1, "LpBall(p=...)"),
        ("--domain hypersimplex --k 9", 1, "needs at least k=9 coordinates"),
        ("--domain box --lower 2 --upper 1", 1, "lower"),
        ("--tol nan", 1, "tol"),
        ("--constraints no.npz", 1, "there is no file no.npz."),
        ("--task completion", 1, "problem.npz must hold rows, cols and values; it has A, b."),
    ],
)
def test_error_text(arguments: str, code: int, sentence: str) -> None:
    file = saved("problem.npz", A=np.eye(4), b=b)
    error = " ".join(
        call("solve", file, *arguments.split(), code=code)[1].replace("│", " ").split()
    )
    assert sentence in error


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ("0,1,2,3\n", "must have three columns, row, column and value; got 4."),
        ("0,0.5,1\n", "cols must hold whole numbers."),
        ("0,1,red\n", "values must hold finite numbers; entry 0 is 'red'."),
        ("-1,0,1\n0,0,1\n", "rows) must lie in 0..0; got -1..0."),
    ],
)
def test_bad_entries_raise_a_clear_error(rows: str, sentence: str) -> None:
    Path("bad.csv").write_text(rows)
    assert sentence in call("solve", "bad.csv", "--task", "completion", code=1)[1]


def written(name: str, content: bytes) -> str:
    Path(name).write_bytes(content)
    return name


def zipped(name: str, member: str, content: bytes) -> str:
    with zipfile.ZipFile(name, "w") as archive:
        archive.writestr(member, content)
    return name


def claimed(name: str, shape: tuple[int, ...]) -> str:
    """An array of four numbers whose header claims another shape."""
    file = io.BytesIO()
    facts = {"descr": "<f8", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, facts)
    return zipped(name, "A.npy", file.getvalue() + bytes(32))


def squeezed(name: str) -> str:
    """A compressed file with a byte changed in the middle of an array."""
    A = np.random.default_rng(0).standard_normal((50, 4))
    np.savez_compressed(name, A=A, b=np.ones(50))
    content = bytearray(Path(name).read_bytes())
    content[600:700] = bytes(100)
    return written(name, bytes(content))


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: written("bad.npz", b""), "bad.npz is not an NPZ file, or is truncated."),
        (lambda: written("bad.npz", b"hello"), "bad.npz is not an NPZ file, or is truncated."),
        (
            lambda: written("bad.npz", Path(saved("whole.npz", A=b, b=b)).read_bytes()[:200]),
            "bad.npz is not an NPZ file, or is truncated.",
        ),
        (lambda: saved("bad.npz"), "bad.npz must hold A and b; it has nothing."),
        (
            lambda: claimed("bad.npz", (1 << 20, 1 << 20)),
            "bad.npz does not fit into memory.",
        ),
        (lambda: squeezed("bad.npz"), "bad.npz is not an NPZ file: "),
        (
            lambda: zipped("bad.npz", "A.txt", b"1 2 3"),
            "bad.npz holds 'A.txt', which is not an array. Write it with numpy.savez.",
        ),
        (
            lambda: saved("bad.npz", A=np.eye(4), b=np.arange(4).astype("datetime64[D]")),
            "bad.npz: the target must hold numbers; got datetime64[D]. Convert it first",
        ),
        (
            lambda: saved("bad.npz", A=np.eye(4), b=np.zeros(4, [("a", float), ("b", float)])),
            "bad.npz: the target must hold numbers; got [('a', '<f8'), ('b', '<f8')].",
        ),
        (
            lambda: saved("bad.npz", A=np.eye(4) + 1j, b=b),
            "bad.npz: A must hold real numbers; got complex ones.",
        ),
        (
            lambda: saved("bad.npz", A=np.eye(3), b=B * np.nan),
            "bad.npz: the target must hold finite numbers; entry 0 is 'nan'.",
        ),
        (
            lambda: saved("bad.npz", A=[["0", "x"]], b=[1.0]),
            "bad.npz: A must hold finite numbers; entry 1 is 'x'.",
        ),
        (
            lambda: saved("bad.npz", A=np.eye(4), b=b, groups=[0.5, 1, 1, 2]),
            "the array groups must hold whole numbers.",
        ),
    ],
)
def test_bad_arrays_raise_a_clear_error(make: Callable[[], str], sentence: str) -> None:
    assert sentence in call("solve", make(), "--domain", "group-l1", code=1)[1]


def test_json_keeps_every_digit() -> None:
    file = saved("problem.npz", A=np.eye(4), b=b)
    answer = json.loads(call("solve", file, "--domain", "l2", "--out", "x.npz", "--json")[0])
    with np.load("x.npz") as arrays:
        assert answer["x"] == arrays["x"].tolist()


def test_matrices_of_least_squares_by_an_independent_solver() -> None:
    A, goal = np.random.default_rng(0).normal(size=(2, 6, 4))
    answer = json.loads(
        call("solve", saved("p.npz", A=A, b=goal), "--domain", "trace-norm", "--json")[0]
    )
    X = cvxpy.Variable((4, 4))
    squares = cvxpy.sum_squares(A @ X - goal) / 2
    wanted = cvxpy.Problem(cvxpy.Minimize(squares), [cvxpy.normNuc(X) <= 1]).solve()
    assert answer["status"] == "converged"
    assert answer["steps"] < 100
    assert answer["value"] == pytest.approx(wanted, abs=2e-6)


def test_a_matrix_needs_a_domain_of_matrices() -> None:
    file = saved("problem.npz", A=np.eye(3), b=B)
    error = call("solve", file, code=2)[1]
    assert "x is a matrix, but --domain simplex holds vectors" in error
    assert "trace-norm, spectral" in " ".join(error.replace("│", " ").split())
    file = saved("problem.npz", A=np.eye(4), b=B)
    sentence = "A and b must have the same number of rows; got shapes (4, 4) and (3, 3)."
    assert sentence in call("solve", file, "--domain", "spectral", code=1)[1]


def test_help_lists_every_domain() -> None:
    out = call("solve", "--help")[0]
    assert all(f"{name}: " in out for name in DOMAINS)
    assert "fwnet solve ratings.csv --task completion" in out


@pytest.mark.parametrize(
    ("words", "names"),
    [("solve --domain tr", ["trace-norm"]), ("reproduce ci", ["cifar2", "circles"])],
)
def test_the_shell_completes_names(words: str, names: list[str]) -> None:
    environment = {
        "_FWNET_COMPLETE": "bash_complete",
        "COMP_WORDS": f"fwnet {words}",
        "COMP_CWORD": str(len(words.split())),
    }
    done = RUNNER.invoke(app, [], env=environment, prog_name="fwnet")
    assert done.stdout.split() == [f"plain,{name}" for name in names]
