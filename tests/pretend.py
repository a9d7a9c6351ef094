"""A pretend accelerator: tensors that say "pretend:0", compute on the CPU, and count waits.

For machines without one. As on a real device, an operation that mixes its tensors with host tensors
of one dimension or more raises, `.numpy()` raises, factories need `device=`. `waits` counts what
makes Python wait for a device: reading a number, or anything whose shape depends on values. It says
nothing about speed, memory, streams or missing kernels.

    with accelerator() as log:
        x = on_device(torch.ones(3))        # x.device == pretend:0
        x + torch.zeros(3, device=DEVICE)   # fine
        x + torch.zeros(3)                  # raises
        float(x.sum())                      # one wait
    log.waits                               # Counter({"_local_scalar_dense": 1})
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

HOST = torch.device("cpu")
_WAITING = {"_local_scalar_dense", "nonzero", "masked_select", "_unique2", "equal", "is_nonzero"}
_MIXING = {"copy_", "_to_copy", "index", "index_put", "index_put_", "_index_put_impl_"}
_BUILDERS = (torch.tensor, torch.as_tensor, torch.asarray, torch.from_numpy)


class DeviceTensor(Tensor):
    """A host tensor behind another device's name."""

    host: Tensor

    @staticmethod
    def __new__(cls, host: Tensor) -> DeviceTensor:
        made: Any = Tensor._make_wrapper_subclass(
            cls,
            host.shape,
            strides=host.stride(),
            storage_offset=host.storage_offset(),
            dtype=host.dtype,
            device=device(),
            requires_grad=host.requires_grad,
        )
        made.host = host
        tensor: DeviceTensor = made
        return tensor

    def __repr__(self) -> str:  # type: ignore[override]
        return f"on the device: {self.host!r}"

    def tolist(self) -> Any:
        Log.current.waits["tolist"] += 1
        return self.host.tolist()

    def numpy(self, *, force: bool = False) -> Any:
        if not force:
            raise TypeError("can't convert a tensor on pretend:0 to numpy; use .cpu() first.")
        Log.current.waits["numpy"] += 1
        return self.host.numpy()

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return _run(func, args, kwargs or {})


class Log(TorchDispatchMode):
    """Runs operations, factories too, where their tensors are; counts waits."""

    current: Log

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.waits: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})


class _Builders(TorchFunctionMode):
    """`torch.tensor` and its kin build below the dispatcher: move what they built."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        wanted = kwargs.get("device")
        there = wanted is not None and torch.device(wanted).type == device().type
        if func in _BUILDERS and there and not isinstance(args[0], DeviceTensor):
            return on_device(func(*args, **{**kwargs, "device": HOST}))
        return func(*args, **kwargs)


def _run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    name = func._schema.name.removeprefix("aten::")
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
    remote = [t for t in tensors if isinstance(t, DeviceTensor)]
    local = [t for t in tensors if not isinstance(t, DeviceTensor) and t.ndim > 0]
    if remote and local and name not in _MIXING:
        raise RuntimeError(f"{name}: all tensors must be on one device; found pretend:0 and cpu.")
    wanted = kwargs.get("device")
    there = bool(remote) if wanted is None else torch.device(wanted).type == device().type
    bool_index = name == "index" and any(t.dtype == torch.bool for t in tensors[1:])
    if remote and (name in _WAITING or bool_index or (name == "_to_copy" and not there)):
        Log.current.waits[name] += 1
    args, kwargs = tree_map_only(DeviceTensor, lambda t: t.host, (args, kwargs))
    if wanted is not None:
        kwargs["device"] = HOST
    kwargs.pop("pin_memory", None)
    out = func(*args, **kwargs)
    if not there:
        return out
    if name.endswith("_") and remote:
        return remote[0]  # in place: the same tensor
    return tree_map_only(Tensor, DeviceTensor, out)


@cache
def device() -> torch.device:
    """The device, registered once; skips the test where this torch cannot."""
    register = getattr(backend_registration, "_setup_privateuseone_for_python_backend", None)
    if register is None:
        pytest.skip("this torch registers no device from Python")
    register("pretend")
    return torch.device("pretend:0")


def on_device(x: Tensor) -> Tensor:
    """A copy of the tensor on the device, a leaf that keeps `requires_grad`."""
    made: Tensor = DeviceTensor(x.detach().clone())
    return made.requires_grad_(x.requires_grad)


def on_host(x: Tensor) -> Tensor:
    """The tensor on the CPU."""
    return x.host if isinstance(x, DeviceTensor) else x


@contextmanager
def accelerator() -> Iterator[Log]:
    """Within it, the device exists."""
    device()
    Log.current = Log()
    with Log.current, _Builders():
        yield Log.current
