"""The tier on disk: an unnamed file for saved values."""

from __future__ import annotations

import os
import tempfile
from collections import deque
from functools import partial
from typing import Any

import numpy as np

from ..base.errors import GraphError
from ..streams.contract import Clock
from ..streams.cpu import ThreadStream
from ..streams.event import Event

Array = np.ndarray[Any, Any]
_PAGE = 4096  # bytes; extents begin at multiples of a page


class Extent:
    """A piece of the file, free again after the last reference to the object.

    Attributes
    ----------
    offset, size : int
        Bytes.
    """

    __slots__ = ("_tier", "offset", "size")

    def __init__(self, tier: DiskTier, offset: int, size: int) -> None:
        self._tier = tier
        self.offset: int = offset
        self.size: int = size

    def __del__(self) -> None:
        # A finalizer may run in any thread, in the middle of anything: so no lock, only an append.
        self._tier._freed_extents.append((self.offset, self.size))


class DiskTier:
    """Tier in a file, unlinked at its creation, with separate streams for writing and reading.

    Parameters
    ----------
    directory : str or path
    limit : int or None
        Bytes for values in the file.
    clock : Clock

    Attributes
    ----------
    peak_bytes : int
        Most bytes of values in the file so far.
    """

    def __init__(self, directory: str | os.PathLike[str], limit: int | None, clock: Clock) -> None:
        self.directory: str = os.fspath(directory)
        self.limit = limit
        self.peak_bytes = self._live = 0
        self.writing: ThreadStream = ThreadStream("disk/write", clock)
        self.reading: ThreadStream = ThreadStream("disk/read", clock)
        try:
            self._file, path = tempfile.mkstemp(prefix="tagloom-swap-", dir=self.directory)
        except OSError as error:
            raise GraphError(
                "no file for swapped values can be made",
                wanted="a directory that may be written to",
                got=f"{self.directory}: {error}",
                hint="name another directory as SwapPolicy(disk=...)",
            ) from error
        os.unlink(path)
        self._freed_extents: deque[tuple[int, int]] = deque()  # offset and size of freed extents, not in `_free` yet
        self._end = 0  # end of the part of the file where extents are or were, in bytes
        self._free: dict[int, list[int]] = {}  # size -> offsets

    @property
    def live_bytes(self) -> int:
        """Bytes of the values in the file."""
        while self._freed_extents:
            offset, size = self._freed_extents.popleft()
            self._live -= size
            self._free.setdefault(size, []).append(offset)
        return self._live

    def take(self, size: int) -> Extent | None:
        """Return a piece of the file; None if the limit leaves no room."""
        live = self.live_bytes + size
        if self.limit is not None and live > self.limit:
            return None
        self._live, self.peak_bytes = live, max(self.peak_bytes, live)
        # Only extents of equal size are reused: saved values of a loop have few sizes, and no search is needed.
        offsets = self._free.get(size)
        if offsets:
            return Extent(self, offsets.pop(), size)
        offset, self._end = self._end, self._end + -(-size // _PAGE) * _PAGE
        return Extent(self, offset, size)

    def write(self, source: Array, extent: Extent) -> Event[Extent]:
        """Write a contiguous array; the event's result is the extent, its error OSError if the disk is full."""
        work = partial(self._write_now, source, extent)
        return self.writing.submit(work, kind="DiskWrite", nbytes=extent.size)

    def read(self, extent: Extent, into: Array) -> Event[None]:
        """Read an extent into a contiguous array."""
        return self.reading.submit(partial(self.read_now, extent, into), kind="DiskRead", nbytes=extent.size)

    def _write_now(self, source: Array, extent: Extent) -> Extent:
        rest, offset = _view_bytes(source), extent.offset
        while rest.nbytes:
            done = os.pwrite(self._file, rest, offset)
            rest, offset = rest[done:], offset + done
        return extent

    def read_now(self, extent: Extent, into: Array) -> None:
        """Read an extent at once, into a contiguous array."""
        rest, offset = _view_bytes(into), extent.offset
        while rest.nbytes:
            done = os.preadv(self._file, [rest], offset)
            if not done:
                raise OSError(f"the file of swapped values in {self.directory} ends at byte {offset}")
            rest, offset = rest[done:], offset + done

    async def aclose(self) -> None:
        """Wait for reads and writes under way and close the file, whose space the system then frees."""
        if self._file < 0:
            return
        for stream in (self.writing, self.reading):
            running = stream.close()
            if running is not None:
                await running.over()
        for stream in (self.writing, self.reading):
            stream.join()
        if self._file >= 0:  # unless another call has closed the file during the waits
            os.close(self._file)
            self._file = -1

    def __del__(self) -> None:
        if getattr(self, "_file", -1) >= 0:
            os.close(self._file)


def _view_bytes(array: Array) -> memoryview:
    return memoryview(array.reshape(-1).view(np.uint8))  # type: ignore[arg-type]
