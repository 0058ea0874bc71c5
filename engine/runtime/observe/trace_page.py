"""A trace as an HTML page: tracks of iterations, streams and counters below each other, with time to the right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...base.pages.page import make_frame, make_page
from ...base.pages.tables import make_table, make_text
from ...base.wording import short_device
from .trace import DEVICE, LANES, Copy, Message, Row, Trace

_IN_NOTEBOOKS = 20_000  # spans that a notebook shows, since it keeps the page in its file


def to_page(trace: Trace, title: str = "Trace") -> str:
    """Return the page; see :meth:`tagloom.Trace.save`."""
    rows = trace.recorder.rows()
    return make_page("trace", title, _summarize(trace, rows), _collect(trace, rows))


def to_html(trace: Trace) -> str:
    """Return HTML for a notebook: the page in a frame, or a table of operations if the trace is too long for that."""
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
    """Texts by number, in the order in which they are first asked for."""

    def __missing__(self, text: str) -> int:
        self[text] = number = len(self)
        return number


def _collect(trace: Trace, rows: Sequence[Row]) -> dict[str, Any]:
    """Return what the page draws: columns of spans, whose beginnings are differences, and the texts they refer to."""
    begins = [row[4] for row in rows] + [copy.begin for copy in trace.copies]
    zero = min(begins, default=0)
    end = max([row[5] for row in rows] + [copy.end for copy in trace.copies], default=0)
    names, paths, devices = _Numbers(), _Numbers(), _Numbers()
    types: dict[int, str] = {}
    loops: dict[int, str] = {}
    columns: dict[str, list[int]] = {
        key: [] for key in ("begin", "duration", "name", "path", "iteration", "step", "lane", "live")
    }
    counters: dict[tuple[int, str], tuple[list[int], list[int]]] = {}
    before = zero
    for step, place, path, iteration, begin, ended, dead, stream, held, iterations in rows:
        plan, number = trace.recorder.steps[step]
        node = plan.nodes[place]
        device = devices[short_device(plan.device or DEVICE)]
        types[names[node.name]] = node.type
        loops.setdefault(paths[path], _loop(plan, node.frame))
        span = (begin - before, ended - begin, names[node.name], paths[path], iteration, number)
        for column, value in zip(columns.values(), (*span, device * len(LANES) + stream, int(not dead)), strict=True):
            column.append(value)
        before = begin
        if held >= 0:
            for name, value in (("live bytes", held), ("iterations in flight", iterations)):
                times, values = counters.setdefault((device, name), ([], []))
                times.append(ended - zero)
                values.append(value)
    copies = [_copy(copy, devices[short_device(copy.device)], zero) for copy in trace.copies]
    return {
        "length": end - zero,
        "dropped": trace.dropped,
        "names": list(names),
        "types": [types[number] for number in names.values()],
        "paths": list(paths),
        "loops": [loops[number] for number in paths.values()],
        "devices": list(devices),
        "streams": list(LANES),
        "spans": columns,
        "copies": copies,
        "counters": [
            {"device": device, "name": name, "times": times, "values": values}
            for (device, name), (times, values) in counters.items()
        ],
        "messages": _messages(trace, rows),
    }


def _loop(plan: Any, frame: int) -> str:
    """Return the names of a loop and of those around it, outermost first; nothing for the root."""
    found = []
    while frame > 0:
        found.append(plan.frames[frame].name)
        frame = plan.frames[frame].parent
    return " > ".join(reversed(found))


def _copy(copy: Copy, device: int, zero: int) -> dict[str, Any]:
    return {
        "device": device,
        "stream": copy.stream,
        "tier": copy.tier,
        "bytes": copy.bytes,
        "begin": copy.begin - zero,
        "duration": copy.end - copy.begin,
    }


def _messages(trace: Trace, rows: Sequence[Row]) -> list[list[int]]:
    """Return pairs of a Send's span and the span of the Recv that took its message."""
    sent: dict[Message, int] = {}
    pairs = []
    for k, row in enumerate(rows):
        plan, number = trace.recorder.steps[row[0]]
        node = plan.nodes[row[1]]
        if node.type not in ("Send", "Recv"):
            continue
        message = number, node.index, row[2], row[3]
        if node.type == "Send":
            sent[message] = k
        elif message in sent:
            pairs.append([sent.pop(message), k])
    return pairs


def _summarize(trace: Trace, rows: Sequence[Row]) -> str:
    steps = len({row[0] for row in rows})
    found = f"{len(rows):,} span{'s' * (len(rows) != 1)} of {steps:,} step{'s' * (steps != 1)}"
    return found + (f", {trace.dropped:,} older ones made room" if trace.dropped else "")
