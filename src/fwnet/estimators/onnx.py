"""to_onnx: fitted classifiers as ONNX graphs, by converters that skl2onnx finds in pipelines.

    f(x) = Σ cᵢ k(xᵢ, x) + b,   or   z = Wᵀx + b

The graph computes in the precision of its input. Distances are measured from the mean of the
support vectors, since rounding errors grow with the norms.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fwnet.estimators.low_rank.classifier import LowRankSoftmaxClassifier
from fwnet.estimators.svm.multiclass import pairs
from fwnet.estimators.svm.svc import FWSVC
from fwnet.estimators.tables import TableEncoder
from fwnet.numerics.optional import optional

_KERNELS = ("linear", "rbf", "poly", "sigmoid")


def to_onnx(model: Any, X: Any, **options: Any) -> Any:
    """An ONNX graph that predicts as a fitted classifier, or a pipeline that ends with one, does.

        (label, scores) = graph(X)

    `scores` are the probabilities of a model that has them, else its decision values, one column a
    class; skl2onnx calls this output `probabilities` in both cases. Needs
    `pip install "fwnet[onnx]"`.

    Arguments:
        model: a fitted `FWSVC` with a kernel of a name, a `LowRankSoftmaxClassifier`, or a
            `Pipeline` of transformers that skl2onnx knows and one of these.
        X: points like those to predict; the graph takes their dtype, float32 or float64.
        options: of `skl2onnx.to_onnx`, such as `target_opset`.

    Example:
        >>> import numpy as np
        >>> from fwnet.estimators import FWSVC, to_onnx
        >>> X, y = np.eye(4), ["a", "a", "b", "b"]
        >>> [output.name for output in to_onnx(FWSVC().fit(X, y), X).graph.output]
        ['label', 'probabilities']
    """
    skl2onnx = optional("skl2onnx", "to_onnx", "onnx")
    register()
    final = model.steps[-1][1] if hasattr(model, "steps") else model
    if not isinstance(final, FWSVC | LowRankSoftmaxClassifier):
        raise TypeError(
            "to_onnx(model) must be a FWSVC, a LowRankSoftmaxClassifier, or a Pipeline that ends "
            f"with one; got {type(final).__name__}."
        )
    if any(isinstance(step, TableEncoder) for _, step in getattr(model, "steps", ())):
        raise TypeError(
            "to_onnx cannot convert a TableEncoder. Encode the table with scikit-learn's "
            "ColumnTransformer, StandardScaler and OneHotEncoder, which skl2onnx knows."
        )
    return skl2onnx.to_onnx(model, X, options={id(final): {"zipmap": False}}, **options)


def register() -> None:
    """Tell skl2onnx how to convert the classifiers of fwnet, also inside its own `to_onnx`."""
    from skl2onnx import update_registered_converter
    from skl2onnx.common.shape_calculator import calculate_linear_classifier_output_shapes

    for kind, scores in ((FWSVC, _svc_scores), (LowRankSoftmaxClassifier, _softmax_scores)):
        update_registered_converter(
            kind,
            f"Fwnet{kind.__name__}",
            calculate_linear_classifier_output_shapes,
            _converter(scores),
            options={"zipmap": [True, False, "columns"], "nocl": [True, False]},
        )


class _Graph:
    """Nodes of one operator, written as functions of arrays and of the names of tensors."""

    def __init__(self, scope: Any, operator: Any, container: Any) -> None:
        from skl2onnx.common.data_types import guess_numpy_type

        self.scope, self.container, self.operator = scope, container, operator
        self.dtype = np.dtype(guess_numpy_type(operator.inputs[0].type))
        if self.dtype not in (np.dtype(np.float32), np.dtype(np.float64)):
            self.dtype = np.dtype(np.float32)
        self.X = self("Cast", operator.inputs[0].full_name, to=self.type)

    @property
    def type(self) -> int:
        """The number of the dtype in ONNX."""
        from onnx import helper

        return int(helper.np_dtype_to_tensor_dtype(self.dtype))

    def constant(self, value: Any) -> str:
        """The name of an array of the graph."""
        from onnx import numpy_helper

        value = np.asarray(value)
        array = value.astype(self.dtype) if value.dtype.kind == "f" else value
        name = str(self.scope.get_unique_variable_name("constant"))
        tensor = numpy_helper.from_array(np.ascontiguousarray(array), name)
        self.container.initializers.append(tensor)
        return name

    def __call__(self, kind: str, *inputs: Any, to_output: str = "", **attributes: Any) -> str:
        """Add a node; its inputs are names of tensors, or arrays."""
        names = [each if isinstance(each, str) else self.constant(each) for each in inputs]
        out = to_output or str(self.scope.get_unique_variable_name(kind.lower()))
        domain = "ai.onnx.ml" if kind == "ArrayFeatureExtractor" else ""
        self.container.add_node(
            kind,
            names,
            [out],
            op_domain=domain,
            op_version=1 if domain else self.container.target_opset,
            name=self.scope.get_unique_operator_name(kind),
            **attributes,
        )
        return out


def _converter(scores: Any) -> Any:
    def convert(scope: Any, operator: Any, container: Any) -> None:
        model, graph = operator.raw_operator, _Graph(scope, operator, container)
        label, second = (output.full_name for output in operator.outputs)
        decisions, shown = scores(model, graph)
        classes = np.asarray(model.classes_)
        if container.is_allowed({"nocl"}) and scope.get_options(model, {"nocl": False})["nocl"]:
            classes = np.arange(len(classes))
        if classes.dtype.kind not in "iubUO":
            raise ValueError(
                f"to_onnx: labels of ONNX are whole numbers or texts; got {classes.dtype}."
            )
        kind = object if classes.dtype.kind in "UO" else np.int64
        best = graph("ArgMax", decisions, axis=1, keepdims=0)
        found = graph("ArrayFeatureExtractor", classes.astype(kind), best)
        graph("Reshape", found, np.array([-1], np.int64), to_output=label)
        graph("Identity", shown, to_output=second)

    return convert


def _two_columns(graph: _Graph, decisions: str) -> str:
    """(−f, f): the scores of two classes; f = 0 belongs to the first, as in `predict`."""
    return graph("Concat", graph("Neg", decisions), decisions, axis=1)


def _svc_scores(model: FWSVC, graph: _Graph) -> tuple[str, str]:
    """The scores whose largest is the class, and the scores that are shown."""
    spec = model._spec
    if spec.name not in _KERNELS:
        raise ValueError(
            f"to_onnx: FWSVC must have a kernel of {', '.join(_KERNELS)}; got {model.kernel!r}, "
            "which ONNX cannot compute."
        )
    if spec.name == "linear":
        sums = graph("MatMul", graph.X, np.asarray(model.coef_.T, float))
    else:
        sums = graph("MatMul", _kernel(model, graph), np.asarray(model.dual_coef_.T, float))
    decisions = graph("Add", sums, model.intercept_)
    classes = len(model.classes_)
    if classes == 2:
        scores = _two_columns(graph, decisions)
    else:
        scores = _votes(graph, decisions, classes) if model._scheme == "ovo" else decisions
    if not hasattr(model, "sigmoids_"):
        return scores, scores
    shown = decisions if classes == 2 else scores
    scaled = graph("Add", graph("Mul", shown, model.sigmoids_[:, 0]), model.sigmoids_[:, 1])
    each = graph("Sigmoid", graph("Neg", scaled))
    if classes == 2:
        return scores, graph("Concat", graph("Sub", np.ones(1), each), each, axis=1)
    total = graph("ReduceSum", each, np.array([1], np.int64), keepdims=1)
    tiny = np.array([np.finfo(graph.dtype).tiny])
    return scores, graph("Div", each, graph("Max", total, tiny))


def _kernel(model: FWSVC, graph: _Graph) -> str:
    """k(x, xᵢ) of the points against the support vectors (n, support)."""
    spec, S = model._spec, model.support_vectors_
    S = np.asarray(S.toarray() if hasattr(S, "toarray") else S)
    if spec.name != "rbf":
        # γ in the matrix: runtimes fuse a product and a factor in float32.
        moved = graph("Add", graph("MatMul", graph.X, spec.gamma * S.T), np.array([spec.coef0]))
        if spec.name == "sigmoid":
            return graph("Tanh", moved)
        return graph("Pow", moved, np.array([float(spec.degree)]))
    centre = S.mean(axis=0)
    X, S = graph("Sub", graph.X, centre), S - centre
    squares = graph("ReduceSum", graph("Mul", X, X), np.array([1], np.int64), keepdims=1)
    products = graph("MatMul", X, -2.0 * S.T)
    distances = graph("Add", graph("Add", products, squares), (S**2).sum(axis=1))
    zero = np.zeros(1)
    return graph("Exp", graph("Mul", graph("Max", distances, zero), np.array([-spec.gamma])))


def _votes(graph: _Graph, decisions: str, classes: int) -> str:
    """`multiclass.votes` as matrix products: won + c/(3(|c| + 1))."""
    duels = np.array(pairs(classes))
    first, second = np.eye(classes)[duels.T]  # (pairs, classes) each
    win = graph("Cast", graph("Greater", decisions, np.zeros(1)), to=graph.type)
    lose = graph("Sub", np.ones(1), win)
    won = graph("Add", graph("MatMul", win, first), graph("MatMul", lose, second))
    c = graph("MatMul", decisions, first - second)
    below = graph("Mul", graph("Add", graph("Abs", c), np.ones(1)), np.array([3.0]))
    return graph("Add", won, graph("Div", c, below))


def _softmax_scores(model: LowRankSoftmaxClassifier, graph: _Graph) -> tuple[str, str]:
    """The logits Z = XW + b by the factors of W, and their softmax."""
    U, s, V = model.U_, model.s_, model.V_
    rows = model.n_features_in_
    low = graph("MatMul", graph.X, np.asarray(U[:rows] * s, float))
    logits = graph("MatMul", low, np.asarray(V.T, float))
    if len(U) > rows:
        logits = graph("Add", logits, np.asarray((U[rows] * s) @ V.T, float))
    return logits, graph("Softmax", logits, axis=1)
