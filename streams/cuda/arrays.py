"""CuPy on a device: its kernels run on the device's compute stream, its arrays are in the device's pool.

See docs/design/0014-cuda.md, from "CuPy is set for a call", and 0016-other-arrays.md.

CuPy's stream and allocator are set for a thread and restored after each call; the context is the runtime's primary
context. No setting remains, so a program may use CuPy besides its sessions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from ...base.extras import install_hint
from ..event import Event
from .core import Core
from .driver import CudaUnavailable
from .memory import CudaBuffer, buffer_in

T = TypeVar("T")
CALLS_PER_MARKER = 32  # calls between two markers
MOST_MARKERS = 4  # markers not passed yet, at most; at about a thousand launches the driver would block


def load_cupy(wanted: bool | None) -> Any:
    """Import CuPy.

    Parameters
    ----------
    wanted : bool, optional
        True to require CuPy, False to do without; by default CuPy is imported if installed.

    Returns
    -------
    module or None

    Raises
    ------
    CudaUnavailable
        If CuPy is required and cannot be imported.
    """
    if wanted is False:
        return None
    try:
        import cupy
    except ImportError as error:
        if wanted is None:
            return None
        raise CudaUnavailable(
            f"CuPy, which computes on a GPU, cannot be imported: {error}", hint=install_hint("cuda")
        ) from error
    return cupy


class CupyArrays:
    """CuPy's arrays and calls on a device.

    Parameters
    ----------
    core : Core
        Core of the device.
    cupy : module
    """

    def __init__(self, core: Core, cupy: Any) -> None:
        self._core, self._cuda, self._array = core, cupy.cuda, cupy.ndarray
        self._stream = cupy.cuda.Stream.from_external(core.streams[0])
        self._calls = 0
        self._markers: deque[Event[None]] = deque()  # those perhaps not passed yet, in order
        # A subclass with a slot, by which `buffer_of` finds the buffer of an array.
        self._memory = type("Memory", (cupy.cuda.UnownedMemory,), {"__slots__": ("buffer",)})

    def call(self, function: Callable[..., T], *args: Any) -> T:
        """Return ``function(*args)``, called with the device's context, stream and memory; in any thread."""
        self._core.push_context()
        try:
            before = self._cuda.get_current_stream()
            self._stream.use()
            try:
                with self._cuda.using_allocator(self._allocate_bytes):
                    return function(*args)
            finally:
                before.use()
        finally:
            self._core.pop_context()
            self._count_call()

    def backpressure(self) -> Event[None] | None:
        """Return the marker to be passed before more is enqueued; None with fewer than `MOST_MARKERS` ahead."""
        while self._markers and self._markers[0].done:
            self._markers.popleft()
        return self._markers[-MOST_MARKERS] if len(self._markers) >= MOST_MARKERS else None

    def _count_call(self) -> None:
        self._calls += 1
        if self._calls % CALLS_PER_MARKER == 0:
            self._markers.append(self._core.streams[0].submit())

    def make_array(self, buffer: CudaBuffer) -> Any:
        """Return a CuPy array over a whole buffer, and keep the buffer alive with the array."""
        return self._array(buffer.shape, buffer.dtype, self._make_pointer(buffer))

    def _allocate_bytes(self, nbytes: int) -> Any:
        return self._make_pointer(self._core.make_buffer((nbytes,), np.uint8))

    def _make_pointer(self, buffer: CudaBuffer) -> Any:
        buffer.record_use()
        memory: Any = self._memory(buffer.pointer, buffer.nbytes, buffer, self._core.index)
        memory.buffer = buffer
        return self._cuda.MemoryPointer(memory, 0)


def address_of(array: Any) -> int:
    """Return the device address of a buffer, or of a CuPy array in a buffer; DeviceClosed if the device was closed."""
    buffer = buffer_in(array)
    return buffer.pointer if array is buffer else buffer.pointer + int(array.data.ptr) - int(array.data.mem.ptr)
