"""`torchrun -m fwnet.distributed fit …` and `python -m fwnet.distributed shard …`."""

import sys

from fwnet.estimators.low_rank.distributed.command import main

if __name__ == "__main__":
    sys.exit(main())
