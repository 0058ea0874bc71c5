"""Devices with buffers in this process's memory, under a limit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Generic, SupportsIndex, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..base.errors import GraphError
from ..base.sizes import parse_size
from ..kernels.memory.contexts import KernelContexts
from ..kernels.memory.pool import Pool
from ..kernels.memory.swappable import SwappableArray
from ..kernels.memory.unreserved import allocate_unreserved, charge_reader, is_sole_owner
from .capabilities import SwapSupport
from .clock import LoopClock
from .contract import Clock
from .event import Event
from .queued import QueuedStream

Array = NDArray[Any]
S = TypeVar("S", bound=QueuedStream)
_KEPT = 1 << 30  # most bytes of freed arrays outside devices that are cached for new arrays


class PooledMemory:
    """Host memory from a separate pool; see :class:`HostMemory`."""

    def __init__(self, limit: int | None) -> None:
        self._pool = Pool(_KEPT, limit)
        self._contexts = KernelContexts(self._pool)

    @property
    def limit(self) -> int | None:
        return self._pool.limit

    @limit.setter
    def limit(self, limit: int | None) -> None:
        self._pool.limit = limit

    @property
    def live_bytes(self) -> int:
        return self._pool.live_bytes

    @property
    def peak_bytes(self) -> int:
        return self._pool.peak_bytes

    def take(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        return self._contexts.run(np.empty, shape, dtype)

    def close(self) -> None:
        self._pool.close()


class HostDevice(SwapSupport, Generic[S]):
    """A device whose buffers are NumPy arrays with their data in a pool.

    Parameters
    ----------
    name : str
    make_stream : callable
        Called with the stream's name and the clock.
    limit : int or str, optional
        Bytes for arrays in its memory, as a number or like "512MiB". None for no limit.
    clock : Clock, optional
        By default a new LoopClock.
    pool : bool
        Whether its memory is a pool. If not, NumPy allocates the memory, which cannot be counted or limited.
    most_cached : int
        Most bytes of freed arrays that the pool keeps for new arrays.

    Attributes
    ----------
    contexts : KernelContexts
        Contexts of kernels that make arrays in its memory.
    pool : Pool or None

    Raises
    ------
    GraphError
        If the limit is no size, or there is no pool to apply it.
    """

    buffer = np.ndarray
    pool: Pool | None
    compute: S
    host_to_device: S
    device_to_host: S

    def __init__(
        self,
        name: str,
        make_stream: Callable[[str, Clock], S],
        *,
        limit: SupportsIndex | str | None = None,
        clock: Clock | None = None,
        pool: bool = True,
        most_cached: int = 1 << 30,
    ) -> None:
        if limit is not None and not pool:
            raise GraphError(f"the memory of {name} cannot be limited: it has no pool", hint="leave Switches.pool on")
        most = None if limit is None else parse_size(limit, f"memory limit of {name}")
        self.name = name
        self.clock: Clock = clock or LoopClock()
        self.pool = Pool(most_cached, most) if pool else None
        self.contexts: KernelContexts = KernelContexts(self.pool)
        self.compute = make_stream(f"{name}/compute", self.clock)
        self.host_to_device = make_stream(f"{name}/host_to_device", self.clock)
        self.device_to_host = make_stream(f"{name}/device_to_host", self.clock)

    @property
    def streams(self) -> tuple[S, S, S]:
        return self.compute, self.host_to_device, self.device_to_host

    @property
    def live_bytes(self) -> int | None:
        return None if self.pool is None else self.pool.live_bytes

    @property
    def peak_bytes(self) -> int | None:
        return None if self.pool is None else self.pool.peak_bytes

    @property
    def limit(self) -> int | None:
        return None if self.pool is None else self.pool.limit

    def allocate(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        return self.contexts.run(np.empty, shape, dtype)

    def allocate_unreserved(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array | None:
        assert self.pool is not None
        array: Array | None = allocate_unreserved(self.contexts, shape, dtype)
        return array

    def charge(self, buffer: Array) -> None:
        assert self.pool is not None
        charge_reader(self.pool, buffer)

    def is_sole_owner(self, holder: SwappableArray) -> bool:
        assert self.pool is not None
        return is_sole_owner(self.pool, holder)

    def make_readonly(self, buffer: Array) -> bool:
        buffer.flags.writeable = False
        return True

    def host_memory(self, limit: int | None = None) -> PooledMemory:
        return PooledMemory(limit)

    def copy_in(
        self, source: Array | Event[Array], *, into: Array | None = None, after: Iterable[Event[Any]] = ()
    ) -> Event[Array]:
        # In the contexts, so that the pool counts a new array; `copy_out` makes its arrays outside the limit.
        def copy_source() -> Array:
            return (
                self.contexts.run(np.array, _array_of(source)) if into is None else _fill_array(into, _array_of(source))
            )

        return _submit_copy(self.host_to_device, copy_source, source, after, "HostToDevice")

    def copy_out(
        self, source: Array | Event[Array], *, into: Array | None = None, after: Iterable[Event[Any]] = ()
    ) -> Event[Array]:
        def copy_source() -> Array:
            return np.array(_array_of(source)) if into is None else _fill_array(into, _array_of(source))

        return _submit_copy(self.device_to_host, copy_source, source, after, "DeviceToHost")

    def copy_all_in(self, pairs: Sequence[tuple[Array, Array]], *, after: Sequence[Event[Any]] = ()) -> Event[None]:
        return _submit_copies(self.host_to_device, pairs, "HostToDevice", after)

    def copy_all_out(self, pairs: Sequence[tuple[Array, Array]], *, after: Sequence[Event[Any]] = ()) -> Event[None]:
        return _submit_copies(self.device_to_host, pairs, "DeviceToHost", after)

    async def aclose(self) -> None:
        # All streams close before any wait, so that no work begins on the others meanwhile.
        running = [stream.close() for stream in self.streams]
        for event in running:
            if event is not None:
                await event.over()
        for stream in self.streams:
            self._join_stream(stream)
        if self.pool is not None:
            self.pool.close()

    def _join_stream(self, stream: S) -> None:
        """Release a stream's thread or handle of the operating system, after all its work has ended."""


def _array_of(source: Array | Event[Array]) -> Array:
    return source.result() if isinstance(source, Event) else source


def _fill_array(into: Array, source: Array) -> Array:
    np.copyto(into, source, casting="no")
    return into


def _submit_copy(
    stream: QueuedStream,
    copy_source: Callable[[], Array],
    source: Array | Event[Array],
    after: Iterable[Event[Any]],
    kind: str,
) -> Event[Array]:
    """Submit a copy that waits for its source, if an event, and for the events in `after`."""
    first = [source] if isinstance(source, Event) else []
    # The size comes from a function, since an event has no result before the copy begins.
    return stream.submit(copy_source, after=[*first, *after], kind=kind, nbytes=lambda: _array_of(source).nbytes)


def _submit_copies(
    stream: QueuedStream, pairs: Sequence[tuple[Array, Array]], kind: str, after: Sequence[Event[Any]]
) -> Event[None]:
    """Submit several copies as a single piece of work."""
    nbytes = sum(into.nbytes for _, into in pairs)
    return stream.submit(partial(_fill_all, pairs), after=after, kind=kind, nbytes=nbytes)


def _fill_all(pairs: Sequence[tuple[Array, Array]]) -> None:
    for source, into in pairs:
        _fill_array(into, source)
