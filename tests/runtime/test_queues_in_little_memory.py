"""Queues of a session with little memory: who is refused some loses, doubles and moves nothing of others."""

import asyncio

import numpy as np
import pytest
import tagloom as tg
from tagloom.ops.queues.storage import QueueStorage

N = 1024  # floats of an element


async def rest():
    for _ in range(30):
        await asyncio.sleep(0)


class Holder:
    """A step that holds much memory from when it is begun to when it is ended."""

    def __init__(self, size):
        gate = tg.FIFOQueue(1, "int32", shapes=[[]])
        self.x, self.open = tg.placeholder("float32", []), gate.enqueue(1)
        big = tg.fill([size], self.x)
        with tg.control_dependencies([big]):
            opened = gate.dequeue()
        with tg.control_dependencies([opened]):
            self.result = tg.reduce_sum(big + tg.cast(opened, "float32"))

    async def begin(self, session):
        self.step = asyncio.ensure_future(session.run(self.result, {self.x: 1.0}))
        await rest()

    async def end(self, session):
        await session.run(self.open)
        await self.step


@pytest.mark.parametrize("limit", [42_000, 46_000, 50_000, 54_000])
def test_what_is_gathered_for_one_is_not_refused_to_another(limit):
    async def main():
        with tg.Graph().as_default() as graph:
            queue, x = tg.FIFOQueue(4, "float32", shapes=[[N]]), tg.placeholder("float32", [])
            put, many, holder = queue.enqueue(tg.fill([N], x)), queue.dequeue_many(8), Holder(5000)
        async with tg.Session(graph, memory_limit=limit) as session:
            for k in range(4):
                await session.run(put, {x: k})
            await holder.begin(session)
            taking = asyncio.ensure_future(session.run(many, timeout=5))
            await rest()
            await holder.end(session)
            for k in range(4, 8):
                await session.run(put, {x: k}, timeout=5)
            assert (await asyncio.wait_for(taking, 5))[:, 0].tolist() == list(range(8))

    asyncio.run(main())


@pytest.mark.parametrize("batches", [1, 2])
def test_a_long_batch_that_is_refused_memory_goes_back(batches, monkeypatch):
    put_back = QueueStorage.put_back

    async def main():
        given_back = asyncio.Event()
        monkeypatch.setattr(QueueStorage, "put_back", lambda *taken: (put_back(*taken), given_back.set()))
        with tg.Graph().as_default() as graph:
            queue, x = tg.PaddingFIFOQueue(-1, "float32", shapes=[[None]]), tg.placeholder("float32", [])
            put, many = queue.enqueue_many(tg.fill([100, N], x)), queue.dequeue_many(400)
            size, largest, holder = queue.size(), tg.reduce_max(many), Holder(500_000)
        async with tg.Session(graph, memory_limit=batches * 1_700_000 + 3_000_000) as session:
            for k in range(4 * batches):
                await session.run(put, {x: k // 4})
            await holder.begin(session)
            taking = asyncio.ensure_future(session.run(largest, timeout=5))
            await asyncio.wait_for(given_back.wait(), 5)
            assert not taking.done()
            assert await session.run(size) == 400 * batches
            await holder.end(session)
            assert await taking == 0
            assert await session.run(size) == 400 * (batches - 1)

    asyncio.run(main())


@pytest.mark.parametrize(("dtype", "sparse"), [("float32", False), ("int32", False), ("float32", True)])
def test_a_mean_needs_no_memory_of_its_own(dtype, sparse):
    async def main():
        with tg.Graph().as_default() as graph:
            x = tg.placeholder(dtype, [N])
            if sparse:
                sums = tg.SparseConditionalAccumulator(dtype)
                put, take = sums.apply_grad([3], tg.reshape(x, [1, N]), local_step=0), sums.take_grad(2)[1]
            else:
                sums = tg.ConditionalAccumulator(dtype, shape=[N])
                put, take = sums.apply_grad(x, local_step=0), sums.take_grad(2)
            holder = Holder(18_000)
        async with tg.Session(graph, memory_limit=78_000) as session:
            for k in (1, 4):
                await session.run(put, {x: np.full(N, k, dtype)})
            await holder.begin(session)
            taking = asyncio.ensure_future(session.run(take, timeout=5))
            await rest()
            await holder.end(session)
            assert np.ravel(await taking).tolist() == [2.5 if dtype == "float32" else 2] * N

    asyncio.run(main())


def test_a_source_that_was_restored_is_opened_once():
    class Numbers:
        def __init__(self):
            self.next = 0

        def __aiter__(self):
            return self

        async def __anext__(self):
            self.next += 1
            await asyncio.sleep(0)
            return np.full(N, self.next, np.float32)

    async def main():
        with tg.Graph().as_default() as graph:
            queue = tg.from_async(Numbers(), "float32", shapes=[[N]], capacity=8, shared_name="q")
            one, holder = queue.dequeue()[0], Holder(5000)
        async with tg.Session(graph) as session:
            await session.run(one)
            await rest()
            saved = await session.snapshot()
        async with tg.Session(graph, memory_limit=46_000) as session:
            await session.restore({"queues": {"q": saved["queues"]["q"]}})
            await holder.begin(session)
            taking = asyncio.ensure_future(session.run(one, timeout=5))
            await rest()
            await holder.end(session)
            assert await taking == 2
            assert len([each for each in asyncio.all_tasks() if "source" in each.get_name()]) == 1

    asyncio.run(main())
