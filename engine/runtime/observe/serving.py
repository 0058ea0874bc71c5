"""Server of a session's statistics over a socket, for `tagloom top`, scripts and collectors of metrics.

The session's event loop answers requests: without requests nothing runs.
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

VERSION = 1  # of the JSON document
LONGEST_REQUEST = 4096  # bytes
MOST_CONNECTIONS = 8
_PAUSE = 1.0  # seconds without accepting connections, after the process had no descriptor left
SECONDS = 5.0  # longest duration of a connection
_logger = logging.getLogger("tagloom")


class Shown(Protocol):
    """Interface of a session with statistics."""

    def statistics(self) -> Statistics:
        """Return the session's statistics."""
        ...

    def report(self) -> Any:
        """Return the report of the session's last steps."""
        ...


class StatisticsServer:
    """Server of a session's statistics, on a socket that only its user may open.

    The server consists of callbacks of the loop, without tasks and transports: closing takes effect at once and leaves
    nothing running, in whichever state the connections are.

    Parameters
    ----------
    session : Shown
        The session, held weakly.
    name : str
        Name of the session in the answers.

    Raises
    ------
    TagloomError, OSError
        If no socket can be opened.

    Attributes
    ----------
    path : Path
        Path of the socket until `close`.
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
        self._forget_path = finalize(self, _remove_socket, self.path, os.getpid())
        self._resuming: asyncio.TimerHandle | None = None
        self._start_accepting()
        strand_in_children(self)

    def _start_accepting(self) -> None:
        self._loop.add_reader(self._listening, self._accept_connection)

    def _accept_connection(self) -> None:
        """Accept a connection, unless there are too many or its process is of another user."""
        try:
            own, _ = self._listening.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError:  # the process has no descriptor left; the loop would spin on the pending connection
            self._loop.remove_reader(self._listening)
            self._resuming = self._loop.call_later(_PAUSE, self._start_accepting)
            return
        # Accepted even if refused: a pending connection would keep the loop awake.
        if len(self._connections) < MOST_CONNECTIONS and is_of_this_user(own):
            self._connections.add(_Connection(self, self._loop, own))
        else:
            own.close()

    def close(self) -> None:
        """Remove the socket and close all connections; a second call does nothing."""
        for each in list(self._connections):
            each.close()
        if self._resuming is not None:
            self._resuming.cancel()
        if self._listening.fileno() >= 0:
            close_watched_socket(self._loop, self._listening)
        self._forget_path()

    def strand(self, parent: int) -> None:
        """Close the sockets in a child process, so that clients do not wait there after the parent's end."""
        self._listening.close()
        for each in self._connections:
            each.strand()
        self._connections.clear()

    # ---- called by connections

    def forget(self, connection: _Connection) -> None:
        """Note the end of a connection."""
        self._connections.discard(connection)

    def answer(self, path: str) -> tuple[str, str, bytes]:
        """Return status, content type and body of the answer to the request of a path."""
        session = self._session()
        make = _ANSWERS.get(path)
        if make is None or session is None:
            return "404 Not Found", "text/plain; charset=utf-8", b"there are /statistics and /metrics\n"
        kind, body = make(session, self._name, monotonic() - self._began)
        return "200 OK", kind, body.encode(errors="replace")


def describe_session(session: Shown, name: str, seconds: float) -> dict[str, Any]:
    """Return the JSON document of a session."""
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
    return "application/json", json.dumps(describe_session(session, name, seconds), default=_as_told)


def _as_told(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else str(value)


def _as_metrics(session: Shown, name: str, seconds: float) -> tuple[str, str]:
    return CONTENT_TYPE, prometheus_text({name: session})


_ANSWERS: dict[str, Callable[[Shown, str, float], tuple[str, str]]] = {
    "/statistics": _as_json,
    "/metrics": _as_metrics,
}


class _Connection:
    """A connection: a request and its answer, with the least of HTTP, in `SECONDS` at most."""

    def __init__(self, server: StatisticsServer, loop: asyncio.AbstractEventLoop, own: socket.socket) -> None:
        self._server = server
        self._loop = loop
        self._socket = own
        self._request = b""
        self._left = memoryview(b"")
        self._limit = loop.call_later(SECONDS, self.close)
        own.setblocking(False)
        loop.add_reader(own, self._read_request)

    def _read_request(self) -> None:
        """Read the request; answer its end, and close a connection that ended or exceeds the limit."""
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
            self._left = memoryview(self._compose_answer())
            self._loop.add_writer(self._socket, self._write_answer)

    def _write_answer(self) -> None:
        """Write the answer as far as the socket takes it, and close after its end."""
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
        """Close the connection at once; a second call does nothing."""
        self._limit.cancel()
        self._server.forget(self)
        if self._socket.fileno() >= 0:
            close_watched_socket(self._loop, self._socket)

    def strand(self) -> None:
        """Close the socket in a child process, whose loop is of no use."""
        self._socket.close()

    def _compose_answer(self) -> bytes:
        """Return the bytes of the answer; errors of the statistics become a status 500, with the details logged."""
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


def close_watched_socket(loop: asyncio.AbstractEventLoop, own: socket.socket) -> None:
    """Close a socket that a loop, perhaps closed already, may watch."""
    if not loop.is_closed():
        loop.remove_reader(own)
        loop.remove_writer(own)
    own.close()


def _remove_socket(path: Path, process: int) -> None:
    """Remove a socket, unless in a child of the process that created it."""
    if os.getpid() == process:
        path.unlink(missing_ok=True)
