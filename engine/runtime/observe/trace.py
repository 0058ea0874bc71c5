"""Traces of the operation instances of steps, for Perfetto and other viewers of Chrome's trace format."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from ...base.errors import GraphError
from ...base.tags import instance_name
from ...ir.misuse import refuses_misuse
from ...kernels.scheduler.tracing import Recorder
from ...streams.event import Event

DEVICE = "cpu:0"
Row = tuple[int, int, str, int, int, int, bool, int, int, int]
Message = tuple[int, int, str, int]  # step, channel, frame, iteration
_STREAMS = ("compute", "awaited", "workers", "host_to_device")  # in the order of the recorder's numbers
LANES = (*_STREAMS, "device_to_host", "disk")


@dataclass(frozen=True, slots=True)
class Span:
    """Times of an operation instance that ran.

    Attributes
    ----------
    operation, type : str
        Name and type of the node.
    path : str
        Path of the frame: ``root``, or ``root/0/while`` for a loop.
    iteration : int
        Iteration of the frame, from 0.
    step : int
        Number of the step in its session.
    device : str
    stream : {'compute', 'awaited', 'workers', 'host_to_device'}
        Run from start to end on the event loop's thread, or on the compute stream of a device with simulated time;
        awaited; run by the session's worker threads; or a copy of a value received from another device.
    live : bool
        False for an instance that only propagated deadness.
    begin, end : int
        Nanoseconds on the clock of ``time.monotonic_ns``.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     y = tg.while_loop(lambda i: i < 2, lambda i: i + 1, [0], name="count")
    >>> trace = tg.Trace()
    >>> with tg.SyncSession(graph) as session:
    ...     n = session.run(y, trace=trace)
    >>> [span.tag for span in trace.spans if span.type == "Add" and span.live]
    ['Add@root/0/count/0', 'Add@root/0/count/1']
    """

    operation: str
    type: str
    path: str
    iteration: int
    step: int
    device: str
    stream: str
    live: bool
    begin: int
    end: int

    @property
    def tag(self) -> str:
        """Tag of the instance, ``node@frame/iteration``."""
        return instance_name(self.operation, self.path, self.iteration)


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of a saved value, swapped out or in.

    Attributes
    ----------
    device : str
    stream : {'device_to_host', 'host_to_device', 'disk'}
        Stream of the copy; "disk" writes values copied out before.
    tier : {'host', 'disk', 'feed'}
        Destination of a value swapped out, or source of a value swapped in.
    bytes : int
    begin, end : int
        Nanoseconds on the device's clock; a CPU's clock is ``time.monotonic_ns``.
    """

    device: str
    stream: str
    tier: str
    bytes: int
    begin: int
    end: int


class Trace:
    """Record of the instances of steps run with the trace: ``await session.run(fetches, trace=trace)``.

    Parameters
    ----------
    capacity : int, optional
        Most spans kept, about 80 bytes each; new spans replace the oldest.

    Raises
    ------
    GraphError
        If `capacity` is less than 1.

    Examples
    --------
    >>> import asyncio, tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     y = tg.while_loop(lambda i: i < 3, lambda i: i + 1, [0])
    >>> trace = tg.Trace()
    >>> async def main():
    ...     async with tg.Session(graph) as session:
    ...         await session.run(y, trace=trace)
    >>> asyncio.run(main())
    >>> [span.iteration for span in trace.spans if span.type == "LoopCond"]
    [0, 1, 2, 3]
    """

    @refuses_misuse
    def __init__(self, capacity: int = 1 << 18) -> None:
        if capacity < 1:
            raise GraphError(
                "a trace must keep at least one span",
                wanted="capacity of 1 or more",
                got=capacity,
                hint="leave it out for some 260,000 spans",
            )
        self.recorder: Recorder = Recorder(capacity)
        self._copies: deque[Copy] = deque(maxlen=capacity)

    def __repr__(self) -> str:
        return f"<Trace: {min(self.recorder.recorded, self.recorder.capacity)} spans, {self.dropped} dropped>"

    def _repr_html_(self) -> str:
        """Return the page of `save` in a frame, for a notebook."""
        from .trace_page import to_html

        return to_html(self)

    @property
    def copies(self) -> list[Copy]:
        """Copies of swapped values, the newest last; at most `capacity` of them."""
        return list(self._copies)

    def add_copy(self, device: str, stream: str, tier: str, size: int, event: Event[Any]) -> None:
        """Add a copy of `size` bytes on a stream of a device, to or from a tier, whose `event` has ended."""
        if event.began is not None and event.ended is not None:
            times = round(1e9 * event.began), round(1e9 * event.ended)
            self._copies.append(Copy(device, stream, tier, size, *times))

    @property
    def dropped(self) -> int:
        """Number of spans replaced by newer spans."""
        return max(0, self.recorder.recorded - self.recorder.capacity)

    @property
    def spans(self) -> list[Span]:
        """Spans kept, in the order of their ends."""
        return self.spans_of(self.recorder.rows())

    def spans_of(self, rows: Sequence[Row]) -> list[Span]:
        """Return the spans of rows of the recorder."""
        return [self._make_span(row) for row in rows]

    @property
    def events(self) -> list[dict[str, Any]]:
        """Events in Chrome's trace format; times in microseconds.

        Instances run from start to end are complete events, all others asynchronous events. Two counters are sampled
        from time to time: bytes of arrays on the device (without a pool, of the step's arrays), and iterations of the
        step's loops in flight. Each device is a process, and arrows lead from Send to Recv. Copies of saved values are
        complete events on their streams.
        """
        devices: dict[str, int] = {}
        sent: dict[Message, dict[str, Any]] = {}
        events: list[dict[str, Any]] = []
        for number, row in enumerate(self.recorder.rows()):
            span = self._make_span(row)
            process = devices.setdefault(span.device, len(devices) + 1)
            found = _span_events(span, number, process)
            events += [
                *found,
                *_counter_events(row, process),
                *_arrow_events(self.message_of(row, span), found[0], sent),
            ]
        for copy in self._copies:
            events.append(_copy_event(copy, devices.setdefault(copy.device, len(devices) + 1)))
        return [*_metadata_events(devices or {DEVICE: 1}), *events]

    def save(self, path: str | PathLike[str]) -> None:
        """Write the trace to a file.

        Parameters
        ----------
        path : path-like
            A path ending in ``.html`` writes a page for any browser without a network: tracks of iterations, streams
            and counters, a search, and for each span its tag and duration. Any other path writes a file for
            https://ui.perfetto.dev and chrome://tracing, compressed if the path ends in ``.gz``.

        Examples
        --------
        >>> import pathlib, tempfile, tagloom as tg
        >>> trace = tg.Trace()
        >>> with tg.Graph().as_default() as graph, tg.SyncSession(graph) as session:
        ...     value = session.run(tg.while_loop(lambda i: i < 3, lambda i: i + 1, [0]), trace=trace)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     trace.save(f"{folder}/trace.html")
        ...     pathlib.Path(folder, "trace.html").read_text()[:15]
        '<!doctype html>'
        """
        if Path(path).suffix == ".html":
            from .trace_page import to_page

            Path(path).write_text(to_page(self), encoding="utf-8")
            return
        text = json.dumps({"traceEvents": self.events, "displayTimeUnit": "ns"}).encode()
        if Path(path).suffix == ".gz":
            import gzip

            text = gzip.compress(text)
        Path(path).write_bytes(text)

    def message_of(self, row: Row, span: Span) -> Message | None:
        """Return the message of a Send or Recv with this `row` and `span`; None for other operations."""
        if span.type not in ("Send", "Recv"):
            return None
        channel = self.recorder.steps[row[0]][0].nodes[row[1]].index
        return span.step, channel, span.path, span.iteration

    def _make_span(self, row: Row) -> Span:
        index, place, path, iteration, begin, end, dead, stream, _, _ = row
        plan, step = self.recorder.steps[index]
        node = plan.nodes[place]
        device = plan.device or DEVICE
        return Span(node.name, node.type, path, iteration, step, device, _STREAMS[stream], not dead, begin, end)


def recorder_of(trace: Trace | None) -> Recorder | None:
    """Return the recorder of a trace, for the executors; None without trace."""
    return None if trace is None else trace.recorder


def _metadata_events(devices: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    for device, process in devices.items():
        yield {"ph": "M", "name": "process_name", "pid": process, "args": {"name": device}}
        for number, stream in enumerate(LANES):
            yield {"ph": "M", "name": "thread_name", "pid": process, "tid": number, "args": {"name": stream}}


def _copy_event(copy: Copy, process: int) -> dict[str, Any]:
    """Return the complete event of a copy of a saved value."""
    return {
        "ph": "X",
        "name": f"swap, {copy.tier}",
        "cat": "swap",
        "pid": process,
        "tid": LANES.index(copy.stream),
        "ts": copy.begin / 1e3,
        "dur": (copy.end - copy.begin) / 1e3,
        "args": {"bytes": copy.bytes},
    }


def _arrow_events(
    message: Message | None, event: Mapping[str, Any], sent: dict[Message, dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Yield the two events of an arrow from the Send of a message to its Recv, when the Recv comes.

    A Recv that waited for its message has two spans: only the second span comes after the Send's.
    """
    if message is None:
        return
    end = {key: event[key] for key in ("pid", "tid", "ts")} | {"name": "message", "cat": "message"}
    if event["args"]["type"] == "Send":
        sent[message] = end
    elif message in sent:
        number = f"{message}"
        yield {**sent.pop(message), "ph": "s", "id": number}
        yield {**end, "ph": "f", "bp": "e", "id": number}


def _span_events(span: Span, number: int, process: int) -> list[dict[str, Any]]:
    """Return the complete event of a span on the compute stream, or the two asynchronous events of another span."""
    args = {"path": span.path, "iteration": span.iteration, "step": span.step, "type": span.type, "live": span.live}
    tid = _STREAMS.index(span.stream)
    event = {"name": span.operation, "cat": "live" if span.live else "dead", "pid": process, "tid": tid, "args": args}
    if span.stream == "compute":
        return [{**event, "ph": "X", "ts": span.begin / 1e3, "dur": (span.end - span.begin) / 1e3}]
    # Complete events of a lane must nest, which awaited spans and those of several workers do not.
    begin = {**event, "ph": "b", "id": number, "ts": span.begin / 1e3}
    return [begin, {**begin, "ph": "e", "ts": span.end / 1e3}]


def _counter_events(row: Row, process: int) -> Iterator[dict[str, Any]]:
    end, held, iterations = row[5], row[8], row[9]
    if held >= 0:
        for name, value in (("live bytes", held), ("iterations in flight", iterations)):
            yield {"ph": "C", "name": name, "pid": process, "ts": end / 1e3, "args": {"value": value}}
