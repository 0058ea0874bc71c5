"""What a call of a step is given to tell of the step: a Trace, a Report."""

from __future__ import annotations

from typing import Any

from ...base.errors import GraphError
from ..observe.trace import Trace
from .report import Report


def check_observers(trace: Any, report: Any) -> bool:
    """Say whether there is a Trace or a Report; GraphError for what is neither, as True or a path."""
    for name, value, kind in (("trace", trace, Trace), ("report", report, Report)):
        if value is not None and not isinstance(value, kind):
            raise GraphError(
                f"{name} is filled with what the step does",
                wanted=f"an empty tagloom.{kind.__name__}",
                got=repr(value),
                hint=f"{name} = tagloom.{kind.__name__}(), then run(..., {name}={name})",
            )
    return trace is not None or report is not None
