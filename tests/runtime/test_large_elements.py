"""Large elements and long batches: copied in threads, by reference where nobody else may write, in pieces."""

import asyncio

import numpy as np
import pytest
import tagloom as tg
from tagloom.base import nest
from tagloom.ops.queues import storage as storage_module

SIZE = 1 << 19  # floats: 2 MiB
EXECUTORS = pytest.mark.parametrize("executor", ["machine", "reference"])


async def rest():
    for _ in range(30):
        await asyncio.sleep(0)


def queue_in(session):
    (queue,) = [each for each in session.resources if hasattr(each, "order")]
    return queue


@EXECUTORS
def test_what_is_fed_is_copied_before_it_comes_to_the_queue(executor):
    async def main():
        with tg.Graph().as_default() as graph:
            queue, x = tg.FIFOQueue(2, "float32", shapes=[[SIZE]]), tg.placeholder("float32", [SIZE])
            put, take = queue.enqueue(x), queue.dequeue()
        array = np.ones(SIZE, np.float32)
        async with tg.Session(graph, executor=executor) as session:
            await session.run(put, {x: array})
            array[:] = 2
            found = await session.run(take)
            assert (found == 1).all()
            found[:] = 3  # the caller's own

    asyncio.run(main())


def test_what_a_kernel_made_is_not_copied_and_not_written_to():
    async def main():
        with tg.Graph().as_default() as graph:
            queue, x = tg.FIFOQueue(2, "float32"), tg.placeholder("float32", [SIZE])
            made = tg.exp(x)
            put, after = queue.enqueue(made), tg.exp(made)
            take = queue.dequeue()
            with tg.control_dependencies([put]):
                changed = tg.identity(made) + 1.0
        async with tg.Session(graph) as session:
            feed = {x: np.zeros(SIZE, np.float32)}
            await session.run([put, after, changed], feed)
            _, (element,) = queue_in(session).order.held[0]
            assert element.base is None
            assert element.flags.writeable  # as the kernel made it: a copy is read-only
            saved = await session.snapshot()
            fetched = await session.run(take)
            assert (fetched == 1).all()
            fetched[:] = 9
            leaves = nest.flatten(saved["queues"][queue.shared_name])
            (kept,) = [leaf for leaf in leaves if isinstance(leaf, np.ndarray) and leaf.size >= SIZE]
            assert (kept == 1).all()

    asyncio.run(main())


def test_a_variable_that_is_put_keeps_its_value_in_the_queue():
    async def main():
        with tg.Graph().as_default() as graph:
            v = tg.Variable(np.zeros(SIZE, np.float32), name="v")
            queue = tg.FIFOQueue(2, "float32")
            put, add, take = queue.enqueue(v), v.assign_add(np.ones(SIZE, np.float32)), queue.dequeue()
            init = tg.global_variables_initializer()
        async with tg.Session(graph) as session:
            for each in (init, put, add.op, put):
                await session.run(each)
            assert [float((await session.run(take))[0]) for _ in range(2)] == [0, 1]

    asyncio.run(main())


@EXECUTORS
@pytest.mark.parametrize("kind", ["ring", "bytes", "shuffled", "padding", "priority"])
@pytest.mark.parametrize("capacity", [-1, 3000])
def test_long_batches_move_in_pieces(executor, kind, capacity, monkeypatch):
    monkeypatch.setattr(storage_module, "PIECE", 4096)
    count = 10_000

    async def main():
        with tg.Graph().as_default() as graph:
            bounds = {"capacity_bytes": 4 * capacity if capacity > 0 else -1}
            queue = {
                "ring": lambda: tg.FIFOQueue(capacity, "int32", shapes=[[]]),
                "bytes": lambda: tg.FIFOQueue(-1, "int32", shapes=[[]], **bounds),
                "shuffled": lambda: tg.RandomShuffleQueue(capacity, 0, "int32", shapes=[[]]),
                "padding": lambda: tg.PaddingFIFOQueue(capacity, "int32", shapes=[[]]),
                "priority": lambda: tg.PriorityQueue(capacity, "int32", shapes=[[]]),
            }[kind]()
            x = tg.constant(np.arange(count, dtype=np.int32))
            put = queue.enqueue_many([tg.constant(np.zeros(count, np.int64)), x] if kind == "priority" else x)
            got = queue.dequeue_many(count)
            take = got[-1] if kind == "priority" else got
        async with tg.Session(graph, executor=executor) as session:
            putting, taking = (asyncio.ensure_future(session.run(each)) for each in (put, take))
            turns = 0
            while not (putting.done() and taking.done()):
                await asyncio.sleep(0)
                turns += 1
            await putting
            found = await taking
            assert sorted(found.tolist()) == list(range(count))
            assert kind == "shuffled" or found.tolist() == list(range(count))
            assert turns > 4
            lost = asyncio.ensure_future(session.run(take))
            again = asyncio.ensure_future(session.run(put))
            for _ in range(3):
                await asyncio.sleep(0)
            lost.cancel()
            await asyncio.wait([lost])
            assert sorted((await session.run(take)).tolist()) == list(range(count))
            await again

    asyncio.run(main())


@EXECUTORS
def test_large_gradients_are_added_one_after_another_and_taken_whole(executor):
    async def main():
        with tg.Graph().as_default() as graph:
            sums = tg.ConditionalAccumulator("float32", [SIZE], reduction_type="SUM")
            rows = tg.SparseConditionalAccumulator("float32", [None, SIZE])
            x = tg.placeholder("float32", [SIZE])
            apply, take = sums.apply_grad(x, 1 << 40), sums.take_grad(3)
            apply_rows, take_rows = rows.apply_grad([1, 0, 1], tg.stack([x, x, x])), rows.take_grad(3)
            counts = [sums.num_accumulated(), rows.num_accumulated()]
        async with tg.Session(graph, executor=executor) as session:
            feeds = [{x: np.full(SIZE, value, np.float32)} for value in (1, 2, 3)]
            waiting = [asyncio.ensure_future(session.run(each)) for each in (take, take_rows)]
            await rest()
            adding = [session.run([apply, apply_rows], feed) for feed in feeds]
            await asyncio.gather(*adding)
            total, (indices, values, _) = await asyncio.gather(*waiting)
            assert (total == 6).all()
            assert indices.tolist() == [0, 1]
            assert values[:, 0].tolist() == [2, 4]
            for turns in range(6):  # a gradient is added, and counted, or neither
                lost = asyncio.ensure_future(session.run(apply, {x: np.ones(SIZE, np.float32)}))
                for _ in range(turns):
                    await asyncio.sleep(0)
                lost.cancel()
                await asyncio.wait([lost])
            await session.run(apply, {x: np.ones(SIZE, np.float32)})
            await session.snapshot()
            count = int((await session.run(counts))[0])
            assert 1 <= count <= 7
            with graph.as_default():
                rest_of_it = sums.take_grad(1)
            assert (await session.run(rest_of_it) == count).all()

    asyncio.run(main())
