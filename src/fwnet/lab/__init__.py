"""Experiments: the training recipes of the shipped controllers and the paper's evaluation."""
