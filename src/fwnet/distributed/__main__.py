"""`torchrun -m fwnet.distributed fit …` and `python -m fwnet.distributed shard …`."""

import sys

from fwnet.distributed.command import main

if __name__ == "__main__":
    sys.exit(main())
