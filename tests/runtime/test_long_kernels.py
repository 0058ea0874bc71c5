"""What takes long leaves the event loop's thread: kernels, updates of variables, copies for whoever runs a step."""

import asyncio
import gc
import sys
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
import tagloom as tg
from tagloom.base import dtypes
from tagloom.base.errors import DeviceMemoryError, DtypeError, OpError
from tagloom.base.shapes import UNKNOWN
from tagloom.ir import definition
from tagloom.ir.apply import apply
from tagloom.ir.definition import NotDifferentiable, define
from tagloom.ir.rules.kernels import Elements

from tests.support.settings import ON

MANY = 1 << 20  # elements
ALWAYS = replace(ON, workers=2, offload_seconds=0.0)
HERE = threading.get_ident


def take(xp, x):
    time.sleep(float(x[1]))
    return np.ones(int(x[0]), np.float32)


@pytest.fixture(autouse=True)
def operations(monkeypatch):
    """Declare, for one test, what says which thread has called it, and what takes memory after a while."""
    monkeypatch.setattr(definition, "_REGISTRY", dict(definition._REGISTRY))
    none = NotDifferentiable("it depends on nothing")
    define(
        "ThreadOf",
        "input: T, count: host int64 -> thread: int64",
        where={"T": dtypes.VALUES},
        shape=lambda op: op.inputs[1].shape,
        rules=[Elements(lambda x, count: int(count))],
        kernel=lambda xp, x, count: np.int64(HERE()),
        gradient=none,
    )
    define(
        "Takes",
        "size: float32 -> made: float32",
        shape=lambda op: UNKNOWN,
        rules=[Elements(lambda x: int(x[0]))],
        kernel=take,
        gradient=none,
    )


async def thread(x, count=0, **options):
    """Return the thread that calls a kernel of an array, and of `count` elements that it makes."""
    with tg.Graph().as_default() as graph:
        fed = tg.placeholder("float32")
        found = apply("ThreadOf", fed, np.int64(count))
    async with tg.Session(graph, **{"settings": ON, **options}) as session:
        return await session.run(found, {fed: x})


@pytest.mark.parametrize("executor", ["machine", "reference"])
async def test_a_kernel_that_should_take_long_is_called_elsewhere_the_first_time_too(executor):
    large, small = np.ones(MANY, np.float32), np.ones(3, np.float32)
    assert await thread(large, executor=executor) != HERE()
    assert await thread(small, MANY, executor=executor) != HERE()  # few inputs, but much that it makes
    assert await thread(small, executor=executor) == HERE()
    assert await thread(large, executor=executor, settings=replace(ON, workers=0)) == HERE()
    assert await thread(large, executor=executor, memory_limit="100MB") != HERE()


async def test_a_rule_of_sizes_that_fails_leaves_the_error_to_the_kernel():
    with tg.Graph().as_default() as graph:
        sizes = tg.placeholder("int32", [None])
        filled = tg.fill(sizes, 1.0)
    async with tg.Session(graph, settings=ON) as session:
        for wrong in ([-1, 5], [2**30, 2**30, 2**30]):
            with pytest.raises((OpError, MemoryError)):
                await session.run(filled, {sizes: wrong})
        assert (await session.run(filled, {sizes: [2, 3]})).shape == (2, 3)


def programs(x, i):
    """Return programs of a matrix and of indices, with what NumPy makes of them."""
    rows = x.reshape(-1, 1024)
    exponentials = np.exp(rows.astype(np.float64))
    return {
        "gather": (lambda t, k: tg.gather(t, k), rows[i]),
        "gather columns": (lambda t, k: tg.gather(t, k, axis=1), rows[:, i]),
        "one_hot": (lambda t, k: tg.one_hot(tg.tile(k, [64]), 256), np.eye(256, dtype=np.float32)[np.tile(i, 64)]),
        "tile": (lambda t, k: tg.tile(t, [1, 2]), np.tile(rows, (1, 2))),
        "transpose": (lambda t, k: tg.transpose(t), rows.T),
        "softmax": (lambda t, k: tg.softmax(t), (exponentials / exponentials.sum(1, keepdims=True))),
        "cumsum": (lambda t, k: tg.cumsum(t, axis=1), rows.astype(np.float64).cumsum(1)),
        "slices": (lambda t, k: t[::2, ::-1], rows[::2, ::-1]),
        "concat": (lambda t, k: tg.concat([t, t], 1), np.concatenate([rows, rows], 1)),
        "sums": (lambda t, k: tg.reduce_sum(t, 0), rows.astype(np.float64).sum(0)),
        "erf": (lambda t, k: tg.where(t > 0, t, tg.erf(t)) - tg.erf(t) * 0.0, None),
        "repeat": (lambda t, k: t[:, None, :8] + t[:, :8, None], rows[:, None, :8] + rows[:, :8, None]),
        "casts": (lambda t, k: tg.cast(t, "float64") * 3.0, rows.astype(np.float64) * 3),
        "scatter": (lambda t, k: tg.scatter_nd(k[:, None], tg.gather(t, k), [256, 1024]), None),
    }


@pytest.mark.parametrize("settings", [ON, ALWAYS], ids=["long", "always"])
@pytest.mark.parametrize("name", programs(np.zeros(1024, np.float32), np.zeros(1, np.int32)))
async def test_values_are_the_same_wherever_they_are_computed(name, settings):
    rng = np.random.default_rng(3)
    x, i = rng.standard_normal(MANY // 2).astype(np.float32), rng.permutation(256).astype(np.int32)
    build, wanted = programs(x, i)[name]
    with tg.Graph().as_default() as graph:
        t, k = tg.placeholder("float32", [None, None]), tg.placeholder("int32", [None])
        result = build(t, k)
    feeds = {t: x.reshape(-1, 1024), k: i}
    async with tg.Session(graph, settings=replace(settings, workers=0)) as session:
        here = await session.run(result, feeds)
    async with tg.Session(graph, settings=settings) as session:
        first, again = await session.run(result, feeds), await session.run(result, feeds)
    np.testing.assert_array_equal(first, again)
    np.testing.assert_allclose(first, here, rtol=1e-5, atol=1e-5)
    if wanted is not None:
        np.testing.assert_allclose(first, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("settings", [ON, ALWAYS], ids=["long", "always"])
@pytest.mark.parametrize("limit", [None, "200MB"])
async def test_an_index_out_of_range_is_found_by_a_thread_and_told_by_the_kernel(settings, limit):
    with tg.Graph().as_default() as graph:
        t, k = tg.placeholder("float32", [None]), tg.placeholder("int32", [None])
        taken, other = tg.gather(t, k), tg.gather_nd(t, k[:, None])
    x, good = np.arange(MANY, dtype=np.float32), np.arange(MANY, dtype=np.int32)[::-1].copy()
    bad = good.copy()
    bad[MANY // 2] = MANY
    async with tg.Session(graph, settings=settings, memory_limit=limit) as session:
        for fetch in (taken, other):
            with pytest.raises(OpError, match=f"{MANY}"):
                await session.run(fetch, {t: x, k: bad})
            np.testing.assert_array_equal(await session.run(fetch, {t: x, k: good}), x[good])
        gc.collect()
        assert session.statistics().live_bytes == 0


async def test_integer_powers_raise_as_they_do_when_they_are_short():
    with tg.Graph().as_default() as graph:
        n, m = tg.placeholder("int64", [None]), tg.placeholder("int64", [None])
        power = tg.pow(n, m)
    twos, threes = np.full(MANY, 2), np.full(MANY, 3)
    async with tg.Session(graph, settings=ON) as session:
        np.testing.assert_array_equal(await session.run(power, {n: twos, m: threes}), np.full(MANY, 8))
        for count in (3, MANY):
            with pytest.raises(OpError, match="negative"):
                await session.run(power, {n: twos[:count], m: -threes[:count]})


@pytest.mark.parametrize("executor", ["machine", "reference"])
async def test_what_a_thread_takes_counts_within_the_limit(executor):
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [None])
        y = tg.reduce_max(tg.erf(x))
    async with tg.Session(graph, settings=ON, executor=executor, memory_limit=10 * MANY) as session:
        assert await session.run(y, {x: np.zeros(MANY, np.float32)}) == 0
        assert session.statistics().peak_bytes >= 8 * MANY
        with pytest.raises(DeviceMemoryError, match=r"wanted: 8 MiB"):
            await session.run(y, {x: np.zeros(2 * MANY, np.float32)})
        assert await session.run(y, {x: np.zeros(MANY, np.float32)}) == 0
        gc.collect()
        assert session.statistics().live_bytes == 0


async def test_steps_that_are_cancelled_while_threads_compute_leave_nothing():
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [None])
        y = tg.reduce_sum(tg.cumsum(tg.erf(x) + tg.one_hot(tg.cast(x, "int32"), 2)[:, 0]))
    given = np.zeros(MANY, np.float32)
    async with tg.Session(graph, settings=ON, memory_limit=100 * MANY) as session:
        await session.compile(y, [x])
        for turns in range(12):
            step = asyncio.ensure_future(session.run(y, {x: given}))
            for _ in range(turns):
                await asyncio.sleep(0.001)
            step.cancel()
            await asyncio.gather(step, return_exceptions=True)
        while session.statistics().orphaned:
            await asyncio.sleep(0.001)
        await session.run(y, {x: given})
        gc.collect()
        assert session.statistics().live_bytes == 0


async def test_a_kernel_refused_beside_another_thread_has_room_when_that_is_done():
    """What it wants is what it held and asked for, whatever others had at the time."""
    with tg.Graph().as_default() as graph:
        early, late = tg.placeholder("float32", [2]), tg.placeholder("float32", [2])
        found = [tg.reduce_sum(apply("Takes", x)) for x in (late, early)]
    feeds = {late: np.array([4 * MANY, 0.05], np.float32), early: np.array([8 * MANY, 0.01], np.float32)}
    async with tg.Session(graph, settings=replace(ON, workers=2), memory_limit=4 * 10 * MANY) as session:
        assert await session.run(found, feeds) == [4 * MANY, 8 * MANY]


async def test_sums_of_products_that_are_done_at_once_keep_nothing_alive():
    with tg.Graph().as_default() as graph:
        total, x = tg.placeholder("float32", [8, 8]), tg.placeholder("float32", [4, 8])
        summed = tg.while_loop(
            lambda i, t: i < 3,
            lambda i, t: (i + 1, t + tg.matmul(x * tg.cast(i, "float32"), x, transpose_a=True)),
            [0, total],
        )[1]
    fed = np.ones((8, 8), np.float32)
    async with tg.Session(graph, settings=ON) as session:
        held = sys.getrefcount(fed)
        for _ in range(3):
            await session.run(summed, {total: fed, x: np.ones((4, 8), np.float32)})
    gc.collect()
    assert sys.getrefcount(fed) == held


async def test_kernels_whose_results_a_guard_looks_at_in_a_thread_are_in_the_trace():
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [None])
        y = x + 1.0
    async with tg.Session(graph, settings=ON, check_numerics=True) as session:
        trace = tg.Trace()
        await session.run(y, {x: np.ones(MANY, np.float32)}, trace=trace)
        assert [span.type for span in trace.spans].count("Add") == 1
        with pytest.raises(tg.OpError, match=r"NaN|nan|inf"):
            await session.run(y, {x: np.full(MANY, np.nan, np.float32)})


# ---- variables


@pytest.fixture
def counter():
    """A graph with a large variable and what adds one to it."""
    with tg.Graph().as_default() as graph:
        v = tg.Variable(tg.zeros([MANY]), name="v")
        return graph, v, v.assign_add(tg.ones([MANY]))


@pytest.mark.parametrize("executor", ["machine", "reference"])
async def test_long_updates_of_many_steps_happen_one_after_the_other(counter, executor):
    graph, v, added = counter
    async with tg.Session(graph, settings=ON, executor=executor) as session:
        await session.run(v.initializer)
        found = await asyncio.gather(*[session.run(added) for _ in range(8)], *[session.run(v) for _ in range(4)])
        assert all((each == each[0]).all() for each in found)  # nobody sees half of an update
        assert sorted(each[0] for each in found[:8]) == list(range(1, 9))
        assert (await session.run(v))[0] == 8


async def test_whoever_reads_while_a_thread_writes_waits(counter):
    graph, v, added = counter
    async with tg.Session(graph, settings=ON) as session:
        await session.run(v.initializer)
        steps = [asyncio.ensure_future(session.run(added.op)) for _ in range(3)]
        await asyncio.sleep(0)
        for value in (
            (await session.read_variables("v"))["v"],
            (await session.snapshot())["variables"]["v"],
            await session.run(v),
        ):
            assert (value == value[0]).all()
        await session.write_variables({"v": np.full(MANY, 100, np.float32)})
        await asyncio.gather(*steps)
        assert (await session.run(v))[-1] in (100, 101, 102, 103)


async def test_a_value_that_was_read_does_not_change_under_a_later_long_update(counter):
    graph, v, added = counter
    async with tg.Session(graph, settings=ON) as session:
        await session.run(v.initializer)
        first = await session.run(v)
        second, third = await session.run([v, added])
        assert (first == 0).all()
        assert (second == 0).all()
        assert (third == 1).all()
        third[:] = 7  # what is fetched is the caller's
        assert ((await session.run(v)) == 1).all()


async def test_an_update_that_has_begun_ends_before_its_cancelled_step_does(counter):
    graph, v, added = counter
    async with tg.Session(graph, settings=ON) as session:
        await session.run(v.initializer)
        for turns in range(10):
            before = (await session.run(v))[0]
            step = asyncio.ensure_future(session.run(added.op))
            for _ in range(turns):
                await asyncio.sleep(0)
            step.cancel()
            await asyncio.gather(step, return_exceptions=True)
            value = await session.run(v)
            assert (value == value[0]).all()
            assert value[0] in (before, before + 1)


async def test_an_update_of_another_shape_is_refused_and_the_variable_stays():
    with tg.Graph().as_default() as graph:
        v, x = tg.Variable(tg.zeros([MANY])), tg.placeholder("float32")
        added = v.assign_add(x)
    async with tg.Session(graph, settings=ON) as session:
        await session.run(v.initializer)
        with pytest.raises(OpError, match="another shape"):
            await session.run(added, {x: np.ones(2 * MANY, np.float32)})
        assert ((await session.run(added, {x: np.ones(MANY, np.float32)})) == 1).all()


async def test_writing_many_variables_writes_all_or_none():
    with tg.Graph().as_default() as graph:
        for name in "ab":
            tg.Variable(tg.zeros([MANY]), name=name)
    values = {name: np.full(MANY, k, np.float32) for k, name in enumerate("ab", 1)}
    async with tg.Session(graph, settings=ON, memory_limit=4 * MANY * 3) as session:
        await session.write_variables(values)
        held = await session.read_variables()
        writing = asyncio.ensure_future(session.write_variables({name: value + 5 for name, value in values.items()}))
        await asyncio.gather(writing, return_exceptions=True)
        found = await session.read_variables()
        changed = {(found[name] == held[name] + 5).all() for name in "ab"}
        assert changed in ({True}, {False})


@pytest.fixture
def two():
    """A graph with two large variables and what adds to each."""
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [MANY])
        variables = [tg.Variable(tg.zeros([MANY]), name=name) for name in "ab"]
        return graph, x, [v.assign_add(x).op for v in variables], tg.global_variables_initializer()


async def test_all_variables_are_read_between_updates_and_written_for_good(two):
    graph, x, updates, initializer = two
    one = np.ones(MANY, np.float32)
    async with tg.Session(graph, settings=ON) as session:
        await session.run(initializer)

        async def go_on(update):
            while going:
                await session.run(update, {x: one})

        going = True
        steps = [asyncio.ensure_future(go_on(update)) for update in updates]
        held = []
        for k in range(1, 8):
            written = np.full(MANY, 1000 * k, np.float32)
            await session.write_variables({"a": written, "b": written})
            read = (await session.read_variables(), (await session.snapshot())["variables"])
            for values in read:
                for value in values.values():
                    assert (value == value[0]).all()
                    assert 1000 * k <= value[0] < 1000 * k + 1000
                    assert value.flags.writeable
                    held.append((value, value[0]))
        assert all((value == first).all() for value, first in held)  # nobody else writes to what was given
        going = False
        await asyncio.gather(*steps)


async def test_restoring_in_two_calls_at_once_restores_both(two):
    graph = two[0]
    ones = np.ones(MANY, np.float32)
    async with tg.Session(graph, settings=ON) as session:
        await asyncio.gather(*[session.restore({"variables": {name: ones}}) for name in "ab"])
        assert sorted(await session.read_variables()) == ["a", "b"]


async def test_a_variable_that_a_step_asks_for_while_it_is_restored_is_restored(two):
    graph, x, updates, _ = two
    ones = np.ones(MANY, np.float32)
    async with tg.Session(graph, settings=ON) as session:
        restoring = asyncio.ensure_future(session.restore({"variables": {"a": ones, "b": ones}}))
        await asyncio.sleep(0)
        updated = 1
        try:
            await session.run(updates[0], {x: ones})
            updated = 2  # the values were copied already, as happens on busy cores
        except tg.UninitializedVariableError:
            pass
        await restoring
        await session.run(updates[0], {x: ones})
        assert (await session.read_variables())["a"][0] == 1 + updated
        assert sorted(session.resources.names("variables")) == ["a", "b"]


async def test_a_session_that_is_closed_while_values_are_copied_says_so(two):
    graph, _, _, initializer = two
    session = tg.Session(graph, settings=replace(ON, workers=1))
    await session.run(initializer)
    reads = [asyncio.ensure_future(session.read_variables()) for _ in range(6)]
    fetches = [asyncio.ensure_future(session.run(graph.collections["variables"][0])) for _ in range(3)]
    await asyncio.sleep(0)
    await session.aclose()
    for found in await asyncio.gather(*reads, *fetches, return_exceptions=True):
        assert isinstance(found, (dict, np.ndarray, tg.SessionClosed))


async def test_calls_of_a_failed_step_that_have_not_begun_are_withdrawn():
    with tg.Graph().as_default() as graph:
        x, k = tg.placeholder("float32", [None]), tg.placeholder("int32", [None])
        shuffled, wrong = [tg.random_shuffle(x) for _ in range(8)], tg.gather(k, k + 5)
    async with tg.Session(graph, settings=replace(ON, workers=1)) as session:
        for _ in range(3):
            with pytest.raises(OpError):
                await session.run([*shuffled, wrong], {x: np.ones(MANY, np.float32), k: [1]})
            await asyncio.sleep(0)
            assert session._steps.environment.worker_pool.calls.pending <= 1


async def test_additions_in_a_thread_that_find_no_memory_are_refused_as_here():
    size = 4 * MANY
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [2, MANY])
        array = tg.TensorArray("float32", size=2, clear_after_read=False, element_shape=[MANY]).unstack(x)
        sums = array.grad("mine").unstack(x).unstack(x * 2.0).stack()[0, 0]
    given = np.ones((2, MANY), np.float32)
    for sizes in (3.5, 4.5, 5.5):
        async with tg.Session(graph, settings=ON, memory_limit=int(size * sizes)) as session:
            with pytest.raises(DeviceMemoryError):
                await session.run(sums, {x: given})
    async with tg.Session(graph, settings=ON, memory_limit=9 * size) as session:
        assert await session.run(sums, {x: given}) == 3


async def test_additions_whose_step_fails_before_they_begin_leave_nothing():
    def fail(value):
        raise ValueError("no")

    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [2, MANY])
        array = tg.TensorArray("float32", size=2, clear_after_read=False, element_shape=[MANY]).unstack(x)
        once = array.grad("mine").unstack(x)
        y = x * 2.0
        twice = once.unstack(y).stack()[0, 0]
        failed = tg.py_function(fail, [y], "float32", stateful=False)
    async with tg.Session(graph, settings=replace(ON, workers=1)) as session:
        for fetches in ([twice, failed], [failed, twice]):
            with pytest.raises(OpError, match="no"):
                await session.run(fetches, {x: np.ones((2, MANY), np.float32)})
        await asyncio.sleep(0)
        gc.collect()  # a coroutine that was never awaited would warn


# ---- what comes in, and what goes out


@pytest.mark.parametrize("executor", ["machine", "reference"])
async def test_watched_values_come_in_order_large_and_small(executor):
    def body(i, x):
        return i + 1, tg.fill(tg.where(tg.equal(i % 2, 0), [MANY], [4]), tg.cast(i, "float32") + x[0] * 0.0)

    with tg.Graph().as_default() as graph:
        start = tg.fill([4], 0.0)
        shown = []

        def noted(i, x):
            result = body(i, x)
            shown.append(result[1])
            return result

        last = tg.while_loop(lambda i, x: i < 8, noted, [0, start], shape_invariants=[[], [None]])[0]
    async with tg.Session(graph, settings=ON, executor=executor) as session:
        for limit, policy in ((16, "block"), (1, "block")):
            own, other = (tg.Watch(shown[0], limit=limit, policy=policy) for _ in range(2))
            run = asyncio.ensure_future(session.run(last, watch=[own, other]))

            async def read(watch):
                return [value async for value in watch]

            first, second = await asyncio.gather(read(own), read(other))
            await run
            assert [value[0] for value in first] == list(range(8))
            assert [len(value) for value in second] == [MANY, 4] * 4
            assert all(not np.shares_memory(one, two) for one, two in zip(first, second, strict=True))


async def test_large_watched_values_that_nobody_reads_are_dropped():
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [None])
        y = tg.exp(x)
        for _ in range(5):
            y = tg.exp(y) * 0.0
    async with tg.Session(graph, settings=ON) as session:
        watch = tg.Watch(y, limit=1, policy="latest")
        given = np.zeros(MANY, np.float32)
        await session.run(y, {x: given}, watch=watch)
        watch.close()
        assert [value async for value in watch] == []


async def test_large_feeds_are_converted_and_checked_elsewhere():
    with tg.Graph().as_default() as graph:
        x, n = tg.placeholder("float32", [None]), tg.placeholder("int32", [None])
        y, m = x * 2.0, n + 1
    given = np.linspace(0, 1, MANY)
    async with tg.Session(graph, settings=ON) as session:
        np.testing.assert_array_equal(await session.run(y, {x: given}), given.astype(np.float32) * 2)
        np.testing.assert_array_equal(await session.run(m, {n: np.arange(MANY)}), np.arange(MANY) + 1)
        with pytest.raises(DtypeError, match="wrong dtype"):
            await session.run(m, {n: given})
        with pytest.raises(DtypeError):
            await session.run(m, {n: np.full(MANY, 2**40)})
        closing = asyncio.ensure_future(session.run(y, {x: given}))
        await asyncio.sleep(0)
    with pytest.raises(tg.SessionClosed):
        await closing


async def test_what_is_fetched_twice_is_given_twice():
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [None])
        y = tg.exp(x)
    async with tg.Session(graph, settings=ON) as session:
        given = np.zeros(MANY, np.float32)
        first, second, same = await session.run([y, [y], x], {x: given})
        first[:] = same[:] = 5
        assert (second[0] == 1).all()
        assert (given == 0).all()


async def test_handles_of_large_values_are_kept():
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [None])
        kept, total = tg.get_session_handle(tg.exp(x)), tg.reduce_sum(x)
    async with tg.Session(graph, settings=ON) as session:
        handle = await session.run(kept, {x: np.zeros(MANY, np.float32)})
        assert await session.run(total, {x: handle}) == MANY


async def test_parts_of_a_run_are_copied_in_order():
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [None])
        y = tg.exp(x)
        z = tg.reduce_sum(y)
    async with tg.Session(graph, settings=ON) as session, await session.partial_run_setup([y, z], [x]) as parts:
        value = await session.partial_run(parts, y, {x: np.zeros(MANY, np.float32)})
        value[:] = 9
        assert await session.partial_run(parts, z) == MANY
