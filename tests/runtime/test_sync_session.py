"""SyncSession: a session in a thread of its own, for scripts."""

import asyncio
import contextvars
import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
import tagloom as tg

NAME = contextvars.ContextVar("name", default="nobody")


@pytest.fixture
def session(graph, executor):
    with tg.SyncSession(graph, executor=executor) as session:
        yield session


@pytest.fixture
def interruptible():
    """Let SIGINT interrupt also where the test run was started in the background, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_the_whole_face(graph, session):
    x = tg.placeholder("float32", [None])
    w = tg.Variable([1.0, 2.0], name="w")
    y = x * w
    session.run(tg.global_variables_initializer())
    assert session.run({"y": y}, {x: [3.0, 4.0]})["y"].tolist() == [3.0, 8.0]
    step = session.make_step([y, y.op], [x])
    assert step([1.0, 1.0])[0].tolist() == [1.0, 2.0]
    session.write_variables({"w": [5.0, 6.0]})
    assert step(np.ones(2, np.float32), timeout=20)[0].tolist() == [5.0, 6.0]
    assert session.read_variables(["w"])["w"].tolist() == [5.0, 6.0]
    assert session.statistics().steps_started == 4
    assert session.graph is graph


def test_errors_come_through_as_they_are(session):
    x = tg.placeholder("float32", [])
    y = tg.check_numerics(x, "x")
    with pytest.raises(tg.GraphError, match="must feed"):
        session.run(y)
    with pytest.raises(tg.OpError, match="x"):
        session.run(y, {x: float("nan")})
    step = session.make_step(y, [x])
    with pytest.raises(TypeError, match="surprise"):
        step(1.0, surprise=1)
    with pytest.raises(tg.GraphError, match="wrong number"):
        step()
    assert step(1.0) == 1.0


def test_a_timeout(session):
    async def wait():
        await asyncio.sleep(60)

    with pytest.raises(tg.StepTimeout):
        session.run(tg.py_function(wait, [], []), timeout=0.01)


def test_the_callers_context_reaches_functions(session):
    name = tg.py_function(NAME.get, [], "string")
    token = NAME.set("somebody")
    try:
        assert str(session.run(name)) == "somebody"
    finally:
        NAME.reset(token)
    assert str(session.run(name)) == "nobody"


def test_an_interrupt_ends_the_step_and_nothing_else(session, interruptible):
    inside, ended = threading.Event(), []

    async def wait():
        try:
            inside.set()
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0)
            ended.append(1)

    result, fine = tg.py_function(wait, [], []), tg.constant(1.0)

    def interrupt():
        inside.wait(20)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        session.run(result)
    assert ended, "the step has ended when the interrupt is raised"
    assert session.statistics().steps_running == 0
    assert session.run(fine) == 1.0


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, asyncio.CancelledError])
def test_an_exit_raised_by_a_kernel_reaches_the_caller_not_the_thread(session, error):
    def leave():
        raise error

    result, fine = tg.py_function(leave, [], []), tg.constant(1.0)
    with pytest.raises(error):
        session.run(result)
    assert session.statistics().steps_running == 0
    assert session.run(fine) == 1.0


def test_many_threads_share_one_session(session):
    x = tg.placeholder("int32", [])
    _, result = tg.while_loop(lambda i, a: i < 20, lambda i, a: (i + 1, a + x), [0, 0])
    results = {}

    def call(k):
        step = session.make_step(result, [x])
        results[k] = [int(step(k)) for _ in range(10)]

    threads = [threading.Thread(target=call, args=[k]) for k in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert results == {k: [20 * k] * 10 for k in range(4)}
    assert session.statistics().cached_steps == 1


def test_closing(graph, executor):
    before = set(threading.enumerate())
    session = tg.SyncSession(graph, executor=executor)
    value = tg.constant(1.0)
    step = session.make_step(value)
    assert step() == 1.0
    session.close()
    session.close()
    for use in (lambda: session.run(value), step, session.read_variables, lambda: session.make_step(value)):
        with pytest.raises(tg.SessionClosed, match="with SyncSession"):
            use()
    assert not [t for t in set(threading.enumerate()) - before if t.name == "tagloom-session"]


async def test_refused_inside_a_running_loop(graph):
    with pytest.raises(tg.TagloomError, match="async with Session"):
        tg.SyncSession(graph)


def test_refused_where_one_made_outside_is_used_inside(session):
    value = tg.constant(1.0)

    async def main():
        with pytest.raises(tg.TagloomError, match="running event loop"):
            session.run(value)

    asyncio.run(main())
    assert session.run(value) == 1.0


@pytest.mark.parametrize(
    "wrong", [lambda s: s.run(3), lambda s: s.run("x:7"), lambda s: s.make_step("y:0"), lambda s: s.run([], {"z:0": 1})]
)
def test_an_error_names_the_callers_line(wrong):
    with tg.Graph().as_default() as graph:
        tg.constant(1.0, name="x")
    with tg.SyncSession(graph) as session:
        with pytest.raises(tg.GraphError) as caught:
            wrong(session)
        assert caught.value.source.file == __file__
        assert session.run("x:0") == 1.0


def test_streams(session):
    inside = []
    n = tg.placeholder("int32", [])

    def body(i):
        inside.append(i * i)
        return i + 1

    y = tg.while_loop(lambda i: i < n, body, [0])
    step = session.make_step(y, [n])
    stream = step.stream(inside[0], 5)
    assert [int(value) for value in stream] == [0, 1, 4, 9, 16]
    assert stream.result() == 5
    with step.stream(inside[0], 10_000, limit=1) as stream:
        assert [int(value) for value, _ in zip(stream, range(3))] == [0, 1, 4]
        assert session.statistics().steps_running == 1
    assert session.statistics().steps_running == 0
    assert list(stream) == []
    for value in step.stream(inside[0], 10_000, limit=1):
        if value == 9:
            break
    while session.statistics().steps_running:
        pass
    left = step.stream(inside[0], 10_000, limit=1)
    assert next(left) == 0
    session.close()
    left.close()
    with pytest.raises(tg.SessionClosed):
        next(left)


AT_EXIT = """
import asyncio, atexit, threading
import tagloom as tg

async def in_thread(x):
    return await asyncio.to_thread(abs, x)  # the loop has threads from now on

@tg.function
def absolute(x):
    return tg.py_function(in_thread, [x], "int32")

assert absolute.sync(-5) == 5

def refuse(thread):
    raise RuntimeError("can't create new thread at interpreter shutdown")

atexit.register(setattr, threading.Thread, "start", refuse)  # as Python does from 3.12 on; before sessions are closed
"""


def test_the_session_of_a_function_is_closed_when_the_interpreter_ends():
    done = subprocess.run([sys.executable, "-c", AT_EXIT], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
