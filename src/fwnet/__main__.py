"""`python -m fwnet` is the command `fwnet`."""

from fwnet.cli import main

if __name__ == "__main__":
    main()
