"""Tensors that a session keeps for the holders of their handles."""

import asyncio
import gc

import numpy as np
import pytest
import tagloom as tg

from tests.strict_array_library.device import StrictDevice
from tests.support.settings import ON

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture
def program(graph):
    """A graph with x (fed), y = 2x, its handle, and a variable w."""
    x = tg.placeholder("float32", [None, 3], name="x")
    y = tg.multiply(x, 2.0, name="y")
    w = tg.Variable(np.ones((2, 3), np.float32), name="w")
    return x, y, tg.get_session_handle(y, name="kept"), w


async def test_a_kept_value_is_fed_as_it_is(graph, program, executor):
    x, y, handle, _ = program
    async with tg.Session(graph, executor=executor) as session:
        step = session.make_step([y, handle], [x])
        fetched, kept = await step(X)
        assert isinstance(kept, tg.TensorHandle)
        assert (kept.dtype, kept.shape) == (tg.float32, tg.Shape([2, 3]))
        assert repr(kept) == "<TensorHandle of kept float32[2,3]>"
        for _ in range(4):  # a recurrence whose state stays in the session
            fetched, kept = await step(kept)
        np.testing.assert_array_equal(fetched, 32 * X)
        np.testing.assert_array_equal(await kept.get(), fetched)
        np.testing.assert_array_equal(await session.run(x, {x: kept}), fetched)
        first, second = await session.run({"a": [handle], "b": handle}, {"x:0": kept}), kept
        assert first["a"][0] is first["b"] is not second


async def test_nobody_else_can_change_it(graph, program, executor):
    x, _, handle, w = program
    of_feed, of_variable, of_constant = (tg.get_session_handle(value) for value in (x, w, tg.constant(X)))
    async with tg.Session(graph, executor=executor) as session:
        await session.run(w.initializer)
        given = X.copy()
        fetches = [of_feed, of_variable, of_constant, handle]
        kept = await session.run(fetches, {x: given})
        given += 100.0
        await session.run(w.assign_add(np.ones((2, 3), np.float32)))
        own = await kept[0].get()
        own += 5.0
        for each, expected in zip(kept, (X, np.ones((2, 3)), X, 2 * X), strict=True):
            np.testing.assert_array_equal(await each.get(), expected)
        in_place = tg.py_function(lambda value: value.flags.writeable, [x], "bool")
        assert not await session.run(in_place, {x: kept[0]})


@pytest.mark.parametrize("value", [3.0, np.int64(7), ["a", "bc"], True, np.zeros((0, 3), np.complex64)])
async def test_of_all_dtypes(graph, executor, value):
    y = tg.identity(tg.constant(value))
    x = tg.placeholder(y.dtype, y.shape)
    async with tg.Session(graph, executor=executor) as session:
        kept = await session.run(tg.get_session_handle(y))
        assert kept.dtype == y.dtype
        found = await session.run(x, {x: kept})
    np.testing.assert_array_equal(found, np.asarray(value))


async def test_what_does_not_fit(graph, program):
    x, y, handle, _ = program
    vector, whole = tg.placeholder("float32", [3]), tg.placeholder("int32", [2, 3])
    async with tg.Session(graph) as session:
        kept = await session.run(handle, {x: X})
        with pytest.raises(tg.ShapeError, match="wrong shape"):
            await session.run(vector, {vector: kept})
        with pytest.raises(tg.DtypeError, match="wrong dtype"):
            await session.run(whole, {whole: kept})
        array = tg.TensorArray("float32", 3).handle
        with pytest.raises(tg.DtypeError):
            tg.get_session_handle(array)
        with pytest.raises(tg.GraphError, match="in parts"):
            await session.partial_run_setup(handle, [x])
        async with await session.partial_run_setup(y, [x]) as parts:
            np.testing.assert_array_equal(await session.partial_run(parts, y, {x: kept}), 4 * X)
        inside = []
        loop = tg.while_loop(lambda i: i < 2, lambda i: inside.append(tg.get_session_handle(i)) or i + 1, [0])
        with pytest.raises(tg.GraphError, match="may not be fetched"):
            await session.run([loop, inside[0]])


async def test_deleted_and_closed(graph, program, executor):
    x, y, handle, _ = program
    async with tg.Session(graph, executor=executor) as session:
        kept, other = await session.run(handle, {x: X}), await session.run(handle, {x: X})
        kept.delete()
        kept.delete()
        assert repr(kept).endswith(", deleted>")
        with pytest.raises(tg.GraphError, match="is gone"):
            await session.run(y, {x: kept})
        with pytest.raises(tg.GraphError, match="is gone"):
            await kept.get()
        np.testing.assert_array_equal(await other.get(), 2 * X)
    with pytest.raises(tg.GraphError, match="is gone"):
        await other.get()


async def test_a_step_that_runs_keeps_what_it_was_fed(graph, executor):
    gate = asyncio.Event()

    async def wait(value):
        await gate.wait()
        return value

    x = tg.placeholder("float32", [2, 3])
    y = tg.py_function(wait, [x], "float32") + x
    handle = tg.get_session_handle(x + 0.0)
    async with tg.Session(graph, executor=executor) as session:
        kept = await session.run(handle, {x: X})
        step = asyncio.ensure_future(session.run(y, {x: kept}))
        await asyncio.sleep(0)
        kept.delete()
        gate.set()
        np.testing.assert_array_equal(await step, 2 * X)


async def test_its_memory_counts_until_it_is_gone(graph, executor, fast_paths):
    x = tg.placeholder("float32", [None])
    handle = tg.get_session_handle(x * 2.0)
    large = np.ones(50_000, np.float32)
    async with tg.Session(graph, executor=executor, settings=ON, memory_limit="1MB") as session:

        def held():
            (device,) = session.statistics().devices.values()
            assert device.live_bytes == device.resource_bytes
            return device.live_bytes // large.nbytes

        kept = [await session.run(handle, {x: large}) for _ in range(2)]
        assert held() == 2
        await session.run(x, {x: kept[0]})
        assert held() == 2, "what is fed again is not counted twice"
        if executor == "machine":
            with pytest.raises(tg.DeviceMemoryError, match="tensors kept for handles"):
                await session.run(handle, {x: np.ones(200_000, np.float32)})
        kept[0].delete()
        assert held() == 1
        kept.clear()
        gc.collect()
        assert held() == 0
        snapshot = await session.snapshot()
        assert snapshot == {}


async def test_each_handle_is_one_of_its_own(graph, program):
    """Two of one value are not merged, and neither is computed while compiling."""
    x, y, handle, _ = program
    twin = tg.get_session_handle(y)
    fixed = tg.get_session_handle(tg.constant(1.0) + 1.0)
    async with tg.Session(graph) as session:
        kept = await session.run([handle, twin, fixed], {x: X})
        again = await session.run(fixed)
        kept[0].delete()
        kept[2].delete()
        np.testing.assert_array_equal(await kept[1].get(), 2 * X)
        assert await again.get() == 2.0


def test_without_a_loop(graph, program):
    x, y, handle, _ = program
    with tg.SyncSession(graph) as session:
        kept = session.run(handle, {x: X})
        np.testing.assert_array_equal(session.run(y, {x: kept}), 4 * X)
        np.testing.assert_array_equal(session.run(x, {x: kept}), 2 * X)


@pytest.mark.usefixtures("strict_library")
async def test_on_a_device_with_arrays_of_its_own(graph, program):
    x, y, handle, _ = program
    async with StrictDevice() as device:
        async with tg.Session(graph, devices=[device]) as session:
            kept = await session.run(handle, {x: X})
            assert device.owns(kept.value)
            device.ins.clear()
            device.outs.clear()
            for _ in range(3):
                kept = await session.run(handle, {x: kept})
            assert device.ins == device.outs == []
            np.testing.assert_array_equal(await kept.get(), 16 * X)
            assert device.outs == [(2, 3)]
            assert session.statistics().live_bytes >= X.nbytes
            async with await session.partial_run_setup(y, [x]) as parts:
                with pytest.raises(tg.GraphError, match="cannot be reached"):
                    await session.partial_run(parts, y, {x: kept})
        async with tg.Session(graph) as other:
            with pytest.raises(tg.GraphError, match="is gone"):
                await other.run(y, {x: kept})


@pytest.mark.usefixtures("strict_library")
async def test_between_devices(graph):
    with tg.device("/cpu:0"):
        x = tg.placeholder("float32", [None, 3])
        y = x + 1.0
    with tg.device("/gpu:0"):
        kept_there = tg.get_session_handle(tg.identity(y) * 2.0)
    async with StrictDevice() as device, tg.Session(graph, devices=["/cpu:0", device]) as session:
        kept = await session.run(kept_there, {x: X})
        assert device.owns(kept.value)
        np.testing.assert_array_equal(await session.run(y, {x: kept}), 2 * X + 3)


# ---- devices


async def test_the_devices_of_a_session(graph):
    async with tg.Session(graph, devices=2, memory_limit={"/cpu:1": "1MB"}, settings=ON) as session:
        assert session.list_devices() == [
            tg.DeviceAttributes("/job:localhost/task:0/device:CPU:0", "CPU", None),
            tg.DeviceAttributes("/job:localhost/task:0/device:CPU:1", "CPU", 1_000_000),
        ]


def test_the_devices_of_a_session_without_a_loop(graph):
    with tg.SyncSession(graph) as session:
        assert [device.device_type for device in session.list_devices()] == ["CPU"]
