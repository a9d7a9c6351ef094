"""fit and predict: estimators that follow scikit-learn's conventions.

Each is imported when it is first asked for: the low-rank solvers below do not need scikit-learn.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fwnet.estimators.deep.svc import DeepSVC
    from fwnet.estimators.low_rank.classifier import LowRankSoftmaxClassifier
    from fwnet.estimators.low_rank.classifier_cv import LowRankSoftmaxClassifierCV
    from fwnet.estimators.low_rank.completer import LowRankCompletion
    from fwnet.estimators.low_rank.regressor import LowRankRegressor
    from fwnet.estimators.model_files import load_model, save_model
    from fwnet.estimators.onnx import to_onnx
    from fwnet.estimators.svm.one_class import FWOneClassSVM
    from fwnet.estimators.svm.svc import FWSVC
    from fwnet.estimators.svm.svr import FWSVR
    from fwnet.estimators.tables import TableEncoder

_MODULES = {
    "DeepSVC": "deep.svc",
    "FWOneClassSVM": "svm.one_class",
    "FWSVC": "svm.svc",
    "FWSVR": "svm.svr",
    "LowRankCompletion": "low_rank.completer",
    "LowRankRegressor": "low_rank.regressor",
    "LowRankSoftmaxClassifier": "low_rank.classifier",
    "LowRankSoftmaxClassifierCV": "low_rank.classifier_cv",
    "TableEncoder": "tables",
    "load_model": "model_files",
    "save_model": "model_files",
    "to_onnx": "onnx",
}

__all__ = [
    "FWSVC",
    "FWSVR",
    "DeepSVC",
    "FWOneClassSVM",
    "LowRankCompletion",
    "LowRankRegressor",
    "LowRankSoftmaxClassifier",
    "LowRankSoftmaxClassifierCV",
    "TableEncoder",
    "load_model",
    "save_model",
    "to_onnx",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    except ModuleNotFoundError as error:
        missing = str(error.name).split(".")[0]
        if missing not in ("scipy", "sklearn"):
            raise
        raise ImportError(
            f'fwnet.estimators needs {missing}. Install it with: pip install "fwnet[svm]"'
        ) from None


def __dir__() -> list[str]:
    return sorted(__all__)
