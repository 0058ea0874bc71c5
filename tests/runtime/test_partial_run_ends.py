"""How partial runs end, and that nothing is left of them; with what else a session offers."""

import asyncio
import gc
import weakref

import pytest
import tagloom as tg

from tests.runtime.sums import Sums, counted, gated, raises, turns
from tests.runtime.tasks import only_this_task


@pytest.fixture
async def session(graph, executor):
    async with tg.Session(graph, executor=executor) as session:
        yield session


@pytest.fixture
def sums(graph):
    """a + b, and (a + b) * c."""
    return Sums()


@pytest.mark.rule(125)
async def test_with_the_last_fetch_it_has_ended(session, sums):
    handle = await session.partial_run_setup([sums.sum], sums.feeds)
    await session.partial_run(handle, sums.sum, {sums.a: 1, sums.b: 2})
    assert session.statistics().steps_running == 0
    assert only_this_task()
    for again in (lambda: session.partial_run(handle, sums.sum), lambda: session.partial_run(handle, [], {sums.c: 1})):
        with raises("has ended") as caught:
            await again()
        assert caught.value.got == "all its fetches were taken"


@pytest.mark.rule(125)
async def test_values_outlive_the_step(session, sums):
    handle = await session.partial_run_setup([sums.sum, sums.product], sums.feeds)
    await session.partial_run(handle, [], {sums.a: 1, sums.b: 2, sums.c: 5})
    await turns()
    assert session.statistics().steps_running == 0
    assert not handle.done
    assert await session.partial_run(handle, sums.product) == 15
    assert await session.partial_run(handle, sums.sum) == 3


@pytest.mark.rule(125)
async def test_an_error_ends_it_for_all_parts(session, sums):
    def fail(x):
        raise ValueError("no luck")

    failing = tg.py_function(fail, [sums.c], "float32", name="failing", stateful=False)
    stuck = gated(asyncio.Event(), sums.a)
    handle = await session.partial_run_setup([sums.sum, stuck, failing], sums.feeds)
    waiting = asyncio.create_task(session.partial_run(handle, [sums.sum, stuck], {sums.a: 1, sums.b: 2}))
    await turns()
    for part in (session.partial_run(handle, failing, {sums.c: 1}), waiting):
        with pytest.raises(tg.OpError, match="failing failed: ValueError: no luck"):
            await part
    with raises("has ended") as caught:
        await session.partial_run(handle, sums.sum)
    assert "no luck" in caught.value.got
    assert handle.done
    assert only_this_task()
    assert await session.run(sums.sum, {sums.a: 1, sums.b: 2}) == 3


@pytest.mark.rule(125)
async def test_an_error_between_parts_is_told_by_the_next(session, sums):
    bad = tg.py_function(lambda: 1 / 0, [], "float32")
    handle = await session.partial_run_setup([bad, sums.sum], sums.feeds)
    await turns()
    assert handle.done
    with pytest.raises(tg.OpError, match="ZeroDivisionError"):
        await session.partial_run(handle, sums.sum, {sums.a: 1, sums.b: 2})
    with raises("has ended"):
        await session.partial_run(handle, sums.sum, {sums.a: 1, sums.b: 2})


@pytest.mark.rule(125)
async def test_a_dead_fetch_is_noticed_while_the_step_runs(session, sums):
    low, high = tg.switch(sums.sum, sums.sum > 100.0, name="choice")
    dead = tg.identity(high, name="dead")
    handle = await session.partial_run_setup([low, dead, sums.product], sums.feeds)
    with pytest.raises(tg.DeadFetchError, match="the fetched value of dead:0 is dead") as caught:
        await session.partial_run(handle, dead, {sums.a: 1, sums.b: 2})
    assert "the Switch choice, whose predicate was False" in caught.value.got
    assert handle.done
    assert only_this_task()


@pytest.mark.rule(125)
async def test_a_dead_operation_is_as_good_as_done(session, sums):
    _, high = tg.switch(sums.sum, sums.sum > 100.0)
    calls = []
    dead = counted(calls, high).op
    handle = await session.partial_run_setup([dead], sums.feeds)
    assert await session.partial_run(handle, dead, {sums.a: 1, sums.b: 2}) is None
    assert calls == []


@pytest.mark.rule(125)
async def test_a_cancelled_part_may_be_run_again(session, sums):
    gate = asyncio.Event()
    slow = gated(gate, sums.sum)
    handle = await session.partial_run_setup([slow, sums.product], sums.feeds)
    waiting = asyncio.create_task(session.partial_run(handle, slow, {sums.a: 1, sums.b: 2}))
    await turns()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    with raises("a:0 has already been fed"):
        await session.partial_run(handle, slow, {sums.a: 1})
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await session.partial_run(handle, slow)
    gate.set()
    assert await session.partial_run(handle, sums.product, {sums.c: 5}) == 15
    assert await session.partial_run(handle, slow) == 3


@pytest.mark.rule(125)
async def test_a_part_cancelled_when_its_value_is_there_already(session, sums):
    gate = asyncio.Event()
    slow = gated(gate, sums.sum)
    handle = await session.partial_run_setup([slow], sums.feeds)
    waiting = asyncio.create_task(session.partial_run(handle, slow, {sums.a: 1, sums.b: 2}))
    for count in range(12):  # at whatever turn of the loop
        waiting = asyncio.create_task(session.partial_run(handle, slow)) if count else waiting
        await asyncio.sleep(0)
        gate.set()
        await turns(count % 4)
        if waiting.done():
            break
        waiting.cancel()
        await asyncio.wait([waiting])
    assert (
        await waiting if waiting.done() and not waiting.cancelled() else await session.partial_run(handle, slow)
    ) == 3


@pytest.mark.rule(47, 125)
async def test_a_timeout_ends_the_step(session, sums):
    stuck = gated(asyncio.Event(), sums.sum)
    handle = await session.partial_run_setup([stuck, sums.product], sums.feeds)
    with pytest.raises(tg.StepTimeout, match="a part of the step did not end within 0") as caught:
        await session.partial_run(handle, stuck, {sums.a: 1, sums.b: 2}, timeout=0.01)
    assert caught.value.got == "still waiting for wait@root/0"
    with raises("has ended"):
        await session.partial_run(handle, sums.product, {sums.c: 1})
    assert only_this_task()


@pytest.mark.rule(47, 125)
async def test_the_timeout_of_the_session_is_for_each_part(graph, executor, sums):
    async with tg.Session(graph, executor=executor, timeout=0.01) as session:
        handle = await session.partial_run_setup([sums.sum, gated(asyncio.Event(), sums.c)], sums.feeds)
        await asyncio.get_running_loop().run_in_executor(None, lambda: None)
        assert await session.partial_run(handle, sums.sum, {sums.a: 1, sums.b: 2}) == 3
        with pytest.raises(tg.StepTimeout):
            await session.partial_run(handle, "wait:0", {sums.c: 1})


@pytest.mark.rule(125)
async def test_leaving_it_ends_the_step(session, sums):
    stuck = gated(asyncio.Event(), sums.sum)
    async with await session.partial_run_setup([stuck, sums.product], sums.feeds) as handle:
        waiting = asyncio.create_task(session.partial_run(handle, stuck, {sums.a: 1, sums.b: 2}))
        await turns()
    with pytest.raises(tg.SessionClosed, match="this partial run was closed"):
        await waiting
    with pytest.raises(tg.SessionClosed, match="this partial run was closed"):
        await session.partial_run(handle, sums.product)
    assert handle.done
    await handle.aclose()
    assert only_this_task()
    assert session.statistics().steps_running == 0


@pytest.mark.rule(125)
async def test_it_does_not_hang_the_session(graph, executor, sums):
    async with tg.Session(graph, executor=executor) as session:
        handle = await session.partial_run_setup([gated(asyncio.Event(), sums.sum), sums.product], sums.feeds)
        waiting = asyncio.create_task(session.partial_run(handle, "wait:0", {sums.a: 1, sums.b: 2}))
        await turns()
        fresh = await session.partial_run_setup([sums.product], sums.feeds)  # closed before its first turn
    with pytest.raises(tg.SessionClosed, match="the session was closed while a step was running"):
        await waiting
    for late in (handle, fresh):
        with pytest.raises(tg.SessionClosed):
            await session.partial_run(late, sums.product)
        await late.aclose()
    assert only_this_task()


@pytest.mark.rule(125)
async def test_one_that_nobody_holds_leaves_nothing(session, sums):
    stuck = gated(asyncio.Event(), sums.a)
    for _ in range(5):
        handle = await session.partial_run_setup([stuck, sums.product], sums.feeds)
        await session.partial_run(handle, [], {sums.a: 1, sums.b: 2})
        await turns(5)
        del handle
    await turns(20)
    assert session.statistics().steps_running == 0
    assert not session.statistics().live_bytes  # None without a pool
    assert only_this_task()


@pytest.mark.rule(125)
async def test_an_error_makes_no_cycle(session, sums):
    bad = tg.py_function(lambda x: 1 / 0, [sums.a], "float32")

    async def fail():
        handle = await session.partial_run_setup([bad, sums.sum], sums.feeds)
        try:
            await session.partial_run(handle, bad, {sums.a: 1})
        except tg.OpError:
            return weakref.ref(handle._parts)

    gc.collect()
    gc.disable()
    try:
        parts = await fail()
        await turns()
        assert parts() is None
    finally:
        gc.enable()


@pytest.mark.rule(125)
async def test_its_task_cancelled_from_outside(session, sums):
    for start in (0, 5):  # before its first turn, and later
        handle = await session.partial_run_setup([sums.sum], sums.feeds)
        await turns(start)
        (task,) = [t for t in asyncio.all_tasks() if t.get_name() == "partial run"]
        task.cancel()
        await asyncio.wait([task])
        with raises("was cancelled, and not by a part that waits for it"):
            await session.partial_run(handle, sums.sum, {sums.a: 1, sums.b: 2})
        with raises("has ended"):
            await session.partial_run(handle, sums.sum, {sums.a: 1, sums.b: 2})
    assert session.statistics().steps_running == 0


def test_the_end_of_the_loop_ends_it(graph, executor, sums):
    session = tg.Session(graph, executor=executor)

    async def main():
        return await session.partial_run_setup([sums.sum], sums.feeds)

    handle = asyncio.run(main())
    assert handle.done
    assert session.statistics().steps_running == 0
    asyncio.run(session.aclose())


# ---- with the other features of sessions


async def test_watched_and_traced(session, sums):
    inner = []

    def body(i, x):
        inner.append(x * 2.0)
        return i + 1, inner[0]

    y = tg.while_loop(lambda i, x: i < 3, body, [0, sums.a])[1]
    trace, watch = tg.Trace(), session.watch(inner[0])
    handle = await session.partial_run_setup([y], [sums.a], trace=trace)
    assert await session.partial_run(handle, y, {sums.a: 1}) == 8
    assert [value.tolist() async for value in watch] == [2, 4, 8]
    assert {"PartialFeed", "PartialFetch", "PartialEnd"} <= {span.type for span in trace.spans}
    assert session.report().loops[0].iterations == 4


async def test_the_graph_of_the_user_stays_as_it_is(session, graph, sums):
    before = graph.to_text()
    async with await session.partial_run_setup([sums.sum, sums.product], sums.feeds):
        assert graph.to_text() == before


def test_in_a_script(graph, executor, sums):
    with tg.SyncSession(graph, executor=executor) as session:
        handle = session.partial_run_setup([sums.sum, sums.product], sums.feeds)
        assert session.partial_run(handle, sums.sum, {sums.a: 1, sums.b: 2}) == 3
        assert session.partial_run(handle, sums.product, {sums.c: 5}, timeout=10) == 15
        assert handle.done
        with session.partial_run_setup([sums.sum], sums.feeds) as handle:
            assert session.statistics().steps_running == 1
        with pytest.raises(tg.SessionClosed):
            session.partial_run(handle, sums.sum)
        with raises("no partial run of this session"):
            session.partial_run(None, sums.sum)
        handle = session.partial_run_setup([sums.sum], sums.feeds)
    handle.close()
