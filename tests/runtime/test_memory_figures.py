"""Bytes of arrays on a session's device: exact while steps run, and what they were when steps are over."""

import asyncio
import contextvars
import gc
from dataclasses import replace

import numpy as np
import pytest
import tagloom as tg
from numpy._core.multiarray import get_handler_name

from tests.support.settings import ON

N = 1000  # elements of the arrays here
SIZE = 4 * N  # their bytes
AS_WRITTEN = replace(ON, fold=False, merge=False, fuse=False)


pytestmark = pytest.mark.usefixtures("every_block_comes_back")


def live(session):
    return session.statistics().live_bytes


async def nothing_lives(session):
    """Wait for what a thread, or the event loop, lets go of just after it has given its result."""
    async with asyncio.timeout(20):
        while live(session):
            await asyncio.sleep(0)


def ones():
    return np.ones(N, np.float32)


@pytest.fixture
def x(graph):
    return tg.placeholder("float32", [N])


# ---- what counts


async def test_the_peak_of_a_small_program(graph, x):
    """The fed array, its double, and the square of that, which can not go into the double since that is fetched."""
    double = x + x
    square = double * double
    async with tg.Session(graph, settings=AS_WRITTEN) as session:
        kept = await session.run([double, square], {x: ones()})
        statistics = session.statistics()
        assert (statistics.live_bytes, statistics.peak_bytes) == (0, 3 * SIZE)
        assert statistics.cached_bytes == 0  # both blocks left with the results
        del kept
        assert session.statistics().cached_bytes >= 2 * SIZE


async def test_what_goes_into_the_buffer_of_its_input_costs_nothing(graph, x):
    y = x + x
    for _ in range(5):
        y = tg.exp(y)
    async with tg.Session(graph, settings=AS_WRITTEN) as session:
        await session.run(y, {x: ones() * 0})
        assert session.statistics().peak_bytes == 2 * SIZE


async def test_a_loop_costs_as_much_as_its_window(graph, x, executor):
    def body(i, a):
        return i + 1, a + 1.0

    y = tg.while_loop(lambda i, _: i < 50, body, [0, x], parallel_iterations=1)[1]
    async with tg.Session(graph, executor=executor, settings=ON) as session:
        await session.run(y, {x: ones()})
        assert 2 * SIZE <= session.statistics().peak_bytes <= 4 * SIZE + 200  # and scalars that kernels are given
        assert live(session) == 0


async def test_a_variable_counts_until_the_session_is_closed(graph, x, executor):
    v = tg.Variable(tg.zeros([N]), name="v")
    more, new = v.assign_add(x), v.assign(x)
    async with tg.Session(graph, executor=executor, settings=ON) as session:
        for update in (new, more, more):
            await session.run(update.op, {x: ones()})
            assert live(session) == SIZE
        await session.write_variables({"v": ones()})
        assert live(session) == SIZE
        values = await session.read_variables()
        held = await session.run(v)
        assert live(session) == SIZE
        assert get_handler_name(values["v"]) == get_handler_name(held) == "default_allocator"
    assert live(session) == 0


async def test_a_constant_counts_as_long_as_a_step_that_has_it_is_kept(graph, x):
    y = x + tg.constant(ones())
    z = y * 2.0
    async with tg.Session(graph, settings=AS_WRITTEN) as session:
        await session.run(y, {x: ones()})
        assert live(session) == SIZE
        await session.run(z, {x: ones()})
        assert live(session) == SIZE  # the same array
        step = session.make_step(y, [x])
    assert live(session) == 0
    del step


async def test_a_feed_counts_as_its_base_and_once(graph, x, executor):
    gate, inside = asyncio.Event(), []

    async def wait(a):
        inside.append(a)
        await gate.wait()
        return np.float32(0)

    y = tg.py_function(wait, [x], "float32", output_shapes=[])
    whole = np.ones(3 * N, np.float32)
    async with tg.Session(graph, executor=executor, settings=ON) as session:
        runs = [asyncio.ensure_future(session.run(y, {x: part})) for part in (whole[:N], whole[N : 2 * N], ones())]
        while len(inside) < 3:
            await asyncio.sleep(0)
        assert live(session) == 4 * SIZE
        gate.set()
        await asyncio.gather(*runs)
        assert live(session) == 0


async def test_what_a_function_returns_counts_until_it_is_used(graph, x, executor):
    seen = []

    def function(a):
        seen.append(live(session))
        return ones()

    async def later(a):
        await asyncio.sleep(0)
        return function(a)

    first = tg.py_function(function, [x], "float32", output_shapes=[N])
    second = tg.py_function(later, [first], "float32", output_shapes=[N])
    third = tg.py_function(function, [second], "float32", output_shapes=[N], blocking=True)
    with tg.control_dependencies([third.op]):
        last = tg.identity(first)
    async with tg.Session(graph, executor=executor, settings=ON) as session:
        result = await session.run([third, last], {x: ones()})
        assert seen == [SIZE, 2 * SIZE, 3 * SIZE]
        assert session.statistics().peak_bytes >= 4 * SIZE
        await nothing_lives(session)
        assert [a.base for a in result] == [None, None]


async def test_what_a_function_keeps_counts_as_long_as_it_keeps_it(graph, x, executor):
    kept = []
    y = tg.py_function(lambda a: kept.append(a) or a, [x + 1.0], "float32", output_shapes=[N])
    async with tg.Session(graph, executor=executor, settings=ON) as session:
        await session.run(y, {x: ones()})
        assert live(session) == SIZE
        kept.clear()
        assert live(session) == 0


async def test_kernels_called_in_threads_take_from_the_pool_too(graph, executor):
    given = np.ones((40, 200, 200), np.float32)
    x = tg.placeholder("float32", given.shape)
    y = tg.matmul(x, x)
    async with tg.Session(graph, executor=executor, settings=ON) as session:
        for _ in range(3):  # the first call shows how long it takes
            session.reset_peak_memory_stats()
            await session.run(y, {x: given})
            assert session.statistics().peak_bytes >= 2 * given.nbytes
            await nothing_lives(session)


async def test_sessions_count_apart(graph, x):
    y = x + 1.0
    async with tg.Session(graph, settings=ON) as one, tg.Session(graph, settings=ON) as other:
        a = await one.run(y, {x: ones()})
        assert (one.statistics().peak_bytes, other.statistics().peak_bytes) == (2 * SIZE, 0)
        b = await other.run(y, {x: a})
        assert other.statistics().peak_bytes == 2 * SIZE
        assert live(one) == live(other) == 0
    assert b.sum() == 3 * N


async def test_results_outlive_the_session(graph, x):
    async with tg.Session(graph, settings=ON) as session:
        y = await session.run(x + 1.0, {x: ones()})
    del session
    gc.collect()
    y += 1.0
    assert y.sum() == 3 * N


async def test_a_trace_shows_the_exact_figure(graph, x, executor):
    trace = tg.Trace()
    async with tg.Session(graph, executor=executor, settings=AS_WRITTEN) as session:
        await session.run((x + x) + 1.0, {x: ones()}, trace=trace)
    held = [e["args"]["value"] for e in trace.events if e["ph"] == "C" and e["name"] == "live bytes"]
    assert held[0] == SIZE  # the feed


# ---- steps that end otherwise


async def test_after_an_error_all_is_as_before(graph, x, executor):
    def fail(a):
        raise ValueError("no")

    v = tg.Variable(tg.zeros([N]), name="v")
    y = tg.py_function(fail, [x + 1.0], "float32", output_shapes=[N])
    z = tg.py_function(lambda a: a.astype("float64"), [x + 1.0], "float32", output_shapes=[N])  # of the wrong dtype
    async with tg.Session(graph, executor=executor, settings=ON) as session:
        await session.run(tg.global_variables_initializer())
        before = live(session)
        for fetch in (y, z):
            with pytest.raises(tg.OpError):
                await session.run([fetch, x * 2.0, v], {x: ones()})
            gc.collect()
            assert live(session) == before
        await session.run(x + v, {x: ones()})
        assert live(session) == before


async def test_after_a_cancellation_all_is_as_before(graph, x, executor):
    inside = asyncio.Event()

    async def wait(a):
        inside.set()
        await asyncio.Event().wait()

    y = tg.py_function(wait, [x + 1.0], "float32", output_shapes=[N])
    async with tg.Session(graph, executor=executor, settings=ON) as session:
        run = asyncio.ensure_future(session.run([y, x * 2.0], {x: ones()}))
        await inside.wait()
        assert live(session) >= 2 * SIZE
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        del run
        await nothing_lives(session)
        with pytest.raises(tg.StepTimeout):
            await session.run([y, x * 2.0], {x: ones()}, timeout=0.01)
        await nothing_lives(session)


async def test_a_closed_session_has_nothing(graph, x, executor):
    inside = asyncio.Event()

    async def wait(a):
        inside.set()
        await asyncio.Event().wait()

    y = tg.py_function(wait, [x + 1.0], "float32", output_shapes=[N])
    v = tg.Variable(tg.zeros([N]), name="v")
    session = tg.Session(graph, executor=executor, settings=ON)
    await session.run(tg.global_variables_initializer())
    run = asyncio.ensure_future(session.run([y, v], {x: ones()}))
    await inside.wait()
    await session.aclose()
    with pytest.raises(tg.SessionClosed):
        await run
    del run
    gc.collect()
    assert (session.statistics().live_bytes, session.statistics().cached_bytes) == (0, 0)


# ---- contexts


variable = contextvars.ContextVar("variable", default="none")


@pytest.mark.parametrize("pool", [True, False])
async def test_functions_see_their_callers_context(graph, x, executor, pool):
    def look(a):
        return variable.get(), get_handler_name(np.zeros(N)), get_handler_name(), np.geterr()["divide"]

    async def look_later(a):
        await asyncio.sleep(0)
        return look(a)

    seen = []
    for function, blocking in ((look, False), (look_later, False), (look, True)):
        y = tg.py_function(
            lambda a, function=function: _noting(seen, function(a)),
            [x + 1.0],
            "bool",
            output_shapes=[],
            blocking=blocking,
        )
        variable.set("caller's")
        async with tg.Session(graph, executor=executor, settings=replace(ON, pool=pool)) as session:
            await session.run(y, {x: ones()})
    assert seen == [("caller's", "default_allocator", "default_allocator", "warn")] * 3


def _noting(seen, result):
    if not asyncio.iscoroutine(result):
        seen.append(result)
        return True

    async def later():
        return _noting(seen, await result)

    return later()


async def test_a_function_may_change_its_callers_context(graph, x):
    y = tg.py_function(lambda a: variable.set("changed") and a, [x], "float32", output_shapes=[N])
    async with tg.Session(graph, settings=ON) as session:
        variable.set("before")
        await session.run(y, {x: ones()})
        assert variable.get() == "changed"


async def test_kernels_take_from_the_pool_and_the_caller_does_not(graph, x):
    async with tg.Session(graph, settings=ON) as session:
        y = await session.run(x + 1.0, {x: ones()})
        assert get_handler_name(y) == "tagloom"
        assert get_handler_name(np.zeros(N)) == get_handler_name() == "default_allocator"


async def test_a_function_may_run_steps_in_its_thread(graph, x):
    y = x * 2.0

    async def run(a):
        async with tg.Session(graph, settings=ON) as inner:
            return await inner.run(y, {x: a})

    def nested(a):
        result = asyncio.run(run(a))
        assert (get_handler_name(result), get_handler_name()) == ("tagloom", "default_allocator")
        return result

    z = tg.py_function(nested, [x + 1.0], "float32", output_shapes=[N], blocking=True) + 1.0
    async with tg.Session(graph, settings=ON) as session:
        both = await asyncio.gather(*[session.run(z, {x: ones()}) for _ in range(4)])
        assert [result.tolist() for result in both] == [[5.0] * N] * 4
        await nothing_lives(session)


def test_sessions_in_threads_and_one_after_the_other(graph, x):
    y = tg.reduce_sum(tg.py_function(lambda a: a * 2.0, [x + 1.0], "float32", output_shapes=[N]))
    with tg.SyncSession(graph, settings=ON) as one, tg.SyncSession(graph, settings=ON) as other:
        for _ in range(20):
            assert one.run(y, {x: ones()}) == other.run(y, {x: ones()}) == 4 * N
        assert one.statistics().live_bytes == other.statistics().live_bytes == 0


# ---- without


async def test_without_a_pool_there_are_no_figures(graph, x, executor):
    v = tg.Variable(tg.zeros([N]), name="v")
    async with tg.Session(graph, executor=executor, settings=replace(ON, pool=False)) as session:
        await session.run(tg.global_variables_initializer())
        y = await session.run(x + v, {x: ones()})
        statistics = session.statistics()
    assert (statistics.live_bytes, statistics.peak_bytes, statistics.cached_bytes) == (None, None, None)
    assert get_handler_name(y) == "default_allocator"


async def test_no_more_is_kept_than_the_setting_says(graph, x):
    async with tg.Session(graph, settings=replace(ON, pool_bytes=3 * SIZE)) as session:
        for _ in range(5):
            await session.run(tg.concat([x, x, x, x], 0), {x: ones()})
            assert session.statistics().cached_bytes <= 3 * SIZE
