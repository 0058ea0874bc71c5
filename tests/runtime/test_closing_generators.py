"""What users' generators and functions do at their end is done to its end, however often they are asked to end."""

import asyncio

import pytest
import tagloom as tg

from tests.runtime.tasks import only_this_task


class Source:
    """An async generator function that waits for ever behind its first element, and notes how it ended."""

    def __init__(self, turns=5, for_ever=False):
        self.turns = turns
        self.for_ever = for_ever
        self.waits = asyncio.Event()
        self.ends = asyncio.Event()
        self.story = []

    async def __call__(self):
        try:
            yield 1.0
            self.waits.set()
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.story.append("cancelled")
            raise
        finally:
            self.ends.set()
            try:
                for _ in range(self.turns):
                    await asyncio.sleep(0)
                while self.for_ever:
                    await asyncio.sleep(0.01)
                self.story.append("cleaned up")
            except asyncio.CancelledError:
                self.story.append("cut short")
                raise


def queue_of(source):
    with tg.Graph().as_default() as graph:
        queue = tg.from_async(source, "float32", shapes=[[]])
        return graph, queue.dequeue(), queue.close()


async def begun(session, source, take):
    """Take the element, and wait until the generator waits."""
    assert await session.run(take) == 1.0
    await source.waits.wait()


@pytest.mark.parametrize("how", ["session", "queue", "both", "twice", "closing cancelled", "by two tasks"])
async def test_the_generator_of_a_queue(executor, how):
    source = Source()
    graph, take, close = queue_of(source)
    session = tg.Session(graph, executor=executor)
    await begun(session, source, take)
    if how in ("queue", "both"):
        await session.run(close)
        if how == "queue":
            await source.ends.wait()
    closing = [asyncio.create_task(session.aclose()) for _ in range(2 if how == "by two tasks" else 1)]
    if how == "closing cancelled":
        await source.ends.wait()
        closing[0].cancel()
        closing[0].cancel()
        await asyncio.wait(closing)
        assert closing[0].cancelled()
    else:
        for each in asyncio.as_completed(closing):
            await each
            assert source.story == ["cancelled", "cleaned up"]
    if how == "twice":
        await session.aclose()
    assert source.story == ["cancelled", "cleaned up"]
    assert only_this_task()


async def test_a_generator_whose_element_waits_for_room(executor):
    story, made = [], asyncio.Event()

    async def source():
        try:
            for i in range(10):
                if i == 3:
                    made.set()
                yield float(i)
        finally:
            for _ in range(5):
                await asyncio.sleep(0)
            story.append("cleaned up")

    graph, take, _ = queue_of(source)
    async with tg.Session(graph, executor=executor) as session:
        assert await session.run(take) == 0.0
        while not story and not made.is_set():
            if await asyncio.wait_for(session.run(take), 10) == 1.0:
                break
    assert story == ["cleaned up"]
    assert only_this_task()


async def test_a_generator_that_does_not_end(executor, caplog):
    source = Source(for_ever=True)
    graph, take, _ = queue_of(source)
    session = tg.Session(graph, executor=executor, settings=tg.Settings(close_seconds=0.05))
    await begun(session, source, take)
    await session.aclose()
    assert "the source of queue from_async has not ended after 0.05 s" in caplog.text
    assert source.story == ["cancelled"]  # it goes on by itself
    source.for_ever = False
    while "cleaned up" not in source.story:
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("twice", [False, True])
async def test_the_generator_of_a_pipeline(twice):
    source = Source()
    iterator = tg.data.from_async(source).map(lambda x: x + 1).prefetch(2).iterator()
    assert await iterator.next() == 2.0
    waiting = asyncio.create_task(iterator.next())
    await source.waits.wait()
    closing = [asyncio.create_task(iterator.aclose()) for _ in range(2 if twice else 1)]
    await source.ends.wait()
    closing[0].cancel()
    await asyncio.wait(closing)
    with pytest.raises(tg.SessionClosed):
        await waiting
    assert source.story == ["cancelled", "cleaned up"]


async def test_the_function_of_a_map_of_a_pipeline():
    story, waits = [], asyncio.Event()

    async def function(x):
        try:
            waits.set()
            await asyncio.Event().wait()
        finally:
            for _ in range(5):
                await asyncio.sleep(0)
            story.append(x)

    for parallel in (1, 2):
        story.clear()
        waits.clear()
        iterator = tg.data.from_iterable([7, 8]).map(function, parallel=parallel).iterator()
        waiting = asyncio.create_task(iterator.next())
        await waits.wait()
        await asyncio.gather(iterator.aclose(), iterator.aclose())
        with pytest.raises(tg.SessionClosed):
            await waiting
        assert story[0] == 7


@pytest.mark.parametrize("how", ["close", "cancel", "close twice", "timeout"])
async def test_an_async_function_in_a_step(executor, how):
    story, waits = [], asyncio.Event()

    async def function(x):
        try:
            waits.set()
            await asyncio.Event().wait()
        finally:
            try:
                for _ in range(5):
                    await asyncio.sleep(0)
                story.append("cleaned up")
            except asyncio.CancelledError:
                story.append("cut short")
                raise

    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [])
        y = tg.py_function(function, [x], "float32", output_shapes=[])
    session = tg.Session(graph, executor=executor)
    step = asyncio.create_task(session.run(y, {x: 1.0}, timeout=0.05 if how == "timeout" else None))
    await waits.wait()
    if how == "cancel":
        step.cancel()
        await asyncio.sleep(0)
        step.cancel()
    elif how != "timeout":
        await asyncio.gather(*(session.aclose() for _ in range(2 if how == "close twice" else 1)))
    await asyncio.wait([step])
    assert step.cancelled() == (how == "cancel")
    step.cancelled() or step.exception()
    await session.aclose()
    assert story == ["cleaned up"]


async def test_only_who_is_cancelled_stops_waiting_for_a_bridge(executor):
    with tg.Graph().as_default() as graph:
        queue = tg.FIFOQueue(1, "int32", shapes=[[]])
    async with tg.Session(graph, executor=executor) as session:
        outside = asyncio.Queue()  # held: a bridge ends with its queue
        bridge = queue.bridge(session, outside)

        async def wait():
            return await bridge

        stays, leaves = asyncio.create_task(wait()), asyncio.create_task(wait())
        await asyncio.sleep(0)
        leaves.cancel()
        await asyncio.wait([leaves])
        assert leaves.cancelled()
        assert not bridge.done
        await bridge.aclose()
        assert await stays == 0
