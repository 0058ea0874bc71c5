"""Sessions on devices with a time of their own: kernels count as done when their time is over."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest
import tagloom as tg
from tagloom.runtime.steps.execution import MachineExecution
from tagloom.streams import DeviceClosed, LatencyDevice, ManualDevice, VirtualClock

from bench.parallel_iterations import ideal, program
from tests.support.settings import ON
from tests.support.waiting import turns, until

pytestmark = pytest.mark.usefixtures("graph", "collected")


def on(device):
    return tg.device(f"/cpu:{device}")


def latency(count, clock, **options):
    return [LatencyDevice(f"/cpu:{d}", clock=clock, **options) for d in range(count)]


@pytest.mark.parametrize("window", [1, 2, 3, 8, 32])
async def test_a_pipeline_takes_what_its_layers_take(window):
    case = {"iterations": 40, "parallel_iterations": window}
    n, results = program(tg, case, layers=4)
    async with tg.Session(n.graph, soft_placement=True) as plain:
        wanted = await plain.run(results, {n: 40})
    async with VirtualClock() as clock:
        devices = latency(4, clock, seconds={"MatMul": 0.005})
        async with tg.Session(n.graph, devices=devices, settings=ON) as session:
            got = await session.run(results, {n: 40})
            assert clock.now() == pytest.approx(ideal(case, layers=4))
            report = session.report()
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(a, b)
    limit = "window" if window < 4 else "device"
    assert {loop.limited_by for loop in report.loops} == {limit}
    assert report.loops[0].busy == pytest.approx(min(1.0, window / 4), rel=0.1)


async def test_a_chain_over_devices_is_limited_by_its_variable():
    def body(i, x):
        for d in (0, 1, 2):
            with on(d):
                x = tg.matmul(x, x)
        with on(2):
            return i + 1, x

    with on(0):
        x = tg.placeholder("float32", [3, 3])
    y = tg.while_loop(lambda i, x: i < 8, body, [0, x])[1]
    async with VirtualClock() as clock:
        devices = latency(3, clock, seconds={"MatMul": 1.0})
        async with tg.Session(x.graph, devices=devices, settings=ON) as session:
            await session.run(y, {x: np.eye(3, dtype=np.float32)})
            assert clock.now() == pytest.approx(24.0)
            for loop in session.report().loops:
                assert (loop.limited_by, loop.variable) == ("variable", "x")


async def test_kernels_wait_for_the_stream_in_order():
    x = tg.placeholder("float32", [2, 2])
    both = [tg.matmul(x, x), tg.matmul(x, x + 1.0), tg.tanh(x)]
    async with VirtualClock() as clock:
        devices = latency(1, clock, seconds={"MatMul": 2.0})
        async with tg.Session(x.graph, devices=devices, settings=ON) as session:
            await session.run(both, {x: np.eye(2, dtype=np.float32)})
            assert clock.now() == 4.0
            await session.run(both[2], {x: np.eye(2, dtype=np.float32)})
            assert clock.now() == 4.0  # what takes no time does not wait
            statistics = devices[0].compute.statistics()
            assert (statistics.done, statistics.busy_seconds) == (2, 4.0)


async def test_copies_take_both_streams_and_overlap_with_kernels():
    with on(0):
        x = tg.placeholder("float32", [250])
        y = tg.tanh(x)
    with on(1):
        w = tg.placeholder("float32", [4])
        sent, own = tg.sin(y), tg.sin(w)
    async with VirtualClock() as clock:
        options = {"seconds": {"Tanh": 1.0, "Sin": 4.0}, "bytes_per_second": 1000.0}
        devices = latency(2, clock, **options)
        async with tg.Session(x.graph, devices=devices, settings=tg.Settings(fuse=False)) as session:
            got, _ = await session.run([sent, own], {x: np.ones(250, np.float32), w: np.ones(4, np.float32)})
            np.testing.assert_allclose(got, np.sin(np.tanh(np.ones(250))), rtol=1e-6)
        assert clock.now() == 1.0 + 1.0 + 1.0 + 4.0 + 1.0  # tanh, out, in, the other sin's rest, sin
        assert devices[0].device_to_host.statistics().nbytes == 1000
        assert devices[1].host_to_device.statistics().nbytes == 1000


async def test_a_kernel_is_done_when_its_device_says_so():
    x = tg.placeholder("float32", [2, 2])
    y = tg.matmul(tg.matmul(x, x), x)
    async with ManualDevice("/cpu:0") as device, tg.Session(x.graph, devices=[device], settings=ON) as session:
        run = asyncio.create_task(session.run(y, {x: np.eye(2, dtype=np.float32)}))
        for done in range(2):
            await until(lambda: sum("MatMul" in task.get_name() for task in asyncio.all_tasks()) == 1)
            await turns()
            assert not run.done()
            assert device.compute.statistics().done == done
            device.compute.release()
        np.testing.assert_array_equal(await run, np.eye(2))


@pytest.mark.parametrize("begun", [True, False])
async def test_a_cancelled_step_takes_back_what_has_not_begun(begun):
    x = tg.placeholder("float32", [100, 100])
    y = [tg.matmul(x, x), tg.matmul(x, x + 1.0)]
    async with ManualDevice("/cpu:0") as device, tg.Session(x.graph, devices=[device], settings=ON) as session:
        if not begun:
            device.compute.submit()  # somebody else's work
        run = asyncio.create_task(session.run(y, {x: np.ones((100, 100), np.float32)}))
        unbegun = 1 if begun else 2  # both are submitted then, perhaps not in the same slice of time
        while device.compute.statistics().waiting < unbegun:
            await asyncio.sleep(0)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        statistics = device.compute.statistics()
        assert (statistics.running, statistics.waiting) == (1, 0)
        assert statistics.withdrawn == unbegun
        assert device.live_bytes == 0
        device.release_all()
        assert (await session.run(y[0], {x: np.eye(100, dtype=np.float32)})).sum() == 100


async def test_an_error_while_others_wait_for_their_devices():
    def refuse(value):
        raise ValueError(f"not {value}")

    with on(0):
        slow = tg.matmul(tg.placeholder_with_default(np.eye(2, dtype=np.float32), [2, 2]), np.eye(2, dtype=np.float32))
    with on(1):
        bad = tg.py_function(refuse, [tg.constant(3)], "int32")
    async with VirtualClock() as clock:
        devices = latency(2, clock, seconds={"MatMul": 10.0})
        async with tg.Session(slow.graph, devices=devices, settings=ON) as session:
            with pytest.raises(tg.OpError, match="not 3"):
                await session.run([slow, bad])
            assert clock.now() < 10.0
            assert (await session.run(slow)).tolist() == [[1.0, 0.0], [0.0, 1.0]]
        assert all(device.live_bytes == 0 for device in devices)


async def test_a_device_that_closes_fails_its_steps():
    x = tg.placeholder("float32", [2, 2])
    y = tg.matmul(x, x)
    device = LatencyDevice("/cpu:0", seconds={"MatMul": 0.0, "Tanh": 60.0})
    async with tg.Session(x.graph, devices=[device], settings=ON) as session:
        await session.run(y, {x: np.eye(2, dtype=np.float32)})
        await device.aclose()
        with pytest.raises(tg.OpError) as caught:
            await session.run(tg.tanh(y), {x: np.eye(2, dtype=np.float32)})
        assert isinstance(caught.value.__cause__, DeviceClosed)


async def test_a_device_outlives_sessions_that_share_it():
    x = tg.placeholder("float32", [2, 2])
    y = tg.matmul(x, x)
    async with VirtualClock() as clock, LatencyDevice("/cpu:0", seconds={"MatMul": 1.0}, clock=clock) as device:
        for _ in range(2):
            async with tg.Session(x.graph, devices=[device]) as a, tg.Session(x.graph, devices=[device]) as b:
                await asyncio.gather(*(s.run(y, {x: np.eye(2, dtype=np.float32)}) for s in (a, b)))
        assert clock.now() == 4.0


async def test_a_trace_shows_the_streams():
    with on(0):
        x = tg.placeholder("float32", [2, 2])
        y = tg.matmul(x, x)
    with on(1):
        z = tg.matmul(y, y)
    trace = tg.Trace()
    async with VirtualClock(1.0) as clock:
        devices = latency(2, clock, seconds={"MatMul": 2.0, "HostToDevice": 0.5})
        async with tg.Session(x.graph, devices=devices, settings=ON) as session:
            await session.run(z, {x: np.eye(2, dtype=np.float32)}, trace=trace)
    second = 1_000_000_000
    # The machine's own spans are in real time, since the computer was switched on.
    timed = [(s.device[-1], s.stream, s.begin, s.end) for s in trace.spans if s.end < 10 * second]
    assert timed == [
        ("0", "compute", second, 3 * second),
        ("1", "host_to_device", 3 * second, 3 * second + second // 2),
        ("1", "compute", 3 * second + second // 2, 5 * second + second // 2),
    ]


async def test_long_work_of_threads_holds_virtual_time():
    x = tg.placeholder("float32", [300, 300])
    slow = tg.tanh(tg.matmul(x, x))
    quick = tg.sin(x)
    async with VirtualClock() as clock:
        devices = latency(1, clock, seconds={"Tanh": 1.0, "Sin": 100.0})
        settings = tg.Settings(fuse=False, offload_seconds=0.0)
        async with tg.Session(x.graph, devices=devices, settings=settings) as session:
            begin = asyncio.create_task(session.run(slow, {x: np.ones((300, 300), np.float32)}))
            while not devices[0].compute.statistics().running and not begin.done():
                assert clock.now() == 0.0
                await asyncio.sleep(0)
            await begin
            assert clock.now() == 1.0
            await session.run(quick, {x: np.ones((300, 300), np.float32)})
            assert clock.now() == 101.0


@pytest.mark.parametrize("devices", [[3], "/cpu:0", ["/tpu:0"], [LatencyDevice("/cpu:0")] * 2])
def test_what_is_no_list_of_devices(devices):
    with pytest.raises(tg.GraphError):
        tg.Session(devices=devices, settings=ON)


def test_the_reference_executor_has_no_streams():
    with pytest.raises(tg.GraphError, match="reference executor"):
        tg.Session(executor="reference", devices=[LatencyDevice("/cpu:0")])


async def test_a_loop_whose_kernels_end_as_they_begin_is_reported():
    x = tg.placeholder("float32", [2, 2])
    y = tg.while_loop(lambda i, _: i < 5, lambda i, a: (i + 1, tg.matmul(a, a)), [0, x])[1]
    async with VirtualClock() as clock, ManualDevice("/cpu:0", clock=clock) as device:
        device.release_all()
        async with tg.Session(x.graph, devices=[device], settings=ON) as session:
            await session.run(y, {x: np.eye(2, dtype=np.float32)})
            (loop,) = session.report().loops
            assert (loop.iterations, loop.busy, clock.now()) == (6, None, 0.0)


async def test_a_timeout_that_can_not_say_what_went_on_still_ends_the_step(graph, monkeypatch, caplog):
    async def forever():
        await asyncio.sleep(60)

    result = tg.py_function(forever, [], [])
    async with tg.Session(graph) as session:
        monkeypatch.setattr(MachineExecution, "activity", lambda self: 1 / 0)
        with pytest.raises(tg.StepTimeout):
            await session.run(result, timeout=0.01)
    assert "could not be listed" in caplog.text


async def test_what_waits_with_a_series_can_be_listed(graph):
    """An Enter may hold saved values, which go by the dtype of what is in them."""
    x = tg.placeholder("float32", [])
    n = tg.placeholder("int32", [])
    y = tg.while_loop(lambda i, a: i < n, lambda i, a: (i + 1, tg.tanh(a * a) + 0.1), [0, x], checkpoint_every=2)[1]
    (gradient,) = tg.gradients(y, [x])
    settings = tg.Settings(drain_seconds=0.0)
    async with tg.Session(graph, settings=settings) as session:
        step = session.make_step(gradient, feeds=[x, n])
        running = asyncio.ensure_future(step(0.5, 300))
        listed = 0
        while not running.done():
            await asyncio.sleep(0)
            for execution in session._steps.running.steps:
                listed += len(execution.machine.dump())
        assert listed
        assert np.isfinite(await running)


async def test_a_step_does_not_hold_the_time_for_what_another_computes():
    """The other's call ends without a word to this one, whose kernel ends only when the clock jumps."""
    with tg.Graph().as_default() as graph:
        x, y = tg.placeholder("float32", [None]), tg.placeholder("float32", [])
        with tg.device("/cpu:0"):
            shuffled = tg.random_shuffle(x)
        with tg.device("/cpu:1"):
            timed = tg.tanh(y)
    async with VirtualClock() as clock, asyncio.timeout(60):
        devices = [LatencyDevice(f"/cpu:{k}", seconds={"Tanh": 1.0}, clock=clock) for k in range(2)]
        async with tg.Session(graph, devices=devices, settings=replace(ON, workers=1)) as session:
            long = [asyncio.create_task(session.run(shuffled, {x: np.ones(1 << 20, np.float32)})) for _ in range(3)]
            while not session._steps.environment.worker_pool.calls.pending:
                await asyncio.sleep(0)
            short = [asyncio.create_task(session.run(timed, {y: 1.0})) for _ in range(3)]
            await asyncio.sleep(0)
            assert clock.now() == 0
            await asyncio.gather(*long, *short)
        assert clock.now() == 3
