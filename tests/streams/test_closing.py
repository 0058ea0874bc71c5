"""Closing a device, and what is left of it; devices that serve one loop after another."""

import asyncio
import os
import threading

import numpy as np
import pytest
from tagloom.streams import DeviceClosed, Event

from tests.streams.fake_devices import KINDS, make, rig_of


def resources():
    return threading.active_count(), len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("kind", KINDS)
async def test_closing_waits_for_what_has_begun_and_drops_the_rest(kind):
    before = resources()
    async with rig_of(kind) as rig:
        await rig.device.copy_out(rig.device.copy_in(np.ones(3)))
        event, go = rig.busy(rig.device.compute)
        seen, stuck = [], rig.device.host_to_device.submit(after=[Event()])
        behind = rig.device.compute.submit(lambda: seen.append("behind"), after=[event])
        while not rig.device.compute.statistics().running:
            await asyncio.sleep(0)
        closing = asyncio.create_task(rig.device.aclose())
        await asyncio.sleep(0)
        assert event.done or not closing.done()
        go()
        await closing
        assert event.done
        assert event.error is None
        for dropped in (behind, stuck):
            with pytest.raises(DeviceClosed):
                await dropped
        assert seen == []
        with pytest.raises(DeviceClosed):
            rig.device.compute.submit()
        with pytest.raises(DeviceClosed):
            rig.device.copy_in(np.ones(3))
        await rig.device.aclose()
        assert await rig.other.compute.submit(lambda: "open") == "open"
    assert resources() == before


@pytest.mark.parametrize("kind", KINDS)
async def test_a_cancelled_close_can_be_repeated(kind):
    async with rig_of(kind) as rig:
        event, go = rig.busy(rig.device.compute)
        closing = asyncio.create_task(rig.device.aclose())
        await asyncio.sleep(0)
        if closing.cancel():  # a manual device has closed at once
            with pytest.raises(asyncio.CancelledError):
                await closing
        go()
        await rig.device.aclose()
        assert event.done
        with pytest.raises(DeviceClosed):
            rig.device.compute.submit()


@pytest.mark.parametrize("kind", ["cpu", "manual", "latency"])
def test_a_device_serves_one_loop_after_another(kind):
    device = make(kind)
    if kind == "manual":
        device.release_all()

    async def serve(i):
        return await device.compute.submit(lambda: i, kind="tiny")

    async def leave():
        device.compute.submit(lambda: "left", kind="tiny")

    assert [asyncio.run(serve(i)) for i in range(3)] == [0, 1, 2]
    asyncio.run(leave())
    assert asyncio.run(serve(3)) == 3
    asyncio.run(device.aclose())


@pytest.mark.parametrize("kind", KINDS)
async def test_arrays_outlive_their_device(kind):
    async with rig_of(kind) as rig:
        array = await rig.read(await rig.device.copy_in(np.arange(10)))
    assert array.sum() == 45
