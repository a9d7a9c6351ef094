"""python tools/notebooks.py [--write] [NAME ...]: runs the notebooks."""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[1] / "notebooks"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="without .ipynb; all by default")
    parser.add_argument("--write", action="store_true", help="keep the outputs in the files")
    options = parser.parse_args()
    for name in options.names or sorted(path.stem for path in FOLDER.glob("*.ipynb")):
        path = FOLDER / f"{name}.ipynb"
        notebook = nbformat.read(path, as_version=4)
        began = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:  # where the notebook writes its files
            client = NotebookClient(
                notebook, timeout=1800, resources={"metadata": {"path": folder}}
            )
            client.execute()
        print(f"{name}: {time.perf_counter() - began:.0f} s")
        if options.write:
            for cell in notebook.cells:
                cell.get("metadata", {}).clear()
            notebook.metadata.pop("language_info", None)
            nbformat.write(notebook, path)


if __name__ == "__main__":
    main()
