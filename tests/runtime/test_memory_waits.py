"""Steps that wait for memory and for each other: parts of partial runs, slow functions, queues (rule 49)."""

import asyncio
import logging

import numpy as np
import pytest
import tagloom as tg
from tagloom.runtime.memory import arbiter

from tests.support.waiting import turns, until

N = 50_000
SIZE = 4 * N
PLAIN = tg.Settings(fuse=False, straight=False)


def ones(count=N):
    return np.ones(count, np.float32)


def in_parts():
    """Return feeds x and y, and fetches of x, and of both: x is held until y is there."""
    x, y = tg.placeholder("float32", [None]), tg.placeholder("float32", [None])
    first = tg.reduce_sum(x)
    return x, y, first, first + tg.reduce_sum(y) + tg.gather(x, tg.cast(y[0], "int32"))


def live(session):
    return session.statistics().live_bytes


@pytest.fixture
def soon_stalled(monkeypatch):
    monkeypatch.setattr(arbiter, "_STALLED_SECONDS", 0.05)
    monkeypatch.setattr(arbiter, "_LATE_SECONDS", 0.1)


# ---- parts of partial runs


async def test_first_parts_wait_for_room_as_feeds_of_steps_do():
    with tg.Graph().as_default() as graph:
        x, y, first, total = in_parts()
    async with tg.Session(graph, memory_limit=3 * SIZE + SIZE // 2, settings=PLAIN) as session:

        async def one():
            async with await session.partial_run_setup([first, total], feeds=[x, y]) as handle:
                assert float(await session.partial_run(handle, first, {x: ones(3 * N)})) == 3 * N
                return float(await session.partial_run(handle, total, {y: ones(10)}))

        assert await asyncio.gather(*(one() for _ in range(12))) == [3 * N + 11] * 12
        assert live(session) == 0


async def test_further_parts_go_before_steps_in_line():
    with tg.Graph().as_default() as graph:
        x, y, first, total = in_parts()
        z = tg.reduce_sum(x)
    async with tg.Session(graph, memory_limit=3 * SIZE + SIZE // 2, settings=PLAIN) as session:
        handle = await session.partial_run_setup([first, total], feeds=[x, y])
        await session.partial_run(handle, first, {x: ones(2 * N)})
        waiting = [asyncio.ensure_future(session.run(z, {x: ones(2 * N)})) for _ in range(3)]
        await turns(20)
        assert not any(each.done() for each in waiting)
        assert float(await session.partial_run(handle, total, {y: ones()})) == 3 * N + 1
        assert await asyncio.gather(*waiting) == [2 * N] * 3
        assert live(session) == 0


async def test_a_part_waits_for_steps_under_way():
    release = asyncio.Event()

    async def wait(value):
        await release.wait()
        return value

    with tg.Graph().as_default() as graph:
        x, y, first, total = in_parts()
        z = tg.py_function(wait, [tg.reduce_sum(x)], "float32", output_shapes=[]) + x[0]
    async with tg.Session(graph, memory_limit=3 * SIZE + SIZE // 2, settings=PLAIN) as session:
        handle = await session.partial_run_setup([first, total], feeds=[x, y])
        await session.partial_run(handle, first, {x: ones()})
        step = asyncio.ensure_future(session.run(z, {x: ones(2 * N)}))
        await until(lambda: live(session) >= 3 * SIZE)
        part = asyncio.ensure_future(session.partial_run(handle, total, {y: ones()}))
        await turns(20)
        assert not part.done()
        with pytest.raises(tg.GraphError, match="already been fed"):
            await session.partial_run(handle, [], {y: ones(1)})
        release.set()
        assert float(await part) == 2 * N + 1
        assert float(await step) == 2 * N + 1


@pytest.mark.parametrize("how", ["cancel", "timeout", "close", "session"])
async def test_a_part_that_leaves_the_line_leaves_nothing(how):
    with tg.Graph().as_default() as graph:
        x, y, first, total = in_parts()
    async with tg.Session(graph, memory_limit=3 * SIZE + SIZE // 2, settings=PLAIN) as session:
        other = await session.partial_run_setup([first, total], feeds=[x, y])
        await session.partial_run(other, first, {x: ones(2 * N)})
        handle = await session.partial_run_setup([first, total], feeds=[x, y])
        await session.partial_run(handle, first, {x: ones()})
        timeout = 0.01 if how == "timeout" else None
        part = asyncio.ensure_future(session.partial_run(handle, total, {y: ones()}, timeout=timeout))
        await turns(20)
        if how == "cancel":
            part.cancel()
            with pytest.raises(asyncio.CancelledError):
                await part
            await other.aclose()
            assert float(await session.partial_run(handle, total, {y: ones()})) == 2 * N + 1
            return
        if how == "timeout":
            with pytest.raises(tg.StepTimeout):
                await part
            assert handle.done
        if how == "close":
            await handle.aclose()
            with pytest.raises(tg.SessionClosed):
                await part
        if how != "session":
            assert float(await session.partial_run(other, total, {y: ones()})) == 3 * N + 1
            await until(lambda: live(session) == 0)
    if how == "session":
        with pytest.raises(tg.SessionClosed):
            await part


async def test_a_part_that_never_fits_is_refused_and_may_be_fed_smaller():
    with tg.Graph().as_default() as graph:
        x, y, first, total = in_parts()
    async with tg.Session(graph, memory_limit=3 * SIZE, settings=PLAIN) as session:
        handle = await session.partial_run_setup([first, total], feeds=[x, y])
        with pytest.raises(tg.DeviceMemoryError, match="values fed"):
            await session.partial_run(handle, first, {x: ones(4 * N)})
        await session.partial_run(handle, first, {x: ones(2 * N)})
        with pytest.raises(tg.DeviceMemoryError, match="values fed"):  # the first part stays
            await session.partial_run(handle, total, {y: ones(2 * N)})
        assert float(await session.partial_run(handle, total, {y: ones(N // 2)})) == 2.5 * N + 1


async def test_partial_runs_that_wait_for_each_other_are_named():
    with tg.Graph().as_default() as graph:
        x, y, first, total = in_parts()
    async with tg.Session(graph, memory_limit=4 * SIZE + SIZE // 2, settings=PLAIN) as session:
        handles = [await session.partial_run_setup([first, total], feeds=[x, y]) for _ in range(2)]
        for handle in handles:
            await session.partial_run(handle, first, {x: ones(2 * N)})
        old, new = (asyncio.ensure_future(session.partial_run(each, total, {y: ones(2 * N)})) for each in handles)
        with pytest.raises(tg.DeviceMemoryError, match=r"partial runs wait for each other's memory: step .* holds 391"):
            await new
        assert not old.done()
        await handles[1].aclose()
        assert float(await old) == 4 * N + 1


# ---- functions and queues


async def slow(value):
    await asyncio.sleep(0.3)
    return value


@pytest.mark.parametrize("known", [False, True])
async def test_steps_with_slow_functions_end_all(soon_stalled, known):
    """A function that takes long is no reason to let steps begin that then cannot go on."""
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [None])
        doubled = tg.concat([x, x], 0)
        with tg.control_dependencies([doubled]):
            waited = tg.py_function(slow, [tg.constant(1.0)], "float32", output_shapes=[])
        y = tg.reduce_sum(doubled * waited)
    async with tg.Session(graph, memory_limit=5 * SIZE + SIZE // 2, settings=PLAIN) as session:
        if known:
            await session.run(y, {x: ones()})
        assert await asyncio.gather(*(session.run(y, {x: ones()}) for _ in range(4))) == [2 * N] * 4


async def test_a_step_that_others_wait_for_and_that_never_fits_beside_them_names_them(soon_stalled):
    with tg.Graph().as_default() as graph:
        queue = tg.FIFOQueue(1, "float32", shapes=[[]])
        x = tg.placeholder("float32", [None])
        doubled = tg.concat([x, x], 0)
        with tg.control_dependencies([doubled]):
            element = queue.dequeue(name="take_it")
        y = tg.reduce_sum(doubled * element, name="taker")
        put = queue.enqueue(tg.reduce_sum(tg.concat([x, x, x], 0)))
        small = queue.enqueue(1.0)
    async with tg.Session(graph, memory_limit=6 * SIZE, settings=PLAIN) as session:
        taker = asyncio.ensure_future(session.run(y, {x: ones()}))
        await until(lambda: live(session) >= 3 * SIZE)
        await turns(20)
        with pytest.raises(tg.DeviceMemoryError, match=r"step taker:0 holds .* and waits for take_it"):
            await session.run(put, {x: ones()})
        await session.run(small)
        assert float(await taker) == 2 * N


async def test_a_step_waits_for_one_that_waits_for_something_else(soon_stalled, caplog):
    """Whoever fills the queue may come at any time; until then the log says who has the memory."""
    with tg.Graph().as_default() as graph:
        queue = tg.FIFOQueue(1, "float32", shapes=[[]])
        x = tg.placeholder("float32", [None])
        doubled = tg.concat([x, x], 0)
        with tg.control_dependencies([doubled]):
            element = queue.dequeue(name="take_it")
        y = tg.reduce_sum(doubled * element, name="taker")
        z = tg.reduce_sum(tg.concat([x, x, x], 0), name="other")
        put = queue.enqueue(1.0)
    async with tg.Session(graph, memory_limit=6 * SIZE, settings=PLAIN) as session:
        taker = asyncio.ensure_future(session.run(y, {x: ones()}))
        await until(lambda: live(session) >= 3 * SIZE)
        await turns(20)
        with caplog.at_level(logging.WARNING, logger="tagloom"):
            other = asyncio.ensure_future(session.run(z, {x: ones()}))
            await until(lambda: caplog.records)
        assert "other:0 waits for memory" in caplog.text
        assert "step taker:0 holds" in caplog.text
        assert "waits for take_it" in caplog.text
        assert not other.done()
        await session.run(put)
        assert (float(await taker), float(await other)) == (2 * N, 3 * N)


async def test_functions_that_wait_for_steps_which_cannot_begin_are_named(soon_stalled, caplog):
    met = asyncio.Barrier(2)

    async def meet(value):
        await met.wait()
        return value

    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [None])
        doubled = tg.concat([x, x], 0)
        with tg.control_dependencies([doubled]):
            waited = tg.py_function(meet, [tg.constant(1.0)], "float32", output_shapes=[], name="meet")
        y = tg.reduce_sum(doubled * waited, name="total")
    async with tg.Session(graph, memory_limit=5 * SIZE + SIZE // 2, settings=PLAIN) as session:
        first = asyncio.ensure_future(session.run(y, {x: ones()}))
        with caplog.at_level(logging.WARNING, logger="tagloom"):
            second = asyncio.ensure_future(session.run(y, {x: ones()}, timeout=0.5))
            await until(lambda: caplog.records)
            assert "total:0 waits for memory" in caplog.text
            assert "waits for meet" in caplog.text
        with pytest.raises(tg.StepTimeout) as caught:
            await second
        assert any("waits for meet" in note for note in caught.value.__notes__)
        first.cancel()
        await asyncio.wait([first])
