"""Client of the statistics servers in this user's running processes; see `engine/runtime/observe/serving.py`."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

from ..base.errors import TagloomError
from ..runtime.observe.serving import VERSION
from ..runtime.observe.sockets import checked_directory, process_sockets, remove_leftovers

_SECONDS = 2.0  # longest wait for an answer
_LONGEST = 1 << 24  # most bytes of an answer
_OBSERVE = "run the process with TAGLOOM_OBSERVE=1, or `async with session.observe():` in it"


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer of a session, or the reason for its absence.

    Attributes
    ----------
    path : Path
        Path of the session's socket.
    pid : int or None
    told : dict or None
        Parsed statistics; None without an answer.
    problem : str
        Reason why `told` is None.
    """

    path: Path
    pid: int | None
    told: dict[str, Any] | None
    problem: str = ""


def sockets_of(target: str | None) -> list[Path]:
    """Return the sockets of all processes, of the process with the number `target`, or the socket at the path `target`.

    Raises
    ------
    TagloomError
        If there is no such socket.
    """
    if target is not None and not target.isdecimal():
        path = Path(target)
        if not path.is_socket():
            raise TagloomError("there is no socket", wanted="a process or a socket", got=target, hint="tagloom top")
        return [path]
    directory = checked_directory(make=False)
    found: dict[int, list[Path]] = {}
    if directory is not None:
        remove_leftovers(directory)
        found = process_sockets(directory)
    if target is None:
        paths = [path for each in found.values() for path in each]
    else:
        paths = found.get(int(target), [])
    if not paths:
        whose = "no process" if target is None else f"process {target}"
        raise TagloomError(
            f"there is nothing to look at: {whose} of this user has a session that may be",
            got=f"processes {sorted(found)}" if found else None,
            hint=_OBSERVE,
        )
    return paths


def ask_all(paths: list[Path]) -> list[Answer]:
    """Return the answers of several sessions, except of sessions that have ended."""
    return [answer for path in paths if (answer := ask_session(path)) is not None]


def ask_session(path: Path) -> Answer | None:
    """Return the answer of a session; None if the session has ended."""
    # The name of a socket begins with the number of its process; a socket elsewhere may have any name.
    name = path.name.partition("-")[0]
    pid = int(name) if name.isdecimal() else None
    try:
        told = _parse_statistics(_fetch_body(path, "/statistics"))
    except (FileNotFoundError, ConnectionRefusedError, ConnectionResetError):
        return None
    except TimeoutError:
        return Answer(path, pid, None, f"no answer within {_SECONDS:g} s: its event loop is busy")
    except (OSError, ValueError) as error:
        return Answer(path, pid, None, str(error))
    return Answer(path, told["pid"], told)


def _fetch_body(path: Path, what: str) -> bytes:
    """Return the body of the response to a GET request for `what`; ValueError unless its status is 200."""
    deadline = monotonic() + _SECONDS
    data = bytearray()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_SECONDS)
        connection.connect(str(path))
        connection.sendall(f"GET {what} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        while piece := connection.recv(1 << 16):
            data += piece
            if len(data) > _LONGEST:
                raise ValueError(f"the answer has more than {_LONGEST} bytes")
            # The timeout of a socket holds for each read: shortened, so a server sending byte by byte ends in time.
            if (remaining := deadline - monotonic()) <= 0:
                raise TimeoutError
            connection.settimeout(remaining)
    # Closed without an answer: the session ended meanwhile, for `ask_session` the same as a missing socket.
    if not data:
        raise ConnectionResetError
    head, _, body = bytes(data).partition(b"\r\n\r\n")
    status = head.split(b"\r\n")[0].decode("latin-1")
    if status.split(" ")[1:2] != ["200"]:
        raise ValueError(f"the answer is {status!r}")
    return body


def _parse_statistics(body: bytes) -> dict[str, Any]:
    """Return the statistics in an answer; ValueError for invalid JSON, or fields of another version."""
    try:
        told = json.loads(body)
    except (ValueError, RecursionError) as error:  # the latter for JSON nested too deeply
        raise ValueError(f"the answer is no JSON: {error}") from error
    wanted: dict[str, Callable[[Any], bool]] = {
        "version": lambda value: value == VERSION,
        "pid": lambda value: isinstance(value, int),
        "session": lambda value: isinstance(value, str),
        "statistics": lambda value: isinstance(value, dict),
        "loops": lambda value: isinstance(value, list),
    }
    for name, fits in wanted.items():
        if not isinstance(told, dict) or not fits(told.get(name)):
            raise ValueError(f"the answer is of another version of tagloom: {name}")
    return told  # type: ignore[no-any-return]
