"""Frank-Wolfe networks: projection-free constrained optimisation for PyTorch."""

import typing as _typing
from importlib import import_module as _import_module
from importlib.util import find_spec as _find_spec

if _typing.TYPE_CHECKING:
    from fwnet.directions import Averaging, Away, Blended, Corrections, Direction, Pairwise, Toward
    from fwnet.domains import (
        Birkhoff,
        Box,
        ConvexHull,
        Domain,
        GroupL1Ball,
        HyperSimplex,
        KSparseBall,
        L1Ball,
        L2Ball,
        LInfBall,
        LpBall,
        Polytope,
        Product,
        RowBall,
        SchattenBall,
        Simplex,
        SpectralBall,
        Spectraplex,
        TraceNormBall,
        TransportPolytope,
    )
    from fwnet.iterates import ActiveSet
    from fwnet.layers import FWNet
    from fwnet.numerics.linear_maps import LinearMap, MatrixFree
    from fwnet.oracles import (
        Blocks,
        Exact,
        Lazy,
        NewtonSchulz,
        Oracle,
        PowerIteration,
        Softmin,
        SoftTraceNorm,
        Stochastic,
    )
    from fwnet.problems import (
        Function,
        LeastSquares,
        LogisticRegression,
        MatrixCompletion,
        Problem,
        Quadratic,
        SoftmaxRegression,
        SVMDual,
    )
    from fwnet.solvers import (
        AwayFrankWolfe,
        BlendedPairwise,
        BlockCoordinateFrankWolfe,
        Corrective,
        FrankWolfe,
        LazyFrankWolfe,
        PairwiseFrankWolfe,
        StochasticFrankWolfe,
        minimize,
    )
    from fwnet.starts import Start
    from fwnet.steps import (
        Armijo,
        Backtracking,
        Constant,
        LineSearch,
        LogOpenLoop,
        Monotonic,
        OpenLoop,
        OverRelaxed,
        ShortStep,
        StepRule,
    )
    from fwnet.trace import Result, StepRecord, Trace

__version__ = "0.1.0"

__all__ = [
    "ActiveSet",
    "Armijo",
    "Averaging",
    "Away",
    "AwayFrankWolfe",
    "Backtracking",
    "Birkhoff",
    "Blended",
    "BlendedPairwise",
    "BlockCoordinateFrankWolfe",
    "Blocks",
    "Box",
    "Constant",
    "ConvexHull",
    "Corrections",
    "Corrective",
    "Direction",
    "Domain",
    "Exact",
    "FWNet",
    "FrankWolfe",
    "Function",
    "GroupL1Ball",
    "HyperSimplex",
    "KSparseBall",
    "L1Ball",
    "L2Ball",
    "LInfBall",
    "Lazy",
    "LazyFrankWolfe",
    "LeastSquares",
    "LineSearch",
    "LinearMap",
    "LogOpenLoop",
    "LogisticRegression",
    "LpBall",
    "MatrixCompletion",
    "MatrixFree",
    "Monotonic",
    "NewtonSchulz",
    "OpenLoop",
    "Oracle",
    "OverRelaxed",
    "Pairwise",
    "PairwiseFrankWolfe",
    "Polytope",
    "PowerIteration",
    "Problem",
    "Product",
    "Quadratic",
    "Result",
    "RowBall",
    "SVMDual",
    "SchattenBall",
    "ShortStep",
    "Simplex",
    "SoftTraceNorm",
    "SoftmaxRegression",
    "Softmin",
    "SpectralBall",
    "Spectraplex",
    "Start",
    "StepRecord",
    "StepRule",
    "Stochastic",
    "StochasticFrankWolfe",
    "Toward",
    "Trace",
    "TraceNormBall",
    "TransportPolytope",
    "minimize",
]

# Where the names above are defined. They are loaded when they are first used: `fwnet --help` and
# the shell's completion import this package, and torch takes a second.
_HOMES = (
    "directions",
    "domains",
    "iterates",
    "layers",
    "numerics.linear_maps",
    "oracles",
    "problems",
    "solvers",
    "starts",
    "steps",
    "trace",
)

if not _typing.TYPE_CHECKING:  # a checker must see which names there are

    def __getattr__(name: str) -> object:
        if name in __all__:
            for home in _HOMES:
                module = _import_module(f"fwnet.{home}")
                if hasattr(module, name):
                    globals()[name] = getattr(module, name)
                    return globals()[name]
        if not name.startswith("_") and _find_spec(f"fwnet.{name}"):  # fwnet.optim and the like
            return _import_module(f"fwnet.{name}")
        raise AttributeError(f"module 'fwnet' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
