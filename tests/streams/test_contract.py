"""What `streams/contract.py` promises, of every device."""

import asyncio
import contextvars
import gc
import threading
import weakref
from itertools import pairwise

import numpy as np
import pytest
from tagloom.base.errors import DtypeError
from tagloom.streams import Event, StreamStatistics, Withdrawn

from tests.streams.fake_devices import KINDS, rig_of

STRINGS = np.array(["a", "longer"], np.dtypes.StringDType())


@pytest.fixture(params=KINDS)
async def rig(request):
    async with rig_of(request.param) as rig:
        yield rig


class Thing:
    """Something to be kept alive."""


def fail(error):
    raise error


async def settled():
    """Let the loop do what is ready, some rounds of it."""
    for _ in range(10):
        await asyncio.sleep(0)


# ---- order


@pytest.mark.parametrize("kind", ["", "tiny"])
async def test_work_on_a_stream_is_done_in_order(rig, kind):
    seen, done = [], []
    events = [rig.device.compute.submit(lambda i=i: seen.append(i) or i, kind=kind) for i in range(40)]
    for event in events:
        event.add_done_callback(done.append)
    assert await events[-1] == 39
    assert all(event.done for event in events)
    assert [event.result() for event in events] == seen == [*range(40)]
    await settled()
    assert done == events
    times = [(event.began, event.ended) for event in events]
    assert all(began <= ended for began, ended in times)
    assert all(a[1] <= b[0] for a, b in pairwise(times))


async def test_a_mark_is_done_with_what_is_before_it(rig):
    gate = Event()
    work = rig.device.compute.submit(lambda: 1, after=[gate])
    marker = rig.device.compute.submit()
    await settled()
    assert not marker.done
    gate.finish()
    assert await marker is None
    assert work.result() == 1


async def test_work_behind_waiting_work_waits_with_it(rig):
    gate, seen = Event(), []
    rig.device.compute.submit(lambda: seen.append("first"), after=[gate])
    last = rig.device.compute.submit(lambda: seen.append("second"))
    await rig.device.host_to_device.submit(lambda: seen.append("other stream"))
    gate.finish()
    await last
    assert seen == ["other stream", "first", "second"]


# ---- streams at the same time


async def test_all_streams_are_at_work_at_once(rig):
    streams = [*rig.device.streams, *rig.other.streams]
    assert len({stream.name for stream in streams}) == 3 * rig.count
    work = [rig.busy(stream) for stream in streams]
    async with asyncio.timeout(60):
        while not all(stream.statistics().running for stream in streams):
            await asyncio.sleep(0)
    for event, go in work:
        assert not event.done
        go()
    for event, _ in work:
        await event


async def test_a_held_stream_holds_neither_the_others_nor_the_loop(rig):
    event, go = rig.busy(rig.device.compute)
    behind = [rig.device.compute.submit(lambda i=i: i) for i in range(100)]
    other = rig.device.device_to_host.submit(lambda: "out")
    assert await other == "out"
    go()
    assert [await e for e in behind] == [*range(100)]
    assert other.ended <= event.ended


async def test_streams_wait_for_each_other(rig):
    seen, event = [], Event()
    event.finish()
    streams = [*rig.device.streams, *rig.other.streams]
    for i in range(60):
        event = streams[i % 6].submit(lambda i=i: seen.append(i), after=[event])
    await event
    assert seen == [*range(60)]


async def test_work_waits_for_all_it_names(rig):
    gates = [Event() for _ in range(3)]
    event = rig.device.compute.submit(lambda: [g.result() for g in gates], after=gates)
    for i in (1, 0, 2):
        await settled()
        assert not event.done
        gates[i].finish(i)
    assert await event == [0, 1, 2]


async def test_a_foreign_thread_may_end_what_is_waited_for(rig):
    gate = Event()
    event = rig.device.compute.submit(gate.result, after=[gate])
    thread = threading.Thread(target=gate.finish, args=["from a thread"])
    thread.start()
    assert await event == "from a thread"
    thread.join()


# ---- events


async def test_many_await_an_event_and_a_cancelled_one_disturbs_nobody(rig):
    gate = Event()
    event = rig.device.compute.submit(lambda: "result", after=[gate])

    async def wait():
        return await event

    waiters = [asyncio.create_task(wait()) for _ in range(4)]
    await settled()
    waiters[1].cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiters[1]
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(wait(), 0.001)
    gate.finish()
    assert [await waiters[i] for i in (0, 2, 3)] == ["result"] * 3
    assert await event == "result"


async def test_callbacks_come_from_the_loop_in_their_context(rig):
    variable = contextvars.ContextVar("variable", default="none")
    here, seen, told = threading.get_ident(), [], asyncio.Event()

    def call(event):
        seen.append((event.result(), variable.get(), threading.get_ident() == here))
        told.set()

    gate = Event()
    event = rig.device.compute.submit(lambda: 7, after=[gate])
    variable.set("set before")
    event.add_done_callback(call)
    event.add_done_callback(seen.append)
    assert event.remove_done_callback(seen.append) == 1
    assert event.remove_done_callback(seen.append) == 0
    variable.set("set after")
    gate.finish()
    await told.wait()
    assert seen == [(7, "set before", True)]
    told.clear()
    event.add_done_callback(call)
    assert len(seen) == 1
    await told.wait()
    assert seen[1:] == [(7, "set after", True)]


async def test_the_result_of_pending_work_is_refused(rig):
    event = rig.device.compute.submit(after=[Event()])
    with pytest.raises(asyncio.InvalidStateError):
        event.result()
    assert event.withdraw()


async def test_another_loop_awaits_an_event(rig):
    gate, waiting = Event(), threading.Event()
    event = rig.device.compute.submit(lambda: 5, after=[gate])

    async def elsewhere():
        asyncio.get_running_loop().call_soon(waiting.set)
        return await event, await event

    other = asyncio.create_task(asyncio.to_thread(asyncio.run, elsewhere()))
    await asyncio.to_thread(waiting.wait)
    gate.finish()
    assert await other == (5, 5)
    assert await event == 5


async def test_a_loop_that_is_gone_is_not_told(rig):
    gate = Event()
    event = rig.device.compute.submit(lambda: 5, after=[gate])

    async def elsewhere():
        event.add_done_callback(pytest.fail)

    await asyncio.to_thread(asyncio.run, elsewhere())
    gate.finish()
    assert await event == 5


# ---- what is kept alive


async def test_buffers_live_until_their_event(rig):
    gate, seen, told = Event(), [], asyncio.Event()
    buffer, captured = Thing(), Thing()
    alive = [weakref.ref(buffer), weakref.ref(captured)]
    event = rig.device.compute.submit(lambda kept=captured: 1, after=[gate], uses=[buffer])
    behind = rig.device.compute.submit(after=[Event()])
    del buffer, captured
    gc.collect()
    assert all(ref() for ref in alive)
    event.add_done_callback(lambda _: (seen.extend(ref() for ref in alive), told.set()))
    gate.finish()
    await told.wait()
    assert seen == [None, None]
    assert behind.withdraw()


async def test_buffers_live_while_work_goes_on(rig):
    busy, go = rig.busy(rig.device.compute)
    buffer = Thing()
    event, alive = rig.device.compute.submit(uses=[buffer], kind="tiny"), weakref.ref(buffer)
    del buffer
    assert alive() is not None
    go()
    await event
    assert alive() is None
    assert busy.done


@pytest.mark.parametrize("end", ["error", "obstacle", "withdraw"])
async def test_nothing_is_kept_by_work_that_failed(rig, end):
    gate, buffer = Event(), Thing()
    alive = weakref.ref(buffer)
    work = (lambda: fail(ValueError())) if end == "error" else None
    event = rig.device.compute.submit(work, after=[gate], uses=[buffer])
    del buffer
    if end == "withdraw":
        assert event.withdraw()
    else:
        gate.finish(error=KeyError() if end == "obstacle" else None)
        with pytest.raises((ValueError, KeyError)):
            await event
    assert alive() is None


# ---- errors


async def test_an_error_ends_its_work_and_no_other(rig):
    error = ValueError("of the work")
    first = rig.device.compute.submit(lambda: fail(error))
    second = rig.device.compute.submit(lambda: "fine")
    for _ in range(2):
        with pytest.raises(ValueError, match="of the work") as caught:
            await first
        assert caught.value is error
    assert await second == "fine"
    assert first.error is error
    assert second.error is None


async def test_what_waits_for_failed_work_does_not_begin(rig):
    error, seen = ValueError("of the work"), []
    first = rig.device.compute.submit(lambda: fail(error))
    second = rig.device.host_to_device.submit(lambda: seen.append("second"), after=[first])
    third = rig.other.compute.submit(lambda: seen.append("third"), after=[second])
    last = rig.device.host_to_device.submit(lambda: seen.append("last"))
    await last
    for event in (second, third):
        with pytest.raises(ValueError, match="of the work"):
            await event
        assert event.began is None
        assert event.error is error
    assert seen == ["last"]


async def test_an_error_does_not_grow_when_it_is_raised_again(rig):
    event = rig.device.compute.submit(lambda: fail(ValueError()))
    lengths = set()
    for _ in range(3):
        with pytest.raises(ValueError) as caught:
            await event
        lengths.add(len(caught.traceback))
    assert len(lengths) == 1


# ---- withdrawing


async def test_work_that_has_not_begun_is_withdrawn(rig):
    gate, seen = Event(), []
    first = rig.device.compute.submit(lambda: seen.append("first"), after=[gate])
    second = rig.device.compute.submit(lambda: seen.append("second"))
    third = rig.device.compute.submit(lambda: seen.append("third"), after=[second])
    fourth = rig.device.compute.submit(lambda: seen.append("fourth"))
    assert second.withdraw()
    assert not second.withdraw()
    assert second.done
    gate.finish()
    await fourth
    assert seen == ["first", "fourth"]
    assert first.error is None
    for event in (second, third):
        with pytest.raises(Withdrawn):
            await event


async def test_the_next_begins_when_waiting_work_is_withdrawn(rig):
    first = rig.device.compute.submit(after=[Event()])
    second = rig.device.compute.submit(lambda: 2)
    assert first.withdraw()
    assert await second == 2


async def test_work_that_has_begun_is_not_withdrawn(rig):
    event, go = rig.busy(rig.device.compute)
    while not rig.device.compute.statistics().running:
        await asyncio.sleep(0)
    assert not event.withdraw()
    go()
    await event
    assert not event.withdraw()
    assert event.error is None


# ---- copies and memory


async def test_copies_are_copies_in_the_memory_of_the_device(rig):
    source = np.arange(1000.0).reshape(20, 50).T
    copy = rig.device.copy_in(source)
    await copy
    inner = copy.take()
    assert rig.device.live_bytes == rig.device.peak_bytes == 8000
    assert (await rig.read(inner) == source).all()
    assert not (rig.shares_memory and np.shares_memory(inner, source))
    assert copy.result() is None
    outer = await rig.device.copy_out(inner)
    assert (outer == source).all()
    assert not (rig.shares_memory and np.shares_memory(inner, outer))
    del inner
    assert (rig.device.live_bytes, rig.device.peak_bytes) == (0, 8000)


@pytest.mark.parametrize("source", [np.array(3.5), STRINGS, np.zeros((0, 3)), np.arange(6)[::-2] > 2])
async def test_copies_of_all_sorts(rig, source):
    if source is STRINGS and not rig.shares_memory:
        with pytest.raises(DtypeError):
            await rig.device.copy_in(source)
        return
    copy = await rig.device.copy_out(rig.device.copy_in(source))
    assert copy.tolist() == source.tolist()
    assert (copy.dtype, copy.shape) == (source.dtype, source.shape)


async def test_copies_follow_each_other_over_devices(rig):
    gate = Event()
    first = rig.device.copy_in(np.arange(5), after=[gate])
    second = rig.other.copy_in(rig.device.copy_out(first))
    assert not second.done
    gate.finish()
    assert (await rig.read(await second)).tolist() == [0, 1, 2, 3, 4]
    assert rig.other.host_to_device.statistics().nbytes == 40
    assert (rig.device.live_bytes, rig.other.live_bytes) == (40, 40)


@pytest.mark.parametrize("kind", KINDS)
async def test_what_does_not_fit_fails_and_the_next_goes_on(kind):
    async with rig_of(kind, limit="1KiB") as rig:
        assert rig.device.limit == 1024
        first = rig.device.copy_in(np.ones(100))
        second = rig.device.copy_in(np.ones(100))
        third = rig.device.copy_in(np.ones(20))
        assert (await third).size == 20
        with pytest.raises(MemoryError):
            await second
        assert first.result().size == 100
        assert rig.device.live_bytes == rig.device.peak_bytes == 960
        assert rig.device.pool.refused_bytes == 800


# ---- figures


async def test_statistics_say_what_was_done(rig):
    stream, gate = rig.device.compute, Event()
    assert stream.statistics() == StreamStatistics()
    stream.submit(lambda: fail(ValueError()))
    await stream.submit(nbytes=10)
    stream.submit(after=[gate], nbytes=5)
    withdrawn = stream.submit()
    withdrawn.withdraw()
    last = stream.submit()
    figures = stream.statistics()
    assert (figures.waiting, figures.running, figures.done, figures.failed, figures.withdrawn) == (2, 0, 1, 1, 1)
    gate.finish()
    await last
    figures = stream.statistics()
    assert (figures.waiting, figures.done, figures.nbytes) == (0, 3, 15)
    busy, go = rig.busy(stream)
    go()
    await busy
    assert stream.statistics().busy_seconds >= busy.ended - busy.began
