"""A wait that nothing can satisfy any longer ends with an error (rules 128 and 130)."""

import asyncio

import numpy as np
import pytest
import tagloom as tg
from tagloom.compat import tf1

EXECUTORS = pytest.mark.parametrize("executor", ["machine", "reference"])


async def rest():
    for _ in range(30):
        await asyncio.sleep(0)


def barrier_program():
    with tg.Graph().as_default() as graph:
        barrier = tf1.Barrier(["int32", "int32"], shapes=[[], []])
        keys, count = tg.placeholder("string", [None]), tg.placeholder("int32", [])
        numbers = tg.cast(tg.fill(tg.shape(keys), 1), "int32")
        first, second = barrier.insert_many(0, keys, numbers), barrier.insert_many(1, keys, numbers)
        takes = {
            "exact": barrier.take_many(count)[1],
            "small": barrier.take_many(count, allow_small_batch=True)[1],
            "patient": barrier.take_many(count, allow_small_batch=True, wait_for_incomplete=True)[1],
        }
    return graph, first, second, takes, keys, count, barrier


async def filled(session, first, second, keys, whole, lacking):
    names = [f"whole {i}" for i in range(whole)] + [f"lacking {i}" for i in range(lacking)]
    await session.run(first, {keys: names})
    await session.run(second, {keys: names[:whole]})


@EXECUTORS
@pytest.mark.parametrize("begun", ["before", "after"])
@pytest.mark.parametrize(
    ("how", "whole", "wanted", "got"),
    [
        ("small", 0, 1, None),
        ("small", 1, 5, 1),
        ("exact", 1, 3, None),
        ("exact", 0, 2, None),
    ],
)
@pytest.mark.rule(128)
def test_a_closed_barrier_whose_element_lacks_a_component(executor, begun, how, whole, wanted, got):
    graph, first, second, takes, keys, count, barrier = barrier_program()
    with graph.as_default():
        close = barrier.close()

    async def main():
        async with tg.Session(graph, executor=executor) as session:
            await filled(session, first, second, keys, whole, 1)
            if begun == "after":
                await session.run(close)
            take = asyncio.ensure_future(session.run(takes[how], {count: wanted}))
            await rest()
            if begun == "before":
                assert not take.done()
                await session.run(close)
            async with asyncio.timeout(60):
                if got is not None:
                    assert len(await take) == got
                    take = asyncio.ensure_future(session.run(takes[how], {count: wanted}))
                with pytest.raises(tg.QueueClosed):
                    await take
            await session.run(second, {keys: ["lacking 0"]})  # it may still become whole
            assert (await session.run(takes["small"], {count: 1})).tolist() == (
                ["whole 0"] if whole and got is None else ["lacking 0"]
            )

    asyncio.run(main())


@EXECUTORS
@pytest.mark.rule(128)
def test_who_can_still_be_served_by_a_closed_barrier_waits(executor):
    graph, first, second, takes, keys, count, barrier = barrier_program()
    with graph.as_default():
        close, drop = barrier.close(), barrier.close(cancel_pending_enqueues=True)

    async def main():
        async with tg.Session(graph, executor=executor) as session:
            await filled(session, first, second, keys, 1, 2)
            await session.run(close)
            exact = asyncio.ensure_future(session.run(takes["exact"], {count: 2}))
            patient = asyncio.ensure_future(session.run(takes["patient"], {count: 5}))
            last = asyncio.ensure_future(session.run(takes["exact"], {count: 1}))
            await rest()
            assert not any(each.done() for each in (exact, patient, last))
            await session.run(second, {keys: ["lacking 0"]})
            assert (await exact).tolist() == ["whole 0", "lacking 0"]
            await rest()
            assert not patient.done()
            await session.run(drop)
            for each in (patient, last):
                with pytest.raises(tg.QueueClosed):
                    await each

    asyncio.run(main())


@EXECUTORS
def test_components_that_are_too_large_together(executor):
    with tg.Graph().as_default() as graph:
        area = tf1.MapStagingArea(["int64", "int64"], shapes=[[], []], memory_limit=12)
        first, second, other = area.put(1, [1], [0]), area.put(1, [2], [1]), area.put(2, [2], [1])
        clear = area.clear()

    async def main():
        async with tg.Session(graph, executor=executor) as session:
            await session.run(first)
            with pytest.raises(tg.OpError, match="larger than map staging area"):
                await session.run(second)
            waiting = asyncio.ensure_future(session.run(other))
            await rest()
            assert not waiting.done()  # it has room when the other is gone
            await session.run(clear)
            await waiting

    asyncio.run(main())


@EXECUTORS
@pytest.mark.parametrize("many", [False, True])
def test_queues_that_are_closed_with_too_few_elements(executor, many):
    with tg.Graph().as_default() as graph:
        queues = [
            tg.FIFOQueue(9, "int32", shapes=[[]]),
            tg.FIFOQueue(9, "int32", shapes=[[]], capacity_bytes=40),
            tg.PaddingFIFOQueue(9, "int32", shapes=[[]]),
            tg.RandomShuffleQueue(9, 2, "int32", shapes=[[]]),
        ]
        programs = [
            (each.enqueue(1), each.dequeue_many(3) if many else [each.dequeue(), each.dequeue()], each.close())
            for each in queues
        ]

    async def main():
        async with tg.Session(graph, executor=executor) as session:
            for put, take, close in programs:
                await session.run(put)
                waiting = asyncio.ensure_future(session.run(take))
                await rest()
                await session.run(close)
                with pytest.raises(tg.QueueClosed):
                    await waiting
                with pytest.raises(tg.QueueClosed):
                    await session.run(put)

    asyncio.run(main())


def test_an_element_that_no_queue_can_hold():
    with tg.Graph().as_default() as graph:
        queue = tg.FIFOQueue(9, "int64", shapes=[[3]], capacity_bytes=16)
        area = tf1.StagingArea("int64", shapes=[[3]], memory_limit=16)
        puts = [queue.enqueue(np.arange(3)), queue.enqueue_many(np.ones((2, 3), np.int64)), area.put([np.arange(3)])]

    async def main():
        async with tg.Session(graph) as session:
            for put in puts:
                with pytest.raises(tg.OpError, match="larger than"):
                    await session.run(put)

    asyncio.run(main())
