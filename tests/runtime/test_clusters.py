"""Clusters run: the values, errors and waits of the step machine, and nothing of a run that others see."""

import asyncio
import gc
import weakref
from dataclasses import replace

import numpy as np
import pytest
import tagloom as tg
from tagloom.kernels.scheduler.state import live_counts

from tests.support.settings import ON

PLAIN = replace(ON, fuse=False)
OFF = PLAIN.without("cluster", "straight")
UNTIL = 20  # seconds, for what would hang


def chain(x, length=10, start=0):
    for k in range(start, start + length):
        x = (tg.sin, tg.tanh, tg.cos, tg.exp)[k % 4](x)
    return x


def products():
    x = tg.placeholder("float32", [None, 3])
    y = tg.tanh(x @ tg.fill([3, 3], 0.25))
    y = y + tg.reduce_mean(y, axis=0, keepdims=True) * tg.reduce_max(y)
    return [chain(y, 4), tg.transpose(y), tg.reduce_sum(y)], x, [(2, 3), (4, 3), (2, 3), (1, 3)]


def elements():
    x = tg.placeholder("float64", [])
    y = chain(x * 0.5 + 1.0)
    return [y, tg.cast(y * 10.0, "int32") % 7, y > 0.5, tg.identity(x)], x, [(), (), ()]


def branches():
    x = tg.placeholder("float64", [4])
    y = tg.cond(tg.reduce_sum(x) > 2.0, lambda: chain(x, 3), lambda: tg.cond(x[0] > 0.3, lambda: x * 2, lambda: -x))
    z = tg.switch_case(tg.cast(x[1] * 3.0, "int32"), [lambda: y + 1.0, lambda: y * y], default=lambda: y / 3.0)
    return [chain(z, 4), y], x, [(4,)] * 6


def parts():
    x = tg.placeholder("float64", [6, 2])
    y = tg.gather(x, [4, 0, 0]) + x[1:4] - tg.reshape(x, [2, 6])[:, :1][0]
    return [tg.concat([y, tg.sin(y)], 1) * tg.reduce_sum(y), tg.reshape(tg.transpose(x), [3, 4])], x, [(6, 2)] * 3


def shapes():
    x = tg.placeholder("float64", [None])
    y = chain(x, 6) * tg.cast(tg.size(x), "float64") + tg.fill(tg.shape(x), tg.constant(0.5, "float64"))
    return [y, tg.shape(y)], x, [(3,), (5,), (3,), (1,)]


@pytest.mark.parametrize("program", [products, elements, branches, parts, shapes], ids=lambda p: p.__name__)
@pytest.mark.parametrize("settings", [PLAIN, ON, replace(PLAIN, llvm=False), replace(PLAIN, reuse=False)])
async def test_the_same_values_as_on_the_step_machine(graph, program, settings):
    fetches, x, sizes = program()
    random = np.random.default_rng(3)
    fed = [np.asarray(random.random(shape), x.dtype.numpy) for shape in sizes]
    async with tg.Session(graph, settings=settings) as session, tg.Session(graph, settings=OFF) as plain:
        found = [await session.run(fetches, {x: each}) for each in fed]
        (one, *_) = session.report().clusters
        assert (one.runs, one.not_native) == (1, None)
        for values, each in zip(found, fed, strict=True):
            for value, wanted in zip(values, await plain.run(fetches, {x: each}), strict=True):
                assert value.dtype == wanted.dtype
                np.testing.assert_array_equal(value, wanted)


async def test_many_shapes_and_then_the_first_again(graph):
    x = tg.placeholder("float64", [None])
    y = chain(x)
    async with tg.Session(graph, settings=replace(PLAIN, specialize=0)) as session:
        for size in [*range(1, 14), *range(13, 0, -1)]:
            fed = np.linspace(0.0, 1.0, size)
            np.testing.assert_array_equal(await session.run(y, {x: fed}), await session.run(y, {x: fed}))
        assert session.report().clusters[0].runs == 1


async def test_shapes_that_are_others_each_time_are_not_recorded(graph):
    x = tg.placeholder("float64", [None])
    y = chain(x)
    async with tg.Session(graph, settings=replace(PLAIN, specialize=0)) as session:
        native = []
        for size in range(1, 100):
            await session.run(y, {x: np.ones(size)})
            native.append(session.report().clusters[0].runs)
        assert session.report().clusters[0].not_native == "its inputs have other shapes almost each time"
        assert 4 <= sum(native) < 15
        for _ in range(20):
            await session.run(y, {x: np.ones(50)})
        assert session.report().clusters[0].runs == 1


async def test_results_are_nobody_elses(graph):
    x = tg.placeholder("float64", [3])
    fetches = [chain(x), tg.identity(x), tg.reshape(chain(x, 9, 1), [3, 1])]
    fed = [np.full(3, 0.1 * k) for k in range(3)]
    async with tg.Session(graph, settings=PLAIN) as session:
        found = [await session.run(fetches, {x: each}) for each in fed]
        copies = [[np.array(value) for value in values] for values in found]
        await session.run(fetches, {x: np.full(3, 7.0)})
    for values, same in zip(found, copies, strict=True):
        for value, copy in zip(values, same, strict=True):
            np.testing.assert_array_equal(value, copy)
    arrays = [value for values in found for value in values] + fed
    for i, one in enumerate(arrays):
        assert not any(np.shares_memory(one, other) for other in arrays[:i])


async def fails(graph, fetches, feeds, settings):
    async with tg.Session(graph, settings=settings) as session:
        with pytest.raises(tg.TagloomError) as caught:
            await session.run(fetches, feeds)
        return caught.value


async def test_an_error_is_that_of_the_step_machine(graph):
    x = tg.placeholder("int32", [])
    y = x
    for k in range(6):
        y = y + k - 3 * x
    z = 100 // (x - 3) + y * y
    errors = [await fails(graph, z, {x: np.int32(3)}, each) for each in (PLAIN, OFF)]
    assert str(errors[0]) == str(errors[1])
    assert errors[0].operation == errors[1].operation
    assert "z = 100 // (x - 3) + y * y" in str(errors[0])
    async with tg.Session(graph, settings=PLAIN) as session:
        for value in (2, 4, 5):
            assert await session.run(z, {x: np.int32(value)}) == 100 // (value - 3) + (value - 18 * value + 15) ** 2


async def test_an_error_in_a_loop_has_its_tag(graph):
    x = tg.placeholder("int32", [])

    async def same(value):
        return value

    def body(i, y):
        k = y
        for n in range(8):
            k = k * 3 - n
        return i + 1, tg.py_function(same, [k % (i - 3)], "int32", output_shapes=[])

    y = tg.while_loop(lambda i, y: i < 6, body, [0, x])[1]
    errors = [await fails(graph, y, {x: np.int32(5)}, each) for each in (PLAIN, OFF)]
    assert str(errors[0]) == str(errors[1])
    assert errors[0].tag == errors[1].tag
    assert "3" in str(errors[0].tag)


def awaited_loop(function, steps, x):
    """Build a loop with one awaited operation, and work around it that depends on the counter alone, or on both."""

    def body(i, total):
        k = chain(tg.cast(i, "float64") * x)
        v = tg.py_function(function, [k], "float64", output_shapes=[], stateful=False)
        return i + 1, total + tg.reduce_sum(chain(v * k))

    zero = tg.constant(0.0, "float64")
    return tg.while_loop(lambda i, _: i < steps, body, [0, zero], parallel_iterations=steps)[1]


async def test_iterations_overlap_as_they_did(graph):
    """All iterations must wait at once, or none goes on."""
    steps = 4
    barrier = asyncio.Barrier(steps)

    async def meet(value):
        await barrier.wait()
        return value * 2.0

    x = tg.placeholder("float64", [])
    y = awaited_loop(meet, steps, x)
    async with tg.Session(graph, settings=PLAIN) as session:
        async with asyncio.timeout(UNTIL):
            found = [await session.run(y, {x: 0.5}) for _ in range(3)]
        assert len(session.report().clusters) == 2
        assert all(each.runs >= steps for each in session.report().clusters)
    async with tg.Session(graph, settings=OFF) as session:
        assert found == [await session.run(y, {x: 0.5})] * 3


async def test_a_loop_whose_variable_is_awaited(graph):
    """What the counter decides is done while the iteration before waits: here it waits for all iterations to do it."""
    steps, begun, now = 4, [], asyncio.Event()

    async def early(value):
        begun.append(value)
        if len(begun) == steps:
            now.set()
        return value

    async def wait(value):
        await now.wait()
        return value

    x = tg.placeholder("float64", [])

    def body(i, y):
        k = chain(tg.cast(i, "float64") * x)
        seen = tg.py_function(early, [k], "float64", output_shapes=[], stateful=False)
        late = tg.py_function(wait, [chain(y) + k], "float64", output_shapes=[], stateful=False)
        return i + 1, late + seen

    y = tg.while_loop(lambda i, _: i < steps, body, [0, tg.constant(0.0, "float64")], parallel_iterations=steps)[1]
    for settings in (OFF, PLAIN):
        begun.clear()
        now.clear()
        async with tg.Session(graph, settings=settings) as session, asyncio.timeout(UNTIL):
            await session.run(y, {x: 0.5})
            assert len(session.report().clusters) == (2 if settings.cluster else 0)


async def test_two_operations_that_meet_outside(graph):
    """One waits for what the other sends; were the work behind both one cluster, the other would never begin."""
    queue = asyncio.Queue()

    async def same(value):
        return value

    async def receive(value):
        return value + await queue.get()

    async def send(value):
        await queue.put(np.float64(value.sum()))
        return value

    def call(function, value):
        return tg.py_function(function, [value], "float64", output_shapes=[3], stateful=False)

    x = tg.placeholder("float64", [3])
    given = chain(call(same, x))
    fetches = [chain(call(receive, x)) + given, call(send, given)]
    async with tg.Session(graph, settings=PLAIN) as session:
        async with asyncio.timeout(UNTIL):
            found = [await session.run(fetches, {x: np.ones(3)}) for _ in range(2)]
        assert len(session.report().clusters) == 2
    async with tg.Session(graph, settings=OFF) as session:
        np.testing.assert_array_equal(found, [await session.run(fetches, {x: np.ones(3)})] * 2)


async def test_concurrent_steps(graph):
    async def give_way(value):
        for _ in range(3):
            await asyncio.sleep(0)
        return value

    x = tg.placeholder("float64", [])
    y = awaited_loop(give_way, 5, x)
    fed = [0.1 * k for k in range(8)]
    async with tg.Session(graph, settings=PLAIN) as session, tg.Session(graph, settings=OFF) as plain:
        found = await asyncio.gather(*(session.run(y, {x: each}) for each in fed))
        assert found == [await plain.run(y, {x: each}) for each in fed]


def test_steps_of_several_threads(graph):
    from concurrent.futures import ThreadPoolExecutor

    x = tg.placeholder("float64", [64])
    y = chain(x)
    fed = [np.full(64, 0.01 * k) for k in range(40)]
    with tg.SyncSession(graph, settings=PLAIN) as session, ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda each: session.run(y, {x: each}), fed))
        for value, each in zip(found, fed, strict=True):
            np.testing.assert_array_equal(value, session.run(y, {x: each}))


async def test_a_cancelled_step_leaves_the_others_their_runs(graph):
    async def forever(value):
        await asyncio.sleep(60)

    x, stuck = tg.placeholder("float64", [3]), tg.placeholder("bool", [])
    y = chain(x)
    z = tg.cond(stuck, lambda: tg.py_function(forever, [y], "float64", output_shapes=[3]), lambda: chain(y, start=1))
    async with tg.Session(graph, settings=PLAIN) as session:
        before = await session.run(z, {x: np.ones(3), stuck: False})
        step = asyncio.ensure_future(session.run(z, {x: np.ones(3), stuck: True}))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        step.cancel()
        with pytest.raises(asyncio.CancelledError):
            await step
        np.testing.assert_array_equal(await session.run(z, {x: np.ones(3), stuck: False}), before)
    assert not any(live_counts()[key] for key in ("frames", "iterations", "values"))


async def test_kept_runs_are_counted_and_go_with_their_session(graph):
    x = tg.placeholder("float64", [None])
    y = chain(x)
    gc.collect()
    session = tg.Session(graph, settings=replace(PLAIN, specialize=0))
    for size in (10, 500, 10):
        await session.run(y, {x: np.ones(size)})
    kept = session.statistics().live_bytes
    assert 8 * 500 < kept < 64 * 500
    for _ in range(50):
        await session.run(y, {x: np.ones(10)})
    assert session.statistics().live_bytes == kept
    session_is_there = weakref.ref(session)
    await session.aclose()
    assert session.statistics().live_bytes == 0
    del session
    gc.collect()
    assert session_is_there() is None


async def test_what_a_program_declines_is_done_by_the_step_machine(graph):
    """An array whose elements are not in order, and one that is too large."""
    x = tg.placeholder("float64", [None, None])
    y = chain(x)
    turned, large = np.linspace(0, 1, 12).reshape(3, 4).T, np.full((100, 100), 0.3)
    async with tg.Session(graph, settings=PLAIN) as session, tg.Session(graph, settings=OFF) as plain:
        for fed, reason in ((turned, "not in order"), (large, "80000 bytes")):
            np.testing.assert_array_equal(await session.run(y, {x: fed}), await plain.run(y, {x: fed}))
            (one,) = session.report().clusters
            assert one.runs == 0
            assert reason in one.not_native
            assert reason in str(session.report())
            for _ in range(4):
                await session.run(y, {x: np.ones((2, 2))})


async def test_a_report_says_what_is_clustered_and_why_other_things_are_not(graph):
    x = tg.placeholder("float64", [3])
    y = chain(x)
    z = tg.sin(tg.stack([y[0], y[1]]))
    async with tg.Session(graph, settings=PLAIN) as session:
        await session.run(z, {x: np.ones(3)})
        report = session.report()
        (one,) = report.clusters
        assert y.op.name in one.operations
        assert len(one.operations) == 12
        reason = "has no kernel in C that can be repeated"
        assert [len(names) for why, names in report.not_clustered.items() if why == reason] == [1]
        assert f"not in a cluster: {z.op.inputs[0].op.name} (Stack) {reason}" in str(report)
        text = session.make_step(z, [x]).to_text()
        assert f"# not in a cluster: {z.op.inputs[0].op.name} (Stack) {reason}" in text
        assert f"# program {one.name}" in text
