"""Cancelled, timed out or closed: a step ends whole, leaves nothing, and the session goes on."""

import asyncio
import math
import random

import anyio
import numpy as np
import pytest
import tagloom as tg
from tagloom.kernels.scheduler.state import live_counts

from tests.runtime.tasks import only_this_task


class Program:
    """Loops with asynchronous calls inside, updates of a variable, and something quick to run afterwards."""

    def __init__(self):
        self.inside = 0
        self.w = tg.Variable(np.zeros(4, np.float32), name="w")
        self.init = tg.global_variables_initializer()
        self.quick = tg.constant(20.0) + tg.constant(1.0)
        add = tg.py_function(self._pass, [tg.constant(np.ones(4, np.float32))], "float32", output_shapes=[4])
        self.update = self.w.assign_add(add)
        _, self.outer = tg.while_loop(lambda i, a: i < 5, lambda i, a: (i + 1, a + self._inner(i)), [0, 0.0])

    def _inner(self, i):
        def body(j, a):
            return j + 1, a + tg.py_function(self._call, [i, j], "float32", output_shapes=[])

        return tg.while_loop(lambda j, a: j < 4, body, [0, 0.0])[1]

    async def _call(self, i, j):
        self.inside += 1
        try:
            for _ in range(int(i + j) % 3):
                await asyncio.sleep(0)
            return np.float32(1)
        finally:
            self.inside -= 1

    async def _pass(self, value):
        await asyncio.sleep(0)
        return value * 1.0

    @property
    def fetches(self):
        return [self.outer, self.update]


@pytest.fixture
def program(graph):
    return Program()


async def assert_clean(session, program):
    """Nothing is left of any step, and the session works."""
    assert session.statistics().steps_running == 0
    assert program.inside == 0
    counts = live_counts()
    assert not any(counts[key] for key in ("frames", "iterations", "values"))
    assert only_this_task()
    assert await session.run(program.quick) == 21.0
    values = (await session.read_variables())["w"]
    assert (values == values[0]).all(), "an update is all or nothing"


@pytest.mark.rule(45, 46)
async def test_cancelled_at_every_turn(program, graph, executor):
    """Cancel after n turns of the loop, for every n until the step ends by itself."""
    async with tg.Session(graph, executor=executor) as session:
        await session.run(program.init)
        for turns in range(1000):
            step = asyncio.ensure_future(session.run(program.fetches))
            for _ in range(turns):
                await asyncio.sleep(0)
            if step.done():
                assert step.result()[0] == 20.0
                break
            step.cancel()
            with pytest.raises(asyncio.CancelledError):
                await step
            await assert_clean(session, program)
        assert turns > 5


async def test_cancelled_twice_it_still_cleans_up(graph, executor):
    inside = []

    async def slow_to_end():
        inside.append(1)
        try:
            await asyncio.sleep(60)
        finally:
            for _ in range(5):
                await asyncio.sleep(0)
            inside.pop()

    result = tg.py_function(slow_to_end, [], [])
    async with tg.Session(graph, executor=executor) as session:
        step = asyncio.ensure_future(session.run(result))
        while not inside:
            await asyncio.sleep(0)
        for _ in range(3):
            step.cancel("again")
            await asyncio.sleep(0)
        assert not step.done()
        with pytest.raises(asyncio.CancelledError):
            await step
        assert not inside
        assert only_this_task()


async def test_random_instants_among_many_steps(program, graph):
    """Some are cancelled, some time out, some end; those that end are right."""
    chance = random.Random(7)
    async with tg.Session(graph) as session:
        await session.run(program.init)

        async def one(k):
            timeout = chance.choice([None, None, 0.0])
            step = asyncio.ensure_future(session.run(program.fetches, timeout=timeout))
            for _ in range(chance.randrange(30)):
                await asyncio.sleep(0)
            if k % 2:
                step.cancel()
            (result,) = await asyncio.gather(step, return_exceptions=True)
            if isinstance(result, BaseException):
                assert isinstance(result, (asyncio.CancelledError, tg.StepTimeout))
                return 0
            assert result[0] == 20.0
            return 1

        ended = sum(await asyncio.gather(*(one(k) for k in range(40))))
        assert 0 < ended < 40
        await assert_clean(session, program)


# ---- scopes around a step


def endless():
    return tg.while_loop(lambda i: i >= 0, lambda i: tg.maximum(i + 1, 0) % 1000, [tg.constant(0)])


def waiting():
    async def wait():
        await asyncio.sleep(60)

    return tg.py_function(wait, [], [])


STUCK = [endless, waiting]


@pytest.mark.parametrize("stuck", STUCK)
async def test_asyncio_timeout_around_a_step_stays_a_timeout(graph, executor, stuck):
    result = stuck()
    async with tg.Session(graph, executor=executor) as session:
        for timeout in (None, 60):
            with pytest.raises(TimeoutError) as caught:
                async with asyncio.timeout(0.01):
                    await session.run(result, timeout=timeout)
            assert not isinstance(caught.value, tg.TagloomError)
            assert asyncio.current_task().cancelling() == 0
            assert session.statistics().steps_running == 0
        assert only_this_task()


@pytest.mark.parametrize("stuck", STUCK)
async def test_a_task_group_ends_its_steps(graph, executor, stuck):
    result = stuck()

    async def fail():
        await asyncio.sleep(0)
        raise ValueError("another task")

    async def together():
        async with asyncio.TaskGroup() as group:
            steps.extend(group.create_task(session.run(result)) for _ in range(3))
            group.create_task(fail())

    steps = []
    async with tg.Session(graph, executor=executor) as session:
        with pytest.raises(ExceptionGroup) as caught:
            await together()
        assert [type(e) for e in caught.value.exceptions] == [ValueError]
        assert all(step.cancelled() for step in steps)
        assert only_this_task()


@pytest.mark.parametrize("stuck", STUCK)
async def test_an_anyio_scope_ends_a_step(graph, executor, stuck):
    """Scopes cancel again and again, and know their own cancellation by its message."""
    result = stuck()
    async with tg.Session(graph, executor=executor) as session:
        with anyio.move_on_after(0.01) as scope:
            await session.run(result)
        assert scope.cancelled_caught
        with pytest.raises(TimeoutError), anyio.fail_after(0.01):
            await session.run(result, timeout=60)
        async with anyio.create_task_group() as group:
            group.start_soon(session.run, result)
            await anyio.sleep(0)
            group.cancel_scope.cancel()
        assert only_this_task()
        assert asyncio.current_task().cancelling() == 0


async def test_an_anyio_scope_outlasts_a_function_that_is_slow_to_end(graph, executor):
    ended = []

    async def shielded():
        try:
            await anyio.sleep(60)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.01)
            ended.append(1)

    result = tg.py_function(shielded, [], [])
    async with tg.Session(graph, executor=executor) as session:
        with anyio.move_on_after(0.01) as scope:
            await session.run(result)
        assert scope.cancelled_caught
        assert ended
        assert only_this_task()


async def test_leaving_the_session_by_an_error_ends_its_steps(graph, executor):
    result, steps = waiting(), []

    async def leave():
        async with tg.Session(graph, executor=executor) as session:
            steps.append(asyncio.ensure_future(session.run(result)))
            await asyncio.sleep(0)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await leave()
    with pytest.raises(tg.SessionClosed):
        await steps[0]
    assert only_this_task()


# ---- timeouts


@pytest.mark.rule(38, 47)
@pytest.mark.parametrize("stuck", STUCK)
async def test_a_timeout_of_its_own(graph, executor, stuck):
    result, fine = stuck(), tg.constant(1.0)
    async with tg.Session(graph, executor=executor, timeout=0.02) as session:
        for timeout in (None, 0.01):
            with pytest.raises(tg.StepTimeout, match=r"did not end within 0\.0") as caught:
                await session.run(result, timeout=timeout)
            assert isinstance(caught.value, TimeoutError)
            assert caught.value.source.file == __file__
            assert asyncio.current_task().cancelling() == 0
        assert await session.run(fine) == 1.0
        assert await session.make_step(fine)(timeout=60) == 1.0
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(session.run(result, timeout=math.inf), 0.05)
        assert only_this_task()


@pytest.mark.rule(50)
async def test_a_timeout_says_what_was_going_on(graph, executor):
    async def lookup(i):
        await asyncio.sleep(60)

    _, result = tg.while_loop(
        lambda i, a: i < 2,
        lambda i, a: (
            i + 1,
            a + tg.py_function(lookup, [i], "float32", output_shapes=[], name="lookup", stateful=False),
        ),
        [0, 0.0],
        name="rows",
    )
    async with tg.Session(graph, executor=executor) as session:
        with pytest.raises(
            tg.StepTimeout, match=r"still waiting for lookup@root/0/rows/0, lookup@root/0/rows/1"
        ) as caught:
            await session.run(result, timeout=0.5)
    (note,) = caught.value.__notes__
    assert "lookup" in note
    assert "is active" in note


@pytest.mark.rule(50)
async def test_the_dump_lists_what_waits_and_what_it_holds(graph):
    async def lookup():
        await asyncio.sleep(60)

    x = tg.placeholder("float32", [3], name="x")
    result = tg.add(x, tg.py_function(lookup, [], "float32", output_shapes=[3]), name="sum")
    async with tg.Session(graph) as session:
        with pytest.raises(tg.StepTimeout) as caught:
            await session.run(result, feeds={x: [1, 2, 3]}, timeout=0.01)
    (note,) = caught.value.__notes__
    assert "root/0: sum waits, holding (float32[3], -)" in note.splitlines()
    assert "root/0: 12 bytes held" in note.splitlines()


async def test_a_timeout_waits_for_what_is_in_flight(graph, executor):
    ended = []

    async def stubborn():
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.02)
            ended.append(1)

    result = tg.py_function(stubborn, [], [])
    async with tg.Session(graph, executor=executor) as session:
        with pytest.raises(tg.StepTimeout):
            await session.run(result, timeout=0.01)
        assert ended


async def test_a_timeout_during_a_cancellation_does_not_hide_it(graph, executor):
    begun = asyncio.Event()

    async def stubborn():
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.05)

    result = tg.py_function(stubborn, [], [])
    async with tg.Session(graph, executor=executor) as session:
        step = asyncio.ensure_future(session.run(result, timeout=0.03))
        await begun.wait()
        step.cancel()
        with pytest.raises(asyncio.CancelledError):
            await step


# ---- closing


async def test_closing_ends_running_steps(graph, executor):
    results = [endless(), waiting()]
    session = tg.Session(graph, executor=executor)
    steps = [asyncio.ensure_future(session.run(result)) for result in results * 2]
    for _ in range(3):
        await asyncio.sleep(0)
    await asyncio.gather(session.aclose(), session.aclose())
    assert session.statistics().steps_running == 0
    for step in steps:
        with pytest.raises(tg.SessionClosed, match="while a step was running"):
            await step
    assert only_this_task()
    await session.aclose()


async def test_a_closed_session_refuses_everything(program, graph, executor):
    async with tg.Session(graph, executor=executor) as session:
        step = session.make_step(program.quick)
        assert await step() == 21.0
    uses = [
        lambda: session.run(program.quick),
        step,
        session.read_variables,
        lambda: session.write_variables({"w": np.zeros(4, np.float32)}),
    ]
    for use in uses:
        with pytest.raises(tg.SessionClosed, match="async with Session"):
            await use()
    with pytest.raises(tg.SessionClosed):
        session.make_step(program.quick)


async def test_a_step_that_closes_its_own_session(graph, executor):
    session = tg.Session(graph, executor=executor)

    async def shut():
        await session.aclose()

    with pytest.raises(tg.SessionClosed):
        await session.run(tg.py_function(shut, [], []), timeout=20)
    assert only_this_task()


async def test_a_cancelled_close_still_closes(graph):
    async def stubborn():
        try:
            await asyncio.sleep(60)
        finally:
            for _ in range(5):
                await asyncio.sleep(0)

    session = tg.Session(graph)
    step = asyncio.ensure_future(session.run(tg.py_function(stubborn, [], [])))
    for _ in range(3):
        await asyncio.sleep(0)
    closing = asyncio.ensure_future(session.aclose())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    with pytest.raises(tg.SessionClosed):
        await step
    assert session.statistics().steps_running == 0
    assert session.statistics().cached_steps == 0
