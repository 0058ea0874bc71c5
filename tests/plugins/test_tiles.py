"""A device kind of an outside package: an accelerator with three kernels, whose other operations run on the host."""

import numpy as np
import pytest
import tagloom as tg
from tagloom import operations, streams
from tagloom.cli import main

from tests.cuda.device import CompilingDevice
from tests.plugins import tiles
from tests.plugins.tiles.kernels import CALLS
from tests.strict_array_library.library import Array

X = np.linspace(-1, 1, 9, dtype=np.float32).reshape(3, 3)


@pytest.fixture
def installed():
    CALLS.clear()
    with tiles.install():
        yield


def program(dtype="float32"):
    """Build a loop with a branch and a variable; return what is fed, fetched and run before."""
    x = tg.placeholder(dtype, [3, 3], name="x")
    w = tg.Variable(np.eye(3, dtype=dtype) / 2)

    def body(i, h):
        return i + 1, tg.cond(tg.equal(i % 2, 0), lambda: tg.tanh(tg.matmul(h, w) + x), lambda: tg.sigmoid(h) + h)

    _, y = tg.while_loop(lambda i, _: i < 5, body, [0, x])
    return x, [y, *tg.gradients(tg.reduce_sum(y), [x, w])], tg.global_variables_initializer()


async def computed(graph, x, fetches, init, **options):
    async with tg.Session(graph, **options) as session:
        await session.run(init)
        return await session.run(fetches, {x: X}), session.statistics().devices


@pytest.fixture
def built():
    with tg.Graph().as_default() as graph:
        return graph, *program()


def compare(found, wanted):
    for value, expected in zip(found, wanted, strict=True):
        assert isinstance(value, np.ndarray)
        np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("options", [{}, {"memory_limit": "4KiB"}, {"memory_limit": "4KiB", "swap": True}])
async def test_a_loop_with_a_branch_and_its_gradient(built, options):
    wanted, _ = await computed(*built)
    assert not CALLS
    found, memory = await computed(*built, devices=["/tiles:0"], **options)
    compare(found, wanted)
    assert CALLS["MatMul"] == 9
    assert CALLS["Tanh"] == 3
    (figures,) = memory.values()
    assert 36 <= figures.peak_bytes <= 4096  # counted as the arrays come and go
    assert figures.limit_bytes == (4096 if options else None)


@pytest.mark.usefixtures("installed")
async def test_two_devices_of_the_kind_beside_a_cpu():
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [3, 3])

        def body(i, h):
            with tg.device("/tiles:0"):
                h = tg.matmul(h, x)
            with tg.device("tiles:1"):
                return i + 1, tg.tanh(h)

        _, y = tg.while_loop(lambda i, _: i < 4, body, [0, x])
        fetches = [y, *tg.gradients(tg.reduce_sum(y), x)]
    async with tg.Session(graph, soft_placement=True) as session:
        wanted = await session.run(fetches, {x: X})
    async with tg.Session(graph, devices=["/cpu:0", "/tiles:0", "/tiles:1"]) as session:
        assert [each.device_type for each in session.list_devices()] == ["CPU", "TILES", "TILES"]
        compare(await session.run(fetches, {x: X}), wanted)
        memory = session.statistics().devices
    assert all(figures.peak_bytes > 0 for name, figures in memory.items() if "TILES" in name)
    assert CALLS["MatMul"] >= 4


@pytest.mark.usefixtures("installed")
async def test_dtypes_that_its_arrays_do_not_have_are_computed_on_the_host():
    with tg.Graph().as_default() as graph:
        built = program("float64")
    wanted, _ = await computed(graph, *built)
    found, memory = await computed(graph, *built, devices=["/tiles:0"])
    compare(found, wanted)
    assert not CALLS
    assert sum(figures.peak_bytes for figures in memory.values()) == 0


@pytest.mark.usefixtures("installed")
async def test_a_device_without_room_names_itself(built):
    with pytest.raises(tg.DeviceMemoryError, match="tiles:0"):
        await computed(*built, devices=["/tiles:0"], memory_limit=40)


@pytest.mark.usefixtures("installed")
def test_a_device_that_is_not_there():
    with pytest.raises(tg.GraphError, match="tiles:2 is not available here") as caught:
        tg.Session(tg.Graph(), devices=["/tiles:2"])
    assert caught.value.wanted == "a tile processor"
    assert caught.value.got == "there are 2 tile processors"
    assert "test_tiles.py" in str(caught.value)
    assert isinstance(caught.value.__cause__, streams.DeviceUnavailable)


def test_without_the_package_the_kind_is_unknown():
    with tiles.install():
        pass
    with pytest.raises(tg.GraphError, match="no such device") as caught:
        tg.Session(tg.Graph(), devices=["/tiles:0"])
    assert "/tiles" not in caught.value.wanted
    with pytest.raises(tg.GraphError, match="no device has such a name"), tg.device("tiles:0"):
        pass


async def test_an_open_session_keeps_its_device_without_the_kind(built):
    graph, x, fetches, init = built
    with tiles.install():
        session = tg.Session(graph, devices=["/tiles:0"])
    CALLS.clear()
    async with session:
        await session.run(init)
        found = await session.run(fetches, {x: X})
    assert not CALLS
    compare(found, (await computed(*built))[0])


@pytest.mark.parametrize("error", [AttributeError("broken"), MemoryError("broken")], ids=repr)
async def test_a_failing_kernel_is_the_error_of_the_step_whatever_is_copied_meanwhile(error):
    def fail(xp, x):
        raise error

    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [3, 3])
        product = tg.matmul(x, x)
        failing = tg.tanh(product + product)
    # The same turn of the step begins to copy the product to the host, and calls the failing kernel.
    with tiles.install(without=["Tanh"]), operations.register_kernel("Tanh", fail, device_kind="tiles"):
        async with tg.Session(graph, devices=["/tiles:0"]) as session:
            for _ in range(3):
                with pytest.raises(tg.OpError, match="broken") as caught:
                    await session.run([product, failing], {x: X})
                assert caught.value.__cause__ is error
            compare([await session.run(product, {x: X})], [X @ X])


@pytest.mark.usefixtures("installed")
def test_info_counts_the_devices(capsys):
    assert main(["info"]) == 0
    assert ["tiles", "2"] in [line.split() for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize("executor", ["machine", "reference"])
async def test_each_device_has_the_kernels_of_its_kind(executor):
    """Two kinds with NumPy's arrays: both executors look at the device of each operation."""

    def body(i, h):
        with tg.device("/other:0"):
            h = tg.tanh(h)
        with tg.device("/cpu:0"):
            return i + 1, tg.tanh(h)

    with operations.register_device_kind("other", lambda name, index, settings: streams.CpuDevice(name)):
        with tg.Graph().as_default() as graph:
            x = tg.placeholder("float32", [])
            _, y = tg.while_loop(lambda i, _: i < 2, body, [0, x])
        double = operations.register_kernel("Tanh", lambda xp, x: xp.asarray(2 * x), device_kind="other")
        triple = operations.register_kernel("Tanh", lambda xp, x: xp.asarray(3 * x), device_kind="cpu")
        with double, triple:
            async with tg.Session(graph, devices=["/cpu:0", "/other:0"], executor=executor) as session:
                assert await session.run(y, {x: 1.0}) == 36.0
            async with tg.Session(graph, soft_placement=True, executor=executor) as session:
                assert await session.run(y, {x: 1.0}) == 81.0


@pytest.mark.parametrize("native", [True, False])
async def test_a_kernel_for_gpus_gets_their_arrays(native):
    def softmax(xp, logits, axis):
        seen.append(type(logits))
        return xp.full(logits.shape, 1 / logits.shape[-1], logits.dtype)

    seen = []
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [4])
        y = tg.softmax(x) * 2.0
    settings = tg.Settings(native=native)
    async with CompilingDevice("/gpu:0") as device, tg.Session(graph, devices=[device], settings=settings) as session:
        before = (await session.run(y, {x: [0, 1, 2, 3]})).tolist()
        with operations.register_kernel("Softmax", softmax, device_kind="gpu"):
            assert (await session.run(y, {x: [0, 1, 2, 3]})).tolist() == [0.5] * 4
        assert (await session.run(y, {x: [0, 1, 2, 3]})).tolist() == before
    assert seen == [Array]


@pytest.mark.usefixtures("installed")
def test_a_kernel_for_state_that_stays_with_the_host():
    with pytest.raises(tg.GraphError, match="ReadVariable keeps or passes on values"):
        operations.register_kernel("ReadVariable", lambda xp, *_: None, device_kind="tiles")


def opening(result):
    return lambda name, index, settings: result


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("n2", {}, "not the name of a device kind"),
        ("", {}, "not the name of a device kind"),
        (3, {}, "not the name of a device kind"),
        ("job", {}, "not the name of a device kind"),
        ("cpu", {}, "the device kind CPU is registered already"),
        ("npu", {"open": None}, "open= of the device kind npu cannot be called"),
        ("npu", {"count": 2}, "count= of the device kind npu cannot be called"),
        ("npu", {"dtypes": ["float33"]}, "not a dtype"),
    ],
)
def test_wrong_registrations_of_kinds(name, arguments, message):
    before = operations.device_kinds()
    with pytest.raises(tg.GraphError, match=message):
        operations.register_device_kind(name, **{"open": opening(None), **arguments})
    assert operations.device_kinds() == before


@pytest.mark.parametrize("result", [None, "cpu"], ids=repr)
def test_a_kind_that_opens_no_device(result):
    with (
        operations.register_device_kind("npu", opening(result)),
        pytest.raises(tg.GraphError, match=r"kind NPU, registered at .*test_tiles.py:\d+[\s\S]* opened no device"),
    ):
        tg.Session(tg.Graph(), devices=["/npu:0"])


@pytest.mark.parametrize("kind", ["latency", "manual"])
def test_simulated_devices_are_kinds_that_are_made_by_programs(kind):
    with pytest.raises(tg.GraphError, match=f"{kind}:0 is not available here") as caught:
        tg.Session(tg.Graph(), devices=[f"/{kind}:0"])
    assert "pass the device" in caught.value.hint


async def test_a_simulated_device_of_its_kind():
    with tg.Graph().as_default() as graph:
        y = tg.matmul([[2.0]], [[3.0]])
    async with streams.VirtualClock() as clock:
        device = streams.LatencyDevice("/latency:0", seconds={"MatMul": 2.0}, clock=clock)
        async with tg.Session(graph, devices=[device], settings=tg.Settings(fold=False)) as session:
            assert (await session.run(y)).item() == 6.0
        assert clock.now() == 2.0
