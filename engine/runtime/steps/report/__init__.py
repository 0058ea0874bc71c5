"""Reports of steps; pickles of reports name this module."""

from .report import ClusterReport, LoopReport, Report, Traffic

__all__ = ["ClusterReport", "LoopReport", "Report", "Traffic"]
