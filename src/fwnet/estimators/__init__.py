"""fit and predict: estimators with scikit-learn's manners."""
