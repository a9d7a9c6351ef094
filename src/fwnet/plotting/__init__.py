"""Pictures of traces, comparisons and classifiers; needs matplotlib."""

from fwnet.show.plotting import (
    plot_comparison,
    plot_curves,
    plot_decision_boundary,
    plot_trace,
)

__all__ = ["plot_comparison", "plot_curves", "plot_decision_boundary", "plot_trace"]
