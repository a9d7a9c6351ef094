"""fit and predict: estimators with scikit-learn's manners."""

from fwnet.estimators.deep_svc import DeepSVC

__all__ = ["DeepSVC"]
