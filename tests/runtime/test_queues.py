"""Queues between the steps of a session."""

import asyncio

import numpy as np
import pytest
import tagloom as tg
from tagloom.kernels.scheduler.optask import OpTask

EXECUTORS = pytest.mark.parametrize("executor", ["machine", "reference"])


def small_queue(capacity=1):
    with tg.Graph().as_default() as graph:
        queue = tg.FIFOQueue(capacity, "int32", shapes=[[]])
        x = tg.placeholder("int32", [])
        return graph, x, queue.enqueue(x), queue.dequeue(), queue.size(), queue.close()


# A step never waits for a turn of the event loop, as it else does where the machine is busy with something else.
IN_ONE_TURN = tg.Settings(drain_seconds=60.0)


async def rest():
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.mark.rule(126)
@EXECUTORS
def test_steps_that_wait_are_served_in_the_order_of_coming(executor):
    async def main():
        graph, x, put, take, size, _ = small_queue()
        async with tg.Session(graph, executor=executor) as session:
            takes = []
            for _ in range(3):
                takes.append(asyncio.create_task(session.run(take)))
                await rest()
            for i in range(3):
                await session.run(put, {x: i})
            return [int(value) for value in await asyncio.gather(*takes)], int(await session.run(size))

    assert asyncio.run(main()) == ([0, 1, 2], 0)


@pytest.mark.rule(129)
@EXECUTORS
def test_a_wait_that_times_out_takes_nothing(executor):
    async def main():
        graph, x, put, take, size, _ = small_queue()
        async with tg.Session(graph, executor=executor) as session:
            with pytest.raises(tg.StepTimeout):
                await session.run(take, timeout=0.01)
            second = asyncio.create_task(session.run(take))
            await rest()
            second.cancel()
            await session.run(put, {x: 7})
            await asyncio.wait([second])
            return int(await session.run(size)), int(await session.run(take))

    assert asyncio.run(main()) == (1, 7)


@pytest.mark.rule(127, 128)
@EXECUTORS
def test_a_closed_queue_gives_what_is_left_and_then_says_that_it_is_closed(executor):
    async def main():
        graph, x, put, take, _, close = small_queue()
        async with tg.Session(graph, executor=executor) as session:
            await session.run(put, {x: 1})
            await session.run(close)
            with pytest.raises(tg.QueueClosed, match="is closed\n"):
                await session.run(put, {x: 2})
            with pytest.raises(tg.QueueClosed, match="is already closed"):
                await session.run(close)
            assert await session.run(take) == 1
            with pytest.raises(tg.QueueClosed, match="is closed and has insufficient elements"):
                await session.run(take)

    asyncio.run(main())


@pytest.mark.rule(130)
def test_queues_of_one_name_must_agree():
    with tg.Graph().as_default() as graph:
        tg_a = tg.FIFOQueue(3, "int32", shared_name="q").enqueue(1)
        tg_b = tg.FIFOQueue(4, "int32", shared_name="q").enqueue(1)
    with tg.SyncSession(graph) as session:
        session.run(tg_a)
        with pytest.raises(tg.OpError, match="'q' is shared by what differs"):
            session.run(tg_b)


def test_bytes_bound_a_queue():
    async def main():
        with tg.Graph().as_default() as graph:
            queue = tg.FIFOQueue(-1, "float32", capacity_bytes=100)
            put, large = queue.enqueue(np.zeros(20, np.float32)), queue.enqueue(np.zeros(26, np.float32))
            take = queue.dequeue()
        async with tg.Session(graph) as session:
            await session.run(put)
            second = asyncio.create_task(session.run(put))
            await rest()
            assert not second.done()
            await session.run(take)
            await second
            with pytest.raises(tg.OpError, match="is larger than queue"):
                await session.run(large)

    asyncio.run(main())


def test_a_snapshot_has_the_elements():
    async def main():
        graph, x, put, take, size, _ = small_queue(3)
        async with tg.Session(graph) as session:
            await session.run(put, {x: 1})
            await session.run(put, {x: 2})
            saved = await session.snapshot()
            assert await session.run(take) == 1
            await session.restore(saved)
            assert int(await session.run(size)) == 2
            assert await session.run(take) == 1

    asyncio.run(main())


def test_a_snapshot_has_what_one_has_gathered_that_was_woken():
    async def main():
        with tg.Graph().as_default() as graph:
            queue, x = tg.FIFOQueue(3, "int32", shapes=[[]]), tg.placeholder("int32", [None])
            put, many, size = queue.enqueue_many(x), queue.dequeue_many(5), queue.size()
        async with tg.Session(graph, settings=IN_ONE_TURN) as session:
            taking = asyncio.create_task(session.run(many))
            await rest()
            await session.run(put, {x: [0, 1, 2]})
            await rest()
            assert await session.run(size) == 0
            await session.run(put, {x: [3, 4]})
            saved = await session.snapshot()
            assert not taking.done()
            assert (await taking).tolist() == [0, 1, 2, 3, 4]
            await session.restore(saved)
            assert (await session.run(many)).tolist() == [0, 1, 2, 3, 4]

    asyncio.run(main())


async def woken(session, waits, wakes):
    """Return a step that waited, and was woken, but has not gone on yet."""
    waiting = asyncio.create_task(session.run(*waits))
    await rest()
    await session.run(*wakes)
    assert not waiting.done()
    return waiting


def test_who_was_woken_to_take_is_told_that_the_queue_was_restored():
    async def main():
        graph, x, put, take, size, _ = small_queue(3)
        async with tg.Session(graph, settings=IN_ONE_TURN) as session:
            await session.run(size)
            empty = await session.snapshot()
            waiting = await woken(session, [take], [put, {x: 1}])
            await session.restore(empty)
            with pytest.raises(tg.OpError, match="was restored while somebody waited") as caught:
                await waiting
            assert not isinstance(caught.value, tg.QueueClosed)
            assert await session.run(size) == 0

    asyncio.run(main())


def test_who_was_woken_to_put_is_told_that_a_restored_queue_is_closed():
    async def main():
        graph, x, put, take, size, close = small_queue()
        async with tg.Session(graph, settings=IN_ONE_TURN) as session:
            await session.run(put, {x: 10})
            await session.run(close)
            full = await session.snapshot()
        async with tg.Session(graph, settings=IN_ONE_TURN) as session:
            await session.run(put, {x: 1})
            waiting = await woken(session, [put, {x: 2}], [take])
            await session.restore(full)
            with pytest.raises(tg.QueueClosed):
                await waiting
            assert await session.run(size) == 1

    asyncio.run(main())


def test_what_was_gathered_before_a_restore_is_in_no_batch():
    async def main():
        with tg.Graph().as_default() as graph:
            queue, x = tg.FIFOQueue(3, "int32", shapes=[[]]), tg.placeholder("int32", [None])
            put, many, both = queue.enqueue_many(x), queue.dequeue_many(5), queue.dequeue_many(2)
        async with tg.Session(graph, settings=IN_ONE_TURN) as session:
            await session.run(put, {x: [10, 11]})
            two = await session.snapshot()
            await session.run(both)
            waiting = asyncio.create_task(session.run(many))
            await rest()
            await session.run(put, {x: [0, 1, 2]})
            await rest()
            await session.run(put, {x: [3, 4]})
            await session.restore(two)
            with pytest.raises(tg.OpError, match="was restored"):
                await waiting

    asyncio.run(main())


def test_what_was_taken_before_a_restore_does_not_come_back():
    async def main():
        graph, x, put, take, size, _ = small_queue(2)
        with graph.as_default():
            never = tg.FIFOQueue(1, "int32", shapes=[[]]).dequeue()
        async with tg.Session(graph) as session:
            for each in (1, 2):
                await session.run(put, {x: each})
            two = await session.snapshot()
            lost = asyncio.create_task(session.run([take, never]))
            await rest()
            await session.restore(two)
            lost.cancel()
            await asyncio.wait([lost])
            assert [int(await session.run(take)) for _ in range(int(await session.run(size)))] == [1, 2]

    asyncio.run(main())


def test_a_wait_that_is_cancelled_when_its_source_is_done_is_given_up():
    async def main():
        source, calls = asyncio.get_running_loop().create_future(), []
        task = OpTask(source, "t", lambda _: calls.append("convert"), lambda: calls.append("given up"))
        source.set_result(None)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled(), calls

    assert asyncio.run(main()) == (True, ["given up"])
