"""The end of a session: drained, forgotten, in a child process; and one event loop at a time."""

import asyncio
import gc
import math
import os
import subprocess
import sys
import textwrap
import threading
import warnings

import pytest
import tagloom as tg

from tests.runtime.tasks import only_this_task

LONG = 20.0  # seconds; never over in these tests


class Gate:
    """A step that stays inside until the gate is open."""

    def __init__(self):
        self.open = asyncio.Event()
        self.inside = 0
        with tg.Graph().as_default() as self.graph:
            self.x = tg.placeholder("float32", [], name="x")
            self.held = tg.py_function(self._hold, [self.x], "float32", output_shapes=[], name="held")
            self.quick = tg.multiply(self.x, 2.0, name="quick")
            self.w = tg.Variable(1.0, name="w")

    async def _hold(self, x):
        self.inside += 1
        await self.open.wait()
        return x

    def run(self, session, x=1.0):
        return asyncio.ensure_future(session.run(self.held, {self.x: x}))

    async def has(self, count):
        while self.inside < count:
            await asyncio.sleep(0)


@pytest.fixture
def gate():
    return Gate()


# ---- drain


async def test_running_steps_come_to_their_end(gate, executor):
    session = tg.Session(gate.graph, executor=executor)
    await session.write_variables({"w": 3.0})
    handle = await session.partial_run_setup(gate.quick, [gate.x])
    steps = [gate.run(session, float(k)) for k in range(3)]
    await gate.has(3)
    closing = asyncio.ensure_future(session.aclose(drain=LONG))
    await asyncio.sleep(0)
    refused = [
        lambda: session.run(gate.quick, {gate.x: 1.0}),
        lambda: session.partial_run_setup(gate.quick, [gate.x]),
        lambda: session.compile(gate.quick, [gate.x]),
    ]
    for use in refused:
        with pytest.raises(tg.SessionClosed, match="closing"):
            await use()
    with pytest.raises(tg.SessionClosed, match="closing"):
        session.watch(gate.quick)
    assert await session.read_variables("w") == {"w": 3.0}
    assert not session.closed
    assert await session.partial_run(handle, gate.quick, {gate.x: 2.0}) == 4.0
    gate.open.set()
    assert await asyncio.gather(*steps) == [0.0, 1.0, 2.0]
    await closing
    assert session.closed
    with pytest.raises(tg.SessionClosed, match="is closed"):
        await session.run(gate.quick, {gate.x: 1.0})
    with pytest.raises(tg.SessionClosed, match="is closed"):
        await session.read_variables()
    assert only_this_task()


@pytest.mark.parametrize("how", ["time", "second", "cancelled"])
async def test_what_ends_a_drain(gate, executor, how):
    session = tg.Session(gate.graph, executor=executor)
    step = gate.run(session)
    await gate.has(1)
    closing = asyncio.ensure_future(session.aclose(drain=0.01 if how == "time" else math.inf))
    await asyncio.sleep(0)
    if how == "second":
        await session.aclose()
    elif how == "cancelled":
        closing.cancel()
    await asyncio.wait([closing])
    assert closing.cancelled() == (how == "cancelled")
    with pytest.raises(tg.SessionClosed, match="while a step was running"):
        await step
    assert session.closed
    assert only_this_task()


async def test_who_waits_for_a_place_is_sent_away_at_once(gate, executor):
    session = tg.Session(gate.graph, executor=executor, max_steps=1)
    inside, waiting = gate.run(session), gate.run(session)
    await gate.has(1)
    closing = asyncio.ensure_future(session.aclose(drain=LONG))
    with pytest.raises(tg.SessionClosed, match="while a step waited"):
        await waiting
    assert not inside.done()
    gate.open.set()
    assert await inside == 1.0
    await closing


async def test_a_stream_goes_on_while_its_session_drains(graph, executor):
    inside = []
    y = tg.while_loop(lambda i: i < 50, lambda i: inside.append(i * i) or i + 1, [0])
    session = tg.Session(graph, executor=executor)
    stream = session.make_step(y).stream(inside[0], limit=1)
    assert await anext(stream) == 0
    closing = asyncio.ensure_future(session.aclose(drain=LONG))
    assert [int(value) async for value in stream] == [i * i for i in range(1, 50)]
    assert await stream.result() == 50
    await closing


def test_the_synchronous_face_drains(executor):
    inside, go_on = threading.Event(), threading.Event()

    def hold():
        inside.set()
        go_on.wait(LONG)
        return 2.0

    with tg.Graph().as_default() as graph:
        held = tg.py_function(hold, [], "float64", blocking=True)
    session, results = tg.SyncSession(graph, executor=executor), []
    stepping = threading.Thread(target=lambda: results.append(float(session.run(held))))
    stepping.start()
    inside.wait(LONG)
    closing = threading.Thread(target=session.close, kwargs={"drain": LONG})
    closing.start()
    go_on.set()
    for each in (stepping, closing):
        each.join()
    assert results == [2.0]
    assert session.closed


async def test_seconds_are_numbers(gate):
    x = {gate.x: 1.0}
    async with tg.Session(gate.graph) as session:
        step = session.make_step(gate.quick, [gate.x])
        async with await session.partial_run_setup([gate.quick, gate.x], [gate.x]) as handle:
            for wrong in ("a", float("nan"), -1, -math.inf, True, [1.0]):
                uses = [
                    session.run(gate.quick, x, timeout=wrong),
                    step(1.0, timeout=wrong),
                    session.partial_run(handle, gate.quick, x, timeout=wrong),
                    session.aclose(drain=wrong),
                ]
                for use in uses:
                    with pytest.raises(tg.GraphError, match="no number of seconds"):
                        await use
                with pytest.raises(tg.GraphError, match="no number of seconds"):
                    session.timeout = wrong
                with pytest.raises(tg.GraphError, match="no number of seconds"):
                    tg.Session(gate.graph, timeout=wrong)
        assert session.timeout is None
        for fine in (math.inf, LONG, 20):
            session.timeout = fine
            assert await step(1.0, timeout=fine) == await step(1.0) == 2.0


async def test_no_time_is_over_at_once(gate, executor):
    async with tg.Session(gate.graph, executor=executor, timeout=0) as session:
        step = session.make_step(gate.quick, [gate.x])
        for use in (step(1.0), step(1.0, timeout=0.0), session.run(gate.held, {gate.x: 1.0})):
            with pytest.raises(tg.StepTimeout):
                await use
        assert gate.inside == 0
        assert session.statistics().steps_timed_out == 3
        assert await step(1.0, timeout=LONG) == 2.0


# ---- forgotten


async def test_an_unclosed_session_warns(gate, executor):
    session = tg.Session(gate.graph, executor=executor)
    assert await session.run(gate.quick, {gate.x: 1.0}) == 2.0
    references = [session]
    del session
    with pytest.warns(ResourceWarning, match="unclosed <Session on cpu:0, open: 1 steps started, 0 running>"):
        references.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        session = tg.Session(gate.graph, executor=executor)
        session.make_step(gate.quick, [gate.x])
        del session  # has opened nothing that must be closed
        async with tg.Session(gate.graph, executor=executor) as session:
            await session.run(gate.quick, {gate.x: 1.0})
        del session
        with pytest.raises(tg.GraphError):
            tg.Session(gate.graph, executor="none")
        gc.collect()


def test_an_unclosed_synchronous_session_warns_and_ends_its_thread(gate):
    before = set(threading.enumerate())
    session = tg.SyncSession(gate.graph)
    assert session.run(gate.quick, {gate.x: 1.0}) == 2.0
    (thread,) = [each for each in threading.enumerate() if each.name == "tagloom-session" and each not in before]
    references = [session]
    del session
    with pytest.warns(ResourceWarning, match="unclosed <SyncSession on cpu:0, open"):
        references.clear()
    thread.join(LONG)
    assert not thread.is_alive()
    with pytest.raises(tg.GraphError):
        tg.SyncSession(gate.graph, executor="none")


# ---- the wrong block


async def test_the_blocks_of_the_two_faces(gate):
    with pytest.raises(tg.TagloomError, match="async with Session"), tg.Session(gate.graph):
        pass
    with pytest.raises(tg.GraphError, match="runs steps of a graph"):
        tg.Session(gate.quick)


def test_a_synchronous_session_is_not_awaited(gate):
    async def wrong():
        async with session:
            pass

    with tg.SyncSession(gate.graph) as session, pytest.raises(tg.TagloomError, match="not awaited"):
        wrong().send(None)


# ---- another loop, no loop


@pytest.mark.parametrize("limit", [None, 1])
def test_one_loop_at_a_time(gate, executor, limit):
    inside, go_on = threading.Event(), threading.Event()

    def hold(x):
        inside.set()
        go_on.wait(LONG)
        return x

    with gate.graph.as_default():
        held = tg.py_function(hold, [gate.x], "float32", blocking=True)
    feeds, results = {gate.x: 1.0}, []
    session = tg.Session(gate.graph, executor=executor, max_steps=limit)
    other = threading.Thread(target=lambda: results.append(asyncio.run(session.run(held, feeds))))
    other.start()
    inside.wait(LONG)
    for use in (lambda: session.run(gate.quick, feeds), session.aclose):
        with pytest.raises(tg.TagloomError, match="one event loop at a time"):
            asyncio.run(use())
    go_on.set()
    other.join()
    assert results == [1.0]
    assert asyncio.run(session.run(gate.quick, feeds)) == 2.0
    asyncio.run(session.aclose())


def test_no_loop_of_asyncio(gate):
    """What trio's loop looks like from here."""
    session = tg.Session(gate.graph)
    for use in (session.run(gate.quick, {gate.x: 1.0}), session.__aenter__()):
        with pytest.raises(tg.TagloomError, match="no asyncio event loop"):
            use.send(None)


# ---- fork

CHILD = """
    import asyncio, os, sys
    import numpy as np
    import tagloom as tg

    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [None, None])
        y = tg.matmul(x, x)
    big, small = np.ones((600, 600), np.float32), np.ones((1, 1), np.float32)

    async def used():
        session = tg.Session(graph)
        await session.run(y, {x: big})
        return session

    def refused(use):
        try:
            use()
        except tg.SessionClosed as error:
            assert f"opened in process {os.getppid()}" in str(error), error
            assert "after the fork" in str(error) or "SyncSession" in str(error)
        else:
            raise AssertionError("not refused")

    session, sync = asyncio.run(used()), tg.SyncSession(graph)
    sync.run(y, {x: big})
    step = session.make_step(y, [x])
    child = os.fork()
    if not child:
        refused(lambda: asyncio.run(session.run(y, {x: small})))
        refused(lambda: asyncio.run(step(small)))
        refused(lambda: asyncio.run(session.read_variables()))
        refused(lambda: session.make_step(y, [x]))
        refused(lambda: sync.run(y, {x: small}))
        asyncio.run(session.aclose())
        sync.close()
        assert session.statistics().steps_started == 1
        assert session.closed and sync.closed

        async def anew():
            async with tg.Session(graph) as own:
                return await own.run(y, {x: big})

        assert asyncio.run(anew())[0, 0] == 600.0
        with tg.SyncSession(graph) as own:
            assert own.run(y, {x: big})[0, 0] == 600.0
        del session, sync, step
        sys.exit(7)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 7, status
    assert asyncio.run(session.run(y, {x: big}))[0, 0] == 600.0
    assert sync.run(y, {x: big})[0, 0] == 600.0
    asyncio.run(session.aclose())
    sync.close()
    print("fine")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_child_is_told(tmp_path):
    script = tmp_path / "forks.py"
    script.write_text(textwrap.dedent(CHILD))
    found = subprocess.run(
        [sys.executable, "-W", "error", "-W", "ignore::DeprecationWarning", script],
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert (found.stdout, found.stderr) == ("fine\n", "")
