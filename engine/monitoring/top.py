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
# Columns of the tables; an empty heading is that of the bar.
_KEYED = ("elements by key", "whole", "", "incomplete", "bytes", "putters", "takers")
_QUEUE = ("queue or staging area", "elements", "", "bytes", "putters", "takers", "in/s", "out/s")
_CHECKPOINTS = ("checkpoints in", "last step", "ago", "took", "bytes", "failed")
_ITERATOR = ("pipeline", "ready", "takers", "taken", "taken/s")
_RUNNER = ("runner", "state", "steps", "steps/s", "restarts", "last error")
_JsonObject = Mapping[str, Any]

# Answers come from other processes, perhaps of another version: JSON with values of any type. So formatting an answer
# may raise any of these errors, and must not end the display of other answers.
_FORMATTING_ERRORS = (TypeError, ValueError, AttributeError, ArithmeticError)
_OTHER_VERSION = "the answer is of another version of tagloom"


class Rates:
    """Steps and elements per second between two queries of a session."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[float, float]] = {}  # time and total of the last call, by key

    def rate_of(self, key: str, time: float, total: float) -> float | None:
        """Return the growth of a total per second since the last call with this key; None at the first call."""
        last = self._last.get(key)
        self._last[key] = time, total
        # `time` is the wall clock of the other process, which may be set back between two queries.
        if last is None or time <= last[0]:
            return None
        last_time, last_total = last
        return (total - last_total) / (time - last_time)


def watch_sessions(target: str | None, once: bool, as_json: bool, interval: float) -> int:
    """Show the sessions of a process, a socket, or all processes, until they end or the user interrupts.

    Parameters
    ----------
    target : str or None
        Id of a process, or path of a socket; None for all processes of this user.
    once : bool
        True to query the sessions once.
    as_json : bool
        True to print a JSON array of the answers after each query, instead of tables.
    interval : float
        Seconds between two queries.

    Returns
    -------
    int
        Exit status: 1 if no session has answered the first and only query, otherwise 0.

    Raises
    ------
    TagloomError
        If there is no session to query, the interval is not positive, or rich is needed and not installed.
    """
    if not interval > 0:
        raise TagloomError("interval is no time", wanted="seconds above 0", got=interval, hint="--interval 1")
    sockets_of(target)  # raises before the first query; later, a lack of sockets means that the sessions have ended
    with nullcontext(_print_json) if as_json else _open_display(live=not once) as show:
        for query in count():
            answers = _ask_sessions(target)
            show(answers)
            if once or not answers:
                return int(query == 0 and not any(answer.told for answer in answers))
            time.sleep(interval)
    raise AssertionError("count() does not end")


def _ask_sessions(target: str | None) -> list[Answer]:
    """Return the answers of the sessions; none if the sessions have ended."""
    try:
        return ask_all(sockets_of(target))
    except TagloomError:
        return []


def _print_json(answers: list[Answer]) -> None:
    objects = [answer.told or {"pid": answer.pid, "problem": answer.problem} for answer in answers]
    print(json.dumps(objects), flush=True)


@contextmanager
def _open_display(live: bool) -> Iterator[Callable[[list[Answer]], None]]:
    """Enter with a function that shows answers by rich, updating the tables in place if `live` and on a terminal."""
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
    """Return the picture of the answers for rich: a table of several processes, or all tables of a single process."""
    from rich.console import Group
    from rich.text import Text

    if not answers:
        return Text("nothing to look at any longer")
    if len({answer.pid for answer in answers}) > 1:
        return Group(_process_table(answers, rates), Text("tagloom top PID shows one of them"))
    return Group(*(part for answer in answers for part in _session_parts(answer, rates)))


def _process_table(answers: list[Answer], rates: Rates) -> RenderableType:
    columns = "pid", "session", "steps/s", "running", "failed", "memory", "command"
    return _make_table(columns, [_process_row(answer, rates) for answer in answers])


def _process_row(answer: Answer, rates: Rates) -> tuple[str, ...]:
    """Return the row of a session in the table of processes, with the problem instead of figures if there is one."""
    problem = answer.problem
    if answer.told is not None:
        try:
            return _told_row(answer, rates)
        except _FORMATTING_ERRORS as error:
            problem = f"{_OTHER_VERSION}: {error}"
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
    statistics = answer.told["statistics"]
    ended = sum(statistics.get(f"steps_{end}") or 0 for end in ("finished", "failed", "cancelled", "timed_out"))
    return rates.rate_of(str(answer.path), answer.told.get("time", 0.0), ended)


def _session_parts(answer: Answer, rates: Rates) -> list[RenderableType]:
    """Return a line and the tables of a session, or a line with the problem."""
    from rich.text import Text

    problem = answer.problem
    if answer.told is not None:
        try:
            return list(_told_session(answer, rates))
        except _FORMATTING_ERRORS as error:
            problem = f"{_OTHER_VERSION}: {error}"
    return [Text(f"process {answer.pid}: {_without_controls(problem)}")]


def _told_session(answer: Answer, rates: Rates) -> Iterator[RenderableType]:
    """Yield a line with the steps of a session, then its tables."""
    from rich.text import Text

    assert answer.told is not None
    told, statistics = answer.told, answer.told["statistics"]
    running, waiting = statistics.get("steps_running"), statistics.get("steps_waiting")
    finished, failed = statistics.get("steps_finished"), statistics.get("steps_failed")
    per_second = _format_rate(_steps_per_second(answer, rates))
    yield Text(
        f"process {answer.pid}, session {_without_controls(told['session'])}: {per_second} steps/s; "
        f"{_format_number(running)} running, {_format_number(waiting)} waiting, "
        f"{_format_number(finished)} finished, {_format_number(failed)} failed; "
        f"{_format_number(told.get('iterations'))} iterations alive in the process, a step itself is one"
    )
    yield from _session_tables(answer, rates)


def _session_tables(answer: Answer, rates: Rates) -> Iterator[RenderableType]:
    """Yield the tables of a session that have rows."""
    assert answer.told is not None
    told, statistics = answer.told, answer.told["statistics"]
    figures = _as_mapping(statistics.get("figures"))
    # The wall clock of the session's process, in seconds.
    path, now = str(answer.path), told.get("time", 0.0)
    queues = {**_as_mapping(figures.get("queues")), **_as_mapping(figures.get("staging areas"))}
    keyed = {**_as_mapping(figures.get("barriers")), **_as_mapping(figures.get("map staging areas"))}
    accumulators = _as_mapping(figures.get("accumulators"))
    parts: list[tuple[tuple[str, ...], Iterable[tuple[str, ...]]]] = [
        (
            ("device", "memory", "", "at most", "kept from step to step"),
            _memory_rows(_as_mapping(statistics.get("devices"))),
        ),
        (("swapped to", "bytes"), _swap_rows(_as_mapping(statistics.get("swapped_bytes")))),
        (("loop", "iterations", "in flight", "limited by"), _loop_rows(told["loops"])),
        (_QUEUE, _queue_rows(queues, path, now, rates)),
        (_KEYED, _keyed_rows(keyed)),
        (("accumulator", "gradients", "step", "takers", "dropped"), _accumulator_rows(accumulators)),
        (_ITERATOR, _iterator_rows(_as_mapping(figures.get("iterators")), path, now, rates)),
        (_RUNNER, _runner_rows(_as_mapping(figures.get("runners")), path, now, rates)),
        (_CHECKPOINTS, _checkpoint_rows(_as_mapping(figures.get("checkpoints")))),
    ]
    for columns, rows in parts:
        if row_list := list(rows):
            yield _make_table(columns, row_list)


def _memory_rows(devices: _JsonObject) -> Iterator[tuple[str, ...]]:
    for name, device in devices.items():
        live, limit = device.get("live_bytes"), device.get("limit_bytes")
        used = _format_bytes(live) if limit is None else f"{_format_bytes(live)} of {_format_bytes(limit)}"
        peak, resources = _format_bytes(device.get("peak_bytes")), _format_bytes(device.get("resource_bytes"))
        yield _without_controls(short_device(name)), used, _draw_bar(live, limit), peak, resources


def _swap_rows(tiers: _JsonObject) -> Iterator[tuple[str, ...]]:
    for name, size in tiers.items():
        yield _without_controls(name), _format_bytes(size)


def _loop_rows(loops: list[_JsonObject]) -> Iterator[tuple[str, ...]]:
    """Yield a row for each loop, with the iterations in flight and the name of their limit."""
    for loop in loops:
        in_flight = f"{loop.get('mean_in_flight', 0.0):.1f} of {_format_number(loop.get('window'))}"
        yield (
            _without_controls(loop.get("name")),
            _format_number(loop.get("iterations")),
            in_flight,
            _without_controls(loop.get("limiter")),
        )


def _queue_rows(queues: _JsonObject, path: str, now: float, rates: Rates) -> Iterator[tuple[str, ...]]:
    """Yield a row for each queue and each staging area whose elements have no keys."""
    # The keys of rates contain the path of the session's socket, because queues of several sessions may share a name.
    for name, queue in queues.items():
        size, capacity = queue.get("size"), queue.get("capacity")
        yield (
            _without_controls(name) + (" (closed)" if queue.get("closed") else ""),
            _format_size(size, capacity),
            _draw_bar(size, capacity),
            _format_bytes(queue.get("bytes")),
            _format_number(queue.get("waiting_putters")),
            _format_number(queue.get("waiting_takers")),
            _format_rate(rates.rate_of(f"{path} in {name}", now, queue.get("enqueued", 0))),
            _format_rate(rates.rate_of(f"{path} out {name}", now, queue.get("dequeued", 0))),
        )


def _keyed_rows(resources: _JsonObject) -> Iterator[tuple[str, ...]]:
    """Yield a row for each barrier or staging area whose elements have keys."""
    for name, resource in resources.items():
        size, capacity = resource.get("size"), resource.get("capacity")
        yield (
            _without_controls(name),
            _format_size(size, capacity),
            _draw_bar(size, capacity),
            _format_number(resource.get("incomplete")),
            _format_bytes(resource.get("bytes")),
            _format_number(resource.get("waiting_putters")),
            _format_number(resource.get("waiting_takers")),
        )


def _accumulator_rows(accumulators: _JsonObject) -> Iterator[tuple[str, ...]]:
    """Yield a row for each accumulator of gradients."""
    for name, accumulator in accumulators.items():
        yield (
            _without_controls(name),
            *(_format_number(accumulator.get(field)) for field in ("count", "step", "waiting_takers", "dropped")),
        )


def _iterator_rows(iterators: _JsonObject, path: str, now: float, rates: Rates) -> Iterator[tuple[str, ...]]:
    """Yield a row for each iterator of an input pipeline."""
    for name, iterator in iterators.items():
        yield (
            _without_controls(name) + (" (closed)" if iterator.get("closed") else ""),
            *(_format_number(iterator.get(field)) for field in ("ready", "waiting_takers", "delivered")),
            _format_rate(rates.rate_of(f"{path} of {name}", now, iterator.get("delivered", 0))),
        )


def _runner_rows(runners: _JsonObject, path: str, now: float, rates: Rates) -> Iterator[tuple[str, ...]]:
    """Yield a row for each runner of a group."""
    for name, runner in runners.items():
        steps = runner.get("steps", 0)
        yield (
            _without_controls(name),
            _without_controls(runner.get("state")),
            _format_number(steps),
            _format_rate(rates.rate_of(f"{path} by {name}", now, steps)),
            _format_number(runner.get("restarts")),
            _without_controls(runner.get("last_error") or ""),
        )


def _checkpoint_rows(checkpoints: _JsonObject) -> Iterator[tuple[str, ...]]:
    """Yield a row for each Checkpointer, with the last checkpoint and a checkpoint being written."""
    for name, checkpointer in checkpoints.items():
        last, took = checkpointer.get("last_time"), checkpointer.get("last_seconds")
        step = "none" if checkpointer.get("last_step") is None else _format_number(checkpointer["last_step"])
        if checkpointer.get("is_writing"):
            step += f", writing {_format_number(checkpointer.get('writing_step'))}"
        failed = _format_number(checkpointer.get("failed"))
        if checkpointer.get("last_error"):
            failed += f": {_without_controls(checkpointer['last_error'])}"
        ago = "" if last is None else f"{max(0.0, time.time() - last):.0f} s"
        yield (
            _without_controls(name),
            step,
            ago,
            "" if took is None else f"{took:.2f} s",
            _format_bytes(checkpointer.get("last_bytes")),
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


def _as_mapping(value: object) -> _JsonObject:
    return value if isinstance(value, dict) else {}


def _without_controls(text: object) -> str:
    """Return text without control characters, which another process's names might send to the terminal."""
    return "".join(character if character.isprintable() else "?" for character in str(text))


def _draw_bar(value: Any, whole: Any) -> str:
    if not value or not whole:
        return ""
    return "#" * int(max(1, min(_BAR, round(_BAR * value / whole))))


def _format_number(value: object) -> str:
    return f"{value:,}" if isinstance(value, int | float) else ""


def _format_size(size: Any, capacity: Any) -> str:
    return _format_number(size) if capacity is None else f"{_format_number(size)} of {_format_number(capacity)}"


def _format_rate(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}"


def _format_bytes(value: object) -> str:
    return format_size(value) if isinstance(value, int) else ""
