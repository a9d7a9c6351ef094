"""Learned optimizers against hand-designed ones."""
