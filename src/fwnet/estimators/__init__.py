"""fit and predict: estimators with scikit-learn's manners."""

from fwnet.estimators.deep_svc import DeepSVC
from fwnet.estimators.one_class import FWOneClassSVM
from fwnet.estimators.svc import FWSVC
from fwnet.estimators.svr import FWSVR

__all__ = ["FWSVC", "FWSVR", "DeepSVC", "FWOneClassSVM"]
