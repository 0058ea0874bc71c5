"""Iterators that nobody holds: what they have begun ends all the same."""

import asyncio
import gc

import pytest
import tagloom as tg

from tests.support.waiting import until


@pytest.mark.filterwarnings("ignore:unclosed")
@pytest.mark.parametrize("bare", [False, True])
async def test_tasks_and_generators_of_a_dropped_iterator_end(bare):
    story = []

    async def numbers():
        try:
            for i in range(1000):
                yield i
        finally:
            await asyncio.sleep(0)
            story.append("cleaned up")

    dataset = tg.data.from_async(numbers).prefetch(3)

    async def read():
        async for number in dataset if bare else dataset.iterator():
            if number == 3:
                break

    before = asyncio.all_tasks()
    await read()
    gc.collect()
    await until(lambda: story and asyncio.all_tasks() == before)
    assert story == ["cleaned up"]
    assert asyncio.all_tasks() == before
