"""A device of sessions whose arrays are the strict library's; its memory and streams are a CPU device's."""

import numpy as np
from tagflow.streams.cpu import CpuDevice

from tests.strict.library import CALLS, Array, Calls, xp


class StrictDevice(CpuDevice):
    """Notes what is copied in and out, by shape.

    Copies made here are no waits of the host: `WAITS` of the library counts those.
    """

    arrays = xp

    def __init__(self, name="/gpu:0", **options):
        super().__init__(name, **options)
        self.ins, self.outs = [], []
        Calls.devices.add(self)

    async def aclose(self):
        Calls.devices.discard(self)
        await super().aclose()

    def call(self, function, *args):
        return CALLS.enter(function, args)

    def copy_in(self, source, *, into=None, after=()):
        assert isinstance(source, np.ndarray)
        assert into is None
        self.ins.append(source.shape)
        copied = super().copy_in(source, after=after)
        return self.host_to_device.submit(lambda: self.call(Array, copied.take()), after=[copied])

    def copy_out(self, source, *, into=None, after=()):
        assert isinstance(source, Array)
        assert into is None
        self.outs.append(source.shape)
        return super().copy_out(source._inside, after=after)
