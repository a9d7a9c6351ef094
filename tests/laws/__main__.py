"""Run the laws for long: python -m tests.laws --cases 20000 --minutes 60 --seed 0.

Every case has a number; `--replay LAW:NUMBER` runs it again.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # the tests import each other from there

from laws.running import main

if __name__ == "__main__":
    sys.exit(main())
