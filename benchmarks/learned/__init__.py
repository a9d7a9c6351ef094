"""Learned optimizers against tuned hand-designed ones, bar by bar."""
