"""A trace as an HTML page: tracks of iterations, streams and counters above each other, with time to the right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...base.pages.page import make_frame, make_page
from ...base.pages.tables import make_table, make_text
from ...base.wording import short_device
from ...compile.plan.plan import Plan
from .trace import LANES, Copy, Message, Row, Span, Trace

BETWEEN = " > "  # between the names of an outer and an inner loop
_IN_NOTEBOOKS = 20_000  # most spans shown in a notebook, whose file keeps the page


def to_page(trace: Trace, title: str = "Trace") -> str:
    """Return the page; see :meth:`tagloom.Trace.save`."""
    rows = trace.recorder.rows()
    builder = PageBuilder(min([row[4] for row in rows] + [copy.begin for copy in trace.copies], default=0))
    _fill_page(builder, trace, rows)
    return builder.make_page(title, trace.dropped)


def to_html(trace: Trace) -> str:
    """Return HTML for a notebook: the page in a frame, or a table of operations for a very long trace."""
    rows = trace.recorder.rows()
    if len(rows) <= _IN_NOTEBOOKS:
        return make_frame(to_page(trace), 480)
    totals: dict[str, list[int]] = {}
    for row in rows:
        total = totals.setdefault(trace.recorder.steps[row[0]][0].nodes[row[1]].name, [0, 0])
        total[0] += 1
        total[1] += row[5] - row[4]
    longest = sorted(totals.items(), key=lambda each: (-each[1][1], each[0]))[:20]
    table = make_table(
        f"{trace!r}, the operations that took longest",
        ["operation", "spans", "milliseconds"],
        [[name, count, nanoseconds / 1e6] for name, (count, nanoseconds) in longest],
    )
    return table + make_text("trace.save('trace.html') writes a page of all spans")


class _Numbers(dict[str, int]):
    """Texts with their numbers, in the order of their first use."""

    def __missing__(self, text: str) -> int:
        self[text] = number = len(self)
        return number


class PageBuilder:
    """Builder of a page's data: columns of spans, with begins as differences, and the texts of their numbers.

    Times are nanoseconds; the earliest time becomes 0.

    Parameters
    ----------
    zero : int
        The earliest time.
    """

    def __init__(self, zero: int) -> None:
        self._zero = self._last = self._end = zero
        self._names, self._paths, self._devices = _Numbers(), _Numbers(), _Numbers()
        self._types: dict[int, str] = {}
        self._loops: dict[int, str] = {}
        self._steps: set[int] = set()
        self._counters: dict[tuple[int, str], tuple[list[int], list[int]]] = {}
        self._copies: list[dict[str, Any]] = []
        self._messages: list[tuple[int, int]] = []
        columns = ("begin", "duration", "name", "path", "iteration", "step", "lane", "live")
        self._columns: dict[str, list[int]] = {key: [] for key in columns}

    def add_span(self, span: Span, loop: str) -> int:
        """Add a span of an operation in a loop, '' for none, named with its outer loops; return the span's number."""
        name, path, device = self._names[span.operation], self._paths[span.path], self._device_number(span.device)
        self._types[name] = span.type
        self._loops.setdefault(path, loop)
        self._steps.add(span.step)
        lane = device * len(LANES) + LANES.index(span.stream)
        # Differences have fewer digits than times since the zero: the page holds them as text.
        values = (
            span.begin - self._last,
            span.end - span.begin,
            name,
            path,
            span.iteration,
            span.step,
            lane,
            span.live,
        )
        for column, value in zip(self._columns.values(), values, strict=True):
            column.append(int(value))
        self._last = span.begin
        self._end = max(self._end, span.end)
        return len(self._columns["begin"]) - 1

    def add_counter(self, device: str, name: str, time: int, value: int) -> None:
        """Add the value of a device's counter at a time."""
        times, values = self._counters.setdefault((self._device_number(device), name), ([], []))
        times.append(time - self._zero)
        values.append(value)

    def add_copy(self, copy: Copy) -> None:
        """Add a copy of a saved value."""
        found = {name: getattr(copy, name) for name in ("stream", "tier", "bytes")}
        times = {"begin": copy.begin - self._zero, "duration": copy.end - copy.begin}
        self._copies.append({"device": self._device_number(copy.device), **found, **times})
        self._end = max(self._end, copy.end)

    def add_message(self, sent: int, received: int) -> None:
        """Add a message by the numbers of its spans."""
        self._messages.append((sent, received))

    def make_page(self, title: str, dropped: int) -> str:
        """Return the page; `dropped` is the number of spans replaced by newer spans."""
        spans, steps = len(self._columns["begin"]), len(self._steps)
        summary = f"{spans:,} span{'s' * (spans != 1)} of {steps:,} step{'s' * (steps != 1)}"
        data = {
            "length": self._end - self._zero,
            "dropped": dropped,
            "names": list(self._names),
            "types": [self._types[number] for number in self._names.values()],
            "paths": list(self._paths),
            "loops": [self._loops[number] for number in self._paths.values()],
            "devices": list(self._devices),
            "streams": list(LANES),
            "spans": self._columns,
            "copies": self._copies,
            "counters": [
                {"device": device, "name": name, "times": times, "values": values}
                for (device, name), (times, values) in self._counters.items()
            ],
            "messages": self._messages,
        }
        return make_page("trace", title, summary + (f", {dropped:,} older ones made room" if dropped else ""), data)

    def _device_number(self, name: str) -> int:
        return self._devices[short_device(name)]


def _fill_page(builder: PageBuilder, trace: Trace, rows: Sequence[Row]) -> None:
    """Add the spans, messages, counters and copies of a trace."""
    sent: dict[Message, int] = {}
    for row, span in zip(rows, trace.spans_of(rows), strict=True):
        plan, _ = trace.recorder.steps[row[0]]
        node = plan.nodes[row[1]]
        number = builder.add_span(span, _loop_path(plan, node.frame))
        if row[8] >= 0:
            builder.add_counter(span.device, "live bytes", span.end, row[8])
            builder.add_counter(span.device, "iterations in flight", span.end, row[9])
        message = trace.message_of(row, span)
        if message is not None and span.type == "Send":
            sent[message] = number
        elif message is not None and message in sent:
            builder.add_message(sent.pop(message), number)
    for copy in trace.copies:
        builder.add_copy(copy)


def _loop_path(plan: Plan, frame: int) -> str:
    """Return the names of a loop and its outer loops, outermost first; '' for the root."""
    found = []
    while frame > 0:
        found.append(plan.frames[frame].name)
        frame = plan.frames[frame].parent
    return BETWEEN.join(reversed(found))
