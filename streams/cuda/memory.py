"""Device memory and page-locked host memory, in reusable blocks.

See docs/design/0014-cuda.md.

Any thread may take a block. A new block is made with the context current and the pool's lock held, for which other
threads wait. Finalizers, which run in any thread and at any time, only put a block into a queue.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from threading import Lock, get_ident
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ...base.errors import DtypeError
from ...kernels.memory.byte_counter import ByteCounter, Charge
from ..event import DeviceClosed

_SMALLEST = 512  # bytes; blocks up to 4 KiB are multiples of this, larger blocks have four sizes for each power of two


def capacity_of(nbytes: int) -> int:
    """Return the capacity of a block for so many bytes."""
    return _round_up(nbytes, max(_SMALLEST, 1 << max(0, (nbytes - 1).bit_length() - 3)))


def _round_up(nbytes: int, step: int = _SMALLEST) -> int:
    """Round up to a multiple of `step`."""
    return -(-nbytes // step) * step


class Block:
    """A piece of memory of a pool, in use or free.

    Attributes
    ----------
    memory : object
        Return value of the pool's `make`, None once freed.
    capacity : int
        Bytes of the block.
    nbytes : int
        Bytes requested by the user.
    charge : Charge or None
        Count of the requested bytes, while the block is in use.
    reusable_after : int or None
        Number of the marker on the compute stream after which no kernel uses the previous content; None if no kernel
        ever used the block. (Kernels may still run when the last reference to a buffer is gone.)
    """

    __slots__ = ("capacity", "charge", "memory", "nbytes", "reusable_after")

    def __init__(self, memory: Any, capacity: int) -> None:
        self.memory: Any = memory
        self.capacity: int = capacity
        self.nbytes: int = 0
        self.charge: Charge | None = None
        self.reusable_after: int | None = None


class Allocator(NamedTuple):
    """Functions of a kind of memory.

    Attributes
    ----------
    make, free : callable
        Called with a number of bytes, and with a return value of `make`; `free` raises nothing. Both are called with
        the pool's lock held, until the pool is closed.
    lacking : type
        Exception raised by `make` without memory.
    """

    make: Callable[[int], Any]
    free: Callable[[Any], object]
    lacking: type[Exception]


class BlockPool:
    """Pool of blocks of a kind of memory, with exact counts of requested bytes.

    Parameters
    ----------
    what : str
        Name of the memory, for messages.
    allocator : Allocator
    limit : int, optional
        Bytes that may be in use.
    most_cached : int
        Bytes of free blocks to keep.
    next_marker : callable
        Returns the number of the next marker on the compute stream.

    Attributes
    ----------
    byte_counter : ByteCounter
        Counter of requested bytes, with the limit.
    """

    def __init__(
        self,
        what: str,
        allocator: Allocator,
        *,
        limit: int | None = None,
        most_cached: int,
        next_marker: Callable[[], int] = int,
    ) -> None:
        self.what: str = what
        self.byte_counter: ByteCounter = ByteCounter(_charge_of, limit)
        self._next_marker = next_marker
        self._make, self._free, self._lacking = allocator
        self._most_cached = most_cached
        self._returned: deque[Block] = deque()  # appended by finalizers; not on a shelf yet
        self._lock = Lock()  # guards the fields below
        self._blocks: set[Block] = set()
        self._shelves: dict[int, list[Block]] = {}  # free blocks by capacity
        self._cached = 0
        self._reserved = 0  # bytes of all blocks
        self._detained: list[Block] | None = None
        self._detaining = 0  # identifier of the thread whose blocks are detained
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
        """Bytes of the blocks in use, as requested."""
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
        """Bytes of the last refused request."""
        return self.byte_counter.refused_bytes

    @property
    def cached_bytes(self) -> int:
        """Bytes of free blocks, kept for later requests."""
        with self._lock:
            self._collect_returned()
            return self._cached

    def reset_peak(self) -> None:
        """Restart `peak_bytes` from `live_bytes`."""
        self.byte_counter.reset_peak()

    def take_block(self, nbytes: int) -> Block:
        """Return a block of so many bytes or a few more.

        Raises
        ------
        MemoryError
            If the limit or the memory leaves no room; then nothing is counted.
        DeviceClosed
            If the memory has ended with its device.
        """
        with self._lock:
            if self.closed:
                raise DeviceClosed(f"{self.what} has ended with the device", hint="close a device after its last work")
            self._collect_returned()
            charge = self.byte_counter.charge(nbytes, self.what)
            try:
                block = self._find_or_make_block(nbytes)
            except self._lacking as error:
                del charge  # the bytes no longer count when the message reports those in use
                raise self._make_refusal(nbytes, error) from None
            block.nbytes, block.charge = nbytes, charge
            return block

    def counts(self, array: Any) -> bool:
        """Return True for a buffer in this memory, or a CuPy array in such a buffer."""
        buffer = buffer_of(array)
        return buffer is not None and buffer.is_in(self)

    def give_back(self, block: Block) -> None:
        """Make a block reusable; in any thread, also from a finalizer, and therefore without a lock."""
        detained = self._detained
        if detained is not None and self._detaining == get_ident():
            detained.append(block)
        else:
            self._queue_returned(block)

    def detain_blocks(self) -> None:
        """Hold back the blocks given back by this thread, until `take_detained` is called.

        Enqueued work may still use them. The work's own stream could reuse them at once, as streams work in order, but
        other streams do not wait for this work.
        """
        self._detained, self._detaining = [], get_ident()

    def take_detained(self) -> list[Block]:
        """End `detain_blocks`; return the blocks, for `release_blocks` after the enqueued work."""
        blocks, self._detained = self._detained or [], None
        return blocks

    def release_blocks(self, blocks: list[Block]) -> None:
        """Make detained blocks reusable."""
        for block in blocks:
            self._queue_returned(block)

    def collect_returned(self) -> None:
        """Put the blocks given back so far on their shelves; a marker recorded next follows their last use."""
        with self._lock:
            self._collect_returned()

    def trim(self, most: int | None = None) -> None:
        """Free unused blocks, large ones first, until at most so many bytes are kept."""
        with self._lock:
            self._collect_returned()
            self._free_unused(self._most_cached if most is None else most)

    def close(self) -> None:
        """Free all blocks, even if in use: their content ends with the device, whose thread calls this at its end."""
        with self._lock:
            self.closed = True
            for block in self._blocks:
                self._free(block.memory)
                block.memory = block.charge = None
            self._blocks.clear()
            self._shelves.clear()
            self._returned.clear()
            self._cached = self._reserved = 0

    def _queue_returned(self, block: Block) -> None:
        block.charge = None
        self._returned.append(block)  # last: from here on another thread may take the block

    def _collect_returned(self) -> None:
        """Do as `collect_returned`; the caller holds the lock."""
        while self._returned:
            block = self._returned.popleft()
            if block.memory is not None:
                if block.reusable_after is not None:
                    block.reusable_after = self._next_marker()
                self._cached += block.capacity
                self._shelves.setdefault(block.capacity, []).append(block)

    def _find_or_make_block(self, nbytes: int) -> Block:
        """Return a free block of the right capacity, or make one; the caller holds the lock."""
        capacity = capacity_of(nbytes)
        if shelf := self._shelves.get(capacity):
            self._cached -= capacity
            return shelf.pop()
        if self.limit is not None:  # the limit includes free blocks, and capacity beyond the requested bytes
            room = self.limit - (self._reserved - self._cached)
            self._free_unused(max(0, room - capacity))
            capacity = capacity if capacity <= room else _round_up(nbytes)  # near the limit the smallest block
        block = self._make_block(capacity, nbytes)
        self._blocks.add(block)
        self._reserved += block.capacity
        return block

    def _make_block(self, capacity: int, nbytes: int) -> Block:
        """Make a block; if memory lacks, free all unused blocks and make the smallest sufficient block."""
        try:
            return Block(self._make(capacity), capacity)
        except self._lacking:
            self._free_unused(0)
        return Block(self._make(_round_up(nbytes)), _round_up(nbytes))

    def _make_refusal(self, nbytes: int, error: Exception) -> MemoryError:
        self.byte_counter.refuse(nbytes)
        used = f"{self.live_bytes} are in use, and the driver has no more ({error})"
        return MemoryError(f"no room for {nbytes} bytes in {self.what}: {used}")

    def _free_unused(self, most: int) -> None:
        """Do as `trim`, without collecting; the caller holds the lock."""
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
    """An array in GPU memory, in C order; made by :class:`CudaDevice`.

    CuPy wraps a buffer without a copy: ``cupy.asarray(buffer)``.

    Attributes
    ----------
    shape : tuple of int
    dtype : numpy.dtype
    nbytes, size : int
    flags : object
        Flags with `c_contiguous` True, as NumPy's and CuPy's arrays have.
    """

    flags: SimpleNamespace = SimpleNamespace(c_contiguous=True)
    base = None  # a buffer is never a view
    __slots__ = ("__weakref__", "_block", "_pool", "dtype", "nbytes", "shape", "size")

    def __init__(self, pool: BlockPool, shape: tuple[int, ...], dtype: DTypeLike) -> None:
        self._block: Block | None = None
        self._pool = pool
        self.shape, self.dtype = shape, np.dtype(dtype)
        if self.dtype.hasobject or self.dtype.kind == "T":
            raise DtypeError(
                "these values cannot be in the memory of a GPU",
                wanted="numbers or booleans",
                got=self.dtype,
                hint="keep operations on strings on a CPU device",
            )
        self.size: int = math.prod(shape)
        self.nbytes: int = self.size * self.dtype.itemsize
        if self.nbytes:
            self._block = pool.take_block(self.nbytes)

    def __repr__(self) -> str:
        return f"<CudaBuffer {self.dtype}{list(self.shape)} in {self._pool.what}>"

    def __del__(self) -> None:
        if (block := getattr(self, "_block", None)) is not None:  # absent or None after a refused request
            self._pool.give_back(block)

    @property
    def pointer(self) -> int:
        """Address on the device, 0 without bytes.

        Raises
        ------
        DeviceClosed
            If the device was closed, which ended its memory.
        """
        if self._pool.closed:
            raise DeviceClosed(f"{self!r} has ended with its device", hint="copy out what is still needed before")
        return 0 if self._block is None else int(self._block.memory)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        data = (self.pointer, False)
        return {"shape": self.shape, "typestr": self.dtype.str, "data": data, "strides": None, "version": 3}

    def is_in(self, pool: BlockPool) -> bool:
        """Return True if the buffer is in the memory of `pool`."""
        return self._pool is pool

    @property
    def charge(self) -> Charge | None:
        """Charge that counts the buffer, None without bytes."""
        return None if self._block is None else self._block.charge

    @property
    def reusable_after(self) -> int:
        """Number of the marker on the compute stream after which other streams may write into the buffer."""
        return 0 if self._block is None else self._block.reusable_after or 0

    def record_use(self) -> None:
        """Note use by kernels, which may still run when the last reference to the buffer is gone."""
        if self._block is not None and self._block.reusable_after is None:
            self._block.reusable_after = 0


def buffer_of(array: Any) -> CudaBuffer | None:
    """Return `array` if a buffer, or the buffer of a CuPy array; None for any other memory."""
    if isinstance(array, CudaBuffer):
        return array
    buffer = getattr(getattr(getattr(array, "data", None), "mem", None), "buffer", None)
    return buffer if isinstance(buffer, CudaBuffer) else None


def _charge_of(array: Any) -> Charge | None:
    buffer = buffer_of(array)
    return None if buffer is None else buffer.charge


def buffer_in(array: Any) -> CudaBuffer:
    """Return the buffer of an array that a pool counts."""
    buffer = buffer_of(array)
    assert buffer is not None
    return buffer


class _PinnedBase:
    """Base object of arrays in page-locked memory, which holds their block until all of them are gone."""

    __slots__ = ("__array_interface__", "_memory", "block", "freed_sizes", "pool")

    def __init__(self, pool: BlockPool, nbytes: int, freed_sizes: deque[int] | None) -> None:
        self.pool, self.freed_sizes, self.block = pool, freed_sizes, pool.take_block(nbytes)
        self._memory = self.block.memory  # the arrays' own reference: a closing device clears that of the block
        self.__array_interface__ = self._memory[:nbytes].__array_interface__

    def __del__(self) -> None:
        if (block := getattr(self, "block", None)) is not None:
            self.pool.give_back(block)
            if self.freed_sizes is not None:
                self.freed_sizes.append(block.nbytes)


def pinned_array(
    pool: BlockPool, shape: tuple[int, ...], dtype: np.dtype[Any], freed_sizes: deque[int] | None = None
) -> NDArray[Any]:
    """Return a new array in page-locked memory; its block returns to the pool with the last view of the array.

    The block's bytes are then appended to `freed_sizes`.
    """
    nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if nbytes == 0:
        return np.empty(shape, dtype)
    return np.asarray(_PinnedBase(pool, nbytes, freed_sizes)).view(dtype).reshape(shape)


def is_pinned(array: NDArray[Any], pool: BlockPool) -> bool:
    """Return True if an array is contiguous and in page-locked memory of this pool."""
    base: Any = array
    while isinstance(base, np.ndarray):  # views of views: only the last base owns the block
        base = base.base
    return isinstance(base, _PinnedBase) and base.pool is pool and not pool.closed and array.flags.c_contiguous


class PinnedMemory:
    """A share of a pool of page-locked memory; see :class:`HostMemory`."""

    def __init__(self, pool: BlockPool, limit: int | None) -> None:
        self.limit = limit
        self.peak_bytes = self._live = 0
        self._pool = pool
        self._freed_sizes: deque[int] = deque()  # bytes of arrays that are gone, not subtracted yet

    @property
    def live_bytes(self) -> int:
        while self._freed_sizes:
            self._live -= self._freed_sizes.popleft()
        return self._live

    def take(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        live = self.live_bytes + nbytes
        if self.limit is not None and live > self.limit:
            raise MemoryError(f"no room for {nbytes} bytes: of the limit of {self.limit} {self._live} are in use")
        array = pinned_array(self._pool, shape, dtype, self._freed_sizes)
        self._live, self.peak_bytes = live, max(self.peak_bytes, live)
        return array

    def close(self) -> None:
        """Do nothing: the device's pool keeps free blocks."""
