"""Loops that put and take: instances that stand behind one another, and batches that kernels in C move."""

import asyncio
import copy
import random
from collections import deque

import numpy as np
import pytest
import tagloom as tg
from tagloom.kernels.scheduler.state import live_counts
from tagloom.ops.queues.storage import QueueStorage


async def rest():
    for _ in range(20):
        await asyncio.sleep(0)


def storages_of(session):
    return [each for each in session.resources if isinstance(each, QueueStorage)]


def taking_loop(times):
    """Return a graph with a loop that takes numbers and keeps them in order, and what puts one in."""
    with tg.Graph().as_default() as graph:
        queue = tg.FIFOQueue(4, "int32", shapes=[[]])
        x = tg.placeholder("int32", [])

        def body(i, found):
            return i + 1, found.write(i, queue.dequeue())

        array = tg.TensorArray("int32", times, element_shape=[])
        _, found = tg.while_loop(lambda i, _: i < times, body, (0, array))
        return graph, x, queue.enqueue(x), found.stack(), queue.dequeue()


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_iterations_take_in_order_and_one_of_them_stands_in_line(seed):
    async def main():
        graph, x, put, found, _ = taking_loop(40)
        async with tg.Session(graph, settings=tg.Settings(shuffle_seed=seed)) as session:
            taken = asyncio.create_task(session.run(found))
            await rest()
            (queue,) = storages_of(session)
            lines = [len(queue.takers)]
            for i in range(40):
                await session.run(put, {x: i})
                if i == 20:
                    await rest()
                    lines.append(len(queue.takers))
            return lines, sorted(await taken) if seed else list(await taken)

    assert asyncio.run(main()) == ([1, 1], list(range(40)))


def test_what_another_step_takes_comes_between():
    async def main():
        graph, x, put, found, take = taking_loop(3)
        async with tg.Session(graph) as session:
            taken = asyncio.create_task(session.run(found))
            await rest()
            other = asyncio.create_task(session.run(take))
            await rest()
            for i in range(4):
                await session.run(put, {x: i})
                await rest()
            return list(await taken), int(await other)

    assert asyncio.run(main()) == ([0, 2, 3], 1)


def test_iterations_that_take_from_different_queues_do_not_wait_for_one_another():
    async def main():
        with tg.Graph().as_default() as graph:
            queues = [tg.FIFOQueue(4, "int32", shapes=[[]], shared_name=name) for name in "ab"]
            x = tg.placeholder("int32", [])
            puts = [queue.enqueue(x) for queue in queues]

            def body(i, last):
                either = copy.copy(queues[0])
                either.handle = tg.cond(tg.equal(i % 2, 0), lambda: queues[0].handle, lambda: queues[1].handle)
                return i + 1, either.dequeue()

            done = tg.while_loop(lambda i, _: i < 4, body, (0, 0))
        async with tg.Session(graph) as session:
            step = asyncio.create_task(session.run(done))
            await rest()
            for put in (puts[1], puts[1]):
                await session.run(put, {x: 1})
                await rest()
            left = [len(queue) for queue in storages_of(session)]
            for put in (puts[0], puts[0]):
                await session.run(put, {x: 1})
            return left, [int(value) for value in await step]

    assert asyncio.run(main()) == ([0, 0], [4, 1])


def test_a_step_that_is_cancelled_leaves_nothing_of_those_who_stood_behind():
    async def main():
        graph, x, put, found, _ = taking_loop(40)
        async with tg.Session(graph) as session:
            before = live_counts()
            step = asyncio.create_task(session.run(found))
            await rest()
            assert live_counts()["iterations"] > before["iterations"] + 30
            step.cancel()
            await asyncio.wait([step])
            (queue,) = storages_of(session)
            await session.run(put, {x: 5})
            after = {name: live_counts()[name] for name in ("frames", "iterations", "values")}
            return after == {name: before[name] for name in after}, len(queue), len(queue.takers)

    assert asyncio.run(main()) == (True, 1, 0)


def test_a_timeout_names_those_who_stand_behind():
    async def main():
        graph, _, _, found, _ = taking_loop(5)
        async with tg.Session(graph) as session:
            with pytest.raises(tg.StepTimeout) as caught:
                await session.run(found, timeout=0.05)
        return "\n".join([str(caught.value), *caught.value.__notes__])

    text = asyncio.run(main())
    assert all(f"/{i}" in text for i in range(5)), text


def test_a_trace_shows_every_wait():
    async def main():
        graph, x, put, found, _ = taking_loop(5)
        async with tg.Session(graph) as session:
            trace = tg.Trace()
            step = asyncio.create_task(session.run(found, trace=trace))
            await rest()
            (queue,) = storages_of(session)
            standing = len(queue.takers)
            for i in range(5):
                await session.run(put, {x: i})
            return standing, list(await step)

    assert asyncio.run(main()) == (5, [0, 1, 2, 3, 4])


@pytest.mark.parametrize("capacity", [7, -1])
def test_batches_lose_nothing_where_places_begin_anew(capacity):
    """Kernels in C and those in Python by turns, against a deque."""

    async def main():
        rng = random.Random(capacity)
        with tg.Graph().as_default() as graph:
            queue = tg.FIFOQueue(capacity, ["int32", "float64"], shapes=[[], [2, 3]])
            a, b = tg.placeholder("int32", [None]), tg.placeholder("float64", [None, 2, 3])
            count = tg.placeholder("int32", [])
            put_many, take_many = queue.enqueue_many([a, b]), queue.dequeue_many(count)
            put, take = queue.enqueue([a[0], b[0]]), queue.dequeue()
        model, number = deque(), 0
        async with tg.Session(graph) as session:
            for _ in range(300):
                room = 7 - len(model)
                size = rng.randint(0, min(4, room) if rng.random() < 0.5 else min(4, len(model)))
                rows = np.arange(number, number + max(size, 1), dtype=np.int32)
                feeds = {a: rows, b: np.multiply.outer(rows, np.ones((2, 3)))}
                if rng.random() < 0.5 and size <= room and room:
                    one = rng.random() < 0.5
                    size = 1 if one else size
                    if not one:
                        feeds = {a: rows[:size], b: feeds[b][:size]}
                    await session.run(put if one else put_many, feeds)
                    model.extend(range(number, number + size))
                    number += size
                elif size <= len(model) and model:
                    one = rng.random() < 0.5
                    got, array = await session.run(take if one else take_many, {} if one else {count: size})
                    got, array = (np.array([got]), array[None]) if one else (got, array)
                    assert list(got) == [model.popleft() for _ in range(1 if one else size)]
                    np.testing.assert_array_equal(array, np.multiply.outer(got, np.ones((2, 3))))
            assert len(storages_of(session)[0]) == len(model)
        return number

    assert asyncio.run(main()) > 100
