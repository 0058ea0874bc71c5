"""As much of OpenTelemetry's API as spans of steps use: tracers that keep what they were told."""

import contextvars
import types
from contextlib import contextmanager
from enum import Enum
from time import time_ns


class StatusCode(Enum):
    UNSET = 0
    OK = 1
    ERROR = 2


class Status:
    def __init__(self, status_code=StatusCode.UNSET, description=None):
        self.status_code, self.description = status_code, description


_current = contextvars.ContextVar("current", default=None)


class Span:
    def __init__(self, name, parent, attributes, start_time):
        self.name, self.parent = name, parent
        self.attributes = dict(attributes or {})
        self.start_time, self.end_time = time_ns() if start_time is None else start_time, None
        self.status, self.events = Status(), []

    def set_attribute(self, key, value):
        assert self.end_time is None, "it has ended"
        assert isinstance(value, bool | str | int | float | tuple | list)
        self.attributes[key] = value

    def record_exception(self, error):
        self.events.append(error)

    def set_status(self, status):
        self.status = status

    def end(self):
        assert self.end_time is None, "it has ended"
        self.end_time = time_ns()


class Tracer:
    def __init__(self):
        self.spans = []

    def start_span(self, name, context=None, attributes=None, start_time=None):
        span = Span(name, _current.get(), attributes, start_time)
        self.spans.append(span)
        return span

    @contextmanager
    def start_as_current_span(self, name, attributes=None, record_exception=True, set_status_on_exception=True):
        span = self.start_span(name, attributes=attributes)
        token = _current.set(span)
        try:
            yield span
        finally:
            _current.reset(token)
            span.end()


def modules():
    """Return the modules of the API by their names, and the tracer that they give."""
    tracer = Tracer()
    trace = types.ModuleType("opentelemetry.trace")
    trace.Status, trace.StatusCode = Status, StatusCode
    trace.get_tracer = lambda name, version=None: tracer
    trace.get_current_span = _current.get
    package = types.ModuleType("opentelemetry")
    package.trace = trace
    return {"opentelemetry": package, "opentelemetry.trace": trace}, tracer
