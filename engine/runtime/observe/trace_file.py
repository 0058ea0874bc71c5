"""Pages of trace files written by `Trace.save` in Chrome's format."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from ...base.errors import GraphError
from .trace import LANES, Copy, Span
from .trace_page import BETWEEN, PageBuilder

_ITERATION = re.compile(r"/\d+/")  # between the names of frames in a path


def read_trace(path: str | PathLike[str]) -> str:
    """Return the page of a file written by :meth:`tagloom.Trace.save`.

    Parameters
    ----------
    path : path-like
        JSON file, compressed if its name ends in ``.gz``.

    Raises
    ------
    GraphError
        If the file is no trace, or a trace of another program.
    """
    raw = Path(path).read_bytes()
    try:
        events = json.loads(gzip.decompress(raw) if Path(path).suffix == ".gz" else raw)["traceEvents"]
        return _draw_page(events, Path(path).name)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, EOFError, OSError) as error:
        raise GraphError(
            "not a trace of tagloom",
            wanted="a file that trace.save('t.json') wrote",
            got=f"{path}: {type(error).__name__}: {error}",
            hint="open traces of other programs in ui.perfetto.dev",
        ) from error


def _draw_page(events: Sequence[Mapping[str, Any]], title: str) -> str:
    """Return the page of a trace's events."""
    devices = {e["pid"]: e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "process_name"}
    ends = {e["id"]: _to_nanoseconds(e["ts"]) for e in events if e["ph"] == "e"}
    builder = PageBuilder(min((_to_nanoseconds(e["ts"]) for e in events if "ts" in e), default=0))
    latest: dict[tuple[Any, Any, Any], int] = {}  # number of the last span with this process, lane and begin
    arrows: dict[str, int] = {}
    for event in events:
        kind = event["ph"]
        if kind in ("M", "e"):
            continue
        device, time = devices[event["pid"]], _to_nanoseconds(event["ts"])
        if kind == "C":
            builder.add_counter(device, event["name"], time, int(event["args"]["value"]))
            continue
        lane = (event["pid"], event["tid"], event["ts"])
        # Arrows name no span, only lane and time: they belong to the latest span of the lane with the same begin.
        if kind == "s":
            arrows[event["id"]] = latest[lane]
        elif kind == "f":
            builder.add_message(arrows[event["id"]], latest[lane])
        elif event["cat"] == "swap":
            tier = event["name"].removeprefix("swap, ")
            end = _to_nanoseconds(event["ts"] + event["dur"])
            builder.add_copy(Copy(device, LANES[event["tid"]], tier, event["args"]["bytes"], time, end))
        else:
            end = _to_nanoseconds(event["ts"] + event["dur"]) if kind == "X" else ends[event["id"]]
            latest[lane] = _add_span(builder, event, device, time, end)
    return builder.make_page(title, 0)


def _add_span(builder: PageBuilder, event: Mapping[str, Any], device: str, begin: int, end: int) -> int:
    args = event["args"]
    path, where = str(args["path"]), (int(args["iteration"]), int(args["step"]))
    stream = LANES[event["tid"]]
    span = Span(str(event["name"]), str(args["type"]), path, *where, device, stream, bool(args["live"]), begin, end)
    return builder.add_span(span, BETWEEN.join(_ITERATION.split(path)[1:]))


def _to_nanoseconds(microseconds: float) -> int:
    return round(microseconds * 1e3)
