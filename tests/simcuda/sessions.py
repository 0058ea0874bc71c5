"""For pytest in a process of its own (``-p tests.simcuda.sessions``): what sessions take for CPUs copies by CUDA.

Kernels do not run on the stand-in, so arrays stay in the pool of a CPU, where kernels and limits find them. A copy
takes the array's memory for the GPU's as long as it goes on; its streams, events, page-locked memory and errors are
those of a CudaDevice.
"""

from operator import attrgetter

import numpy as np
import tagloom.streams
from tagloom.streams import cpu as devices
from tagloom.streams.cuda import CudaDevice
from tagloom.streams.cuda.memory import CudaBuffer
from tagloom.streams.host import HostDevice

from tests.simcuda.plugin import simulated


class Adopted(CudaBuffer):
    """An array whose memory is the GPU's as long as this lives."""

    __slots__ = ("address", "array")

    def __init__(self, pool, array):
        self._pool, self._block, self.array = pool, None, array
        self.shape, self.dtype, self.size, self.nbytes = array.shape, array.dtype, array.size, array.nbytes
        self.address = simulated.adopt(array.ctypes.data, array.nbytes)

    def __del__(self):
        simulated.disown(self.address)

    @property
    def pointer(self):
        return self.address


class Copies(CudaDevice):
    """Copies to and from adopted arrays."""

    def _submit_copy(self, stream, copy, source, after, kind, **how):
        if kind == "HostToDevice":
            how["then"] = attrgetter("array")
        return super()._submit_copy(stream, copy, source, after, kind, **how)


class ArraysByCuda(HostDevice):
    """A CPU device whose copies are those of a GPU."""

    def __init__(self, name, *, clock=None, **options):
        self.cuda = Copies(f"{name} by CUDA", clock=clock)
        streams = iter(self.cuda.streams)
        super().__init__(name, lambda *_: next(streams), clock=self.cuda.clock, **options)

    def host_memory(self, limit=None):
        return self.cuda.host_memory(limit)

    def copy_in(self, source, *, into=None, after=()):
        into = self.contexts.run(np.empty, source.shape, source.dtype) if into is None else into
        return self.cuda.copy_in(source, into=self.adopt(into), after=after)

    def copy_out(self, source, *, into=None, after=()):
        return self.cuda.copy_out(self.adopt(source), into=into, after=after)

    def copy_all_in(self, pairs, *, after=()):
        return self.cuda.copy_all_in([(source, self.adopt(into)) for source, into in pairs], after=after)

    def copy_all_out(self, pairs, *, after=()):
        return self.cuda.copy_all_out([(self.adopt(source), into) for source, into in pairs], after=after)

    def adopt(self, array):
        return Adopted(self.cuda.pool, array)

    async def aclose(self):
        await self.cuda.aclose()
        await super().aclose()


tagloom.streams.CpuDevice = devices.CpuDevice = ArraysByCuda
