"""Bridges whose asyncio.Queue nobody refers to any longer."""

import asyncio
import gc
import threading
import weakref

import pytest
import tagloom as tg

from tests.support.waiting import turns, until


def numbers_queue(capacity=8):
    with tg.Graph().as_default() as graph:
        queue, x = tg.FIFOQueue(capacity, "int32", shapes=[[]]), tg.placeholder("int32", [])
        return graph, queue, x, queue.enqueue(x), queue.dequeue(), queue.size(), queue.close()


@pytest.mark.parametrize("maxsize", [0, 1, 2])
@pytest.mark.parametrize("moved", [0, 1, 2])
def test_a_bridge_out_ends_with_its_reader_and_loses_nothing(maxsize, moved):
    async def main():
        graph, queue, x, put, take, size, _ = numbers_queue()
        async with tg.Session(graph) as session:
            results = asyncio.Queue(maxsize)
            bridge = queue.bridge(session, results, "out")
            for i in range(moved):
                await session.run(put, {x: i})
                assert int(await results.get()) == i
            await turns(5)
            assert not bridge.done
            del results
            assert await asyncio.wait_for(bridge, 30) == moved
            await session.run(put, {x: 7})
            assert await session.run(size) == 1
            assert await session.run(take) == 7

    asyncio.run(main())


def test_an_element_that_waits_for_room_goes_back():
    async def main():
        graph, queue, x, put, take, _, _ = numbers_queue()
        async with tg.Session(graph) as session:
            results = asyncio.Queue(1)
            bridge = queue.bridge(session, results, "out")
            for i in range(3):
                await session.run(put, {x: i})
            await until(results.full)
            await turns(10)
            del results
            assert await asyncio.wait_for(bridge, 30) == 1
            assert [int(await session.run(take)) for _ in range(2)] == [1, 2]

    asyncio.run(main())


def test_a_reader_that_is_cancelled_ends_its_bridge():
    async def reader(session, queue, found):
        results = asyncio.Queue(2)
        found.append(queue.bridge(session, results, "out"))
        while True:
            found.append(int(await results.get()))

    async def main():
        graph, queue, x, put, take, _, _ = numbers_queue()
        found = []
        async with tg.Session(graph) as session:
            task = asyncio.create_task(reader(session, queue, found))
            await session.run(put, {x: 1})
            await until(lambda: len(found) == 2)
            task.cancel()
            await asyncio.wait([task])
            del task
            assert await asyncio.wait_for(found[0], 30) == 1
            await session.run(put, {x: 2})
            assert await session.run(take) == 2

    asyncio.run(main())


def test_a_queue_in_a_cycle_ends_its_bridge_when_it_is_collected():
    async def main():
        graph, queue, *_ = numbers_queue()
        async with tg.Session(graph) as session:
            results = asyncio.Queue()
            results.itself = results
            bridge = queue.bridge(session, results, "out")
            await turns(5)
            del results
            collector = threading.Thread(target=gc.collect)  # the collector may run in any thread
            collector.start()
            await asyncio.to_thread(collector.join)
            assert await asyncio.wait_for(bridge, 30) == 0

    asyncio.run(main())


def test_a_queue_that_nobody_ever_had_ends_its_bridges():
    async def main():
        graph, queue, *_ = numbers_queue()
        async with tg.Session(graph) as session:
            for direction in ("in", "out"):
                assert await asyncio.wait_for(queue.bridge(session, asyncio.Queue(), direction), 30) == 0

    asyncio.run(main())


@pytest.mark.parametrize("count", [0, 1, 5])
@pytest.mark.parametrize("capacity", [1, 8])
def test_what_a_source_holds_still_goes_in_when_nobody_refers_to_it(count, capacity):
    async def main():
        graph, queue, _, _, take, _, _ = numbers_queue(capacity)
        async with tg.Session(graph) as session:
            source = asyncio.Queue()
            bridge = queue.bridge(session, source, "in")
            await turns(5)  # it waits for items
            for i in range(count):
                source.put_nowait(i)
            del source
            assert [int(await session.run(take)) for _ in range(count)] == list(range(count))
            assert await asyncio.wait_for(bridge, 30) == count

    asyncio.run(main())


def test_tasks_that_nobody_refers_to_stay_as_long_as_they_wait_in_the_queue():
    """The event loop refers to tasks weakly: what waits in the queue must not be collected with it."""
    found = []

    async def read(session, queue):
        results = asyncio.Queue(1)
        queue.bridge(session, results, "out")
        while True:
            found.append(int(await results.get()))

    async def main():
        graph, queue, x, put, *_ = numbers_queue()
        async with tg.Session(graph) as session:
            asyncio.create_task(read(session, queue))  # noqa: RUF006  nobody refers to it
            for i in range(3):
                await turns(5)
                gc.collect()
                await session.run(put, {x: i})
                await until(lambda: len(found) == i + 1)  # noqa: B023

    asyncio.run(main())
    assert found == [0, 1, 2]


def test_a_producer_that_joins_stays():
    joined = []

    async def produce(session, queue):
        source = asyncio.Queue()
        queue.bridge(session, source, "in")
        source.put_nowait(1)
        source.put_nowait(2)
        await source.join()
        joined.append(True)

    async def main():
        graph, queue, _, _, take, _, _ = numbers_queue(1)
        async with tg.Session(graph) as session:
            asyncio.create_task(produce(session, queue))  # noqa: RUF006  nobody refers to it
            await turns(10)
            gc.collect()
            assert [int(await session.run(take)) for _ in range(2)] == [1, 2]
            await until(lambda: joined)

    asyncio.run(main())


def test_a_queue_with_waits_of_its_own_is_waited_for_by_those():
    class Loud(asyncio.Queue):
        gets, puts = 0, 0

        async def get(self):
            self.gets += 1
            return await super().get()

        async def put(self, item):
            self.puts += 1
            await super().put(item)

    async def main():
        graph, queue, *_ = numbers_queue()
        source, target = Loud(), Loud()
        async with tg.Session(graph) as session:
            async with queue.bridge(session, source), queue.bridge(session, target, "out"):
                source.put_nowait(5)
                assert int(await target.get()) == 5
            assert source.gets == 2
            assert target.puts == 1

    asyncio.run(main())


def test_two_bridges_of_one_queue_share_its_elements():
    """One that is stopped when its turn has come lets the other have it."""

    async def main():
        graph, queue, _, _, take, size, _ = numbers_queue()
        async with tg.Session(graph) as session:
            source = asyncio.Queue()
            first, second = queue.bridge(session, source), queue.bridge(session, source)
            await turns(5)
            source.put_nowait(1)
            closing = asyncio.create_task(first.aclose())
            assert await session.run(take) == 1
            await closing
            source.put_nowait(2)
            assert await session.run(take) == 2
            assert await session.run(size) == 0
            del source
            assert await asyncio.wait_for(second, 30) + first.moved == 2

    asyncio.run(main())


def test_a_bridge_keeps_no_queue():
    async def main():
        graph, queue, *_ = numbers_queue()
        async with tg.Session(graph) as session:
            outside = asyncio.Queue()
            bridges = [queue.bridge(session, outside, each) for each in ("in", "out")]
            await turns(5)
            kept = weakref.ref(outside)
            del outside
            assert kept() is None
            for bridge in bridges:
                assert await bridge == 0

    asyncio.run(main())


def test_a_queue_of_another_event_loop_is_refused():
    async def wait(queue):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(queue.get(), 0.001)

    async def main(outside):
        graph, queue, *_ = numbers_queue()
        async with tg.Session(graph) as session:
            with pytest.raises(RuntimeError, match="different event loop"):
                await queue.bridge(session, outside)

    outside = asyncio.Queue()
    asyncio.run(wait(outside))
    asyncio.run(main(outside))
