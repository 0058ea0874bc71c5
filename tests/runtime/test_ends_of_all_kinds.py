"""Ends of sources, waits and handles in less usual forms: nested, entered, raising, asked for twice, or dropped."""

import asyncio
import gc
import logging

import numpy as np
import pytest
import tagloom as tg

from tests.runtime.tasks import only_this_task
from tests.support.waiting import turns, until


class Resource:
    """An async context manager whose end takes turns, and raises if it is told to."""

    def __init__(self, error=None):
        self.error, self.story = error, []
        self.entered, self.leaving = asyncio.Event(), asyncio.Event()

    async def __aenter__(self):
        await asyncio.sleep(0)
        self.story.append("entered")
        return self

    async def __aexit__(self, *_):
        self.leaving.set()
        try:
            for _ in range(5):
                await asyncio.sleep(0)
            self.story.append("left")
        except asyncio.CancelledError:
            self.story.append("cut short")
            raise
        if self.error is not None:
            raise self.error


def generator_of(resource, count=1):
    """Return an async generator function that is within a resource, and waits for ever behind some elements."""

    async def elements():
        async with resource:
            for i in range(count):
                yield float(i)
            resource.entered.set()
            await asyncio.Event().wait()

    return elements


# ---- sources of pipelines


@pytest.mark.parametrize("how", ["close", "twice", "at once", "cancelled"])
async def test_generators_inside_interleave(how):
    resources = [Resource() for _ in range(3)]
    numbers = tg.data.from_iterable(range(3))
    iterator = numbers.interleave(
        lambda i: tg.data.from_async(generator_of(resources[int(i)])), cycle_length=3
    ).iterator()
    assert [await iterator.next() for _ in range(3)] == [0.0, 0.0, 0.0]
    waiting = asyncio.create_task(iterator.next())
    await until(lambda: any(each.entered.is_set() for each in resources))
    closing = [asyncio.create_task(iterator.aclose()) for _ in range(2 if how == "at once" else 1)]
    if how == "cancelled":
        await until(lambda: any(each.leaving.is_set() for each in resources))
        closing[0].cancel()
    await asyncio.wait(closing)
    if how == "twice":
        await iterator.aclose()
    with pytest.raises(tg.SessionClosed):
        await waiting
    assert [each.story for each in resources] == [["entered", "left"]] * 3
    assert only_this_task()


@pytest.mark.parametrize("build", ["prefetch", "shuffle", "batch", "repeat", "zip", "map"])
async def test_generators_behind_stages_end_once(build):
    resource = Resource()
    source = tg.data.from_async(generator_of(resource, 2))
    dataset = {
        "prefetch": lambda: source.prefetch(2),
        "shuffle": lambda: source.shuffle(8),
        "batch": lambda: source.batch(8),
        "repeat": lambda: source.repeat(),
        "zip": lambda: tg.data.zip_datasets(source, tg.data.from_iterable(range(9))),
        "map": lambda: source.map(lambda x: x + 1, parallel=2),
    }[build]()
    iterator = dataset.iterator()
    waiting = [asyncio.create_task(iterator.next()) for _ in range(4)]
    await resource.entered.wait()
    await asyncio.gather(iterator.aclose(), iterator.aclose())
    await asyncio.wait(waiting)
    assert isinstance(waiting[-1].exception(), tg.SessionClosed)
    [each.exception() for each in waiting]
    assert resource.story == ["entered", "left"]
    assert only_this_task()


@pytest.mark.parametrize("how", ["pipeline", "queue"])
async def test_a_source_whose_end_raises_is_reported(how, caplog):
    resource = Resource(RuntimeError("the file is gone"))
    with caplog.at_level(logging.WARNING, logger="tagloom"):
        if how == "pipeline":
            iterator = tg.data.from_async(generator_of(resource)).iterator()
            await iterator.next()
            waiting = asyncio.create_task(iterator.next())
            await resource.entered.wait()
            await iterator.aclose()
            with pytest.raises(tg.SessionClosed):
                await waiting
        else:
            with tg.Graph().as_default() as graph:
                take = tg.from_async(generator_of(resource), "float32", shapes=[[]]).dequeue()
            async with tg.Session(graph) as session:
                await session.run(take)
                await resource.entered.wait()
    assert resource.story == ["entered", "left"]
    assert "the file is gone" in caplog.text
    assert only_this_task()


async def test_a_dropped_iterator_leaves_its_sources():
    resource = Resource()
    iterator = tg.data.from_async(generator_of(resource, 3)).iterator()
    assert await iterator.next() == 0.0
    with pytest.warns(ResourceWarning):  # noqa: PT031  the name is deleted in it
        del iterator
        gc.collect()
    await until(lambda: "left" in resource.story)
    assert resource.story == ["entered", "left"]


async def test_two_that_wait_for_an_element_and_one_leaves():
    release = asyncio.Event()

    async def elements():
        await release.wait()
        yield 1.0
        yield 2.0

    async with tg.data.from_async(elements).iterator() as iterator:
        first, second = (asyncio.create_task(iterator.next()) for _ in range(2))
        await turns(5)
        first.cancel()
        release.set()
        assert await second == 1.0
        assert await iterator.next() == 2.0
    assert first.cancelled()


# ---- sources of queues


@pytest.mark.parametrize("how", ["session", "queue", "both"])
async def test_a_source_that_is_a_context(executor, how):
    resource = Resource()
    with tg.Graph().as_default() as graph:
        queue = tg.from_async(generator_of(resource), "float32", shapes=[[]])
        take, close = queue.dequeue(), queue.close()
    async with tg.Session(graph, executor=executor) as session:
        await session.run(take)
        await resource.entered.wait()
        if how != "session":
            await session.run(close)
        if how == "queue":
            await until(lambda: "left" in resource.story)
    assert resource.story == ["entered", "left"]
    assert only_this_task()


async def test_two_that_wait_for_a_queue_whose_source_fails(executor):
    release = asyncio.Event()

    async def elements():
        await release.wait()
        raise ValueError("no elements")
        yield 1.0

    with tg.Graph().as_default() as graph:
        take = tg.from_async(elements, "float32", shapes=[[]]).dequeue()
    async with tg.Session(graph, executor=executor) as session:
        waiting = [asyncio.create_task(session.run(take)) for _ in range(3)]
        await turns(20)
        waiting[0].cancel()
        release.set()
        await asyncio.wait(waiting)
        assert waiting[0].cancelled()
        assert all("element 0" in str(each.exception()) for each in waiting[1:])


# ---- handles that several tasks wait for


@pytest.mark.parametrize("first", ["cancelled", "stays"])
async def test_two_that_close_a_bridge(first):
    with tg.Graph().as_default() as graph:
        queue = tg.FIFOQueue(1, "int32", shapes=[[]])
    async with tg.Session(graph) as session:
        outside = asyncio.Queue()
        bridge = queue.bridge(session, outside)
        await turns(3)
        closing = [asyncio.create_task(bridge.aclose()) for _ in range(2)]
        await asyncio.sleep(0)
        if first == "cancelled":
            closing[0].cancel()
        await asyncio.wait(closing)
        assert closing[0].cancelled() == (first == "cancelled")
        assert closing[1].exception() is None
        assert bridge.done


@pytest.mark.parametrize("first", ["cancelled", "stays"])
async def test_two_that_close_a_partial_run(first):
    with tg.Graph().as_default() as graph:
        x, y = tg.placeholder("float32", []), tg.placeholder("float32", [])
        a, b = x * 2.0, x + y
    async with tg.Session(graph) as session:
        handle = await session.partial_run_setup([a, b], feeds=[x, y])
        part = asyncio.create_task(session.partial_run(handle, a, {x: 1.0}))
        assert float(await part) == 2.0
        closing = [asyncio.create_task(handle.aclose()) for _ in range(2)]
        await asyncio.sleep(0)
        if first == "cancelled":
            closing[0].cancel()
        await asyncio.wait(closing)
        assert closing[1].exception() is None
        assert handle.done
        assert session.statistics().steps_running == 0
        with pytest.raises(tg.SessionClosed):
            await session.partial_run(handle, b, {y: 1.0})


@pytest.mark.parametrize("first", ["cancelled", "stays"])
async def test_two_that_close_a_stream(first):
    inside = []
    with tg.Graph().as_default() as graph:
        y = tg.while_loop(lambda i: i < 10**6, lambda i: inside.append(tg.identity(i)) or i + 1, [0])
    async with tg.Session(graph) as session:
        stream = session.make_step(y).stream(inside[0], limit=1)
        assert int(await anext(stream)) == 0
        result = asyncio.create_task(stream.result())
        closing = [asyncio.create_task(stream.aclose()) for _ in range(2)]
        await asyncio.sleep(0)
        if first == "cancelled":
            closing[0].cancel()
        await asyncio.wait([*closing, result])
        assert closing[1].exception() is None
        assert isinstance(result.exception(), tg.GraphError)
        assert session.statistics().steps_running == 0


@pytest.mark.parametrize("first", ["cancelled", "stays"])
async def test_two_that_close_a_session_while_a_function_cleans_up(executor, first):
    waits, story = asyncio.Event(), []

    async def function(x):
        try:
            waits.set()
            await asyncio.Event().wait()
        finally:
            try:
                for _ in range(20):
                    await asyncio.sleep(0)
                story.append("cleaned up")
            except asyncio.CancelledError:
                story.append("cut short")
                raise

    with tg.Graph().as_default() as graph:
        y = tg.py_function(function, [1.0], "float32", output_shapes=[])
    session = tg.Session(graph, executor=executor)
    step = asyncio.create_task(session.run(y))
    await waits.wait()
    closing = [asyncio.create_task(session.aclose()) for _ in range(2)]
    await asyncio.sleep(0)
    if first == "cancelled":
        closing[0].cancel()
    await asyncio.wait([*closing, step])
    assert isinstance(step.exception(), tg.SessionClosed)
    assert closing[1].exception() is None
    assert story == ["cleaned up"]
    assert only_this_task()


async def test_a_function_whose_end_raises_after_a_cancellation_does_not_hang(executor):
    waits = asyncio.Event()

    async def function(x):
        try:
            waits.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            raise RuntimeError("cannot clean up")

    with tg.Graph().as_default() as graph:
        y = tg.py_function(function, [1.0], "float32", output_shapes=[])
    async with tg.Session(graph, executor=executor) as session:
        step = asyncio.create_task(session.run(y))
        await waits.wait()
        step.cancel()
        await asyncio.wait([step])
        assert step.cancelled()
        assert session.statistics().steps_running == 0


async def test_those_who_compile_when_the_session_is_closed_are_told():
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [None])
        y = x
        for _ in range(50):
            y = tg.sin(y) * 2.0
    session = tg.Session(graph)
    compiling = [asyncio.create_task(session.compile(y, [x])) for _ in range(3)]
    await asyncio.sleep(0)
    compiling[0].cancel()
    await session.aclose()
    await asyncio.wait(compiling)
    assert compiling[0].cancelled()
    assert all(isinstance(each.exception(), tg.SessionClosed) for each in compiling[1:])


async def test_two_that_wait_for_a_saving_and_one_leaves(tmp_path):
    with tg.Graph().as_default() as graph:
        v = tg.Variable(np.zeros(1000, np.float32))
    async with tg.Session(graph) as session, tg.training.Checkpointer(tmp_path) as checkpoints:
        await session.run(v.initializer)
        saving = await checkpoints.save(session, step=1)

        async def wait():
            return await saving

        leaves, stays = asyncio.create_task(wait()), asyncio.create_task(wait())
        await asyncio.sleep(0)
        leaves.cancel()
        await asyncio.wait([leaves])
        await stays
        assert (await checkpoints.restore(session)) is not None


async def test_a_group_of_runners_that_is_stopped_twice():
    with tg.Graph().as_default() as graph:
        v = tg.Variable(0.0)
        add = v.assign_add(1.0)
    async with tg.Session(graph) as session:
        await session.run(v.initializer)
        async with tg.runners(session) as group:
            runner = group.add(add)
            await until(lambda: runner.steps > 2)
            group.stop()
            group.stop(drain=True)
        assert runner.has_ended
        group.stop()


async def test_generators_inside_interleave_of_which_one_cannot_end(caplog):
    resources = [Resource(RuntimeError("the file is gone") if i == 0 else None) for i in range(3)]
    numbers = tg.data.from_iterable(range(3))
    iterator = numbers.interleave(
        lambda i: tg.data.from_async(generator_of(resources[int(i)])), cycle_length=3
    ).iterator()
    assert [await iterator.next() for _ in range(3)] == [0.0, 0.0, 0.0]
    waiting = asyncio.create_task(iterator.next())
    await until(lambda: any(each.entered.is_set() for each in resources))
    await iterator.aclose()
    await asyncio.wait([waiting])
    assert isinstance(waiting.exception(), tg.SessionClosed)
    assert [each.story for each in resources] == [["entered", "left"]] * 3
    assert "the file is gone" in caplog.text


@pytest.mark.parametrize("how", ["pipeline", "queue", "map"])
async def test_what_ignores_its_cancellation_does_not_hold_up_the_end(how):
    story, waits = [], asyncio.Event()

    async def elements():
        for i in range(3):
            try:
                yield float(i)
                waits.set()
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                story.append("ignored")

    async def stubborn(x):
        try:
            waits.set()
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            story.append("ignored")
        return x

    async with asyncio.timeout(10):
        if how == "queue":
            with tg.Graph().as_default() as graph:
                take = tg.from_async(elements, "float32", shapes=[[]]).dequeue()
            async with tg.Session(graph) as session:
                await session.run(take)
                await waits.wait()
        else:
            source = tg.data.from_async(elements)
            iterator = (source.map(stubborn) if how == "map" else source).iterator()
            waiting = asyncio.create_task(iterator.next())
            if how == "pipeline":
                await waiting
                waiting = asyncio.create_task(iterator.next())
            await waits.wait()
            await iterator.aclose()
            with pytest.raises(tg.SessionClosed):
                await waiting
    assert story[0] == "ignored"
    await until(only_this_task)


async def test_a_source_that_is_replaced_and_closed_at_once():
    old = Resource()
    iterator = tg.data.from_async(generator_of(old)).iterator()
    assert await iterator.next() == 0.0
    waiting = asyncio.create_task(iterator.next())
    await old.entered.wait()
    iterator.begin_again(tg.data.from_iterable([5.0]), 1)
    assert await waiting == 5.0
    await asyncio.gather(iterator.aclose(), iterator.aclose())
    assert old.story == ["entered", "left"]
    assert only_this_task()


async def test_two_that_read_a_stream_and_one_leaves():
    inside = []
    release = asyncio.Event()

    async def wait(i):
        await release.wait()
        return i

    with tg.Graph().as_default() as graph:

        def body(i):
            seen = tg.py_function(wait, [i], "int32", output_shapes=[])
            inside.append(seen)
            return seen + 1

        y = tg.while_loop(lambda i: i < 3, body, [0])
    async with tg.Session(graph) as session:
        stream = session.make_step(y).stream(inside[0])
        leaves, stays = (asyncio.create_task(anext(stream)) for _ in range(2))
        await turns(5)
        leaves.cancel()
        await asyncio.wait([leaves])
        release.set()
        assert int(await stays) == 0
        assert [int(each) async for each in stream] == [1, 2]
        assert int(await stream.result()) == 3
