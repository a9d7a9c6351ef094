"""`fwnet fit` and `fwnet predict` on tables: missing values, categories, files of models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from cli.test_cli import call
from fwnet.estimators import (
    FWSVC,
    FWSVR,
    DeepSVC,
    FWOneClassSVM,
    LowRankSoftmaxClassifier,
    TableEncoder,
    load_model,
    save_model,
)


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def people(n: int = 120) -> pandas.DataFrame:
    """Numbers of different scales, texts, and gaps in both; the class depends on all."""
    rng = np.random.default_rng(0)
    city = rng.choice(["Rome", "Oslo", "Lima"], n)
    income, age = rng.normal(40_000, 9_000, n), rng.integers(18, 80, n)
    score = (income - 40_000) / 9_000 + (age - 49) / 18 + 1.5 * (city == "Oslo")
    table = pandas.DataFrame({"income": income, "city": city, "age": age})
    table["buys"] = np.where(score > 0.3, "yes", "no")
    table.loc[3:8, "income"] = np.nan
    table.loc[10:14, "city"] = None
    return table


def encoder() -> Any:
    """The same by scikit-learn's own parts."""
    return make_column_transformer(
        (make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), ["income", "age"]),
        (OneHotEncoder(sparse_output=False, handle_unknown="ignore"), ["city"]),
    )


def test_the_encoding_is_that_of_scikit_learn() -> None:
    table = people().drop(columns="buys")
    train, test = table[:80], table[80:].copy()
    test.loc[90, "city"] = "Bonn"  # unseen
    ours, theirs = TableEncoder().fit(train), encoder().fit(train)
    for part in (train, test):
        found, wanted = ours.transform(part), theirs.transform(part)
        assert found.shape == wanted.shape
        # Of the values of a text, a missing one is the first here and the last there.
        np.testing.assert_allclose(found[:, :2], wanted[:, :2], atol=1e-12)
        np.testing.assert_array_equal(found[:, 3:], wanted[:, 2:5])
        np.testing.assert_array_equal(found[:, 2], wanted[:, 5])


def test_the_coordinates_of_a_table_have_names() -> None:
    table = people().drop(columns="buys")
    found = TableEncoder().set_output(transform="pandas").fit_transform(table)
    names = ["income", "age", "city_nan", "city_Lima", "city_Oslo", "city_Rome"]
    assert list(found.columns) == names
    array = np.ones((3, 2))
    assert TableEncoder().fit(array).get_feature_names_out().tolist() == ["x0", "x1"]


def test_the_best_of_a_search_is_saved() -> None:
    table = people()
    X, y = table.drop(columns="buys"), table["buys"]
    search = GridSearchCV(make_pipeline(TableEncoder(), FWSVC()), {"fwsvc__C": [1.0, 10.0]}, cv=3)
    save_model(search.fit(X, y), "m.fwnet")
    assert (load_model("m.fwnet").predict(X) == search.predict(X)).all()
    with pytest.raises(ValueError, match=r"ColumnTransformer, FWSVC. joblib.dump writes any"):
        save_model(make_pipeline(encoder(), FWSVC()).fit(X, y), "m.fwnet")


def test_fit_saves_a_table_model_that_predicts_new_tables() -> None:
    table = people()
    table[:100].to_csv("people.csv", index=False)
    out, error = call(
        "fit", "people.csv", "--target", "buys", "--save", "m.fwnet", "--cv", 4, "--json"
    )
    facts = json.loads(out)
    assert error == ""
    assert facts["test_accuracy"] > 0.85
    assert facts["saved"] == "m.fwnet"
    assert facts["target"] == "buys"
    assert facts["numbers"] == ["income", "age"]
    assert facts["texts"] == ["city (4 values)"]  # missing is one of them
    wanted = cross_val_score(
        make_pipeline(encoder(), FWSVC(random_state=0)), table[:100], table["buys"][:100], cv=4
    )
    assert facts["cv_accuracy"] == pytest.approx(wanted.mean(), abs=0.011)  # a point near the plane
    new = table[100:]
    shuffled = new[["age", "buys", "city", "income"]].assign(note="ignored")
    shuffled.to_csv("new.csv", index=False)
    model = load_model("m.fwnet")
    expected = model.predict(new).tolist()
    assert call("predict", "m.fwnet", "new.csv")[0].split() == ["buys", *expected]
    answer = json.loads(call("predict", "m.fwnet", "new.csv", "--json")[0])
    assert answer["predictions"]["buys"] == expected
    assert answer["accuracy"] == pytest.approx(np.mean(new["buys"] == expected))
    new.drop(columns="buys").to_csv("blind.csv", index=False)
    out, _ = call("predict", "m.fwnet", "blind.csv", "--out", "said.csv")
    assert "said.csv" in out
    assert pandas.read_csv("said.csv")["buys"].tolist() == expected


def test_probabilities_are_those_of_the_estimator() -> None:
    people().to_csv("people.csv", index=False)
    call("fit", "people.csv", "--probability", "--save", "m.fwnet")
    answer = json.loads(call("predict", "m.fwnet", "people.csv", "--probability", "--json")[0])
    expected = load_model("m.fwnet").predict_proba(people())
    np.testing.assert_allclose(answer["predictions"]["P(yes)"], expected[:, 1], atol=1e-12)
    call("fit", "people.csv", "--save", "m.fwnet")
    error = call("predict", "m.fwnet", "people.csv", "--probability", code=1)[1]
    assert "m.fwnet holds no probabilities. Fit with --probability." in error


def test_parquet_is_read_by_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("people.parquet").write_bytes(b"")
    monkeypatch.setattr(pandas, "read_parquet", lambda path: people())
    facts = json.loads(call("fit", "people.parquet", "--json")[0])
    assert facts["test_accuracy"] > 0.85

    def needs_pyarrow(path: Path) -> pandas.DataFrame:
        raise ImportError

    monkeypatch.setattr(pandas, "read_parquet", needs_pyarrow)
    assert "people.parquet needs pyarrow" in call("fit", "people.parquet", code=1)[1]


def test_rows_without_a_target_are_left_out_and_options_reach_the_estimator() -> None:
    table = people()
    table.loc[0:4, "buys"] = None
    table["id"] = [f"p{i}" for i in range(len(table))]
    table.to_csv("people.csv", index=False)
    given = ("--target", "buys", "--drop", "id", "--tol", 0.5, "--max-iter", 7)
    out, error = call("fit", "people.csv", *given, "--no-scale", "--save", "m.fwnet", "--json")
    assert "5 rows of people.csv have no buys and are left out." in error
    facts = json.loads(out)
    assert facts["train_points"] + facts["test_points"] == 115
    encoded, estimator = (part for _, part in load_model("m.fwnet").steps)
    assert (estimator.tol, estimator.max_iter, encoded.scale) == (0.5, 7, False)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("people.csv", "categories: id (200, such as 'p0'), home (200, such as 'h0'). Convert"),
        ("people.csv", "--drop id,home."),
        ("people.csv --drop home", "--drop home,id."),
        ("people.csv --target bys", "people.csv has no column 'bys'; it has income, city"),
        ("people.csv --drop nothing", "people.csv has no column 'nothing'"),
        ("digits --drop id", "--target and --drop name columns of a CSV or Parquet file"),
        ("no.csv", "there is no file no.csv."),
        ("bad.csv", "bad.csv is not a csv file that pandas can read:"),
        ("latin.csv", "latin.csv is not encoded in UTF-8 (Latin-1, perhaps). Save it as UTF-8"),
        ("wide.csv", "wide.csv is not encoded in UTF-8 (UTF-16). Save it as UTF-8"),
        ("empty.csv", "empty.csv is not a csv file that pandas can read: No columns"),
    ],
)
def test_fit_errors_on_tables(arguments: str, sentence: str) -> None:
    table = people(200)
    table.insert(3, "id", [f"p{i}" for i in range(200)])
    table.insert(4, "home", [f"h{i}" for i in range(200)])
    table.to_csv("people.csv", index=False)
    Path("bad.csv").write_text("a,b\n1,2\n1,2,3,4\n")
    Path("latin.csv").write_text("größe,b\n1,2\n", encoding="latin-1")
    Path("wide.csv").write_text("größe,b\n1,2\n", encoding="utf-16")
    Path("empty.csv").write_text("")
    error = " ".join(call("fit", *arguments.split(), code=1)[1].split())
    assert sentence in error


def test_other_spellings_of_csv_files() -> None:
    table = people()
    table.to_csv("people.csv", index=False)
    wanted = json.loads(call("fit", "people.csv", "--save", "m.fwnet", "--json")[0])
    table.to_csv("people.csv.gz", index=False)
    table.to_csv("people.tsv", index=False, sep="\t")
    table.to_csv("comma.csv", index=False, sep=";", decimal=",")
    europe = ("--separator", ";", "--decimal", ",")
    for arguments in (("people.csv.gz",), ("people.tsv",), ("comma.csv", *europe)):
        found = json.loads(call("fit", *arguments, "--json")[0])
        assert found["test_accuracy"] == wanted["test_accuracy"]
        assert found["numbers"] == ["income", "age"]
        answer = json.loads(call("predict", "m.fwnet", *arguments, "--json")[0])
        assert answer["accuracy"] > 0.85
    error = " ".join(call("fit", "comma.csv", code=1)[1].split())
    assert "comma.csv has one column: 'income;city;age;buys'" in error
    assert '--separator ";"' in error
    error = " ".join(call("fit", "comma.csv", "--separator", ";", code=1)[1].split())
    income = pandas.read_csv("comma.csv", sep=";", dtype=str)["income"].iloc[0]
    assert f"would become categories: income ({income!r})." in error
    assert "pass --decimal ,; else convert them, or leave them out: --drop income." in error


def test_row_numbers_and_empty_columns_are_left_out() -> None:
    table = people()
    table.insert(1, "gone", np.nan)
    table.to_csv("people.csv")
    out, error = call("fit", "people.csv", "--target", "buys", "--json")
    assert json.loads(out)["numbers"] == ["income", "age"]
    assert "the first column of people.csv has no name and numbers the rows" in error
    assert "columns of people.csv without any value are left out: gone." in error


def test_predict_scores_the_rows_with_a_target_and_keeps_columns() -> None:
    table = people()
    table.to_csv("people.csv", index=False)
    call("fit", "people.csv", "--save", "m.fwnet")
    new = table.assign(id=[f"p{i}" for i in range(len(table))])
    new.loc[:19, "buys"] = None
    new.to_csv("new.csv", index=False)
    call("predict", "m.fwnet", "new.csv", "--keep", "id,city", "--out", "p.csv")
    found = pandas.read_csv("p.csv")
    assert list(found.columns) == ["id", "city", "buys"]
    assert (found["id"] == new["id"]).all()
    assert found["city"].isna().equals(new["city"].isna())
    answer = json.loads(call("predict", "m.fwnet", "new.csv", "--keep", "id", "--json")[0])
    assert answer["scored_points"] == len(table) - 20
    said = call("predict", "m.fwnet", "new.csv")[1]
    rows = f"{len(table) - 20} of {len(table)} points"
    assert said == f"fwnet: accuracy {answer['accuracy']:.4g} on {rows}.\n"
    assert answer["accuracy"] == pytest.approx((found["buys"] == table["buys"])[20:].mean())
    error = call("predict", "m.fwnet", "new.csv", "--keep", "idd", code=1)[1]
    assert "--keep: new.csv has no column 'idd'" in error


def test_predict_errors() -> None:
    people().to_csv("people.csv", index=False)
    call("fit", "people.csv", "--save", "m.fwnet")
    people().drop(columns="age").to_csv("less.csv", index=False)
    assert "it has no age." in call("predict", "m.fwnet", "less.csv", code=1)[1]
    people().assign(age="old").to_csv("text.csv", index=False)
    error = call("predict", "m.fwnet", "text.csv", code=1)[1]
    assert "column 'age' must hold numbers" in error
    assert "such as 'old'" in error
    assert "'no.fwnet' does not exist." in call("predict", "no.fwnet", "people.csv", code=1)[1]
    whole = Path("m.fwnet").read_bytes()
    Path("m.fwnet").write_bytes(whole[:-3] + b"abc")
    assert "is not a whole fitted model" in call("predict", "m.fwnet", "people.csv", code=1)[1]


def test_arrays_and_sparse_rows_are_saved_too() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    np.savez("points.npz", X=X, y=(X[:, 0] > 0).astype(int))
    call("fit", "points.npz", "--scale", "--save", "m.fwnet")
    np.savez("new.npz", X=X)
    found = json.loads(call("predict", "m.fwnet", "new.npz", "--json")[0])
    assert np.mean((X[:, 0] > 0) == found["predictions"]["prediction"]) > 0.9
    lines = [f"{int(x[0] > 0)} 1:{x[0]} 3:{x[2]}" for x in X]
    Path("rows.svm").write_text("\n".join(lines))
    call("fit", "rows.svm", "--save", "s.fwnet")
    Path("few.svm").write_text("\n".join(line.rpartition(" ")[0] for line in lines))
    assert len(call("predict", "s.fwnet", "few.svm")[0].split()) == 61
    assert "needs a table or a dense array" in call("fit", "rows.svm", "--scale", code=1)[1]


MODELS = {
    "rbf": FWSVC(C=3.0, probability=True),
    "linear": FWSVC(kernel="linear", multi_class="ovo"),
    "regression": FWSVR(gamma=0.2),
    "one class": FWOneClassSVM(),
    "low rank": LowRankSoftmaxClassifier(5.0, max_iter=50),
    "deep": DeepSVC(max_iter=2, random_state=0),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", MODELS)
def test_a_saved_model_answers_as_the_fitted_one(name: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 3))
    y = np.array(["a", "b", "c"])[np.digitize(X[:, 0], [-0.4, 0.4])]
    model = MODELS[name].fit(X, X[:, 0] if name == "regression" else y)
    save_model(model, "m.fwnet")
    again = load_model("m.fwnet")
    new = rng.standard_normal((20, 3))
    np.testing.assert_array_equal(again.predict(new), model.predict(new))
    for method in ("decision_function", "predict_proba"):
        if hasattr(model, method):
            wanted = getattr(model, method)(new)
            # The order in memory differs, and with it the order of sums.
            np.testing.assert_allclose(getattr(again, method)(new), wanted, atol=1e-12)


def test_what_a_file_cannot_hold_is_refused() -> None:
    X, y = np.eye(4), [0, 0, 1, 1]
    with pytest.raises(ValueError, match=r"FWSVC\(kernel=.*only numbers and texts can"):
        save_model(FWSVC(kernel=lambda a, b: a @ b.T).fit(X, y), "m.fwnet")
    with pytest.raises(ValueError, match=r"must be of fwnet\.estimators; got StandardScaler"):
        save_model(StandardScaler().fit(X), "m.fwnet")
    with pytest.raises(ValueError, match="got the steps StandardScaler, FWSVC"):
        save_model(make_pipeline(StandardScaler(), FWSVC()).fit(X, y), "m.fwnet")
