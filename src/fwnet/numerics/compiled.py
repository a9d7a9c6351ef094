"""Machine code by Numba, if it is installed; kept on the disk where a folder can be written."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any, cast

from fwnet.numerics.log import logger


@cache
def numba_or_none() -> ModuleType | None:
    """Numba; None if it is not installed, or does not work with the installed NumPy."""
    try:
        import numba
    except ImportError:
        return None
    return numba


_LONG = 3.0  # seconds of compilation that are worth a line


class Compilation:
    """What this process has spent on compilation so far."""

    seconds = 0.0


@cache
def _compiler() -> Any:
    """Counts the seconds that Numba compiles, and logs a warning when they become many."""
    events: Any = import_module("numba.core.event")

    class Stopwatch(events.TimingListener):
        """Nested compilations count once."""

        _duration = 0.0

        def on_end(self, event: Any) -> None:
            before, known = Compilation.seconds, self.duration
            super().on_end(event)
            Compilation.seconds += self.duration - known
            if before <= _LONG < Compilation.seconds:
                logger.warning(
                    "fwnet compiles machine code for its first use, which takes some seconds once; "
                    "`fwnet warm-up` does it in advance."
                )

    watch = Stopwatch()
    events.register("numba:compile", watch)
    return watch


@cache
def machine_code(module: str) -> Any | None:
    """A module of compiled functions, None without Numba.

    Arguments:
        module: its whole name. Where functions are marked `compilable`, the answer has them
            compiled, calling each other, and the module itself keeps them as they are. Those that
            it imports are compiled as of their own module.
    """
    if numba_or_none() is None:
        return None
    source = import_module(module)
    names = dict(vars(source))
    marked = {name: mark for name, f in names.items() if (mark := getattr(f, "compilable", None))}
    own = []
    for name, (body, flags, error_model) in marked.items():
        home = names[name].__module__
        if home != module:
            names[name] = getattr(machine_code(home), name)
            continue
        code = FunctionType(body.__code__, names, body.__name__)
        names[name] = compiled(*flags, error_model=error_model)(code)
        own.append(names[name])
    homes = {getattr(source, name).__module__ for name in marked}
    changed = max((os.path.getmtime(str(sys.modules[home].__file__)) for home in homes), default=0)
    for code in own:
        _forget_older(code, changed)
    return SimpleNamespace(**names) if marked else source


def compilable(
    *flags: str, body: Callable[..., Any] | None = None, error_model: str = "numpy"
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Mark a plain function for `machine_code`.

    Arguments:
        flags, error_model: as in `compiled`.
        body: a function that takes its place there; itself by default.
    """

    def mark(function: Any) -> Any:
        function.compilable = (body or function, flags, error_model)
        return function

    return mark


def compiled(
    *flags: str, fast: bool = False, error_model: str = "numpy", inline: bool = False
) -> Callable[[Any], Callable[..., Any]]:
    """Compile a function at its first call, without the lock of the interpreter.

    Without Numba that call raises an ImportError.

    Arguments:
        flags: what may be done to sums and products of floats, as LLVM names it; none if left out.
        fast: all of it.
        error_model: "numpy" divides by zero without a test, which blocks vector instructions.
        inline: put the function into compiled callers before these are compiled.
    """
    numba = numba_or_none()
    if numba is None:
        return _refusing
    njit = numba.njit
    _compiler()

    def wrap(function: Any) -> Callable[..., Any]:
        options: dict[str, Any] = {
            "nogil": True,
            "error_model": error_model,
            "fastmath": fast or set(flags),
            "inline": "always" if inline else "never",
            "no_cfunc_wrapper": True,  # for C, nobody asks for it
        }
        try:
            code = njit(cache=True, **options)(function)
            _forget_unreadable(code)
        except (RuntimeError, OSError):  # no folder to write to: compile once per process then
            code = njit(**options)(function)
        return cast(Callable[..., Any], code)

    return wrap


def instruction(kind: str, emit: Callable[..., Any]) -> Any:
    """A function of two numbers of one kind, for compiled functions to call: a few instructions.

    Without Numba that call raises an ImportError.

    Arguments:
        kind: of both arguments and the result, as Numba names it.
        emit: adds the instructions to LLVM's code, and returns what holds the result.
    """
    numba = numba_or_none()
    if numba is None:
        return _refusing(emit)
    number = getattr(numba.types, kind)

    def typed(context: Any, a: Any, b: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return emit(builder, *arguments)

        return number(number, number), generate

    return import_module("numba.extending").intrinsic(typed)


def _refusing(function: Any) -> Callable[..., Any]:
    """What stands for a compiled function without Numba."""

    def refuse(*arguments: Any) -> Any:
        raise ImportError(
            f"{function.__name__} is machine code, which needs Numba. Install it with: "
            'pip install "fwnet[fast]"'
        )

    return refuse


def _forget_unreadable(code: Any) -> None:
    """Empty the index of kept machine code if it names a class that is gone.

    Numba reads the index of an older fwnet before it sees that the source is another.
    """
    index: Any = getattr(code._cache, "_cache_file", None)
    if index is None:
        return
    try:
        index.load(None)
    except (AttributeError, ImportError):
        index.flush()


def _forget_older(code: Any, changed: float) -> None:
    """Empty the index of kept machine code that is older than a file of functions that it calls.

    Numba looks only at the file of the function itself.
    """
    index: Any = getattr(code._cache, "_cache_file", None)
    try:
        if index is not None and os.path.getmtime(index._index_path) < changed:
            index.flush()
    except (AttributeError, OSError):  # nothing is kept, or a private name of Numba is gone
        return


def is_ready(code: Any, *arguments: Any) -> bool:
    """Whether a compiled function has machine code for such arguments, in memory or on the disk."""
    numba = numba_or_none()
    if numba is None:
        return False
    types = tuple(numba.typeof(argument) for argument in arguments)
    if types in code.overloads:
        return True
    kept: Any = getattr(code._cache, "_cache_file", None)
    try:
        return kept is not None and any(key[0] == types for key in kept._load_index())
    except (AttributeError, ImportError, OSError, TypeError):  # private names of Numba
        return False
