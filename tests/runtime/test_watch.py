"""session.watch: the values of a tensor, iteration by iteration, while the step runs."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest
import tagloom as tg
from tagloom.compile.loops import input_blocks

from tests.support.settings import ON


def squares(n, name="loop"):
    """A loop of n iterations that adds i * i; return (sum, the tensor i * i in the body)."""
    inner = []

    def body(i, total):
        inner.append(tg.multiply(i, i, name=f"{name}_square"))
        return i + 1, total + inner[0]

    return tg.while_loop(lambda i, _: i < n, body, [0, 0], name=name)[1], inner[0]


@pytest.fixture
async def session(graph, executor):
    async with tg.Session(graph, executor=executor) as session:
        yield session


async def read(watch):
    return [value.tolist() async for value in watch]


async def test_one_value_for_each_iteration_in_order(session):
    total, square = squares(50)
    watch = session.watch(square)
    values, result = await asyncio.gather(read(watch), session.run(total))
    assert values == [i * i for i in range(50)]
    assert result == sum(values)


async def test_values_arrive_while_the_step_runs(session):
    gate = asyncio.Event()

    async def wait(i):
        if i == 2:
            await gate.wait()
        return i

    inner = []

    def body(i):
        inner.append(tg.py_function(wait, [i], "int32", output_shapes=[]))
        return [inner[0] + 1]

    y = tg.while_loop(lambda i: i < 4, body, [0])
    watch = session.watch(inner[0])
    step = asyncio.create_task(session.run(y))
    assert [(await anext(watch)).tolist() for _ in range(2)] == [0, 1]
    assert not step.done()
    gate.set()
    assert await read(watch) == [2, 3]
    assert await step == 4


async def test_a_full_watch_holds_the_step_back(session):
    computed = []

    def note(i):
        computed.append(int(i))
        return i

    inner = []

    def body(i):
        inner.append(tg.py_function(note, [i], "int32", output_shapes=[]))
        return [inner[0] + 1]

    y = tg.while_loop(lambda i: i < 40, body, [0], parallel_iterations=3)
    watch = session.watch(inner[0], limit=2)
    step = asyncio.create_task(session.run(y))
    for _ in range(200):
        await asyncio.sleep(0)
    assert len(computed) <= 2 + 3
    assert await read(watch) == list(range(40))
    assert watch.dropped == 0
    await step


async def test_latest_drops_the_oldest(session):
    total, square = squares(20)
    watch = session.watch(square, limit=3, policy="latest")
    await session.run(total)
    assert await read(watch) == [17**2, 18**2, 19**2]
    assert watch.dropped == 17


async def test_closing_lets_the_step_go_on(session):
    total, square = squares(100)
    step = asyncio.create_task(session.run(total))
    async with session.watch(square, limit=1) as watch:
        again = asyncio.create_task(session.run(total))
        assert await anext(watch) == 0
    assert await read(watch) == []
    assert await step == await again == sum(i * i for i in range(100))


async def test_cancelling_a_step_that_waits_for_its_reader(session):
    total, square = squares(100)
    watch = session.watch(square, limit=1)
    step = asyncio.create_task(session.run(total))
    assert await anext(watch) == 0
    step.cancel()
    with pytest.raises(asyncio.CancelledError):
        await step
    assert len(await read(watch)) <= 1
    assert await session.run(total) == sum(i * i for i in range(100))


async def test_a_failing_step_ends_its_watch(session):
    inner = []

    def fail(i):
        if i == 3:
            raise ValueError("three")
        return i

    def body(i):
        inner.append(i * 1)
        return [tg.py_function(fail, [inner[0]], "int32", output_shapes=[]) + 1]

    y = tg.while_loop(lambda i: i < 9, body, [0])
    watch = session.watch(inner[0])
    with pytest.raises(tg.OpError, match="three"):
        await session.run(y)
    assert (await read(watch))[:3] == [0, 1, 2]


async def test_only_taken_branches_show_values(session):
    inner = []

    def even(i):
        inner.append(tg.identity(i * 10))
        return inner[0]

    def body(i, total):
        return i + 1, total + tg.cond(tg.equal(i % 2, 0), lambda: even(i), lambda: 0)

    y = tg.while_loop(lambda i, _: i < 6, body, [0, 0])[1]
    watch = session.watch(inner[0])
    await session.run(y)
    assert await read(watch) == [0, 20, 40]


async def test_nested_loops_variables_and_values_nobody_needs(session):
    seen = []

    def inner(j, a):
        seen.append(a)
        return j + 1, a * 2

    def outer(i, a):
        tg.negative(i, name="unused")
        return i + 1, tg.while_loop(lambda j, _: j < 2, inner, [0, a])[1]

    y = tg.while_loop(lambda i, _: i < 2, outer, [0, 1])[1]
    watches = [session.watch(seen[0]), session.watch("unused:0")]
    assert await session.run(y) == 16
    assert [await read(watch) for watch in watches] == [[1, 2, 4, 8], [0, -1]]


async def test_a_tensor_of_the_root_is_shown_once(session):
    x = tg.placeholder("float32", [2])
    y = tg.negative(x)
    watch = session.watch(y)
    await session.run(tg.exp(y), {x: [1.0, 2.0]})
    assert await read(watch) == [[-1.0, -2.0]]


async def test_steps_without_the_loop_are_not_watched(session):
    total, square = squares(3)
    other = squares(2, name="other")[0]
    watch = session.watch(square)
    await session.run(other)
    step = asyncio.create_task(read(watch))
    await asyncio.sleep(0)
    assert not step.done()
    await session.run(total)
    assert await step == [0, 1, 4]


async def test_compiled_steps_notice_a_watch_and_its_end(session):
    total, square = squares(3)
    step = session.make_step(total)
    assert await step() == 5
    for _ in range(2):
        watch = session.watch(square)
        await step()
        assert await read(watch) == [0, 1, 4]
    assert await step() == 5
    assert session.statistics().cached_steps == 2  # with and without the watch


async def test_values_belong_to_the_reader(session):
    inner = []

    def body(i, a):
        inner.append(a + 1.0)
        return i + 1, inner[0]

    y = tg.while_loop(lambda i, _: i < 3, body, [0, tg.zeros([2])])[1]
    watch = session.watch(inner[0])
    await session.run(y)
    async for value in watch:
        value += 100.0
    np.testing.assert_array_equal(await session.run(y), [3.0, 3.0])


async def test_the_end_of_a_session_ends_its_watches(graph, executor):
    _, square = squares(100)
    async with tg.Session(graph, executor=executor) as session:
        watch = session.watch(square)
        reader = asyncio.create_task(read(watch))
        await asyncio.sleep(0)
    assert await reader == []


async def test_the_graph_stays_as_it_is(graph, session):
    total, square = squares(3)
    before = graph.to_text() if hasattr(graph, "to_text") else len(graph.get_operations())
    watch = session.watch(square)
    await session.run(total)
    await read(watch)
    assert (graph.to_text() if hasattr(graph, "to_text") else len(graph.get_operations())) == before


async def test_what_can_not_be_watched(session):
    _, square = squares(3)
    handle = tg.TensorArray("float32", 3).handle
    for tensor, options, text in [
        (square, {"policy": "first"}, "policy"),
        (square, {"limit": 0}, "at least one"),
        (handle, {}, "with values"),
        (square.op, {}, "with values"),
    ]:
        with pytest.raises(tg.GraphError, match=text):
            session.watch(tensor, **options)
    first = session.watch(square)
    with pytest.raises(tg.GraphError, match="already"):
        session.watch(square)
    first.close()


async def test_a_value_inside_what_would_be_fused(session):
    inner = []

    def body(i, a):
        inner.append(a * 2.0)
        return i + 1, tg.tanh(inner[0] + 1.0)

    y = tg.while_loop(lambda i, _: i < 3, body, [0, tg.zeros([2])])[1]
    watch = session.watch(inner[0])
    await session.run(y)
    first, second, third = await read(watch)
    np.testing.assert_allclose(first, 0)
    np.testing.assert_allclose(second, 2 * np.tanh([1.0, 1.0]), rtol=1e-6)
    np.testing.assert_allclose(third, 2 * np.tanh(np.add(second, 1.0)), rtol=1e-6)


@pytest.mark.parametrize("limit", ["100KB", "8MB"])
async def test_iterations_that_waited_for_one_block_are_shown_in_order(monkeypatch, limit):
    monkeypatch.setattr(input_blocks, "_SMALL", 1)
    shown = []

    def body(t, h):
        h = tg.tanh(h + xs.read(t))
        shown.append(h + 2.0 * tg.cast(t, "float32"))
        return t + 1, h

    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [12, 256])
        xs = tg.TensorArray("float32", 12).unstack(x)
        last = tg.while_loop(lambda t, _: t < 12, body, [0, tg.zeros([256])], swap_memory=True)[1]
    async with tg.Session(graph, memory_limit=limit, settings=replace(ON, block_bytes=4096)) as session:
        watch = session.watch(shown[0])
        step = asyncio.ensure_future(session.run(last, {x: np.zeros((12, 256), np.float32)}))
        assert [round(float(value[0]) / 2) async for value in watch] == list(range(12))
        await step
