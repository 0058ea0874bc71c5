"""Queues of a session with little memory: who is refused some loses, doubles and moves nothing of others."""

import asyncio

import pytest
import tagflow as tg

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
