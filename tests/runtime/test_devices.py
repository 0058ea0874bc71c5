"""Sessions of several CPU devices: one step, cut where operations ask for different ones."""

import asyncio
import math
import sys

import numpy as np
import pytest
import tagloom as tg

from tests.support.settings import ON

CPU = "/job:localhost/task:0/device:CPU:{}"


pytestmark = pytest.mark.usefixtures("graph", "collected")


def on(device):
    return tg.device(f"/cpu:{device}")


def two_device_loop(n, kernel=tg.tanh):
    """Return what is fed, and the result of a loop that counts on the first device and computes on the second."""
    with on(0):
        x = tg.placeholder("float32", [3, 3])

    def body(i, h):
        with on(1):
            h = kernel(h @ h) * 0.5
        with on(0):
            return i + 1, h

    def more(i, _):
        with on(0):
            return i < n

    return x, tg.while_loop(more, body, [0, x])[1]


X = np.linspace(-1, 1, 9, dtype=np.float32).reshape(3, 3)


async def test_a_loop_and_its_gradient_over_two_devices():
    x, y = two_device_loop(7)
    fetches = [y, *tg.gradients(tg.reduce_sum(y), x)]
    async with tg.Session(x.graph, soft_placement=True, settings=ON) as session:
        wanted = await session.run(fetches, {x: X})
    async with tg.Session(x.graph, devices=2, settings=ON) as session:
        for got, value in zip(await session.run(fetches, {x: X}), wanted, strict=True):
            np.testing.assert_allclose(got, value, rtol=1e-6, atol=1e-40)
        memory = session.statistics().devices
        assert list(memory) == [CPU.format(0), CPU.format(1)]
        assert all(figures.peak_bytes > 0 for figures in memory.values())
        assert session.statistics().live_bytes == sum(figures.live_bytes for figures in memory.values())


async def test_each_device_holds_what_it_makes():
    with on(1):
        two = tg.placeholder("float32", [])
        big = tg.ones([1000, 100]) * two
        total = tg.reduce_sum(big)
    async with tg.Session(big.graph, devices=["/cpu:0", "/cpu:1"], settings=ON) as session:
        assert await session.run(total, {two: 2.0}) == 200_000
        memory = session.statistics().devices
        assert memory[CPU.format(0)].peak_bytes < 1000
        assert memory[CPU.format(1)].peak_bytes >= 400_000


async def test_a_device_that_is_not_there():
    with on(5):
        y = tg.identity(1.0)
    async with tg.Session(y.graph, devices=2, settings=ON) as session:
        with pytest.raises(tg.GraphError) as caught:
            await session.run(y)
        assert caught.value.operation.name == y.op.name
        assert "test_devices.py" in str(caught.value)
    async with tg.Session(y.graph, devices=2, soft_placement=True) as session:
        assert await session.run(y) == 1.0


NO_DEVICES = [
    0,
    -1,
    True,
    1.5,
    "2",
    "/cpu:0",
    b"/cpu:0",
    np.array(2),
    range(2),
    {"/cpu:0"},
    {"/cpu:0": 1},
    ["/tpu:0"],
    ["/cpu:0", "/cpu:0"],
    ["/cpu:0", "/device:CPU:0"],
    [],
    [3],
    [None],
    ["/cpu:0 "],
    ["/cpu:-1"],
]


@pytest.mark.parametrize("devices", NO_DEVICES, ids=repr)
def test_what_are_no_devices(devices):
    with pytest.raises(tg.GraphError) as caught:
        tg.Session(devices=devices)
    assert caught.value.wanted
    assert caught.value.got is not None
    assert caught.value.hint
    assert "test_devices.py" in str(caught.value)


def test_a_gpu_wants_what_computes_there(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(tg.GraphError, match="CuPy") as caught:
        tg.Session(devices=["/cpu:0", "/gpu:0"])
    assert '"tagloom[cuda]"' in caught.value.hint


@pytest.mark.parametrize("devices", [2, np.int64(2), ["/cpu:0", "cpu:1"], (f"/cpu:{i}" for i in range(2))])
async def test_what_are_two_devices(devices):
    with tg.device("/job:localhost/replica:0/task:0/device:CPU:1"):  # as TensorFlow writes it
        y = tg.identity(1.0)
    async with tg.Session(y.graph, devices=devices, settings=ON) as session:
        assert await session.run(y) == 1.0
        assert list(session.statistics().devices) == [CPU.format(0), CPU.format(1)]


@pytest.mark.parametrize("name", ["/cpu:x", "/cpu:1\n", "/gpu:0", "/cpu:2", "/job:other", "/job:a/replica:1", 3])
async def test_a_device_that_can_not_be_had_is_named_with_the_operation(name):
    y = tg.identity(1.0)
    y.op.device = name
    async with tg.Session(y.graph, devices=2) as session:
        with pytest.raises(tg.GraphError) as caught:
            await session.run(y)
    assert caught.value.operation.name == y.op.name
    assert caught.value.wanted
    assert caught.value.got
    assert caught.value.hint
    assert "test_devices.py" in str(caught.value)


async def test_of_many_devices_an_error_names_the_first():
    with on(64):
        y = tg.identity(1.0)
    async with tg.Session(y.graph, devices=64) as session:
        with pytest.raises(tg.GraphError, match="cpu:3, 60 more"):
            await session.run(y)


async def test_an_error_on_another_device_names_the_users_line():
    def fail(h):
        raise ValueError("no luck")

    x, y = two_device_loop(1000, lambda h: tg.reshape(tg.py_function(fail, [h], "float32"), [3, 3]))
    async with tg.Session(x.graph, devices=2) as session:
        with pytest.raises(tg.OpError, match="no luck") as caught:
            await session.run(y, {x: X})
        assert "test_devices.py" in str(caught.value)
        assert caught.value.tag.endswith("/while/0")
        assert caught.value.device == CPU.format(1)
        assert "device: cpu:1" in str(caught.value)
        assert await session.run(x, {x: X}) is not None


async def test_a_dead_fetch_of_another_device():
    with on(0):
        data, pred = tg.placeholder("float32", []), tg.placeholder("bool", [])
        taken = tg.switch(data, pred)
    with on(1):
        y = taken[1] + 1.0
    async with tg.Session(y.graph, devices=2) as session:
        assert await session.run(y, {data: 1.0, pred: True}) == 2.0
        with pytest.raises(tg.DeadFetchError, match="Switch"):
            await session.run(y, {data: 1.0, pred: False})


async def test_operations_that_are_awaited_on_another_device():
    started = []

    async def slow(h):
        started.append(asyncio.current_task().get_name())
        await asyncio.sleep(0)
        return h

    x, y = two_device_loop(3, lambda h: tg.reshape(tg.py_function(slow, [h], "float32"), [3, 3]))
    async with tg.Session(x.graph, devices=2) as session:
        await session.run(y, {x: X})
    assert [name.rsplit("/", 1)[1] for name in started] == ["0", "1", "2"]


async def test_a_step_over_devices_is_cancelled():
    entered = asyncio.Event()

    async def never(h):
        entered.set()
        await asyncio.get_running_loop().create_future()

    x, y = two_device_loop(3, lambda h: tg.reshape(tg.py_function(never, [h], "float32"), [3, 3]))
    async with tg.Session(x.graph, devices=2) as session:
        task = asyncio.create_task(session.run(y, {x: X}))
        await entered.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert session.statistics().steps_running == 0
        with pytest.raises(tg.StepTimeout, match="still waiting for never@root/0/while/0") as caught:
            await session.run(y, {x: X}, timeout=0.01)
        assert f"on {CPU.format(1)}:\nroot/0" in caught.value.__notes__[0]


async def test_variables_stay_where_they_were_made():
    with on(1):
        v = tg.Variable(np.ones([4], np.float32), name="v")
    with on(0):
        update = v.assign_add(tg.ones([4]) * 2.0)
    async with tg.Session(v.graph, devices=2) as session:
        await session.run(tg.global_variables_initializer())
        for _ in range(3):
            await session.run(update)
        np.testing.assert_array_equal((await session.read_variables())["v"], np.full(4, 7))


async def test_many_steps_at_once():
    n = tg.placeholder("int32", [])
    x, y = two_device_loop(n)
    async with tg.Session(x.graph, devices=2) as session:
        step = session.make_step(y, [x, n])
        together = await asyncio.gather(*[step(X, k) for k in range(40)])
        for k, value in enumerate(together):
            np.testing.assert_array_equal(value, await step(X, k))


async def test_long_kernels_on_several_devices():
    with on(0):
        a = tg.placeholder("float32", [300, 300])
    products = []
    for device in range(3):
        with on(device):
            products.append(tg.reduce_sum(a @ a))
    given = np.random.default_rng(0).standard_normal((300, 300)).astype(np.float32)
    settings = tg.Settings(offload_seconds=0.0)
    async with tg.Session(a.graph, devices=3, settings=settings) as session:
        sums = await session.run(products, {a: given})
    np.testing.assert_allclose(sums, [math.fsum((given @ given).ravel())] * 3, rtol=1e-2)
    np.testing.assert_array_equal(sums[0], sums[1])


async def test_the_report_says_what_went_between_devices():
    x, y = two_device_loop(5)
    async with tg.Session(x.graph, devices=2, settings=ON) as session:
        await session.run(y, {x: X})
        report = session.report()
    loops = {loop.device[-1]: loop for loop in report.loops}
    assert [loops[d].iterations for d in "01"] == [6, 6]
    assert loops["1"].name == "while"
    (traffic,) = report.traffic
    assert (traffic.source, traffic.destination) == (CPU.format(0), CPU.format(1))
    assert traffic.messages == 1 + 6  # what is fed, and the predicate of each iteration
    assert traffic.dead == 0
    assert traffic.bytes == X.nbytes + 6
    assert "cpu:0 to cpu:1: " in str(report)
    assert "while on cpu:" in str(report)


async def test_a_trace_has_a_lane_for_each_device_and_arrows_between_them():
    x, y = two_device_loop(5)
    trace = tg.Trace()
    async with tg.Session(x.graph, devices=2, settings=ON) as session:
        await session.run(y, {x: X}, trace=trace)
    assert {span.device for span in trace.spans} == {CPU.format(0), CPU.format(1)}
    events = trace.events
    lanes = {e["args"]["name"]: e["pid"] for e in events if e["name"] == "process_name"}
    assert sorted(lanes.values()) == [1, 2]
    starts, ends = ([e for e in events if e["ph"] == phase] for phase in "sf")
    assert len(starts) == len(ends) == 7
    for start, end in zip(starts, ends, strict=True):
        assert start["id"] == end["id"]
        assert start["pid"] != end["pid"]
        assert start["ts"] <= end["ts"]


async def test_a_report_and_a_trace_of_one_device_name_none():
    x, y = two_device_loop(5)
    async with tg.Session(x.graph, devices=1, soft_placement=True) as session:
        await session.run(y, {x: X})
        report = session.report()
    assert report.traffic == ()
    assert [loop.device for loop in report.loops] == [""]


@pytest.mark.rule(122)
@pytest.mark.parametrize("dtype", ["string", "bool", "int8", "uint64", "bfloat16", "complex128"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 0)])
async def test_values_of_any_dtype_cross(dtype, shape):
    dtype = tg.as_dtype(dtype)
    with on(0):
        x = tg.placeholder(dtype, shape)
    with on(1):
        y = tg.identity(x)
    with on(0):
        z = tg.identity(y)
    given = np.asarray(np.ones(shape), "U3" if dtype.name == "string" else None).astype(dtype.numpy)
    async with tg.Session(x.graph, devices=2) as session:
        there, back = await session.run([y, z], {x: given})
    for value in (there, back):
        assert value.dtype == dtype.numpy
        np.testing.assert_array_equal(value, given)


async def test_a_step_prints_what_each_device_does():
    x, y = two_device_loop(5)
    async with tg.Session(x.graph, devices=2, settings=ON) as session:
        step = session.make_step(y, [x])
        text, dot = step.to_text(), step.to_dot()
        await step(X)
        messages = session.report().traffic
    assert [line for line in text.splitlines() if line.startswith("# /")] == [f"# {CPU.format(d)}" for d in (0, 1)]
    assert text.count("# channel") == dot.count("style=bold") == 2
    assert "LoopCond" in text
    assert dot.startswith("digraph")
    assert [(pair.source, pair.destination) for pair in messages] == [(CPU.format(0), CPU.format(1))]
    async with tg.Session(x.graph, soft_placement=True) as session:
        assert "# channel" not in session.make_step(y, [x]).to_text()


@pytest.mark.rule(120)
@pytest.mark.parametrize("taken", [True, False])
async def test_what_leaves_a_dead_loop_speaks_for_nothing_that_the_loop_waits_for(taken):
    with on(0):
        pred, x = tg.placeholder("bool", []), tg.placeholder("float64", [])

    def loop():
        with on(0):
            start, deep = -x, tg.identity(x)
            for _ in range(10):
                deep = tg.sin(deep)

        def body(i, h):
            with on(1):
                h = tg.cos(h)
            with on(0):
                return i + 1.0 + h, h

        def more(i, _):
            with on(0):
                return i < 5.0

        i, h = tg.while_loop(more, body, [start, deep])
        with on(0):
            i = i * 2.0
        with on(1):
            return i + h

    with on(1):
        y = tg.cond(pred, loop, lambda: x - 1.0)
    async with tg.Session(y.graph, soft_placement=True) as one, tg.Session(y.graph, devices=2) as two:
        assert await two.run(y, {pred: taken, x: 1.0}) == await one.run(y, {pred: taken, x: 1.0})
