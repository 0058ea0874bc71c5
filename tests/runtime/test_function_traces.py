"""Traces of functions: each made and compiled once, in a thread, and not too many kept."""

import asyncio
import gc
import logging
import threading

import numpy as np
import pytest
import tagloom as tg

pytestmark = pytest.mark.usefixtures("collected")  # which ends the threads of functions


class Slow:
    """A function whose tracing can be held; it counts how often it is traced, and in which threads."""

    def __init__(self):
        self.begun, self.released = threading.Event(), threading.Event()
        self.released.set()
        self.threads = []

    def __call__(self, x):
        self.threads.append(threading.current_thread())
        self.begun.set()
        assert self.released.wait(60)
        return x * 2.0


@pytest.fixture
def slow():
    return Slow()


async def compiled(f):
    return (await f.session()).statistics().steps_compiled


async def until(event):
    while not event.is_set():  # of another thread
        await asyncio.sleep(0.001)


@pytest.mark.parametrize("wrap", [lambda f: f, tg.grad, tg.value_and_grad])
async def test_first_calls_at_one_time_trace_and_compile_once(slow, wrap):
    f = wrap(tg.function(slow, graph=tg.Graph()))
    results = await asyncio.gather(*(f(float(k)) for k in range(20)))
    assert len(slow.threads) == 1
    assert f.traces == 1
    assert await compiled(f) == 1
    assert len(results) == 20


async def test_first_calls_of_a_function_with_variables_initialize_and_compile_once():
    drawn = []

    @tg.function(graph=tg.Graph())
    def f(x):
        total = tg.Variable(tg.py_function(lambda: drawn.append(1) or np.float32(0), [], "float32", []))
        return total.assign_add(x)

    assert sorted(float(y) for y in await asyncio.gather(*(f(1.0) for _ in range(10)))) == list(range(1, 11))
    assert drawn == [1]
    assert await compiled(f) == 3  # is it initialized, initialize it, and the call


async def test_a_caller_that_is_cancelled_while_others_wait_leaves_the_trace_to_them(slow):
    f = tg.function(slow, graph=tg.Graph())
    slow.released.clear()
    calls = [asyncio.create_task(f(float(k))) for k in range(4)]
    await until(slow.begun)
    calls[0].cancel()
    with pytest.raises(asyncio.CancelledError):
        await calls[0]
    slow.released.set()
    assert [float(y) for y in await asyncio.gather(*calls[1:])] == [2, 4, 6]
    assert (f.traces, await compiled(f)) == (1, 1)


async def test_all_callers_of_a_trace_that_fails_are_told_and_later_ones_try_again(slow):
    fails = [True]

    def checked(x):
        if fails:
            raise tg.GraphError("not yet")
        return slow(x)

    f = tg.function(checked, graph=tg.Graph())
    found = await asyncio.gather(*(f(1.0) for _ in range(3)), return_exceptions=True)
    assert [type(each) for each in found] == [tg.GraphError] * 3
    fails.clear()
    assert float(await f(1.0)) == 2


async def test_streams_that_begin_at_one_time_compile_once():
    @tg.function(graph=tg.Graph())
    def powers(n):
        return tg.while_loop(lambda i, x: i < n, lambda i, x: (i + 1, tg.identity(x * 2, name="power")), [0, 1])[1]

    async def read(n):
        return [int(x) async for x in powers.stream("power", n)]

    assert await asyncio.gather(*(read(n) for n in (1, 2, 3))) == [[2], [2, 4], [2, 4, 8]]
    assert (powers.traces, await compiled(powers)) == (1, 2)


def test_threads_that_call_for_the_first_time_trace_and_compile_once(slow):
    f = tg.function(slow, graph=tg.Graph())
    slow.released.clear()
    results = []
    threads = [threading.Thread(target=lambda k=k: results.append(float(f.sync(k)))) for k in (1.0, 2.0, 3.0)]
    for thread in threads:
        thread.start()
    assert slow.begun.wait(60)
    slow.released.set()
    for thread in threads:
        thread.join()
    assert sorted(results) == [2, 4, 6]
    assert (f.traces, f.sync_session().statistics().steps_compiled) == (1, 1)


def test_loops_of_several_threads_trace_once(slow):
    f = tg.function(slow, graph=tg.Graph())
    results = []
    threads = [threading.Thread(target=lambda k=k: results.append(float(asyncio.run(f(k))))) for k in (1.0, 2.0, 3.0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [2, 4, 6]
    assert f.traces == 1


async def test_a_session_compiles_what_several_ask_for_once():
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [None])
        y = tg.reduce_sum(tg.sin(x) * 2.0)
    async with tg.Session(graph) as session:
        steps = await asyncio.gather(*(session.compile(y, [x]) for _ in range(8)))
        assert session.statistics().steps_compiled == 1
        assert float(await steps[-1](np.float32([0]))) == 0

        first, second = asyncio.create_task(session.compile(y)), asyncio.create_task(session.compile(y))
        for task in (first, second):
            with pytest.raises(tg.GraphError, match="must feed"):
                await task


async def test_making_a_step_waits_for_its_compilation_in_a_thread(monkeypatch):
    from tagloom.runtime.steps import compiler

    begun, released, make_compiled_step = threading.Event(), threading.Event(), compiler.make_compiled_step

    def held(*args):
        begun.set()
        assert released.wait(60)
        return make_compiled_step(*args)

    with tg.Graph().as_default() as graph:
        y = tg.sin(tg.constant(0.0)) + 1.0
    async with tg.Session(graph, settings=tg.Settings(fold=False)) as session:
        monkeypatch.setattr(compiler, "make_compiled_step", held)
        compiling = asyncio.create_task(session.compile(y))
        await until(begun)
        threading.Timer(0.01, released.set).start()
        step = session.make_step(y)
        assert float(await session.run(y)) == float(await step()) == float(await (await compiling)()) == 1
        assert session.statistics().steps_compiled == 1


async def test_a_compiling_caller_that_is_cancelled_does_not_fail_the_others(monkeypatch):
    from tagloom.runtime.steps import compiler

    begun, released, make_compiled_step = threading.Event(), threading.Event(), compiler.make_compiled_step

    def held(*args):
        begun.set()
        assert released.wait(60)
        return make_compiled_step(*args)

    monkeypatch.setattr(compiler, "make_compiled_step", held)
    with tg.Graph().as_default() as graph:
        y = tg.constant(1.0) + 1.0
    async with tg.Session(graph) as session:
        first, second = (asyncio.create_task(session.compile(y)) for _ in range(2))
        await until(begun)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        released.set()
        assert float(await (await second)()) == 2
        assert session.statistics().steps_compiled == 1


# ---- beside the event loop


async def test_the_event_loop_goes_on_while_a_function_is_traced(slow):
    f = tg.function(slow, graph=tg.Graph())
    slow.released.clear()
    call = asyncio.create_task(f(1.0))
    await until(slow.begun)  # on the loop, which tracing does not hold
    slow.released.set()
    assert float(await call) == 2
    assert threading.current_thread() not in slow.threads


async def test_what_others_build_in_the_graph_meanwhile_does_not_belong_to_the_trace():
    graph, begun, built = tg.Graph(), threading.Event(), []

    @tg.function(graph=graph)
    def f(x):
        begun.set()
        y = x + 1.0
        for _ in range(200):
            y = tg.sin(y)
        return y

    def build():
        assert begun.wait(60)
        with graph.as_default():
            built.append(tg.constant(3.0, name="mine"))

    thread = threading.Thread(target=build)
    thread.start()
    await f(1.0)
    thread.join()
    assert built[0].op not in f.concrete(1.0).built
    assert all(op.name.startswith("f/") for op in f.concrete(1.0).built)
    async with tg.Session(graph) as session:
        assert float(await session.run(built[0])) == 3


# ---- not too many


async def test_no_more_traces_are_kept_than_asked_for():
    graph = tg.Graph()

    @tg.function(graph=graph, max_traces=3)
    def f(x):
        return tg.reduce_sum(tg.sin(x) * 2.0)

    sizes = []
    for n in range(1, 12):
        assert float(await f(np.zeros(n, np.float32))) == 0
        sizes.append(graph.num_operations)
    session = await f.session()
    assert sizes[3:] == [sizes[2]] * 8
    assert session.statistics().cached_steps <= 3
    assert len(graph.get_operations()) == sizes[2]
    assert f.traces == 11
    f.concrete(np.zeros(11, np.float32))
    assert f.traces == 11  # it was kept
    assert float(await f(np.zeros(1, np.float32))) == 0
    assert f.traces == 12  # it was not


async def test_the_trace_that_was_called_least_recently_goes():
    f = tg.function(lambda x: x * 2.0, graph=tg.Graph(), max_traces=2)
    for n in (1, 2, 1, 3, 1):
        await f(np.zeros(n, np.float32))
    assert f.traces == 3
    await f(np.zeros(2, np.float32))
    assert f.traces == 4


async def test_memory_of_a_forgotten_trace_comes_back():
    import weakref

    f = tg.function(lambda x: tg.reduce_sum(x), graph=tg.Graph(), max_traces=1)
    await f(np.zeros(2, np.float32))
    gone = weakref.ref(f.concrete(np.zeros(2, np.float32)).built[-1])
    await f(np.zeros(3, np.float32))
    await f(np.zeros(4, np.float32))
    gc.collect()
    assert gone() is None


async def test_variables_and_what_uses_a_trace_outlive_it():
    graph = tg.Graph()

    @tg.function(graph=graph, max_traces=1)
    def count(x):
        total = tg.Variable(tg.reduce_sum(tg.zeros_like(x)), name="total")
        return total.assign_add(tg.reduce_sum(x))

    leaked = []

    @tg.function(graph=graph, max_traces=1)
    def leak(x):
        leaked.append(tg.sin(x))
        return x

    assert [float(await count(np.ones(n, np.float32))) for n in (1, 2, 3, 1)] == [1, 3, 6, 7]
    assert await (await count.session()).read_variables() == {"count/total": 7}

    await leak(np.zeros(1, np.float32))
    with graph.as_default():
        outside = tg.identity(leaked[0], name="outside")
    for n in (2, 3):
        await leak(np.zeros(n, np.float32))
    assert graph.get_operation_by_name(outside.op.inputs[0].op.name) is leaked[0].op
    assert tg.Graph.from_text(graph.to_text()).num_operations == graph.num_operations


async def test_steps_and_calls_of_a_trace_that_is_forgotten_end_as_they_would():
    waiting, go = asyncio.Event(), asyncio.Event()

    @tg.function(graph=tg.Graph(), max_traces=1)
    def f(x):
        async def wait(x):
            waiting.set()
            await go.wait()
            return x

        return tg.py_function(wait, [x], "float32", x.shape) * 2.0

    call = asyncio.create_task(f(np.ones(1, np.float32)))
    await waiting.wait()
    step = await f.step(np.ones(1, np.float32))
    go.set()
    await f(np.ones(2, np.float32))
    assert (await call).tolist() == [2]
    assert (await step(np.ones(1, np.float32))).tolist() == [2]


async def test_gradients_forget_traces_too():
    graph = tg.Graph()
    slope = tg.grad(tg.function(lambda x: tg.reduce_sum(x * x), graph=graph, max_traces=2))
    sizes = []
    for n in range(1, 6):
        assert (await slope(np.ones(n, np.float32))).tolist() == [2.0] * n
        sizes.append(graph.num_operations)
    assert sizes[2:] == [sizes[1]] * 3


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, None])
def test_a_number_of_traces_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(tg.GraphError, match="not a number of traces"):
        tg.function(lambda x: x, max_traces=wrong)


async def test_warnings_of_new_traces_get_rarer(caplog):
    f = tg.function(lambda x: x, graph=tg.Graph())
    with caplog.at_level(logging.DEBUG, "tagloom"):
        for n in range(1, 40):
            f.concrete(np.zeros(n))
    told = [r for r in caplog.records if "is traced again" in r.getMessage()]
    assert len(told) == 38
    assert [r.args[1] for r in told if r.levelname == "WARNING"] == [9, 17, 33]


# ---- never on the event loop


class Named(Slow):
    """A slow function with a tensor to stream."""

    def __call__(self, n):
        count = super().__call__(n)
        return tg.while_loop(lambda i, x: i < count, lambda i, x: (i + 1, tg.identity(x * 2, name="power")), [0.0, 1])[
            1
        ]


async def test_a_stream_traces_in_a_thread():
    slow = Named()
    slow.released.clear()
    f = tg.function(slow, graph=tg.Graph())
    stream = f.stream("power", 2.0)
    assert stream.watch is None
    first, result = asyncio.ensure_future(anext(stream)), asyncio.ensure_future(stream.result())
    await until(slow.begun)  # the loop goes on meanwhile
    slow.released.set()
    assert int(await result) == 16
    with pytest.raises(StopAsyncIteration):  # the result drops what was not read
        await first
    assert threading.main_thread() not in slow.threads
    assert [int(x) async for x in f.stream("power", 1.0)] == [2, 4]
    assert f.traces == 1


async def test_a_trace_that_is_asked_for_is_made_in_a_thread(slow):
    slow.released.clear()
    f = tg.function(slow, graph=tg.Graph())
    asked = [asyncio.ensure_future(f.trace(1.0)) for _ in range(3)]
    await until(slow.begun)
    slow.released.set()
    assert {id(each) for each in await asyncio.gather(*asked)} == {id(f.concrete(1.0))}
    assert len(slow.threads) == 1
    assert threading.main_thread() not in slow.threads


@pytest.mark.parametrize("leave", ["close", "drop", "cancel"])
async def test_a_stream_that_is_left_while_it_is_traced_ends(leave):
    slow = Named()
    slow.released.clear()
    f = tg.function(slow, graph=tg.Graph())
    stream = f.stream("power", 2.0)
    reader = asyncio.ensure_future(anext(stream))
    await until(slow.begun)
    if leave == "cancel":
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader
    else:
        if leave == "close":
            await stream.aclose()
        else:
            reader.cancel()
            await asyncio.wait([reader])
            del reader, stream
            gc.collect()
        if leave == "close":
            with pytest.raises(StopAsyncIteration):
                await reader
            with pytest.raises(tg.GraphError, match="no result"):
                await stream.result()
    slow.released.set()
    assert len([x async for x in f.stream("power", 2.0)]) == 4
    assert (await f.session()).statistics().steps_running == 0
