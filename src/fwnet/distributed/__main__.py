"""`torchrun -m fwnet.distributed fit …` is `fwnet distributed fit …` on every worker."""

import sys

from fwnet.cli import run

if __name__ == "__main__":
    sys.exit(run(["distributed", *sys.argv[1:]]))
