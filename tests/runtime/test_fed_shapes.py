"""Steps compiled once more for the shapes that they are fed again and again."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest
import tagloom as tg
from tagloom.base.settings import DEFAULTS

ON = replace(DEFAULTS, specialize=2)


def ones(n):
    return np.ones(n, np.float32)


@pytest.fixture
def double(graph):
    x = tg.placeholder("float32", [None])
    return x, x * 2.0


def steps(session):
    return session.statistics().cached_steps


async def test_shapes_fed_for_the_second_time_have_a_step_of_their_own(graph, double, executor):
    x, y = double
    async with tg.Session(graph, executor=executor, settings=ON) as session:
        step = session.make_step(y, [x])
        found = []
        for n in (3, 4, 3, 3, 4, 5, 5, 5, 3):
            np.testing.assert_array_equal(await step(ones(n)), 2 * ones(n))
            found.append(steps(session))
        assert found == [1, 1, 2, 2, 3, 3, 3, 3, 3]  # two at most
        np.testing.assert_array_equal(await session.run(y, {x: ones(4)}), 2 * ones(4))
        assert steps(session) == 3


async def test_feeds_of_known_shape_have_one_step(graph):
    x = tg.placeholder("float32", [2])
    async with tg.Session(graph, settings=ON) as session:
        y = x + 1.0
        for _ in range(4):
            await session.run(y, {x: ones(2)})
        assert steps(session) == 1


async def test_none_if_switched_off(graph, double):
    x, y = double
    async with tg.Session(graph, settings=DEFAULTS.without("specialize")) as session:
        for _ in range(4):
            await session.run(y, {x: ones(3)})
        assert steps(session) == 1


async def test_shapes_that_fail_fail_as_ever_and_only_where_they_are_run(graph, executor):
    x, y, wrong = tg.placeholder("float32", [None]), tg.placeholder("float32", [None]), tg.placeholder("bool", [])
    z = tg.cond(wrong, lambda: x + y, lambda: x)
    async with tg.Session(graph, executor=executor, settings=ON) as session:
        step, messages = session.make_step(z, [x, y, wrong]), set()
        for _ in range(4):
            np.testing.assert_array_equal(await step(ones(2), ones(3), False), ones(2))
            with pytest.raises(tg.OpError) as caught:
                await step(ones(2), ones(3), True)
            messages.add(str(caught.value))
        assert len(messages) == 1


async def test_steps_at_once(graph, double):
    x, y = double
    async with tg.Session(graph, settings=ON) as session:
        step = session.make_step(y, [x])
        results = await asyncio.gather(*(step(ones(n)) for n in (3, 3, 4, 3, 4, 5)))
        assert [len(r) for r in results] == [3, 3, 4, 3, 4, 5]


async def test_a_changed_edge_is_seen(graph, double):
    x, y = double
    async with tg.Session(graph, settings=ON) as session:
        step = session.make_step(y, [x])
        for _ in range(3):
            await step(ones(2))
        y.op.update_input(1, tg.constant(np.float32(5)))
        np.testing.assert_array_equal(await step(ones(2)), 5 * ones(2))


async def test_a_watch_sees_what_it_saw_before(graph, double):
    x, y = double
    async with tg.Session(graph, settings=ON) as session:
        step = session.make_step(y + 1.0, [x])
        for _ in range(3):
            await step(ones(2))
        watch = session.watch(y)
        values, _ = await asyncio.gather(anext(watch), step(ones(2)))
        assert values.tolist() == [2, 2]


async def test_a_report_is_of_the_step_that_ran(graph):
    x = tg.placeholder("float32", [None])
    y = tg.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * 2.0), [0, x])[1]
    async with tg.Session(graph, settings=replace(ON, straight=False)) as session:
        for _ in range(3):
            await session.run(y, {x: ones(2)})
            (loop,) = session.report().loops
            assert (loop.name, loop.variable) == ("while", "a")


async def test_steps_begin_in_the_order_of_their_calls_though_one_is_compiled_for_its_shapes(graph):
    queue = tg.FIFOQueue(9, "float32")
    x = tg.placeholder("float32", [None])
    put, size = queue.enqueue(tg.reduce_sum(x)), queue.size()
    async with tg.Session(graph, settings=ON) as session:
        calls = []
        for _ in range(4):
            calls += [session.run(put, {x: ones(3)}), session.run(size)]
        found = await asyncio.gather(*calls)
        assert [int(count) for count in found[1::2]] == [1, 2, 3, 4]
