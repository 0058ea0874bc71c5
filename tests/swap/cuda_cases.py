"""Saved values that leave a GPU's memory, and what can go wrong; run on simulated CUDA by `test_cuda_simulated`."""

import asyncio
from contextlib import asynccontextmanager

import numpy as np
import pytest
import tagloom as tg
from tagloom.streams import CudaDevice
from tagloom.streams.cuda import CudaError
from tagloom.swap.swapper import StepSwapper
from tagloom.swap.tiers import Tiers

from tests.simcuda.plugin import simulated
from tests.simcuda.sessions import ArraysByCuda
from tests.support.settings import ON
from tests.swap.loops import SIZE, feeds_of, gradient, plain
from tests.swap.observing import bytes_in_tiers

COUNT, LENGTH = 40, 1000
NBYTES = 8 * LENGTH
POLICY = tg.SwapPolicy(threshold=0.3, minimum=1)


class Slots(dict):
    """A series that gives its entries."""

    cursor = -1
    at = dict.get


@asynccontextmanager
async def store(policy, **options):
    """Give a CUDA device with room for ten buffers and what keeps the values saved on it; nothing is left after it."""
    async with CudaDevice("/cuda:0", limit=10 * NBYTES, **options) as device:
        tiers = Tiers(policy, device.clock)
        swap = StepSwapper(device, tiers, policy, "/cuda:0")
        yield device, swap
        swap.close()
        await swap.drain()
        assert all(live == 0 for live, _ in tiers.bytes_by_tier.values())
        await tiers.aclose()
        assert device.live_bytes == device.host_pool.live_bytes == 0


async def make(device, swap, source):
    """Return a buffer as soon as there is room for it."""
    while True:
        try:
            return await device.copy_in(source)
        except MemoryError:
            assert swap.free_some()
            await asyncio.sleep(0.001)


async def save(device, swap):
    """Save buffers in order, each as if a kernel had made it."""
    slots = Slots()
    for i in range(COUNT):
        slots[i] = swap.entry_for(await make(device, swap, np.full(LENGTH, float(i))))
    return slots


async def read(device, swap, slots):
    """Read what was saved from its end, and look at all of it."""
    for i in reversed(range(COUNT)):
        buffer, coming = swap.read(slots, i, True)
        buffer = buffer or await coming
        del slots[i], coming
        assert buffer.is_in(device.pool)
        out = device.copy_out(buffer)
        await out.over()
        np.testing.assert_array_equal(out.take(), np.full(LENGTH, float(i)), strict=True)
        del buffer, out


# ---- buffers in the GPU's own memory


@pytest.mark.parametrize("delay", [0, 300])
@pytest.mark.parametrize("prefetch", ["auto", 0, 64])
async def test_buffers_leave_a_gpu_and_come_back(delay, prefetch):
    async with asyncio.timeout(20), store(tg.SwapPolicy(threshold=0.5, prefetch=prefetch)) as (device, swap):
        simulated.set_delay(delay)
        slots = await save(device, swap)
        assert swap.counts.bytes_out["host"] >= (COUNT - 10) * NBYTES
        assert device.peak_bytes <= device.limit
        assert device.host_pool.live_bytes >= (COUNT - 10) * NBYTES
        await read(device, swap, slots)
        assert swap.counts.bytes_in["host"] >= (COUNT - 10) * NBYTES
        assert (swap.counts.hits > 0) == (prefetch != 0)


@pytest.mark.parametrize("most", [1, 12 * NBYTES])
async def test_buffers_on_disk(tmp_path, most):
    policy = tg.SwapPolicy(threshold=0.5, host_limit=most, disk=tmp_path)
    async with asyncio.timeout(20), store(policy) as (device, swap):
        slots = await save(device, swap)
        assert swap.counts.bytes_out["disk"] > 0
        assert ("host" in swap.counts.bytes_out) == (most > 1)
        await read(device, swap, slots)


async def test_a_buffer_that_somebody_has_stays():
    async with asyncio.timeout(20), store(POLICY) as (device, swap):
        held = await device.copy_in(np.ones(LENGTH))
        slots = Slots({-1: swap.entry_for(held)})
        slots |= await save(device, swap)
        assert slots[-1].array is held
        assert swap.counts.held > 0
        del held, slots[-1]
        await read(device, swap, slots)


async def test_buffers_from_a_device_that_was_closed():
    async with CudaDevice("/cuda:0", limit=10 * NBYTES) as device:
        pass
    for take in (device.allocate, device.allocate_unreserved, device.host_memory().take):
        with pytest.raises(tg.TagloomError, match="has ended with the device"):
            take((LENGTH,), np.dtype(float))


async def test_blocks_are_made_in_any_thread():
    """The context is current only while one is."""
    async with CudaDevice("/cuda:0") as device:
        pushed = simulated.counts()["pushed"]
        made = [await asyncio.to_thread(device.allocate, (LENGTH,), np.dtype(float)) for _ in range(3)]
        host = device.host_memory(3 * NBYTES)
        arrays = [host.take((LENGTH,), np.dtype(float)) for _ in range(3)]
        with pytest.raises(MemoryError):
            host.take((1,), np.dtype(bool))
        counts = simulated.counts()
        assert (counts["allocations"], counts["pinned"], counts["pushed"]) == (3, 3, pushed)
        for i, (buffer, array) in enumerate(zip(made, arrays, strict=True)):
            array[:] = i
            await device.copy_in(array, into=buffer)
            assert (await device.copy_out(buffer) == i).all()


# ---- steps whose arrays are copied by CUDA


@asynccontextmanager
async def steps(graph, policy=POLICY, **options):
    """Give a session on such a device and a step of it, which checks its result; nothing is left in the end."""
    fetch, feeds = gradient(plain), feeds_of(graph)
    async with tg.Session(graph, swap=True, settings=ON) as session:
        expected = await session.run(fetch, feeds)

    async with ArraysByCuda("/cpu:0", **options) as device:
        async with tg.Session(graph, devices=[device], memory_limit=16 * SIZE, swap=policy, settings=ON) as session:

            async def step():
                np.testing.assert_array_equal(await session.run(fetch, feeds, timeout=20), expected)

            yield device, step, session
            assert bytes_in_tiers(session) == 0
        assert device.live_bytes == device.cuda.host_pool.live_bytes == 0


async def test_copies_are_those_of_cuda(graph):
    async with steps(graph) as (device, step, session):
        await step()
        moved = [stream.statistics().nbytes for stream in (device.cuda.device_to_host, device.cuda.host_to_device)]
        (report,) = session.report().swap
        assert moved == [report.bytes_out["host"], report.bytes_in["host"]]
        assert min(moved) > 0
        assert device.cuda.host_pool.peak_bytes >= report.peak_bytes["host"] > 0


@pytest.mark.parametrize("after", [0, 1, 5, 20])
@pytest.mark.parametrize("tier", ["host", "disk"])
async def test_copies_that_can_not_be_enqueued(graph, tmp_path, tier, after):
    policy = POLICY if tier == "host" else tg.SwapPolicy(threshold=0.3, host_limit=1, disk=tmp_path)
    async with steps(graph, policy) as (_, step, session):
        await step()
        simulated.fail_copy(after)
        with pytest.raises(tg.SwapError, match="unspecified launch failure") as caught:
            await step()
        assert isinstance(caught.value.__cause__, CudaError)
        assert session.statistics().steps_running == 0
        del caught
        await step()


@pytest.mark.parametrize("after", [0, 3, 20])
async def test_a_context_that_is_lost(graph, after):
    """No step can swap any more, and closing still works."""
    async with steps(graph) as (device, step, _):
        simulated.fail_run(after)
        for _ in range(2):
            with pytest.raises((tg.SwapError, tg.DeviceMemoryError)):
                await step()
        simulated.fail_run(-1)
        await device.cuda.aclose()


@pytest.mark.parametrize("count", [0, 2, 6])
async def test_page_locked_memory_that_is_out(graph, count):
    async with steps(graph) as (device, step, _):
        device.cuda.host_pool.limit = count * SIZE
        with pytest.raises(tg.DeviceMemoryError):
            await step()
        device.cuda.host_pool.limit = None
        await step()


@pytest.mark.parametrize("count", [0, 1])
async def test_page_locked_memory_that_is_out_on_the_way_to_the_disk(graph, tmp_path, count):
    policy = tg.SwapPolicy(threshold=0.3, host_limit=1, disk=tmp_path)
    async with steps(graph, policy) as (device, step, _):
        device.cuda.host_pool.limit = count * SIZE
        with pytest.raises(tg.OpError, match=r"the host has no room for|there is no room for a result"):
            await step()
        device.cuda.host_pool.limit = None
        await step()


async def test_a_driver_that_refuses_to_lock_pages_now_and_then(graph):
    """Another value, or another try, gets them."""
    async with steps(graph) as (_, step, _):
        for after in range(6):
            simulated.fail_allocation(after)
            await step()


@pytest.mark.parametrize("delay", [200, 2000])
async def test_copies_that_are_late(graph, delay):
    async with steps(graph) as (_, step, session):
        simulated.set_delay(delay)
        await step()
        assert session.report().swap[0].stalled_seconds > 0


@pytest.mark.parametrize("seconds", [0.0, 0.005, 0.01, 0.02, 0.04])
async def test_cancelled_in_the_middle_of_copies(graph, seconds):
    async with steps(graph) as (_, step, session):
        simulated.set_delay(3000)
        task = asyncio.ensure_future(step())
        await asyncio.sleep(seconds)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert bytes_in_tiers(session) == 0
        simulated.set_delay(0)
        await step()
