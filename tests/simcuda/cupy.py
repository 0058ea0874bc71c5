"""For pytest in a process of its own (``-p tests.simcuda.cupy``): CUDA is simulated, and with it what CuPy is to us.

Its arrays are the strict library's in simulated device memory, got from whatever allocator is the calling thread's. A
kernel waits for its stream and computes at once, with NumPy. It refuses what a GPU would: to be called without a
current context, or for memory that is not there.
"""

import ctypes
import sys
import threading
import weakref
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
from tagloom.streams import CudaDevice

from tests.simcuda.plugin import simulated
from tests.strict_array_library import device
from tests.strict_array_library.library import _OWNERS, CUPYX, Array, Special, xp

DEVICE = 1 << 56  # set in addresses on the device; see machine.h
simulated.driver.cuStreamSynchronize.argtypes = [ctypes.c_void_p]


class Settings(threading.local):
    """What CuPy knows of each thread."""

    allocator = stream = None


settings = Settings()


class Stream:
    """A stream; `use` makes it the thread's."""

    def __init__(self, ptr, owner=None):
        self.ptr, self._owner = ptr, owner

    @staticmethod
    def from_external(other):
        version, handle = other.__cuda_stream__()
        assert version == 0
        return Stream(handle, other)

    def use(self):
        settings.stream = self
        return self


NULL = Stream(0)


def get_current_stream():
    return settings.stream or NULL


def wait():
    """Wait for the thread's stream; fails where no context is current."""
    code = simulated.driver.cuStreamSynchronize(get_current_stream().ptr)
    assert code == 0, f"cuStreamSynchronize failed with {code}: is a context current in this thread?"


@contextmanager
def using_allocator(allocator):
    before, settings.allocator = settings.allocator, allocator
    try:
        yield
    finally:
        settings.allocator = before


class UnownedMemory:
    """Memory that somebody else has."""

    __slots__ = ("__weakref__", "_owner", "device_id", "ptr", "size")

    def __init__(self, ptr, size, owner, device_id=-1):
        assert device_id >= 0
        self.ptr, self.size, self._owner, self.device_id = ptr, size, owner, device_id


class MemoryPointer:
    """A place in memory."""

    __slots__ = ("__weakref__", "mem", "ptr")

    def __init__(self, mem, offset):
        self.mem, self.ptr = mem, mem.ptr + offset


class Place:
    """Memory of the device for NumPy, which may read it here; it belongs to the arrays that have it."""

    def __init__(self, data, nbytes):
        self.mem, self.data = weakref.ref(data.mem), weakref.ref(data)
        address = data.ptr & ~DEVICE, False
        self.__array_interface__ = {"shape": (nbytes,), "typestr": "|u1", "data": address, "version": 3}

    def pointer(self, inside):
        """Return a pointer to the beginning of an array; to that of the whole there is one, as with CuPy."""
        pointer = MemoryPointer(self.mem(), (inside.ctypes.data | DEVICE) - self.mem().ptr)
        first = self.data()
        return first if first is not None and first.ptr == pointer.ptr else pointer


class ndarray(Array):
    """An array in memory that an allocator gave, or another array's."""

    __slots__ = ("_view", "data")

    def __init__(self, shape, dtype=float, memptr=None):
        dtype = np.dtype(dtype)
        nbytes = int(np.prod(shape)) * dtype.itemsize
        data = memptr or settings.allocator(nbytes)
        whole = np.asarray(Place(data, nbytes)) if nbytes else np.empty(0, np.uint8)
        _OWNERS[id(whole)] = self
        self._become(whole.view(dtype).reshape(shape), data, None)

    def _become(self, view, data, base):
        self._view, self.data, self.base = view, data, base
        return self

    @property
    def _inside(self):
        wait()
        return self._view


for _name in ("T", "real", "imag"):
    setattr(ndarray, _name, property(lambda self, name=_name: made(getattr(self._view, name))))
for _name in ("dtype", "shape", "ndim", "size", "itemsize", "nbytes", "flags", "strides"):
    setattr(ndarray, _name, property(lambda self, name=_name: getattr(self._view, name)))


def made(inside):
    """Return an array of what NumPy has made: part of another's memory, or a copy in new memory."""
    whole = inside if isinstance(inside.base, Place) else inside.base
    while whole is not None and not isinstance(whole.base, Place):
        whole = whole.base
    if whole is None:
        array = ndarray(inside.shape, inside.dtype)
        array._inside[...] = inside
        return array
    return ndarray.__new__(ndarray)._become(inside, whole.base.pointer(inside), _OWNERS.get(id(whole)))


Array.kind = staticmethod(made)
xp.ndarray = ndarray
xp.cuda = SimpleNamespace(
    Device=lambda index: SimpleNamespace(use=lambda: None),
    MemoryPointer=MemoryPointer,
    Stream=Stream,
    UnownedMemory=UnownedMemory,
    get_current_stream=get_current_stream,
    using_allocator=using_allocator,
)
sys.modules["cupy"] = xp
sys.modules["cupyx"] = CUPYX
sys.modules["cupyx.scipy.special"] = Special()


class ComputingDevice(CudaDevice):
    """A CUDA device in the place of the strict one; notes what is copied in and out, by shape."""

    def __init__(self, name="/gpu:0", **options):
        super().__init__(name, **options)
        self.ins, self.outs = [], []

    def copy_all_in(self, pairs, **how):
        self.ins.extend(source.shape for source, _ in pairs)
        return super().copy_all_in(pairs, **how)

    def copy_out(self, source, **how):
        self.outs.append(source.shape)
        return super().copy_out(source, **how)


device.StrictDevice = ComputingDevice
