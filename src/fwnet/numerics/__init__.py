"""Numerics without Frank-Wolfe in them: checks, files, linear maps, singular values."""
