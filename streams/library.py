"""Devices of outside packages: an array library with memory of its own, the streams of a CPU, and counted bytes."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, SupportsIndex, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..kernels.memory.byte_counter import ByteCounter, Charge
from ..kernels.memory.contexts import KernelContexts
from ..kernels.memory.unreserved import allocate_unreserved
from .contract import Clock
from .cpu import CpuDevice
from .event import Event

T = TypeVar("T")
Array = NDArray[Any]


class LibraryDevice(CpuDevice):
    """A device whose arrays are an array library's: a base for device kinds of outside packages.

    Each stream has a thread. Kernels run where they are called, so they return when their results are computed; a
    library that only enqueues work overrides `call`, `compute_barrier` and `backpressure` of :class:`Device`.

    Parameters
    ----------
    name : str
        Full name of the device.
    library : module or object
        With ``ndarray``, the type of its arrays, and the functions ``empty(shape, dtype)`` and ``full(shape, value,
        dtype=dtype)``. Arrays have ``shape``, ``ndim``, ``size``, ``dtype`` (NumPy's), ``nbytes``, ``flags`` with
        ``c_contiguous``, ``base`` (None, or the array that a view is of), and weak references.
    read : callable
        ``read(array, into)`` copies an array of the library into a NumPy array; called in a thread.
    write : callable
        ``write(source, into)`` copies a NumPy array into an array of the library; called in a thread.
    limit : int or str, optional
        Bytes for arrays in its memory, as a number or like "512MiB". None for no limit.
    clock : Clock, optional
        By default a new LoopClock.

    Attributes
    ----------
    pool : ByteCounter
        Counter of the bytes of its arrays: of the arrays that `allocate` and functions called by `call` return.

    Raises
    ------
    GraphError
        If the limit is no size.

    Examples
    --------
    Arrays in boxes, which NumPy does not open; ``docs/extending.md`` has a device kind:

    >>> import asyncio, numpy as np
    >>> from types import SimpleNamespace
    >>> class Box:
    ...     base = None
    ...     def __init__(self, inside):
    ...         self.inside, self.shape, self.dtype, self.nbytes = inside, inside.shape, inside.dtype, inside.nbytes
    >>> library = SimpleNamespace(ndarray=Box, empty=lambda shape, dtype: Box(np.empty(shape, dtype)))
    >>> def read(box, into):
    ...     into[...] = box.inside
    >>> def write(source, into):
    ...     into.inside[...] = source
    >>> async def main():
    ...     async with LibraryDevice("/boxes:0", library, read=read, write=write) as device:
    ...         box = await device.copy_in(np.ones(3))
    ...         return device.live_bytes, await device.copy_out(box)
    >>> asyncio.run(main())
    (24, array([1., 1., 1.]))
    """

    def __init__(
        self,
        name: str,
        library: Any,
        *,
        read: Callable[[Any, Array], object],
        write: Callable[[Array, Any], object],
        limit: SupportsIndex | str | None = None,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(name, limit=limit, clock=clock)
        self.arrays = library
        self.buffer: type[Any] = library.ndarray
        self._read, self._write = read, write
        # By identity, as arrays need no hash; the weak reference removes the entry with its array.
        self._charges: dict[int, tuple[weakref.ref[Any], Charge]] = {}
        self.pool: ByteCounter = ByteCounter(self._find_charge, self.limit)
        self.contexts = KernelContexts(self.pool)

    def call(self, function: Callable[..., T], *args: Any) -> T:
        result = function(*args)
        for value in result if isinstance(result, (tuple, list)) else (result,):
            self._charge_array(value)
        return result

    def owns(self, array: Any) -> bool:
        return self._find_charge(array) is not None

    def allocate(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        return self.contexts.run(self._make_empty, shape, dtype)

    def allocate_unreserved(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        return allocate_unreserved(self.contexts, shape, dtype, self._make_empty)

    def make_readonly(self, buffer: Any) -> bool:
        return True  # kernels write into no input

    # The work of copies is no closure: the traceback of an error would keep the cells, and so the arrays, alive.

    def copy_in(self, source: Any, *, into: Any = None, after: Iterable[Event[Any]] = ()) -> Event[Any]:
        copy = partial(self._copy_one_in, source, into)
        return self._submit_copy(self.host_to_device, copy, source, after, "HostToDevice")

    def copy_out(self, source: Any, *, into: Any = None, after: Iterable[Event[Any]] = ()) -> Event[Any]:
        copy = partial(self._copy_one_out, source, into)
        return self._submit_copy(self.device_to_host, copy, source, after, "DeviceToHost")

    def copy_all_in(self, pairs: Sequence[tuple[Array, Any]], *, after: Sequence[Event[Any]] = ()) -> Event[None]:
        nbytes = sum(source.nbytes for source, _ in pairs)
        copy = partial(_copy_pairs, self._write, pairs)
        return self.host_to_device.submit(copy, after=after, kind="HostToDevice", nbytes=nbytes)

    def copy_all_out(self, pairs: Sequence[tuple[Any, Array]], *, after: Sequence[Event[Any]] = ()) -> Event[None]:
        nbytes = sum(into.nbytes for _, into in pairs)
        copy = partial(_copy_pairs, self._read, pairs)
        return self.device_to_host.submit(copy, after=after, kind="DeviceToHost", nbytes=nbytes)

    def _copy_one_in(self, source: Any, into: Any) -> Any:
        array = source.result() if isinstance(source, Event) else source
        target = self.allocate(array.shape, array.dtype) if into is None else into
        self._write(array, target)
        return target

    def _copy_one_out(self, source: Any, into: Any) -> Array:
        array = source.result() if isinstance(source, Event) else source
        target: Array = np.empty(array.shape, array.dtype) if into is None else into
        self._read(array, target)
        return target

    def _submit_copy(
        self, stream: Any, copy: Callable[[], Any], source: Any, after: Iterable[Event[Any]], kind: str
    ) -> Event[Any]:
        """Submit a copy that waits for its source, if an event, and for the events in `after`."""
        first = [source] if isinstance(source, Event) else []
        copied: Event[Any] = stream.submit(copy, after=[*first, *after], kind=kind, nbytes=partial(_size_of, source))
        return copied

    def _make_empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """Return a new array whose bytes count; MemoryError without room, before the library allocates."""
        nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        charge = self.pool.charge(nbytes)
        return self._keep_charge(self.arrays.empty(shape, dtype), charge)

    def _charge_array(self, value: Any) -> None:
        """Count the bytes of an array that a function has returned; MemoryError without room."""
        if isinstance(value, self.buffer) and value.base is None and id(value) not in self._charges:
            self._keep_charge(value, self.pool.charge(value.nbytes))

    def _keep_charge(self, array: Any, charge: Charge) -> Any:
        key, charges = id(array), self._charges
        charges[key] = weakref.ref(array, lambda _: charges.pop(key, None)), charge
        return array

    def _find_charge(self, array: Any) -> Charge | None:
        owner = getattr(array, "base", None)
        owner = array if owner is None else owner
        entry = self._charges.get(id(owner))
        return None if entry is None or entry[0]() is not owner else entry[1]


def _size_of(source: Any) -> int:
    """Return the bytes of the source of a copy; of an event only once it has a result."""
    return int((source.result() if isinstance(source, Event) else source).nbytes)


def _copy_pairs(copy: Callable[[Any, Any], object], pairs: Sequence[tuple[Any, Any]]) -> None:
    for source, into in pairs:
        copy(source, into)
