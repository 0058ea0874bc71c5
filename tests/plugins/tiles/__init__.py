"""A device kind: an accelerator whose arrays lie in memory of its own, and which has three kernels.

`install` registers the kind "tiles" and its kernels. All other operations of a step run on the host.
"""

from contextlib import ExitStack

from tagloom import operations, streams

from . import kernels
from .arrays import TileArray, empty, full, read, write

COUNT = 2  # devices of this machine
KERNELS = {"MatMul": kernels.matmul, "Add": kernels.add, "Tanh": kernels.tanh}


class Library:
    """The functions that tagloom calls."""

    ndarray = TileArray
    empty = staticmethod(empty)
    full = staticmethod(full)


def open_device(name, index, settings):
    """Open a device; DeviceUnavailable if there are fewer."""
    if index >= COUNT:
        raise streams.DeviceUnavailable(f"there are {COUNT} tile processors", hint="number them from 0")
    return streams.LibraryDevice(name, Library, read=read, write=write)


def install(without=()):
    """Register the kind and its kernels, except some; return an ExitStack, whose `close` takes them back."""
    with ExitStack() as stack:
        stack.enter_context(
            operations.register_device_kind(
                "tiles",
                open_device,
                count=lambda: COUNT,
                dtypes=["float32"],
                needs_kernels=True,
                requires="a tile processor",
            )
        )
        for type in KERNELS.keys() - set(without):
            kernel = KERNELS[type]
            stack.enter_context(operations.register_kernel(type, kernel, dtype="float32", device_kind="tiles"))
        return stack.pop_all()
