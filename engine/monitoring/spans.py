"""Steps and checkpoints as spans of OpenTelemetry, imported when Spans are made."""

from __future__ import annotations

from collections.abc import Callable
from time import time_ns
from typing import Any

from ..base.extras import import_extra
from ..base.version import VERSION
from ..runtime.steps.outcomes import StepRecord

_FAILED = ("failed", "timed out")


class Spans:
    """Reporter of steps and checkpoints to OpenTelemetry.

    Use as the `on_step` of a session, and the method `checkpoint` as the `on_save` of a Checkpointer. A step is a span
    ``tagloom.step`` from its admission to its end. The span's parent is the current span of the caller, and the span is
    current for functions called by the step: spans of Python functions are its children. The span of a partial run,
    which another task may end, is never current. A checkpoint is a span ``tagloom.checkpoint`` from its snapshot until
    its file is on the disk.

    Attributes of a step are ``tagloom.step.number``, ``.fetches``, ``.outcome``, ``.seconds``, ``.waited_seconds`` and
    ``.peak_bytes``; of a checkpoint ``tagloom.checkpoint.step``, ``.bytes``, ``.seconds`` and ``.path``. The span of a
    failed or timed-out step, or of a failed checkpoint, has the status ERROR and its exception as an event.

    Parameters
    ----------
    tracer : opentelemetry.trace.Tracer, optional
        Tracer of the spans; a tracer of the global provider by default.

    Raises
    ------
    TagloomError
        If opentelemetry-api is not installed.

    Examples
    --------
    >>> import tagloom as tg
    >>> class Tracer:  # stands for one of OpenTelemetry
    ...     def start_as_current_span(self, name, **options):
    ...         print(name)
    ...         return Nothing()
    >>> class Nothing:
    ...     __enter__ = lambda self: self
    ...     __exit__ = lambda self, *error: None
    ...     set_attribute = lambda self, key, value: print(key, value) if key.endswith("outcome") else None
    >>> with tg.Graph().as_default() as graph:
    ...     y = tg.constant(1.0) + 1.0
    >>> with tg.SyncSession(graph, on_step=tg.monitoring.Spans(Tracer())) as session:
    ...     value = session.run(y)
    tagloom.step
    tagloom.step.outcome finished
    """

    def __init__(self, tracer: Any = None) -> None:
        self._tracer = tracer if tracer is not None else _import_api().get_tracer("tagloom", VERSION)

    def begin_step(self, fetches: tuple[str, ...]) -> Callable[[StepRecord], None]:
        """Begin the span of a step, make the span current, and return the function that ends the span.

        Parameters
        ----------
        fetches : tuple of str
            Names of the tensors and operations that the step fetches.

        Returns
        -------
        callable
            To be called with the StepRecord, in the same context.
        """
        current = self._tracer.start_as_current_span(
            "tagloom.step",
            attributes={"tagloom.step.fetches": fetches},
            record_exception=False,  # `_describe_step` records the error of the StepRecord
            set_status_on_exception=False,
        )
        # by hand, not by `with`: the step begins in this call and ends in another, in the same context
        span = current.__enter__()

        def end_span(record: StepRecord) -> None:
            try:
                _describe_step(span, record)
            finally:
                current.__exit__(None, None, None)

        return end_span

    def __call__(self, record: StepRecord) -> None:
        """Record a step after its end, such as a partial run, with its beginning computed from its duration."""
        began = time_ns() - round(record.seconds * 1e9)
        attributes = {"tagloom.step.fetches": record.fetches}
        span = self._tracer.start_span("tagloom.step", start_time=began, attributes=attributes)
        try:
            _describe_step(span, record)
        finally:
            span.end()

    def checkpoint(self, saving: Any) -> None:
        """Record a checkpoint: for `on_save` of a Checkpointer.

        Parameters
        ----------
        saving : Saving
        """
        attributes = {"tagloom.checkpoint.step": saving.step, "tagloom.checkpoint.bytes": saving.nbytes}
        span = self._tracer.start_span("tagloom.checkpoint", attributes=attributes)

        def end_span(saving: Any) -> None:
            try:
                span.set_attribute("tagloom.checkpoint.seconds", saving.seconds)
                if saving.error is not None:
                    _record_error(span, saving.error)
                else:
                    span.set_attribute("tagloom.checkpoint.path", str(saving.path))
            finally:
                span.end()

        saving.add_done_callback(end_span)


def _describe_step(span: Any, record: StepRecord) -> None:
    """Set a span's attributes from a step's record; None values are left out, as OpenTelemetry refuses them."""
    attributes = {
        "number": record.number,
        "outcome": record.outcome,
        "seconds": record.seconds,
        "waited_seconds": record.waited,
        "peak_bytes": record.peak_bytes,
    }
    for name, value in attributes.items():
        if value is not None:
            span.set_attribute(f"tagloom.step.{name}", value)
    if record.outcome in _FAILED and record.error is not None:
        _record_error(span, record.error)


def _record_error(span: Any, error: BaseException) -> None:
    trace = _import_api()
    span.record_exception(error)
    span.set_status(trace.Status(trace.StatusCode.ERROR, str(error).split("\n")[0]))


def _import_api() -> Any:
    return import_extra("opentelemetry.trace", "opentelemetry", "spans are those of OpenTelemetry")
