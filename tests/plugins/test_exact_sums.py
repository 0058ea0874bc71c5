"""A second kernel of an operation, by dtype and device kind, from an outside package."""

import numpy as np
import pytest
import tagloom as tg
from tagloom import operations

from tests.plugins import exact_sums
from tests.support.settings import ON

ROWS = np.float32([[2.0**30, 1.0, -(2.0**30)], [1.0, 2.0, 3.0]])
EXACT = [1.0, 6.0]  # the first of which NumPy rounds to 0


@pytest.fixture(autouse=True)
def forget_calls():
    exact_sums.CALLS.clear()


@pytest.fixture
def installed():
    with exact_sums.install():
        yield


def sums(dtype="float32"):
    x = tg.placeholder(dtype, [2, 3], name="x")
    return x, tg.reduce_sum(x, axis=1)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("executor", ["machine", "reference"])
async def test_both_executors_call_the_kernel(executor):
    with tg.Graph().as_default() as graph:
        x, y = sums()
        wide, other = sums("float64")
    async with tg.Session(graph, executor=executor) as session:
        assert (await session.run(y, {x: ROWS})).tolist() == EXACT
        assert exact_sums.CALLS == [(2, 3)]
        assert (await session.run(other, {wide: ROWS})).tolist() == EXACT
        assert exact_sums.CALLS == [(2, 3)]


def loop():
    """Build a loop that would be a native program, with a branch and sums that would be fused."""
    x = tg.placeholder("float32", [2, 3], name="x")

    def body(i, h):
        total = tg.reduce_sum(h, axis=1, keepdims=True)
        return i + 1, tg.cond(i > 0, lambda: tg.tanh(h) * total, lambda: h * 0.5 + total)

    _, y = tg.while_loop(lambda i, _: i < 3, body, [0, x])
    return x, [y, *tg.gradients(tg.reduce_sum(tg.square(y)), x)]


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("options", [{}, {"devices": 2}, {"memory_limit": "64KiB"}, {"executor": "reference"}])
async def test_no_pass_replaces_a_registered_kernel(options):
    with tg.Graph().as_default() as graph:
        x, fetches = loop()
    value = np.float32([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]])
    async with tg.Session(graph, settings=ON.without("all")) as session:
        wanted = await session.run(fetches, {x: value})
        calls = len(exact_sums.CALLS)
    async with tg.Session(graph, settings=ON, **options) as session:
        for found, expected in zip(await session.run(fetches, {x: value}), wanted, strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert calls >= 3
    assert len(exact_sums.CALLS) - calls >= 3


@pytest.mark.usefixtures("installed")
def test_constants_are_left_for_a_registered_kernel():
    with tg.Graph().as_default() as graph:
        y = tg.reduce_sum(ROWS, axis=1)
    with tg.SyncSession(graph, settings=ON) as session:
        assert session.run(y).tolist() == EXACT
    assert exact_sums.CALLS == [(2, 3)]


async def test_steps_compiled_before_are_compiled_again():
    """Also steps made once, in both directions, and the steps of before leave the cache."""
    with tg.Graph().as_default() as graph:
        x, y = sums()
    async with tg.Session(graph) as session:
        step = session.make_step(y, feeds=[x])
        for _ in range(2):
            assert (await step(ROWS))[0] == 0
            assert (await session.run(y, {x: ROWS}))[0] == 0
            with exact_sums.install():
                assert (await step(ROWS)).tolist() == EXACT
                assert (await session.run(y, {x: ROWS})).tolist() == EXACT
        assert session.statistics().cached_steps == 1
        assert session.statistics().steps_compiled == 4


async def test_a_kernel_for_a_kind_that_the_session_lacks_changes_nothing():
    with tg.Graph().as_default() as graph:
        x, fetches = loop()
    with operations.register_kernel("Tanh", refuse, device_kind="gpu"):
        async with tg.Session(graph, settings=ON) as session:
            await session.run(fetches, {x: ROWS})
            assert session.report().loops[0].not_native is None


def refuse(xp, *arrays, **attrs):
    raise AssertionError("called")


def constant(number):
    return lambda xp, x: xp.full(x.shape, number, x.dtype)


async def test_the_most_special_kernel_is_called():
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [])
        y = tg.tanh(x)

    async def result():
        async with tg.Session(graph) as session:
            return float(await session.run(y, {x: 0.0}))

    chosen = [{}, {"dtype": "float32"}, {"device_kind": "cpu"}, {"dtype": "float32", "device_kind": "cpu"}]
    registered = []
    for number, choice in enumerate(chosen, 1):
        assert await result() == number - 1
        registered.append(operations.register_kernel("Tanh", constant(number), **choice))
    for number in (4, 3, 2, 1):
        assert await result() == number
        registered.pop().unregister()
    assert await result() == 0


WRONG_RESULTS = [
    (lambda xp, x, **_: x.sum(1, np.float64), tg.DtypeError, "an array of float32", "one of float64"),
    (lambda xp, x, **_: x, tg.ShapeError, r"an array of shape \[2\]", r"shape \[2, 3\]"),
    (lambda xp, x, **_: 3.0, tg.DtypeError, "an array of float32", "float"),
    (lambda xp, x, **_: None, tg.GraphError, "1 results", "0"),
    (lambda xp, x, **_: (x, x), tg.GraphError, "1 results", "2"),
]


@pytest.mark.parametrize("executor", ["machine", "reference"])
@pytest.mark.parametrize(("kernel", "error", "wanted", "got"), WRONG_RESULTS)
async def test_wrong_results_name_the_registering_line(executor, kernel, error, wanted, got):
    with tg.Graph().as_default() as graph:
        x, y = sums()
    with operations.register_kernel("Sum", kernel, dtype="float32"):
        async with tg.Session(graph, executor=executor) as session:
            with pytest.raises(tg.OpError) as caught:
                await session.run(y, {x: ROWS})
    assert isinstance(caught.value.__cause__, error)
    pattern = rf"the kernel of Sum for float32, registered at .*test_exact_sums.py:\d+[\s\S]*wanted: {wanted}\n.*{got}"
    assert caught.match(pattern)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"type": "Sums"}, "no such operation type"),
        ({"type": "Merge"}, "Merge has no kernel: the executors implement it"),
        ({"kernel": 3}, "the kernel of Sum cannot be called"),
        ({"dtype": "string"}, "Sum is not defined for string"),
        ({"type": "Shape", "dtype": "int32"}, "Shape takes no dtype|Shape is not defined"),
        ({"dtype": "floating"}, "not a dtype"),
        ({"device_kind": "npu"}, r"a device kind that is not registered[\s\S]*/gpu"),
    ],
)
def test_wrong_registrations_of_kernels(arguments, message):
    with pytest.raises(tg.GraphError, match=message):
        operations.register_kernel(**{"type": "Sum", "kernel": refuse, **arguments})


def test_a_kernel_is_registered_once():
    with (
        exact_sums.install(),
        pytest.raises(tg.GraphError, match=r"is registered already[\s\S]*exact_sums/__init__.py:\d+"),
    ):
        exact_sums.install()
    exact_sums.install().unregister()
