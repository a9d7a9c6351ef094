"""Steps of a solve in machine code (Numba)."""
