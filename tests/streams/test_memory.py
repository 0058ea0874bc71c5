"""What swapping asks of a device: memory, who has it, memory of the host, and copies in lots; of every device."""

import gc
import threading

import numpy as np
import pytest
from tagloom.kernels.memory.swappable import SwappableArray
from tagloom.streams import Event

from tests.streams.fake_devices import KINDS, rig_of

FLOAT = np.dtype(float)


@pytest.fixture(params=KINDS)
async def rig(request):
    async with rig_of(request.param, limit=10_000) as rig:
        yield rig


def in_thread(function, *arguments):
    thread = threading.Thread(target=function, args=arguments)
    thread.start()
    thread.join()


def broken():
    raise OSError("broken")


async def test_buffers_are_counted_where_they_are(rig):
    buffer = rig.device.allocate((10, 5), FLOAT)
    assert type(buffer) is rig.device.buffer
    assert (buffer.shape, buffer.dtype, buffer.nbytes, buffer.flags.c_contiguous) == ((10, 5), FLOAT, 400, True)
    rig.device.charge(buffer)
    assert rig.device.live_bytes == rig.device.pool.live_bytes == 400
    assert rig.device.pool.counts(buffer)
    assert not rig.other.pool.counts(buffer)
    assert not rig.device.pool.counts(np.zeros((10, 5)))
    in_thread([buffer].clear)
    del buffer
    assert rig.device.live_bytes == 0


async def test_what_does_not_fit_is_refused_at_once(rig):
    first = rig.device.allocate((1000,), FLOAT)
    with pytest.raises(MemoryError):
        rig.device.allocate((251,), FLOAT)
    assert rig.device.allocate_unreserved((251,), FLOAT) is None
    second = rig.device.allocate_unreserved((250,), FLOAT)
    assert rig.device.live_bytes == 10_000
    del first, second
    assert rig.device.live_bytes == 0


async def test_memory_is_free_when_the_only_holder_lets_go(rig):
    buffer = rig.device.allocate((100,), FLOAT)
    holder = SwappableArray(buffer)
    assert not rig.device.is_sole_owner(holder)
    del buffer
    gc.collect()
    assert rig.device.is_sole_owner(holder)
    assert not rig.other.is_sole_owner(holder)
    held = [holder.array]
    assert not rig.device.is_sole_owner(holder)
    held.clear()
    holder.array = None
    assert rig.device.live_bytes == 0


async def test_a_protected_buffer_is_not_written_to(rig):
    buffer = rig.device.allocate((100,), FLOAT)
    if rig.device.make_readonly(buffer) and isinstance(buffer, np.ndarray):
        with pytest.raises(ValueError, match="read-only"):
            buffer[0] = 1.0


async def test_memory_of_the_host_is_counted_by_who_asked_for_it(rig):
    memory, other = rig.device.host_memory(1000), rig.device.host_memory()
    arrays = [memory.take((60,), FLOAT), memory.take((65,), FLOAT)]
    kept = other.take((1000,), FLOAT)
    with pytest.raises(MemoryError):
        memory.take((1,), np.dtype(bool))
    memory.limit = 1001
    arrays.append(memory.take((1,), np.dtype(bool)))
    assert (memory.live_bytes, memory.peak_bytes, other.live_bytes) == (1001, 1001, 8000)
    assert rig.device.live_bytes == 0
    in_thread(arrays.clear)
    assert (memory.live_bytes, memory.peak_bytes) == (0, 1001)
    memory.close()
    other.close()
    await rig.device.aclose()
    kept[:] = 3.0
    assert kept.sum() == 3000.0


@pytest.mark.parametrize("pinned", [True, False])
async def test_batches(rig, pinned):
    """From the host's memory, of whatever kind, and back."""
    memory = rig.device.host_memory()
    make = memory.take if pinned else np.empty
    sources, targets = ([make((100 + k,), FLOAT) for k in range(5)] for _ in range(2))
    for k, source in enumerate(sources):
        source[:] = k
    buffers = [rig.device.allocate(source.shape, FLOAT) for source in sources]
    gate = Event()
    inside = rig.device.copy_all_in(list(zip(sources, buffers, strict=True)), after=[gate])
    sources[3][:] = 7.0  # not read yet
    assert not inside.done
    gate.finish()
    assert await inside is None
    outside = rig.device.copy_all_out(list(zip(buffers, targets, strict=True)))
    assert await outside is None
    for source, target in zip(sources, targets, strict=True):
        np.testing.assert_array_equal(source, target)
    assert inside.nbytes == outside.nbytes == 5 * 8 * 102
    done = rig.device.host_to_device.statistics(), rig.device.device_to_host.statistics()
    assert [each.nbytes for each in done] == [5 * 8 * 102] * 2
    buffers.clear()
    assert rig.device.live_bytes == 0


async def test_a_lot_fails_with_what_it_waits_for(rig):
    buffer, array = rig.device.allocate((10,), FLOAT), np.ones(10)
    batch = rig.device.copy_all_in([(array, buffer)], after=[rig.device.compute.submit(broken)])
    with pytest.raises(OSError, match="broken"):
        await batch
    await rig.device.copy_all_in([(array, buffer)])
    assert (await rig.read(buffer) == 1.0).all()


async def test_a_lot_fails_with_one_of_its_copies(rig):
    buffers = [rig.device.allocate((10,), FLOAT) for _ in range(3)]
    arrays = [np.ones(10), np.ones(11), np.ones(10)]
    with pytest.raises(Exception, match=r"shape|dtypes"):
        await rig.device.copy_all_in(list(zip(arrays, buffers, strict=True)))
    with pytest.raises(Exception, match=r"shape|dtypes"):
        await rig.device.copy_all_out(list(zip(buffers, arrays, strict=True)))
    buffers.clear()
    gc.collect()  # errors are in cycles
    assert rig.device.live_bytes == 0
