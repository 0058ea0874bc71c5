"""``tagloom top``: tables of the sessions of running processes, live in a terminal or once for scripts."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from itertools import count
from typing import TYPE_CHECKING, Any

from ..base.errors import TagloomError
from ..base.extras import install_hint, is_installed
from ..base.sizes import format_size
from ..base.wording import short_device
from .client import Answer, ask_all, sockets_of

if TYPE_CHECKING:
    from rich.console import RenderableType

_BAR = 20  # characters of a full bar
_COMMAND = 60  # most characters shown of a process's command
_KEYED = ("elements by key", "whole", "", "incomplete", "bytes", "putters", "takers")
_QUEUE = ("queue or staging area", "elements", "", "bytes", "putters", "takers", "in/s", "out/s")
_CHECKPOINTS = ("checkpoints in", "last step", "ago", "took", "bytes", "failed")
_ITERATOR = ("pipeline", "ready", "takers", "taken", "taken/s")
_RUNNER = ("runner", "state", "steps", "steps/s", "restarts", "last error")
_Told = Mapping[str, Any]

# Answers come from other processes, perhaps of another version: JSON with values of any type. So formatting an answer
# may raise any of these, and must not end the display of the others.
_OF_STRANGERS = (TypeError, ValueError, AttributeError, ArithmeticError)
_STRANGE = "the answer is of another version of tagloom"


class Rates:
    """Steps and elements per second between two looks at a session."""

    def __init__(self) -> None:
        self._before: dict[str, tuple[float, float]] = {}

    def rate_of(self, key: str, time: float, total: float) -> float | None:
        """Return the growth of a total per second since the last call with this key; None at the first call."""
        before = self._before.get(key)
        self._before[key] = time, total
        # `time` is the wall clock of the other process, which may be set back between two looks
        if before is None or time <= before[0]:
            return None
        return (total - before[1]) / (time - before[0])


def watch_sessions(target: str | None, once: bool, as_json: bool, interval: float) -> int:
    """Show the sessions of a process, a socket, or all processes, until they end or the user interrupts.

    Parameters
    ----------
    target : str or None
        Number of a process, or path of a socket; None for all processes.
    once : bool
        True to look once.
    as_json : bool
        True to print a JSON array of the answers at each look, instead of tables.
    interval : float
        Seconds between two looks.

    Returns
    -------
    int
        Exit status: 1 if no session has answered at the first and only look.

    Raises
    ------
    TagloomError
        If there is nothing to look at, an option is out of range, or rich is not installed.
    """
    if not interval > 0:
        raise TagloomError("interval is no time", wanted="seconds above 0", got=interval, hint="--interval 1")
    sockets_of(target)  # raises at the first look; later, an absence of sockets means that the sessions have ended
    with nullcontext(_print_json) if as_json else _open_display(live=not once) as show:
        for look in count():
            answers = _ask_sessions(target)
            show(answers)
            if once or not answers:
                return int(look == 0 and not any(each.told for each in answers))
            time.sleep(interval)
    raise AssertionError("count() does not end")


def _ask_sessions(target: str | None) -> list[Answer]:
    try:
        return ask_all(sockets_of(target))
    except TagloomError:
        return []


def _print_json(answers: list[Answer]) -> None:
    told = [each.told or {"pid": each.pid, "problem": each.problem} for each in answers]
    print(json.dumps(told), flush=True)


@contextmanager
def _open_display(live: bool) -> Iterator[Callable[[list[Answer]], None]]:
    """Enter with a function that shows answers by rich; updated in place if `live` and on a terminal."""
    if not is_installed("rich"):
        raise TagloomError(
            "tables are shown by rich, which is not installed", hint=f"{install_hint('top')}, or give --json"
        )
    # Imported here: --json works without rich.
    from rich.console import Console
    from rich.live import Live

    console, rates = Console(), Rates()
    if not live or not console.is_terminal:
        yield lambda answers: console.print(draw_screen(answers, rates))
        return
    with Live(console=console, auto_refresh=False) as display:
        yield lambda answers: display.update(draw_screen(answers, rates), refresh=True)


# ---- tables


def draw_screen(answers: list[Answer], rates: Rates) -> RenderableType:
    """Return the picture of the answers: a table of several processes, or all sessions of a single process."""
    from rich.console import Group
    from rich.text import Text

    if not answers:
        return Text("nothing to look at any longer")
    if len({each.pid for each in answers}) > 1:
        return Group(_process_table(answers, rates), Text("tagloom top PID shows one of them"))
    return Group(*(part for each in answers for part in _session_parts(each, rates)))


def _process_table(answers: list[Answer], rates: Rates) -> RenderableType:
    columns = "pid", "session", "steps/s", "running", "failed", "memory", "command"
    return _make_table(columns, [_process_row(each, rates) for each in answers])


def _process_row(answer: Answer, rates: Rates) -> tuple[str, ...]:
    """Return the row of a session in the table of processes, with the problem instead of figures if there is one."""
    problem = answer.problem
    if answer.told is not None:
        try:
            return _told_row(answer, rates)
        except _OF_STRANGERS as error:
            problem = f"{_STRANGE}: {error}"
    return str(answer.pid), "", "", "", "", "", _without_controls(problem)


def _told_row(answer: Answer, rates: Rates) -> tuple[str, ...]:
    """Return the row of a session that has answered."""
    assert answer.told is not None
    statistics = answer.told["statistics"]
    return (
        str(answer.pid),
        _without_controls(answer.told["session"]),
        _format_rate(_steps_per_second(answer, rates)),
        _format_number(statistics.get("steps_running")),
        _format_number(statistics.get("steps_failed")),
        _format_bytes(statistics.get("live_bytes")),
        _without_controls(answer.told.get("command", ""))[:_COMMAND],
    )


def _steps_per_second(answer: Answer, rates: Rates) -> float | None:
    assert answer.told is not None
    found = answer.told["statistics"]
    ended = sum(found.get(f"steps_{how}") or 0 for how in ("finished", "failed", "cancelled", "timed_out"))
    return rates.rate_of(str(answer.path), answer.told.get("time", 0.0), ended)


def _session_parts(answer: Answer, rates: Rates) -> list[RenderableType]:
    """Return a line and the tables of a session, or a line with the problem."""
    from rich.text import Text

    problem = answer.problem
    if answer.told is not None:
        try:
            return list(_told_session(answer, rates))
        except _OF_STRANGERS as error:
            problem = f"{_STRANGE}: {error}"
    return [Text(f"process {answer.pid}: {_without_controls(problem)}")]


def _told_session(answer: Answer, rates: Rates) -> Iterator[RenderableType]:
    """Yield a line with the steps of a session, then its tables."""
    from rich.text import Text

    assert answer.told is not None
    told, found = answer.told, answer.told["statistics"]
    per_second = _format_rate(_steps_per_second(answer, rates))
    yield Text(
        f"process {answer.pid}, session {_without_controls(told['session'])}: {per_second} steps/s; "
        f"{_format_number(found.get('steps_running'))} running, {_format_number(found.get('steps_waiting'))} waiting, "
        f"{_format_number(found.get('steps_finished'))} finished, {_format_number(found.get('steps_failed'))} failed; "
        f"{_format_number(told.get('iterations'))} iterations alive in the process, a step itself is one"
    )
    yield from _session_tables(answer, rates)


def _session_tables(answer: Answer, rates: Rates) -> Iterator[RenderableType]:
    """Yield the tables of a session that have rows."""
    assert answer.told is not None
    told, found = answer.told, answer.told["statistics"]
    figures, time = _as_mapping(found.get("figures")), told.get("time", 0.0)
    queues = {**_as_mapping(figures.get("queues")), **_as_mapping(figures.get("staging areas"))}
    keyed = {**_as_mapping(figures.get("barriers")), **_as_mapping(figures.get("map staging areas"))}
    accumulators = _as_mapping(figures.get("accumulators"))
    parts: list[tuple[tuple[str, ...], Iterable[tuple[str, ...]]]] = [
        (
            ("device", "memory", "", "at most", "kept from step to step"),
            _memory_rows(_as_mapping(found.get("devices"))),
        ),
        (("swapped to", "bytes"), _swap_rows(_as_mapping(found.get("swapped_bytes")))),
        (("loop", "iterations", "in flight", "limited by"), _loop_rows(told["loops"])),
        (_QUEUE, _queue_rows(queues, str(answer.path), time, rates)),
        (_KEYED, _keyed_rows(keyed)),
        (("accumulator", "gradients", "step", "takers", "dropped"), _accumulator_rows(accumulators)),
        (_ITERATOR, _iterator_rows(_as_mapping(figures.get("iterators")), str(answer.path), time, rates)),
        (_RUNNER, _runner_rows(_as_mapping(figures.get("runners")), str(answer.path), time, rates)),
        (_CHECKPOINTS, _checkpoint_rows(_as_mapping(figures.get("checkpoints")))),
    ]
    for columns, rows in parts:
        if listed := list(rows):
            yield _make_table(columns, listed)


def _memory_rows(devices: _Told) -> Iterator[tuple[str, ...]]:
    for name, each in devices.items():
        live, limit = each.get("live_bytes"), each.get("limit_bytes")
        used = _format_bytes(live) if limit is None else f"{_format_bytes(live)} of {_format_bytes(limit)}"
        peak, kept = _format_bytes(each.get("peak_bytes")), _format_bytes(each.get("resource_bytes"))
        yield _without_controls(short_device(name)), used, _draw_bar(live, limit), peak, kept


def _swap_rows(tiers: _Told) -> Iterator[tuple[str, ...]]:
    for name, size in tiers.items():
        yield _without_controls(name), _format_bytes(size)


def _loop_rows(loops: list[_Told]) -> Iterator[tuple[str, ...]]:
    """Yield a row for each loop, with the iterations in flight and the name of their limit."""
    for each in loops:
        in_flight = f"{each.get('mean_in_flight', 0.0):.1f} of {_format_number(each.get('window'))}"
        yield (
            _without_controls(each.get("name")),
            _format_number(each.get("iterations")),
            in_flight,
            _without_controls(each.get("limiter")),
        )


def _queue_rows(queues: _Told, path: str, time: float, rates: Rates) -> Iterator[tuple[str, ...]]:
    """Yield a row for each queue; the rates' keys have the socket's path, as sessions may have queues of one name."""
    for name, each in queues.items():
        size, capacity = each.get("size"), each.get("capacity")
        full = _format_number(size) if capacity is None else f"{_format_number(size)} of {_format_number(capacity)}"
        yield (
            _without_controls(name) + (" (closed)" if each.get("closed") else ""),
            full,
            _draw_bar(size, capacity),
            _format_bytes(each.get("bytes")),
            _format_number(each.get("waiting_putters")),
            _format_number(each.get("waiting_takers")),
            _format_rate(rates.rate_of(f"{path} in {name}", time, each.get("enqueued", 0))),
            _format_rate(rates.rate_of(f"{path} out {name}", time, each.get("dequeued", 0))),
        )


def _keyed_rows(resources: _Told) -> Iterator[tuple[str, ...]]:
    """Yield a row for each barrier or staging area whose elements have keys."""
    for name, each in resources.items():
        size, capacity = each.get("size"), each.get("capacity")
        full = _format_number(size) if capacity is None else f"{_format_number(size)} of {_format_number(capacity)}"
        numbers = [_format_number(each.get(what)) for what in ("waiting_putters", "waiting_takers")]
        incomplete = _format_number(each.get("incomplete"))
        yield (
            _without_controls(name),
            full,
            _draw_bar(size, capacity),
            incomplete,
            _format_bytes(each.get("bytes")),
            *numbers,
        )


def _accumulator_rows(accumulators: _Told) -> Iterator[tuple[str, ...]]:
    for name, each in accumulators.items():
        yield (
            _without_controls(name),
            *(_format_number(each.get(what)) for what in ("count", "step", "waiting_takers", "dropped")),
        )


def _iterator_rows(iterators: _Told, path: str, time: float, rates: Rates) -> Iterator[tuple[str, ...]]:
    for name, each in iterators.items():
        yield (
            _without_controls(name) + (" (closed)" if each.get("closed") else ""),
            *(_format_number(each.get(what)) for what in ("ready", "waiting_takers", "delivered")),
            _format_rate(rates.rate_of(f"{path} of {name}", time, each.get("delivered", 0))),
        )


def _runner_rows(runners: _Told, path: str, time: float, rates: Rates) -> Iterator[tuple[str, ...]]:
    """Yield a row for each runner of a group."""
    for name, each in runners.items():
        steps = each.get("steps", 0)
        yield (
            _without_controls(name),
            _without_controls(each.get("state")),
            _format_number(steps),
            _format_rate(rates.rate_of(f"{path} by {name}", time, steps)),
            _format_number(each.get("restarts")),
            _without_controls(each.get("last_error") or ""),
        )


def _checkpoint_rows(checkpoints: _Told) -> Iterator[tuple[str, ...]]:
    """Yield a row for each Checkpointer, with the last checkpoint and a checkpoint being written."""
    for name, each in checkpoints.items():
        last, took = each.get("last_time"), each.get("last_seconds")
        step = "none" if each.get("last_step") is None else _format_number(each["last_step"])
        if each.get("is_writing"):
            step += f", writing {_format_number(each.get('writing_step'))}"
        failed = _format_number(each.get("failed"))
        if each.get("last_error"):
            failed += f": {_without_controls(each['last_error'])}"
        ago = "" if last is None else f"{max(0.0, time.time() - last):.0f} s"
        yield (
            _without_controls(name),
            step,
            ago,
            "" if took is None else f"{took:.2f} s",
            _format_bytes(each.get("last_bytes")),
            failed,
        )


# ---- cells


def _make_table(columns: Iterable[str], rows: Iterable[tuple[str, ...]]) -> RenderableType:
    """Return a table of plain text: as Text objects, cells are not read as rich's markup."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for name in columns:
        table.add_column(name)
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def _as_mapping(value: object) -> _Told:
    return value if isinstance(value, dict) else {}


def _without_controls(text: object) -> str:
    """Return text without control characters, which another process's names might send to the terminal."""
    return "".join(each if each.isprintable() else "?" for each in str(text))


def _draw_bar(value: Any, whole: Any) -> str:
    if not value or not whole:
        return ""
    return "#" * int(max(1, min(_BAR, round(_BAR * value / whole))))


def _format_number(value: object) -> str:
    return f"{value:,}" if isinstance(value, int | float) else ""


def _format_rate(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}"


def _format_bytes(value: object) -> str:
    return format_size(value) if isinstance(value, int) else ""
