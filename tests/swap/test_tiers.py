"""The tiers: memory of the host, and a file without a name."""

import asyncio
import errno
import gc
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest
import tagloom as tg
from tagloom.streams import CpuDevice, DeviceClosed, LoopClock
from tagloom.swap.disk import DiskTier
from tagloom.swap.tiers import STAGING, HostTier, Tiers

CPU = CpuDevice("/cpu:0")


def array(size=1000, start=0):
    return np.arange(start, start + size, dtype=np.float64)


# ---- memory of the host


def test_host_memory_is_counted_and_limited():
    tier = HostTier(20000)
    first = tier.take(CPU, (1000,), np.dtype("float64"))
    second = tier.take(CPU, (3, 100), np.dtype("int32"))
    assert (first.shape, second.shape, second.dtype) == ((1000,), (3, 100), np.int32)
    assert tier.live_bytes == 9200
    assert tier.take(CPU, (2000,), np.dtype("float64")) is None
    del first
    assert (tier.live_bytes, tier.peak_bytes) == (1200, 9200)
    assert tier.take(CPU, (2000,), np.dtype("float64")).nbytes == 16000
    tier.close()
    second[...] = 5
    assert second.sum() == 1500


def test_devices_share_the_limit_of_a_tier():
    tier, other = HostTier(20000), CpuDevice("/cpu:1")
    kept = [tier.take(device, (1000,), np.dtype("float64")) for device in (CPU, other, CPU)]
    assert [each is None for each in kept] == [False, False, True]
    assert tier.live_bytes == 16000
    kept.clear()
    assert tier.take(other, (2500,), np.dtype("float64")).nbytes == 20000
    assert tier.take(other, (2501,), np.dtype("float64")) is None
    tier.close()


def test_host_memory_may_have_no_limit():
    tier = HostTier(None)
    assert tier.take(CPU, (1 << 20,), np.dtype("float64")).nbytes == 1 << 23
    tier.close()


# ---- the file


@pytest.fixture
async def disk(tmp_path):
    tier = DiskTier(tmp_path, None, LoopClock())
    yield tier
    await tier.aclose()
    assert not [each for each in threading.enumerate() if each.name.startswith("tagloom disk")]


async def found(disk, extent, into):
    await disk.read(extent, into)
    return into


async def test_what_is_written_can_be_read(disk, tmp_path):
    assert list(tmp_path.iterdir()) == []
    written = [array(size, size) for size in (1, 7, 512, 513, 100000)]
    extents = [await disk.write(each, disk.take(each.nbytes)) for each in written]
    for each, extent in reversed(list(zip(written, extents, strict=True))):
        np.testing.assert_array_equal(await found(disk, extent, np.empty_like(each)), each)
        into = np.empty_like(each)
        disk.read_now(extent, into)
        np.testing.assert_array_equal(into, each)
    ends = sorted((extent.offset, extent.offset + extent.size) for extent in extents)
    assert all(end <= start for (_, end), (start, _) in pairwise(ends))
    assert disk.live_bytes == disk.peak_bytes == sum(each.nbytes for each in written)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("value", [np.float32(2.5), np.ones((2, 3, 4), bool), np.zeros((5, 0)), np.arange(4) + 1j])
async def test_arrays_of_all_kinds(disk, value):
    value = np.asarray(value)
    extent = await disk.write(value, disk.take(value.nbytes))
    np.testing.assert_array_equal(await found(disk, extent, np.empty_like(value)), value, strict=True)


async def test_extents_are_used_again(disk):
    first, second = disk.take(8000), disk.take(8000)
    offset = first.offset
    assert second.offset != offset
    del first
    assert disk.live_bytes == 8000
    other, again = disk.take(100), disk.take(8000)
    assert again.offset == offset
    assert other.offset not in (offset, second.offset)
    assert (disk.live_bytes, disk.peak_bytes) == (16100, 16100)


async def test_extents_may_be_dropped_anywhere(disk):
    """In other threads and by collections of garbage, in the middle of taking one."""

    extents = [disk.take(64) for _ in range(500)]
    with ThreadPoolExecutor(4) as pool:
        dropping = [pool.submit(extents.pop) for _ in range(500)]
        for _ in range(200):
            cycle = [disk.take(64)]
            cycle.append(cycle)
        del dropping, cycle
    gc.collect()
    assert disk.live_bytes == 0
    before = disk._end
    kept = [disk.take(64) for _ in range(200)]
    assert disk._end == before
    assert len({extent.offset for extent in kept}) == 200


async def test_the_limit_of_a_file(tmp_path):
    tier = DiskTier(tmp_path, 10000, LoopClock())
    first = tier.take(6000)
    assert tier.take(6000) is None
    second = tier.take(4000)
    assert tier.live_bytes == 10000
    del first
    assert tier.take(6000) is not None
    del second
    await tier.aclose()


async def test_a_full_disk(disk, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    extent = disk.take(8000)
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", refuse)
        with pytest.raises(OSError, match="No space left"):
            await disk.write(array(), extent)
    np.testing.assert_array_equal(await found(disk, await disk.write(array(), extent), np.empty(1000)), array())


async def test_short_writes_and_reads_go_on(disk, monkeypatch):
    pwrite, preadv, sizes = os.pwrite, os.preadv, []

    def write(descriptor, data, offset):
        sizes.append(pwrite(descriptor, data[:3001], offset))
        return sizes[-1]

    monkeypatch.setattr(os, "pwrite", write)
    monkeypatch.setattr(os, "preadv", lambda descriptor, into, offset: preadv(descriptor, [into[0][:2999]], offset))
    extent = await disk.write(array(), disk.take(8000))
    assert sizes == [3001, 3001, 1998]
    np.testing.assert_array_equal(await found(disk, extent, np.empty(1000)), array())


async def test_a_file_that_was_cut_short(disk):
    extent = await disk.write(array(), disk.take(8000))
    os.ftruncate(disk._file, 4000)
    with pytest.raises(OSError, match="ends at byte 4000"):
        await disk.read(extent, np.empty(1000))


async def test_closing(tmp_path):
    tier = DiskTier(tmp_path, None, LoopClock())
    descriptor = tier._file
    event = tier.write(array(100000), tier.take(800000))
    await tier.aclose()
    await tier.aclose()
    assert event.done
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
    with pytest.raises(DeviceClosed):
        tier.write(array(), tier.take(8000))


async def test_a_file_that_nobody_closes_is_closed_with_its_tier(tmp_path):
    tier = DiskTier(tmp_path, None, LoopClock())
    descriptor = tier._file
    del tier
    gc.collect()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_a_directory_that_is_gone(tmp_path):
    with pytest.raises(tg.GraphError, match="no file for swapped values"):
        DiskTier(tmp_path / "gone", None, LoopClock())


# ---- both


async def test_staging_memory_has_a_bound(tmp_path):
    tiers = Tiers(tg.SwapPolicy(host_limit=1, disk=tmp_path), LoopClock())
    byte = np.dtype(np.uint8)
    large = tiers.take_staging(CPU, (2 * STAGING,), byte, 2 * STAGING)  # one value always may
    assert large.nbytes == 2 * STAGING
    assert tiers.take_staging(CPU, (1,), byte, 1) is None
    del large
    half = [tiers.take_staging(CPU, (STAGING // 2,), byte, STAGING // 2) for _ in range(3)]
    assert [each is None for each in half] == [False, False, True]
    assert tiers.bytes_by_tier == {"host": (STAGING, 2 * STAGING), "disk": (0, 0)}
    half.clear()
    await tiers.aclose()


async def test_tiers_without_a_file():
    tiers = Tiers(tg.SwapPolicy(), LoopClock())
    kept = tiers.host.take(CPU, (10,), np.dtype("float64"))
    assert tiers.bytes_by_tier == {"host": (80, 80)}
    await asyncio.gather(tiers.aclose(), tiers.aclose())
    kept[:] = 1.0
