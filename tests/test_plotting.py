"""Plots: what is drawn, and errors for what cannot be."""

import matplotlib as mpl
import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC

from fwnet.plotting import plot_comparison, plot_decision_boundary

mpl.use("Agg")


@pytest.fixture(autouse=True)
def _close():
    yield
    from matplotlib import pyplot

    pyplot.close("all")


def levels(ax) -> list[float]:
    """The levels of the lines that were drawn."""
    sets = [c for c in ax.collections if hasattr(c, "levels") and not c.filled]
    return sorted(float(level) for c in sets for level in c.levels)


def test_two_classes_have_margins_and_rings():
    X, y = make_blobs(60, centers=[[-2, 0], [2, 0]], random_state=0)
    clf = SVC(kernel="linear", C=1.0).fit(X, y)
    ax = plot_decision_boundary(clf, X, y, resolution=80)
    assert levels(ax) == [-1.0, 0.0, 1.0]
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["0", "1", f"{len(clf.support_)} support vectors"]
    rings = ax.collections[-1].get_offsets()
    np.testing.assert_allclose(rings, X[clf.support_])
    # The solid line is where the decision is 0.
    line = next(c for c in ax.collections if hasattr(c, "levels") and list(c.levels) == [0.0])
    on_it = line.get_paths()[0].vertices
    assert np.abs(clf.decision_function(on_it)).max() < 0.05
    plain = plot_decision_boundary(clf, X, y, support=False, resolution=20)
    assert len(plain.get_legend().get_texts()) == 2


def test_several_classes_and_names():
    X, y = make_blobs(60, centers=3, random_state=1)
    names = np.array(["a", "b", "c"])[y]
    _, ax = mpl.pyplot.subplots()
    clf = LogisticRegression().fit(X, names)
    assert plot_decision_boundary(clf, X, names, ax, resolution=40) is ax
    assert levels(ax) == [0.5, 0.5, 0.5]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["a", "b", "c"]


def test_what_cannot_be_drawn_raises_a_clear_error():
    X, y = make_blobs(20, centers=2, random_state=0)
    clf = SVC(kernel="linear").fit(X, y)
    with pytest.raises(ValueError, match=r"points in the plane, shape \(n, 2\); got \(20, 3\)"):
        plot_decision_boundary(clf, np.ones((20, 3)), y)
    with pytest.raises(ValueError, match=r"one class per point, shape \(20,\); got \(19,\)"):
        plot_decision_boundary(clf, X, y[1:])
    with pytest.raises(TypeError, match=r"must be fitted and have a decision_function; got SVC"):
        plot_decision_boundary(SVC(), X, y)
    with pytest.raises(ValueError, match=r"names row \d+ of X, which has 2 rows"):
        plot_decision_boundary(clf, X[:2], y[:2])
    with pytest.raises(ValueError, match="resolution must be at least 2; got 1"):
        plot_decision_boundary(clf, X, y, resolution=1)


def test_a_comparison_has_few_colours():
    """The learned method and the four best others; the rest is grey, under one label."""
    grid = np.array([1.0, 10.0, 100.0])
    finals = {"ours": 1e-6} | {f"method {k}": 10.0 ** (k - 7) for k in range(10)}
    curves = {name: np.array([[1.0, 0.1, final]]) for name, final in finals.items()}
    profiles = {name: (grid, np.array([0.0, 0.0, 1.0])) for name in curves}
    figure = plot_comparison(grid, curves, profiles, {"ours"}, 1e-3)
    lines = {line.get_label(): line.get_color() for line in figure.axes[0].lines}
    coloured = {name: color for name, color in lines.items() if str(color).startswith("C")}
    assert set(coloured) == {"ours", "method 0", "method 1", "method 2", "method 3"}
    assert len(set(coloured.values())) == 5
    assert lines["the 6 others"] == "0.75"
