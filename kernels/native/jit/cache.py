"""Compiled code on disk, so that another process need not compile it again.

The directory is ``$TAGLOOM_CACHE``, or ``tagloom`` in ``$XDG_CACHE_HOME`` or ``~/.cache``; with an empty
``$TAGLOOM_CACHE`` nothing is kept. A file is named by all that its code depends on, and holds a digest of that name and
the code. What was cut off, changed, renamed, or is another user's is not loaded. Files appear whole, so that any number
of threads and processes may share a directory.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import tempfile
from pathlib import Path

MOST_FILES = 512  # the oldest go

_MAGIC = b"tagloom object 1\n"
_logger = logging.getLogger("tagloom")


def directory() -> Path | None:
    """Return where code is kept, or None if it is not."""
    given = os.environ.get("TAGLOOM_CACHE")
    if given is not None:
        return Path(given) if given else None
    with contextlib.suppress(RuntimeError):  # nobody's home
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tagloom"
    return None


def key_of(*parts: str) -> str:
    """Return the name of code that depends on some texts."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def load(key: str) -> bytes | None:
    """Return the code of a name; None if it is not there, or not as it was stored by this user."""
    folder = directory()
    if folder is None:
        return None
    try:
        # At each look at the file others may take the interpreter's lock, so there are few.
        handle = os.open(folder / f"{key}.o", os.O_RDONLY)
        try:
            found = os.fstat(handle)
            if not _is_ours(found):
                return None
            content = os.read(handle, found.st_size)
        finally:
            os.close(handle)
    except OSError:
        return None
    head = _MAGIC + _digest(key, content[len(_MAGIC) + 32 :])
    return content[len(head) :] if content.startswith(head) else None


def store(key: str, code: bytes) -> None:
    """Keep code; where that is not possible, it is not kept."""
    folder = directory()
    if folder is None:
        return
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=folder, suffix=".new")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(_MAGIC + _digest(key, code) + code)
            os.replace(name, folder / f"{key}.o")
        except BaseException:
            os.unlink(name)
            raise
        _drop_oldest(folder)
    except OSError as error:
        _logger.debug("compiled code is not kept in %s: %s", folder, error)


def _digest(key: str, code: bytes) -> bytes:
    return hashlib.sha256(key.encode() + code).digest()


def _is_ours(found: os.stat_result) -> bool:
    """Whether a file is this user's, and nobody else may write to it."""
    return not hasattr(os, "getuid") or (found.st_uid == os.getuid() and not found.st_mode & 0o022)


def _drop_oldest(folder: Path) -> None:
    """Remove files where there are too many; others may do so at the same time."""
    files = [entry for entry in os.scandir(folder) if entry.name.endswith((".o", ".new"))]
    if len(files) <= MOST_FILES:
        return
    ages = []
    for entry in files:
        with contextlib.suppress(OSError):
            ages.append((entry.stat().st_mtime, entry.path))
    for _, path in sorted(ages)[: len(ages) - MOST_FILES * 3 // 4]:
        with contextlib.suppress(OSError):
            os.unlink(path)
