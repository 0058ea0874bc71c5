"""Sessions on a real GPU, with the real CuPy."""

import asyncio

import numpy as np
import pytest
import tagloom as tg
from tagloom.streams import CudaDevice
from tagloom.training import AdamOptimizer as Adam
from tagloom.training import GradientDescentOptimizer as GradientDescent

from tests.runtime.device_programs import lstm

pytestmark = pytest.mark.gpu
NAME = "/gpu:0"
SPIN = """
extern "C" __global__ void spin(long long turns) {
    long long start = clock64();
    while (clock64() - start < turns) {}
}
"""
LONG = 500_000_000  # turns: some tenths of a second


@pytest.fixture
async def device():
    async with CudaDevice(NAME, computes=True) as device:
        yield device


def hold(stream):
    """Let a stream be busy for a while; return the event of that."""
    import cupy

    def work():
        with cupy.cuda.Stream.from_external(stream):
            cupy.RawKernel(SPIN, "spin")((1,), (1,), (np.int64(LONG),))

    return stream.submit(work)


async def trained(devices, optimizer, units=32, steps=10):
    """Return losses and weights of some training steps of an LSTM."""
    data = np.random.default_rng(0).standard_normal((5, 4, units)).astype(np.float32)
    with tg.Graph().as_default() as graph:
        train, loss, x = lstm(optimizer, units=units)
        init = tg.global_variables_initializer()
    async with tg.Session(graph, devices=devices) as session:
        await session.run(init)
        losses = [(await session.run([loss, train], {x: data}))[0] for _ in range(steps)]
        return losses, await session.read_variables()


@pytest.mark.parametrize("make", [lambda: GradientDescent(0.1), lambda: Adam(0.01)])
async def test_training_is_that_of_a_cpu(device, make):
    losses, weights = await trained(None, make())
    found, moved = await trained([device], make())
    np.testing.assert_allclose(found, losses, rtol=1e-4)
    for name, value in weights.items():
        np.testing.assert_allclose(moved[name], value, rtol=1e-3, atol=1e-4)
    assert found[-1] < found[0]
    assert device.live_bytes == 0
    assert device.peak_bytes > 0


async def test_a_device_computes_after_another_was_closed():
    """What CuPy and cuBLAS keep for the GPU outlives both."""
    for _ in range(3):
        async with CudaDevice(NAME, computes=True) as device:
            (loss, *_), _ = await trained([device], GradientDescent(0.1), steps=1)
            assert np.isfinite(loss)


async def test_cupy_stays_what_it_is_for_the_user(device):
    import cupy

    sizes = []

    def allocate(nbytes):
        sizes.append(nbytes)
        return pool.malloc(nbytes)

    pool, stream = cupy.cuda.MemoryPool(), cupy.cuda.Stream()
    with cupy.cuda.using_allocator(allocate):
        stream.use()
        try:
            before = cupy.cuda.Device().id, cupy.cuda.get_current_stream().ptr
            device.call(cupy.ones, 1000)
            await trained([device], GradientDescent(0.1), steps=1)
            assert (cupy.cuda.Device().id, cupy.cuda.get_current_stream().ptr) == before
            assert sizes == []
            assert float(cupy.arange(10.0).sum()) == 45.0
            assert sizes
        finally:
            cupy.cuda.Stream.null.use()


async def test_products_are_on_the_compute_stream(device):
    import cupy

    a = device.call(cupy.ones, (256, 256))
    await device.copy_out(device.call(cupy.matmul, a, a))  # what is made once waits for the device
    busy = hold(device.compute)
    while not busy.enqueued:
        await asyncio.sleep(0)
    b = device.call(cupy.matmul, a, a)
    marker = device.compute.submit()
    for _ in range(100):
        await asyncio.sleep(0)
    assert not marker.done
    assert (await device.copy_out(b, after=[marker]) == 256.0).all()


async def test_memory_that_a_kernel_may_still_read_is_not_copied_into(device):
    import cupy

    first = device.call(cupy.ones, 1 << 20)
    await device.copy_out(device.call(cupy.negative, first))  # what is made once waits for the device
    busy = hold(device.compute)
    while not busy.enqueued:
        await asyncio.sleep(0)
    address, second = first.data.ptr, device.call(cupy.negative, first)
    del first
    third = await device.copy_in(np.full(1 << 20, 3.0))
    assert third.data.ptr == address
    assert (await device.copy_out(second, after=[device.compute.submit()]) == -1.0).all()
    assert (await device.copy_out(third) == 3.0).all()


async def test_feeds_and_fetches_wait_for_nothing_on_the_loop(device):
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [1 << 20])
        y = x * 2.0
    async with tg.Session(graph, devices=[device]) as session:
        ones = np.ones(1 << 20, np.float32)
        await session.run(y, {x: ones})  # what must be compiled is
        for stream in device.streams:
            busy = hold(stream)
            while not busy.enqueued:
                await asyncio.sleep(0)
            task, ticks = asyncio.create_task(session.run(y, {x: ones})), 0
            while not busy.done:
                await asyncio.sleep(0.001)
                ticks += 1
                assert not task.done() or busy.done
            assert ticks > 20
            assert (await task == 2.0).all()
