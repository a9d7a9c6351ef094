"""Differentiable simplex QPs against other differentiable QP layers."""
