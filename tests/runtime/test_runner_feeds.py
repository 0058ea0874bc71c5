"""What runners are fed by iterables, which several may share, and what is left of these."""

import asyncio

import pytest
import tagloom as tg

from tests.runtime.tasks import only_this_task


class Sink:
    """Steps of runners that note what they are fed."""

    def __init__(self):
        self.seen = []

    async def __call__(self, feeds):
        await asyncio.sleep(0)
        self.seen.append(feeds["x"])


async def counted(end, log):
    try:
        for i in range(end):
            await asyncio.sleep(0)
            yield {"x": i}
    finally:
        log.append("closed")


async def test_runners_share_an_async_generator():
    sink, log = Sink(), []
    feeds = counted(20, log)
    async with tg.Session(tg.Graph()) as session, tg.runners(session) as group:
        runners = [group.add(sink, name=f"{k}", feeds=feeds) for k in range(3)]
    assert sorted(sink.seen) == list(range(20))
    assert all(each.steps for each in runners)
    assert log == ["closed"]


@pytest.mark.parametrize("ends", ["stop", "drain", "error"])
async def test_async_generators_are_closed_with_the_group(ends):
    sink, log = Sink(), []
    feeds = counted(10**9, log)
    async with tg.Session(tg.Graph()) as session:
        try:
            async with tg.runners(session) as group:
                runners = [group.add(sink, name=f"{k}", feeds=feeds, times=3) for k in range(2)]
                for each in runners:
                    await each.wait()
                assert log == []
                group.stop(drain=ends == "drain")
                if ends == "error":
                    raise ZeroDivisionError
        except ZeroDivisionError:
            pass
        assert log == ["closed"]
    assert only_this_task()


async def test_an_iterator_that_was_given_is_not_closed():
    sink = Sink()
    async with tg.Session(tg.Graph()) as session, tg.data.from_iterable(range(6)).iterator() as numbers:
        given = _Named(numbers)
        for count in (2, 4):
            async with tg.runners(session) as group:
                group.add(sink, feeds=given, times=count)
    assert sink.seen == list(range(6))


class _Named:
    def __init__(self, numbers):
        self.numbers = numbers

    def __aiter__(self):
        return self

    async def __anext__(self):
        return {"x": int(await self.numbers.next())}

    async def aclose(self):
        raise AssertionError("it is closed by who made it")
