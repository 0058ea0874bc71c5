"""Many pipelines, ended in all ways, leave no memory, task, thread or file behind."""

import asyncio
import gc
import os
import threading
import weakref

import numpy as np
import pytest
import tagloom as tg

from tests.support.waiting import turns


class Element:
    """Something whose end is seen."""


@pytest.mark.parametrize("stop", [0, 1, 7, 40])
def test_elements_go_with_their_iterator(stop):
    living = weakref.WeakSet()

    def make(_):
        element = Element()
        living.add(element)
        return element

    async def main():
        data = (
            tg.data.from_iterable(range(30))
            .map(make)
            .shuffle(5, seed=0)
            .prefetch(4)
            .filter(lambda _: True, threads=True)
        )
        async with data.iterator() as iterator:
            for _ in range(stop):
                await anext(iterator, None)

    asyncio.run(main())
    gc.collect()
    assert len(living) == 0


def test_what_was_given_is_held_by_nobody():
    async def main():
        held = []
        async with tg.data.from_iterable(np.zeros([8, 100])).prefetch(2).iterator() as iterator:
            async for element in iterator:
                held.append(weakref.ref(element))
                del element
            gc.collect()
            return [each() for each in held]

    assert asyncio.run(main()) == [None] * 8


def test_a_hundred_pipelines_that_are_cancelled(tmp_path):
    (tmp_path / "a.txt").write_text("line\n" * 20_000)

    async def slow(line):
        await asyncio.sleep(0.0001)
        return line

    async def go(data):
        async for _ in data:
            pass

    async def main():
        lines = tg.data.from_text(tmp_path / "a.txt")
        data = lines.map(slow, parallel=4).map(str.upper, threads=True, parallel=2).batch(8).prefetch(2).repeat()
        before = asyncio.all_tasks(), len(os.listdir("/proc/self/fd"))
        for i in range(100):
            task = asyncio.create_task(go(data))
            for _ in range(i):
                await asyncio.sleep(0)
            if i % 10 == 0:
                await turns(1000)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert asyncio.all_tasks() == before[0]
        assert len(os.listdir("/proc/self/fd")) == before[1]

    asyncio.run(main())
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("tagloom-data")]
