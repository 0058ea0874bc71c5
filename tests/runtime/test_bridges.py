"""Queues of a session and what is outside: bridges to an asyncio.Queue, async iterables as sources."""

import asyncio
import gc
import weakref
from dataclasses import dataclass

import numpy as np
import pytest
import tagloom as tg

EXECUTORS = pytest.mark.parametrize("executor", ["machine", "reference"])


async def rest():
    for _ in range(30):
        await asyncio.sleep(0)


def numbers_queue(capacity=1):
    with tg.Graph().as_default() as graph:
        queue, x = tg.FIFOQueue(capacity, "int32", shapes=[[]]), tg.placeholder("int32", [])
        return graph, queue, x, queue.enqueue(x), queue.dequeue(), queue.close()


def filled(numbers, maxsize=0):
    queue = asyncio.Queue(maxsize)
    for number in numbers:
        queue.put_nowait(number)
    return queue


def others():
    return [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]


@EXECUTORS
def test_elements_go_in_one_at_a_time_and_stop_where_they_are(executor):
    async def main():
        graph, queue, _, _, take, _ = numbers_queue()
        async with tg.Session(graph, executor=executor) as session:
            source = filled(range(6))
            async with queue.bridge(session, source) as bridge:
                assert [int(await session.run(take)) for _ in range(2)] == [0, 1]
                await rest()
                assert source.qsize() == 2  # one is in, and one under way
                assert bridge.moved == 3
            assert bridge.done
            assert [source.get_nowait() for _ in range(3)] == [3, 4, 5]
            assert await session.run(take) == 2
        assert others() == []

    asyncio.run(main())


@EXECUTORS
def test_elements_go_out_until_the_queue_is_closed_and_empty(executor):
    async def main():
        graph, queue, x, put, take, close = numbers_queue(2)
        async with tg.Session(graph, executor=executor) as session:
            results = asyncio.Queue(maxsize=1)
            async with queue.bridge(session, results, direction="out"):
                for i in range(4):
                    await session.run(put, {x: i})
                await rest()
                assert results.qsize() == 1  # and one under way, two in the queue
                late = asyncio.ensure_future(session.run(put, {x: 4}))
                await rest()
                assert not late.done()
                assert await results.get() == 0
                await late
            assert await results.get() == 1
            assert [int(await session.run(take)) for _ in range(3)] == [2, 3, 4]
            bridge = queue.bridge(session, results, direction="out")
            await session.run(put, {x: 5})
            await session.run(close)
            assert await bridge == 1
            assert (await results.get()).tolist() == 5
        assert others() == []

    asyncio.run(main())


@pytest.mark.parametrize("direction", ["in", "out"])
@pytest.mark.parametrize("turns", range(10))
def test_a_bridge_that_is_stopped_at_any_time_loses_nothing(direction, turns):
    async def main():
        graph, queue, x, put, take, _ = numbers_queue(3)
        bound = 6 if direction == "in" else 3
        outside = filled(range(6)) if direction == "in" else asyncio.Queue(maxsize=2)
        async with tg.Session(graph) as session:
            if direction == "out":
                for i in range(3):
                    await session.run(put, {x: i})
            bridge = queue.bridge(session, outside, direction)
            for _ in range(turns):
                await asyncio.sleep(0)
            await bridge.aclose()
            with graph.as_default():
                size = queue.size()
            inside = [int(await session.run(take)) for _ in range(int(await session.run(size)))]
            there = [int(outside.get_nowait()) for _ in range(outside.qsize())]
            assert (inside + there if direction == "in" else there + inside) == list(range(bound))
        assert others() == []

    asyncio.run(main())


@pytest.mark.parametrize("kind", [asyncio.LifoQueue, asyncio.PriorityQueue])
def test_an_item_goes_back_to_where_it_belongs(kind):
    async def main():
        graph, queue, _, _, _, _ = numbers_queue(1)
        source = kind(3)
        for i in (3, 1, 2):
            source.put_nowait(i)
        wanted = [2, 1, 3] if kind is asyncio.LifoQueue else [1, 2, 3]
        async with tg.Session(graph) as session:
            bridge = queue.bridge(session, source)
            await rest()
            source.put_nowait(9 if kind is asyncio.PriorityQueue else 0)
            waiting = asyncio.ensure_future(source.get())
            await rest()
            await bridge.aclose()
            got = [await waiting] + [source.get_nowait() for _ in range(source.qsize())]
        assert sorted(got) == sorted([*wanted[1:], 9 if kind is asyncio.PriorityQueue else 0])

    asyncio.run(main())


def test_errors_arrive_at_the_user():
    async def main():
        graph, queue, _, _, _, close = numbers_queue()
        async with tg.Session(graph) as session:
            with pytest.raises(tg.OpError, match="an element for queue 'fifo_queue' has another dtype"):
                async with queue.bridge(session, filled(["a", 1])):
                    await asyncio.sleep(10)
            misfits = filled([[1, 2], [3]])
            bridge = queue.bridge(session, misfits)
            with pytest.raises(tg.OpError, match="has another shape"):
                await bridge
            assert [misfits.get_nowait() for _ in range(2)] == [[1, 2], [3]]  # in its place again
            with pytest.raises(ValueError, match="mine"):
                async with queue.bridge(session, filled([[1, 2]])):
                    await rest_of_it()
            await session.run(close)
            source = filled([1])
            with pytest.raises(tg.QueueClosed, match="is closed"):
                async with queue.bridge(session, source):
                    await asyncio.sleep(10)
            assert source.get_nowait() == 1
            assert asyncio.current_task().cancelling() == 0

    async def rest_of_it():
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            raise ValueError("mine") from None

    asyncio.run(main())


def test_the_user_may_be_cancelled_in_the_block():
    async def main():
        graph, queue, _, _, _, _ = numbers_queue()
        async with tg.Session(graph) as session:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01), queue.bridge(session, filled([])):
                    await asyncio.sleep(10)
            assert others() == []

    asyncio.run(main())


@pytest.mark.rule(48)
@pytest.mark.parametrize("direction", ["in", "out"])
def test_a_session_that_is_closed_ends_its_bridges(direction):
    async def main():
        graph, queue, _, _, _, _ = numbers_queue()
        outside = filled(range(3))
        async with tg.Session(graph) as session:
            bridge = queue.bridge(session, outside, direction)
            await rest()
        with pytest.raises(tg.SessionClosed):
            await bridge
        assert others() == []
        assert outside.qsize() == (2 if direction == "in" else 3)
        with pytest.raises(tg.SessionClosed):
            queue.bridge(session, outside)

    asyncio.run(main())


def test_join_waits_for_what_has_entered():
    async def main():
        graph, queue, _, _, take, _ = numbers_queue()
        async with tg.Session(graph) as session:
            source = filled(range(3))
            async with queue.bridge(session, source):
                joined = asyncio.ensure_future(source.join())
                await session.run(take)
                await rest()
                assert not joined.done()
                await session.run(take)
                await joined

    asyncio.run(main())


def test_components_are_tuples_or_dicts_and_the_users_own():
    async def main():
        with tg.Graph().as_default() as graph:
            pairs = tg.PriorityQueue(3, "float32", shapes=[[2]])
            named = tg.FIFOQueue(3, ["int32", "string"], shapes=[[], []], names=["n", "s"])
        array = np.ones(2, np.float32)
        async with tg.Session(graph) as session:
            results = asyncio.Queue()
            async with pairs.bridge(session, filled([(2, array), (1, [0.0, 0.0])])) as bridge:
                await rest()
                array[:] = 7
                async with pairs.bridge(session, results, "out"):
                    first, second = await results.get(), await results.get()
                assert bridge.moved == 2
            assert first[0] == 1
            assert second[1].tolist() == [1, 1]
            second[1][:] = 3
            async with named.bridge(session, filled([{"n": 1, "s": "a"}])), named.bridge(session, results, "out"):
                found = await results.get()
            assert {name: value.item() for name, value in found.items()} == {"n": 1, "s": "a"}

    asyncio.run(main())


@dataclass
class Sample:
    number: object
    text: object


IN_CONTAINERS = {
    "dict": {"number": 3, "text": "a"},
    "dict of one": {"number": 3},
    "dataclass": Sample(3, "a"),
    "nested": {"inside": Sample(3, "a"), "beside": [4]},
}


@pytest.mark.parametrize("element", IN_CONTAINERS.values(), ids=IN_CONTAINERS)
def test_elements_go_in_and_out_in_the_container_of_the_dtypes(element):
    def dtype_of(value):
        return "string" if isinstance(value, str) else "int32"

    async def main():
        with tg.Graph().as_default() as graph:
            queue = tg.FIFOQueue(3, tg.nest.map_structure(dtype_of, element))
            taken = queue.dequeue()
        async with tg.Session(graph) as session:
            results = asyncio.Queue()
            async with queue.bridge(session, filled([element])), queue.bridge(session, results, "out"):
                found = await results.get()
            assert type(found) is type(element)
            assert tg.nest.map_structure(lambda value: value.item(), found) == element
            async with queue.bridge(session, filled([found])):
                assert await session.run(taken) == element

    asyncio.run(main())


def test_an_element_in_another_container_than_that_of_the_dtypes_is_refused():
    async def main():
        with tg.Graph().as_default() as graph:
            queue = tg.FIFOQueue(3, {"a": "int32", "b": "int32"})
        async with tg.Session(graph) as session:
            with pytest.raises(tg.GraphError, match="another structure than its dtypes have") as caught:
                await queue.bridge(session, filled([{"a": 1, "c": 2}]))
            assert caught.value.wanted == queue.structure
            assert caught.value.got == {"a": 1, "c": 2}

    asyncio.run(main())


def test_large_elements_are_copied_in_threads():
    async def main():
        with tg.Graph().as_default() as graph:
            queue = tg.FIFOQueue(3, "float32")
        array = np.arange(1 << 20, dtype=np.float32)
        async with tg.Session(graph) as session:
            results = asyncio.Queue()
            async with queue.bridge(session, filled([array])), queue.bridge(session, results, "out"):
                found = await results.get()
            assert found.flags.writeable
            assert not np.shares_memory(found, array)
            assert (found == array).all()

    asyncio.run(main())


def test_what_is_no_bridge_is_refused():
    async def main():
        graph, queue, _, _, _, _ = numbers_queue()
        async with tg.Session(graph) as session, tg.Session(tg.Graph()) as other:
            for arguments, match in (
                ((session, asyncio.Queue(), "up"), "no such direction"),
                ((session, [1, 2]), "has an asyncio.Queue at its other end"),
                ((other, asyncio.Queue()), "a session of its graph"),
                ((object(), asyncio.Queue()), "a task of a session"),
            ):
                with pytest.raises(tg.GraphError, match=match):
                    queue.bridge(*arguments)

    asyncio.run(main())


# ---- async iterables


class Counted:
    """An async iterator of numbers that knows how many it was asked for, and whether it was closed."""

    def __init__(self, count, error=None):
        self.count, self.error, self.asked, self.closed = count, error, 0, False

    def __aiter__(self):
        return self

    async def __anext__(self):
        await asyncio.sleep(0)
        self.asked += 1
        if self.asked <= self.count:
            return self.asked
        raise self.error or StopAsyncIteration

    async def aclose(self):
        self.closed = True


def sourced(source, **about):
    with tg.Graph().as_default() as graph:
        queue = tg.from_async(source, "int32", shapes=[[]], **about)
        return graph, queue, queue.dequeue()


@EXECUTORS
def test_a_source_is_asked_as_steps_take_and_its_end_closes_the_queue(executor):
    async def main():
        source = Counted(4)
        graph, _, take = sourced(source)
        async with tg.Session(graph, executor=executor) as session:
            await rest()
            assert source.asked == 0
            assert await session.run(take) == 1
            await rest()
            assert source.asked == 3
            assert [int(await session.run(take)) for _ in range(3)] == [2, 3, 4]
            with pytest.raises(tg.QueueClosed, match="insufficient"):
                await session.run(take)
            assert source.closed
            assert others() == []

    asyncio.run(main())


@EXECUTORS
def test_what_a_source_raises_reaches_the_step_with_the_number(executor):
    async def main():
        source = Counted(2, ValueError("no more"))
        graph, _, take = sourced(source, capacity=5)
        async with tg.Session(graph, executor=executor) as session:
            assert [int(await session.run(take)) for _ in range(2)] == [1, 2]
            for _ in range(2):
                with pytest.raises(tg.OpError, match="failed when it was asked for element 2") as caught:
                    await session.run(take)
                assert isinstance(caught.value.__cause__, ValueError)
                assert not isinstance(caught.value, tg.QueueClosed)
            assert source.closed

    asyncio.run(main())


def test_an_element_that_does_not_fit_is_an_error_of_the_source():
    async def words():
        yield "a"

    async def main():
        graph, _, take = sourced(words)
        async with tg.Session(graph) as session:
            with pytest.raises(tg.OpError, match="element 0") as caught:
                await session.run(take)
            assert "another dtype" in str(caught.value.__cause__)

    asyncio.run(main())


def test_a_generator_function_gives_each_session_its_own():
    ended = []

    async def numbers():
        try:
            for i in range(100):
                yield i
        finally:
            await asyncio.sleep(0)
            ended.append(True)

    async def main():
        graph, queue, take = sourced(numbers)
        with graph.as_default():
            close = queue.close()
        for _ in range(2):
            async with tg.Session(graph) as session:
                assert [int(await session.run(take)) for _ in range(3)] == [0, 1, 2]
        assert ended == [True, True]
        async with tg.Session(graph) as session:
            await session.run(take)
            await session.run(close)
            await rest()
        assert ended == [True] * 3
        assert others() == []

    asyncio.run(main())


def test_a_source_that_cancels_itself_does_not_hang_its_step():
    async def strange():
        yield 1
        raise asyncio.CancelledError

    async def main():
        graph, _, take = sourced(strange)
        async with tg.Session(graph) as session:
            await session.run(take)
            with pytest.raises(tg.OpError, match="element 1"):
                await session.run(take)

    asyncio.run(main())


def test_a_session_lets_go_of_its_sources():
    async def main():
        source = Counted(10)
        graph, _, take = sourced(lambda: source)
        async with tg.Session(graph) as session:
            await session.run(take)
        assert source.closed
        kept = weakref.ref(source)
        return kept

    kept = asyncio.run(main())
    gc.collect()
    assert kept() is None


def test_what_is_no_source_is_refused():
    with tg.Graph().as_default():
        with pytest.raises(tg.GraphError, match="no source of elements"):
            tg.from_async([1, 2], "int32")
        with pytest.raises(tg.GraphError, match="room for one element"):
            tg.from_async(Counted(1), "int32", capacity=0)
        with pytest.raises(tg.GraphError, match="is filled by an async iterable already"):
            tg.from_async(Counted(1), "int32").bridge(None, None)


def test_a_source_whose_queue_a_step_closes_ends():
    async def main():
        ended = asyncio.Event()

        async def source():
            try:
                yield 0
                await asyncio.Event().wait()
            finally:
                ended.set()

        with tg.Graph().as_default() as graph:
            queue = tg.from_async(source, "int32", shapes=[[]])
            one, close = queue.dequeue(), queue.close()
        async with tg.Session(graph) as session:
            assert await session.run(one) == 0
            await session.run(close)
            await asyncio.wait_for(ended.wait(), 5)

    asyncio.run(main())


async def test_a_source_is_not_asked_before_a_step_uses_its_queue_also_when_it_was_restored():
    begun = []

    async def source():
        begun.append(True)
        for i in range(3):
            yield i

    with tg.Graph().as_default() as graph:
        one = tg.from_async(source, "int32", shapes=[[]]).dequeue()
    async with tg.Session(graph) as session:
        assert await session.run(one) == 0
        await rest()
        saved = await session.snapshot()
    assert begun == [True]
    async with tg.Session(graph) as session:
        await session.restore(saved)
        await rest()
        assert begun == [True]
        assert [int(await session.run(one)) for _ in range(4)] == [1, 0, 1, 2]
    assert begun == [True, True]


def test_a_queue_whose_source_has_ended_is_closed_also_when_it_was_restored():
    async def source():
        for i in range(4):
            yield i

    async def main():
        with tg.Graph().as_default() as graph:
            queue = tg.from_async(source, "int32", shapes=[[]], capacity=2)
            one = queue.dequeue()
        async with tg.Session(graph) as session:
            assert await session.run(one) == 0
            await rest()
            saved = await session.snapshot()
            assert [int(await session.run(one)) for _ in range(3)] == [1, 2, 3]
            await session.restore(saved)
            assert [int(await session.run(one, timeout=5)) for _ in range(2)] == [1, 2]
            with pytest.raises(tg.QueueClosed):
                await session.run(one, timeout=5)

    asyncio.run(main())
