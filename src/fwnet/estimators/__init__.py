"""fit and predict: estimators with scikit-learn's manners."""

from fwnet.estimators.deep_svc import DeepSVC
from fwnet.estimators.low_rank_softmax import LowRankSoftmaxClassifier
from fwnet.estimators.svc import FWSVC

__all__ = ["FWSVC", "DeepSVC", "LowRankSoftmaxClassifier"]
