"""Barriers between the steps of a session."""

import asyncio

import numpy as np
import pytest
import tagloom as tg
from tagloom.compat import tf1

FIRST = np.iinfo(np.int64).min
EXECUTORS = pytest.mark.parametrize("executor", ["machine", "reference"])


async def rest():
    for _ in range(30):
        await asyncio.sleep(0)


def pairs():
    with tg.Graph().as_default() as graph:
        barrier = tf1.Barrier(["int32", "float32"], shapes=[[], [2]])
        keys, n = tg.placeholder("string", [None]), tg.placeholder("int32", [])
        a = barrier.insert_many(0, keys, tg.placeholder("int32", [None], name="a"))
        b = barrier.insert_many(1, keys, tg.placeholder("float32", [None, 2], name="b"))
        return graph, barrier, keys, n, a, b


def rows(*numbers):
    return [[x, x] for x in numbers]


@EXECUTORS
def test_whole_elements_leave_in_the_order_of_their_keys(executor):
    async def main():
        graph, barrier, keys, n, a, b = pairs()
        with graph.as_default():
            take, sizes = barrier.take_many(n), [barrier.ready_size(), barrier.incomplete_size()]
        async with tg.Session(graph, executor=executor) as session:
            waiting = asyncio.ensure_future(session.run(take, {n: 2}))
            await rest()
            await session.run(a, {keys: ["x", "y", "z"], "a:0": [1, 2, 3]})
            await session.run(b, {keys: ["z"], "b:0": rows(30)})
            assert not waiting.done()
            assert await session.run(sizes) == [1, 2]
            await session.run(b, {keys: ["x"], "b:0": rows(10)})
            indices, names, (first, second) = await waiting
            assert indices.tolist() == [FIRST, FIRST]
            assert names.tolist() == ["x", "z"]
            assert first.tolist() == [1, 3]
            assert second.tolist() == rows(10, 30)
            assert await session.run(sizes) == [0, 1]
            await session.run(b, {keys: ["w", "y"], "b:0": rows(1, 2)})
            await session.run(a, {keys: ["w"], "a:0": [1]})
            indices, names, _ = await session.run(take, {n: 2})
            assert names.tolist() == ["y", "w"]
            assert indices.tolist() == [FIRST, FIRST + 1]

    asyncio.run(main())


@EXECUTORS
def test_a_closed_barrier_completes_what_it_has(executor):
    async def main():
        graph, barrier, keys, n, a, b = pairs()
        with graph.as_default():
            take, close = barrier.take_many(n), barrier.close()
            small, patient = barrier.take_many(n, True)[1], barrier.take_many(n, True, True)[1]
        async with tg.Session(graph, executor=executor) as session:
            await session.run(a, {keys: ["x", "y", "z"], "a:0": [1, 2, 3]})
            await session.run(b, {keys: ["y"], "b:0": rows(1)})
            await session.run(close)
            with pytest.raises(tg.QueueClosed, match="'w' is new"):
                await session.run(a, {keys: ["w"], "a:0": [1]})
            with pytest.raises(tg.QueueClosed, match="already closed"):
                await session.run(close)
            assert (await session.run(small, {n: 5})).tolist() == ["y"]
            waiting = asyncio.ensure_future(session.run(patient, {n: 5}))
            await rest()
            await session.run(b, {keys: ["x"], "b:0": rows(1)})
            await rest()
            assert not waiting.done()
            await session.run(b, {keys: ["z"], "b:0": rows(1)})
            assert (await waiting).tolist() == ["x", "z"]
            with pytest.raises(tg.QueueClosed, match="barrier 'barrier' is closed and has insufficient elements"):
                await session.run(take, {n: 1})
            with pytest.raises(tg.QueueClosed, match="insufficient"):
                await session.run(small, {n: 1})

    asyncio.run(main())


def test_a_cancelled_barrier_drops_what_is_incomplete():
    async def main():
        graph, barrier, keys, n, a, b = pairs()
        with graph.as_default():
            take, close, cancel = barrier.take_many(n), barrier.close(), barrier.close(True)
            incomplete = barrier.incomplete_size()
        async with tg.Session(graph) as session:
            await session.run(a, {keys: ["x"], "a:0": [1]})
            waiting = asyncio.ensure_future(session.run(take, {n: 1}))
            await rest()
            await session.run(close)
            await rest()
            assert not waiting.done()
            await session.run(cancel)
            with pytest.raises(tg.QueueClosed, match="insufficient"):
                await waiting
            assert await session.run(incomplete) == 0
            with pytest.raises(tg.QueueClosed, match="'x' is new"):
                await session.run(b, {keys: ["x"], "b:0": rows(1)})

    asyncio.run(main())


def test_what_does_not_fit_is_refused_whole():
    graph, barrier, keys, _, a, b = pairs()
    with graph.as_default():
        size = barrier.incomplete_size()
        with pytest.raises(tg.GraphError, match="no such component"):
            barrier.insert_many(2, keys, [1])
        with pytest.raises(tg.DtypeError, match="another dtype"):
            barrier.insert_many(0, keys, tg.constant([1.0]))
        other = tf1.Barrier("int32", shared_name=barrier.shared_name).ready_size()
    with tg.SyncSession(graph) as session:
        session.run(a, {keys: ["x"], "a:0": [1]})
        with pytest.raises(tg.OpError, match="'x' of barrier 'barrier' has component 0 already"):
            session.run(a, {keys: ["new", "x"], "a:0": [1, 2]})
        with pytest.raises(tg.OpError, match="component 1 already"):
            session.run(b, {keys: ["x", "x"], "b:0": rows(1, 2)})
        with pytest.raises(tg.OpError, match="not equally many"):
            session.run(b, {keys: ["x", "y"], "b:0": rows(1)})
        assert session.run(size) == 1
        with pytest.raises(tg.OpError, match="'barrier' is shared by what differs"):
            session.run(other)


def test_a_snapshot_has_what_is_whole_and_what_is_not():
    async def main():
        graph, barrier, keys, n, a, b = pairs()
        with graph.as_default():
            take = barrier.take_many(n)[1]
        async with tg.Session(graph) as session:
            await session.run(a, {keys: ["x", "y"], "a:0": [1, 2]})
            await session.run(b, {keys: ["y"], "b:0": rows(1)})
            saved = await session.snapshot()
        async with tg.Session(graph) as session:
            await session.restore(saved)
            assert (await session.run(take, {n: 1})).tolist() == ["y"]
            await session.run(b, {keys: ["x"], "b:0": rows(1)})
            await session.run(a, {keys: ["z"], "a:0": [1]})
            await session.run(b, {keys: ["z"], "b:0": rows(1)})
            assert (await session.run(take, {n: 2})).tolist() == ["x", "z"]

    asyncio.run(main())


def test_a_step_that_only_takes_gives_back_in_order():
    async def main():
        graph, barrier, keys, n, a, b = pairs()
        with graph.as_default():
            take, never = barrier.take_many(n)[1], tg.FIFOQueue(1, "int32").dequeue()
        async with tg.Session(graph) as session:
            await session.run(a, {keys: ["x", "y", "z"], "a:0": [1, 2, 3]})
            await session.run(b, {keys: ["z", "y", "x"], "b:0": rows(1, 2, 3)})
            lost = asyncio.ensure_future(session.run([take, never], {n: 2}))
            await rest()
            lost.cancel()
            await asyncio.wait([lost])
            assert (await session.run(take, {n: 3})).tolist() == ["x", "y", "z"]

    asyncio.run(main())
