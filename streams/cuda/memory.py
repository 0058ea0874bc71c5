"""Memory of a device and page-locked memory of the host, in blocks that are used again.

See docs/design/0014-cuda.md.

Any thread may take a block; one that must be made is made with the context current, which other blocks wait for.
Finalizers, which run in any thread and at any time, do no more than put a block into a queue.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from threading import Lock, get_ident
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ...base.errors import DtypeError
from ...kernels.memory.byte_counter import ByteCounter, Charge
from ..event import DeviceClosed

_SMALLEST = 512  # bytes; blocks up to 4 KiB are multiples of it, larger ones come in four sizes to each power of two


def capacity_of(nbytes: int) -> int:
    """Return the size of the block in which so many bytes go."""
    return _whole(nbytes, max(_SMALLEST, 1 << max(0, (nbytes - 1).bit_length() - 3)))


def _whole(nbytes: int, step: int = _SMALLEST) -> int:
    """Round up to whole steps."""
    return -(-nbytes // step) * step


class Block:
    """A piece of memory of one kind, in use or free.

    Attributes
    ----------
    memory : object
        As the pool's `make` returned it, None once it is freed.
    capacity : int
        Bytes that it has.
    nbytes : int
        Bytes that were asked for.
    charge : Charge or None
        Counts those in use.
    reusable_after : int or None
        Number of the marker on the compute stream behind which no kernel uses the bytes that were here before; None if
        kernels, which may still run when the last reference is gone, never had the block.
    """

    __slots__ = ("capacity", "charge", "memory", "nbytes", "reusable_after")

    def __init__(self, memory: Any, capacity: int) -> None:
        self.memory: Any = memory
        self.capacity: int = capacity
        self.nbytes: int = 0
        self.charge: Charge | None = None
        self.reusable_after: int | None = None


class BlockPool:
    """Pool of blocks of one kind of memory, with exact counts of the bytes asked for.

    Parameters
    ----------
    what : str
        Whose memory it is, for messages.
    make, free : callable
        Get the bytes to make and what was made; `free` raises nothing. With the pool's lock held, before it is closed.
    lacking : type
        What `make` raises if there is no memory.
    limit : int, optional
        Bytes that may be in use.
    most_cached : int
        Bytes of free blocks that are kept.
    next_marker : callable
        Returns the number of the next marker on the compute stream.

    Attributes
    ----------
    ledger : ByteCounter
        Counts the bytes asked for, within the limit.
    """

    def __init__(
        self,
        what: str,
        make: Callable[[int], Any],
        free: Callable[[Any], object],
        lacking: type[Exception],
        *,
        limit: int | None = None,
        most_cached: int,
        next_marker: Callable[[], int] = int,
    ) -> None:
        self.what: str = what
        self.byte_counter: ByteCounter = ByteCounter(_charge_of, limit)
        self._next_marker = next_marker
        self._make, self._free, self._lacking, self._most_cached = make, free, lacking, most_cached
        self._returned: deque[Block] = deque()  # by finalizers; not counted as free yet
        self._lock = Lock()  # guards what follows
        self._blocks: set[Block] = set()
        self._shelves: dict[int, list[Block]] = {}  # free blocks by capacity
        self._cached = 0
        self._reserved = 0  # bytes of all blocks
        self._detained: list[Block] | None = None
        self._detaining = 0  # the thread whose blocks are
        self.closed: bool = False

    @property
    def limit(self) -> int | None:
        """Bytes that may be in use, None for any number."""
        return self.byte_counter.limit

    @limit.setter
    def limit(self, limit: int | None) -> None:
        self.byte_counter.limit = limit

    @property
    def live_bytes(self) -> int:
        """Bytes of the blocks in use, as they were asked for."""
        return self.byte_counter.live_bytes

    @property
    def used_bytes(self) -> int:
        """Bytes in use that count against the limit."""
        return self.byte_counter.used_bytes

    @property
    def peak_bytes(self) -> int:
        """The largest `live_bytes` so far, or since `reset_peak`."""
        return self.byte_counter.peak_bytes

    @property
    def refused_bytes(self) -> int:
        """Bytes that the last block that was refused was to have."""
        return self.byte_counter.refused_bytes

    @property
    def cached_bytes(self) -> int:
        """Bytes of free blocks, kept for new ones."""
        with self._lock:
            self._collect()
            return self._cached

    def reset_peak(self) -> None:
        """Let `peak_bytes` begin anew from `live_bytes`."""
        self.byte_counter.reset_peak()

    def take(self, nbytes: int) -> Block:
        """Return a block of so many bytes or a few more.

        Raises
        ------
        MemoryError
            If the limit or the memory leaves no room; nothing was done then.
        DeviceClosed
            If there is no memory any more.
        """
        with self._lock:
            if self.closed:
                raise DeviceClosed(f"{self.what} has ended with the device", hint="close a device after its last work")
            self._collect()
            charge = self.byte_counter.charge(nbytes, self.what)
            try:
                block = self._find(nbytes)
            except self._lacking as error:
                del charge  # before it is noted
                raise self._refusal(nbytes, error) from None
            block.nbytes, block.charge = nbytes, charge
            return block

    def counts(self, array: Any) -> bool:
        """Say whether something is a buffer in this memory, or an array in one."""
        buffer = buffer_of(array)
        return buffer is not None and buffer.is_in(self)

    def give_back(self, block: Block) -> None:
        """Let a block be used again; in any thread, also from within a finalizer: so there is no lock here."""
        detained = self._detained
        if detained is not None and self._detaining == get_ident():
            detained.append(block)
        else:
            self._return(block)

    def detain(self) -> None:
        """From now on keep the blocks that this thread gives back, until `detained` is called.

        Work that was enqueued may still use them. Its own stream may have them at once, as it works in order; but the
        other streams do not wait for that work.
        """
        self._detained, self._detaining = [], get_ident()

    def detained(self) -> list[Block]:
        """End `detain`; return the blocks, to be given back when the work that was enqueued is done."""
        blocks, self._detained = self._detained or [], None
        return blocks

    def release(self, blocks: list[Block]) -> None:
        """Give detained blocks back."""
        for block in blocks:
            self._return(block)

    def collect(self) -> None:
        """Sort in the blocks given back so far; before a marker, which is then behind their last use."""
        with self._lock:
            self._collect()

    def trim(self, most: int | None = None) -> None:
        """Free blocks nobody uses, large ones first, until at most so many bytes are kept."""
        with self._lock:
            self._collect()
            self._trim(self._most_cached if most is None else most)

    def close(self) -> None:
        """Free all blocks, also those in use: what they were ends with the device; by its thread, at its end."""
        with self._lock:
            self.closed = True
            for block in self._blocks:
                self._free(block.memory)
                block.memory = block.charge = None
            self._blocks.clear()
            self._shelves.clear()
            self._returned.clear()
            self._cached = self._reserved = 0

    def _return(self, block: Block) -> None:
        block.charge = None
        self._returned.append(block)  # only now may another have it

    def _collect(self) -> None:
        while self._returned:
            block = self._returned.popleft()
            if block.memory is not None:
                if block.reusable_after is not None:
                    block.reusable_after = self._next_marker()
                self._cached += block.capacity
                self._shelves.setdefault(block.capacity, []).append(block)

    def _find(self, nbytes: int) -> Block:
        capacity = capacity_of(nbytes)
        if shelf := self._shelves.get(capacity):
            self._cached -= capacity
            return shelf.pop()
        if self.limit is not None:  # what is kept is within the limit, too, and what blocks have beyond their bytes
            room = self.limit - (self._reserved - self._cached)
            self._trim(max(0, room - capacity))
            capacity = capacity if capacity <= room else _whole(nbytes)
        block = self._made(capacity, nbytes)
        self._blocks.add(block)
        self._reserved += block.capacity
        return block

    def _made(self, capacity: int, nbytes: int) -> Block:
        try:
            return Block(self._make(capacity), capacity)
        except self._lacking:
            self._trim(0)
        return Block(self._make(_whole(nbytes)), _whole(nbytes))

    def _refusal(self, nbytes: int, error: Exception) -> MemoryError:
        self.byte_counter.refuse(nbytes)
        used = f"{self.live_bytes} are in use, and the driver has no more ({error})"
        return MemoryError(f"no room for {nbytes} bytes in {self.what}: {used}")

    def _trim(self, most: int) -> None:
        for capacity in sorted(self._shelves, reverse=True):
            shelf = self._shelves[capacity]
            while shelf and self._cached > most:
                block = shelf.pop()
                self._blocks.discard(block)
                self._cached -= capacity
                self._reserved -= capacity
                self._free(block.memory)
                block.memory = None


class CudaBuffer:
    """An array in the memory of a GPU, in C order; made by :class:`CudaDevice`.

    CuPy takes it without a copy: ``cupy.asarray(buffer)``.

    Attributes
    ----------
    shape : tuple of int
    dtype : numpy.dtype
    nbytes, size : int
    flags : object
        Says that it is contiguous, as those of NumPy's and CuPy's arrays.
    """

    flags: SimpleNamespace = SimpleNamespace(c_contiguous=True)
    base = None  # it is a view of nothing
    __slots__ = ("__weakref__", "_block", "_pool", "dtype", "nbytes", "shape", "size")

    def __init__(self, pool: BlockPool, shape: tuple[int, ...], dtype: DTypeLike) -> None:
        self._block: Block | None = None
        self._pool = pool
        self.shape, self.dtype = shape, np.dtype(dtype)
        if self.dtype.hasobject or self.dtype.kind == "T":
            raise DtypeError(
                "these values can not be in the memory of a GPU",
                wanted="numbers or booleans",
                got=self.dtype,
                hint="keep operations on strings on a CPU device",
            )
        self.size: int = math.prod(shape)
        self.nbytes: int = self.size * self.dtype.itemsize
        if self.nbytes:
            self._block = pool.take(self.nbytes)

    def __repr__(self) -> str:
        return f"<CudaBuffer {self.dtype}{list(self.shape)} in {self._pool.what}>"

    def __del__(self) -> None:
        if (block := getattr(self, "_block", None)) is not None:
            self._pool.give_back(block)

    @property
    def pointer(self) -> int:
        """Address on the device, 0 if it has no bytes.

        Raises
        ------
        DeviceClosed
            If the device was closed: its memory has ended with it.
        """
        if self._pool.closed:
            raise DeviceClosed(f"{self!r} has ended with its device", hint="copy out what is still needed before")
        return 0 if self._block is None else int(self._block.memory)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        data = (self.pointer, False)
        return {"shape": self.shape, "typestr": self.dtype.str, "data": data, "strides": None, "version": 3}

    def is_in(self, pool: BlockPool) -> bool:
        """Say whether it is in this memory."""
        return self._pool is pool

    @property
    def charge(self) -> Charge | None:
        """What counts it."""
        return None if self._block is None else self._block.charge

    @property
    def reusable_after(self) -> int:
        """Number of the marker on the compute stream behind which other streams may write here."""
        return 0 if self._block is None else self._block.reusable_after or 0

    def record_use(self) -> None:
        """Note that kernels use the buffer: they may still run when the last reference to it is gone."""
        if self._block is not None and self._block.reusable_after is None:
            self._block.reusable_after = 0


def buffer_of(array: Any) -> CudaBuffer | None:
    """Return the buffer that something is, or that an array of CuPy's is in; None for any other memory."""
    if isinstance(array, CudaBuffer):
        return array
    buffer = getattr(getattr(getattr(array, "data", None), "mem", None), "buffer", None)
    return buffer if isinstance(buffer, CudaBuffer) else None


def _charge_of(array: Any) -> Charge | None:
    buffer = buffer_of(array)
    return None if buffer is None else buffer.charge


def buffer_in(array: Any) -> CudaBuffer:
    """Return the buffer that an array which counts in a pool is in."""
    buffer = buffer_of(array)
    assert buffer is not None
    return buffer


class _PinnedBase:
    """Base of arrays in page-locked memory: it holds their block as long as one of them lives."""

    __slots__ = ("__array_interface__", "_memory", "block", "given", "pool")

    def __init__(self, pool: BlockPool, nbytes: int, given: deque[int] | None) -> None:
        self.pool, self.given, self.block = pool, given, pool.take(nbytes)
        self._memory = self.block.memory  # lives on when the device closes
        self.__array_interface__ = self._memory[:nbytes].__array_interface__

    def __del__(self) -> None:
        if (block := getattr(self, "block", None)) is not None:
            self.pool.give_back(block)
            if self.given is not None:
                self.given.append(block.nbytes)


def pinned_array(
    pool: BlockPool, shape: tuple[int, ...], dtype: np.dtype[Any], given: deque[int] | None = None
) -> NDArray[Any]:
    """Return a new array in page-locked memory; its block comes back when the array and its views are gone.

    `given` is told its bytes then.
    """
    nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if nbytes == 0:
        return np.empty(shape, dtype)
    return np.asarray(_PinnedBase(pool, nbytes, given)).view(dtype).reshape(shape)


def is_pinned(array: NDArray[Any], pool: BlockPool) -> bool:
    """Say whether an array is page-locked memory of this pool, and contiguous."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    return isinstance(base, _PinnedBase) and base.pool is pool and not pool.closed and array.flags.c_contiguous


class PinnedMemory:
    """One user's share of a pool of page-locked memory; see :class:`HostMemory`."""

    def __init__(self, pool: BlockPool, limit: int | None) -> None:
        self.limit = limit
        self.peak_bytes = self._live = 0
        self._pool = pool
        self._given: deque[int] = deque()  # bytes of arrays that are gone, not subtracted yet

    @property
    def live_bytes(self) -> int:
        while self._given:
            self._live -= self._given.popleft()
        return self._live

    def take(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        live = self.live_bytes + nbytes
        if self.limit is not None and live > self.limit:
            raise MemoryError(f"no room for {nbytes} bytes: of the limit of {self.limit} {self._live} are in use")
        array = pinned_array(self._pool, shape, dtype, self._given)
        self._live, self.peak_bytes = live, max(self.peak_bytes, live)
        return array

    def close(self) -> None:
        """Do nothing: the device keeps what is free."""
