"""Streams: each run of a step shows its values to its own reader, however many run at once."""

import asyncio
import gc

import numpy as np
import pytest
import tagloom as tg

from tests.runtime.tasks import only_this_task


class Tokens:
    """A step that makes the tokens start, start + 1, ..., each after a turn of the loop; notes who computes."""

    def __init__(self):
        self.computing = set()
        self.gates = {}
        inside = []
        with tg.Graph().as_default() as self.graph:
            self.start = tg.placeholder("int32", [], name="start")
            self.count = tg.placeholder("int32", [], name="count")

            def body(i, total):
                inside.append(tg.py_function(self._next, [self.start, i], "int32", output_shapes=[], name="token"))
                return i + 1, total + inside[0]

            self.total = tg.while_loop(lambda i, _: i < self.count, body, [0, 0], parallel_iterations=2)[1]
        self.token = inside[0]

    async def _next(self, start, i):
        self.computing.add(int(start))
        try:
            await asyncio.sleep(0)
            if int(start) in self.gates:
                await self.gates[int(start)].wait()
        finally:
            self.computing.discard(int(start))
        return start + i

    def step(self, session):
        return session.make_step(self.total, feeds=[self.start, self.count])


@pytest.fixture
def tokens():
    return Tokens()


@pytest.fixture
async def session(tokens, executor):
    async with tg.Session(tokens.graph, executor=executor) as session:
        yield session
        assert session.statistics().steps_running == 0
        assert only_this_task()


async def read(stream):
    return [int(value) async for value in stream]


def expected(start, count):
    return [start + i for i in range(count)]


async def test_five_clients_of_which_one_hangs_up(tokens, session):
    step = tokens.step(session)
    gone = asyncio.Event()

    async def client(start, count):
        stream = step.stream(tokens.token, start, count)
        return await read(stream), int(await stream.result())

    async def hangs_up():
        async for value in step.stream(tokens.token, 900, 1000):
            if value == 903:
                gone.set()
                await asyncio.Event().wait()

    impatient = asyncio.create_task(hangs_up())
    clients = [asyncio.create_task(client(100 * k, 10 + k)) for k in range(1, 5)]
    await gone.wait()
    impatient.cancel()
    await asyncio.wait([impatient])
    assert impatient.cancelled()
    for k, (values, total) in enumerate(await asyncio.gather(*clients), start=1):
        assert values == expected(100 * k, 10 + k)
        assert total == sum(values)
    del impatient
    for _ in range(8):
        await asyncio.sleep(0)
    assert not tokens.computing


async def test_any_number_of_streams_compile_once(tokens, session):
    step = tokens.step(session)
    for k in range(5):
        assert await read(step.stream(tokens.token, k, 3)) == expected(k, 3)
        assert await read(step.stream(tokens.token.name, k, 3)) == expected(k, 3)
    assert await step(0, 3) == 3
    assert session.statistics().cached_steps == 2  # with the watch and without


async def test_compiled_beforehand(tokens, session):
    step = await session.compile(tokens.total, feeds=[tokens.start, tokens.count], watch=[tokens.token])
    compiled = session.statistics().cached_steps
    assert await read(step.stream(tokens.token, 5, 3)) == [5, 6, 7]
    assert await step(5, 3) == 18
    assert session.statistics().cached_steps == compiled == 2


async def test_nothing_begins_before_it_is_asked_for(tokens, session):
    stream = tokens.step(session).stream(tokens.token, 0, 3)
    await asyncio.sleep(0)
    assert session.statistics().steps_started == 0
    assert "not begun" in repr(stream)
    await stream.aclose()
    assert await read(stream) == []
    assert session.statistics().steps_started == 0


@pytest.mark.parametrize("leave", ["break", "async with", "aclose", "drop"])
async def test_leaving_early_ends_the_step(tokens, session, leave):
    step = tokens.step(session)

    async def three():
        stream = step.stream(tokens.token, 0, 1000)
        if leave == "async with":
            async with stream:
                return [int(await anext(stream)) for _ in range(3)]
        if leave == "break":
            found = []
            async for value in stream:
                found.append(int(value))
                if len(found) == 3:
                    break
            return found
        found = [int(await anext(stream)) for _ in range(3)]
        if leave == "aclose":
            await stream.aclose()
            await stream.aclose()
            assert session.statistics().steps_running == 0
            assert await read(stream) == []
            with pytest.raises(tg.GraphError, match="no result"):
                await stream.result()
        return found

    assert await three() == [0, 1, 2]
    if leave in ("break", "drop"):
        for _ in range(8):
            await asyncio.sleep(0)
    assert session.statistics().steps_running == 0
    assert not tokens.computing


async def test_cancelled_while_it_waits_for_a_value(tokens, session):
    tokens.gates[7] = asyncio.Event()
    stream = tokens.step(session).stream(tokens.token, 7, 5)
    reading = asyncio.create_task(read(stream))
    while 7 not in tokens.computing:
        await asyncio.sleep(0)
    reading.cancel()
    await asyncio.wait([reading])
    assert reading.cancelled()
    assert session.statistics().steps_running == 0
    assert not tokens.computing


async def test_cancelled_while_it_waits_for_the_result(tokens, session):
    tokens.gates[7] = asyncio.Event()
    stream = tokens.step(session).stream(tokens.token, 7, 5)
    waiting = asyncio.create_task(stream.result())
    while 7 not in tokens.computing:
        await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert waiting.cancelled()
    assert session.statistics().steps_running == 0


async def test_the_result_without_the_values(tokens, session):
    stream = tokens.step(session).stream(tokens.token, 1, 50, limit=1)
    assert int(await anext(stream)) == 1
    assert await stream.result() == sum(expected(1, 50))
    assert await read(stream) == []
    assert await stream.result() == sum(expected(1, 50))


async def test_a_slow_reader_holds_its_own_step_back(tokens, session):
    step = tokens.step(session)
    slow = step.stream(tokens.token, 0, 30, limit=1)
    assert int(await anext(slow)) == 0
    assert await read(step.stream(tokens.token, 100, 30)) == expected(100, 30)
    assert session.statistics().steps_running == 1
    assert await read(slow) == expected(1, 29)
    latest = step.stream(tokens.token, 0, 30, limit=2, policy="latest")
    assert int(await anext(latest)) == 0
    assert session.statistics().steps_running == 1
    while session.statistics().steps_running:
        await asyncio.sleep(0)
    assert await read(latest) == [28, 29]
    assert latest.watch.dropped == 27


async def test_the_errors_of_the_step_are_raised(graph, executor):
    inside = []

    def fail(i):
        if i == 3:
            raise ValueError("three")
        return i

    def body(i):
        inside.append(i * 1)
        return [tg.py_function(fail, [inside[0]], "int32", output_shapes=[]) + 1]

    y = tg.while_loop(lambda i: i < 9, body, [0])
    async with tg.Session(graph, executor=executor) as session:
        stream = session.make_step(y).stream(inside[0])
        assert [int(await anext(stream)) for _ in range(3)] == [0, 1, 2]
        with pytest.raises(tg.OpError, match="three"):
            await read(stream)
        assert await read(stream) == []
        with pytest.raises(tg.GraphError, match="no result"):
            await stream.result()
        with pytest.raises(tg.OpError, match="three"):
            await session.make_step(y).stream(inside[0]).result()


async def test_what_ends_a_run_ends_its_stream(tokens, executor):
    tokens.gates[7] = asyncio.Event()
    settings = tg.Settings(admission_seconds=0.0)
    async with tg.Session(tokens.graph, executor=executor, max_steps=1, settings=settings) as session:
        step = tokens.step(session)
        with pytest.raises(tg.StepTimeout):
            await read(step.stream(tokens.token, 7, 5, timeout=0.01))
        last = asyncio.create_task(read(step.stream(tokens.token, 7, 5)))
        while not tokens.computing:
            await asyncio.sleep(0)
        with pytest.raises(tg.Overloaded) as caught:
            await read(step.stream(tokens.token, 1, 5))
        assert caught.value.source.file == __file__
    with pytest.raises(tg.SessionClosed):
        await last
    with pytest.raises(tg.SessionClosed):
        step.stream(tokens.token, 1, 5)


async def test_what_can_not_be_streamed(tokens, session):
    step = tokens.step(session)
    for call, text in [
        (lambda: step.stream(tokens.total.op, 1, 2), "with values"),
        (lambda: step.stream("nothing:0", 1, 2), "no such operation"),
        (lambda: step.stream(tokens.token, 1), "wrong number"),
        (lambda: step.stream(tokens.token, 1, 2, limit=0), "at least one"),
        (lambda: step.stream(tokens.token, 1, 2, policy="first"), "policy"),
    ]:
        with pytest.raises(tg.GraphError, match=text):
            call()
    with pytest.raises(tg.DtypeError):
        await read(step.stream(tokens.token, "one", 5))
    with pytest.raises(tg.GraphError, match="does not compute"):
        await read(session.make_step(tokens.count, feeds=[tokens.count]).stream(tokens.token, 1))


async def test_a_run_with_watches_of_its_own(tokens, session):
    watch, root = tg.Watch(tokens.token), tg.Watch(tokens.total, limit=1)
    feeds = {tokens.start: 4, tokens.count: 3}
    values, totals, result = await asyncio.gather(
        read(watch), read(root), session.run(tokens.total, feeds, watch=[watch, root])
    )
    assert (values, totals, result) == ([4, 5, 6], [15], 15)
    with pytest.raises(tg.GraphError, match="used already"):
        await session.run(tokens.total, feeds, watch=watch)
    unused = tg.Watch(tokens.token)
    with pytest.raises(tg.GraphError, match="no watch"):
        await session.run(tokens.total, feeds, watch=[unused, tokens.token])
    with pytest.raises(tg.GraphError, match="must feed"):
        await session.run(tokens.total, watch=unused)
    assert await read(unused) == []  # it has ended with the run that failed


async def test_beside_a_watch_of_the_session(tokens, session):
    step = tokens.step(session)
    everyone = session.watch(tokens.token, limit=2)
    reading = asyncio.create_task(read(everyone))
    first, second = await asyncio.gather(*(read(step.stream(tokens.token, k, 9, limit=1)) for k in (0, 100)))
    assert (first, second) == (expected(0, 9), expected(100, 9))
    assert sorted(await reading) == first + second


async def test_two_watches_of_one_tensor_in_one_run(tokens, session):
    pair = [tg.Watch(tokens.token, limit=1), tg.Watch(tokens.token, limit=3)]
    run = session.run(tokens.total, {tokens.start: 0, tokens.count: 9}, watch=pair)
    one, other, _ = await asyncio.gather(*map(read, pair), run)
    assert one == other == expected(0, 9)


async def test_of_shapes_that_are_fed_again_and_again(graph, executor):
    inside = []

    def body(i, a):
        inside.append(a + 1.0)
        return i + 1, inside[0]

    x = tg.placeholder("float32", [None])
    y = tg.while_loop(lambda i, _: i < 3, body, [0, x])[1]
    async with tg.Session(graph, executor=executor) as session:
        step = session.make_step(y, feeds=[x])
        for _ in range(4):
            found = [value async for value in step.stream(inside[0], np.zeros(2, np.float32))]
            np.testing.assert_array_equal(found, [[1, 1], [2, 2], [3, 3]])
        assert session.statistics().cached_steps <= 3


async def test_a_stream_leaves_no_garbage(tokens, session):
    step = tokens.step(session)
    assert await read(step.stream(tokens.token, 0, 3)) == [0, 1, 2]
    gc.collect()
    gc.disable()
    try:
        stream = step.stream(tokens.token, 0, 3)
        await read(stream)
        await stream.result()
        del stream
        assert not [each for each in gc.get_objects() if isinstance(each, tg.StepStream)]
    finally:
        gc.enable()


async def test_compiled_beside_watches_of_the_session(tokens, session):
    watch = session.watch(tokens.total)
    feeds = [tokens.start, tokens.count]
    await session.compile(tokens.total, feeds=feeds, watch=[tokens.token, tokens.total])
    assert session.statistics().cached_steps == 2
    watch.close()


async def waiting_for_result(stream):
    return await stream.result()


@pytest.mark.parametrize("how", ["aclose", "async with", "iteration", "drop"])
async def test_only_the_task_that_is_cancelled_is_cancelled(tokens, session, how):
    tokens.gates[7] = asyncio.Event()
    stream = tokens.step(session).stream(tokens.token, 7, 5)
    others = [asyncio.create_task(waiting_for_result(stream)) for _ in range(2)]
    reading = asyncio.create_task(read(stream))
    while 7 not in tokens.computing:
        await asyncio.sleep(0)
    if how == "iteration":
        reading.cancel()
        await asyncio.wait([reading])
        assert reading.cancelled()
    elif how == "drop":
        others.pop().cancel()
    else:
        await (stream.aclose() if how == "aclose" else stream.__aexit__(None, None, None))
        assert await reading == []
    tokens.gates[7].set()
    for each in others:
        if how in ("iteration", "drop"):  # the run goes on for the others
            assert await each == sum(expected(7, 5))
        else:
            with pytest.raises(tg.GraphError, match="no result"):
                await each
    await asyncio.wait([reading])


async def test_an_error_is_raised_in_all_that_wait(graph, executor):
    gate = asyncio.Event()

    async def fail(i):
        await gate.wait()
        raise ValueError("three")

    x = tg.placeholder("int32", [])
    y = tg.py_function(fail, [x], "int32", output_shapes=[])
    async with tg.Session(graph, executor=executor) as session:
        stream = session.make_step(y, feeds=[x]).stream(x, 3)
        waiting = [asyncio.create_task(waiting_for_result(stream)) for _ in range(3)]
        await asyncio.sleep(0)
        gate.set()
        for each in waiting:
            with pytest.raises(tg.OpError, match="three"):
                await each


async def test_a_run_that_cancels_itself_is_an_error(graph, executor):
    def cancelled(i):
        raise asyncio.CancelledError("by itself")

    x = tg.placeholder("int32", [])
    y = tg.py_function(cancelled, [x], "int32", output_shapes=[])
    async with tg.Session(graph, executor=executor) as session:
        with pytest.raises(tg.GraphError, match="no result"):
            await session.make_step(y, feeds=[x]).stream(x, 3).result()
        with pytest.raises(tg.GraphError, match="no result"):
            await read(session.make_step(y, feeds=[x]).stream(x, 3))
