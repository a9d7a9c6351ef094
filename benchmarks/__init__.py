"""Interleaved timings of fwnet and its peers: `python -m benchmarks` from the repository's root.

Threads are fixed to one here, before NumPy or torch loads its libraries: later is too late.
"""

import os

THREADS = 1
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"):
    os.environ[_name] = str(THREADS)
