"""Sockets of running processes for statistics of their sessions: their directory, and the permission to connect.

A directory that only its user may enter has a socket ``<pid>-<token>.sock`` for each session with statistics. A socket
is renamed into place when already listening; so a socket which refuses a connection belongs to a dead process, and is
removed.
"""

from __future__ import annotations

import os
import re
import secrets
import socket
import stat
import struct
import sys
import tempfile
from pathlib import Path

from ...base.errors import TagloomError

_NAME = re.compile(r"(\d{1,10})-[0-9a-f]{8}\.sock")
_NEW = re.compile(r"\.new-(\d{1,10})-[0-9a-f]{8}")
_LONGEST = 103 if sys.platform == "darwin" else 107  # bytes of `sockaddr_un.sun_path` without the final zero
_CREDENTIALS = struct.Struct("3i")  # `struct ucred` of SO_PEERCRED: process, user, group


def socket_directory() -> Path:
    """Return the path of this user's directory of sockets, which need not exist."""
    of_user = os.environ.get("XDG_RUNTIME_DIR")
    if of_user:
        return Path(of_user, "tagloom")
    return Path(tempfile.gettempdir(), f"tagloom-{os.geteuid()}")


def checked_directory(make: bool) -> Path | None:
    """Return this user's directory of sockets; if missing, create the directory with `make`, or return None.

    Raises
    ------
    TagloomError
        If the directory cannot be created, or other users may open its sockets.
    """
    path = socket_directory()
    try:
        if make:
            path.mkdir(mode=0o700, exist_ok=True)
        found = path.lstat()  # no `stat`: in a shared /tmp, a link could lead to anybody's directory
    except FileNotFoundError as error:
        if not make:
            return None
        raise _unusable_error(path, error) from error
    except OSError as error:
        raise _unusable_error(path, error) from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise TagloomError(
            f"the directory of sockets {path} is not this user's alone",
            wanted=f"a directory of user {os.geteuid()} with mode 0700",
            got=f"{stat.filemode(found.st_mode)} of user {found.st_uid}",
            hint="remove it, or let XDG_RUNTIME_DIR name a directory of your own",
        )
    return path


def _unusable_error(path: Path, error: OSError) -> TagloomError:
    return TagloomError(
        f"the directory of sockets {path} cannot be used: {error.strerror}",
        hint="let XDG_RUNTIME_DIR name a directory of your own that is there",
    )


def process_sockets(directory: Path) -> dict[int, list[Path]]:
    """Return the sockets of a directory by their process number, including leftovers of dead processes."""
    found: dict[int, list[Path]] = {}
    for name in sorted(os.listdir(directory)):
        if matched := _NAME.fullmatch(name):
            found.setdefault(int(matched[1]), []).append(directory / name)
    return found


def remove_leftovers(directory: Path) -> None:
    """Remove the sockets at which no process listens any longer."""
    for paths in process_sockets(directory).values():
        for path in paths:
            if is_left(path):
                path.unlink(missing_ok=True)
    for name in os.listdir(directory):
        matched = _NEW.fullmatch(name)
        if matched and not _is_process_alive(int(matched[1])):
            (directory / name).unlink(missing_ok=True)


def is_left(path: Path) -> bool:
    """Return True if no process listens at a socket any longer; does not block."""
    with socket.socket(socket.AF_UNIX) as own:
        own.setblocking(False)
        try:
            own.connect(str(path))
        except ConnectionRefusedError:
            return True
        except OSError:  # EAGAIN: its queue is full, so a process listens; or the path was removed meanwhile
            return False
    return False


def _is_process_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # a process of another user
        return True
    return True


def listen_in(directory: Path) -> tuple[socket.socket, Path]:
    """Return a new listening, non-blocking socket, and its path.

    Raises
    ------
    TagloomError
        If the path is too long.
    OSError
        If the socket cannot be created.
    """
    name = f"{os.getpid()}-{secrets.token_hex(4)}"
    path, hidden = directory / f"{name}.sock", directory / f".new-{name}"
    if len(os.fsencode(hidden)) > _LONGEST:
        raise TagloomError(
            f"the path of a socket is too long: {hidden}",
            wanted=f"at most {_LONGEST} bytes",
            got=len(os.fsencode(hidden)),
            hint="let XDG_RUNTIME_DIR name a directory with a shorter path",
        )
    made = socket.socket(socket.AF_UNIX)
    try:
        made.setblocking(False)
        made.bind(str(hidden))
        # Hidden until it listens: a visible socket that refuses would be removed as a leftover.
        os.chmod(hidden, 0o600)
        made.listen(16)
        hidden.rename(path)
    except BaseException:
        made.close()
        hidden.unlink(missing_ok=True)
        raise
    return made, path


def is_of_this_user(connection: socket.socket) -> bool:
    """Return True if the process at the other end of a connection belongs to this user.

    On systems without SO_PEERCRED, as macOS, the directory alone keeps other users out.
    """
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return bool(_CREDENTIALS.unpack(packed)[1] == os.geteuid())
