"""A StepSwapper by itself, on devices whose copies end when a test says so."""

import asyncio
import errno
import gc

import numpy as np
import tagloom as tg
from tagloom.kernels.scheduler.series import Series
from tagloom.streams import ManualDevice
from tagloom.swap.entry import State
from tagloom.swap.swapper import StepSwapper
from tagloom.swap.tiers import Tiers

N = 1000
SIZE = 8 * N
RESIDENT, SWAPPING_OUT, SWAPPED_OUT, SWAPPING_IN, CACHED = State


class Rig:
    """A StepSwapper on a device with room for ten arrays, and a series of what it keeps."""

    def __init__(self, device, **fields):
        self.device = device
        self.policy = tg.SwapPolicy(**{"threshold": 0.5, "prefetch": 0} | fields)
        self.tiers = Tiers(self.policy, device.clock)
        self.swap = StepSwapper(device, self.tiers, self.policy, device.name)
        self.swap._batch_bytes = 0  # each value is copied by itself
        self.errors, self.wakes = [], []
        self.swap.copies.fail = self.errors.append
        self.swap.copies.wake = lambda: self.wakes.append(None)
        self.series = Series()

    def array(self, k=0):
        return self.device.contexts.run(np.full, N, float(k))

    def push(self, *numbers):
        for k in numbers:
            self.series.put(k, self.swap.entry_for(self.array(k)))

    def states(self):
        return [getattr(self.series.at(k), "state", None) for k in self.series.indices()]

    def read(self, k, last=False):
        """Read a slot as the step machine does."""
        found = self.swap.read(self.series, k, last)
        if last:
            self.series.put(k, np.zeros(1))
        return found

    async def turn(self):
        """Let the callbacks of what has ended run."""
        for _ in range(4):
            await asyncio.sleep(0)

    async def out(self, count=1):
        self.device.device_to_host.release(count)
        await self.turn()

    async def back(self, count=1):
        self.device.host_to_device.release(count)
        await self.turn()

    def forget(self):
        """Let go of errors: their frames have what was copied by work that was done where it was submitted."""
        self.errors.clear()
        gc.collect()

    async def aclose(self):
        self.swap.close()
        if isinstance(self.device, ManualDevice):
            self.device.release_all()
        await self.swap.drain()
        await self.turn()  # the one that woke the test has its future
        self.series = None
        gc.collect()
        assert self.tiers.host.live_bytes == self.tiers.staging.live_bytes == 0
        assert self.tiers.disk is None or self.tiers.disk.live_bytes == 0
        await self.tiers.aclose()
        await self.device.aclose()
        assert self.device.live_bytes == 0


async def made(device=None, **fields):
    return Rig(device or ManualDevice("/cpu:0", limit=10 * SIZE + 100), **fields)


async def gone(rig, count):
    """Save so many values and let all leave but the last five."""
    for k in range(count):
        rig.push(k)
        await rig.out(5)
    assert rig.states() == [*[SWAPPED_OUT] * (count - 5), *[RESIDENT] * 5]


def refuse(*_, **__):
    raise OSError(errno.EIO, "the bus is broken")
