"""A session tells of itself over a socket: to `tagflow top`, to scripts, to what gathers metrics.

The event loop of the session answers, in no task of its own: nothing happens as long as nobody asks.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from time import monotonic, time
from typing import Any, Protocol, cast
from weakref import finalize, ref

from ...kernels.scheduler.state import live_counts
from ..scheduling.forks import strand_in_children
from .prometheus import CONTENT_TYPE, prometheus_text
from .sockets import checked_directory, is_of_this_user, listen_in, remove_leftovers
from .statistics import Statistics

VERSION = 1  # of what is told
LONGEST_REQUEST = 4096  # bytes
MOST_CONNECTIONS = 8
SECONDS = 5.0  # that one who asks may take
_logger = logging.getLogger("tagflow")


class Shown(Protocol):
    """What tells: a session."""

    def statistics(self) -> Statistics:
        """Return its figures."""

    def report(self) -> Any:
        """Return what its loops did."""


class StatisticsServer:
    """Answers who asks for the figures of a session, over a socket that only its user may open.

    Parameters
    ----------
    session : Shown
        Held weakly.
    name : str
        What it is called there.

    Attributes
    ----------
    path : Path
        Of the socket, while it serves.
    """

    def __init__(self, session: Shown, name: str) -> None:
        self._session = ref(session)
        self._name = name
        self._began = monotonic()
        self._server: asyncio.AbstractServer | None = None
        self._connections: set[_Connection] = set()

    async def start(self) -> None:
        """Begin to serve on the running loop.

        Raises
        ------
        TagflowError, OSError
            If there can be no socket.
        """
        directory = checked_directory(make=True)
        assert directory is not None
        remove_leftovers(directory)
        self._listening, self.path = listen_in(directory)
        self._forget_path = finalize(self, _remove, self.path, os.getpid())
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_unix_server(lambda: _Connection(self), sock=self._listening)
        except BaseException:
            self._listening.close()
            self._forget_path()
            raise
        strand_in_children(self)

    def close(self) -> None:
        """Serve no more, and remove the socket; twice is fine."""
        server, self._server = self._server, None
        if server is None:
            return
        server.close()
        for each in list(self._connections):
            each.abort()
        self._forget_path()

    def strand(self, parent: int) -> None:
        """Let go of the socket in a child process, so that nobody waits there when the parent is no more."""
        if self._server is not None:
            self._server = None
            self._listening.close()

    # ---- what connections ask

    def accepts(self, connection: _Connection) -> bool:
        """Say whether there is room for one more connection, and note it."""
        if len(self._connections) >= MOST_CONNECTIONS:
            return False
        self._connections.add(connection)
        return True

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
    return "application/json", json.dumps(told(session, name, seconds), default=str)


def _as_metrics(session: Shown, name: str, seconds: float) -> tuple[str, str]:
    return CONTENT_TYPE, prometheus_text({name: session})


_ANSWERS: dict[str, Callable[[Shown, str, float], tuple[str, str]]] = {
    "/statistics": _as_json,
    "/metrics": _as_metrics,
}


class _Connection(asyncio.Protocol):
    """One who asks: one request, one answer, by as much of HTTP as that takes."""

    def __init__(self, server: StatisticsServer) -> None:
        self._server = server
        self._request = b""
        self._transport: asyncio.Transport | None = None
        self._limit: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = own = cast(asyncio.Transport, transport)  # uvloop's is none by its class
        if is_of_this_user(own.get_extra_info("socket").fileno()) and self._server.accepts(self):
            self._limit = asyncio.get_running_loop().call_later(SECONDS, own.abort)
        else:
            own.abort()

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        self._request += data
        if len(self._request) > LONGEST_REQUEST:
            self._transport.abort()
        elif b"\r\n\r\n" in self._request and not self._transport.is_closing():
            self._transport.write(self._answer())
            self._transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        self._server.forget(self)
        if self._limit is not None:
            self._limit.cancel()

    def abort(self) -> None:
        """End it at once."""
        if self._transport is not None:
            self._transport.abort()

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


def _remove(path: Path, process: int) -> None:
    """Remove a socket, unless this is a child of the process that made it."""
    if os.getpid() == process:
        path.unlink(missing_ok=True)
