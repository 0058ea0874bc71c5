"""The clock of an event loop."""

import asyncio

import pytest
from tagloom.base.errors import TagloomError
from tagloom.streams import LoopClock

from tests.streams.fake_devices import make

try:
    import uvloop
except ImportError:
    uvloop = None

LOOPS = [asyncio.new_event_loop, *([uvloop.new_event_loop] if uvloop else [])]


@pytest.mark.parametrize("new_loop", LOOPS)
def test_calls_come_in_the_order_of_their_times(new_loop):
    async def run():
        clock, seen, ended = LoopClock(), [], asyncio.Event()
        start = clock.now()
        for i in (3, 1, 2, 0, 1):
            clock.call_at(start + i * 1e-3, lambda i=i: seen.append((i, clock.now() >= start + i * 1e-3)))
        clock.call_at(start + 3e-3, ended.set)
        clock.call_at(start + 2e-3, lambda: seen.append("never")).cancel()
        await ended.wait()
        await clock.sleep(0)
        return seen

    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(run()) == [(0, True), (1, True), (1, True), (2, True), (3, True)]


@pytest.mark.parametrize("new_loop", LOOPS)
@pytest.mark.parametrize("kind", ["cpu", "manual", "latency"])
def test_devices_serve_any_loop(new_loop, kind):
    async def run():
        async with make(kind) as device:
            if kind == "manual":
                device.release_all()
            events = [device.streams[i % 3].submit(lambda i=i: i, kind="tiny") for i in range(9)]
            return [await event for event in events]

    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(run()) == [*range(9)]


def test_a_clock_moves_on_to_the_next_loop():
    clock, seen = LoopClock(), []

    async def leave():
        clock.call_at(clock.now(), lambda: seen.append("left"))

    async def take_over():
        await clock.sleep(0)

    asyncio.run(leave())
    asyncio.run(take_over())
    assert seen == ["left"]


async def test_a_clock_serves_one_loop_at_a_time():
    clock = LoopClock()
    timer = clock.call_at(clock.now() + 1000, pytest.fail)
    with pytest.raises(TagloomError, match="one loop at a time"):
        await asyncio.to_thread(asyncio.run, clock.sleep(0))
    timer.cancel()
    await asyncio.to_thread(asyncio.run, clock.sleep(0))


async def test_an_error_in_a_call_does_not_stop_the_others():
    errors, clock = [], LoopClock()
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: errors.append(context["exception"]))
    clock.call_at(clock.now(), lambda: 1 / 0)
    await clock.sleep(0.001)
    assert [type(error) for error in errors] == [ZeroDivisionError]
