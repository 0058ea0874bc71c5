"""Devices that take a stated time, in virtual and in real time, and devices that wait to be released."""

import asyncio
import gc
import threading

import numpy as np
import pytest
from tagloom.base.errors import GraphError, TagloomError
from tagloom.streams import CpuDevice, Event, LatencyDevice, ManualDevice, VirtualClock


def latency(clock=None, name="D0", **options):
    return LatencyDevice(name, seconds={"short": 1.0, "long": 3.0}, bytes_per_second=100, clock=clock, **options)


def span(event):
    return event.began, event.ended


# ---- time that is stated


async def test_work_takes_its_time_one_after_the_other():
    async with VirtualClock() as clock, latency(clock) as device:
        events = [device.compute.submit(kind=kind) for kind in ("long", "short", "unknown", "long")]
        await events[-1]
        assert [span(event) for event in events] == [(0, 3), (3, 4), (4, 4), (4, 7)]
        assert clock.now() == 7
        assert device.compute.statistics().busy_seconds == 7


async def test_work_begins_when_all_it_waits_for_is_done():
    async with VirtualClock() as clock, latency(clock, "D0") as a, latency(clock, "D1") as b:
        first, second = a.compute.submit(kind="long"), b.compute.submit(kind="short")
        third = a.host_to_device.submit(kind="short", after=[first, second])
        await clock.sleep(1.5)
        fourth = b.compute.submit(kind="short", after=[second])
        fifth = b.compute.submit(kind="short", after=[third])
        await fifth
        assert [span(event) for event in (first, second, third, fourth, fifth)] == [
            (0, 3),
            (0, 1),
            (3, 4),
            (1.5, 2.5),
            (4, 5),
        ]


async def test_copies_take_time_by_their_bytes():
    async with VirtualClock() as clock, latency(clock, "D0") as a, latency(clock, "D1") as b:
        first = a.copy_in(np.zeros(50))
        second = b.copy_in(a.copy_out(first))
        assert (await second).size == 50
        assert span(first) == (0, 4)
        assert span(second) == (8, 12)


async def test_a_result_is_there_only_when_the_time_is_over():
    clock = VirtualClock()
    device, seen = latency(clock), []
    event = device.compute.submit(lambda: seen.append("begun") or 5, kind="long")
    assert seen == ["begun"]
    assert not event.done
    assert clock.advance()
    assert (event.result(), event.ended) == (5, 3)
    assert not clock.advance()


async def test_errors_come_when_the_time_is_over():
    clock = VirtualClock()
    device = latency(clock)
    event = device.compute.submit(lambda: [][0], kind="long")
    last = device.compute.submit(kind="short")
    assert not event.done
    clock.advance()
    assert isinstance(event.error, IndexError)
    clock.advance()
    assert span(last) == (3, 4)


async def test_work_without_time_is_done_at_once():
    device = latency()
    assert device.compute.submit(lambda: 5).result() == 5
    chain = [device.compute.submit()]
    for i in range(5000):  # whose events end in each other's listeners
        chain.append(device.streams[i % 3].submit(after=chain[-1:]))
    gate = Event()
    chain = [device.compute.submit(after=[gate])]
    for i in range(5000):
        chain.append(device.streams[i % 3].submit(after=chain[-1:]))
    gate.finish()
    assert all(event.done for event in chain)


async def test_what_ends_at_the_same_time_ends_in_the_order_of_beginning():
    async with VirtualClock() as clock:
        devices, ended = [latency(clock, f"D{i}") for i in range(5)], []
        events = [device.compute.submit(kind="short") for device in reversed(devices)]
        for event in events:
            event.add_done_callback(lambda e: ended.append((e, clock.now())))
        await events[0]
        await asyncio.sleep(0)
        assert ended == [(event, 1) for event in events]


async def test_a_pipeline_overlaps_in_virtual_time():
    """Iterations over devices: the time of one way through, and one piece of work for each further iteration."""
    async with VirtualClock() as clock:
        devices = [latency(clock, f"D{i}") for i in range(8)]

        async def iteration(i):
            for device in devices:
                await device.compute.submit(kind="short")

        await asyncio.gather(*(iteration(i) for i in range(100)))
        assert clock.now() == 8 + 99
        assert [device.compute.statistics().done for device in devices] == [100] * 8


async def test_real_time_does_not_accumulate_lateness():
    a, b = (LatencyDevice(name, seconds={"tiny": 1e-4}) for name in ("D0", "D1"))
    async with a, b, ManualDevice("D2") as gate:
        event, events = gate.compute.submit(), []
        for i in range(200):
            event = (a, b)[i % 2].compute.submit(kind="tiny", after=[event])
            events.append(event)
        gate.compute.release()
        await event
        assert event.ended == pytest.approx(events[0].began + 200 * 1e-4, abs=1e-9)


async def test_a_device_serves_one_loop_at_a_time():
    device = latency()
    waiting = device.compute.submit(after=[Event()])

    async def elsewhere():
        device.compute.submit()

    with pytest.raises(TagloomError, match="one loop at a time"):
        await asyncio.to_thread(asyncio.run, elsewhere())
    assert waiting.withdraw()
    await asyncio.to_thread(asyncio.run, elsewhere())


async def test_a_memory_without_a_pool_has_no_figures_and_no_limit():
    async with latency(pool=False) as device:
        copy = await device.copy_in(np.ones(0))
        assert copy.size == 0
        assert (device.live_bytes, device.peak_bytes, device.limit) == (None, None, None)
    with pytest.raises(GraphError, match="no pool"):
        latency(pool=False, limit=100)
    with pytest.raises(GraphError, match="memory limit of D0"):
        latency(limit="much")


# ---- virtual time


async def test_virtual_time_waits_for_real_work():
    """A thread has work to do: time stands still until the loop knows what became of it."""
    go = threading.Event()
    async with VirtualClock() as clock, CpuDevice("D0", clock=clock) as real, latency(clock, "D1") as made_up:
        work = real.compute.submit(go.wait)
        other = made_up.compute.submit(kind="long")
        for _ in range(20):
            await asyncio.sleep(0)
        assert clock.now() == 0
        go.set()
        last = real.compute.submit(clock.now, after=[other])
        assert await last == 3
        assert span(work) == (0, 0)
        assert span(last) == (3, 3)


async def test_a_program_runs_through_its_waiting():
    async with VirtualClock(start=100.0) as clock:
        times = []

        async def sleeper(seconds):
            await clock.sleep(seconds)
            for _ in range(5):
                await asyncio.sleep(0)  # ready work comes before the next jump
            times.append((seconds, clock.now()))

        await asyncio.gather(*map(sleeper, (3600, 0.5, 7, 0.5)))
    assert times == [(0.5, 100.5), (0.5, 100.5), (7, 107), (3600, 3700)]


async def test_a_cancelled_sleep_is_no_reason_to_jump():
    async with VirtualClock() as clock:
        task = asyncio.create_task(clock.sleep(1000))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await clock.sleep(1)
        assert clock.now() == 1
        assert not clock.advance()


async def test_time_goes_on_after_an_error_in_a_call():
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: errors.append(context["exception"]))
    errors = []
    async with VirtualClock() as clock:
        clock.call_at(1, lambda: 1 / 0)
        await clock.sleep(2)
    assert [type(error) for error in errors] == [ZeroDivisionError]


async def test_a_loop_has_one_virtual_clock():
    async with VirtualClock() as clock:
        with pytest.raises(TagloomError, match="another virtual clock"):
            await VirtualClock().__aenter__()
        await clock.sleep(1)
    async with VirtualClock() as clock:
        await clock.sleep(1)


def test_a_foreign_loop_can_not_be_driven():
    uvloop = pytest.importorskip("uvloop")

    async def drive():
        async with VirtualClock():
            pass

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner, pytest.raises(TagloomError, match="asyncio"):
        runner.run(drive())


# ---- work that is released


async def test_work_ends_when_it_is_released():
    async with ManualDevice("D0") as device:
        seen = []
        events = [device.compute.submit(lambda i=i: seen.append(i)) for i in range(4)]
        other = device.host_to_device.submit()
        assert seen == [0]
        device.compute.release()
        assert [event.done for event in events] == [True, False, False, False]
        assert seen == [0, 1]
        device.compute.release(2)
        assert [event.done for event in events] == [True, True, True, False]
        assert not other.done
        device.release_all()
        assert events[3].done
        assert other.done
        assert device.compute.submit().done


async def test_what_was_released_before_ends_as_it_comes():
    async with ManualDevice("D0") as device:
        device.compute.release(2)
        gate = Event()
        events = [device.compute.submit(after=after) for after in ([], [gate], [])]
        assert [event.done for event in events] == [True, False, False]
        gate.finish()
        assert [event.done for event in events] == [True, True, False]


async def test_a_manual_device_tells_a_virtual_time():
    clock = VirtualClock(5.0)
    async with ManualDevice("D0", clock=clock) as manual, latency(clock, "D1") as other:
        first = manual.compute.submit()
        second = other.compute.submit(kind="short", after=[first])
        third = other.host_to_device.submit(kind="long")
        clock.advance()
        manual.compute.release()
        clock.advance()
        assert (span(first), span(second), span(third)) == ((5, 8), (8, 9), (5, 8))


async def test_closing_a_manual_device_releases_what_runs():
    device = ManualDevice("D0")
    running, waiting = device.compute.submit(lambda: 1), device.compute.submit()
    await device.aclose()
    assert running.result() == 1
    assert waiting.error is not None


# ---- the CPU's threads


async def test_threads_end_when_nothing_comes(monkeypatch):
    monkeypatch.setattr("tagloom.streams.cpu.LINGER", 0.0)
    before = threading.active_count()
    device = CpuDevice("D0")
    assert threading.active_count() == before
    for _ in range(3):
        name = await device.compute.submit(lambda: threading.current_thread().name)
        assert name == "tagloom D0/compute"
        for thread in threading.enumerate():
            if thread.name == name:
                thread.join()
    assert threading.active_count() == before
    del device
    gc.collect()


async def test_many_threads_wake_a_stream():
    async with CpuDevice("D0") as device:
        gates = [Event() for _ in range(200)]
        events = [device.streams[i % 3].submit(lambda i=i: i, after=[gate]) for i, gate in enumerate(gates)]
        threads = [threading.Thread(target=lambda k=k: [g.finish() for g in gates[k::4]]) for k in range(4)]
        for thread in threads:
            thread.start()
        assert [await event for event in events] == [*range(200)]
        for thread in threads:
            thread.join()
