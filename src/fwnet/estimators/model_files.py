"""Fitted estimators in files that are read without running code of theirs.

A file holds the class and the parameters of the estimator, its fitted arrays, and the columns of
the table that it was fitted to; `numerics.files` seals it with a hash.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import sparse
from sklearn.pipeline import Pipeline
from torch import nn

import fwnet
from fwnet import estimators
from fwnet.estimators.deep.modules import default_module
from fwnet.estimators.svm.kernels import KernelSpec
from fwnet.numerics.files import FileFormat, ForeignFile

MODEL = FileFormat("fwnet_model", 1, "fitted model", "Fit it again, with `fwnet fit --save`.")
_TABLE, _ESTIMATOR = "table", "estimator"  # steps of a pipeline
_CSR = ("data", "indices", "indptr")


def save_model(
    model: Any, path: str | os.PathLike[str], notes: Mapping[str, Any] | None = None
) -> None:
    """Write a fitted estimator, or a Pipeline of a `TableEncoder` and one, to a file.

    Of a search, such as `GridSearchCV`, the best estimator is written.

    Arguments:
        model: of `fwnet.estimators`, with plain parameters: no functions and no networks of your
            own, which a file cannot hold; use joblib for those. Random generators stay behind.
        path: of the file, by convention with the suffix .fwnet.
        notes: what JSON can express, such as the name of the target.

    Example:
        >>> import tempfile, numpy as np
        >>> from fwnet.estimators import FWSVC, load_model, save_model
        >>> X, y = np.eye(4), ["a", "a", "b", "b"]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_model(FWSVC().fit(X, y), f"{folder}/model.fwnet")
        ...     load_model(f"{folder}/model.fwnet").predict(X).tolist()
        ['a', 'a', 'b', 'b']
    """
    tensors: dict[str, torch.Tensor] = {}
    facts: dict[str, Any] = {"notes": dict(notes or {}), "version": fwnet.__version__}
    model = getattr(model, "best_estimator_", model)  # of a search
    steps = [part for _, part in model.steps] if isinstance(model, Pipeline) else [model]
    parts = dict(zip((_ESTIMATOR, _TABLE), reversed(steps), strict=False))
    if steps[:-1] and (len(steps) > 2 or not isinstance(steps[0], estimators.TableEncoder)):
        raise ValueError(
            "save_model(model) must be an estimator, or a Pipeline of a TableEncoder and one; got "
            f"the steps {', '.join(type(part).__name__ for part in steps)}. joblib.dump writes any "
            "Pipeline, as a file that runs code when it is read."
        )
    for name, part in parts.items():
        part = getattr(part, "best_estimator_", part)  # of a search inside a Pipeline
        if not isinstance(part, _class(type(part).__name__)):
            raise ValueError(
                f"save_model(model) must be of fwnet.estimators; got {type(part).__name__}."
            )
        facts[name] = {"class": type(part).__name__, "parameters": _parameters(part)}
        facts[name]["fitted"] = _fitted(part, f"{name}.", tensors)
    MODEL.write(Path(path), facts, tensors)


def load_model(path: str | os.PathLike[str]) -> Any:
    """The fitted estimator, or the Pipeline, that `save_model` wrote.

    Arguments:
        path: of the file.

    Example:
        >>> import os, tempfile
        >>> from sklearn.datasets import load_iris
        >>> from fwnet.estimators import FWSVC, load_model, save_model
        >>> X, y = load_iris(return_X_y=True)
        >>> path = os.path.join(tempfile.mkdtemp(), "iris.fwnet")
        >>> save_model(FWSVC(kernel="linear").fit(X, y), path)
        >>> load_model(path).predict(X[:3])
        array([0, 0, 0])
    """
    return read_model(path)[0]


def read_model(path: str | os.PathLike[str]) -> tuple[Any, dict[str, Any]]:
    """What `load_model` returns, and the notes beside it."""
    facts, tensors = MODEL.read(Path(path))
    try:
        parts = {
            name: _rebuilt(facts[name], f"{name}.", tensors)
            for name in (_TABLE, _ESTIMATOR)
            if name in facts
        }
        model = Pipeline(list(parts.items())) if _TABLE in parts else parts[_ESTIMATOR]
        return model, dict(facts["notes"])
    except (KeyError, TypeError, AttributeError) as error:
        raise ForeignFile(
            f"{str(path)!r} holds a model that this fwnet cannot read ({error}); it was written by "
            f"fwnet {facts.get('version')}. {MODEL.advice}"
        ) from None


def _class(name: str) -> Any:
    """The estimator of a name; an empty tuple for other names, which nothing is an instance of."""
    found = getattr(estimators, name) if name in estimators.__all__ else None
    return found if isinstance(found, type) else ()


def _parameters(part: Any) -> dict[str, Any]:
    """The parameters that a file can hold; the others must have their defaults."""
    defaults = type(part)().get_params()
    found = {}
    for name, value in part.get_params().items():
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, dict):  # a list of pairs, since keys of JSON are texts
            value = {"pairs": [[np.asarray(x).item() for x in pair] for pair in value.items()]}
        if value is None or isinstance(value, bool | int | float | str | tuple | list | dict):
            found[name] = value
        elif value is not defaults[name] and name != "random_state":
            raise ValueError(
                f"{type(part).__name__}({name}={value!r}) cannot be written to a file that is read "
                "without running code; only numbers and texts can. Use joblib.dump instead."
            )
    return found


def _fitted(part: Any, prefix: str, tensors: dict[str, torch.Tensor]) -> dict[str, Any]:
    """The fitted attributes as facts; arrays go to the tensors. Traces stay behind."""
    parameters = part.get_params()
    facts = {
        name: _array_fact(prefix + name, value, tensors) or _plain_fact(name, value)
        for name, value in vars(part).items()
        if name not in parameters
    }
    return {name: fact for name, fact in facts.items() if fact is not None}


def _array_fact(name: str, value: Any, tensors: dict[str, torch.Tensor]) -> Any:
    """How numbers are kept: a dense or sparse array, or a network; None for anything else."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        tensors[name] = torch.from_numpy(np.ascontiguousarray(value))
        return "array"
    if sparse.issparse(value):
        rows = value.tocsr()
        tensors.update({f"{name}.{key}": torch.from_numpy(getattr(rows, key)) for key in _CSR})
        return {"sparse": list(rows.shape)}
    if isinstance(value, nn.Module):
        tensors.update({f"{name}.{key}": each for key, each in value.state_dict().items()})
        return "network"
    return None


def _plain_fact(name: str, value: Any) -> Any:
    """How a text, a kernel or a number is kept; None for what stays behind."""
    if isinstance(value, np.ndarray):  # of texts or objects, or of dates
        entries = value.view(np.int64) if value.dtype.kind in "mM" else value
        return {"entries": entries.tolist(), "type": value.dtype.str}
    if isinstance(value, KernelSpec):
        return {"kernel": asdict(value)}
    names = isinstance(value, list) and name in ("numbers_", "texts_", "values_")
    if names or value is None or isinstance(value, bool | int | float | str | tuple):
        return {"plain": value, "tuple": isinstance(value, tuple)}
    return None


def _rebuilt(facts: dict[str, Any], prefix: str, tensors: dict[str, torch.Tensor]) -> Any:
    given = facts["parameters"].items()
    parameters = {k: dict(v["pairs"]) if isinstance(v, dict) else v for k, v in given}
    part = _class(facts["class"])(**parameters)
    for name, value in facts["fitted"].items():
        whole = prefix + name
        found: Any
        if value == "array":
            found = tensors[whole].numpy()
        elif value == "network":
            found = _network(whole + ".", tensors)
        elif "entries" in value:
            found = np.array(value["entries"], dtype=value["type"])
        elif "sparse" in value:
            pieces = tuple(tensors[f"{whole}.{key}"].numpy() for key in _CSR)
            found = sparse.csr_matrix(pieces, shape=value["sparse"])
        elif "kernel" in value:
            found = KernelSpec(**value["kernel"])
        else:
            found = tuple(value["plain"]) if value["tuple"] else value["plain"]
        setattr(part, name, found)
    return part


def _network(prefix: str, tensors: dict[str, torch.Tensor]) -> nn.Module:
    """The default network of DeepSVC with its weights."""
    weights = {key[len(prefix) :]: each for key, each in tensors.items() if key.startswith(prefix)}
    points = torch.zeros(1, weights["0.mean"].shape[0], dtype=torch.float64)
    network = default_module(points, torch.ones(1, dtype=torch.float64))
    network.load_state_dict(weights)
    return network.eval()
