"""Functions that block: in threads, with the caller's context, and what becomes of them when their step ends."""

import asyncio
import contextvars
import logging
import threading

import pytest
import tagloom as tg
import uvloop

from tests.runtime.tasks import only_this_task
from tests.support.waiting import until

NAME = contextvars.ContextVar("name", default="none")
LONG = 20.0  # seconds; never over in these tests


class Latch:
    """A blocking function that the test holds: says when it is inside, returns when released."""

    def __init__(self):
        self.inside, self.released, self.left = (threading.Event() for _ in range(3))

    def __call__(self, *values):
        self.inside.set()
        try:
            assert self.released.wait(LONG)
        finally:
            self.left.set()
        return values[0] if values else 1.0

    async def entered(self):
        await until(self.inside.is_set)


@pytest.fixture
def latch():
    latch = Latch()
    yield latch
    latch.released.set()


async def test_it_runs_in_another_thread_with_the_callers_context(graph, executor):
    def describe():
        return f"{NAME.get()} {threading.current_thread() is threading.main_thread()}"

    result = tg.py_function(describe, [], "string", blocking=True)
    async with tg.Session(graph, executor=executor) as session:

        async def request(name):
            NAME.set(name)
            return str(await session.run(result))

        assert await asyncio.gather(request("a"), request("b")) == ["a False", "b False"]
        assert str(await session.run(result)) == "none False"


async def test_the_loop_and_other_operations_go_on(graph, executor, latch):
    others = []
    x = tg.placeholder("float32", [])
    slow = tg.py_function(latch, [x], "float32", blocking=True, stateful=False)
    quick = tg.py_function(lambda v: others.append(float(v)) or v, [x], "float32", stateful=False)
    async with tg.Session(graph, executor=executor) as session:
        step = asyncio.ensure_future(session.run([slow, quick], feeds={x: 3.0}))
        await latch.entered()
        await until(lambda: others == [3.0])
        assert await session.run(quick, feeds={x: 4.0}) == 4.0
        assert not step.done()
        latch.released.set()
        assert [float(v) for v in await step] == [3.0, 3.0]
        assert session.statistics().orphaned == 0


async def test_iterations_overlap_and_their_values_are_in_order(graph, executor):
    barrier = threading.Barrier(4)

    def meet(i):
        barrier.wait(LONG)
        return i * 10

    array = tg.TensorArray("int32", 8)
    _, array = tg.while_loop(
        lambda i, a: i < 8,
        lambda i, a: (
            i + 1,
            a.write(i, tg.py_function(meet, [i], "int32", output_shapes=[], blocking=True, stateful=False)),
        ),
        [0, array],
        parallel_iterations=4,
    )
    result = array.stack()
    async with tg.Session(graph, executor=executor, settings=tg.Settings(blocking_threads=4)) as session:
        assert (await session.run(result, timeout=LONG)).tolist() == [10 * i for i in range(8)]


async def test_waiting_calls_are_listed_by_name(graph, latch):
    result = tg.py_function(latch, [], "float32", name="slow", blocking=True)
    async with tg.Session(graph) as session:
        step = asyncio.ensure_future(session.run(result))
        await latch.entered()
        assert [t.get_name() for t in asyncio.all_tasks() if t.get_name().startswith("slow@")] == ["slow@root/0"]
        latch.released.set()
        await step


async def cancel(step):
    step.cancel()
    with pytest.raises(asyncio.CancelledError):
        await step


async def time_out(step):
    with pytest.raises(tg.StepTimeout, match="slow@root"):
        await step


@pytest.mark.rule(46)
@pytest.mark.parametrize(("end", "timeout"), [(cancel, None), (time_out, 0.3)])
async def test_it_finishes_in_the_background_and_is_counted(graph, executor, latch, end, timeout):
    result = tg.py_function(latch, [], "float32", name="slow", blocking=True)
    quick = tg.constant(1.0) + 1.0
    async with tg.Session(graph, executor=executor) as session:
        step = asyncio.ensure_future(session.run(result, timeout=timeout))
        await latch.entered()
        await end(step)
        assert not latch.left.is_set()
        assert (session.statistics().orphaned, session.statistics().steps_running) == (1, 0)
        assert only_this_task()
        assert await session.run(quick) == 2.0
        latch.released.set()
        await until(lambda: session.statistics().orphaned == 0)
        assert latch.left.is_set()


async def test_an_error_elsewhere_does_not_wait_for_it(graph, executor, latch):
    async def fail():
        await latch.entered()
        raise ValueError("no")

    fetches = [tg.py_function(latch, [], "float32", stateful=False, blocking=True), tg.py_function(fail, [], [])]
    async with tg.Session(graph, executor=executor) as session:
        with pytest.raises(tg.OpError, match="no"):
            await session.run(fetches)
        assert session.statistics().orphaned == 1
        latch.released.set()


async def test_a_call_that_has_not_begun_is_never_made(graph, latch):
    calls = []
    slow = tg.py_function(latch, [], "float32", blocking=True)
    queued = tg.py_function(lambda: calls.append(1), [], [], blocking=True)
    async with tg.Session(graph, settings=tg.Settings(blocking_threads=1)) as session:
        first = asyncio.ensure_future(session.run(slow))
        await latch.entered()
        second = asyncio.ensure_future(session.run(queued))
        for _ in range(3):
            await asyncio.sleep(0)
        await cancel(second)
        await asyncio.sleep(0)
        assert session.statistics().orphaned == 0
        latch.released.set()
        await first
        await session.run(slow)
    assert calls == []


async def test_closing_waits_for_it(graph, latch):
    result = tg.py_function(latch, [], "float32", blocking=True)
    session = tg.Session(graph)
    step = asyncio.ensure_future(session.run(result))
    await latch.entered()
    closing = asyncio.ensure_future(session.aclose())
    with pytest.raises(tg.SessionClosed):
        await step
    assert not closing.done()
    assert session.statistics().orphaned == 1
    latch.released.set()
    await closing
    assert latch.left.is_set()
    assert session.statistics().orphaned == 0
    await session.aclose()


async def test_closing_waits_a_bounded_time(graph, latch, caplog):
    result = tg.py_function(latch, [], "float32", blocking=True)
    session = tg.Session(graph, settings=tg.Settings(close_seconds=0.01))
    step = asyncio.ensure_future(session.run(result))
    await latch.entered()
    with caplog.at_level(logging.WARNING, "tagloom"):
        await session.aclose()
    assert "1 blocking functions still run" in caplog.text
    assert session.statistics().orphaned == 1
    with pytest.raises(tg.SessionClosed):
        await step
    latch.released.set()
    await until(lambda: session.statistics().orphaned == 0)


async def test_no_thread_outlives_a_closed_session(graph):
    def threads():
        return [thread for thread in threading.enumerate() if thread.name.startswith("tagloom-blocking")]

    await until(lambda: not threads())
    result = tg.py_function(lambda: 1.0, [], "float32", blocking=True)
    async with tg.Session(graph) as session:
        await asyncio.gather(*(session.run(result) for _ in range(20)))
        assert 1 <= len(threads()) <= tg.Settings().blocking_threads
    assert not threads()  # nor what their last calls held


@pytest.mark.parametrize("factory", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_one_that_outlives_its_loop_does_no_harm(factory, caplog, executor):
    latch = Latch()
    with tg.Graph().as_default() as graph:
        result = tg.py_function(latch, [], "float32", blocking=True)
    session = tg.Session(graph, executor=executor)

    async def main():
        main.step = asyncio.ensure_future(session.run(result))
        await latch.entered()

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main())
    assert main.step.cancelled()
    assert session.statistics().orphaned == 1
    latch.released.set()
    asyncio.run(session.aclose())
    assert session.statistics().orphaned == 0
    assert caplog.text == ""


@pytest.mark.parametrize("error", [ValueError("no"), StopIteration(3), asyncio.CancelledError("own")])
async def test_what_it_raises_fails_the_step(graph, executor, error):
    def fail():
        raise error

    result = tg.py_function(fail, [], [], blocking=True)
    wanted = asyncio.CancelledError if isinstance(error, asyncio.CancelledError) else tg.OpError
    async with tg.Session(graph, executor=executor) as session:
        with pytest.raises(wanted):
            await asyncio.wait_for(session.run(result), LONG)


async def test_its_result_is_checked(graph, executor):
    result = tg.py_function(lambda: "text", [], "float32", blocking=True)
    async with tg.Session(graph, executor=executor) as session:
        with pytest.raises(tg.OpError, match="another dtype"):
            await session.run(result)


def test_an_async_function_does_not_block(graph):
    async def wait():
        pass

    with pytest.raises(tg.GraphError, match="does not block"):
        tg.py_function(wait, [], [], blocking=True)


def test_scripts_may_block_too(graph):
    result = tg.py_function(lambda: 2.0, [], "float32", blocking=True)
    with tg.SyncSession(graph) as session:
        assert session.run(result) == 2.0
