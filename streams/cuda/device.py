"""A GPU as a device, by pycuda. See docs/design/0014-cuda.md."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeVar

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
from .core import Core, MemoryBounds
from .memory import BlockPool, CudaBuffer, PinnedMemory, buffer_in, is_pinned, pinned_array
from .stream import CudaEvent, CudaStream

if TYPE_CHECKING:
    from ...kernels.native.generator import CodeGenerator

T = TypeVar("T")
Array = NDArray[Any]


class CudaDevice(SwapSupport):
    """A GPU with three streams, a pool of its memory and a pool of page-locked host memory.

    With CuPy the device computes: its buffers are CuPy arrays, and sessions can use the device. Without CuPy it only
    copies. The constructor opens the GPU's primary context, which can take a second.

    Parameters
    ----------
    name : str
        "/job:localhost/task:0/device:CUDA:0".
    index : int
        Number of the GPU in the driver's count.
    limit : int or str, optional
        Bytes for arrays in its memory, as a number or like "8GiB". None for all of its memory.
    clock : Clock, optional
        By default a new LoopClock.
    most_cached, most_pinned : int
        Bytes of free memory kept for new arrays, on the GPU and page-locked on the host.
    computes : bool, optional
        True to require CuPy, False to do without; by default the device computes if CuPy is installed.

    Attributes
    ----------
    pool, host_pool : BlockPool
        Memory of the GPU, and page-locked memory of the host.

    Raises
    ------
    CudaUnavailable
        If pycuda is not installed or finds no driver, or CuPy is required and missing.
    CudaError
        If the GPU cannot be opened.
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
        self._core = Core(name, index, self.clock, MemoryBounds(most, most_cached, most_pinned), self.arrays)
        self.pool, self.host_pool = self._core.memory, self._core.host
        self.contexts: KernelContexts = KernelContexts(self.pool.byte_counter)
        self.compute, self.host_to_device, self.device_to_host = self._core.streams
        weakref.finalize(self, self._core.stop_in_thread).atexit = False  # at exit the core ends its thread
        self._cupy: CupyArrays | None = None
        if self.arrays is not None:
            self._cupy, self.buffer = CupyArrays(self._core, self.arrays), self.arrays.ndarray

    @property
    def generator(self) -> CodeGenerator | None:
        if self.arrays is None:
            return None
        from ...kernels.native.cuda.generator import cuda_generator  # loads all writers of CUDA C

        return cuda_generator(self.arrays)

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
        """Return a new, uninitialised buffer; in any thread.

        Raises
        ------
        MemoryError
            If there is no room.
        DtypeError
            If GPU memory cannot hold values of this dtype.
        CudaError
            If the context is lost.
        """
        buffer = self._core.make_buffer(shape, dtype)
        return buffer if self._cupy is None else self._cupy.make_array(buffer)

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
        return self.arrays is not None  # CuPy kernels never write into their inputs

    def host_memory(self, limit: int | None = None) -> PinnedMemory:
        return PinnedMemory(self.host_pool, limit)

    def copy_in(
        self,
        source: Array | Event[Array],
        *,
        into: Any = None,
        after: Iterable[Event[Any]] = (),
    ) -> Event[Any]:
        copy = partial(self._enqueue_in, source, into, [])  # no closure: tracebacks would keep its cells alive
        ahead = self._can_enqueue_ahead(source)
        return self._submit_copy(self.host_to_device, copy, source, after, "HostToDevice", ahead=ahead)

    def copy_out(
        self,
        source: Any,
        *,
        into: Array | None = None,
        after: Iterable[Event[Any]] = (),
    ) -> Event[Array]:
        if self.arrays is not None and _may_be_a_view(source, self.compute):
            # The driver copies contiguous memory only, and only the compute stream knows whether a result is.
            rows = partial(self.call, _make_contiguous, self.arrays, source)
            first = [source] if isinstance(source, Event) else []
            source = self.compute.submit(rows, after=[*first, *(after := tuple(after))], ahead=True)
        copy = partial(self._enqueue_out, source, into)
        direct = into is None or is_pinned(into, self.host_pool)  # else the driver would hold the device's thread
        then = None if direct or into is None else partial(_fill_array, into)
        return self._submit_copy(self.device_to_host, copy, source, after, "DeviceToHost", ahead=True, then=then)

    def copy_all_in(self, pairs: Sequence[tuple[Array, Any]], *, after: Sequence[Event[Any]] = ()) -> Event[None]:
        nbytes = sum(into.nbytes for _, into in pairs)
        copy = partial(self._enqueue_all_in, pairs, [])
        ahead = all(self._can_enqueue_ahead(source) for source, _ in pairs)
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
        """Submit a copy that waits for its source, if an event, and for the events in `after`."""
        first = [source] if isinstance(source, Event) else []
        return stream.submit(
            copy, after=[*first, *after], kind=kind, nbytes=lambda: int(_enqueued_result(source).nbytes), **how
        )

    def _enqueue_in(self, source: Any, into: Any, keepalive: list[Array]) -> Any:
        """Enqueue a copy to the device; `keepalive` keeps its source alive until the copy is done."""
        array = _enqueued_result(source)
        buffer = self.allocate(array.shape, array.dtype) if into is None else self._check_buffer(into, like=array)
        if buffer.nbytes:
            keepalive.append(array if is_pinned(array, self.host_pool) else self._copy_to_pinned(array))
            self.compute.make_wait(self.host_to_device, buffer_in(buffer).reusable_after)
            self._core.driver.memcpy_htod_async(
                address_of(buffer), _view_bytes(keepalive[-1]), self.host_to_device.inner
            )
        return buffer

    def _enqueue_out(self, source: Any, into: Array | None) -> Array:
        """Enqueue a copy to page-locked memory and return this array: `into`, unless `into` is ordinary memory."""
        buffer = self._check_buffer(_enqueued_result(source), like=into)
        direct = into is not None and is_pinned(into, self.host_pool)
        array = into if into is not None and direct else pinned_array(self.host_pool, buffer.shape, buffer.dtype)
        if buffer.nbytes:
            self._core.driver.memcpy_dtoh_async(_view_bytes(array), address_of(buffer), self.device_to_host.inner)
        return array

    def _enqueue_all_in(self, pairs: Sequence[tuple[Array, Any]], keepalive: list[Array]) -> None:
        for source, into in pairs:
            self._enqueue_in(source, into, keepalive)

    def _enqueue_all_out(self, pairs: Sequence[tuple[Any, Array]], copied: list[Array]) -> None:
        for source, into in pairs:
            copied.append(self._enqueue_out(source, into))

    def _can_enqueue_ahead(self, source: object) -> bool:
        """Return True if the host need not wait for a source: page-locked, or the event of work on this device."""
        if isinstance(source, np.ndarray):
            return is_pinned(source, self.host_pool)
        return isinstance(source, CudaEvent) and source.core is self._core

    def _copy_to_pinned(self, array: Array) -> Array:
        """Copy an array to page-locked memory; otherwise the driver would make a copy at an unknown time."""
        copy = pinned_array(self.host_pool, array.shape, array.dtype)
        copy[...] = array
        return copy

    def _check_buffer(self, buffer: Any, like: Array | None) -> Any:
        """Return a buffer after checks: in this device's memory, contiguous, with the shape and dtype of `like`."""
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
                hint="allocate the destination in the shape and dtype of the source",
            )
        return buffer


def _may_be_a_view(source: Any, compute: CudaStream) -> bool:
    """Return True if the source of a copy may be a non-contiguous view."""
    if isinstance(source, Event):
        return source.stream is compute
    return not source.flags.c_contiguous


def _make_contiguous(xp: Any, source: Any) -> Any:
    return xp.ascontiguousarray(_enqueued_result(source))


def _enqueued_result(source: Any) -> Any:
    """Return the array to copy; for an event under way, the array that the device will have computed by then."""
    if isinstance(source, CudaEvent):
        return source.enqueued_result()
    return source.result() if isinstance(source, Event) else source


def _fill_array(into: Array, array: Array) -> Array:
    into[...] = array
    return into


def _fill_all(pairs: Sequence[tuple[Any, Array]], copied: list[Array], _: None) -> None:
    for (_buffer, into), array in zip(pairs, copied, strict=True):
        if array is not into:
            into[...] = array


def _view_bytes(array: Array) -> NDArray[np.uint8]:
    """Return the bytes of a contiguous array: pycuda refuses dtypes unknown to the buffer protocol."""
    return array.reshape(-1).view(np.uint8)
