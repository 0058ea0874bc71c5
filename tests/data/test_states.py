"""States of pipelines: what they hold, and what they are refused for."""

import asyncio
import contextlib
import threading

import numpy as np
import pytest
import tagloom as tg

from tests.data.running import plain, rest_of, through_a_file

NUMBERS = tg.data.from_iterable(range(10))


async def settle():
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_state_keeps_the_values_of_dicts_apart_whatever_the_order_of_their_keys():
    rows = [{"a": 1, "b": 2}, {"b": 20, "a": 10}, {"a": 100, "b": 200}, {"b": 2000, "a": 1000}]
    data = tg.data.from_iterable(rows).shuffle(4, seed=1)
    async with data.iterator() as iterator:
        await iterator.next()
        state, rest = iterator.state(), await rest_of(iterator)
    async with data.iterator() as iterator:
        iterator.restore(through_a_file(state))
        assert await rest_of(iterator) == rest


@pytest.mark.parametrize("kind", ["plain", "async"])
@pytest.mark.parametrize("change", ["raises", "ends"])
async def test_a_source_that_is_over_before_the_place_of_a_state_is_an_error(kind, change):
    length, error = 100, None

    def numbers():
        yield from range(length)
        if error is not None:
            raise error

    async def later():
        for i in numbers():
            yield i

    data = tg.data.from_iterable(numbers) if kind == "plain" else tg.data.from_async(later)
    async with data.iterator() as iterator:
        found = await _until_none_is_ready(iterator)
        state = iterator.state()
    length, error = 2, OSError("the service is down") if change == "raises" else None
    async with data.iterator() as iterator:
        iterator.restore(state)
        with pytest.raises(tg.PipelineError, match="service is down" if error else "elements before the place"):
            await iterator.next()
        again = iterator.state()
        assert await rest_of(iterator) == []
    length, error = 100, None
    async with data.iterator() as iterator:
        iterator.restore(again)
        assert found + await rest_of(iterator) == list(range(100))


async def _until_none_is_ready(iterator):
    found = [await iterator.next() for _ in range(3)]
    while iterator._ready:
        found.append(await iterator.next())
    return found


@pytest.mark.parametrize("asked", [3, 4])
async def test_an_error_that_was_handed_on_does_not_come_again(asked):
    def numbers():
        yield from range(2)
        raise OSError("the service is down")

    data = tg.data.from_iterable(numbers)
    async with data.iterator() as iterator:
        for _ in range(asked):
            with contextlib.suppress(tg.PipelineError, tg.QueueClosed):
                await iterator.next()
        state = iterator.state()
    async with data.iterator() as iterator:
        iterator.restore(state)
        assert await rest_of(iterator) == []


async def test_closing_while_a_thread_passes_over_elements_waits_for_it():
    passing, gate = threading.Event(), threading.Event()
    resumed = False

    def slow():
        for i in range(100):
            if resumed:
                passing.set()
                gate.wait(10)
            yield i

    data = tg.data.from_iterable(slow, threads=True)
    async with data.iterator() as iterator:
        await _until_none_is_ready(iterator)
        state = iterator.state()
    resumed = True
    iterator = data.iterator()
    iterator.restore(state)
    asked = asyncio.create_task(iterator.next())
    await asyncio.to_thread(passing.wait, 10)
    asyncio.get_running_loop().call_later(0.02, gate.set)
    await iterator.aclose()
    with pytest.raises(tg.SessionClosed):
        await asked


class Topic:
    """Goes on from an offset, as a service does."""

    def __init__(self, at):
        self.at = at
        self.closed = False
        self.gate = asyncio.Event()
        self.gate.set()

    def __aiter__(self):
        return self

    async def __anext__(self):
        await asyncio.sleep(0)
        await self.gate.wait()
        self.at += 1
        return self.at - 1

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        self.at = state["at"]

    async def aclose(self):
        self.closed = True


async def test_a_source_with_a_state_of_its_own_gives_it_while_it_is_waited_for():
    topic, other = Topic(0), Topic(1000)
    async with tg.data.from_async(lambda: topic).iterator() as iterator:
        assert [await iterator.next() for _ in range(3)] == [0, 1, 2]
        iterator._ready.clear()
        at = topic.at
        topic.gate.clear()
        asked = asyncio.create_task(iterator.next())
        await settle()
        state = through_a_file(iterator.state())
        topic.gate.set()
        assert await asked == at
    assert topic.closed
    async with tg.data.from_async(lambda: other).iterator() as iterator:
        iterator.restore(state)
        assert [await iterator.next() for _ in range(2)] == [at, at + 1]


@pytest.mark.parametrize(
    "data",
    [
        NUMBERS.repeat(20),
        NUMBERS.shuffle(4, seed=1).repeat(20).prefetch(3),
        NUMBERS.repeat(20).map(lambda x: x, threads=True, parallel=2).batch(3),
        NUMBERS.repeat(3).interleave(lambda x: tg.data.from_iterable(range(x)).repeat(3)),
        tg.data.from_async(lambda: Topic(0)).take(200),
    ],
    ids=["repeat", "shuffle", "threads", "interleave", "async"],
)
async def test_the_state_is_still_there_when_it_is_closed(data):
    async with data.iterator(iteration=0) as whole:
        wanted = await rest_of(whole)
    iterator = data.iterator(iteration=0)
    found = [plain(await iterator.next()) for _ in range(12)]
    await settle()
    await iterator.aclose()
    with pytest.raises(tg.SessionClosed):
        await anext(iterator)
    async with data.iterator() as other:
        other.restore(through_a_file(iterator.state()))
        assert found + await rest_of(other) == wanted


@pytest.mark.parametrize(
    "change",
    [
        lambda state: state["ready"].update(which=np.array([5, 7])),
        lambda state: state["ready"].update(which=[5, 7]),
        lambda state: state["ready"].update(names=None),
    ],
)
async def test_a_damaged_state_is_refused(change):
    async with NUMBERS.iterator() as iterator:
        for _ in range(2):
            await iterator.next()
        state = through_a_file(iterator.state())
        change(state)
        with pytest.raises(tg.GraphError, match="no state of a pipeline"):
            iterator.restore(state)
