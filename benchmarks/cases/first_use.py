"""Processor time of the first call on a machine: fresh process, empty folder of machine code.

What the second call in the same process takes is left out: the rest is compilation, and imports
that the call makes by itself. The imports of the first line of each program are not timed.
"""

import json
import os
import subprocess
import sys
import tempfile

from benchmarks.harness import Case, Row, figure

TARGET = 3.0
_POINTS = """
import numpy as np
X, y = np.random.default_rng(0).normal(size=(600, 20)), np.arange(600) % 2
"""
_SQUARES = """
import torch
A, b = torch.ones(20, 50, dtype=torch.float64) + torch.eye(20, 50), torch.arange(20.0).double()
problem, start = fwnet.LeastSquares(A, b), torch.zeros(50, dtype=torch.float64)
"""
_KERNEL = """
import torch
Q = torch.eye(40, dtype=torch.float64) + torch.ones(40, 40, dtype=torch.float64)
Qs, cs = Q.expand(4, 40, 40).clone(), torch.zeros(4, 40, dtype=torch.float64)
"""
PROGRAMS = {  # what: imports, preparation, call
    "FWSVC": ("from fwnet.estimators import FWSVC", _POINTS, "FWSVC().fit(X, y)"),
    "FWSVC on pixels": (
        "from fwnet.estimators import FWSVC",
        _POINTS + "X = np.random.default_rng(0).integers(0, 256, (600, 64)) / 255",
        "FWSVC().fit(X, y)",
    ),
    "FWSVC, linear": (
        "from fwnet.estimators import FWSVC",
        _POINTS,
        "FWSVC(kernel='linear').fit(X, y)",
    ),
    "FWSVC, linear, many features": (
        "from fwnet.estimators import FWSVC",
        _POINTS + "X = np.random.default_rng(0).normal(size=(600, 300))",
        "FWSVC(kernel='linear').fit(X, y)",
    ),
    "FWSVR": ("from fwnet.estimators import FWSVR", _POINTS, "FWSVR().fit(X, X[:, 0])"),
    "FWOneClassSVM": (
        "from fwnet.estimators import FWOneClassSVM",
        _POINTS,
        "FWOneClassSVM().fit(X)",
    ),
    "LowRankSoftmaxClassifier": (
        "from fwnet.estimators import LowRankSoftmaxClassifier",
        _POINTS,
        "LowRankSoftmaxClassifier(radius=5.0).fit(X, y)",
    ),
    "PairwiseFrankWolfe, l1 ball": (
        "import fwnet",
        _SQUARES,
        "fwnet.PairwiseFrankWolfe(fwnet.L1Ball(5.0), fwnet.LineSearch())(problem, start)",
    ),
    "PairwiseFrankWolfe, simplex": (
        "import fwnet",
        _SQUARES + "start[0] = 1.0",
        "fwnet.PairwiseFrankWolfe(fwnet.Simplex(), fwnet.LineSearch())(problem, start)",
    ),
    "minimize": (
        "import fwnet",
        _SQUARES,
        "fwnet.minimize(lambda x: (x - 1).square().sum(), fwnet.Simplex(), start + 0.02)",
    ),
    "SimplexQP": (
        "from fwnet.layers import SimplexQP",
        _KERNEL,
        "SimplexQP()(Qs, cs)",
    ),
    "SVMLayer": (
        "from fwnet.layers import SVMLayer",
        "import torch\nZ, labels = torch.eye(25)[None], torch.arange(25)[None] % 5",
        "SVMLayer()(Z, labels, Z)",
    ),
    "learned simplex-qp": (
        "import fwnet; from fwnet import learned",
        _KERNEL,
        "learned.load('simplex-qp').solver(fwnet.Simplex(), max_steps=50)(fwnet.Quadratic(Q))",
    ),
    "quadrature": (
        "from fwnet import quadrature",
        _POINTS,
        "quadrature.coreset(X, 20)",
    ),
}
_PROGRAM = """
import json, time
{imports}
{preparation}
def call():
    began = time.process_time()
    {call}
    return time.process_time() - began
print(json.dumps([call(), call()]))
"""


def run(repeats: int) -> list[Row]:
    """One fresh process each, whatever `repeats` is: a repeat would compile the same again."""
    rows = []
    for what in PROGRAMS:
        first, second = measure(what)
        rows.append(figure(what, [first - second], "s", TARGET, f"the second call: {second:.3f} s"))
    return rows


def measure(what: str) -> tuple[float, float]:
    """Seconds of the first and of the second call."""
    imports, preparation, call = PROGRAMS[what]
    program = _PROGRAM.format(imports=imports, preparation=preparation, call=call)
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", program],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "NUMBA_CACHE_DIR": folder},
        )
    if done.returncode:
        raise RuntimeError(f"{what} failed:\n{done.stderr}")
    first, second = json.loads(done.stdout.splitlines()[-1])
    return first, second


CASE = Case("first-use", "processor time of the first call, beyond the second", run)
