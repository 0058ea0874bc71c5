"""A session tells of itself over a socket: to `tagloom top`, to scripts, to what gathers metrics.

The event loop of the session answers: nothing happens as long as nobody asks.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from time import monotonic, time
from typing import Any, Protocol
from weakref import finalize, ref

import numpy as np

from ...base.forks import strand_in_children
from ...kernels.scheduler.state import live_counts
from .prometheus import CONTENT_TYPE, prometheus_text
from .sockets import checked_directory, is_of_this_user, listen_in, remove_leftovers
from .statistics import Statistics

VERSION = 1  # of what is told
LONGEST_REQUEST = 4096  # bytes
MOST_CONNECTIONS = 8
_PAUSE = 1.0  # seconds until those who connect are looked at again, when there was no descriptor for one
SECONDS = 5.0  # that one who asks may take
_logger = logging.getLogger("tagloom")


class Shown(Protocol):
    """What tells: a session."""

    def statistics(self) -> Statistics:
        """Return its figures."""

    def report(self) -> Any:
        """Return what its loops did."""


class StatisticsServer:
    """Answers who asks for the figures of a session, over a socket that only its user may open.

    It is made of callbacks of the loop, with neither tasks nor transports, so that its end is there at once and leaves
    nothing, however far those are who connect.

    Parameters
    ----------
    session : Shown
        Held weakly.
    name : str
        What it is called there.

    Raises
    ------
    TagloomError, OSError
        If there can be no socket.

    Attributes
    ----------
    path : Path
        Of the socket, while it serves.
    """

    def __init__(self, session: Shown, name: str) -> None:
        self._session = ref(session)
        self._name = name
        self._began = monotonic()
        self._connections: set[_Connection] = set()
        self._loop = asyncio.get_running_loop()
        directory = checked_directory(make=True)
        assert directory is not None
        remove_leftovers(directory)
        self._listening, self.path = listen_in(directory)
        self._forget_path = finalize(self, _remove, self.path, os.getpid())
        self._resuming: asyncio.TimerHandle | None = None
        self._listen()
        strand_in_children(self)

    def _listen(self) -> None:
        self._loop.add_reader(self._listening, self._accept)

    def _accept(self) -> None:
        try:
            own, _ = self._listening.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError:  # this process has no descriptor left; the one who connects waits
            self._loop.remove_reader(self._listening)
            self._resuming = self._loop.call_later(_PAUSE, self._listen)
            return
        if len(self._connections) < MOST_CONNECTIONS and is_of_this_user(own):
            self._connections.add(_Connection(self, self._loop, own))
        else:
            own.close()

    def close(self) -> None:
        """Serve no more, remove the socket, and cut off those who ask; twice is fine."""
        for each in list(self._connections):
            each.close()
        if self._resuming is not None:
            self._resuming.cancel()
        if self._listening.fileno() >= 0:
            forget(self._loop, self._listening)
        self._forget_path()

    def strand(self, parent: int) -> None:
        """Let go of the sockets in a child process, so that nobody waits there when the parent is no more."""
        self._listening.close()
        for each in self._connections:
            each.strand()
        self._connections.clear()

    # ---- what connections ask

    def forget(self, connection: _Connection) -> None:
        """Note that a connection has ended."""
        self._connections.discard(connection)

    def answer(self, path: str) -> tuple[str, str, bytes]:
        """Return status, content type and body of what is asked for by a path."""
        session = self._session()
        make = _ANSWERS.get(path)
        if make is None or session is None:
            return "404 Not Found", "text/plain; charset=utf-8", b"there are /statistics and /metrics\n"
        kind, body = make(session, self._name, monotonic() - self._began)
        return "200 OK", kind, body.encode(errors="replace")


def told(session: Shown, name: str, seconds: float) -> dict[str, Any]:
    """Return what is told of a session, as JSON has it."""
    return {
        "version": VERSION,
        "pid": os.getpid(),
        "command": " ".join(sys.orig_argv)[:300],
        "session": name,
        "time": time(),
        "seconds": seconds,
        "iterations": live_counts()["iterations"],
        "loops": [{**asdict(loop), "limiter": loop.limiter} for loop in session.report().loops],
        "statistics": asdict(session.statistics()),
    }


def _as_json(session: Shown, name: str, seconds: float) -> tuple[str, str]:
    return "application/json", json.dumps(told(session, name, seconds), default=_as_told)


def _as_told(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else str(value)


def _as_metrics(session: Shown, name: str, seconds: float) -> tuple[str, str]:
    return CONTENT_TYPE, prometheus_text({name: session})


_ANSWERS: dict[str, Callable[[Shown, str, float], tuple[str, str]]] = {
    "/statistics": _as_json,
    "/metrics": _as_metrics,
}


class _Connection:
    """One who asks: one request, one answer, by as much of HTTP as that takes, in `SECONDS` at most."""

    def __init__(self, server: StatisticsServer, loop: asyncio.AbstractEventLoop, own: socket.socket) -> None:
        self._server = server
        self._loop = loop
        self._socket = own
        self._request = b""
        self._left = memoryview(b"")
        self._limit = loop.call_later(SECONDS, self.close)
        own.setblocking(False)
        loop.add_reader(own, self._read)

    def _read(self) -> None:
        try:
            data = self._socket.recv(LONGEST_REQUEST)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.close()
            return
        self._request += data
        if not data or len(self._request) > LONGEST_REQUEST:
            self.close()
        elif b"\r\n\r\n" in self._request:
            self._loop.remove_reader(self._socket)
            self._left = memoryview(self._answer())
            self._loop.add_writer(self._socket, self._write)

    def _write(self) -> None:
        try:
            self._left = self._left[self._socket.send(self._left) :]
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.close()
            return
        if not self._left:
            self.close()

    def close(self) -> None:
        """End it at once; twice is fine."""
        self._limit.cancel()
        self._server.forget(self)
        if self._socket.fileno() >= 0:
            forget(self._loop, self._socket)

    def strand(self) -> None:
        """Let go of the socket in a child process, whose loop is of no use."""
        self._socket.close()

    def _answer(self) -> bytes:
        words = self._request.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        if len(words) != 3 or words[0] != "GET":
            status, kind, body = "400 Bad Request", "text/plain; charset=utf-8", b"GET /statistics or /metrics\n"
        else:
            try:
                status, kind, body = self._server.answer(words[1])
            except Exception as error:
                _logger.exception("a session could not tell of itself")
                status, kind = "500 Internal Server Error", "text/plain; charset=utf-8"
                body = f"{type(error).__name__}\n".encode()
        head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        return head.encode() + body


def forget(loop: asyncio.AbstractEventLoop, own: socket.socket) -> None:
    """Close a socket that a loop, perhaps a closed one, may look at."""
    if not loop.is_closed():
        loop.remove_reader(own)
        loop.remove_writer(own)
    own.close()


def _remove(path: Path, process: int) -> None:
    """Remove a socket, unless this is a child of the process that made it."""
    if os.getpid() == process:
        path.unlink(missing_ok=True)
