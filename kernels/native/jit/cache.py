"""Compiled code on disk, for reuse by other processes.

The directory is ``$TAGLOOM_CACHE``, or ``tagloom`` in ``$XDG_CACHE_HOME`` or ``~/.cache``; an empty ``$TAGLOOM_CACHE``
disables the cache. A file's name is a digest of everything its code depends on; the file holds a digest of name and
code. Truncated, changed or renamed files, and files of other users, are not loaded. Files appear whole by renaming, so
that any number of threads and processes may share a directory.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import tempfile
from pathlib import Path

MOST_FILES = 512  # beyond, the oldest files are removed

_MAGIC = b"tagloom object 1\n"
_logger = logging.getLogger("tagloom")


def cache_directory() -> Path | None:
    """Return the directory of the cache, or None if disabled."""
    given = os.environ.get("TAGLOOM_CACHE")
    if given is not None:
        return Path(given) if given else None
    with contextlib.suppress(RuntimeError):  # this user has no home directory
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tagloom"
    return None


def key_of(*parts: str) -> str:
    """Return a digest of texts, as the name of code that depends on them."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def load_code(key: str) -> bytes | None:
    """Return the code of a name; None unless present, intact and written by this user."""
    folder = cache_directory()
    if folder is None:
        return None
    try:
        # Each system call releases the interpreter's lock, so that there are few.
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
    head = _MAGIC + _digest_of(key, content[len(_MAGIC) + 32 :])
    return content[len(head) :] if content.startswith(head) else None


def store_code(key: str, code: bytes) -> None:
    """Write code to the cache; if impossible, log a debug message."""
    folder = cache_directory()
    if folder is None:
        return
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=folder, suffix=".new")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(_MAGIC + _digest_of(key, code) + code)
            os.replace(name, folder / f"{key}.o")
        except BaseException:
            os.unlink(name)
            raise
        _drop_oldest(folder)
    except OSError as error:
        _logger.debug("compiled code is not kept in %s: %s", folder, error)


def _digest_of(key: str, code: bytes) -> bytes:
    return hashlib.sha256(key.encode() + code).digest()


def _is_ours(found: os.stat_result) -> bool:
    """Return True if a file belongs to this user, and no other user may write to it."""
    return not hasattr(os, "getuid") or (found.st_uid == os.getuid() and not found.st_mode & 0o022)


def _drop_oldest(folder: Path) -> None:
    """Remove the oldest files if there are too many; other processes may do the same."""
    files = [entry for entry in os.scandir(folder) if entry.name.endswith((".o", ".new"))]
    if len(files) <= MOST_FILES:
        return
    ages = []
    for entry in files:
        with contextlib.suppress(OSError):
            ages.append((entry.stat().st_mtime, entry.path))
    # down to three quarters, so that the next stores need not remove any
    for _, path in sorted(ages)[: len(ages) - MOST_FILES * 3 // 4]:
        with contextlib.suppress(OSError):
            os.unlink(path)
