"""A queue that a step chooses from a list."""

import asyncio

import pytest
import tagloom as tg


def two(**options):
    return [tg.FIFOQueue(5, "int32", **{"shapes": [[]], **options}) for _ in range(2)]


def test_each_step_uses_the_queue_of_its_index():
    with tg.Graph().as_default() as graph:
        which = tg.placeholder("int32", [])
        queues = two()
        chosen = tg.QueueBase.from_list(which, queues)
        put, pair, size, end = chosen.enqueue_many([1, 2, 3]), chosen.dequeue_many(2), chosen.size(), chosen.close()
        closed = [queue.is_closed() for queue in queues]
    with tg.SyncSession(graph) as session:
        session.run(put, {which: 1})
        assert session.run(pair, {which: 1}).tolist() == [1, 2]
        assert [int(session.run(size, {which: i})) for i in (0, 1)] == [0, 1]
        session.run(end, {which: 0})
        assert session.run(closed) == [True, False]
        with pytest.raises(tg.OpError, match="no queue 2 in a list of 2"):
            session.run(size, {which: 2})


async def test_a_take_that_waits_loses_nothing_when_it_is_cancelled():
    with tg.Graph().as_default() as graph:
        queues = two()
        take, put = tg.QueueBase.from_list(1, queues).dequeue(), queues[1].enqueue(7)
    async with tg.Session(graph) as session:
        waiting = asyncio.ensure_future(session.run(take))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await session.run(put)
        assert await session.run(take) == 7


def test_shapes_that_differ_are_not_known():
    with tg.Graph().as_default():
        queues = [tg.FIFOQueue(2, "int32", shapes=[shape]) for shape in ([2, 3], [2, 4])]
        chosen = tg.QueueBase.from_list(0, queues)
        assert (chosen.shapes, chosen.dequeue().shape) == ((tg.Shape([2, None]),), [2, None])
        mixed = tg.QueueBase.from_list(0, [queues[0], tg.FIFOQueue(2, "int32")])
        assert mixed.dequeue().shape.rank is None
        with pytest.raises(tg.GraphError, match="needs to know the shapes"):
            mixed.dequeue_many(2)


def test_elements_that_are_dicts():
    with tg.Graph().as_default() as graph:
        queues = [tg.FIFOQueue(2, ["int32", "string"], names=["n", "s"]) for _ in range(2)]
        chosen = tg.QueueBase.from_list(1, queues)
        put, taken = chosen.enqueue({"n": 1, "s": "a"}), queues[1].dequeue()
    with tg.SyncSession(graph) as session:
        session.run(put)
        assert session.run(taken)["n"] == 1


def test_what_is_no_list_of_queues_that_are_alike():
    with tg.Graph().as_default():
        first = tg.FIFOQueue(2, "int32", shapes=[[]])
        for queues in ([], [first, 3], first):
            with pytest.raises(tg.GraphError, match="chooses from queues"):
                tg.QueueBase.from_list(0, queues)
        with pytest.raises(tg.GraphError, match="differ in dtypes"):
            tg.QueueBase.from_list(0, [first, tg.FIFOQueue(2, "int64")])
        with pytest.raises(tg.GraphError, match="differ in names"):
            tg.QueueBase.from_list(0, [first, tg.FIFOQueue(2, "int32", names=["n"])])


async def test_a_bridge_needs_a_queue_of_its_own():
    with tg.Graph().as_default() as graph:
        chosen = tg.QueueBase.from_list(0, two())
    async with tg.Session(graph) as session:
        with pytest.raises(tg.GraphError, match="only steps make"):
            chosen.bridge(session, asyncio.Queue())
