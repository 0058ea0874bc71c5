"""Sessions that were given the same device make room for each other, on one event loop at a time."""

import asyncio
from types import SimpleNamespace

import pytest
import tagloom as tg
from tagloom.runtime.memory import arbiter
from tagloom.runtime.memory.arbiter import MemoryArbiter
from tagloom.streams import CpuDevice

from tests.support.waiting import turns, until

N = 1 << 16
SIZE = 4 * N  # bytes of the arrays here
FIRST, SECOND = "/cpu:0", "/cpu:1"


class Steps:
    """Steps of sessions of their own, which have an array on a device while they wait for something."""

    def __init__(self):
        self.release, self.begun = asyncio.Event(), asyncio.Event()

    async def _wait(self, value):
        self.begun.set()
        await self.release.wait()
        return value

    async def until_released(self, device):
        """Have an array until `release` is set."""
        return await self.run([device], lambda x: self.summed(x, tg.py_function(self._wait, [x], "float32")))

    async def until_there_is_room(self, device, other):
        """Have an array on a device until there was one on another device too."""

        def build(x):
            with tg.device(other.name):
                there = tg.reduce_sum(tg.fill([N], x))
            return self.summed(x, there)

        return await self.run([device, other], build)

    def summed(self, x, after):
        array = tg.fill([N], x)
        with tg.control_dependencies([tg.reduce_max(array), after]):
            return tg.reduce_sum(array)

    async def run(self, devices, build):
        with tg.Graph().as_default() as graph:
            x = tg.placeholder("float32", [])
            with tg.device(devices[0].name):
                fetch = build(x)
        settings = tg.Settings(fuse=False)
        async with tg.Session(graph, devices=devices, settings=settings, soft_placement=True) as session:
            return await session.run(fetch, {x: 2.0}, timeout=20)


async def test_who_waits_for_a_step_that_waits_for_one_that_goes_on(monkeypatch):
    monkeypatch.setattr(arbiter, "_LATE_SECONDS", 0.1)
    steps = Steps()
    async with CpuDevice(FIRST, limit=SIZE * 3 // 2) as first, CpuDevice(SECOND, limit=SIZE * 3 // 2) as second:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(steps.until_released(second))]
            await steps.begun.wait()
            tasks.append(group.create_task(steps.until_there_is_room(first, second)))
            await until(lambda: first.live_bytes >= SIZE)
            tasks.append(group.create_task(steps.run([first], lambda x: tg.reduce_sum(tg.fill([N], x)))))
            await turns()
            assert not any(task.done() for task in tasks)
            steps.release.set()
        assert [task.result() for task in tasks] == [2 * N] * 3
        assert first.live_bytes == second.live_bytes == 0


@pytest.mark.parametrize("limit", [None, 3 * SIZE])
async def test_a_device_with_a_limit_serves_one_loop_at_a_time(limit):
    """What a step of another loop has can not be waited for."""

    def elsewhere():
        return asyncio.run(Steps().run([device], lambda x: x + 1.0))

    steps = Steps()
    async with CpuDevice(FIRST, limit=limit) as device:
        task = asyncio.ensure_future(steps.until_released(device))
        await steps.begun.wait()
        if limit is None:
            assert await asyncio.to_thread(elsewhere) == 3.0
        else:
            with pytest.raises(tg.TagloomError, match="one loop at a time"):
                await asyncio.to_thread(elsewhere)
        steps.release.set()
        assert await task == 2 * N
        assert await asyncio.to_thread(elsewhere) == 3.0
        assert await steps.until_released(device) == 2 * N


def test_a_loop_that_was_closed_in_the_middle_of_a_step_is_in_nobodys_way():
    shared = [SimpleNamespace(device=CpuDevice(FIRST, limit=3 * SIZE), owned=False, pool=None)]
    parts = [MemoryArbiter(devices=shared) for _ in range(2)]

    async def enter(part):
        part.register(object())

    loop = asyncio.new_event_loop()
    loop.run_until_complete(enter(parts[0]))
    with pytest.raises(tg.TagloomError, match="one loop at a time"):
        asyncio.run(enter(parts[1]))
    loop.close()
    asyncio.run(enter(parts[1]))
