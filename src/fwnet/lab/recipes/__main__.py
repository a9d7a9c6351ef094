"""`python -m fwnet.lab.recipes [names]`: train the shipped controllers anew."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from fwnet import learned
from fwnet.lab.recipes import RECIPES


def main() -> None:
    """Follow all recipes, or those that are named; print the files."""
    parser = argparse.ArgumentParser(description="Train the shipped controllers.")
    parser.add_argument("names", nargs="*", default=list(RECIPES), help=", ".join(RECIPES))
    parser.add_argument("--out", type=Path, default=Path(learned.__file__).parent / "shipped")
    parser.add_argument("--seed", type=int, help="by default that of the shipped training")
    parser.add_argument("--judge", action="store_true", help="compute the card's numbers, no more")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in RECIPES]
    if unknown:
        raise SystemExit(f"no recipe {unknown[0]!r}; there are {', '.join(RECIPES)}.")
    if arguments.judge:
        for name in arguments.names:
            print(name, json.dumps(RECIPES[name].judge(learned.load(name))), flush=True)
        return
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name in arguments.names:
        print(RECIPES[name].follow(name, arguments.out, arguments.seed), flush=True)


if __name__ == "__main__":
    main()
