"""`fwnet features`: features of images from the user's network."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from fwnet.cli.errors import Failed, command
from fwnet.cli.output import FILE, as_json, check_target, facts_table, show, write_arrays


@command("features")
@click.argument("data", help="A data set of images: digits, mnist, cifar10, …")
@click.option("--model", required=True, help="An ONNX file, a TorchScript file, or module:factory.")
@click.option("--out", type=FILE, required=True, help="Write the features to this NPZ file.")
@click.option(
    "--size", type=click.IntRange(min=1), help="Resize images to this side; grey becomes RGB."
)
@click.option("--shift", default=0.0, help="Pixels x in [0, 1] become (x − shift) / scale.")
@click.option("--scale", default=1.0, help="See --shift.")
@click.option(
    "--limit", type=click.IntRange(min=1), help="Use only this many images, the first ones."
)
@click.option("--batch-size", type=click.IntRange(min=1), default=64, help="Images per batch.")
@as_json
def features(
    data: str,
    model: str,
    out: Path,
    size: int | None,
    shift: float,
    scale: float,
    limit: int | None,
    batch_size: int,
    as_json: bool,
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
        raise click.BadParameter("--scale must not be 0.")
    dataset = load(data)
    if not isinstance(dataset.x, np.ndarray) or dataset.x.ndim != 4:
        raise Failed(f"{data} does not hold images.")
    sys.path.insert(0, os.getcwd())  # module:factory may be here; the installed script omits it
    extractor = onnx_extractor(Path(model)) if model.endswith(".onnx") else torch_extractor(model)
    arrays: dict[str, np.ndarray] = {}
    for part in ("train", "test"):
        x, y = (dataset.train if part == "train" else dataset.test)(slice(limit))
        with click.progressbar(length=len(x), label=part, file=sys.stderr) as bar:
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
