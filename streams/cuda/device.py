"""A GPU as a device, by pycuda. See docs/design/0014-cuda.md."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, SupportsIndex, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ...base.errors import TagloomError
from ...base.sizes import parse_size
from ...kernels.memory.contexts import KernelContexts
from ...kernels.memory.swappable import SwappableArray
from ...kernels.memory.unreserved import allocate_unreserved, charge_reader, is_sole_owner
from ..capabilities import SwapSupport
from ..clock import LoopClock
from ..contract import Clock
from ..event import Event
from .arrays import CupyArrays, address_of, load_cupy
from .core import Core
from .memory import BlockPool, CudaBuffer, PinnedMemory, buffer_in, is_pinned, pinned_array
from .stream import CudaEvent, CudaStream

T = TypeVar("T")
Array = NDArray[Any]


class CudaDevice(SwapSupport):
    """A GPU with three streams, a pool of its memory and a pool of page-locked memory of the host.

    Where CuPy is installed it computes: its buffers are arrays of CuPy's, and sessions can have it. Without, it copies.
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
    computes : bool, optional
        Whether it computes, and CuPy has to be there. If it is, unless given.

    Attributes
    ----------
    pool, host_pool : BlockPool
        The GPU's memory, and page-locked memory.

    Raises
    ------
    CudaUnavailable
        If pycuda is not installed or finds no driver, or CuPy is not where it has to be.
    CudaError
        If the GPU can not be opened.
    """

    buffer: type[Any] = CudaBuffer
    pool: BlockPool
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
        computes: bool | None = None,
    ) -> None:
        most = None if limit is None else parse_size(limit, f"memory limit of {name}")
        self.name = name
        self.clock: Clock = clock or LoopClock()
        self.arrays: Any = load_cupy(computes)
        self._core = Core(
            name, index, self.clock, limit=most, most_cached=most_cached, most_pinned=most_pinned, cupy=self.arrays
        )
        self.pool, self.host_pool = self._core.memory, self._core.host
        self.contexts: KernelContexts = KernelContexts(self.pool.byte_counter)
        self.compute, self.host_to_device, self.device_to_host = self._core.streams
        weakref.finalize(self, self._core.drop).atexit = False  # the core sees to that
        self._cupy: CupyArrays | None = None
        if self.arrays is not None:
            self._cupy, self.buffer = CupyArrays(self._core, self.arrays), self.arrays.ndarray

    @property
    def live_bytes(self) -> int:
        return self.pool.live_bytes

    @property
    def peak_bytes(self) -> int:
        return self.pool.peak_bytes

    @property
    def limit(self) -> int | None:
        return self.pool.limit

    def call(self, function: Callable[..., T], *args: Any) -> T:
        return function(*args) if self._cupy is None else self._cupy.call(function, *args)

    def backpressure(self) -> Event[Any] | None:
        return None if self._cupy is None else self._cupy.backpressure()

    def owns(self, array: Any) -> bool:
        return self.arrays is not None and self.pool.counts(array)

    def allocate(self, shape: tuple[int, ...], dtype: DTypeLike) -> Any:
        """Return a new buffer with anything in it; in any thread.

        Raises
        ------
        MemoryError
            If there is no room.
        DtypeError
            If a GPU can not have such values.
        CudaError
            If the context is lost.
        """
        buffer = self._core.buffer(shape, dtype)
        return buffer if self._cupy is None else self._cupy.array(buffer)

    def allocate_unreserved(self, shape: tuple[int, ...], dtype: DTypeLike) -> Any:
        try:
            return allocate_unreserved(self.contexts, shape, np.dtype(dtype), self.allocate)
        except MemoryError:  # of the driver
            return None

    def charge(self, buffer: Any) -> None:
        charge_reader(self.pool.byte_counter, buffer)

    def is_sole_owner(self, holder: SwappableArray) -> bool:
        return is_sole_owner(self.pool.byte_counter, holder)

    def make_readonly(self, buffer: Any) -> bool:
        return self.arrays is not None  # kernels in Python write into nothing that they are given

    def host_memory(self, limit: int | None = None) -> PinnedMemory:
        return PinnedMemory(self.host_pool, limit)

    def copy_in(
        self,
        source: Array | Event[Array],
        *,
        into: Any = None,
        after: Iterable[Event[Any]] = (),
    ) -> Event[Any]:
        copy = partial(self._enqueue_in, source, into, [])  # no closure: a traceback would keep what it has
        ahead = self._is_at_hand(source)
        return self._submit_copy(self.host_to_device, copy, source, after, "HostToDevice", ahead=ahead)

    def copy_out(
        self,
        source: Any,
        *,
        into: Array | None = None,
        after: Iterable[Event[Any]] = (),
    ) -> Event[Array]:
        if self.arrays is not None and _may_be_a_view(source, self.compute):
            rows = partial(self.call, _in_rows, self.arrays, source)
            first = [source] if isinstance(source, Event) else []
            source = self.compute.submit(rows, after=[*first, *(after := tuple(after))], ahead=True)
        copy = partial(self._enqueue_out, source, into)
        direct = into is None or is_pinned(into, self.host_pool)  # else the driver would hold the device's thread
        then = None if direct or into is None else partial(_filled, into)
        return self._submit_copy(self.device_to_host, copy, source, after, "DeviceToHost", ahead=True, then=then)

    def copy_all_in(self, pairs: Sequence[tuple[Array, Any]], *, after: Sequence[Event[Any]] = ()) -> Event[None]:
        nbytes = sum(into.nbytes for _, into in pairs)
        copy = partial(self._enqueue_all_in, pairs, [])
        ahead = all(self._is_at_hand(source) for source, _ in pairs)
        return self.host_to_device.submit(copy, after=after, kind="HostToDevice", nbytes=nbytes, ahead=ahead)

    def copy_all_out(self, pairs: Sequence[tuple[Any, Array]], *, after: Sequence[Event[Any]] = ()) -> Event[None]:
        nbytes = sum(source.nbytes for source, _ in pairs)
        copied: list[Array] = []
        copy = partial(self._enqueue_all_out, pairs, copied)
        direct = all(is_pinned(into, self.host_pool) for _, into in pairs)
        then = None if direct else partial(_fill_all, pairs, copied)
        return self.device_to_host.submit(copy, after=after, kind="DeviceToHost", nbytes=nbytes, ahead=True, then=then)

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
            copy, after=[*first, *after], kind=kind, nbytes=lambda: int(_enqueued_result(source).nbytes), **how
        )

    def _enqueue_in(self, source: Any, into: Any, kept: list[Array]) -> Any:
        """Enqueue a copy to the device; what it reads must be kept until it is done."""
        array = _enqueued_result(source)
        buffer = self.allocate(array.shape, array.dtype) if into is None else self._checked(into, like=array)
        if buffer.nbytes:
            kept.append(array if is_pinned(array, self.host_pool) else self._staged(array))
            self.compute.make_wait(self.host_to_device, buffer_in(buffer).reusable_after)
            self._core.driver.memcpy_htod_async(address_of(buffer), _bytes(kept[-1]), self.host_to_device.inner)
        return buffer

    def _enqueue_out(self, source: Any, into: Array | None) -> Array:
        """Enqueue a copy to page-locked memory; return that: it is not `into` where that is ordinary memory."""
        buffer = self._checked(_enqueued_result(source), like=into)
        direct = into is not None and is_pinned(into, self.host_pool)
        array = into if into is not None and direct else pinned_array(self.host_pool, buffer.shape, buffer.dtype)
        if buffer.nbytes:
            self._core.driver.memcpy_dtoh_async(_bytes(array), address_of(buffer), self.device_to_host.inner)
        return array

    def _enqueue_all_in(self, pairs: Sequence[tuple[Array, Any]], kept: list[Array]) -> None:
        for source, into in pairs:
            self._enqueue_in(source, into, kept)

    def _enqueue_all_out(self, pairs: Sequence[tuple[Any, Array]], copied: list[Array]) -> None:
        for source, into in pairs:
            copied.append(self._enqueue_out(source, into))

    def _is_at_hand(self, source: object) -> bool:
        """Say whether the host need not wait for it: page-locked, or the event of work on this device."""
        if isinstance(source, np.ndarray):
            return is_pinned(source, self.host_pool)
        return isinstance(source, CudaEvent) and source.core is self._core

    def _staged(self, array: Array) -> Array:
        """Return a copy in page-locked memory: the driver would make one otherwise, and nobody knows when."""
        copy = pinned_array(self.host_pool, array.shape, array.dtype)
        copy[...] = array
        return copy

    def _checked(self, buffer: Any, like: Array | None) -> Any:
        """Return a buffer of this device that has an array's shape and dtype."""
        if not self.pool.counts(buffer):
            raise TagloomError(
                f"{self.name} copies to and from its own memory only",
                got=repr(buffer) if isinstance(buffer, CudaBuffer) else type(buffer).__name__,
                hint="copy by the device that has it",
            )
        if not buffer.flags.c_contiguous:
            raise TagloomError(
                f"{self.name} copies whole arrays only",
                wanted="one whose rows follow each other",
                got=f"a view with strides {buffer.strides}",
                hint="copy it on the device first",
            )
        if like is not None and (buffer.shape, buffer.dtype) != (like.shape, like.dtype):
            raise TagloomError(
                f"{self.name} copies between equal shapes and dtypes only",
                wanted=f"{buffer.dtype}{list(buffer.shape)}",
                got=f"{like.dtype}{list(like.shape)}",
            )
        return buffer


def _may_be_a_view(source: Any, compute: CudaStream) -> bool:
    """Say whether rows of what is copied may not follow each other."""
    if isinstance(source, Event):
        return source.stream is compute
    return not source.flags.c_contiguous


def _in_rows(xp: Any, source: Any) -> Any:
    return xp.ascontiguousarray(_enqueued_result(source))


def _enqueued_result(source: Any) -> Any:
    """Return what a copy is of; if that is not done yet the device waits for it."""
    if isinstance(source, CudaEvent):
        return source.enqueued_result()
    return source.result() if isinstance(source, Event) else source


def _filled(into: Array, array: Array) -> Array:
    into[...] = array
    return into


def _fill_all(pairs: Sequence[tuple[Any, Array]], copied: list[Array], _: None) -> None:
    for (_buffer, into), array in zip(pairs, copied, strict=True):
        if array is not into:
            into[...] = array


def _bytes(array: Array) -> NDArray[np.uint8]:
    """Return the bytes of a contiguous array: pycuda takes no dtypes that the buffer protocol does not know."""
    return array.reshape(-1).view(np.uint8)
