"""Results as a page: one file that opens without a network, with figures and raw results beside."""

from fwnet.paper.report.write import write_report

__all__ = ["write_report"]
