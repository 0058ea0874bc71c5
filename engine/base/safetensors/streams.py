"""How bytes get into a file: by the operating system's cache, or, where they are many, straight to the disk.

A checkpoint in the cache takes as much memory once more, which others had, and a core is busy with its pages meanwhile.
Straight to the disk it goes from a buffer of 4 MiB, which stays in the cache of the processor.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
from collections.abc import Callable

import numpy as np

Check = Callable[[], None]

PIECE = 1 << 22  # bytes that go to the disk at once; between them a writer may be stopped
DIRECT = 1 << 24  # bytes of a file that is worth a buffer
_O_DIRECT = getattr(os, "O_DIRECT", 0)  # Linux has it


class Stream:
    """Bytes that are written to a file one after the other, by the operating system's cache.

    Parameters
    ----------
    file : int
        Descriptor.
    check : callable
        Called in front of each piece; what it raises ends the writing.
    """

    def __init__(self, file: int, check: Check) -> None:
        self._file = file
        self._check = check

    def write(self, data: memoryview) -> None:
        """Write bytes."""
        while data:
            self._check()
            data = data[os.write(self._file, data[:PIECE]) :]

    def finish(self) -> None:
        """Write what was kept back."""


class DirectStream(Stream):
    """Bytes that are written past the cache, in whole pieces; the rest at the end is not."""

    def __init__(self, file: int, check: Check) -> None:
        super().__init__(file, check)
        self._is_direct = True
        self._buffer = mmap.mmap(-1, PIECE)  # begins at a page, as the disk wants it
        self._bytes = np.frombuffer(self._buffer, np.uint8)
        self._count = 0  # bytes in the buffer

    def write(self, data: memoryview) -> None:
        """Write bytes, or keep them until there is a whole piece."""
        if not self._is_direct:
            return super().write(data)
        source, done = np.frombuffer(data, np.uint8), 0
        while done < len(source):
            size = min(PIECE - self._count, len(source) - done)
            np.copyto(self._bytes[self._count : self._count + size], source[done : done + size])
            self._count, done = self._count + size, done + size
            if self._count == PIECE:
                self._write_piece()
            if not self._is_direct:
                return super().write(data[done:])
        return None

    def finish(self) -> None:
        """Write what there is beyond the last whole piece."""
        if self._is_direct:
            self._leave()

    def _write_piece(self) -> None:
        self._check()
        try:
            written = os.write(self._file, self._buffer)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            written = 0  # a file system that has the flag, and not what it says
        if written == PIECE:
            self._count = 0
        else:
            self._leave(written)

    def _leave(self, written: int = 0) -> None:
        """Go on by the cache, with what is in the buffer behind some bytes."""
        self._is_direct = False
        fcntl.fcntl(self._file, fcntl.F_SETFL, fcntl.fcntl(self._file, fcntl.F_GETFL) & ~_O_DIRECT)
        super().write(memoryview(self._bytes[written : self._count].tobytes()))


def stream_to(file: int, size: int, check: Check) -> Stream:
    """Return a stream to a new file that will have about so many bytes."""
    if _O_DIRECT and size >= DIRECT:
        try:
            fcntl.fcntl(file, fcntl.F_SETFL, fcntl.fcntl(file, fcntl.F_GETFL) | _O_DIRECT)
        except OSError:  # a file system that has no such way
            return Stream(file, check)
        return DirectStream(file, check)
    return Stream(file, check)
