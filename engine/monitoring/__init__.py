"""What running sessions tell to those who look after them: metrics for Prometheus, spans for OpenTelemetry."""

from typing import TYPE_CHECKING

from ..frontend.missing_names import missing_in
from ..runtime.observe.prometheus import prometheus_text
from .collector import Collector
from .spans import Spans

if not TYPE_CHECKING:  # for which a module with it has all names
    __getattr__ = missing_in("monitoring")

__all__ = ["Collector", "Spans", "prometheus_text"]


def __dir__() -> list[str]:
    """Return the public names, without the modules that they are in."""
    return sorted(__all__)
