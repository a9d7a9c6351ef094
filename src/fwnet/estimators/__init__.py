"""fit and predict: estimators with scikit-learn's manners."""

try:
    from fwnet.estimators.deep.svc import DeepSVC
    from fwnet.estimators.low_rank.classifier import LowRankSoftmaxClassifier
    from fwnet.estimators.low_rank.classifier_cv import LowRankSoftmaxClassifierCV
    from fwnet.estimators.low_rank.completer import LowRankCompletion
    from fwnet.estimators.low_rank.regressor import LowRankRegressor
    from fwnet.estimators.svm.one_class import FWOneClassSVM
    from fwnet.estimators.svm.svc import FWSVC
    from fwnet.estimators.svm.svr import FWSVR
except ModuleNotFoundError as error:
    missing = str(error.name).split(".")[0]
    if missing not in ("numba", "scipy", "sklearn"):
        raise
    raise ImportError(
        f'fwnet.estimators needs {missing}. Install it with: pip install "fwnet[svm]"'
    ) from None

__all__ = [
    "FWSVC",
    "FWSVR",
    "DeepSVC",
    "FWOneClassSVM",
    "LowRankCompletion",
    "LowRankRegressor",
    "LowRankSoftmaxClassifier",
    "LowRankSoftmaxClassifierCV",
]
