"""Asks running processes of this user what their sessions do; see `engine/runtime/observe/serving.py`."""

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

_SECONDS = 2.0  # for an answer
_LONGEST = 1 << 24  # bytes of an answer
_OBSERVE = "run the process with TAGLOOM_OBSERVE=1, or `async with session.observe():` in it"


@dataclass(frozen=True, slots=True)
class Answer:
    """What one session has told, or why it has not.

    Attributes
    ----------
    path : Path
        Of its socket.
    pid : int or None
    told : dict or None
    problem : str
        Why there is nothing told.
    """

    path: Path
    pid: int | None
    told: dict[str, Any] | None
    problem: str = ""


def sockets_of(target: str | None) -> list[Path]:
    """Return the sockets of the sessions that are meant: of all processes, of one by its number, or one by its path.

    Raises
    ------
    TagloomError
        If there is none.
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
    """Ask several sessions."""
    return [answer for path in paths if (answer := ask(path)) is not None]


def ask(path: Path) -> Answer | None:
    """Ask a session; None if it is no more."""
    name = path.name.partition("-")[0]
    pid = int(name) if name.isdecimal() else None
    try:
        told = _parsed(_fetched(path, "/statistics"))
    except (FileNotFoundError, ConnectionRefusedError, ConnectionResetError):
        return None
    except TimeoutError:
        return Answer(path, pid, None, f"no answer within {_SECONDS:g} s: its event loop is busy")
    except (OSError, ValueError) as error:
        return Answer(path, pid, None, str(error))
    return Answer(path, told["pid"], told)


def _fetched(path: Path, what: str) -> bytes:
    """Return the body of an answer; ValueError if it is none."""
    deadline = monotonic() + _SECONDS
    data = bytearray()
    with socket.socket(socket.AF_UNIX) as own:
        own.settimeout(_SECONDS)
        own.connect(str(path))
        own.sendall(f"GET {what} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        while piece := own.recv(1 << 16):
            data += piece
            if len(data) > _LONGEST:
                raise ValueError(f"the answer has more than {_LONGEST} bytes")
            if (left := deadline - monotonic()) <= 0:
                raise TimeoutError
            own.settimeout(left)
    if not data:
        raise ConnectionResetError
    head, _, body = bytes(data).partition(b"\r\n\r\n")
    status = head.split(b"\r\n")[0].decode("latin-1")
    if status.split(" ")[1:2] != ["200"]:
        raise ValueError(f"the answer is {status!r}")
    return body


def _parsed(body: bytes) -> dict[str, Any]:
    """Return what was told, so far as it is that; ValueError otherwise."""
    try:
        told = json.loads(body)
    except (ValueError, RecursionError) as error:
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
