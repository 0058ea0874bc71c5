"""Checks of the Trace and the Report passed to a step."""

from __future__ import annotations

from typing import Any

from ...base.errors import GraphError
from ..observe.trace import Trace
from .report.report import Report


def check_observers(trace: Any, report: Any) -> bool:
    """Return True if a Trace or a Report was passed; GraphError for any other object, as True or a path."""
    if trace is None and report is None:  # as in most runs
        return False
    for name, value, kind in (("trace", trace, Trace), ("report", report, Report)):
        if value is not None and not isinstance(value, kind):
            raise GraphError(
                f"{name}= takes an object for the step to fill",
                wanted=f"an empty tagloom.{kind.__name__}",
                got=repr(value),
                hint=f"{name} = tagloom.{kind.__name__}(), then run(..., {name}={name})",
            )
    return True
