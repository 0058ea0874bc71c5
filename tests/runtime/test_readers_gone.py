"""Readers that are gone: a step waits for nobody who can not, or will not, read any longer."""

import asyncio
import gc

import pytest
import tagloom as tg

from tests.runtime.tasks import only_this_task

COUNT = 60  # values of a step, many more than a watch keeps


@pytest.fixture
async def session(graph, executor):
    async with tg.Session(graph, executor=executor, timeout=20.0) as session:
        yield session
    assert only_this_task()


def squares():
    """A loop; return its sum, and the tensor in its body that is looked at."""
    inner = []

    def body(i, total):
        inner.append(i * i)
        return i + 1, total + inner[0]

    return tg.while_loop(lambda i, _: i < COUNT, body, [0, 0])[1], inner[0]


EXPECTED = sum(i * i for i in range(COUNT))


class Left(Exception):
    """Raised by readers that leave."""


async def leaves_by_break(session, square):
    async for value in session.watch(square):
        if value == 4:
            break


async def leaves_by_return(session, square):
    async for value in session.watch(square):
        if value == 4:
            return


async def leaves_by_error(session, square):
    async for value in session.watch(square):
        if value == 4:
            raise Left


async def leaves_generator(session, square):
    async def values():
        async for value in session.watch(square):
            yield value

    async for value in values():
        if value == 4:
            break


async def is_cancelled_with_a_value(session, square):
    async for value in session.watch(square):
        if value == 4:
            asyncio.current_task().cancel()
            await asyncio.sleep(0)


async def holds_the_watch_and_breaks(session, square):
    watch = session.watch(square)
    async for value in watch:
        if value == 4:
            break
    await session.run("total:0")  # in the task of the reader, which holds the watch
    watch.close()


LEAVING = [
    leaves_by_break,
    leaves_by_return,
    leaves_by_error,
    leaves_generator,
    is_cancelled_with_a_value,
    holds_the_watch_and_breaks,
]


@pytest.mark.parametrize("read", LEAVING)
async def test_a_loop_that_is_left_holds_no_step_back(session, read):
    total, square = squares()
    total = tg.identity(total, name="total")
    reader = asyncio.create_task(read(session, square))  # held, with the traceback of what it ends with
    await asyncio.sleep(0)
    assert await session.run(total) == EXPECTED
    await asyncio.wait([reader])
    reader.cancelled() or reader.exception()
    assert await session.run(total) == EXPECTED
    again = session.watch(square, limit=COUNT)  # nobody watches it any longer
    assert await session.run(total) == EXPECTED
    assert len([value async for value in again]) == COUNT


@pytest.mark.parametrize("directly", [False, True])
@pytest.mark.parametrize("where", ["waiting", "with a value"])
async def test_a_reader_that_is_cancelled_while_others_hold_the_watch(session, where, directly):
    total, square = squares()
    watch, has_value = session.watch(square), asyncio.Event()

    async def read():
        values = watch if directly else aiter(watch)
        while await anext(values) < 4:
            pass
        has_value.set()
        await asyncio.Event().wait()

    reader = asyncio.create_task(read())
    await asyncio.sleep(0)
    steps = []
    if where == "with a value":
        steps.append(asyncio.create_task(session.run(total)))
        await has_value.wait()
    reader.cancel()
    await asyncio.wait([reader])
    steps.append(asyncio.create_task(session.run(total)))
    assert await asyncio.gather(*steps) == [EXPECTED] * len(steps)
    assert watch.dropped > 0
    assert [int(value) async for value in watch][-1] == (COUNT - 1) ** 2  # the newest are kept for who comes back


@pytest.mark.parametrize("how", ["timeout", "wait_for", "wait"])
async def test_a_wait_that_is_cut_short_loses_nothing(session, how):
    total, square = squares()
    watch = session.watch(square, limit=1)
    if how == "timeout":
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await anext(watch)
    elif how == "wait_for":
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(watch), 1e-9)
    else:
        reading = asyncio.create_task(anext(watch))
        await asyncio.sleep(0)
        reading.cancel()
        await asyncio.wait([reading])
    step = asyncio.create_task(session.run(total))
    for _ in range(10):
        await asyncio.sleep(0)
    found = [int(value) async for value in watch]
    assert found == [i * i for i in range(COUNT)]
    assert watch.dropped == 0
    assert await step == EXPECTED


async def test_two_readers_of_which_one_leaves(session):
    total, square = squares()
    watch = session.watch(square, limit=1)
    found = []

    async def leaves():
        async for _ in watch:
            break

    async def stays():
        async for value in watch:
            found.append(int(value))
            await asyncio.sleep(0)

    readers = [asyncio.create_task(each()) for each in (stays, leaves)]
    await asyncio.sleep(0)
    assert await session.run(total) == EXPECTED
    await asyncio.wait(readers)
    assert len(found) == COUNT - 1
    assert watch.dropped == 0


async def test_a_watch_of_a_run_that_nobody_holds(session):
    total, square = squares()
    assert await session.run(total, watch=tg.Watch(square)) == EXPECTED
    assert await session.make_step(total)(watch=[tg.Watch(square), tg.Watch(square, limit=1)]) == EXPECTED


async def test_a_watch_that_is_collected_while_a_step_waits_for_its_reader(session):
    total, square = squares()

    async def waits():
        watch = session.watch(square, limit=1)
        step = asyncio.create_task(session.run(total))
        assert await anext(watch) == 0
        for _ in range(20):
            await asyncio.sleep(0)
        assert not step.done()
        return step

    assert await (await waits()) == EXPECTED


async def test_a_watch_in_a_cycle_ends_when_that_is_collected(session):
    total, square = squares()
    gc.disable()
    try:
        cycle = [session.watch(square, limit=1)]
        cycle.append(cycle)
        step = asyncio.create_task(session.run(total))
        await asyncio.sleep(0)
        del cycle
        gc.collect()
        assert await step == EXPECTED
    finally:
        gc.enable()


async def test_a_stream_whose_reader_was_cancelled_with_a_value(session):
    total, square = squares()
    stream, has_value = session.make_step(total).stream(square, limit=1), asyncio.Event()

    async def read():
        async for _ in stream:
            has_value.set()
            await asyncio.Event().wait()

    reader = asyncio.create_task(read())
    await has_value.wait()
    assert session.statistics().steps_running == 1
    reader.cancel()
    await asyncio.wait([reader])
    while session.statistics().steps_running:
        await asyncio.sleep(0)
    with pytest.raises(tg.GraphError, match="no result"):
        await stream.result()


async def test_a_stream_that_is_read_by_one_task_for_each_value(session):
    total, square = squares()
    stream, found = session.make_step(total).stream(square, limit=1), []
    while True:
        try:
            found.append(int(await asyncio.wait_for(anext(stream), 10)))
        except StopAsyncIteration:
            break
    assert found == [i * i for i in range(COUNT)]
    assert await stream.result() == EXPECTED


async def test_a_paused_stream_goes_on_where_it_was(session):
    total, square = squares()
    stream = session.make_step(total).stream(square, limit=1)
    async for value in stream:
        if value == 4:
            break
    assert await session.run(total) == EXPECTED  # others do not wait for it
    assert [int(value) async for value in stream] == [i * i for i in range(3, COUNT)]
