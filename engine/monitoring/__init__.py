"""Monitoring of running sessions: metrics for Prometheus, spans for OpenTelemetry."""

from typing import TYPE_CHECKING

from ..frontend.missing_names import missing_in
from ..runtime.observe.prometheus import prometheus_text
from .collector import Collector
from .spans import Spans

if not TYPE_CHECKING:  # type checkers take a module with `__getattr__` to have every name
    __getattr__ = missing_in("monitoring")

__all__ = ["Collector", "Spans", "prometheus_text"]


def __dir__() -> list[str]:
    """Return the public names, without the submodules."""
    return sorted(__all__)
