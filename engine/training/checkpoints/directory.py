"""A directory of checkpoints: each appears and disappears atomically, whatever ends the process.

A checkpoint is a directory whose name contains its step. Its files are written under a temporary name and synced to the
disk before the directory is renamed. A removed checkpoint is renamed first. Leftovers of dead processes are recognised
by their missing lock, and removed by the next writing process.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ...base.errors import CheckpointError
from ...base.safetensors import sync_directory, sync_file, write_tensors
from .manifest import CHECKSUMS, NAME, Contents, manifest_bytes

# The step, and the attempt if not the first. The numbers of digits are bounded so that a stray name never becomes a
# checkpoint with a step beyond int64.
_FINAL = re.compile(r"checkpoint-(\d{1,18})(?:\.(\d{1,9}))?")
_WRITING, _REMOVED = ".writing-", ".removed-"
Check = Callable[[], None]  # raises to stop writing


@dataclass(frozen=True, order=True, slots=True)
class Entry:
    """A checkpoint of a directory.

    Attributes
    ----------
    step : int
    attempt : int
        Number of earlier checkpoints of this step.
    path : Path
    """

    step: int
    attempt: int
    path: Path


def list_entries(directory: Path) -> list[Entry]:
    """Return the checkpoints of a directory, oldest step first; none if the directory does not exist."""
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise file_error("a directory cannot be read", directory, error) from error
    matches = [(found, name) for name in names if (found := _FINAL.fullmatch(name))]
    return sorted(Entry(int(found[1]), int(found[2] or 0), directory / name) for found, name in matches)


def write_checkpoint(directory: Path, contents: Contents, check: Check, checksums: bool = True) -> Path:
    """Write a checkpoint and return its path; blocks, so call it in a thread.

    Parameters
    ----------
    directory : Path
        Made if missing.
    contents : Contents
        Its arrays are released one by one, as they are written.
    check : callable
        Called repeatedly; an error raised by the call ends the writing and removes the unfinished checkpoint.
    checksums : bool
        Save the checksums of arrays and of the manifest.

    Raises
    ------
    CheckpointError
        If the checkpoint cannot be written; no part of it remains, and older checkpoints are untouched.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        remove_leftovers(directory)
        with _working_directory(directory) as (path, descriptor):
            _write_files(path, descriptor, contents, check, checksums)
            check()
            final = _rename_to_final(path, directory, contents.step)
        # The rename itself is durable only after a sync of the parent directory.
        sync_directory(str(directory))
    except OSError as error:
        raise file_error("a checkpoint cannot be written", directory, error) from error
    return final


def remove_checkpoint(entry: Entry) -> None:
    """Remove a checkpoint: rename it, so that it disappears at once, then delete its files."""
    gone = _make_hidden_path(entry.path.parent, _REMOVED)
    try:
        entry.path.rename(gone)
    except FileNotFoundError:  # removed by another process
        return
    except OSError as error:
        raise file_error("an old checkpoint cannot be removed", entry.path, error) from error
    shutil.rmtree(gone, ignore_errors=True)


def remove_leftovers(directory: Path) -> None:
    """Remove the unfinished and removed checkpoints of processes that have died."""
    for name in os.listdir(directory):
        if name.startswith((_WRITING, _REMOVED)):
            _remove_unlocked(directory / name)


def _remove_unlocked(path: Path) -> None:
    """Remove a leftover directory unless a living writer holds its lock."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:  # removed by another process, or not a directory, such as a link
        return
    try:
        # The kernel releases the lock of a dead process, so a lock means a living writer.
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # the lock is held, so the writer is alive
        return
    else:
        shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(descriptor)


def _make_hidden_path(directory: Path, prefix: str) -> Path:
    """Return a path that no other writer uses, by 64 random bits."""
    return directory / (prefix + secrets.token_hex(8))


@contextmanager
def _working_directory(directory: Path) -> Iterator[tuple[Path, int]]:
    """Make and lock a directory for the block; yield its path and descriptor.

    At the end of the block the directory is removed with its files, unless the block has renamed it.
    """
    descriptor = None
    while descriptor is None:
        path = _make_hidden_path(directory, _WRITING)
        descriptor = _make_locked_directory(path)
    try:
        yield path, descriptor
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(descriptor)


def _make_locked_directory(path: Path) -> int | None:
    """Make, open and lock a directory; None if another process removed it as a leftover before the lock."""
    path.mkdir()
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        path.rmdir()
        raise
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    # Another writer may have taken the directory for a leftover before it was locked, and removed it.
    if path.exists():
        return descriptor
    os.close(descriptor)
    return None


def _write_files(path: Path, descriptor: int, contents: Contents, check: Check, checksums: bool) -> None:
    """Write and sync the files of a checkpoint, the manifest last, because it contains the checksums."""
    sums: dict[str, dict[str, list[int]]] = {}  # for each file, for each of its tensors
    for name, tensors in contents.files.items():
        with _new_file(name, descriptor) as file:
            file_sums = sums.setdefault(name, {}) if checksums else None
            write_tensors(file, str(path / name), _pop_all(tensors), {"format": "tagloom"}, check, file_sums)
            sync_file(file)
    if checksums:
        contents.manifest[CHECKSUMS] = sums
    with _new_file(NAME, descriptor) as file:
        data = memoryview(manifest_bytes(contents.manifest))
        while data:
            data = data[os.write(file, data) :]
        sync_file(file)
    os.fsync(descriptor)


@contextmanager
def _new_file(name: str, directory: int) -> Iterator[int]:
    """Create a file in the directory of a descriptor; yield the file's descriptor, open in the block."""
    file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666, dir_fd=directory)
    try:
        yield file
    finally:
        os.close(file)


def _pop_all(tensors: list[tuple[str, object]]) -> Iterator[tuple[str, object]]:
    """Yield tensors in order and remove each from the list, so that an array is freed when written."""
    tensors.reverse()  # removing the last element of a list is cheap
    while tensors:
        yield tensors.pop()


def _rename_to_final(path: Path, directory: Path, step: int) -> Path:
    """Rename a checkpoint to its final, unused name; return the new path."""
    attempts = [entry.attempt for entry in list_entries(directory) if entry.step == step]
    attempt = max(attempts, default=-1) + 1
    while True:
        final = directory / (f"checkpoint-{step:010d}" + (f".{attempt}" if attempt else ""))
        # Another process may take the name meanwhile: a rename onto a filled directory fails, and the next is tried.
        try:
            path.rename(final)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            attempt += 1
        else:
            return final


_HINTS = {
    errno.ENOSPC: "make room there, or keep fewer checkpoints",
    errno.EFBIG: "allow larger files there",
    errno.EDQUOT: "make room there, or keep fewer checkpoints",
    errno.EROFS: "give a directory that can be written to",
    errno.EACCES: "give a directory that can be written to",
    errno.EPERM: "give a directory that can be written to",
}


def file_error(what: str, path: object, error: OSError) -> CheckpointError:
    """Return the CheckpointError about a failed operation on a file or directory."""
    reason = error.strerror or str(error)
    hint = _HINTS.get(error.errno or 0, "look for the directory and its permissions")
    return CheckpointError(f"{what}: {reason}", file=error.filename or path, hint=hint)
