"""Sparse FWNets: the trace-norm ball, constrained optimizers, many processes."""
