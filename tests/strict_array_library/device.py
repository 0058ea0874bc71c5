"""Devices of sessions whose arrays are the strict library's; their memory is counted, their streams are a CPU's."""

from functools import partial

from tagloom.kernels.memory.byte_counter import ByteCounter
from tagloom.kernels.memory.contexts import KernelContexts
from tagloom.kernels.memory.unreserved import allocate_unreserved
from tagloom.kernels.native.cuda.generator import cuda_generator
from tagloom.streams.cpu import CpuDevice

from tests.strict_array_library.library import CALLS, Array, Calls, charge_of, xp


class Strict:
    """What makes a HostDevice one of strict arrays.

    Notes what is copied in and out, by shape. Copies made here are no waits of the host: `WAITS` of the library counts
    those. A copy out must come after a marker behind the last call: kernels may only have enqueued what makes the
    array.
    """

    arrays = xp
    buffer = Array

    def __init__(self, name="/gpu:0", **options):
        super().__init__(name, **options)
        self.pool = ByteCounter(charge_of, self.limit)
        self.contexts = KernelContexts(self.pool)
        self.ins, self.outs = [], []
        self._calls, self._markers = 0, {}
        Calls.devices.add(self)

    async def aclose(self):
        Calls.devices.discard(self)
        await super().aclose()

    @property
    def generator(self):
        return cuda_generator(self.arrays)

    def call(self, function, *args):
        self._calls += 1
        return CALLS.enter(self.pool, function, args)

    def compute_barrier(self):
        markers = super().compute_barrier()
        self._markers = dict.fromkeys(markers, self._calls)
        return markers

    def allocate(self, shape, dtype):
        return self._empty(shape, dtype)

    def allocate_unreserved(self, shape, dtype):
        return allocate_unreserved(self.contexts, shape, dtype, self._empty)

    def make_readonly(self, buffer):
        return True  # kernels in Python write into nothing that they are given

    def copy_in(self, source, *, into=None, after=()):
        into = self.allocate(source.shape, source.dtype) if into is None else into
        copied = self.copy_all_in([(source, into)], after=after)
        return self.host_to_device.submit(partial(_given, into), after=[copied])

    def copy_out(self, source, *, into=None, after=()):
        self._check(after)
        self.outs.append(source.shape)
        return super().copy_out(inside(source), into=into, after=after)

    def copy_all_in(self, pairs, *, after=()):
        self.ins.extend(source.shape for source, _ in pairs)
        return super().copy_all_in([(source, inside(into)) for source, into in pairs], after=after)

    def copy_all_out(self, pairs, *, after=()):
        self._check(after)
        return super().copy_all_out([(inside(source), into) for source, into in pairs], after=after)

    def _empty(self, shape, dtype):
        return CALLS.enter(self.pool, xp.empty, (shape, dtype))

    def _check(self, after):
        assert any(self._markers.get(event) == self._calls for event in after), "a copy of what may not be computed yet"


def inside(array):
    """Return NumPy's array in one of the library's, and of no other."""
    assert isinstance(array, Array)
    return array._inside


def _given(array):
    return array


class StrictDevice(Strict, CpuDevice):
    """With the memory and the streams of a CPU."""
