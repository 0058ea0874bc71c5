"""Statistics of sessions in Prometheus' text format, version 0.0.4."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Any, NamedTuple, Protocol

import numpy as np

from ...base.errors import GraphError
from .latency import Latency
from .statistics import Statistics

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Labels = Mapping[str, str]


class HasStatistics(Protocol):
    """Interface of a Session or SyncSession."""

    def statistics(self) -> Statistics:
        """Return the session's statistics."""
        ...


Sessions = HasStatistics | Mapping[str, HasStatistics]


class Metric(NamedTuple):
    """A metric, read from a record of statistics.

    Attributes
    ----------
    name : str
        Name after ``tagloom_``; ends with the base unit, and ``_total`` for a counter.
    type : {'counter', 'gauge', 'histogram'}
    help : str
    read : callable
        Returns the value of a record; None for no value.
    labels : mapping of str to str
    suffix : str
        Suffix of a sample's name, after the metric's name, for the samples of a histogram.
    """

    name: str
    type: str
    help: str
    read: Callable[[Any], Any]
    labels: Labels = {}
    suffix: str = ""


def _make_counter(name: str, help: str, field: str, **labels: str) -> Metric:
    return Metric(f"{name}_total", "counter", help, lambda figures: getattr(figures, field), labels)


def _make_gauge(name: str, help: str, field: str, **labels: str) -> Metric:
    return Metric(name, "gauge", help, lambda figures: getattr(figures, field), labels)


_ENDED = "Steps that have ended, by outcome."
_OF_SESSION = (
    _make_counter("steps_started", "Steps that began.", "steps_started"),
    _make_counter("steps_ended", _ENDED, "steps_finished", outcome="finished"),
    _make_counter("steps_ended", _ENDED, "steps_failed", outcome="failed"),
    _make_counter("steps_ended", _ENDED, "steps_cancelled", outcome="cancelled"),
    _make_counter("steps_ended", _ENDED, "steps_timed_out", outcome="timed_out"),
    _make_counter("steps_refused", "Steps that were not admitted in time.", "steps_refused"),
    _make_counter("steps_compiled", "How often a step was compiled.", "steps_compiled"),
    _make_counter("compile_seconds", "Time that compiling took.", "compile_seconds"),
    _make_counter("admission_wait_seconds", "Time that steps waited to be admitted.", "waited_seconds"),
    _make_gauge("steps_running", "Steps under way.", "steps_running"),
    _make_gauge("steps_waiting", "Steps that wait to be admitted.", "steps_waiting"),
    _make_gauge("steps_cached", "Compiled steps that are kept.", "cached_steps"),
    _make_gauge("orphaned_kernels", "Kernels that outlived their step and still run.", "orphaned"),
)
_OF_DEVICE = (
    _make_gauge("memory_live_bytes", "Bytes of arrays on a device.", "live_bytes"),
    _make_gauge("memory_peak_bytes", "The most bytes of arrays on a device.", "peak_bytes"),
    _make_gauge("memory_cached_bytes", "Bytes of freed arrays that are kept for new ones.", "cached_bytes"),
    _make_gauge("memory_limit_bytes", "Bytes that arrays on a device may take.", "limit_bytes"),
    _make_gauge("memory_resource_bytes", "Bytes of what the session keeps from step to step.", "resource_bytes"),
)
_OF_TIER = (
    Metric("swapped_bytes", "gauge", "Bytes of saved values outside of the device's memory.", lambda size: size),
)


def _of_elements(kind: str, what: str) -> tuple[Metric, ...]:
    """Return the metrics of a kind of resource that holds elements and makes steps wait for them."""
    waiting = f"Puts or takes that wait at a {what}."
    return (
        _make_gauge(f"{kind}_size", f"Elements in a {what}.", "size"),
        _make_gauge(f"{kind}_capacity", f"The most elements that may be in a {what}.", "capacity"),
        _make_gauge(f"{kind}_bytes", f"Bytes of the elements in a {what}.", "bytes"),
        _make_gauge(
            f"{kind}_capacity_bytes", f"The most bytes that the elements in a {what} may have.", "capacity_bytes"
        ),
        _make_gauge(f"{kind}_waiting", waiting, "waiting_putters", side="put"),
        _make_gauge(f"{kind}_waiting", waiting, "waiting_takers", side="take"),
        _make_gauge(f"{kind}_closed", f"Whether a {what} is closed.", "closed"),
    )


def _of_queue(kind: str, what: str) -> tuple[Metric, ...]:
    return (
        *_of_elements(kind, what),
        _make_counter(f"{kind}_enqueued", f"Elements that were put into a {what}.", "enqueued"),
        _make_counter(f"{kind}_dequeued", f"Elements that were taken from a {what}.", "dequeued"),
    )


def _keyed_metrics(kind: str, what: str) -> tuple[Metric, ...]:
    still = f"Elements in a {what} of which components are still to come."
    return (*_of_elements(kind, what), _make_gauge(f"{kind}_incomplete", still, "incomplete"))


_OF_ACCUMULATOR = (
    _make_gauge("accumulator_count", "Gradients in the sum of an accumulator.", "count"),
    _make_gauge("accumulator_step", "The step of an accumulator, below which gradients are dropped.", "step"),
    _make_gauge("accumulator_bytes", "Bytes of the sum of an accumulator.", "bytes"),
    _make_gauge("accumulator_waiting", "Takes that wait at an accumulator.", "waiting_takers"),
    _make_counter("accumulator_applied", "Gradients that were added.", "applied"),
    _make_counter("accumulator_dropped", "Gradients that came late.", "dropped"),
    _make_counter("accumulator_taken", "How often the sum was taken.", "taken"),
)
_OF_CHECKPOINTER = (
    _make_counter("checkpoints_written", "Checkpoints that were written.", "written"),
    _make_counter("checkpoints_failed", "Checkpoints that could not be written.", "failed"),
    _make_counter("checkpoints_restored", "How often a checkpoint was restored.", "restored"),
    _make_counter("checkpoint_written_bytes", "Bytes of arrays that were written.", "written_bytes"),
    _make_counter("checkpoint_written_seconds", "Time that writing took.", "written_seconds"),
    _make_gauge("checkpoint_writing", "Whether a checkpoint is being written.", "is_writing"),
    _make_gauge("checkpoint_last_step", "Step of the last checkpoint that was written.", "last_step"),
    _make_gauge("checkpoint_last_bytes", "Bytes of its arrays.", "last_bytes"),
    _make_gauge("checkpoint_last_duration_seconds", "How long writing it took.", "last_seconds"),
    _make_gauge("checkpoint_last_timestamp_seconds", "When it was on the disk, since the epoch.", "last_time"),
)
_OF_ITERATOR = (
    _make_gauge("iterator_ready", "Elements of a pipeline that are ready to be taken.", "ready"),
    _make_gauge("iterator_waiting", "Takes that wait for an element of a pipeline.", "waiting_takers"),
    _make_gauge("iterator_closed", "Whether no more elements of a pipeline come.", "closed"),
    _make_counter("iterator_delivered", "Elements of a pipeline that were taken.", "delivered"),
)
_OF_RUNNER = (
    _make_counter("runner_steps", "Steps of a runner that have finished.", "steps"),
    _make_counter("runner_restarts", "How often a runner went on after an error.", "restarts"),
    _make_counter("runner_step_seconds", "Time that the steps of a runner took.", "step_seconds"),
)

# Kinds of records that a session has several of: their label, their place in the statistics, and their metrics.
_FAMILIES: tuple[tuple[str, Callable[[Statistics], Mapping[str, Any]], tuple[Metric, ...]], ...] = (
    ("device", lambda found: found.devices, _OF_DEVICE),
    ("tier", lambda found: found.swapped_bytes, _OF_TIER),
    ("queue", lambda found: found.queues, _of_queue("queue", "queue")),
    ("area", lambda found: found.figures.get("staging areas", {}), _of_queue("staging_area", "staging area")),
    (
        "area",
        lambda found: found.figures.get("map staging areas", {}),
        _keyed_metrics("map_staging_area", "map staging area"),
    ),
    ("barrier", lambda found: found.figures.get("barriers", {}), _keyed_metrics("barrier", "barrier")),
    ("accumulator", lambda found: found.accumulators, _OF_ACCUMULATOR),
    ("iterator", lambda found: found.figures.get("iterators", {}), _OF_ITERATOR),
    ("runner", lambda found: found.figures.get("runners", {}), _OF_RUNNER),
    ("directory", lambda found: found.checkpoints, _OF_CHECKPOINTER),
)


def prometheus_text(sessions: Sessions) -> str:
    """Return the statistics of sessions in Prometheus' text format, for the answer to its scrapes.

    Parameters
    ----------
    sessions : Session, SyncSession, or mapping of str to them
        With a mapping each sample has a label ``session``.

    Returns
    -------
    str
        Text of content type ``text/plain; version=0.0.4; charset=utf-8``.

    Raises
    ------
    GraphError
        If `sessions` contains anything but sessions.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     y = tg.constant(1.0) + 1.0
    >>> with tg.SyncSession(graph) as session:
    ...     value = session.run(y)
    ...     text = tg.monitoring.prometheus_text({"demo": session})
    >>> text.splitlines()[:3]
    ['# HELP tagloom_steps_started_total Steps that began.', '# TYPE tagloom_steps_started_total counter', \
'tagloom_steps_started_total{session="demo"} 1']
    """
    # The format wants all samples of a metric in one group, over all sessions.
    families: dict[str, list[str]] = {}
    for metric, labels, value in walk_samples(sessions):
        lines = families.setdefault(
            f"tagloom_{metric.name}",
            [
                f"# HELP tagloom_{metric.name} {_escape_text(metric.help)}",
                f"# TYPE tagloom_{metric.name} {metric.type}",
            ],
        )
        lines.append(f"tagloom_{metric.name}{metric.suffix}{_in_braces(labels)} {_format_number(value)}")
    return "".join(f"{line}\n" for lines in families.values() for line in lines)


def walk_samples(sessions: Sessions) -> Iterator[tuple[Metric, Labels, Any]]:
    """Yield each metric of sessions with its labels and its value, session by session."""
    for name, session in sessions.items() if isinstance(sessions, Mapping) else [("", sessions)]:
        if not hasattr(session, "statistics"):
            raise GraphError(
                "there are no statistics of this",
                wanted="a session, or a mapping of names to sessions",
                got=repr(session),
                hint="prometheus_text(session)",
            )
        for metric, labels, value in _session_samples(session.statistics()):
            yield metric, {"session": name, **labels} if name else labels, value


def _session_samples(found: Statistics) -> Iterator[tuple[Metric, Labels, Any]]:
    yield from _read_metrics(_OF_SESSION, found, {})
    yield from _of_latency(found.latency)
    for label, where, metrics in _FAMILIES:
        for name, figures in where(found).items():
            yield from _read_metrics(metrics, figures, {label: name})


def _of_latency(latency: Latency) -> Iterator[tuple[Metric, Labels, Any]]:
    """Yield the cumulative buckets of a histogram, then the sum and the count."""
    metric = Metric("step_seconds", "histogram", "How long steps took that finished, their waits included.", float)
    # Prometheus' buckets are cumulative, and the last one has no bound.
    for bound, count in zip((*latency.bounds, math.inf), accumulate(latency.counts), strict=True):
        yield metric._replace(suffix="_bucket"), {"le": "+Inf" if bound == math.inf else f"{bound:.6g}"}, count
    yield metric._replace(suffix="_sum"), {}, latency.sum
    yield metric._replace(suffix="_count"), {}, latency.count


def _read_metrics(metrics: Iterable[Metric], figures: Any, labels: Labels) -> Iterator[tuple[Metric, Labels, Any]]:
    for metric in metrics:
        if (value := metric.read(figures)) is not None:
            yield metric, {**labels, **metric.labels}, value


def _in_braces(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escape_label_value(value)}"' for name, value in labels.items()) + "}"


def _escape_label_value(value: str) -> str:
    return _escape_text(value).replace('"', '\\"')


def _escape_text(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _format_number(value: Any) -> str:
    if isinstance(value, np.generic):  # records of users' objects may hold NumPy's numbers
        value = value.item()
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else f"{'+' if value > 0 else '-'}Inf"
    return repr(value)
