"""Benchmarks on the trace-norm ball. A module with a list CASES joins by being in this folder."""
