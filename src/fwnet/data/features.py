"""Features of images from the user's network: an ONNX file or a torch module."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fwnet.numerics import checks
from fwnet.numerics.optional import optional

Extractor = Callable[[np.ndarray], np.ndarray]  # (n, channels, rows, columns) to (n, d)


def extract_features(
    extractor: Extractor,
    images: np.ndarray,  # (n, channels, rows, columns), float32
    *,
    size: int | None = None,
    batch_size: int = 64,
    on_batch: Callable[[int], object] = lambda done: None,
) -> np.ndarray:  # (n, d)
    """Features h(x) of every image, in batches.

    Arguments:
        extractor: from `onnx_extractor` or `torch_extractor`, or any function of a batch.
        images: float32; pixels as the network expects them.
        size: resize to size × size first, bilinear; one channel becomes three.
        batch_size: images per batch.
        on_batch: called with the number of images done.

    Example:
        >>> images = np.ones((3, 1, 2, 2), dtype=np.float32)
        >>> extract_features(lambda x: x.mean((2, 3)), images)
        array([[1.],
               [1.],
               [1.]], dtype=float32)
    """
    checks.a_function("extractor", extractor)
    images = np.asarray(images)
    if images.ndim != 4 or len(images) == 0:
        raise ValueError(
            "images must have shape (n, channels, rows, columns) with n at least 1; "
            f"got {images.shape}."
        )
    checks.at_least("batch_size", batch_size, 1)
    if size is not None:
        checks.at_least("size", size, 1)
        if images.shape[1] not in (1, 3):
            raise ValueError(
                f"size=... takes images of one or three channels; got {images.shape[1]}, in "
                f"images of shape {images.shape}."
            )
    parts = []
    for start, batch in _batches(images, batch_size):
        features = np.asarray(extractor(_resized(batch, size)))
        if features.shape[:1] != batch.shape[:1]:
            raise ValueError(
                f"the network gave {features.shape} for {len(batch)} images; it must give a row "
                "for each."
            )
        if not np.isfinite(features).all():
            raise ValueError(
                f"the network returned features that are not finite, at image {start}."
            )
        parts.append(features.reshape(len(batch), -1).astype(np.float32))
        on_batch(start + len(batch))
    return np.concatenate(parts)


def onnx_extractor(path: Path) -> Extractor:
    """The first output of an ONNX file, through onnxruntime."""
    onnxruntime = optional("onnxruntime", "an ONNX file", "onnx")
    if not path.is_file():
        raise ValueError(f"there is no file {path}.")
    try:
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's errors share no other base
        raise ValueError(f"{path} cannot be run as an ONNX file: {error}") from None
    (name, *others) = [entry.name for entry in session.get_inputs()]
    if others:
        raise ValueError(f"{path} has {1 + len(others)} inputs; it must have one, the images.")

    wanted = session.get_inputs()[0].shape
    fixed = wanted[0] if wanted and isinstance(wanted[0], int) else None  # exported for one batch

    def answer(batch: np.ndarray) -> np.ndarray:
        try:
            return np.asarray(session.run(None, {name: batch})[0])
        except Exception as error:
            raise ValueError(
                f"{path} expects an input of shape {wanted}; got {batch.shape}. See --size. {error}"
            ) from None

    def extract(batch: np.ndarray) -> np.ndarray:
        if fixed is None:
            return answer(batch)
        rows = [answer(_filled(part, fixed))[: len(part)] for _, part in _batches(batch, fixed)]
        return np.concatenate(rows)

    return extract


def torch_extractor(source: str) -> Extractor:
    """A TorchScript file, or `module:factory`, a function without arguments that makes a module."""
    module = _script(Path(source)) if Path(source).is_file() else _made(source)
    module.eval()

    def extract(batch: np.ndarray) -> np.ndarray:
        try:
            with torch.inference_mode():
                features = module(torch.from_numpy(np.ascontiguousarray(batch)))
        except Exception as error:  # anything that the user's network raises
            raise ValueError(
                f"{source} failed on a batch of shape {batch.shape}; see --size. "
                f"{type(error).__name__}: {error}"
            ) from error
        if not isinstance(features, Tensor):
            raise ValueError(f"{source} must return a tensor; got {type(features).__name__}.")
        return features.float().cpu().numpy()  # NumPy has no bfloat16

    return extract


def _script(path: Path) -> nn.Module:
    try:
        module: nn.Module = torch.jit.load(str(path), map_location="cpu")
    except RuntimeError as error:
        raise ValueError(
            f"{path} is not a TorchScript file: {str(error).splitlines()[0]}"
        ) from None
    return module


def _made(source: str) -> nn.Module:
    if ":" not in source or source.endswith(":"):
        raise ValueError(
            f"{source!r} is neither a file nor module:factory, such as my_networks:inception."
        )
    module: nn.Module = made_by(source, nn.Module, "a torch module")
    return module


def made_by(source: str, kind: type[Any], noun: str) -> Any:
    """An object of the user's: `module:name`, called without arguments unless it is one already.

    Arguments:
        source: the name of a module on the path, a colon, a name in it.
        kind: the class that it must be of.
        noun: for the class in an error, with its article, such as "a torch module".
    """
    place, _, name = source.partition(":")
    if place.endswith(".py"):
        raise ValueError(f"{source!r} must name a module, not a file: {place[:-3]}:{name}.")
    try:
        module = importlib.import_module(place)
    except Exception as error:  # anything that the user's module raises
        raise ValueError(f"{source!r} cannot be imported: {error}.") from None
    if not hasattr(module, name):
        close = get_close_matches(name, dir(module), n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"{source!r}: the module {place} has no {name!r}.{hint}")
    factory: Any = getattr(module, name)
    try:
        made = factory if isinstance(factory, kind) else factory()
    except Exception as error:
        raise ValueError(
            f"{source!r} could not be called without arguments: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(made, kind):
        raise ValueError(f"{source!r} must return {noun}; got {type(made).__name__}.")
    return made


def _batches(images: np.ndarray, size: int) -> Iterator[tuple[int, np.ndarray]]:
    for start in range(0, len(images), size):
        yield start, images[start : start + size]


def _filled(batch: np.ndarray, size: int) -> np.ndarray:
    """The batch, padded to `size` with its last image."""
    return np.concatenate([batch, *[batch[-1:]] * (size - len(batch))])


def _resized(batch: np.ndarray, size: int | None) -> np.ndarray:
    if size is None:
        return batch
    resized = nn.functional.interpolate(
        torch.from_numpy(np.ascontiguousarray(batch)), (size, size), mode="bilinear"
    )
    return (resized if resized.shape[1] == 3 else resized.expand(-1, 3, -1, -1)).numpy()
