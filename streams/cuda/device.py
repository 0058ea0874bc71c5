"""A GPU as a device, by pycuda."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ...base.errors import TagflowError
from ...base.sizes import parse_size
from ..clock import LoopClock
from ..contract import Clock, Device
from ..event import Event
from .core import Core
from .memory import BlockPool, CudaBuffer, is_lent, lend
from .stream import CudaEvent, CudaStream

Array = NDArray[Any]


class CudaDevice(Device):
    """A GPU with three streams, a pool of its memory and a pool of page-locked memory of the host.

    Making one opens the GPU's primary context, which can take a second.

    Parameters
    ----------
    name : str
        "/job:localhost/task:0/device:CUDA:0".
    index : int
        Which GPU, as the driver counts them.
    limit : int or str, optional
        Bytes that arrays in its memory may have, as a number or like "8GiB". None for what it has.
    clock : Clock, optional
        By default one of its own, of the event loop's time.
    most_cached, most_pinned : int
        Bytes of free memory that are kept for new arrays, on the GPU and page-locked on the host.

    Raises
    ------
    CudaUnavailable
        If pycuda is not installed or finds no driver.
    CudaError
        If the GPU can not be opened.
    """

    compute: CudaStream
    host_to_device: CudaStream
    device_to_host: CudaStream

    def __init__(
        self,
        name: str,
        index: int = 0,
        *,
        limit: SupportsIndex | str | None = None,
        clock: Clock | None = None,
        most_cached: int = 1 << 30,
        most_pinned: int = 1 << 28,
    ) -> None:
        most = None if limit is None else parse_size(limit, f"memory limit of {name}")
        self.name = name
        self.clock = clock or LoopClock()
        self._core = Core(name, index, self.clock, limit=most, most_cached=most_cached, most_pinned=most_pinned)
        self.compute, self.host_to_device, self.device_to_host = self._core.streams
        weakref.finalize(self, self._core.drop).atexit = False  # the core sees to that

    @property
    def pool(self) -> BlockPool:
        """The GPU's memory."""
        return self._core.memory

    @property
    def host_pool(self) -> BlockPool:
        """Page-locked memory."""
        return self._core.host

    @property
    def live_bytes(self) -> int:
        return self.pool.live_bytes

    @property
    def peak_bytes(self) -> int:
        return self.pool.peak_bytes

    @property
    def limit(self) -> int | None:
        return self.pool.limit

    def allocate(self, shape: tuple[int, ...], dtype: DTypeLike) -> CudaBuffer:
        """Return a new buffer with anything in it; for work on this device's streams.

        Raises
        ------
        MemoryError
            If there is no room.
        DtypeError
            If a GPU can not have such values.
        """
        return CudaBuffer(self.pool, shape, dtype)

    def copy_in(
        self,
        source: Array | Event[Array],
        *,
        into: CudaBuffer | None = None,
        after: Iterable[Event[Any]] = (),
    ) -> Event[CudaBuffer]:
        kept: list[Array] = []  # page-locked, until the copy is done

        def copy() -> CudaBuffer:
            array = _promised(source)
            buffer = self.allocate(array.shape, array.dtype) if into is None else self._checked(into, like=array)
            if buffer.nbytes:
                kept.append(array if is_lent(array, self.host_pool) else self._staged(array))
                stream = self.host_to_device.inner
                self._core.driver.memcpy_htod_async(buffer.pointer, _bytes(kept[0]), stream)
            return buffer

        ahead = self._is_own(source) or (isinstance(source, np.ndarray) and is_lent(source, self.host_pool))
        return self._submit_copy(self.host_to_device, copy, source, after, "HostToDevice", ahead=ahead)

    def copy_out(
        self,
        source: CudaBuffer | Event[CudaBuffer],
        *,
        into: Array | None = None,
        after: Iterable[Event[Any]] = (),
    ) -> Event[Array]:
        direct = into is None or is_lent(into, self.host_pool)

        def copy() -> Array:
            buffer = self._checked(_promised(source), like=into)
            array = into if into is not None and direct else lend(self.host_pool, buffer.shape, buffer.dtype)
            if buffer.nbytes:
                stream = self.device_to_host.inner
                self._core.driver.memcpy_dtoh_async(_bytes(array), buffer.pointer, stream)
            return array

        def fill(array: Array) -> Array:
            assert into is not None
            into[...] = array
            return into

        then = None if direct else fill  # not by the driver: it would hold the device's thread until it is done
        return self._submit_copy(self.device_to_host, copy, source, after, "DeviceToHost", ahead=True, then=then)

    async def aclose(self) -> None:
        self._core.stop()
        await self._core.closed
        self._core.join()

    def _submit_copy(
        self,
        stream: CudaStream,
        copy: Callable[[], Any],
        source: Any,
        after: Iterable[Event[Any]],
        kind: str,
        **how: Any,
    ) -> Event[Any]:
        first = [source] if isinstance(source, Event) else []
        return stream.submit(
            copy, after=[*first, *after], kind=kind, nbytes=lambda: int(_promised(source).nbytes), **how
        )

    def _is_own(self, source: object) -> bool:
        """Say whether it is the event of work on this device, which needs no waiting of the host."""
        return isinstance(source, CudaEvent) and source.core is self._core

    def _staged(self, array: Array) -> Array:
        """Return a copy in page-locked memory: the driver would make one otherwise, and nobody knows when."""
        copy = lend(self.host_pool, array.shape, array.dtype)
        copy[...] = array
        return copy

    def _checked(self, buffer: CudaBuffer, like: Array | None) -> CudaBuffer:
        """Return a buffer of this device that has an array's shape and dtype."""
        if not (isinstance(buffer, CudaBuffer) and buffer.is_in(self.pool)):
            raise TagflowError(
                f"{self.name} copies to and from its own memory only",
                got=buffer,
                hint="copy by the device that has it",
            )
        if like is not None and (buffer.shape, buffer.dtype) != (like.shape, like.dtype):
            raise TagflowError(
                f"{self.name} copies between equal shapes and dtypes only",
                wanted=buffer,
                got=f"{like.dtype}{list(like.shape)}",
            )
        return buffer


def _promised(source: Any) -> Any:
    """Return what a copy is of; if that is not done yet the device waits for it."""
    if isinstance(source, CudaEvent):
        return source.promised()
    return source.result() if isinstance(source, Event) else source


def _bytes(array: Array) -> NDArray[np.uint8]:
    """Return the bytes of a contiguous array: pycuda takes no dtypes that the buffer protocol does not know."""
    return array.reshape(-1).view(np.uint8)
