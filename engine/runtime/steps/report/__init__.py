"""Reports of steps; pickles of reports name this module."""

from .report import ClusterReport, LoopReport, Report, Traffic

__all__ = ["ClusterReport", "LoopReport", "Report", "Traffic"]

# Names of the package `tagloom`, by module: see docs/design/0051-rooms-and-names.md.
PUBLIC = {
    "report": "ClusterReport LoopReport Report",
}
