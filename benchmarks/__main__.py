"""python -m benchmarks [case ...] [--repeats N] [--json FILE] [--list]"""

import sys
from datetime import datetime

from benchmarks.cases import CASES
from benchmarks.command import RESULTS, run

if __name__ == "__main__":
    sys.exit(run("python -m benchmarks", CASES, RESULTS / f"{datetime.now():%Y-%m-%d_%H%M%S}.json"))
