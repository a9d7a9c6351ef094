"""Hand-designed methods behind one protocol: a problem in, a trajectory with its costs out."""

from fwnet.learned.baselines.base import Baseline, Report, Trajectory
from fwnet.learned.baselines.default import corrective, default_baselines
from fwnet.learned.baselines.projected import FISTA, ProjectedMomentum, SpectralProjectedGradient
from fwnet.learned.baselines.simplex_peers import AdamLagrangian, AdamSoftmax, MirrorDescent
from fwnet.learned.baselines.solvers import Solver, as_solver
from fwnet.learned.baselines.tuning import Choice, Tuned, tune

__all__ = [
    "FISTA",
    "AdamLagrangian",
    "AdamSoftmax",
    "Baseline",
    "Choice",
    "MirrorDescent",
    "ProjectedMomentum",
    "Report",
    "Solver",
    "SpectralProjectedGradient",
    "Trajectory",
    "Tuned",
    "as_solver",
    "corrective",
    "default_baselines",
    "tune",
]
