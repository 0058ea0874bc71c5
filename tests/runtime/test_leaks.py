"""After many steps and after a long loop nothing is held, and the process is no larger."""

import asyncio
import gc
import os
import tracemalloc
import weakref
from contextlib import contextmanager

import numpy as np
import pytest
import tagloom as tg
from tagloom.kernels.scheduler.series import Series
from tagloom.kernels.scheduler.state import live_counts
from tagloom.ops.state.stacks import StackStorage
from tagloom.ops.state.tensor_array.storage import ArrayStorage

from tests.support.settings import ON
from tests.support.tiers import choose
from tests.support.waiting import until

PAGE = os.sysconf("SC_PAGE_SIZE")


def resident():
    """Return the bytes of memory this process has in use."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * PAGE


def held():
    """Return what is alive of steps: frames, iterations, tokens, and the stores that loops write to."""
    counts = live_counts()
    stores = [o for o in gc.get_objects() if isinstance(o, (Series, ArrayStorage, StackStorage))]
    return counts["frames"], counts["iterations"], counts["values"], len(stores)


@contextmanager
def nothing_grows(limit):
    """Check that as much is held as before, and that the process is larger by less than `limit` bytes."""
    gc.collect()
    before, size = held(), resident()
    yield
    gc.collect()
    assert held() == before == (0, 0, 0, before[3])
    assert resident() - size < limit


@contextmanager
def nothing_kept(limit):
    """Check that of all memory Python and NumPy allocate here, less than `limit` bytes are still in use afterwards."""
    gc.collect()
    tracemalloc.start()
    try:
        yield
        gc.collect()
        traced, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert traced < limit


class Work:
    """A training step in the small: a loop over an array, its gradient, an update, a branch, a stack."""

    def __init__(self):
        self.x = tg.placeholder("float32", [3, 50])
        self.w = tg.Variable(np.full(50, 0.5, np.float32), name="w")
        rows = tg.TensorArray("float32", 3).unstack(self.x)

        def body(i, state):
            return i + 1, tg.cond(i > 0, lambda: tg.tanh(state * self.w), lambda: state + rows.read(i))

        _, state = tg.while_loop(lambda i, state: i < 3, body, [0, tg.zeros([50])])
        self.loss = tg.reduce_sum(state)
        (gradient,) = tg.gradients(self.loss, [self.w])
        handle = tg.stack(elem_type="float32")
        with tg.control_dependencies([tg.stack_push(handle, state), tg.stack_push(handle, state)]):
            self.top = tg.stack_pop(handle)
        self.update = self.w.assign_sub(0.001 * gradient)


@pytest.mark.rule(28, 42)
async def test_ten_thousand_steps(graph):
    """Half a KiB kept of each step would be 5 MB."""
    work = Work()
    rows = np.ones((3, 50), np.float32)
    async with tg.Session(graph, settings=ON) as session:  # LLVM is loaded before what is measured
        await session.run(tg.global_variables_initializer())
        step = session.make_step([work.loss, work.update, work.top], [work.x])
        for _ in range(200):
            await step(rows)
        with nothing_grows(limit=4 << 20):
            for _ in range(choose(thorough=10_000, default=2_000)):
                await step(rows)
        with nothing_kept(limit=100 << 10):
            for _ in range(500):
                await step(rows)
        assert session.statistics().steps_running == 0


@pytest.mark.rule(28, 42)
async def test_one_loop_of_a_million_iterations(graph):
    """One array of 400 bytes kept of each iteration would be 400 MB."""
    n = tg.placeholder("int32", [])
    state = tg.constant(np.zeros(100, np.float32))
    result = tg.while_loop(lambda i, a: i < n, lambda i, a: (i + 1, a + 1.0), [0, state])
    async with tg.Session(graph, settings=ON) as session:  # LLVM is loaded before what is measured
        step = session.make_step(result, [n])
        await step(10_000)
        with nothing_grows(limit=4 << 20), nothing_kept(limit=100 << 10):
            count, values = await step(1_000_000)
    assert count == 1_000_000
    assert (values == 1_000_000).all()


async def test_steps_of_the_reference_executor(graph):
    work = Work()
    rows = np.ones((3, 50), np.float32)
    async with tg.Session(graph, executor="reference") as session:
        await session.run(tg.global_variables_initializer())
        step = session.make_step([work.loss, work.update, work.top], [work.x])
        await step(rows)
        with nothing_grows(limit=8 << 20), nothing_kept(limit=100 << 10):
            for _ in range(20):
                await step(rows)


async def test_steps_that_fail_time_out_or_are_cancelled(graph):
    async def wait(value):
        await asyncio.sleep(60)

    x = tg.placeholder("float32", [1000])
    loops = tg.while_loop(lambda i, a: i < 10, lambda i, a: (i + 1, tg.check_numerics(a * 2.0, "a")), [0, x])
    stuck = tg.py_function(wait, [x], "float32")
    bad, good = np.full(1000, np.nan, np.float32), np.ones(1000, np.float32)
    async with tg.Session(graph) as session:

        async def all_kinds():
            with pytest.raises(tg.OpError):
                await session.run(loops, feeds={x: bad})
            with pytest.raises(tg.StepTimeout):
                await session.run(stuck, feeds={x: good}, timeout=0.0)
            task = asyncio.ensure_future(session.run(stuck, feeds={x: good}))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])

        for _ in range(20):
            await all_kinds()
        with nothing_grows(limit=4 << 20), nothing_kept(limit=100 << 10):
            for _ in range(200):
                await all_kinds()


@contextmanager
def no_collector():
    """Without the cyclic collector: what dies here dies by its last reference."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


async def test_a_failed_step_is_freed_with_its_error(graph, executor):
    """No cycle of error, traceback and step keeps values until the collector runs."""
    kept = []

    def fail(value):
        kept.append(weakref.ref(value.base if value.base is not None else value))
        raise ValueError("no")

    x = tg.placeholder("float32", [1000])
    result = tg.py_function(fail, [x * 2.0], "float32")
    async with tg.Session(graph, executor=executor) as session:
        with no_collector():
            try:
                await session.run(result, feeds={x: np.ones(1000, np.float32)})
            except tg.OpError:
                pass
            await asyncio.sleep(0)
            assert kept[0]() is None


class Numbers(list):
    """A fed value that becomes an array; with weak references, which lists have not."""


@pytest.mark.parametrize("how", ["run", "run at a priority", "step"])
@pytest.mark.parametrize("kwargs", [{}, {"max_steps": 1}, {"on_step": print}], ids=["plain", "max_steps", "on_step"])
async def test_no_frame_keeps_a_fed_value_while_its_step_runs(graph, executor, kwargs, how):
    kept, seen = [], []

    def fed():
        value = Numbers([1.0, 2.0])
        kept.append(weakref.ref(value))
        return value

    async def look(total):
        await asyncio.sleep(0)
        seen.append(kept[0]())
        return total

    x = tg.placeholder("float32", [2])
    result = tg.py_function(look, [tg.reduce_sum(x)], "float32", output_shapes=[])
    async with tg.Session(graph, executor=executor, **kwargs) as session:
        with no_collector():
            if how == "step":
                await session.make_step(result, [x])(fed())
            else:
                await session.run(result, {x: fed()}, priority=None if how == "run" else 1)
    assert seen == [None]


@pytest.mark.parametrize("has_variable", [False, True])
async def test_no_frame_keeps_an_argument_while_a_function_runs(has_variable):
    kept, seen = [], []

    async def look(total):
        await asyncio.sleep(0)
        seen.append(kept[0]())
        return total

    def argument():
        value = Numbers([1.0, 2.0])
        kept[:] = [weakref.ref(value)]
        return value

    @tg.function(input_signature=[tg.TensorSpec([2], "float32")])
    def f(x):
        scale = tg.compat.tf1.get_variable("scale", initializer=1.0) if has_variable else 1.0
        return tg.py_function(look, [tg.reduce_sum(x) * scale], "float32", output_shapes=[])

    for _ in range(2):  # the first call traces
        with no_collector():
            assert await f(argument()) == 3
    assert seen == [None, None]


async def test_a_step_that_gets_no_place_leaves_no_coroutine_that_never_ran(graph):
    """Python would warn of it, which is an error in these tests."""
    x = tg.placeholder("float32", [])
    first, second = tg.py_function(forever, [x], "float32", output_shapes=[]), x + 1.0
    async with tg.Session(graph, max_steps=1) as session:
        with no_collector():
            running = asyncio.create_task(session.run(first, {x: 1.0}))
            waiting = asyncio.create_task(session.run(second, {x: 1.0}))
            await until(lambda: session.statistics().steps_waiting == 1)
            waiting.cancel()
            await asyncio.wait([waiting])
            running.cancel()
            await asyncio.wait([running])
        assert await session.run(second, {x: 1.0}) == 2


async def forever(value):
    await asyncio.Event().wait()


async def test_sessions_and_their_compiled_steps_die_with_their_last_reference(graph, executor):
    x = tg.placeholder("float32", [])
    result = tg.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * x), [0, 1.0])

    async def use():
        session = tg.Session(graph, executor=executor)
        step = session.make_step(result, [x])
        await step(2.0)
        with pytest.raises(tg.DtypeError):
            await step("text")
        await session.aclose()
        return [weakref.ref(session), weakref.ref(step._compiled)]

    with no_collector():
        references = await use()
        await asyncio.sleep(0)
        assert [reference() for reference in references] == [None, None]


async def test_graphs_are_collected():
    async def use():
        with tg.Graph().as_default() as graph:
            work = Work()
            async with tg.Session(graph) as session:
                await session.run(tg.global_variables_initializer())
                await session.run(work.update, feeds={work.x: np.ones((3, 50), np.float32)})
        return weakref.ref(graph), weakref.ref(work.loss)

    references = await use()
    await asyncio.sleep(0)  # what the session asked of the loop's next turn holds the context it was asked in
    gc.collect()
    assert [reference() for reference in references] == [None, None]


def test_event_loops_are_not_kept():
    with tg.Graph().as_default() as graph:
        value = tg.constant(1.0) + 1.0

    async def use():
        async with tg.Session(graph) as session:
            await session.run(value)
        return weakref.ref(asyncio.get_running_loop())

    reference = asyncio.run(use())
    gc.collect()
    assert reference() is None
