"""scikit-learn's manners: fit, predict, score."""

from fwnet.estimators.deep_svc import DeepSVC
from fwnet.estimators.low_rank_softmax import LowRankSoftmaxClassifier
from fwnet.estimators.one_class import FWOneClassSVM
from fwnet.estimators.svc import FWSVC
from fwnet.estimators.svr import FWSVR

__all__ = ["FWSVC", "FWSVR", "DeepSVC", "FWOneClassSVM", "LowRankSoftmaxClassifier"]
