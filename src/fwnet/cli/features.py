"""`fwnet features`: features of images from the user's network."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from fwnet.cli.errors import Failed
from fwnet.cli.output import AsJson, check_target, facts_table, show, write_arrays


def features(
    data: Annotated[str, typer.Argument(help="A data set of images: digits, mnist, cifar10, …")],
    model: Annotated[
        str, typer.Option(help="An ONNX file, a TorchScript file, or module:factory.")
    ],
    out: Annotated[Path, typer.Option(help="Write the features to this NPZ file.")],
    size: Annotated[
        int | None, typer.Option(min=1, help="Resize images to this side; grey becomes RGB.")
    ] = None,
    shift: Annotated[
        float, typer.Option(help="Pixels x in [0, 1] become (x − shift) / scale.")
    ] = 0.0,
    scale: Annotated[float, typer.Option(help="See --shift.")] = 1.0,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Use only this many images, the first ones.")
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Images per batch.")] = 64,
    as_json: AsJson = False,
) -> None:
    """Extract features of every image with a network of your own.

    Writes train_x, train_y, test_x and test_y, which `fwnet fit` and the experiments read.

    Examples:

        fwnet features cifar10 --model inception.onnx --size 299 --shift 0.5 --scale 0.5 --out f.npz

        fwnet features digits --model my_networks:small --out digits.npz
    """
    import numpy as np

    from fwnet.data import load
    from fwnet.data.features import extract_features, onnx_extractor, torch_extractor

    check_target("--out", out, ".npz")
    if scale == 0:
        raise typer.BadParameter("--scale must not be 0.")
    dataset = load(data)
    if not isinstance(dataset.x, np.ndarray) or dataset.x.ndim != 4:
        raise Failed(f"{data} does not hold images.")
    sys.path.insert(0, os.getcwd())  # module:factory may be here; the installed script omits it
    extractor = onnx_extractor(Path(model)) if model.endswith(".onnx") else torch_extractor(model)
    arrays: dict[str, np.ndarray] = {}
    for part in ("train", "test"):
        x, y = (dataset.train if part == "train" else dataset.test)(slice(limit))
        with typer.progressbar(length=len(x), label=part, file=sys.stderr) as bar:
            done = 0

            def advance(count: int) -> None:
                nonlocal done
                bar.update(count - done)
                done = count

            arrays[f"{part}_x"] = extract_features(
                extractor,
                (x - np.float32(shift)) / np.float32(scale),
                size=size,
                batch_size=batch_size,
                on_batch=advance,
            )
        arrays[f"{part}_y"] = y
    write_arrays("--out", out, **arrays)
    facts = {name: list(array.shape) for name, array in arrays.items()}
    shapes = {name: " × ".join(map(str, shape)) for name, shape in facts.items()}
    show({"file": out.as_posix(), **facts}, as_json, facts_table(str(out), shapes))
