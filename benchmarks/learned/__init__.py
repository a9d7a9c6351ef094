"""Learned optimizers against tuned hand-designed ones, target by target."""
