"""Copies of saved values that nobody wants any more, that are taken back, and that fail."""

import asyncio
import os

import numpy as np
import tagloom as tg
from tagloom.streams import CpuDevice

from tests.swap.manual_swapper import CACHED, RESIDENT, SIZE, SWAPPED_OUT, SWAPPING_OUT, gone, made, refuse


async def test_values_that_are_dropped_while_they_leave_and_arrive(rig):
    rig.push(*range(7))
    rig.series.put(0, np.zeros(1))  # has begun to leave
    rig.series.put(1, np.zeros(1))
    await rig.out(2)
    assert rig.tiers.host.live_bytes == 0
    assert rig.device.live_bytes == 5 * SIZE
    rig.push(7)
    await rig.out()
    _, coming = rig.read(2, last=True)
    await rig.back()
    assert (coming.result() == 2).all()
    assert rig.tiers.host.live_bytes == 0


async def test_a_reader_that_gives_up(rig):
    await gone(rig, 8)
    _, coming = rig.read(0)
    _, other = rig.read(0)
    coming.cancel()
    await rig.back()
    assert (other.result() == 0).all()
    _, alone = rig.read(1)
    alone.cancel()
    await rig.back()
    assert rig.states()[1] is CACHED
    assert rig.swap.waiting == 0
    array, _ = rig.read(1)
    assert (array == 1).all()


async def test_closing_takes_back_what_has_not_begun(rig):
    rig.push(*range(9))
    assert rig.states()[:4] == [SWAPPING_OUT] * 4
    rig.swap.close()
    settling = asyncio.ensure_future(rig.swap.drain())
    await rig.turn()
    assert not settling.done()
    assert rig.states()[:4] == [SWAPPING_OUT, *[RESIDENT] * 3]
    await rig.out()
    await settling
    assert rig.states()[:4] == [SWAPPED_OUT, *[RESIDENT] * 3]
    assert not rig.swap.free_some()
    assert rig.states()[:4] == [SWAPPED_OUT, *[RESIDENT] * 3]
    assert rig.errors == []
    assert rig.wakes == []


# ---- what fails


async def test_a_copy_out_that_fails_leaves_the_value_where_it_was(rig, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(rig.device, "copy_all_out", lambda *_, **__: rig.device.device_to_host.submit(refuse))
        rig.push(*range(6))
        await rig.out()
    (error,) = rig.errors
    assert isinstance(error, tg.SwapError)
    assert (
        error.what
        == "a saved value of 7.81 KiB could not be copied out of the device's memory: [Errno 5] the bus is broken"
    )
    assert (error.device, error.wanted) == ("/cpu:0", "a copy of float64[1000]")
    assert error.got == "OSError: [Errno 5] the bus is broken"
    assert "allow more memory" in error.hint
    assert rig.states()[0] is RESIDENT
    array, _ = rig.read(0)
    assert (array == 0).all()
    del array
    del error
    rig.forget()
    rig.push(6)
    await rig.out(5)
    assert rig.states()[:2] == [SWAPPED_OUT, SWAPPED_OUT]


async def test_a_copy_in_that_fails_tells_who_waits(rig, monkeypatch):
    await gone(rig, 8)
    with monkeypatch.context() as patch:
        patch.setattr(rig.device, "copy_all_in", lambda *_, **__: rig.device.host_to_device.submit(refuse))
        waiting = [rig.read(0)[1] for _ in range(2)]
        await rig.back()
    for each in waiting:
        assert isinstance(each.exception(), tg.SwapError)
        assert "could not be copied back" in str(each.exception())
    assert rig.errors == []
    assert rig.states()[0] is SWAPPED_OUT
    assert rig.swap.waiting == 0
    _, coming = rig.read(0)
    await rig.back()
    assert (coming.result() == 0).all()


async def disk_rig(tmp_path, **fields):
    return await made(CpuDevice("/cpu:0", limit=10 * SIZE + 100), host_limit=1, disk=tmp_path, **fields)


async def settled(rig):
    await rig.turn()
    while rig.swap.copies:
        await asyncio.sleep(0.001)


async def test_values_on_disk(tmp_path):
    rig = await disk_rig(tmp_path)
    for k in range(9):
        rig.push(k)
        await settled(rig)
    assert rig.states() == [*[SWAPPED_OUT] * 4, *[RESIDENT] * 5]
    assert rig.tiers.disk.live_bytes == 4 * SIZE
    assert rig.tiers.staging.live_bytes == rig.tiers.host.live_bytes == 0
    for k in (3, 2, 1, 0):
        _, coming = rig.read(k, last=True)
        assert (await coming == k).all()
    del coming
    await rig.turn()
    assert rig.tiers.disk.live_bytes == 0
    assert rig.swap.counts.bytes_in == {"disk": 4 * SIZE}
    assert (rig.series.get(8) == 8).all()
    await rig.aclose()


async def test_a_value_can_be_read_while_it_is_written_to_the_disk(tmp_path, monkeypatch):
    rig = await disk_rig(tmp_path)
    go = asyncio.Event()
    loop, pwrite = asyncio.get_running_loop(), os.pwrite

    def slow(*args):
        asyncio.run_coroutine_threadsafe(go.wait(), loop).result(10)
        return pwrite(*args)

    monkeypatch.setattr(os, "pwrite", slow)
    rig.push(*range(6))
    while rig.states()[0] is not SWAPPED_OUT:
        await asyncio.sleep(0.001)
    _, coming = rig.read(0, last=True)
    assert (await coming == 0).all()
    assert rig.tiers.staging.live_bytes == SIZE
    del coming
    go.set()
    await settled(rig)
    assert rig.tiers.disk.live_bytes == rig.tiers.staging.live_bytes == 0
    await rig.aclose()


async def test_a_value_that_can_not_be_written_stays_in_the_hosts_memory(tmp_path, monkeypatch):
    rig = await disk_rig(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", refuse)
        rig.push(*range(6))
        await settled(rig)
    (error,) = rig.errors
    assert "could not be written to the file of swapped values" in error.what
    assert rig.states()[0] is SWAPPED_OUT
    _, coming = rig.read(0)
    assert (await coming == 0).all()
    del coming
    await rig.aclose()


async def test_closing_ends_reads_of_the_disk_as_well(tmp_path, monkeypatch):
    rig = await disk_rig(tmp_path)
    for k in range(12):
        rig.push(k)
        await settled(rig)
    waiting = [rig.read(k)[1] for k in range(4)]
    rig.swap.close()
    await rig.swap.drain()
    for stream in (rig.tiers.disk.reading, rig.tiers.disk.writing, *rig.device.streams):
        counts = stream.statistics()
        assert counts.waiting == counts.running == 0
    for each in waiting:
        assert each.done() or each.cancel()
    del waiting, each
    await rig.aclose()
