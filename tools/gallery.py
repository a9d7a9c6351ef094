"""python tools/gallery.py [NAME ...]: the gallery's pictures and outputs, from the examples.

Runs examples/NAME.py, or all of them one after the other, and writes what each draws and prints to
docs/images/gallery/NAME.png and NAME.txt. The examples of images and graphs read the folder
FWNET_DATA.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "images" / "gallery"


def main() -> None:
    names = sys.argv[1:] or sorted(path.stem for path in (ROOT / "examples").glob("*.py"))
    for name in names:
        picture = FOLDER / f"{name}.png"
        command = [sys.executable, f"examples/{name}.py", "--plot", str(picture)]
        quiet = os.environ | {"MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, cwd=ROOT, env=quiet, check=True, stdout=subprocess.PIPE)
        printed, _, _ = done.stdout.decode().partition("\n\nfigure: ")
        (FOLDER / f"{name}.txt").write_text(printed.rstrip("\n") + "\n", encoding="utf-8")
        print(name)


if __name__ == "__main__":
    main()
