"""Devices of every kind, each with what a test needs to hold it in the middle of its work."""

import asyncio
import os
import sys
import threading
from contextlib import asynccontextmanager, suppress

import numpy as np
from tagloom.base.errors import DtypeError
from tagloom.streams import CpuDevice, LatencyDevice, LibraryDevice, ManualDevice, VirtualClock

from tests.support.probes import has_gpu

SIMULATED = sys.modules.get("tests.simcuda.plugin")  # in a process of its own; see tests/simcuda
GPU = "TAGLOOM_TEST_GPU" in os.environ and has_gpu()  # set by tests marked ``gpu`` for theirs
KINDS = ["cpu", "library", "manual", "latency", "virtual", *(["cuda"] if SIMULATED else []), *(["gpu"] if GPU else [])]
NAME = "/job:localhost/task:0/device:CPU:{}"


class Rig:
    """Two devices of a kind, and work on them that goes on until it is let go.

    Attributes
    ----------
    shares_memory : bool
        Whether the host can read the device's memory, which can have any NumPy array then.
    count : int
        How many devices there are: two, but for a single GPU, which is both.
    """

    shares_memory = True
    count = 2

    def __init__(self, devices):
        self.device, self.other = devices
        self.kept = set()  # streams that are not released for now

    def busy(self, stream):
        """Submit work that has begun when it can; return its event and what lets it end."""
        go = threading.Event()
        return stream.submit(go.wait, kind="busy"), go.set

    async def read(self, buffer):
        """Return a buffer of any of the devices as an array."""
        return buffer


class LatencyRig(Rig):
    def busy(self, stream):
        return stream.submit(kind="busy"), lambda: None


class ManualRig(Rig):
    def busy(self, stream):
        self.kept.add(stream)
        return stream.submit(kind="busy"), lambda: self.kept.discard(stream)

    async def release(self):
        while True:
            for stream in {*self.device.streams, *self.other.streams} - self.kept:
                if stream.statistics().running:
                    stream.release()
            await asyncio.sleep(0)


class CudaRig(Rig):
    shares_memory = False

    def busy(self, stream):
        simulated, lock, gates, gone = SIMULATED.simulated, threading.Lock(), [], []

        def work():
            with lock:
                gates.append(simulated.gate(stream.handle))
                if gone:
                    simulated.open(gates[0])

        def go():
            with lock:
                gone.append(True)
                for gate in gates:
                    simulated.open(gate)

        return stream.submit(work, kind="busy"), go

    async def read(self, buffer):
        owner = self.device if self.device.pool.counts(buffer) else self.other
        return await owner.copy_out(buffer)


class Elsewhere:
    """An array of a library with memory of its own."""

    base = None

    def __init__(self, inside):
        self.inside = inside
        self.shape, self.dtype, self.ndim, self.size = inside.shape, inside.dtype, inside.ndim, inside.size
        self.nbytes, self.flags = inside.nbytes, inside.flags


class Library:
    """What a LibraryDevice asks of its library."""

    ndarray = Elsewhere

    @staticmethod
    def empty(shape, dtype):
        if dtype.kind == "T":
            raise DtypeError("arrays of this library hold no strings", got=dtype)
        return Elsewhere(np.empty(shape, dtype))

    full = staticmethod(lambda shape, value, dtype: Elsewhere(np.full(shape, value, dtype)))


class LibraryRig(Rig):
    """Copies alone lead from the device's memory to the host's."""

    shares_memory = False

    async def read(self, buffer):
        owner = self.device if self.device.owns(buffer) else self.other
        return await owner.copy_out(buffer)


def make_library_device(name, **options):
    """Return a device of an array library."""

    def read(array, into):
        np.copyto(into, array.inside, casting="no")

    def write(source, into):
        np.copyto(into.inside, source, casting="no")

    return LibraryDevice(name, Library, read=read, write=write, **options)


SPIN = """
extern "C" __global__ void spin(long long turns) {
    long long start = clock64();
    while (clock64() - start < turns) {}
}
"""


class GpuRig(CudaRig):
    """On a real GPU work is let go by itself, after half a second: in that, all streams begin theirs."""

    def __init__(self, devices):
        import cupy

        super().__init__(devices)
        self.count = min(2, gpus())
        self.spin = cupy.RawKernel(SPIN, "spin")
        self.spin((1,), (1,), (np.int64(0),))  # compiled and loaded here, so that no work waits for that
        cupy.cuda.get_current_stream().synchronize()

    def busy(self, stream):
        import cupy

        def work():
            with cupy.cuda.Stream.from_external(stream):
                self.spin((1,), (1,), (np.int64(1_000_000_000),))

        return stream.submit(work, kind="busy"), lambda: None


def gpus():
    """Return how many GPUs there are; where there is one, it is both devices of a rig."""
    from tagloom.streams import cuda_devices

    return len(cuda_devices())


def make(kind, clock=None, **options):
    """Return a device of a kind."""
    index = options.pop("index", 0)
    name = NAME.format(index % gpus() if kind == "gpu" else index)
    if kind in ("latency", "virtual"):
        return LatencyDevice(name, seconds={"busy": 0.02, "tiny": 1e-4}, bytes_per_second=1e9, clock=clock, **options)
    if kind in ("cuda", "gpu"):
        from tagloom.streams import CudaDevice

        return CudaDevice(name.replace("CPU", "CUDA"), clock=clock, **options)
    return {"cpu": CpuDevice, "library": make_library_device, "manual": ManualDevice}[kind](
        name, clock=clock, **options
    )


@asynccontextmanager
async def rig_of(kind, **options):
    """Give a rig; close it at the end, whatever has happened to it."""
    clock = VirtualClock() if kind == "virtual" else None
    devices = [make(kind, clock, index=i, **options) for i in range(2)]
    if kind == "manual":
        rig = ManualRig(devices)
        releasing = asyncio.create_task(rig.release())
        async with devices[0], devices[1]:
            yield rig
        releasing.cancel()
        with suppress(asyncio.CancelledError):
            await releasing
    elif kind == "virtual":
        async with clock, devices[0], devices[1]:
            yield LatencyRig(devices)
    else:
        async with devices[0], devices[1]:
            yield {"latency": LatencyRig, "library": LibraryRig, "cuda": CudaRig, "gpu": GpuRig}.get(kind, Rig)(devices)
