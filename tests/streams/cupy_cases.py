"""CUDA devices that compute; run on simulated CUDA, with what CuPy is to them, by `test_cuda_simulated`."""

import asyncio
import threading

import numpy as np
import pytest
import tagloom as tg
from tagloom.base.errors import OpError
from tagloom.streams import CudaDevice, DeviceClosed
from tagloom.streams.cuda.arrays import CALLS_PER_MARKER, MOST_MARKERS
from tagloom.streams.cuda.memory import buffer_of

from tests.simcuda import cupy
from tests.simcuda.child import run_python
from tests.simcuda.plugin import simulated
from tests.strict_array_library.library import xp

NAME = "/device:CUDA:0"
N = 1000
NO_CONTEXT = 201


@pytest.fixture
async def device():
    async with CudaDevice(NAME) as device:
        yield device


def full(value, count=N):
    return xp.full((count,), float(value), dtype=np.float64)


def has_context():
    return simulated.driver.cuStreamSynchronize(None) != NO_CONTEXT


def state():
    """Return what CuPy is in this thread."""
    return cupy.get_current_stream().ptr, cupy.settings.allocator, has_context()


async def until(condition):
    while not condition():
        await asyncio.sleep(0)


async def held(stream):
    """Hold a stream on the device until what is returned is called."""
    gates = []
    stream.submit(lambda: gates.append(simulated.gate(stream.handle)))
    await until(lambda: gates)
    return lambda: simulated.open(gates[0])


# ---- calls


async def test_calls_have_the_devices_context_stream_and_memory(device):
    array = device.call(full, 3)
    assert device.call(state)[::2] == (device.compute.handle, True)
    assert device.live_bytes == 8 * N
    assert device.owns(array)
    assert array.data.ptr == buffer_of(array).pointer
    assert array.data.mem.device_id == 0
    assert (await device.copy_out(array) == 3.0).all()
    part = device.call(array.__getitem__, slice(10, 20))
    assert device.owns(part)
    del array
    assert device.live_bytes == 8 * N
    assert (await device.copy_out(part) == 3.0).all()
    del part
    assert device.live_bytes == 0


@pytest.mark.parametrize("thread", [False, True])
async def test_afterwards_cupy_is_as_the_user_had_it(device, thread):
    stream, given = cupy.Stream(1234), []

    def fails():
        raise ValueError(*state())

    def user():
        with cupy.using_allocator(given.append):
            before = stream.use() and state()
            device.call(full, 1)
            with pytest.raises(ValueError) as error:
                device.call(fails)
            assert error.value.args[0] == device.compute.handle
            assert state() == before == (1234, given.append, False)
        cupy.settings.stream = None

    if thread:
        await asyncio.to_thread(user)
    else:
        user()
    assert (given, device.live_bytes) == ([], 0)


async def test_calls_of_two_devices_can_be_one_in_the_other(device):
    async with CudaDevice("/device:CUDA:1") as other:

        def outer():
            inner = other.call(full, 1), other.call(state)
            return *inner, full(2), state()

        theirs, inside, ours, around = device.call(outer)
        assert (inside[0], around[0]) == (other.compute.handle, device.compute.handle)
        assert other.owns(theirs)
        assert device.owns(ours)
        assert not device.owns(theirs)
        assert (device.live_bytes, other.live_bytes) == (8 * N, 8 * N)
        del theirs, ours


async def test_what_does_not_fit_is_refused_and_nothing_else_is_done():
    async with CudaDevice(NAME, limit=10 * N) as device:
        first = device.call(full, 1)
        with pytest.raises(MemoryError, match="of the limit of 10000 bytes 8000 are in use"):
            device.call(full, 2)
        assert device.live_bytes == 8 * N
        del first
        assert (await device.copy_out(device.call(full, 2)) == 2.0).all()


async def test_a_device_that_was_closed_computes_no_more():
    device = CudaDevice(NAME)
    array = device.call(full, 1)
    await device.aclose()
    with pytest.raises(DeviceClosed):
        device.call(full, 1)
    assert state() == (0, None, False)
    del array


async def test_it_says_when_too_much_is_enqueued(device):
    go = await held(device.compute)
    for _ in range(CALLS_PER_MARKER * MOST_MARKERS):
        assert device.backpressure() is None
        device.call(int)
    event = device.backpressure()
    assert event is not None
    assert not event.done
    go()
    await event
    assert device.backpressure() is None


EXIT = """
import asyncio
from tests.simcuda import cupy
from tagloom.streams import CudaDevice

device = CudaDevice("/device:CUDA:0")

async def main():
    return [device.call(cupy.xp.full, (1000,), float(k)) for k in range(3)], await device.copy_in(cupy.np.ones(1000))

kept = asyncio.run(main())
"""


def test_a_program_may_end_with_arrays_and_an_open_device():
    done = run_python({}, "-c", EXIT)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# ---- memory of kernels that are under way


async def test_no_copy_is_made_into_what_a_kernel_may_still_read(device):
    """Whoever computes lets go of memory when the kernel was enqueued; the copy streams do not know when it is done."""
    first, second = device.call(full, 1), device.call(full, 2)
    go, address = await held(device.compute), first.data.ptr
    copy = simulated.driver.cuMemcpyDtoDAsync_v2
    copy.argtypes = 3 * [cupy.ctypes.c_size_t] + [cupy.ctypes.c_void_p]
    assert device.call(copy, second.data.ptr, address, 8 * N, device.compute.handle) == 0
    del first
    event = device.copy_in(np.full(N, 3.0))
    await until(lambda: event.enqueued)
    assert event.enqueued_result().data.ptr == address
    assert not event.done
    go()
    assert (await device.copy_out(await event) == 3.0).all()
    assert (await device.copy_out(second) == 1.0).all()


async def test_copies_do_not_wait_for_kernels_that_came_later(device):
    address = device.call(full, 1).data.ptr
    await device.compute.submit()
    go = await held(device.compute)
    array = await device.copy_in(np.full(N, 3.0))
    assert array.data.ptr == address
    go()


async def test_copies_wait_for_the_first_marker_behind_the_kernel(device):
    array = device.call(full, 1)
    address, go = array.data.ptr, await held(device.compute)
    del array
    marker = device.compute.submit()
    await until(lambda: marker.enqueued)
    later = await held(device.compute)
    event = device.copy_in(np.full(N, 3.0))
    await until(lambda: event.enqueued)
    assert not event.done
    go()
    assert (await event).data.ptr == address
    later()


async def test_closing_waits_for_kernels():
    device = CudaDevice(NAME)
    first, second = device.call(full, 1), device.call(full, 2)
    gate = device.call(simulated.gate, device.compute.handle)
    device.call(simulated.driver.cuMemcpyDtoDAsync_v2, second.data.ptr, first.data.ptr, 8 * N, device.compute.handle)
    closing = asyncio.create_task(device.aclose())
    for _ in range(200):
        await asyncio.sleep(0)
    assert not closing.done()
    assert (simulated.counts()["allocations"], simulated.counts()["streams"]) == (2, 3)
    simulated.open(gate)
    await closing
    del first, second


# ---- copies


@pytest.mark.parametrize(
    "make",
    [
        lambda a: a.T,
        lambda a: a[:, 1],
        lambda a: a[::-1],
        lambda a: np.broadcast_to(a[0], (5, 4)),
        lambda a: a[:0],
    ],
)
async def test_views_are_copied_out(device, make):
    source = np.arange(12.0).reshape(3, 4)
    array = await device.copy_in(source)
    wanted = make(source)
    np.testing.assert_array_equal(await device.copy_out(device.call(make, array)), wanted)
    event = device.compute.submit(lambda: device.call(make, array))
    np.testing.assert_array_equal(await device.copy_out(event), wanted)
    with pytest.raises(tg.TagloomError, match="whole arrays only"):
        await device.copy_all_out([(device.call(lambda: array.T), source.T.copy())])


async def test_feeds_and_fetches_wait_for_nothing_on_the_loop(device):
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float64", [N])
        y = x * 2.0
    async with tg.Session(graph, devices=[device]) as session:
        for stream in (device.host_to_device, device.device_to_host):
            go = await held(stream)
            task = asyncio.create_task(session.run(y, {x: np.ones(N)}))
            for _ in range(100):
                await asyncio.sleep(0)
            assert not task.done()
            go()
            assert (await task == 2.0).all()


# ---- sessions


def program():
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float64", [3, 3])
        y = tg.while_loop(lambda i, a: i < 5, lambda i, a: (i + 1, tg.tanh(tg.matmul(a, x))), [0, x])[1]
        return graph, x, tg.gradients(y, [x])


async def steps(device, count=5):
    graph, x, fetches = program()
    async with tg.Session(graph, devices=None if device is None else [device]) as session:
        return [await session.run(fetches, {x: np.full((3, 3), 0.1 * (k + 1))}) for k in range(count)]


async def test_memory_comes_back_when_a_session_ends(device):
    wanted, found = await steps(None), await steps(device)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    assert device.live_bytes == 0
    assert device.peak_bytes > 0


async def test_a_session_has_a_gpu_by_its_name():
    graph, x, fetches = program()
    async with tg.Session(graph, devices=["/gpu:0"]) as session:
        (found,) = await session.run(fetches, {x: np.full((3, 3), 0.1)})
        assert simulated.counts()["contexts"] == 1
    assert simulated.counts()["contexts"] == 0
    np.testing.assert_allclose([[found]], (await steps(None, 1)), rtol=1e-12)


async def test_loops_in_several_threads():
    """Each with a device of its own, at the same time."""
    found, wanted = {}, await steps(None, 20)

    async def one(k):
        async with CudaDevice(f"/device:CUDA:{k}") as device:
            found[k] = await steps(device, 20)
            assert device.live_bytes == 0

    threads = [threading.Thread(target=asyncio.run, args=[one(k)]) for k in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join)
    for k in range(3):
        np.testing.assert_allclose(found[k], wanted, rtol=1e-12)


async def test_a_step_without_memory_fails_and_the_next_does_not(device):
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float64", [None])
        y = tg.reduce_sum(x * 2.0 + x)
    async with tg.Session(graph, devices=[device]) as session:
        simulated.set_limit(1 << 20)
        with pytest.raises((OpError, MemoryError), match="no room"):
            await session.run(y, {x: np.ones(100_000)})
        assert await session.run(y, {x: np.ones(1000)}) == 3000.0
    assert device.live_bytes == 0


async def test_sessions_say_what_is_missing():
    async with CudaDevice(NAME, computes=False) as device:
        assert device.arrays is None
        with pytest.raises(tg.GraphError, match=r"pip install .*\[cuda\]"):
            tg.Session(tg.Graph(), devices=[device])
