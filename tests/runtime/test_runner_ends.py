"""How ends of runners spread, and what becomes of elements that were drawn and not fed."""

import asyncio
import itertools
import math

import pytest
import tagloom as tg

from tests.runtime.tasks import only_this_task


class Line:
    """numbers -> middle -> taken."""

    def __init__(self, capacity=3):
        with tg.Graph().as_default() as self.graph:
            self.numbers = tg.FIFOQueue(capacity, "int32", shapes=[[]], name="numbers")
            self.middle = tg.FIFOQueue(capacity, "int32", shapes=[[]], name="middle")
            self.x = tg.placeholder("int32", [])
            self.put = self.numbers.enqueue(self.x)
            self.move = self.middle.enqueue(self.numbers.dequeue())
            self.take = self.middle.dequeue()
            self.take_number = self.numbers.dequeue()
            self.size = self.numbers.size()

    def feeds(self, numbers):
        return ({self.x: i} for i in numbers)


@pytest.fixture
def line():
    return Line()


@pytest.fixture
async def session(line, executor):
    async with tg.Session(line.graph, executor=executor, timeout=20.0) as session:
        yield session
    assert only_this_task()


@pytest.mark.parametrize("end", ["times", "until", "cancel"])
async def test_an_end_spreads_to_those_that_fill(line, session, end):
    seen = []
    ends = {"times": {"times": 5}, "until": {"until": lambda: len(seen) == 5}}.get(end, {})
    feeds = line.feeds(itertools.count())
    async with asyncio.timeout(20), tg.runners(session) as group:
        group.add(line.put, feeds=feeds, name="read", closes=line.numbers)
        group.add(line.move, name="move", closes=line.middle)
        taker = group.add(line.take, name="take", on_step=lambda value: seen.append(int(value)), **ends)
        if not ends:
            while taker.steps < 5:
                await asyncio.sleep(0)
            taker.cancel()
    assert seen[:5] == [0, 1, 2, 3, 4]
    # What was drawn is in a queue, or told of.
    (unfed,) = group.unfed
    assert unfed[line.x] + 1 == next(feeds)[line.x]
    assert {each.state for each in group.runners} <= {"ended", "cancelled"}


async def test_what_fits_in_the_queue_is_put_in(line, session):
    async with asyncio.timeout(20), tg.runners(session) as group:
        reader = group.add(line.put, feeds=line.feeds(range(7)), name="read")
        group.add(line.take_number, times=4, name="take")
    assert (reader.state, reader.steps, group.unfed) == ("ended", 7, [])
    assert await session.run(line.size) == 3


async def test_who_takes_in_the_block_is_waited_for(line, session):
    async with asyncio.timeout(20), tg.runners(session) as group:
        reader = group.add(line.put, feeds=line.feeds(range(9)), name="read")
        taker = group.add(line.take_number, times=2, name="take")
        await taker.wait()
        found = [int(await session.run(line.take_number)) for _ in range(7)]
    assert found == list(range(2, 9))
    assert reader.steps == 9


async def test_who_takes_beside_the_group_is_waited_for(line, session):
    """No runner has taken from the queue, so somebody else will."""

    async def take():
        return [int(await session.run(line.take_number)) for _ in range(9)]

    taking = asyncio.create_task(take())
    async with asyncio.timeout(20), tg.runners(session) as group:
        group.add(line.put, feeds=line.feeds(range(9)), name="read")
    assert await taking == list(range(9))


async def test_a_group_that_stands_still_says_who_waits_for_what(line, session, caplog, monkeypatch):
    monkeypatch.setattr("tagloom.runtime.runners.ends._STALLED", 0.02)
    async with tg.runners(session) as group:
        group.add(line.take_number, name="take")

        async def stop():
            while "done no step" not in caplog.text:
                await asyncio.sleep(0.01)
            group.stop()

        stopping = asyncio.create_task(stop())
    await stopping
    assert "'take' uses elements of queue numbers (0 in it, 1 wait for elements and 0 for room)" in caplog.text
    assert "closes=" in caplog.text


def shaky(line, failures):
    """Return a step that fails so often for the element 2."""
    left = [failures]

    def check(value):
        if value == 2 and left[0]:
            left[0] -= 1
            raise ValueError("once more")
        return value

    with line.graph.as_default():
        return left, line.numbers.enqueue(tg.py_function(check, [line.x], "int32", output_shapes=[]))


@pytest.mark.parametrize("failures", [1, 3])
async def test_what_a_step_failed_with_is_fed_again_before_a_drain_ends(executor, failures):
    line = Line(capacity=9)
    left, put = shaky(line, failures)
    feeds = line.feeds(range(5))
    async with tg.Session(line.graph, executor=executor) as session:
        async with tg.runners(session) as group:
            runner = group.add(put, feeds=feeds, restarts=math.inf, backoff=0.01)
            while left[0] == failures:
                await asyncio.sleep(0)
            group.stop(drain=True)
        size = int(await session.run(line.size))
        arrived = [int(await session.run(line.take_number)) for _ in range(size)]
    assert arrived == [0, 1, 2]
    assert (runner.state, group.unfed) == ("ended", [])
    assert [each[line.x] for each in feeds] == [3, 4]


@pytest.mark.parametrize("how", ["cancel", "stop", "stop in time", "fails"])
async def test_what_is_not_fed_again_is_told_of(executor, how, caplog):
    line = Line(capacity=9)
    left, put = shaky(line, 10**9)
    feeds = line.feeds(range(5))
    async with tg.Session(line.graph, executor=executor) as session:
        group = tg.runners(session)
        try:
            async with group:
                restarts = 0 if how == "fails" else math.inf
                runner = group.add(put, feeds=feeds, restarts=restarts, backoff=0.001, optional=how == "fails")
                while left[0] == 10**9:
                    await asyncio.sleep(0)
                if how == "cancel":
                    runner.cancel()
                elif how != "fails":
                    group.stop(drain=False if how == "stop" else 0.02)
        finally:
            assert [each[line.x] for each in group.unfed] == [2]
    assert [each[line.x] for each in feeds] == [3, 4]
    assert "1 feeds were drawn" in caplog.text


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_runners_that_share_an_iterable(executor, asynchronous):
    """What a step was given is told of; what was drawn for none goes to another runner."""
    line = Line(capacity=9)
    waits = asyncio.Event()

    async def slow(_):
        waits.set()
        await asyncio.Event().wait()

    async def see(given):
        seen.append(given[line.x])

    async def numbers():
        for each in line.feeds(range(5)):
            yield each

    seen, feeds = [], numbers() if asynchronous else iter(list(line.feeds(range(5))))
    async with tg.Session(line.graph, executor=executor) as session, tg.runners(session) as group:
        first = group.add(slow, feeds=feeds, name="first")
        await waits.wait()
        first.cancel()
        await first.wait()
        late = group.add(see, feeds=feeds, until=lambda: True, name="late")
        await late.wait()
        group.add(see, feeds=feeds, name="last")
    assert seen == [1, 2, 3, 4]
    assert [each[line.x] for each in group.unfed] == [0]


async def test_a_full_queue_that_is_closed_hands_the_element_back(line, session):
    feeds = line.feeds(range(9))
    with line.graph.as_default():
        close = line.numbers.close(cancel_pending_enqueues=True)
    async with tg.runners(session) as group:
        runner = group.add(line.put, feeds=feeds, name="read")
        while runner.steps < 3:
            await asyncio.sleep(0)
        for _ in range(10):
            await asyncio.sleep(0)
        await session.run(close)
    assert [each[line.x] for each in [*group.unfed, *feeds]] == [3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize("what", ["step", "on_step", "feeds"])
@pytest.mark.parametrize("how", ["stop", "cancel and stop", "error", "task"])
async def test_what_functions_do_at_their_end_is_done_to_its_end(session, what, how):
    story, waits = [], asyncio.Event()

    async def until_cancelled(*_):
        try:
            waits.set()
            await asyncio.Event().wait()
        finally:
            try:
                for _ in range(5):
                    await asyncio.sleep(0)
                story.append("cleaned up")
            except asyncio.CancelledError:
                story.append("cut short")
                raise

    async def nothing(*_):
        pass

    async def feeds():
        await until_cancelled()
        yield {}

    async def fail():
        await waits.wait()
        raise RuntimeError("other")

    async def run():
        async with tg.runners(session) as group:
            if what == "feeds":
                runner = group.add(nothing, feeds=feeds(), name="tested")
            elif what == "step":
                runner = group.add(until_cancelled, name="tested")
            else:
                runner = group.add(nothing, on_step=until_cancelled, name="tested")
            if how == "error":
                group.add(fail)
            await waits.wait()
            if how == "cancel and stop":
                runner.cancel()
                await asyncio.sleep(0)
            if how in ("stop", "cancel and stop"):
                group.stop()
            if how == "task":
                asyncio.current_task().cancel()

    running = asyncio.create_task(run())
    await asyncio.wait([running])
    assert running.cancelled() == (how == "task")
    if how == "error":
        assert isinstance(running.exception(), RuntimeError)
    assert story == ["cleaned up"]


@pytest.mark.parametrize("what", ["step", "function", "feeds"])
async def test_something_that_cancels_itself_is_an_error(what, executor):
    def cancelled(*_):
        raise asyncio.CancelledError("by itself")

    async def function():
        cancelled()

    async def feeds():
        cancelled()
        yield {}

    with tg.Graph().as_default() as graph:
        step = tg.py_function(cancelled, [tg.constant(1.0)], "float32")
    async with tg.Session(graph, executor=executor) as session:
        group = tg.runners(session)
        with pytest.raises(tg.TagloomError, match="was cancelled, and not by its group"):
            async with group:
                group.add(function if what == "function" else step, feeds=feeds() if what == "feeds" else None)
    assert only_this_task()
