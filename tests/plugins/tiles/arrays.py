"""Arrays in the memory of the accelerator: NumPy reads and writes them by copies alone."""

from types import SimpleNamespace

import numpy as np


class TileArray:
    """An array of float32 in memory of its own."""

    __slots__ = ("__weakref__", "memory", "shape")
    __hash__ = None
    base = None  # no array is a view of another
    dtype = np.dtype(np.float32)
    flags = SimpleNamespace(c_contiguous=True)

    def __init__(self, shape, memory):
        self.shape, self.memory = tuple(shape), memory

    ndim = property(lambda self: len(self.shape))
    size = property(lambda self: int(np.prod(self.shape, dtype=np.int64)))
    nbytes = property(lambda self: len(self.memory))

    def __array__(self, *_, **__):
        raise TypeError("an array of a tile processor is read by copies")


def inside(array):
    """Return the elements as the kernels of the accelerator see them; TypeError for arrays of another memory."""
    if not isinstance(array, TileArray):
        raise TypeError(f"not in the memory of a tile processor: {type(array).__name__}")
    return np.frombuffer(array.memory, np.float32).reshape(array.shape)


def made(elements):
    """Return a new array with elements that a kernel has computed."""
    elements = np.asarray(elements, np.float32)
    return TileArray(elements.shape, bytearray(elements.tobytes()))


def empty(shape, dtype):
    """Return a new array, uninitialised as far as callers know."""
    return TileArray(shape, bytearray(4 * int(np.prod(shape, dtype=np.int64))))


def full(shape, value, dtype):
    """Return a new array of equal elements."""
    return made(np.full(shape, value, np.float32))


def read(array, into):
    """Copy an array to the host."""
    into[...] = inside(array)


def write(source, into):
    """Copy an array from the host."""
    into.memory[:] = np.ascontiguousarray(source).tobytes()
