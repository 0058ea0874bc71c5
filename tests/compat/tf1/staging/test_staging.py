"""Staging areas and map staging areas between the steps of a session."""

import asyncio

import numpy as np
import pytest
import tagloom as tg
from tagloom.base import dtypes
from tagloom.base.shapes import SCALAR
from tagloom.compat import tf1
from tagloom.compat.tf1.staging.map_storage import MapSpec, MapStorage
from tagloom.ops.queues.elements import ElementSpec

EXECUTORS = pytest.mark.parametrize("executor", ["machine", "reference"])


async def rest():
    for _ in range(30):
        await asyncio.sleep(0)


async def begun(awaitable):
    """Return a task of a step that waits by now."""
    task = asyncio.ensure_future(awaitable)
    await rest()
    assert not task.done()
    return task


def area_of_numbers(**bounds):
    with tg.Graph().as_default() as graph:
        area = tf1.StagingArea(["int32"], [[]], **bounds)
        x = tg.placeholder("int32", [])
        return graph, area, x, area.put([x]), area.get()[0]


@EXECUTORS
def test_put_waits_for_room_and_get_for_an_element(executor):
    async def main():
        graph, area, x, put, get = area_of_numbers(capacity=2)
        with graph.as_default():
            size, clear = area.size(), area.clear()
        async with tg.Session(graph, executor=executor) as session:
            first = await begun(session.run(get))
            for i in range(3):
                await session.run(put, {x: i})
            assert await first == 0
            late = await begun(session.run(put, {x: 3}))
            assert await session.run(size) == 2
            assert await session.run(get) == 1
            await late
            assert await session.run(size) == 2
            late = await begun(session.run(put, {x: 4}))
            await session.run(clear)
            await late
            assert await session.run(get) == 4

    asyncio.run(main())


def test_what_is_left_for_one_that_was_woken_counts_once():
    async def main():
        graph, area, x, put, get = area_of_numbers(capacity=5)
        with graph.as_default():
            clear = area.clear()
        async with tg.Session(graph) as session:
            await session.run(clear)
            first = await begun(session.run(get))
            await session.run(put, {x: 1})
            await session.run(clear)
            assert not first.done()
            assert await first == 1
            (figures,) = session.statistics().figures["staging areas"].values()
            assert (figures.enqueued, figures.dequeued) == (1, 1)

    asyncio.run(main())


@pytest.mark.rule(48)
@EXECUTORS
def test_peek_waits_and_takes_nothing(executor):
    async def main():
        graph, area, x, put, get = area_of_numbers()
        with graph.as_default():
            second, wrong = area.peek(1)[0], area.peek(-1)
        async with tg.Session(graph, executor=executor) as session:
            lost, seen = await begun(session.run(second)), await begun(session.run(second))
            await session.run(put, {x: 5})
            lost.cancel()
            await rest()
            assert not seen.done()
            await session.run(put, {x: 6})
            assert await seen == 6
            assert [await session.run(get), await session.run(get)] == [5, 6]
            with pytest.raises(tg.OpError, match="is negative"):
                await session.run(wrong)
            waiting = await begun(session.run(second))
        with pytest.raises(tg.SessionClosed):
            await waiting

    asyncio.run(main())


def test_memory_bounds_an_area():
    async def main():
        with tg.Graph().as_default() as graph:
            area = tf1.StagingArea(["float32"], memory_limit=100)
            put, large, get = area.put([np.zeros(20, "f")]), area.put([np.zeros(26, "f")]), area.get()
        async with tg.Session(graph) as session:
            await session.run(put)
            late = await begun(session.run(put))
            await session.run(get)
            await late
            with pytest.raises(tg.OpError, match="is larger than staging area"):
                await session.run(large)

    asyncio.run(main())


def test_elements_may_be_dicts_and_bounds_are_checked():
    with tg.Graph().as_default() as graph:
        area = tf1.StagingArea(["int32", "string"], [[], []], names=["n", "s"])
        put, got = area.put({"n": 1, "s": "a"}), area.get()
        with pytest.raises(tg.GraphError, match="other components"):
            area.put({"n": 1})
        with pytest.raises(tg.GraphError, match="negative bound"):
            tf1.StagingArea(["int32"], capacity=-1)
    with tg.SyncSession(graph) as session:
        session.run(put)
        found = session.run(got)
    assert {name: value.item() for name, value in found.items()} == {"n": 1, "s": "a"}


def test_a_queue_and_a_staging_area_may_have_one_name():
    with tg.Graph().as_default() as graph:
        queue, area = tg.FIFOQueue(1, "int32", shared_name="q"), tf1.StagingArea("int32", shared_name="q")
        puts, gots = [queue.enqueue(1), area.put(2)], [queue.dequeue(), area.get()[0]]
    with tg.SyncSession(graph) as session:
        for put in puts:
            session.run(put)
        assert session.run(gots) == [1, 2]


def test_a_clear_leaves_what_was_promised():
    async def main():
        graph, area, x, put, get = area_of_numbers()
        with graph.as_default():
            clear, size = area.clear(), area.size()
        async with tg.Session(graph) as session:
            await session.compile(put, [x])
            waiting = await begun(session.run(get))
            both = [asyncio.ensure_future(session.run(put, {x: 1})), asyncio.ensure_future(session.run(clear))]
            await asyncio.gather(*both)
            assert await waiting == 1
            assert await session.run(size) == 0

    asyncio.run(main())


# ---- by keys


def map_of_pairs(**about):
    with tg.Graph().as_default() as graph:
        area = tf1.MapStagingArea(["int32", "float32"], [[], []], **about)
        key = tg.placeholder("int64", [])
        return graph, area, key


@EXECUTORS
def test_components_come_and_go_one_after_another(executor):
    async def main():
        graph, area, key = map_of_pairs()
        with graph.as_default():
            first, second = area.put(key, [7], [0]), area.put(key, [0.5], [1])
            (k, (x,)), (_, (y,)), seen = area.get(key, [1]), area.get(key, [0]), area.peek(key, [0])
            sizes = [area.size(), area.incomplete_size()]
        async with tg.Session(graph, executor=executor) as session:
            looking = await begun(session.run(seen, {key: 3}))
            waiting = await begun(session.run([k, x], {key: 3}))
            await session.run(first, {key: 3})
            assert await session.run(sizes) == [0, 1]
            with pytest.raises(tg.OpError, match="key 3 is in map staging area"):
                await session.run(first, {key: 3})
            await session.run(second, {key: 3})
            assert [await waiting, await looking] == [[3, 0.5], [7]]
            assert await session.run(sizes) == [1, 0]
            with pytest.raises(tg.OpError, match="component of key 3 was taken"):
                await session.run([k, x], {key: 3})
            assert await session.run(y, {key: 3}) == 7
            assert await session.run(sizes) == [0, 0]

    asyncio.run(main())


@EXECUTORS
@pytest.mark.parametrize(("ordered", "wanted"), [(True, [1, 2, 5]), (False, [5, 1, 2])])
def test_the_next_one_is_the_smallest_or_the_oldest(executor, ordered, wanted):
    async def main():
        graph, area, key = map_of_pairs(ordered=ordered, capacity=3)
        with graph.as_default():
            put, (k, _), one = area.put(key, [1, 1.0]), area.get(), area.get(key)[0]
        async with tg.Session(graph, executor=executor) as session:
            for i in (5, 1, 2):
                await session.run(put, {key: i})
            late = await begun(session.run(put, {key: 9}))
            lost = await begun(session.run(put, {key: 8}))
            lost.cancel()
            found = [int(await session.run(k)) for _ in range(3)]
            await late
            assert found == wanted
            assert await session.run(one, {key: 9}) == 9
            waiting = await begun(session.run(one, {key: 10}))
            gone = await begun(session.run(k))
            gone.cancel()
            await session.run(put, {key: 10})
            assert await waiting == 10

    asyncio.run(main())


def test_a_map_that_is_full_is_emptied_and_saved():
    async def main():
        graph, area, key = map_of_pairs(memory_limit=16)
        with graph.as_default():
            put, part, size, clear = area.put(key, [1, 1.0]), area.put(key, [2], [0]), area.size(), area.clear()
            get = area.get(key)[1]
        async with tg.Session(graph) as session:
            await session.run(put, {key: 1})
            await session.run(part, {key: 2})
            saved = await session.snapshot()
            late = await begun(session.run(put, {key: 3}))
            await session.run(clear)
            await late
            await session.restore(saved)
            assert await session.run(size) == 1
            assert await session.run(get, {key: 1}) == [1, 1.0]
        with graph.as_default():
            wide = tf1.MapStagingArea("float32", memory_limit=8).put(0, np.zeros(3, "f"))
        async with tg.Session(graph) as session:
            with pytest.raises(tg.OpError, match="is larger than map staging area"):
                await session.run(wide)

    asyncio.run(main())


def test_what_does_not_fit_a_map_is_refused():
    graph, area, _ = map_of_pairs()
    with graph.as_default():
        with pytest.raises(tg.GraphError, match="other components"):
            area.put(1, [1])
        with pytest.raises(tg.GraphError, match="no such components"):
            area.get(1, [2])
        with pytest.raises(tg.DtypeError, match="other dtypes"):
            area.put(1, [tg.constant(1.0), 1.0])
        named = tf1.MapStagingArea(["int32", "float32"], names=["n", "x"])
        assert list(named.get(1, ["x"])[1]) == ["x"]
        named.put(1, {"x": 1.0})


def test_a_whole_element_of_a_map_comes_in_the_container_of_the_dtypes_and_a_part_in_a_list():
    with tg.Graph().as_default() as graph:
        area = tf1.MapStagingArea({"n": "int32", "x": "float32"}, [[], []])
        put, peeked, (_, got) = area.put(7, {"n": 1, "x": 2.0}), area.peek(7), area.get()
        part, (_, other) = area.peek(7, [1]), area.get(7, [0, 1])
    assert len(part) == 1
    assert type(other) is list
    with tg.SyncSession(graph) as session:
        session.run(put)
        assert session.run(peeked) == {"n": 1, "x": 2.0}
        assert session.run(got) == {"n": 1, "x": 2.0}


@pytest.mark.rule(48)
def test_components_that_wait_for_memory_pass_by_who_waits_for_a_place():
    async def main():
        with tg.Graph().as_default() as graph:
            area = tf1.MapStagingArea(["float32", "float32"], [[10], [10]], capacity=1, memory_limit=120)
            key, value = tg.placeholder("int64", []), tg.constant(np.zeros(10, np.float32))
            both, first, last = area.put(key, [value, value]), area.put(key, [value], [0]), area.put(key, [value], [1])
            get, get_first = area.get(key), area.get(key, [0])
        async with tg.Session(graph) as session:
            await session.run(both, {key: 1})
            await session.run(first, {key: 3})
            whole = await begun(session.run(both, {key: 2}))
            part = await begun(session.run(last, {key: 3}))
            await session.run(get_first, {key: 1})
            await asyncio.wait_for(part, 5)
            assert (await session.run(get, {key: 3}, timeout=5))[0] == 3
            whole.cancel()

    asyncio.run(main())


async def test_an_element_of_a_map_that_was_promised_to_one_who_is_cancelled_is_for_others():
    numbers = ElementSpec((dtypes.int32,), (SCALAR,))
    area = MapStorage("a", MapSpec(numbers, capacity=0, memory_limit=0, ordered=False))
    waiting = asyncio.ensure_future(area.take(None, (0,), "get"))
    await asyncio.sleep(0)
    assert area.put([np.int32(7)], 3, (0,), "put") is None
    assert len(area.takers.woken) == 1
    waiting.cancel()
    await asyncio.wait([waiting])
    assert waiting.cancelled()
    assert area.take(3, (0,), "get").result() == (3, 7)
