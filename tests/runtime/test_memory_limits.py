"""Sessions whose devices have limited memory: what does not fit waits, or says so and leaves everything as it was."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest
import tagloom as tg
from tagloom.runtime.memory import arbiter

from tests.support.settings import ON
from tests.support.waiting import turns, until

N = 1 << 16
SIZE = 4 * N  # bytes of the arrays here
PLAIN = replace(ON, fold=False, merge=False, fuse=False, reuse=False, workers=0)


pytestmark = pytest.mark.usefixtures("every_block_comes_back")


@pytest.fixture
def x(graph):
    return tg.placeholder("float32", [None])


def ones(count=N):
    return np.ones(count, np.float32)


def live(session):
    """Return the bytes in use, small constants of compiled steps apart."""
    found = session.statistics().live_bytes
    return 0 if found < 100 else found


def arrays(parallel_iterations, trips=12):
    """Return a loop in which each iteration has two arrays at once, and gives a number."""

    def body(i, total):
        one = tg.fill([N], tg.cast(i, "float32"))
        return i + 1, total + tg.reduce_sum(tg.exp(one * 0.0) * one)

    return tg.while_loop(lambda i, _: i < trips, body, (0, 0.0), parallel_iterations=parallel_iterations)[1]


# ---- what a limit is


async def test_statistics_say_the_limit_of_each_device(graph):
    async with tg.Session(graph, devices=2, memory_limit="1MiB", settings=ON) as session:
        devices = session.statistics().devices
        assert [figures.limit_bytes for figures in devices.values()] == [1 << 20] * 2
    async with tg.Session(graph, devices=2, memory_limit={"/cpu:1": 5000}, settings=ON) as session:
        assert [figures.limit_bytes for figures in session.statistics().devices.values()] == [None, 5000]


@pytest.mark.parametrize("limit", [0, "much", True, {"/cpu:7": 100}, {"/device:CPU:*": 100}])
def test_what_is_no_limit_is_refused(graph, limit):
    with pytest.raises(tg.GraphError, match=r"memory limit|size in bytes"):
        tg.Session(graph, devices=2, memory_limit=limit)


def test_memory_that_is_not_counted_can_not_be_limited(graph):
    with pytest.raises(tg.GraphError, match="not counted"):
        tg.Session(graph, memory_limit=100, settings=tg.Settings(pool=False))


# ---- what does not fit before a step begins


async def test_a_feed_that_does_not_fit(graph, x, executor):
    v = tg.Variable(np.zeros(100, np.float32), name="v")
    async with tg.Session(graph, memory_limit=SIZE, settings=ON, executor=executor) as session:
        await session.run(tg.global_variables_initializer())
        before = live(session)
        with pytest.raises(tg.DeviceMemoryError, match="values fed") as caught:
            await session.run(x + 1.0, {x: ones()})
        error = caught.value
        assert (error.requested, error.limit, error.live) == (SIZE, SIZE, before)
        assert error.device == "/job:localhost/task:0/device:CPU:0"
        assert any(allocation.operation == "variable v" and allocation.bytes == 400 for allocation in error.allocations)
        assert live(session) == before
        assert (await session.run(x + 1.0, {x: ones(5)})).tolist() == [2.0] * 5
        assert (await session.run(v)).tolist() == [0.0] * 100


async def test_constants_that_do_not_fit(graph, executor):
    y = tg.constant(np.random.default_rng(0).random(N, np.float32)) * 2.0
    async with tg.Session(graph, memory_limit=1000, settings=PLAIN, executor=executor) as session:
        with pytest.raises(tg.DeviceMemoryError, match="constants") as caught:
            await session.run(y)
        assert caught.value.allocations[0].bytes == SIZE
        assert live(session) == 0
        assert await session.run(tg.constant(1.0) + 1.0) == 2.0


async def test_written_variables_that_do_not_fit(graph):
    small, large = tg.Variable(np.zeros(10, np.float32)), tg.Variable(np.zeros(N, np.float32))
    async with tg.Session(graph, memory_limit=SIZE, settings=ON) as session:
        await session.write_variables({small.name: ones(10) * 0})
        with pytest.raises(tg.DeviceMemoryError, match="new values of variables"):
            await session.write_variables({small.name: ones(10), large.name: ones()})
        assert (await session.run(small)).tolist() == [0.0] * 10


async def test_constants_of_older_steps_make_room(graph):
    first, second = (tg.constant(np.random.default_rng(i).random(N, np.float32)) for i in range(2))
    async with tg.Session(graph, memory_limit=SIZE + 5000, settings=PLAIN) as session:
        for each in (first, second, first):
            await session.run(tg.reduce_sum(each))
        assert session.statistics().cached_steps == 1


# ---- an operation that does not fit


@pytest.mark.rule(49)
async def test_a_result_that_does_not_fit(graph, x, executor):
    doubled = tg.multiply(x, 2.0, name="doubled")
    both = tg.concat([doubled, x], 0, name="both")  # here
    async with tg.Session(graph, memory_limit=3 * SIZE, settings=PLAIN, executor=executor) as session:
        with pytest.raises(tg.DeviceMemoryError, match="no room for a result") as caught:
            await session.run(both, {x: ones()})
        error = caught.value
        assert (error.operation.name, error.tag, error.limit) == ("both", "both@root/0", 3 * SIZE)
        assert error.requested == 2 * SIZE
        assert "# here" in str(error.source)
        if executor == "machine":
            assert {h.operation: h.bytes for h in error.allocations}["doubled"] == SIZE
            assert "holds: 262144 bytes: doubled@root/0, built at" in str(error)
        assert "memory_limit" in error.hint
        del caught, error
        assert live(session) == 0
        assert (await session.run(both, {x: ones(3)})).tolist() == [2.0] * 3 + [1.0] * 3


async def test_variables_keep_their_values(graph, x, executor):
    v = tg.Variable(np.zeros(N, np.float32))
    async with tg.Session(graph, memory_limit=2 * SIZE + 4096, settings=PLAIN, executor=executor) as session:
        await session.run(tg.global_variables_initializer())
        with pytest.raises(tg.DeviceMemoryError):
            await session.run([tg.concat([x, x], 0), v.assign_add(x)], {x: ones()})
        assert live(session) >= SIZE
        assert (await session.run(v))[0] in (0.0, 1.0)
        with pytest.raises(tg.DeviceMemoryError):
            await session.run(tg.concat([v + 1.0, v + 2.0], 0))
        assert len(await session.run(v)) == N


# ---- what waits


async def test_branches_of_a_step_take_turns(graph, x):
    """Each of the sums needs twice the feed, and there is room for one of them at a time."""
    sums = [tg.reduce_sum(tg.concat([x, x], 0) * float(i)) for i in range(6)]
    async with tg.Session(graph, settings=PLAIN) as session:
        expected = await session.run(sums, {x: ones()})
    async with tg.Session(graph, memory_limit=6 * SIZE, settings=PLAIN) as session:
        np.testing.assert_array_equal(await session.run(sums, {x: ones()}), expected)
        assert session.statistics().peak_bytes <= 6 * SIZE
        assert live(session) == 0


@pytest.mark.parametrize("window", [1, 4, 32, "auto"])
@pytest.mark.parametrize("arrays_at_once", [4.1, 5, 9, 100])
async def test_a_loop_fits_where_one_iteration_does(graph, executor, window, arrays_at_once):
    total = arrays(window)
    async with tg.Session(graph, settings=PLAIN) as session:
        expected = await session.run(total)
    limit = int(arrays_at_once * SIZE)
    async with tg.Session(graph, memory_limit=limit, settings=PLAIN, executor=executor) as session:
        assert await session.run(total) == expected
        assert session.statistics().peak_bytes <= limit
        assert live(session) == 0


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_in_any_ready_order(graph, seed):
    total = arrays("auto")
    settings = replace(ON, fold=False, merge=False, fuse=False, shuffle_seed=seed)
    async with tg.Session(graph, memory_limit=4 * SIZE, settings=settings) as session:
        assert await session.run(total) == float(sum(range(12))) * N


async def test_more_iterations_begin_where_there_is_room(graph):
    """The body waits for a function each time, so iterations overlap as far as they are let."""

    async def later(value):
        await asyncio.sleep(0.001)
        return value

    def body(i):
        many = tg.fill([N], tg.cast(i, "float32"))
        held = tg.py_function(later, [i], "int32")
        with tg.control_dependencies([held]):
            total = tg.reduce_sum(many)
        return i + 1, total

    loop = tg.while_loop(lambda i, _: i < 20, lambda i, _: body(i), (0, 0.0), parallel_iterations="auto")
    async with tg.Session(graph, memory_limit=6 * SIZE + 4096, settings=PLAIN) as session:
        await session.run(loop)
        (report,) = session.report().loops
        assert report.max_in_flight == 6
        assert report.limited_by == "memory"
        assert "limited by memory" in str(report)
        assert 5 * SIZE <= session.statistics().peak_bytes <= 6 * SIZE + 4096
    async with tg.Session(graph, settings=PLAIN) as session:
        await session.run(loop)
        assert session.report().loops[0].max_in_flight > 6


async def test_gradients_of_a_loop(graph, x):
    """What the forward loop saves fits; the iterations of both loops begin as there is room."""

    def body(i, a):
        return i + 1, tg.tanh(a) * 1.5

    _, y = tg.while_loop(lambda i, _: i < 10, body, (0, x), parallel_iterations="auto")
    (gradient,) = tg.gradients(tg.reduce_sum(y), [x])
    async with tg.Session(graph, settings=ON) as session:
        expected = await session.run(gradient, {x: ones()})
        peak = session.statistics().peak_bytes
    async with tg.Session(graph, memory_limit=peak + 4096, settings=ON) as session:
        np.testing.assert_array_equal(await session.run(gradient, {x: ones()}), expected)
    async with tg.Session(graph, memory_limit=8 * SIZE, settings=ON) as session:
        with pytest.raises(tg.DeviceMemoryError) as caught:
            await session.run(gradient, {x: ones()})
        assert any("saved by" in allocation.operation for allocation in caught.value.allocations)
        del caught
        assert live(session) == 0


async def test_what_an_array_gives_is_read_once_though_it_waits(graph):
    """Stacking needs as much again as the elements; a first try is in vain, as the other branch is not done."""
    array = tg.TensorArray("float32", 4)
    for i in range(4):
        array = array.write(i, tg.fill([N], float(i)))
    stacked = tg.reduce_sum(array.stack())
    async with tg.Session(graph, memory_limit=7 * SIZE, settings=PLAIN) as session:
        with pytest.raises(tg.DeviceMemoryError):
            await session.run(stacked)
        assert live(session) == 0
    async with tg.Session(graph, memory_limit=8 * SIZE + 4096, settings=PLAIN) as session:
        assert await session.run(stacked) == 6.0 * N


# ---- steps that wait for each other


def two_that_do_not_fit(x):
    """Return a step that holds memory until an event is set, one that needs what it has, and the event."""
    release = asyncio.Event()

    async def wait(value):
        await release.wait()
        return value

    slow = tg.reduce_sum(tg.concat([x, x], 0) * tg.py_function(wait, [tg.constant(1.0)], "float32"))
    return slow, tg.reduce_sum(tg.concat([x, x, x], 0)), release


async def test_a_step_waits_for_another(graph, x):
    """One holds most of the memory while a function of it waits; the other goes on when that is over."""
    slow, quick, release = two_that_do_not_fit(x)
    async with tg.Session(graph, memory_limit=7 * SIZE + 4096, settings=PLAIN) as session:
        first = asyncio.ensure_future(session.run(slow, {x: ones()}))
        await until(lambda: live(session) >= 2 * SIZE)
        second = asyncio.ensure_future(session.run(quick, {x: ones(2 * N)}))  # 2 + 6
        await turns()
        assert not second.done()
        third = asyncio.ensure_future(session.run(tg.constant(1.0) + 1.0))
        assert await third == 2.0
        assert not second.done()
        release.set()
        assert await first == 2 * N
        with pytest.raises(tg.DeviceMemoryError):  # even alone it needs 8
            await second
        assert live(session) == 0


async def test_a_step_gets_what_another_gives_back(graph, x):
    slow, quick, release = two_that_do_not_fit(x)
    async with tg.Session(graph, memory_limit=6 * SIZE, settings=PLAIN) as session:
        first = asyncio.ensure_future(session.run(slow, {x: ones()}))
        await until(lambda: live(session) >= 2 * SIZE)
        second = asyncio.ensure_future(session.run(quick, {x: ones()}))
        await turns()
        assert not second.done()
        release.set()
        assert await asyncio.gather(first, second) == [2 * N, 3 * N]
        assert live(session) == 0


@pytest.mark.parametrize("join", ["stack", "concat"])
async def test_elements_wait_for_room_for_what_joins_them(graph, x, join):
    """Another step has the memory for a while: what was tried in vain has read nothing."""
    slow, _, release = two_that_do_not_fit(x)
    array = tg.while_loop(
        lambda i, _: i < 8,
        lambda i, array: (i + 1, array.write(i, x * tg.cast(i, "float32"))),
        (0, tg.TensorArray("float32", 8)),
    )[1]
    joined = tg.reduce_sum(getattr(array, join)())
    async with tg.Session(graph, memory_limit=18 * SIZE + 4096, settings=replace(ON, fuse=False)) as session:
        first = asyncio.ensure_future(session.run(slow, {x: ones()}))  # 3, and then 2 more
        await until(lambda: live(session) >= 2 * SIZE)
        second = asyncio.ensure_future(session.run(joined, {x: ones()}))  # 9, and then 8 more
        await turns()
        assert not second.done()
        release.set()
        assert await asyncio.gather(first, second) == [2 * N, 28 * N]
        assert live(session) == 0


async def test_of_steps_that_wait_for_each_other_and_for_memory_the_last_fails(graph, x, monkeypatch):
    """Both hold one array more than the other needs to end, and neither ends before the other has begun."""
    monkeypatch.setattr(arbiter, "_LATE_SECONDS", 0.1)
    barrier = asyncio.Barrier(2)

    async def meet(value):
        await barrier.wait()
        return value

    grown = x + 1.0
    with tg.control_dependencies([grown]):
        met = tg.py_function(meet, [tg.constant(1.0)], "float32")
    with tg.control_dependencies([met]):
        y = tg.reduce_sum(tg.concat([grown, grown, grown], 0))
    async with tg.Session(graph, memory_limit=6 * SIZE + 4096, settings=PLAIN) as session:
        results = await asyncio.gather(*(session.run(y, {x: ones()}) for _ in range(2)), return_exceptions=True)
        assert results[0] == 6 * N
        assert isinstance(results[1], tg.DeviceMemoryError)
        del results
        assert live(session) == 0


async def test_a_parked_step_that_is_cancelled_leaves_nothing(graph, x):
    slow, quick, release = two_that_do_not_fit(x)
    async with tg.Session(graph, memory_limit=6 * SIZE, settings=PLAIN) as session:
        first = asyncio.ensure_future(session.run(slow, {x: ones()}))
        await until(lambda: live(session) >= 2 * SIZE)
        await turns()
        before = live(session)
        second = asyncio.ensure_future(session.run(quick, {x: ones()}))
        await turns()
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        assert live(session) == before
        with pytest.raises(tg.StepTimeout) as caught:
            await session.run(quick, {x: ones()}, timeout=0.02)
        assert "nobody knows what it takes" in caught.value.__notes__[0]
        del caught
        release.set()
        await first
        assert live(session) == 0


# ---- several devices


@pytest.mark.parametrize("window", [2, "auto"])
async def test_each_device_keeps_its_limit(graph, window):
    def body(i, total):
        with tg.device("/cpu:0"):
            here = tg.fill([N], tg.cast(i, "float32"))
        with tg.device("/cpu:1"):
            there = tg.reduce_sum(tg.exp(here * 0.0) * here)
        with tg.device("/cpu:0"):
            return i + 1, total + there

    total = tg.while_loop(lambda i, _: i < 8, body, (0, 0.0), parallel_iterations=window)[1]
    limit = {"/cpu:0": 2 * SIZE + 4096, "/cpu:1": 4 * SIZE + 4096}
    async with tg.Session(graph, devices=2, memory_limit=limit, settings=PLAIN) as session:
        assert await session.run(total) == 28.0 * N
        for figures in session.statistics().devices.values():
            assert figures.peak_bytes <= figures.limit_bytes
            assert figures.live_bytes < 100
    async with tg.Session(graph, devices=2, memory_limit={"/cpu:1": 2 * SIZE}, settings=PLAIN) as session:
        with pytest.raises(tg.DeviceMemoryError) as caught:
            await session.run(total)
        assert caught.value.device == "/job:localhost/task:0/device:CPU:1"
        del caught
        assert live(session) == 0


async def test_what_is_made_in_front_of_a_loop_keeps_to_the_limit(graph, fast_paths):
    """The products of all inputs of this LSTM would be 6.5 MB; without them it needs 2.3."""
    length, batch, units = 100, 32, 128
    x, w = tg.placeholder("float32", [length, batch, units]), tg.placeholder("float32", [2 * units, 4 * units])
    rows = tg.TensorArray("float32", length).unstack(x)

    def body(t, h, c):
        i, j, f, o = tg.split(tg.concat([rows.read(t), h], 1) @ w, 4, 1)
        c = tg.sigmoid(f) * c + tg.sigmoid(i) * tg.tanh(j)
        return t + 1, tg.sigmoid(o) * tg.tanh(c), c

    zeros = tg.zeros([batch, units])
    _, h, _ = tg.while_loop(lambda t, *_: t < length, body, [0, zeros, zeros])
    random = np.random.default_rng(0)
    feeds = {x: random.standard_normal(x.shape, np.float32), w: random.standard_normal(w.shape, np.float32) / 16}
    found = []
    for limit in (None, "4MB", "3MB"):
        async with tg.Session(graph, memory_limit=limit) as session:
            found.append(await session.run(h, feeds))
            assert limit is None or session.statistics().peak_bytes <= 3_000_000
    np.testing.assert_allclose(found[1], found[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found[2], found[0], rtol=1e-4, atol=1e-5)
