"""session.report(): how far iterations overlapped, and what kept them from more."""

import asyncio

import numpy as np
import pytest
import tagloom as tg

from tests.support.settings import MACHINE


def below(n):
    return lambda i, *_: i < n


def waiting_sum(n, **options):
    """A loop that adds what an async function gives for each iteration."""

    async def answer(i):
        await asyncio.sleep(0.002)
        return i

    def body(i, total):
        return i + 1, total + tg.py_function(answer, [i], "int32", output_shapes=[], stateful=False)

    return tg.while_loop(below(n), body, [0, 0], name="asking", **options)[1]


async def report(graph, executor, fetches, feeds=None):
    async with tg.Session(graph, executor=executor, settings=MACHINE) as session:
        await session.run(fetches, feeds)
        return session.report()


async def only_loop(graph, executor, fetches):
    (loop,) = (await report(graph, executor, fetches)).loops
    return loop


async def test_the_window_limits_what_is_awaited(graph, executor):
    loop = await only_loop(graph, executor, waiting_sum(20, parallel_iterations=4))
    assert (loop.name, loop.runs, loop.iterations, loop.window) == ("asking", 1, 21, 4)
    assert loop.max_in_flight == 4
    assert 3 < loop.mean_in_flight <= 4
    assert (loop.limited_by, loop.variable) == ("window", None)


async def test_a_window_of_one(graph, executor):
    loop = await only_loop(graph, executor, waiting_sum(3, parallel_iterations=1))
    assert (loop.limited_by, loop.mean_in_flight, loop.max_in_flight) == ("window", 1.0, 1)


async def test_a_chain_of_awaited_values(graph, executor):
    async def improve(h):
        await asyncio.sleep(0.0005)
        return h + 1

    def body(i, h, out):
        h = tg.py_function(improve, [h], "float32", output_shapes=[])
        return i + 1, h, out.write(i, h)

    out = tg.TensorArray("float32", 40, element_shape=[])
    y = tg.while_loop(below(40), body, [0, 0.0, out])[1]
    loop = await only_loop(graph, executor, y)
    assert (loop.limited_by, loop.variable) == ("variable", "h")


async def test_a_recurrence_of_arrays(graph, executor):
    w = tg.constant(np.eye(8, dtype=np.float32))
    y = tg.while_loop(below(50), lambda i, state: (i + 1, {"h": tg.tanh(state["h"] @ w)}), (0, {"h": tg.ones([2, 8])}))
    loop = await only_loop(graph, executor, y[1]["h"])
    assert (loop.limited_by, loop.variable) == ("variable", "state['h']")


async def test_all_iterations_at_once(graph, executor):
    here, everybody = 0, asyncio.Event()

    async def meet(i):
        nonlocal here
        here += 1
        if here == 5:
            everybody.set()
        await everybody.wait()
        return i

    def body(i, total):
        return i + 1, total + tg.py_function(meet, [i], "int32", output_shapes=[], stateful=False)

    loop = await only_loop(graph, executor, tg.while_loop(below(5), body, [0, 0])[1])
    assert loop.limited_by == "nothing"
    assert loop.max_in_flight in (5, 6)


async def test_ready_kernels_wait_for_a_core(graph):
    x = tg.constant(np.ones((40, 4), np.float32))
    y = tg.map_fn(lambda row: tg.exp(tg.sin(row) + tg.cos(row)) * tg.tan(row), x, parallel_iterations=8)
    assert (await only_loop(graph, "machine", y)).limited_by == "cores"


async def test_nested_loops_are_reported_apart(graph, executor):
    def outer(i, a):
        return i + 1, tg.while_loop(below(4), lambda j, b: (j + 1, tg.sin(b)), [0, a], name="inner")[1]

    y = tg.while_loop(below(3), outer, [0, 1.0], name="outer")[1]
    first, second = (await report(graph, executor, y)).loops
    assert (first.name, first.runs, first.iterations) == ("outer", 1, 4)
    assert (second.name.rsplit("/", 1)[-1], second.runs, second.iterations) == ("inner", 3, 15)
    assert second.variable == "b"


async def test_a_loop_made_by_hand_is_named_after_its_node(graph, executor):
    start = tg.enter(tg.constant(1.0), "by_hand")
    merged = tg.merge([start, start])[0]
    limit, two = (tg.enter(tg.constant(value), "by_hand", is_constant=True) for value in (100.0, 2.0))
    leave, stay = tg.switch(merged, tg.loop_cond(merged < limit))
    merged.op.update_input(1, tg.next_iteration(stay * two, name="again"))
    loop = await only_loop(graph, executor, tg.exit(leave))
    assert (loop.name, loop.iterations, loop.limited_by, loop.variable) == ("by_hand", 8, "variable", "again")


async def test_only_the_last_step_is_reported(graph, executor):
    x = tg.placeholder("int32", [])
    y = tg.while_loop(lambda i: i < x, lambda i: i + 1, [0])
    async with tg.Session(graph, executor=executor) as session:
        assert str(session.report()) == "no loop ran"
        await session.run(y, {x: 50})
        await session.run(y, {x: 3})
        assert session.report().loops[0].iterations == 4
        await session.run(x, {x: 3})
        assert session.report().loops == ()


async def test_gradients_of_loops_have_reports(graph, executor):
    x = tg.constant(0.5)
    y = tg.while_loop(below(5), lambda i, a: (i + 1, tg.sin(a)), [0, x])[1]
    (g,) = tg.gradients(y, [x])
    loops = (await report(graph, executor, g)).loops
    assert [loop.iterations for loop in loops] == [6, 6]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        (
            ("while", 1, 21, 3.25, 4, 4, "window"),
            "while: 21 iterations, 3.2 in flight on average, at most 4 of 4; "
            "limited by the window, parallel_iterations=4",
        ),
        (
            ("a/b", 2, 9, 2, 2, 32, "variable", "h"),
            "a/b: 9 iterations in 2 runs, 2.0 in flight on average, at most 2 of 32; limited by loop variable h",
        ),
    ],
)
def test_text(fields, text):
    assert str(tg.Report((tg.LoopReport(*fields),))) == text


def test_sync_session_reports(graph):
    y = tg.while_loop(below(3), lambda i: i + 1, [0])
    with tg.SyncSession(graph) as session:
        session.run(y)
        assert session.report().loops[0].iterations == 4


async def test_devices_of_the_reference_executor(graph):
    """It sends nothing, as it runs the step as a whole."""
    with tg.device("/cpu:0"):
        x = tg.constant(1.0) + 1.0
    with tg.device("/cpu:1"):
        y = tg.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, tg.tanh(a)), [0, x])[1]
    async with tg.Session(graph, devices=2, executor="reference") as session:
        await session.run(y)
        assert "4 iterations" in str(session.report())
