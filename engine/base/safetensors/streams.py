"""Streams of bytes into a file: through the page cache, or, for large files, directly to the disk.

A checkpoint in the page cache takes its size in memory once more, at the expense of other data, and keeps a core busy
with pages. Directly, it is written from a buffer of 4 MiB, which stays in the processor's cache.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
from collections.abc import Callable

import numpy as np

Check = Callable[[], None]

PIECE = 1 << 22  # bytes written to the disk at once; between pieces a writer may be stopped
DIRECT = 1 << 24  # least bytes of a file that justify a buffer
_O_DIRECT = getattr(os, "O_DIRECT", 0)  # Linux has it


class Stream:
    """Bytes written to a file in order, through the page cache.

    Parameters
    ----------
    file : int
        Descriptor.
    check : callable
        Called before each piece; an exception ends the writing.
    """

    def __init__(self, file: int, check: Check) -> None:
        self._file = file
        self._check = check

    def write(self, data: memoryview) -> None:
        """Write bytes."""
        while data:
            self._check()
            # os.write may write only a part.
            data = data[os.write(self._file, data[:PIECE]) :]

    def finish(self) -> None:
        """Write all buffered bytes."""


class DirectStream(Stream):
    """Bytes written past the page cache, in whole pieces; a remainder at the end goes through the cache."""

    def __init__(self, file: int, check: Check) -> None:
        super().__init__(file, check)
        self._is_direct = True
        self._buffer = mmap.mmap(-1, PIECE)  # page-aligned, as O_DIRECT requires
        self._bytes = np.frombuffer(self._buffer, np.uint8)
        self._count = 0  # bytes in the buffer

    def write(self, data: memoryview) -> None:
        """Write bytes, buffering them up to a whole piece."""
        if not self._is_direct:
            return super().write(data)
        source, done = np.frombuffer(data, np.uint8), 0
        while done < len(source):
            size = min(PIECE - self._count, len(source) - done)
            np.copyto(self._bytes[self._count : self._count + size], source[done : done + size])
            self._count, done = self._count + size, done + size
            if self._count == PIECE:
                self._write_piece()
            # The write of the piece may have fallen back to the page cache, where the rest then goes.
            if not self._is_direct:
                return super().write(data[done:])
        return None

    def finish(self) -> None:
        """Write the bytes after the last whole piece."""
        if self._is_direct:
            self._continue_through_cache()

    def _write_piece(self) -> None:
        """Write the full buffer to the disk; fall back to the page cache if the file system refuses or writes less."""
        self._check()
        try:
            written = os.write(self._file, self._buffer)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            written = 0  # a file system that accepts the flag, but not such writes
        if written == PIECE:
            self._count = 0
        else:
            self._continue_through_cache(written)

    def _continue_through_cache(self, written: int = 0) -> None:
        """Continue through the page cache, starting with the buffered bytes after the first `written`."""
        self._is_direct = False
        # The remainder is no whole block, as direct writes have to be.
        fcntl.fcntl(self._file, fcntl.F_SETFL, fcntl.fcntl(self._file, fcntl.F_GETFL) & ~_O_DIRECT)
        super().write(memoryview(self._bytes[written : self._count].tobytes()))


def stream_to(file: int, size: int, check: Check) -> Stream:
    """Return a stream to a new file of approximately `size` bytes."""
    if _O_DIRECT and size >= DIRECT:
        try:
            fcntl.fcntl(file, fcntl.F_SETFL, fcntl.fcntl(file, fcntl.F_GETFL) | _O_DIRECT)
        except OSError:  # a file system without direct writes
            return Stream(file, check)
        return DirectStream(file, check)
    return Stream(file, check)
