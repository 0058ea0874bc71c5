"""What a step takes and only fetches goes back to where it was, in order, if its caller does not get it."""

import asyncio
import random

import numpy as np
import pytest
import tagloom as tg

EXECUTORS = pytest.mark.parametrize("executor", ["machine", "reference"])
KINDS = {
    "ring": lambda: tg.FIFOQueue(20, "int32", shapes=[[]]),
    "bytes": lambda: tg.FIFOQueue(20, "int32", shapes=[[]], capacity_bytes=1000),
    "padding": lambda: tg.PaddingFIFOQueue(20, "int32", shapes=[[]]),
    "priority": lambda: tg.PriorityQueue(20, "int32", shapes=[[]]),
}
ALL_KINDS = pytest.mark.parametrize("kind", KINDS)


async def rest():
    for _ in range(30):
        await asyncio.sleep(0)


def program(kind):
    """Return a queue of the numbers 0 to 9, and a step that takes from it what another queue never has."""
    with tg.Graph().as_default() as graph:
        queue = KINDS[kind]()
        numbers = tg.constant(np.arange(10, dtype=np.int32))
        fill = queue.enqueue_many([np.zeros(10, np.int64), numbers] if kind == "priority" else numbers)
        last = (lambda x: x[-1]) if kind == "priority" else (lambda x: x)
        one, some = last(queue.dequeue()), last(queue.dequeue_many(3))
        return graph, queue, fill, one, some, tg.FIFOQueue(1, "int32", shapes=[[]])


async def left(session, queue, one):
    return [int(await session.run(one)) for _ in range(int(await session.run(queue.size())))]


@pytest.mark.sampled(every=3)
@ALL_KINDS
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.rule(128)
def test_what_several_steps_give_back_is_in_order_whoever_is_cancelled_first(kind, seed):
    draw = random.Random(seed)

    async def main():
        with tg.Graph().as_default() as graph:
            queue = KINDS[kind]()
            numbers, count = tg.placeholder("int32", [None]), tg.placeholder("int32", [])
            put = queue.enqueue_many([tg.cast(numbers, "int64"), numbers] if kind == "priority" else numbers)
            last = (lambda x: x[-1]) if kind == "priority" else (lambda x: x)
            one, some = last(queue.dequeue()), last(queue.dequeue_many(count))
            never, size = tg.FIFOQueue(1, "int32", shapes=[[]]).dequeue(), queue.size()
        async with tg.Session(graph) as session:
            there, steps = 0, []
            for _ in range(draw.randint(5, 30)):
                what = draw.random()
                more = draw.randint(1, 4)
                if what < 0.35 and there + more <= 20:
                    await session.run(put, {numbers: np.arange(there, there + more)})
                    there += more
                elif what < 0.6:
                    steps.append(asyncio.ensure_future(session.run([one, never])))
                elif what < 0.8:
                    steps.append(asyncio.ensure_future(session.run([some, never], {count: draw.randint(1, 5)})))
                elif steps:
                    draw.choice(steps).cancel()
                for _ in range(draw.randint(0, 5)):
                    await asyncio.sleep(0)
            for step in draw.sample(steps, len(steps)):
                step.cancel()
                await asyncio.sleep(0)
            await asyncio.gather(*steps, return_exceptions=True)
            assert await session.run(size) == there
            assert [int(await session.run(one)) for _ in range(there)] == list(range(there))

    asyncio.run(main())


@EXECUTORS
@ALL_KINDS
@pytest.mark.rule(129)
def test_a_cancelled_step_gives_back_in_order(executor, kind):
    async def main():
        graph, queue, fill, one, some, other = program(kind)
        with graph.as_default():
            never = other.dequeue()
            sizes = queue.size()
        async with tg.Session(graph, executor=executor) as session:
            await session.run(fill)
            lost = asyncio.ensure_future(session.run([some, one, never]))
            await rest()
            assert await session.run(sizes) == 6
            lost.cancel()
            await asyncio.wait([lost])
            assert lost.cancelled()
            with pytest.raises(tg.StepTimeout):
                await session.run([one, never], timeout=0.01)
            with graph.as_default():
                assert await left(session, queue, one) == list(range(10))
            assert session.resources.taken == {}

    asyncio.run(main())


@EXECUTORS
@pytest.mark.rule(129)
def test_a_wait_that_is_cancelled_when_it_has_its_element_gives_it_back(executor):
    async def main():
        with tg.Graph().as_default() as graph:
            queue, x = tg.FIFOQueue(9, "int32", shapes=[[]]), tg.placeholder("int32", [])
            put, one, size = queue.enqueue(x), queue.dequeue(), queue.size()
        async with tg.Session(graph, executor=executor) as session:
            for turns in range(12):  # the cancellation comes at each moment between the put and the caller's turn
                waiting = asyncio.ensure_future(session.run(one))
                await rest()
                await session.run(put, {x: turns})
                for _ in range(turns):
                    await asyncio.sleep(0)
                waiting.cancel()
                await asyncio.wait([waiting])
                found = await session.run(one) if waiting.cancelled() else waiting.result()
                assert found == turns
                assert await session.run(size) == 0

    asyncio.run(main())


@EXECUTORS
def test_a_failed_sibling_gives_back_too(executor):
    async def main():
        graph, queue, fill, one, some, other = program("ring")
        with graph.as_default():
            closed, failing, size = other.close(), other.dequeue(), queue.size()
        async with tg.Session(graph, executor=executor) as session:
            for each in (fill, closed):
                await session.run(each)
            with pytest.raises(tg.QueueClosed):
                await session.run([some, one, failing])
            assert await session.run(size) == 10

    asyncio.run(main())


@EXECUTORS
def test_what_is_read_or_waited_for_is_gone(executor):
    async def main():
        graph, queue, fill, _, _, other = program("ring")
        with graph.as_default():
            read = queue.dequeue() + 1
            waited = queue.dequeue()
            with tg.control_dependencies([waited]):
                after = tg.constant(1) + 0
            never, size = other.dequeue(), queue.size()
        async with tg.Session(graph, executor=executor) as session:
            await session.run(fill)
            for fetches in ([read, never], [waited, after, never]):
                with pytest.raises(tg.StepTimeout):
                    await session.run(fetches, timeout=0.01)
            assert await session.run(size) == 8

    asyncio.run(main())


@EXECUTORS
def test_a_session_that_is_closed_forgets(executor):
    async def main():
        graph, _, fill, one, _, other = program("ring")
        with graph.as_default():
            never = other.dequeue()
        async with tg.Session(graph, executor=executor) as session:
            await session.run(fill)
            lost = asyncio.ensure_future(session.run([one, never]))
            await rest()
        with pytest.raises(tg.SessionClosed):
            await lost
        assert session.resources.taken == {}

    asyncio.run(main())


@pytest.mark.parametrize("many", [False, True])
def test_large_elements_go_back_while_they_are_put_together(many):
    async def main():
        with tg.Graph().as_default() as graph:
            queue = tg.FIFOQueue(9, "float32", shapes=[[1 << 19]])
            x = tg.placeholder("float32", [None, 1 << 19])
            fill, size = queue.enqueue_many(x), queue.size()
            got = queue.dequeue_many(3) if many else queue.dequeue()
            read = tg.reduce_sum(got[:, 0] if many else got[:1])
        value = np.arange(3, dtype="f").repeat(1 << 19).reshape(3, 1 << 19)
        cancelled = 0
        for turns in range(8):
            async with tg.Session(graph) as session:
                await session.run(fill, {x: value})
                lost = asyncio.ensure_future(session.run(got))
                for _ in range(turns):
                    await asyncio.sleep(0)
                lost.cancel()
                await asyncio.wait([lost])
                if lost.cancelled():  # on a slow machine the last ones may have ended
                    cancelled += 1
                    assert await session.run(size) == 3
                    assert await session.run(read) == (3 if many else 0)
                assert not any(session.resources.taken.values())
        assert cancelled > 0

    asyncio.run(main())


@pytest.mark.rule(129)
@pytest.mark.parametrize("kind", ["put", "take", "sum", "key"])
def test_a_step_that_is_cancelled_as_it_is_woken_moves_nothing(kind):
    async def main():
        with tg.Graph().as_default() as graph:
            queue, sums = tg.FIFOQueue(1, "int32", shapes=[[]]), tg.ConditionalAccumulator("int32", shape=[])
            by_key = tg.compat.tf1.MapStagingArea("int32", shapes=[[]])
            put, size = queue.enqueue(7), queue.size()
            programs = {
                "put": ([put], put, queue.dequeue(), size, 0),
                "take": ([], queue.dequeue() * 2, put, size, 1),
                "sum": ([], sums.take_grad(1) * 2, sums.apply_grad(7), sums.num_accumulated(), 1),
                "key": ([], by_key.get(3)[1] * 2, by_key.put(3, [7]), by_key.size(), 1),
            }
        before, waits, wakes, count, wanted = programs[kind]
        async with tg.Session(graph) as session:
            await session.run(before)
            lost = asyncio.ensure_future(session.run(waits))
            await rest()
            await session.run(wakes)  # mostly in one turn, so that what waits is woken and has not gone on yet
            lost.cancel()
            await asyncio.wait([lost])
            assert await session.run(count) == (wanted if lost.cancelled() else 1 - wanted)

    asyncio.run(main())


@pytest.mark.rule(129)
def test_who_catches_a_cancellation_may_run_another_step_that_waits():
    async def main():
        with tg.Graph().as_default() as graph:
            queue = tg.FIFOQueue(1, "int32", shapes=[[]])
            put, doubled = queue.enqueue(7), queue.dequeue() * 2

        async def stubborn(session):
            try:
                await session.run(doubled)
            except asyncio.CancelledError:
                return await session.run(doubled)

        async with tg.Session(graph) as session:
            waiting = asyncio.ensure_future(stubborn(session))
            await rest()
            waiting.cancel()
            await rest()
            await session.run(put)
            assert await waiting == 14

    asyncio.run(main())


@pytest.mark.rule(129)
def test_what_was_drawn_goes_back_when_few_are_left():
    async def main():
        with tg.Graph().as_default() as graph:
            queue = tg.RandomShuffleQueue(10, 0, "int32", shapes=[[]], seed=3)
            fill, one, size = queue.enqueue_many(list(range(5))), queue.dequeue(), queue.size()
            never = tg.FIFOQueue(1, "int32", shapes=[[]]).dequeue()
        async with tg.Session(graph) as session:
            await session.run(fill)
            lost = [asyncio.ensure_future(session.run([one, never])) for _ in range(2)]
            await rest()
            got = [int(await session.run(one)) for _ in range(3)]
            for each in lost:
                each.cancel()
            await asyncio.wait(lost)
            assert all(each.cancelled() for each in lost)
            got += [int(await session.run(one)) for _ in range(int(await session.run(size)))]
            assert sorted(got) == list(range(5))

    asyncio.run(main())
