"""Options of a single run of a step: as one object for the engine, and as keyword arguments for type checkers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

from ...base.errors import GraphError
from ...ir.graph import Graph
from ..observe.trace import Trace
from ..observe.watch import Watch, WatchBuffer, buffers_of_run
from ..scheduling.priorities import checked_priority
from .report.report import Report

Feeds = Mapping[Any, Any] | None


class SyncRunKeywords(TypedDict, total=False):
    """Keyword arguments of `SyncSession.run`."""

    timeout: float | None
    trace: Trace | None
    report: Report | None
    priority: int | None


class RunKeywords(SyncRunKeywords, total=False):
    """Keyword arguments of `Session.run`."""

    watch: Watch | Sequence[Watch]


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Options of a single run of a step.

    Attributes
    ----------
    timeout : float or None
        Seconds until StepTimeout; None for the default of the session.
    trace : Trace or None
        Receives a span for each operation instance.
    watches : sequence of WatchBuffer
        Buffers of the run's own watches, which end with the run.
    report : Report or None
        Filled at the end of the run.
    priority : int or None
        Rank while waiting; None for the rank of the enclosing block of `priority`.
    """

    timeout: float | None = None
    trace: Trace | None = None
    watches: Sequence[WatchBuffer] = ()
    report: Report | None = None
    priority: int | None = None

    @property
    def is_observed(self) -> bool:
        """True if a trace or a report sees each instance; GraphError for any other object, as True or a path."""
        if self.trace is None and self.report is None:
            return False
        _check_observer("trace", self.trace, Trace)
        _check_observer("report", self.report, Report)
        return True


NO_OPTIONS = RunOptions()  # shared by most runs, which so need no object of their own


def make_run_options(
    graph: Graph,
    timeout: float | None,
    trace: Trace | None,
    watch: Watch | Sequence[Watch],
    report: Report | None,
    priority: int | None,
) -> RunOptions:
    """Return the options of a run; from here on its watches end with the run, also if the run is refused."""
    watches = buffers_of_run(watch, graph)
    try:
        rank = None if priority is None else checked_priority(priority)
    except BaseException:
        for each in watches:  # a reader of the watch would wait for ever
            each.end()
        raise
    return RunOptions(timeout, trace, watches, report, rank)


def _check_observer(name: str, value: object, kind: type[Trace] | type[Report]) -> None:
    if value is not None and not isinstance(value, kind):
        raise GraphError(
            f"{name}= takes an object for the step to fill",
            wanted=f"an empty tagloom.{kind.__name__}",
            got=repr(value),
            hint=f"{name} = tagloom.{kind.__name__}(), then run(..., {name}={name})",
        )
