"""What is particular to CUDA devices; run on simulated CUDA by `test_cuda_simulated`."""

import asyncio
import gc
import threading
import weakref

import numpy as np
import pytest
from tagloom.base.errors import TagloomError
from tagloom.streams import CpuDevice, CudaDevice, DeviceClosed, Event, VirtualClock
from tagloom.streams.cuda import CudaError, cuda_devices
from tagloom.streams.cuda.memory import capacity_of, is_pinned

from tests.simcuda.child import run_python
from tests.simcuda.plugin import simulated
from tests.streams.fake_devices import make, rig_of

ONES = np.ones(1000)


@pytest.fixture
async def rig():
    async with rig_of("cuda") as rig:
        yield rig


def in_thread(function, *arguments):
    thread = threading.Thread(target=function, args=arguments)
    thread.start()
    thread.join()


async def until(condition):
    while not condition():
        await asyncio.sleep(0)


# ---- memory


async def test_foreign_threads_drop_buffers_and_arrays(rig):
    """Their memory comes back to the pool at once, and to the driver by the device's own thread."""
    buffers = [await rig.device.copy_in(ONES) for _ in range(20)]
    arrays = [await rig.device.copy_out(buffer) for buffer in buffers]
    made = simulated.counts()["allocations"]
    halves = [buffers[:10], buffers[10:]]
    views = [array[5:].reshape(5, -1) for array in arrays]
    buffers.clear()
    arrays.clear()
    assert rig.device.live_bytes == 20 * ONES.nbytes
    in_thread(halves.pop)
    assert rig.device.live_bytes == 10 * ONES.nbytes
    in_thread(halves.clear)
    assert rig.device.live_bytes == 0
    assert rig.device.host_pool.live_bytes == 20 * ONES.nbytes
    in_thread(views.clear)
    assert rig.device.host_pool.live_bytes == 0
    assert simulated.counts()["allocations"] == made
    again = [await rig.device.copy_in(ONES) for _ in range(20)]
    assert simulated.counts()["allocations"] == made
    assert rig.device.peak_bytes == 20 * ONES.nbytes
    del again


async def test_garbage_collection_in_a_thread_frees_nothing_there(rig):
    """A cycle that has a buffer is found by whoever collects."""
    cycle = [await rig.device.copy_in(ONES)]
    cycle.append(cycle)
    del cycle
    in_thread(gc.collect)
    assert rig.device.live_bytes == 0
    assert simulated.counts()["allocations"] >= 1


async def test_many_threads_drop_while_copies_go_on(rig):
    """Everybody's arrays stay what they were."""
    simulated.set_delay(50)
    handed = asyncio.Queue()

    def drop(array, i):
        assert (array == i).all()

    async def send(i):
        buffer = await rig.device.copy_in(np.full(100 + i, i))
        await handed.put((i, buffer))

    async def receive():
        i, buffer = await handed.get()
        array = await rig.device.copy_out(buffer)
        del buffer
        await asyncio.to_thread(drop, array, i)

    for k in range(0, 120, 12):
        await asyncio.gather(*(send(i) for i in range(k, k + 12)), *(receive() for _ in range(12)))
    assert rig.device.live_bytes == 0


async def test_memory_of_the_driver_is_asked_for_in_few_sizes():
    sizes = {capacity_of(n) for n in range(1, 1 << 16)}
    assert all(n <= capacity_of(n) for n in range(1, 1 << 16))
    assert all(capacity_of(n) <= 1.25 * n for n in range(2048, 1 << 16))
    assert len(sizes) == 8 + 4 * 4


async def test_what_is_cached_makes_room():
    """When the driver has no more, free blocks of other sizes are given back to it."""
    async with make("cuda") as device:
        simulated.set_limit(10_000_000)
        for n in (300_000, 400_000, 500_000, 600_000, 700_000):
            await device.copy_in(np.ones(n // 8))
        big = await device.copy_in(np.ones(1_150_000))
        assert device.live_bytes == 9_200_000
        with pytest.raises(MemoryError, match="the driver has no more"):
            await device.copy_in(np.ones(500_000))
        assert device.pool.refused_bytes == 4_000_000
        assert device.live_bytes == 9_200_000
        del big
        assert (await device.copy_in(np.ones(500_000))).size == 500_000


async def test_a_limit_is_kept_with_what_is_cached():
    async with make("cuda", limit=1 << 20) as device:
        for n in range(10_000, 100_000, 5_000):
            await device.copy_in(np.ones(n // 8))
            assert simulated.counts()["bytes"] <= 1 << 20
        assert device.pool.cached_bytes > 1 << 18


async def test_an_allocation_that_fails_is_tried_again_and_then_fails(rig):
    simulated.fail_allocation(0)
    assert (await rig.device.copy_in(ONES)).size == 1000
    simulated.set_limit(0)
    with pytest.raises(MemoryError, match="cuMemAlloc failed: out of memory"):
        await rig.device.copy_in(np.ones(100_000))
    simulated.set_limit(1 << 30)
    assert (await rig.device.copy_in(np.ones(100_000))).size == 100_000


async def test_what_work_lets_go_of_is_not_used_again_before_it_is_done(rig):
    device, gates = rig.device, []

    def work():
        for _ in range(3):
            device.allocate((1000,), np.float64)
        gates.append(simulated.gate(device.compute.handle))

    event = device.compute.submit(work)
    await until(lambda: gates)
    other = await device.copy_in(ONES)
    assert device.live_bytes == 4 * ONES.nbytes
    simulated.open(gates[0])
    await event
    assert device.live_bytes == ONES.nbytes
    del other


async def test_page_locked_arrays_are_copied_in_as_they_are(rig):
    array = await rig.device.copy_out(rig.device.copy_in(ONES))
    assert is_pinned(array, rig.device.host_pool)
    assert not is_pinned(array, rig.other.host_pool)
    assert not is_pinned(array[::2], rig.device.host_pool)
    peak = rig.device.host_pool.peak_bytes
    buffer = await rig.device.copy_in(array)
    assert rig.device.host_pool.peak_bytes == peak
    assert (await rig.device.copy_out(buffer) == ONES).all()
    assert ((await rig.device.copy_out(rig.device.copy_in(array[::2]))) == ONES[::2]).all()


async def test_other_libraries_see_a_buffer(rig):
    buffer = await rig.device.copy_in(np.zeros((3, 4), np.int32))
    assert buffer.__cuda_array_interface__ == {
        "shape": (3, 4),
        "typestr": "<i4",
        "data": (buffer.pointer, False),
        "strides": None,
        "version": 3,
    }
    assert "int32[3, 4] in the memory of" in repr(buffer)
    empty = await rig.device.copy_in(np.zeros((0, 4)))
    assert empty.__cuda_array_interface__["data"] == (0, False)


# ---- streams


async def test_copies_are_enqueued_ahead_and_wait_on_the_device(rig):
    """The host goes on at once; streams of both devices wait for each other without it."""
    array = await rig.device.copy_out(rig.device.copy_in(ONES))
    busy, go = rig.busy(rig.device.host_to_device)
    inside = rig.device.copy_in(array, after=[busy])
    outside = rig.device.copy_out(inside)
    other = rig.other.compute.submit(lambda: "other", after=[outside], ahead=True)
    await until(lambda: rig.other.compute.statistics().running)
    assert not any(event.done for event in (busy, inside, outside, other))
    assert not other.withdraw()
    go()
    assert await other == "other"
    assert outside.done
    assert (outside.result() == ONES).all()
    assert inside.ended <= outside.ended <= other.ended
    assert (inside.began, outside.began) >= (busy.ended, busy.began)


async def test_ordinary_memory_is_read_when_what_is_waited_for_is_done(rig):
    array, busy = np.zeros(1000), rig.busy(rig.device.compute)
    copy = rig.device.copy_in(array, after=[busy[0]])
    await until(lambda: rig.device.compute.statistics().running)
    array[:] = 1
    busy[1]()
    assert (await rig.read(await copy) == 1).all()


async def test_markers_are_used_again_when_nobody_can_mistake_them(rig):
    """Devices wait for each other's events, which are recorded anew as soon as they are done."""
    simulated.set_delay(20)
    array = await rig.device.copy_out(rig.device.copy_in(ONES))
    event = rig.other.compute.submit()
    for i in range(300):
        stream = (rig.device.compute, rig.other.device_to_host, rig.other.compute)[i % 3]
        first = rig.device.copy_in(array, after=[event] if i % 7 == 0 else [])
        event = stream.submit(lambda: 1, after=[first, event], ahead=True)
        if i % 10 == 0:
            await asyncio.sleep(0.001)
    assert await event == 1
    assert rig.device.host_to_device.statistics().done == 301


async def test_late_copies_hold_nobody(rig):
    simulated.set_delay(20_000)
    turns, copy = 0, rig.device.copy_in(ONES)
    while not copy.done:
        turns += 1
        await rig.device.compute.submit()
    assert turns > 1
    assert copy.ended - copy.began >= 0.02


async def test_virtual_time_waits_for_the_device():
    async with VirtualClock() as clock, make("cuda", clock) as device:
        array = await device.copy_out(device.copy_in(ONES))
        simulated.set_delay(5_000)
        copy = device.copy_in(array)
        sleeping = asyncio.create_task(clock.sleep(1000))
        await copy
        assert clock.now() == 0
        await sleeping
        assert clock.now() == 1000
    assert (copy.began, copy.ended) == (0, 0)


async def test_devices_of_different_sorts_wait_for_each_other(rig):
    async with CpuDevice("D0") as cpu:
        first = cpu.compute.submit(lambda: np.arange(10))
        second = rig.device.copy_out(rig.device.copy_in(first))
        third = cpu.copy_in(second)
        assert (await third).tolist() == [*range(10)]


async def test_copies_go_into_what_is_there(rig):
    buffer = await rig.device.copy_in(ONES)
    assert await rig.device.copy_in(ONES * 2, into=buffer) is buffer
    pinned, ordinary, strided = await rig.device.copy_out(buffer), np.zeros(1000), np.zeros(2000)[::2]
    assert (pinned == 2).all()
    await rig.device.copy_in(ONES * 3, into=buffer)
    for array in (pinned, ordinary, strided):
        assert await rig.device.copy_out(buffer, into=array) is array
        assert (array == 3).all()
    with pytest.raises(TagloomError, match="equal shapes and dtypes"):
        await rig.device.copy_in(ONES.astype(np.float32), into=buffer)
    with pytest.raises(TagloomError, match="equal shapes and dtypes"):
        await rig.device.copy_out(buffer, into=np.zeros(999))
    with pytest.raises(ValueError, match="read-only"):
        await rig.device.copy_out(buffer, into=np.broadcast_to(np.zeros(1), 1000))


async def test_what_the_host_fills_is_read_when_it_is_full(rig):
    """A copy into ordinary memory is not done when the device is."""
    buffer, array = await rig.device.copy_in(ONES), np.zeros(1000)
    busy, go = rig.busy(rig.device.device_to_host)
    out = rig.device.copy_out(buffer, into=array)
    again = rig.device.copy_in(out)
    await until(lambda: rig.device.device_to_host.statistics().running == 2)
    go()
    assert (await rig.read(await again) == 1).all()
    assert busy.done


@pytest.mark.parametrize("seed", range(8))
async def test_random_copies_between_devices_keep_their_values(rig, seed):
    """Everything at once, in an order that only events give; things are dropped by other threads meanwhile."""
    random = np.random.default_rng(seed)
    simulated.set_delay(int(random.choice([0, 20, 200])))
    devices, recent, held = (rig.device, rig.other), [], []

    def some_after():
        return [recent[i] for i in random.integers(len(recent), size=random.integers(3))] if recent else []

    def hop(event):
        """Bring a buffer to one of the devices, by the host."""
        source, target = (devices[i] for i in random.integers(2, size=2))
        if event.core is not source._core:
            source = devices[0] if event.core is devices[0]._core else devices[1]
        into = np.zeros(sizes[event]) if random.random() < 0.3 else None
        moved = target.copy_in(source.copy_out(event, into=into, after=some_after()), after=some_after())
        sizes[moved] = sizes[event]
        return moved

    sizes = {}
    for i in range(150):
        if not held or random.random() < 0.3:
            n = int(random.integers(1, 3000))
            event = devices[random.integers(2)].copy_in(np.full(n, float(i)), after=some_after())
            sizes[event] = n
            held.append((event, float(i)))
        else:
            k = int(random.integers(len(held)))
            held[k] = hop(held[k][0]), held[k][1]
        recent = [*recent[-5:], held[-1][0]]
        if len(held) > 12:
            dropped = [held.pop(int(random.integers(len(held)))) for _ in range(3)]
            for event, _ in dropped:
                await event
                sizes.pop(event)
            threading.Thread(target=dropped.clear).start()
    for event, value in held:
        array = await rig.read(await event)
        assert array.size == sizes[event]
        assert (array == value).all()
    del event
    held.clear(), recent.clear(), sizes.clear()
    for device in devices:
        for stream in device.streams:
            await stream.submit()
    gc.collect()
    await until(lambda: rig.device.live_bytes == rig.other.live_bytes == 0)


# ---- faults


async def test_a_copy_that_can_not_be_enqueued_fails_alone(rig):
    simulated.fail_copy(1)
    first, second, third = (rig.device.copy_in(ONES) for _ in range(3))
    with pytest.raises(CudaError, match="host_to_device: HostToDevice: cuMemcpyHtoDAsync failed") as caught:
        await second
    assert type(caught.value.__cause__).__module__ == "pycuda._driver"
    assert (await first).size == (await third).size == 1000
    behind = rig.device.copy_out(second)
    with pytest.raises(CudaError):
        await behind
    assert behind.began is None
    figures = rig.device.host_to_device.statistics()
    assert (figures.done, figures.failed, figures.nbytes) == (2, 1, 16000)
    del first, third, caught, second, behind
    gc.collect()
    assert rig.device.live_bytes == 0


async def test_a_copy_that_fails_while_it_runs_ends_the_context_and_no_test(rig):
    buffer = await rig.device.copy_in(ONES)
    simulated.fail_run(0)
    with pytest.raises(CudaError, match="device_to_host: DeviceToHost failed on the device") as caught:
        await rig.device.copy_out(buffer)
    assert "context is lost" in caught.value.hint
    with pytest.raises(CudaError):
        await rig.device.copy_in(ONES)
    await rig.device.aclose()


async def test_cancelling_who_awaits_a_copy_disturbs_nothing(rig):
    simulated.set_delay(5_000)
    source = ONES.copy()
    copy = rig.device.copy_in(source)
    waiting = asyncio.ensure_future(asyncio.wait_for(copy, None))
    await until(lambda: rig.device.host_to_device.statistics().running)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not copy.done
    assert rig.device.live_bytes == ONES.nbytes
    await copy
    buffer = copy.take()
    alive, out = weakref.ref(buffer), rig.device.copy_out(buffer)
    del buffer
    assert alive() is not None
    await out
    assert alive() is None
    assert rig.device.live_bytes == 0


async def test_buffers_stay_where_they_are(rig):
    buffer = await rig.device.copy_in(ONES)
    for wrong in (buffer, ONES):
        with pytest.raises(TagloomError, match="its own memory only"):
            await rig.other.copy_out(wrong)
    await rig.device.aclose()
    with pytest.raises(DeviceClosed, match="ended with its device"):
        _ = buffer.pointer


async def test_opening_what_is_not_there():
    with pytest.raises(CudaError, match="cannot be opened: cuDeviceGet failed"):
        CudaDevice("/device:CUDA:1", 1)


# ---- closing


async def test_what_is_enqueued_when_a_device_closes_is_done():
    array = None
    async with make("cuda") as device:
        array = await device.copy_out(device.copy_in(ONES))
        simulated.set_delay(10_000)
        copies = [device.copy_in(array) for _ in range(3)]
        waiting = device.copy_in(array, after=[Event()])
        await until(lambda: device.host_to_device.statistics().running == 3)
    assert all(copy.error is None for copy in copies)
    with pytest.raises(DeviceClosed):
        waiting.result()
    array += 1
    assert (array == 2).all()


async def test_a_device_that_is_dropped_ends_its_threads():
    threads = threading.active_count()
    device = make("cuda")
    simulated.set_delay(1_000)
    copy = device.copy_in(ONES)
    del device
    gc.collect()
    while threading.active_count() > threads:
        await asyncio.sleep(0.001)
    assert copy.done
    assert not any(simulated.counts().values())


EXIT = """
import asyncio, os, pathlib
from tests.simcuda.library import Simulated
simulated = Simulated(pathlib.Path(os.environ["TAGLOOM_SIMCUDA"]))

import numpy as np
from tagloom.streams import CudaDevice

device = CudaDevice("/device:CUDA:0", computes=False)
simulated.set_delay(1000)

async def main():
    return device.copy_in(np.ones(1000)), await device.copy_in(np.ones(1000))

kept = asyncio.run(main())
"""


def test_a_program_may_end_without_closing():
    """Pycuda ends the process with an error when a thread goes that has a context."""
    done = run_python({}, "-c", EXIT)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_devices_are_described():
    (device,) = cuda_devices()
    assert (device.index, device.name, device.nbytes, device.capability) == (0, "Simulated CUDA", 1 << 30, (9, 0))
