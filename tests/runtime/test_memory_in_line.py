"""Steps under a limit of memory wait in line: those under way can end, and whoever fits alone has a turn (rule 49)."""

import asyncio

import numpy as np
import pytest
import tagloom as tg
from tagloom.streams.cpu import CpuDevice

from tests.support.waiting import turns, until

N = 50_000
SIZE = 4 * N
PLAIN = tg.Settings(fuse=False, straight=False)
MANY = 20


def ones(count=N):
    return np.ones(count, np.float32)


async def soon(value):
    await asyncio.sleep(0.001)
    return value


def steps_that_grow():
    """Return a placeholder, and a step that makes 2 arrays, waits, and makes 3 more: each holds what others need."""
    x = tg.placeholder("float32", [None])
    doubled = tg.concat([x, x], 0)
    with tg.control_dependencies([doubled]):
        waited = tg.py_function(soon, [tg.constant(1.0)], "float32", output_shapes=[])
    return x, tg.reduce_sum(tg.concat([x * waited, x, x], 0)) + doubled[0]


def live(session):
    return session.statistics().live_bytes


async def served(calls):
    results = await asyncio.gather(*calls, return_exceptions=True)
    failed = [each for each in results if isinstance(each, BaseException)]
    assert not failed, failed[0]
    return results


@pytest.mark.parametrize("executor", ["machine", "reference"])
async def test_feeds_wait_until_others_end(executor):
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [None])
        y = tg.py_function(soon, [tg.reduce_sum(x)], "float32", output_shapes=[]) + x[0]
    async with tg.Session(graph, memory_limit=2 * SIZE + SIZE // 2, executor=executor) as session:
        results = await served(session.run(y, {x: ones()}) for _ in range(MANY))
        assert results == [N + 1] * MANY
        assert live(session) == 0


@pytest.mark.parametrize("known", [False, True])
async def test_steps_that_each_hold_what_others_need_end_all(known):
    with tg.Graph().as_default() as graph:
        x, y = steps_that_grow()
    async with tg.Session(graph, memory_limit=9 * SIZE, settings=PLAIN) as session:
        step = session.make_step(y, [x])
        if known:
            assert await step(ones()) == 3 * N + 1
        assert await served(step(ones()) for _ in range(MANY)) == [3 * N + 1] * MANY
        assert live(session) == 0


async def test_a_step_that_is_known_is_admitted_beside_others():
    """The peak of one is known, so that two run at once where there is room for two, and never three."""
    together, most = 0, 0

    async def count(value):
        nonlocal together, most
        together += 1
        most = max(most, together)
        await asyncio.sleep(0.005)
        together -= 1
        return value

    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [None])
        waited = tg.py_function(count, [tg.constant(1.0)], "float32", output_shapes=[])
        y = tg.reduce_sum(tg.concat([x * waited, x], 0))
    async with tg.Session(graph, settings=PLAIN) as session:
        await session.run(y, {x: ones()})
        need = session.statistics().peak_bytes
    async with tg.Session(graph, memory_limit=2 * need + SIZE // 2, settings=PLAIN) as session:
        step = session.make_step(y, [x])
        await step(ones())
        assert await served(step(ones()) for _ in range(8)) == [2 * N] * 8
    assert most == 2


async def test_larger_feeds_are_taken_to_need_more():
    with tg.Graph().as_default() as graph:
        x, y = steps_that_grow()
    async with tg.Session(graph, memory_limit=17 * SIZE, settings=PLAIN) as session:
        step = session.make_step(y, [x])
        await step(ones(N // 10))
        assert await served(step(ones(2 * N)) for _ in range(6)) == [6 * N + 1] * 6


async def test_first_come_first_served():
    order = []
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [None])
        number = tg.placeholder("int64", [])
        y = tg.py_function(lambda n, v: order.append(int(n)) or soon(v), [number, tg.reduce_sum(x)], "float32") + x[0]
    async with tg.Session(graph, memory_limit=2 * SIZE) as session:
        step = session.make_step(y, [number, x])
        sizes = [N, N // 2, 2 * N - 2000, 10, N, 10]
        await served(step(n, ones(size)) for n, size in enumerate(sizes))
    assert order == sorted(order)


async def test_feeds_that_never_fit_are_refused_at_once():
    release = asyncio.Event()

    async def wait(value):
        await release.wait()
        return value

    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [None])
        y = tg.py_function(wait, [tg.reduce_sum(x)], "float32") + x[0]
        w = tg.Variable(ones())
    async with tg.Session(graph, memory_limit=4 * SIZE) as session:
        await session.run(w.initializer)  # two: the variable, and the constant
        first = asyncio.ensure_future(session.run(y, {x: ones()}))
        await asyncio.sleep(0)
        with pytest.raises(tg.DeviceMemoryError, match="values fed"):  # there is room for two
            await session.run(y, {x: ones(2 * N + 1000)})
        second = asyncio.ensure_future(session.run(y, {x: ones(2 * N - 1000)}))
        release.set()
        assert await served([first, second]) == [N + 1, 2 * N - 999]


async def test_one_that_leaves_the_line_leaves_nothing():
    release = asyncio.Event()

    async def wait(value):
        await release.wait()
        return value

    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [None])
        y = tg.py_function(wait, [tg.reduce_sum(x)], "float32") + x[0]
    async with tg.Session(graph, memory_limit=SIZE + SIZE // 2) as session:
        first = asyncio.ensure_future(session.run(y, {x: ones()}))
        await until(lambda: live(session) >= SIZE)
        await turns()
        held = live(session)
        waiting = [asyncio.ensure_future(session.run(y, {x: ones()})) for _ in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(tg.StepTimeout, match="did not end") as caught:
            await session.run(y, {x: ones()}, timeout=0.01)
        assert "waiting in line for memory" in str(caught.value)
        waiting[1].cancel()
        await asyncio.wait([waiting[1]])
        assert live(session) == held
        release.set()
        assert await served([first, waiting[0], waiting[2]]) == [N + 1] * 3
        assert live(session) == 0
        release.clear()
        first = asyncio.ensure_future(session.run(y, {x: ones()}))
        await until(lambda: live(session) >= SIZE)
        last = asyncio.ensure_future(session.run(y, {x: ones()}))
        await asyncio.sleep(0)
    for each in (first, last):
        with pytest.raises(tg.SessionClosed):
            await each


async def test_a_step_that_is_cancelled_as_it_is_admitted_lets_the_next_in():
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [None])
        y = tg.py_function(soon, [tg.reduce_sum(x)], "float32") + x[0]
    for moment in range(8):
        async with tg.Session(graph, memory_limit=SIZE + SIZE // 2) as session:
            first, second, third = (asyncio.ensure_future(session.run(y, {x: ones()})) for _ in range(3))
            await first
            for _ in range(moment):
                await asyncio.sleep(0)
            second.cancel()
            assert await third == N + 1
            assert live(session) == 0


async def test_who_puts_does_not_wait_for_who_waits_to_take():
    """A step that waits for a queue keeps others from nothing but what it holds."""
    with tg.Graph().as_default() as graph:
        queue = tg.FIFOQueue(2, "float32", shapes=[[N]])
        x = tg.placeholder("float32", [N])
        put = queue.enqueue(x * 2.0)
        row = queue.dequeue()
        total = tg.reduce_sum(tg.concat([row, row], 0))
    async with tg.Session(graph, memory_limit=12 * SIZE, settings=PLAIN) as session:
        for _ in range(2):  # not known at first, then known
            takers = [asyncio.ensure_future(session.run(total)) for _ in range(3)]
            await turns()
            async with asyncio.timeout(60):
                await served(session.run(put, {x: ones()}) for _ in range(3))
                assert await served(takers) == [2 * 2 * N] * 3
        assert live(session) == 0


async def test_a_step_that_a_function_of_a_step_runs_does_not_wait_for_it():
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [None])
        inner = tg.reduce_sum(tg.concat([x, x], 0))

        async def run_inner(value):
            return await session.run(inner, {x: value[:100]})

        outer = tg.py_function(run_inner, [x], "float32", output_shapes=[])
    async with tg.Session(graph, memory_limit=3 * SIZE) as session:
        async with asyncio.timeout(0.9):  # sooner than steps are taken to be stalled
            assert await session.run(outer, {x: ones()}) == 200


async def test_steps_whose_functions_wait_for_each_other_begin_in_the_end():
    """Nobody can see that the first waits for the second; when nothing has moved for a while it is let in."""
    met = asyncio.Barrier(2)

    async def meet(value):
        await met.wait()
        return value

    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [None])
        y = tg.py_function(meet, [tg.reduce_sum(x)], "float32", output_shapes=[]) + x[0]
    async with tg.Session(graph, memory_limit=4 * SIZE) as session:
        assert await served(session.run(y, {x: ones()}) for _ in range(2)) == [N + 1] * 2


async def test_streams_functions_runners_and_devices_wait_in_line():
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [None])
        with tg.device("/cpu:0"):
            doubled = tg.concat([x, x], 0)
        with tg.device("/cpu:1"):
            waited = tg.py_function(soon, [tg.constant(1.0)], "float32", output_shapes=[])
            y = tg.reduce_sum(tg.concat([doubled, doubled], 0) * waited)
        ticks = []
        z = tg.while_loop(lambda i: i < 3, lambda i: ticks.append(i + 0) or i + 1, [tg.cast(x[0] * 0.0, "int32")])

    async with tg.Session(graph, devices=2, memory_limit=7 * SIZE, settings=PLAIN) as session:
        assert await served(session.run(y, {x: ones()}) for _ in range(MANY)) == [4 * N] * MANY
        step = session.make_step(z, [x])
        feeds = [ones(3 * N) for _ in range(6)]

        async def one(value):
            async with step.stream(ticks[0], value) as stream:
                return [int(each) async for each in stream]

        assert await served(map(one, feeds)) == [[0, 1, 2]] * 6
        del feeds
        assert live(session) == 0


async def test_elements_of_pipelines_under_a_limit():
    with tg.Graph().as_default() as graph:
        numbers = tg.data.from_arrays(np.arange(40))
        element = numbers.map(lambda n: ones(), output=tg.TensorSpec([N], "float32")).next()
        y = tg.reduce_sum(tg.concat([element, element], 0))
    async with tg.Session(graph, memory_limit=8 * SIZE, settings=PLAIN) as session:
        assert await served(session.run(y) for _ in range(40)) == [2 * N] * 40
        assert live(session) == 0


async def test_a_partial_run_keeps_nothing_from_others_but_what_it_holds():
    with tg.Graph().as_default() as graph:
        x, y = tg.placeholder("float32", [None]), tg.placeholder("float32", [])
        first = tg.concat([x, x], 0)
        second = tg.reduce_sum(first) + y
        z = tg.reduce_sum(tg.concat([x, x], 0)) + 0.0
    async with tg.Session(graph, memory_limit=7 * SIZE, settings=PLAIN) as session:
        handle = await session.partial_run_setup([second], feeds=[x, y])
        waiting = asyncio.ensure_future(session.partial_run(handle, second, {x: ones(), y: 1.0}))
        assert await served([waiting, *(session.run(z, {x: ones()}) for _ in range(6))]) == [2 * N + 1] + [2 * N] * 6


async def test_sessions_that_share_a_device_wait_in_one_line():
    with tg.Graph().as_default() as graph:
        x, y = steps_that_grow()
    device = CpuDevice("/cpu:0", limit=9 * SIZE)
    async with (
        tg.Session(graph, devices=[device], settings=PLAIN) as one,
        tg.Session(graph, devices=[device], settings=PLAIN) as two,
    ):
        assert await served(each.run(y, {x: ones()}) for each in (one, two) * 6) == [3 * N + 1] * 12
