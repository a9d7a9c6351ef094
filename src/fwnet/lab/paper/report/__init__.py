"""Results as a page: one file that opens without a network, with figures and raw results beside."""

from fwnet.lab.paper.report.write import WrittenPage, write_report

__all__ = ["WrittenPage", "write_report"]
