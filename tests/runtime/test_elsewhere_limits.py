"""Limits of memory on a device whose arrays are not NumPy's: what is refused waits, or says so and leaves nothing."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest
import tagloom as tg
from tagloom.kernels.elementary.functions import elementary_function

from tests.strict_array_library.device import StrictDevice
from tests.support.settings import ON
from tests.support.waiting import turns, until

pytestmark = pytest.mark.usefixtures("strict_library")
N = 1 << 12
SIZE = 4 * N  # bytes of the arrays here
PLAIN = replace(ON, fold=False, merge=False, fuse=False, native=False)
X = np.linspace(-1, 1, N, dtype=np.float32)


@pytest.fixture
def x(graph):
    return tg.placeholder("float32", [None], name="x")


def opened(graph, arrays, **options):
    """Return a device with room for so many arrays, and a session on it."""
    device = StrictDevice(limit=int(arrays * SIZE))
    return device, tg.Session(graph, devices=[device], settings=PLAIN, **options)


async def test_what_fits_is_what_fits_on_a_cpu(graph, x):
    """Branches that take turns, with kernels of the same temporaries."""
    sums = [tg.reduce_sum(tg.exp(x * float(i)) + tg.tanh(x)) for i in range(5)]
    fits = {}
    for kind in ("cpu", "strict"):
        for arrays in (2, 3, 4, 5, 6, 8, 20):
            device, session = opened(graph, arrays)
            if kind == "cpu":
                session = tg.Session(graph, memory_limit=arrays * SIZE, settings=replace(PLAIN, loops=False))
            async with device, session:
                try:
                    found = await session.run(sums, {x: X})
                    assert len(found) == 5
                    fits.setdefault(kind, []).append(arrays)
                except tg.DeviceMemoryError:
                    pass
                assert session.statistics().peak_bytes <= arrays * SIZE
                assert device.live_bytes < 100
    assert fits["strict"][0] <= fits["cpu"][0] + 1
    assert fits["strict"] == [n for n in (2, 3, 4, 5, 6, 8, 20) if n >= fits["strict"][0]]


@pytest.mark.parametrize("window", [1, 4, 32, "auto"])
@pytest.mark.parametrize("arrays", [4.1, 6, 9, 100])
async def test_a_loop_fits_where_one_iteration_does(graph, x, window, arrays):
    body = lambda i, s: (i + 1, s + tg.reduce_sum(tg.exp(x * tg.cast(i, "float32"))))  # noqa: E731
    total = tg.while_loop(lambda i, _: i < 12, body, (0, 0.0), parallel_iterations=window)[1]
    async with tg.Session(graph, settings=replace(PLAIN, loops=False)) as session:
        expected = await session.run(total, {x: X})
    device, session = opened(graph, arrays)
    async with device, session:
        assert await session.run(total, {x: X}) == expected
        assert device.peak_bytes <= device.limit
        assert device.live_bytes < 100


async def test_what_never_fits_says_who_has_the_memory(graph, x):
    doubled = tg.multiply(x, 2.0, name="doubled")
    both = tg.concat([doubled, x], 0, name="both")  # here
    device, session = opened(graph, 3)
    async with device, session:
        with pytest.raises(tg.DeviceMemoryError, match="no room for a result") as caught:
            await session.run(both, {x: X})
        error = caught.value
        assert (error.requested, error.live, error.limit) == (2 * SIZE, 2 * SIZE, 3 * SIZE)
        assert error.device == "/job:localhost/task:0/device:GPU:0"
        assert {h.operation: h.bytes for h in error.allocations} == {"doubled": SIZE, "x/ToDevice_0": SIZE}
        assert "# here" in str(error.source)
        assert "memory_limit" in error.hint
        del caught, error
        assert device.live_bytes == 0
        assert (await session.run(both, {x: X[:3]})).shape == (6,)


async def test_a_feed_that_does_not_fit(graph, x):
    device, session = opened(graph, 0.5)
    async with device, session:
        with pytest.raises(tg.DeviceMemoryError) as caught:
            await session.run(tg.exp(x), {x: X})
        assert (caught.value.requested, caught.value.live) == (SIZE, 0)
        del caught
        assert device.live_bytes == 0


async def test_what_was_copied_in_is_not_copied_again_by_who_waits(graph, x):
    """The sum needs its inputs and as much again, which another branch has as long as its function takes."""
    go_on = asyncio.Event()

    async def later(value):
        await go_on.wait()
        return value

    y = tg.placeholder("float32", [None])
    large = tg.fill([3 * N], 1.0)
    with tg.control_dependencies([tg.py_function(later, [tg.constant(1.0)], "float32")]):
        kept = tg.reduce_sum(large)
    with tg.control_dependencies([large]):
        total = tg.concat([x, y], 0)
    device, session = opened(graph, 6.1)
    async with device, session:
        step = asyncio.ensure_future(session.run([tg.reduce_sum(total), kept], {x: X, y: X}))
        await until(lambda: device.ins.count((N,)) == 2 and device.contexts.pool.refusals > 0)
        await turns()
        assert not step.done()
        assert device.ins.count((N,)) == 2
        go_on.set()
        await step
        assert device.ins.count((N,)) == 2
        assert device.live_bytes < 100


async def test_steps_wait_for_each_other(graph, x):
    total = tg.reduce_sum(tg.tanh(tg.exp(x) * tg.sin(x)))
    device, session = opened(graph, 4)
    async with device, session:
        steps = [session.run(total, {x: X * k}, timeout=20) for k in range(8)]
        results = await asyncio.gather(*steps, return_exceptions=True)
        assert any(isinstance(each, np.generic | np.ndarray) for each in results)
        for k, result in enumerate(results):
            if not isinstance(result, tg.DeviceMemoryError):
                assert result == await session.run(total, {x: X * k})
        del results, result
        assert device.peak_bytes <= device.limit
        assert device.live_bytes < 100


async def test_a_cancelled_step_gives_back_what_is_still_copied(graph, x):
    y = tg.exp(x)
    device, session = opened(graph, 2)
    async with device, session:
        for turns in range(12):
            step = asyncio.ensure_future(session.run(y, {x: X}))
            for _ in range(turns):
                await asyncio.sleep(0)
            step.cancel()
            await asyncio.gather(step, return_exceptions=True)
            assert device.live_bytes == 0
            np.testing.assert_array_equal(await session.run(y, {x: X}), elementary_function(np, "exp")(X))


async def test_kernels_that_look_at_values_are_limited_too(graph, x):
    rows = tg.gather(tg.concat([x, x], 0), tg.cast(tg.range(N), "int64"))
    masked = tg.boolean_mask(x, x > 0.0)
    async with tg.Session(graph, settings=PLAIN) as session:
        wanted = await session.run([rows, masked], {x: X})
    for arrays in (3, 4, 5, 6, 8, 12):
        device, session = opened(graph, arrays)
        async with device, session:
            try:
                for found, expected in zip(await session.run([rows, masked], {x: X}), wanted, strict=True):
                    np.testing.assert_array_equal(found, expected)
            except tg.DeviceMemoryError:
                assert arrays < 12
            assert device.peak_bytes <= device.limit
            assert device.live_bytes < 100


async def test_variables_move_in_when_there_is_room(graph, x):
    v = tg.Variable(np.zeros(N, np.float32), name="v")
    after = v.assign_add(x)
    device, session = opened(graph, 3.5)
    async with device, session:
        for k in range(3):
            await session.write_variables({"v": X * k})
            np.testing.assert_array_equal(await session.run(after, {x: X}), X * k + X)
            assert device.live_bytes == SIZE
        with pytest.raises(tg.DeviceMemoryError) as caught:
            await session.run(tg.concat([v, v, v], 0))
        assert any(allocation.operation == "variable v" for allocation in caught.value.allocations)
        del caught
        np.testing.assert_array_equal((await session.read_variables())["v"], X * 2 + X)


async def test_constants_of_other_steps_make_room(graph):
    sums = [tg.reduce_sum(tg.constant(X + k)) for k in range(3)]
    device, session = opened(graph, 1.5)
    async with device, session:
        for _ in range(2):
            for k, each in enumerate(sums):
                np.testing.assert_allclose(await session.run(each), (X + k).sum(), rtol=1e-4, atol=1e-2)
        assert device.ins == [(N,)] * 6
        assert device.peak_bytes <= device.limit


async def test_a_limit_that_is_set_by_the_session(graph, x):
    device = StrictDevice()
    async with device, tg.Session(graph, devices=[device], memory_limit=2 * SIZE, settings=PLAIN) as session:
        (figures,) = session.statistics().devices.values()
        assert figures.limit_bytes == device.limit == 2 * SIZE
        await session.run(tg.exp(x), {x: X})
        with pytest.raises(tg.DeviceMemoryError):
            await session.run(tg.concat([x, x], 0), {x: X})


def recurrence(x):
    """Return the gradient of a loop that saves more than fits in the limits here."""
    y = tg.while_loop(lambda i, _: i < 24, lambda i, a: (i + 1, tg.tanh(a * x) + 0.1 * a), (0, x))[1]
    return tg.gradients(tg.reduce_sum(y * y), [x])[0]


async def test_copies_have_lanes_and_are_reported(graph, x):
    gradient = recurrence(x)
    device, session = opened(graph, 24, swap=tg.SwapPolicy(threshold=0.3, minimum=1))
    trace = tg.Trace()
    async with device, session:
        await session.run(gradient, {x: X}, trace=trace)
        (report,) = session.report().swap
        moved = [sum(c.bytes for c in trace.copies if c.stream == s) for s in ("device_to_host", "host_to_device")]
        assert moved == [report.bytes_out["host"], report.bytes_in["host"]]
        assert min(moved) > 10 * SIZE
        assert report.hits + report.misses > 0
        assert all(copy.end >= copy.begin for copy in trace.copies)
        assert {event["args"]["name"] for event in trace.events if event["name"] == "thread_name"} >= {
            "device_to_host",
            "host_to_device",
        }


@pytest.mark.parametrize(
    ("limit", "minimum", "reason"),
    [
        (None, 1, "no memory_limit"),
        (1000, 1, "below the threshold"),
        (36, 1 << 30, None),  # of 53 it would take: what is smaller moves, since nothing else is left to
    ],
)
async def test_why_nothing_moved(graph, x, limit, minimum, reason):
    gradient = recurrence(x)
    policy = tg.SwapPolicy(minimum=minimum)
    async with (
        StrictDevice(limit=None if limit is None else limit * SIZE) as device,
        tg.Session(graph, devices=[device], settings=PLAIN, swap=policy) as session,
    ):
        await session.run(gradient, {x: X})
        (report,) = session.report().swap
        assert report.reason is None if reason is None else reason in report.reason
