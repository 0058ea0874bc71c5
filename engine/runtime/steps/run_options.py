"""Keyword arguments of `run`, for type checkers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from ..observe.trace import Trace
from ..observe.watch import Watch
from .report.report import Report

Feeds = Mapping[Any, Any] | None


class SyncRunOptions(TypedDict, total=False):
    """Keyword arguments of `SyncSession.run`."""

    timeout: float | None
    trace: Trace | None
    report: Report | None
    priority: int | None


class RunOptions(SyncRunOptions, total=False):
    """Keyword arguments of `Session.run`."""

    watch: Watch | Sequence[Watch]
