"""Steps and checkpoints as spans of OpenTelemetry, which is imported only by who makes Spans."""

from __future__ import annotations

from collections.abc import Callable
from time import time_ns
from typing import Any

from ..base.extras import import_extra
from ..base.version import VERSION
from ..runtime.steps.outcomes import StepRecord

_FAILED = ("failed", "timed out")


class Spans:
    """Tells OpenTelemetry of steps and checkpoints: a session's `on_step`; `checkpoint` is a Checkpointer's `on_save`.

    A step is a span ``tagloom.step`` from its admission to its end. Its parent is the span that is current where the
    step is run, and it is current itself for what the step calls: spans of functions of Python are its children. A
    partial run, which others may end than began it, has a span that is current for nobody. A checkpoint is a span
    ``tagloom.checkpoint`` from when its snapshot is taken until it is on the disk.

    Attributes of a step are ``tagloom.step.number``, ``.fetches``, ``.outcome``, ``.seconds``, ``.waited_seconds`` and
    ``.peak_bytes``; of a checkpoint ``tagloom.checkpoint.step``, ``.bytes``, ``.seconds`` and ``.path``. A step that
    fails or times out, and a checkpoint that can not be written, has the status ERROR and its exception as an event.

    Parameters
    ----------
    tracer : opentelemetry.trace.Tracer, optional
        Makes the spans; the global provider's by default.

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
        self._tracer = tracer if tracer is not None else _api().get_tracer("tagloom", VERSION)

    def begin_step(self, fetches: tuple[str, ...]) -> Callable[[StepRecord], None]:
        """Begin the span of a step, and make it current; return what ends it.

        Parameters
        ----------
        fetches : tuple of str
            What the step fetches and runs.

        Returns
        -------
        callable
            To be called with the StepRecord, in the same context.
        """
        current = self._tracer.start_as_current_span(
            "tagloom.step",
            attributes={"tagloom.step.fetches": fetches},
            record_exception=False,
            set_status_on_exception=False,
        )
        span = current.__enter__()

        def end(record: StepRecord) -> None:
            try:
                _describe(span, record)
            finally:
                current.__exit__(None, None, None)

        return end

    def __call__(self, record: StepRecord) -> None:
        """Tell of a step of which only the end is known."""
        began = time_ns() - round(record.seconds * 1e9)
        attributes = {"tagloom.step.fetches": record.fetches}
        span = self._tracer.start_span("tagloom.step", start_time=began, attributes=attributes)
        try:
            _describe(span, record)
        finally:
            span.end()

    def checkpoint(self, saving: Any) -> None:
        """Tell of a checkpoint: for `on_save` of a Checkpointer.

        Parameters
        ----------
        saving : Saving
        """
        attributes = {"tagloom.checkpoint.step": saving.step, "tagloom.checkpoint.bytes": saving.nbytes}
        span = self._tracer.start_span("tagloom.checkpoint", attributes=attributes)

        def end(saving: Any) -> None:
            try:
                span.set_attribute("tagloom.checkpoint.seconds", saving.seconds)
                if saving.error is not None:
                    _fail(span, saving.error)
                else:
                    span.set_attribute("tagloom.checkpoint.path", str(saving.path))
            finally:
                span.end()

        saving.add_done_callback(end)


def _describe(span: Any, record: StepRecord) -> None:
    found = {
        "number": record.number,
        "outcome": record.outcome,
        "seconds": record.seconds,
        "waited_seconds": record.waited,
        "peak_bytes": record.peak_bytes,
    }
    for name, value in found.items():
        if value is not None:
            span.set_attribute(f"tagloom.step.{name}", value)
    if record.outcome in _FAILED and record.error is not None:
        _fail(span, record.error)


def _fail(span: Any, error: BaseException) -> None:
    trace = _api()
    span.record_exception(error)
    span.set_status(trace.Status(trace.StatusCode.ERROR, str(error).split("\n")[0]))


def _api() -> Any:
    return import_extra("opentelemetry.trace", "opentelemetry", "spans are those of OpenTelemetry")
