"""Frank-Wolfe networks: projection-free constrained optimisation for PyTorch."""

__version__ = "0.1.0"
