"""fit and predict: estimators with scikit-learn's manners."""

from fwnet.estimators.svc import FWSVC

__all__ = ["FWSVC"]
