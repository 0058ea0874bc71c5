"""Sessions on a device whose arrays are not NumPy's: the same values, where they are, and who waits for whom."""

import asyncio
import gc
from dataclasses import replace

import numpy as np
import pytest
import tagloom as tg
from tagloom.base.errors import GraphError, OpError
from tagloom.base.settings import DEFAULTS
from tagloom.kernels.elementary.functions import elementary_function
from tagloom.ops.state.variables.operations import slots_of
from tagloom.runtime.steps import execution
from tagloom.streams import Event
from tagloom.training import AdamOptimizer as Adam
from tagloom.training import GradientDescentOptimizer as GradientDescent
from tagloom.training import MomentumOptimizer as Momentum

from tests.runtime.device_programs import PROGRAMS, W, X, branches, fed, gradients, loop, lstm
from tests.strict_array_library.device import StrictDevice
from tests.strict_array_library.library import WAITS, Array, xp

pytestmark = pytest.mark.usefixtures("strict_library")
NUMPY = replace(DEFAULTS, native=False, loops=False)  # the kernels that are in C round elsewhere


def scattered(graph, names):
    """Ask for one of some devices for each operation, in turn."""
    for number, op in enumerate(graph.root.walk()):
        op.device = names[number % len(names)]


KINDS = {"s": "gpu", "c": "cpu"}  # a strict device stands for a GPU


async def compared(build, layout):
    """Fail unless a program gives on strict devices, and CPUs beside them, what it gives on a CPU."""
    with tg.Graph().as_default() as graph:
        fetches, feeds = build()
    async with tg.Session(graph, settings=NUMPY) as session:
        wanted = [await session.run(fetches, feeds) for _ in range(2)]
    names = [f"/{kind}:{layout[:i].count(letter)}" for i, letter in enumerate(layout) for kind in [KINDS[letter]]]
    if len(layout) > 1:
        scattered(graph, names)
    strict = [StrictDevice(name) for name, letter in zip(names, layout, strict=True) if letter == "s"]
    devices = [next((d for d in strict if d.name == name), name) for name in names]
    async with tg.Session(graph, devices=devices, soft_placement=True, settings=NUMPY) as session:
        for expecteds in wanted:
            found = await session.run(fetches, feeds)
            for got, expected in zip(found, expecteds, strict=True):
                assert type(got) is np.ndarray
                assert got.dtype == expected.dtype
                np.testing.assert_array_equal(got, expected)
    for device in strict:
        await device.aclose()


@pytest.mark.parametrize("layout", ["s", "sc", "cs", "ss"])
@pytest.mark.parametrize("build", PROGRAMS)
async def test_the_same_values(build, layout):
    await compared(build, layout)


@pytest.fixture
async def device():
    async with StrictDevice() as device:
        yield device


@pytest.mark.parametrize("optimizer", [lambda: GradientDescent(0.1), lambda: Momentum(0.1, 0.9), lambda: Adam(0.01)])
async def test_training(device, optimizer):
    losses, weights = [], []
    data = np.random.default_rng(0).standard_normal((5, 4, 3)).astype(np.float32)
    for devices in (None, [device]):
        with tg.Graph().as_default() as graph:
            train, loss, x = lstm(optimizer())
            init = tg.global_variables_initializer()
        async with tg.Session(graph, devices=devices, settings=NUMPY) as session:
            await session.run(init)
            losses.append([(await session.run([loss, train], {x: data}))[0] for _ in range(4)])
            weights.append(await session.read_variables())
    np.testing.assert_array_equal(*losses)
    for name, value in weights[0].items():
        np.testing.assert_array_equal(weights[1][name], value)
    assert losses[0][-1] < losses[0][0]
    assert WAITS.reasons == []


async def test_counters_stay_on_the_host(device):
    with tg.Graph().as_default() as graph:
        n = tg.while_loop(lambda i, s: i < 100, lambda i, s: (i + 1, s + tg.cast(i, "float32")), [0, 0.0])
    async with tg.Session(graph, devices=[device]) as session:
        assert await session.run(n) == [100, 4950.0]
    assert (WAITS.reasons, device.ins, device.outs) == ([], [], [])


async def test_a_loop_of_arrays_copies_what_comes_and_goes_only(device):
    with tg.Graph().as_default() as graph:
        fetches, feeds = loop()
    async with tg.Session(graph, devices=[device]) as session:
        await session.run(fetches, feeds)
    assert (WAITS.reasons, device.ins, device.outs) == ([], [(4, 3)], [(4, 3)])


async def test_a_predicate_on_the_device_is_copied_out_once_for_each_iteration(device):
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [2])
        i, _ = tg.while_loop(lambda i, a: a[0] < 10.0, lambda i, a: (i + 1, a + 1.0), [0, x])
    async with tg.Session(graph, devices=[device]) as session:
        assert await session.run(i, {x: np.float32([0.5, 0])}) == 10
    assert device.outs == [()] * 11
    assert WAITS.reasons == []


async def test_constants_stay_on_the_device_as_long_as_the_step_is_kept(device):
    with tg.Graph().as_default() as graph:
        array = X
        x = tg.placeholder(X.dtype.name, X.shape)
        y = tg.matmul(x, tg.constant(W))
    async with tg.Session(graph, devices=[device]) as session:
        for _ in range(3):
            await session.run(y, {x: array})
    assert sorted(device.ins) == [(3, 3), (4, 3), (4, 3), (4, 3)]


async def test_variables_are_on_the_device_and_read_and_written_from_outside(device):
    with tg.Graph().as_default() as graph:
        v = tg.Variable(W, name="v")
        after = v.assign_add(W)
        read = v.read_value()
        init = tg.global_variables_initializer()
    async with tg.Session(graph, devices=[device]) as session:
        await session.run(init)
        assert isinstance(slots_of(session.resources, "v")[0].read(), Array)
        np.testing.assert_array_equal((await session.read_variables())["v"], W)
        await session.write_variables({"v": 3 * W})
        np.testing.assert_array_equal(await session.run(read), 3 * W)
        assert isinstance(slots_of(session.resources, "v")[0].read(), Array)
        np.testing.assert_array_equal(await session.run(after), 3 * W + W)
        await session.write_variables({"v": W})
        np.testing.assert_array_equal((await session.read_variables(["v"]))["v"], W)


async def test_what_is_read_keeps_its_value(device):
    with tg.Graph().as_default() as graph:
        v = tg.Variable(W, name="v")
        view = tg.reshape(v.read_value(), [9])
        with tg.control_dependencies([view]):
            update = v.assign_add(W)
        with tg.control_dependencies([update]):
            kept = tg.identity(view)
        init = tg.global_variables_initializer()
    async with tg.Session(graph, devices=[device]) as session:
        await session.run(init)
        np.testing.assert_array_equal(await session.run(kept), W.ravel())


async def test_prints_and_assertions_see_values(device, capfd):
    with tg.Graph().as_default() as graph:
        x, array = fed(X)
        shown = tg.print_(x * 2.0, [x[0, 0]], "x is ")
        with tg.control_dependencies([tg.Assert(tg.reduce_all(x > 0.0), [x])]):
            fails = x + 1.0
    async with tg.Session(graph, devices=[device]) as session:
        await session.run(shown, {x: array})
        assert capfd.readouterr().err == "x is [-1.0]\n"
        with pytest.raises(OpError, match="assertion failed"):
            await session.run(fails, {x: array})
        await session.run(shown, {x: array})


async def test_watches_and_parts(device):
    with tg.Graph().as_default() as graph:
        x, array = fed(X)
        y = x * 2.0
        z = y + 1.0
    async with tg.Session(graph, devices=[device]) as session:
        async with session.watch(y) as watch:
            np.testing.assert_array_equal(await session.run(z, {x: array}), 2 * X + 1)
            np.testing.assert_array_equal(await anext(watch), 2 * X)
        async with await session.partial_run_setup([y, z], [x]) as parts:
            np.testing.assert_array_equal(await session.partial_run(parts, y, {x: array}), 2 * X)
            np.testing.assert_array_equal(await session.partial_run(parts, z), 2 * X + 1)


async def test_kernels_that_look_at_values_let_the_loop_go_on(device):
    with tg.Graph().as_default() as graph:
        x, array = fed(X)
        found = [tg.boolean_mask(x, x > 0.0), tg.where(x > 0.0), tg.gather(x, tg.cast(x[:, 0] > 0.0, "int64"))]
    async with tg.Session(graph, devices=[device]) as session:
        masked, places, rows = await session.run(found, {x: array})
    np.testing.assert_array_equal(masked, X[X > 0])
    np.testing.assert_array_equal(places, np.argwhere(X > 0))
    np.testing.assert_array_equal(rows, X[(X[:, 0] > 0).astype(int)])
    assert device.compute.statistics().done >= 3


@pytest.mark.parametrize("build", [loop, gradients, branches])
async def test_kernels_wait_while_too_much_is_enqueued(build, monkeypatch):
    asked, waiting = [], []

    def backpressure(device):
        asked.append(len(waiting))
        if len(asked) % 3:
            return None
        waiting.append(Event())
        asyncio.get_running_loop().call_soon(waiting[-1].finish)
        return waiting[-1]

    monkeypatch.setattr(StrictDevice, "backpressure", backpressure)
    await compared(build, "s")
    assert len(waiting) == len(asked) // 3 > 3


async def test_an_error_leaves_nothing_behind(device):
    with tg.Graph().as_default() as graph:
        x, array = fed(X)

        def body(i, a):
            return i + 1, tg.check_numerics(a / (3.0 - tg.cast(i, "float32")), "bad")

        y = tg.while_loop(lambda i, a: i < 5, body, [0, x])
    before = held()
    async with tg.Session(graph, devices=[device]) as session:
        with pytest.raises(OpError, match="bad"):
            await session.run(y[1], {x: array})
        task = asyncio.create_task(session.run(y[1], {x: array}))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises((asyncio.CancelledError, OpError)):
            await task
    await device.aclose()
    assert held() == before


def held():
    gc.collect()
    return sum(isinstance(each, Array) for each in gc.get_objects())


async def test_a_trace_has_spans(device):
    with tg.Graph().as_default() as graph:
        fetches, feeds = loop()
    trace = tg.Trace()
    async with tg.Session(graph, devices=[device]) as session:
        await session.run(fetches, feeds, trace=trace)
        assert session.report()
    assert len(trace.spans) > 20


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"executor": "reference"}, "no streams"),
        ({"check_numerics": True}, "check_numerics=True"),
    ],
)
async def test_what_sessions_refuse(device, options, what):
    with pytest.raises(GraphError, match=what):
        tg.Session(tg.Graph(), devices=[device], **options)


def test_the_library_has_what_a_device_needs():
    assert isinstance(xp.full((), np.float32(2), dtype=np.float32), xp.ndarray)


async def test_integer_variables(device):
    with tg.Graph().as_default() as graph:
        v = tg.Variable(np.int32(1), name="v")
        counted = v.assign_add(tg.constant(2) * v.assign(tg.constant(3)))
        init = tg.global_variables_initializer()
    async with tg.Session(graph, devices=[device]) as session:
        await session.run(init)
        assert await session.run(counted) == 9


async def test_series_of_integers_are_joined_where_they_are(device):
    with tg.Graph().as_default() as graph:
        table = tg.placeholder("float32", [None, None])

        def body(i, a, ids):
            at = tg.cond(i % 2 < 1, lambda: [i], lambda: ids)
            return i + 1, a + tg.reduce_sum(tg.gather(table, at) * 2.0), ids

        ids = tg.placeholder("int32", [None])
        y = tg.while_loop(lambda i, a, _: i < 4, body, [0, 0.0, ids])[1]
        (g,) = tg.gradients(y, [table])
        found = tg.convert_to_tensor(g)
    feeds = {table: X, ids: np.zeros(100, np.int32)}
    async with tg.Session(graph, settings=NUMPY) as session:
        wanted = await session.run(found, feeds)
    async with tg.Session(graph, devices=[device], settings=NUMPY) as session:
        np.testing.assert_array_equal(await session.run(found, feeds), wanted)


async def test_a_gpu_beside_a_cpu_is_where_a_program_asks_for_it():
    with tg.Graph().as_default() as graph:
        x, array = fed(X)
        with tg.device("/gpu:0"):
            y = tg.matmul(x, tg.constant(W), name="there")
        z = tg.tanh(y, name="here")
    async with StrictDevice("/gpu:0") as device, tg.Session(graph, devices=["/cpu:0", device]) as session:
        expected = elementary_function(np, "tanh")(X @ W)
        np.testing.assert_array_equal(await session.run(z, {x: array}), expected)
        assert (X @ W).shape in device.outs


async def test_a_loop_without_a_device_goes_to_its_data(graph):
    """To a device for which there are no programs: the step machine runs it there."""
    x, array = fed(X)
    with tg.device("/gpu:0"):
        y = tg.sin(x)
    fetches = tg.while_loop(lambda i, a: i < 5, lambda i, a: (i + 1, tg.cos(a) + y), [0, y])
    async with tg.Session(graph, settings=NUMPY, soft_placement=True) as session:
        wanted = await session.run(fetches, {x: array})
    async with StrictDevice("/gpu:0") as device, tg.Session(graph, devices=["/cpu:0", device]) as session:
        np.testing.assert_array_equal((await session.run(fetches, {x: array}))[1], wanted[1])
        assert "no code generator" in str(session.report())


async def test_cancelled_twice_a_step_still_waits_for_its_copies(device, monkeypatch):
    inside, settled = [], []
    settle = execution._settle_copies

    async def noted(*arguments):
        await asyncio.sleep(0)
        await settle(*arguments)
        settled.append(1)

    async def slow_to_end():
        inside.append(1)
        try:
            await asyncio.sleep(60)
        finally:
            for _ in range(5):
                await asyncio.sleep(0)

    monkeypatch.setattr(execution, "_settle_copies", noted)
    with tg.Graph().as_default() as graph:
        x, array = fed(X)
        fetches = [x * 2.0, tg.py_function(slow_to_end, [], [])]
    async with tg.Session(graph, devices=[device]) as session:
        step = asyncio.ensure_future(session.run(fetches, {x: array}))
        while not inside:
            await asyncio.sleep(0)
        for _ in range(3):
            step.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await step
        assert settled == [1]
