"""Domains by name. A new one is a line in `DOMAINS`: its options and how to make it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import click

import fwnet
from fwnet.cli.errors import Failed
from fwnet.cli.names import known

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor


@final
@dataclass(frozen=True)
class DomainChoice:
    """A domain on the command line.

    Arguments:
        set: its formula, for the table in --help.
        make: its class in fwnet, which takes the arrays, then the options, in their order; or a
            function of all options and arrays.
        needs, takes: required and optional options.
        reads: arrays that the file must hold.
        matrix: whether its points are matrices.
    """

    set: str
    make: str | Callable[[Mapping[str, Any], Mapping[str, Tensor]], fwnet.Domain]
    needs: tuple[str, ...] = ()
    takes: tuple[str, ...] = ("radius",)
    reads: tuple[str, ...] = ()
    matrix: bool = False

    @property
    def options(self) -> tuple[str, ...]:
        """All options that it takes, in the order of its arguments."""
        return (*self.needs, *self.takes)


def _bounds(given: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> tuple[Any, Any]:
    """Numbers from the options, else arrays from the file."""
    lower, upper = (
        arrays.get(name) if given.get(name) is None else given[name] for name in ("lower", "upper")
    )
    return lower, upper


def _box(given: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> fwnet.Domain:
    lower, upper = _bounds(given, arrays)
    if lower is None or upper is None:
        raise click.BadParameter(
            "--domain box needs --lower and --upper, or arrays lower and upper in an NPZ file."
        )
    return fwnet.Box(lower, upper)


def _polytope(given: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> fwnet.Domain:
    A_ub, b_ub, A_eq, b_eq = (arrays.get(name) for name in ("A_ub", "b_ub", "A_eq", "b_eq"))
    return fwnet.Polytope(A_ub, b_ub, A_eq, b_eq, bounds=_bounds(given, arrays))


def _birkhoff(given: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> fwnet.Domain:
    return fwnet.Birkhoff(given["shape"][-1])


_ARRAYS = ("lower", "upper", "groups", "A_ub", "b_ub", "A_eq", "b_eq", "vertices")
DOMAINS: dict[str, DomainChoice] = {
    "simplex": DomainChoice("x ≥ 0, Σx = r", "Simplex"),
    "hypersimplex": DomainChoice("0 ≤ x ≤ r, Σx = k r", "HyperSimplex", ("k",)),
    "l1": DomainChoice("Σ|x| ≤ r", "L1Ball"),
    "l2": DomainChoice("‖x‖₂ ≤ r", "L2Ball"),
    "linf": DomainChoice("max|x| ≤ r", "LInfBall"),
    "lp": DomainChoice("‖x‖ₚ ≤ r", "LpBall", ("p",)),
    "k-sparse": DomainChoice("hull of k entries ± r", "KSparseBall", ("k",)),
    "group-l1": DomainChoice("Σ ‖x_g‖₂ ≤ r, by the array groups", "GroupL1Ball", reads=("groups",)),
    "box": DomainChoice("lower ≤ x ≤ upper", _box, takes=("lower", "upper")),
    "polytope": DomainChoice(
        "A_ub x ≤ b_ub, A_eq x = b_eq, lower ≤ x ≤ upper", _polytope, takes=("lower", "upper")
    ),
    "hull": DomainChoice(
        "hull of the rows of the array vertices", "ConvexHull", takes=(), reads=("vertices",)
    ),
    "trace-norm": DomainChoice("matrices, Σσ ≤ r", "TraceNormBall", matrix=True),
    "spectral": DomainChoice("matrices, max σ ≤ r", "SpectralBall", matrix=True),
    "schatten": DomainChoice("matrices, ‖σ‖ₚ ≤ r", "SchattenBall", ("p",), matrix=True),
    "row-norms": DomainChoice("matrices, each row ‖·‖₂ ≤ r", "RowBall", matrix=True),
    "spectraplex": DomainChoice("X ⪰ 0, trace r", "Spectraplex", matrix=True),
    "birkhoff": DomainChoice("doubly stochastic matrices", _birkhoff, takes=(), matrix=True),
}


def choose(
    name: str,
    options: Mapping[str, float | int | None],
    arrays: Mapping[str, np.ndarray],
    shape: tuple[int, ...],
) -> fwnet.Domain:
    """The domain of a name, from the given options and the arrays of the files.

    Arguments:
        shape: of its points.
    """
    choice = DOMAINS[known("domain", name, DOMAINS)]
    _check_given(name, choice, options, arrays)
    given: dict[str, Any] = {"radius": 1.0, "shape": shape}
    given |= {key: value for key, value in options.items() if value is not None}
    read = {key: _tensor(key, arrays[key]) for key in _ARRAYS if key in arrays}
    if not isinstance(choice.make, str):
        return choice.make(given, read)
    parts = [*(read[key] for key in choice.reads), *(given[key] for key in choice.options)]
    made: fwnet.Domain = getattr(fwnet, choice.make)(*parts)
    return made


def _check_given(
    name: str,
    choice: DomainChoice,
    options: Mapping[str, float | int | None],
    arrays: Mapping[str, np.ndarray],
) -> None:
    for option, value in options.items():
        if value is not None and option not in choice.options:
            takes = " and ".join(f"--{each}" for each in choice.options) or "no such option"
            raise click.BadParameter(
                f"--{option} does not apply to --domain {name}, which takes {takes}."
            )
    for option in choice.needs:
        if options.get(option) is None:
            raise click.BadParameter(f"--domain {name} needs --{option}.")
    for array in choice.reads:
        if array not in arrays:
            raise Failed(
                f"--domain {name} needs an array {array}, in the NPZ file of the problem or in "
                "that of --constraints."
            )


def _tensor(key: str, values: np.ndarray) -> Tensor:
    import torch

    from fwnet.cli.tables import numbers, whole_numbers

    name = f"the array {key}"
    if key == "groups":
        return torch.tensor(whole_numbers(name, values))
    return torch.tensor(numbers(name, values, bounds=key in ("lower", "upper", "b_ub")))
