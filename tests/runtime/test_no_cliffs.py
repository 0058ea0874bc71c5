"""Loops of any operations, under limits and on several devices: native, with the bits of the step machine."""

import asyncio
import logging
import time
from dataclasses import replace

import numpy as np
import pytest
import tagloom as tg
from tagloom import operations

from tests.support.settings import ON

PLAIN = replace(ON, straight=False)
NATIVE = [replace(ON, llvm=False), ON, replace(ON, workers=0, reuse=False)]
START = np.array([[0.9, -0.4, 0.3], [0.2, 0.7, -1.1]])


def stretched(y):
    return tg.stack([y[1] * 0.5, tg.sin(y[0])])


# By what they are made of: the first are inner loops and copies, the others are called.
TRACED = {
    "stack": stretched,
    "unstack": lambda y: tg.stack(tg.unstack(y, axis=1)[::-1], axis=1),
    "slice": lambda y: tg.concat([y[:, 1:], y[:, :1]], 1),
    "strided": lambda y: y[::-1, ::-1] * 0.5,
    "pad": lambda y: tg.pad(y, [[0, 0], [1, 0]])[:, :3],
    "reflected": lambda y: tg.pad(y, [[0, 0], [1, 1]], "reflect")[:, 1:4],
    "tile": lambda y: tg.tile(y, [1, 2])[:, 2:5],
    "roll": lambda y: tg.roll(y, 1, 1),
    "reverse": lambda y: tg.reverse(y, [0]),
    "transpose": lambda y: tg.transpose(tg.reshape(y, [3, 2])),
    "band": lambda y: tg.matrix_band_part(y, 0, 1),
    "diagonals": lambda y: tg.matrix_diag(tg.matrix_diag_part(y[:, :2]))[:, :1] + y,
    "softsign": tg.softsign,
    "elu": lambda y: tg.elu(y) + tg.leaky_relu(y) + tg.relu6(y),
    "selu": tg.selu,
    "gelu": lambda y: y * tg.erf(y) * 0.5,
    "gamma": lambda y: tg.digamma(tg.abs(y) + 1.0) - tg.lgamma(tg.abs(y) + 1.0),
    "root": lambda y: tg.rsqrt(tg.square(y) + 1.0),
    "logsumexp": lambda y: y - tg.reduce_logsumexp(y, axis=1, keepdims=True),
    "logaddexp": lambda y: tg.logaddexp(y, 0.25),
    "product": lambda y: y / (1.0 + tg.abs(tg.reduce_prod(y, axis=1, keepdims=True))),
    "cumprod": lambda y: tg.cumprod(y, axis=1),
    "cholesky": lambda y: y * tg.reduce_sum(tg.cholesky(tg.matmul(y, y, transpose_b=True) + 4.0 * np.eye(2))),
    "solve": lambda y: tg.matrix_solve(4.0 * np.eye(2) + y[:, :2], y),
    "gather_nd": lambda y: y * tg.gather_nd(y, tg.cast(tg.abs(y[:, :1]), "int32")),
    "sort": lambda y: tg.sort(y, axis=1),
    "top_k": lambda y: tg.top_k(y, 3)[0],
    "spectrum": lambda y: tg.irfft(0.5 * tg.rfft(y), [3]),
    "segments": lambda y: tg.gather(tg.unsorted_segment_sum(y, [0, 0], 2), [0, 0]),
    "qr": lambda y: tg.transpose(tg.qr(tg.transpose(y))[0]),
    "quotient": lambda y: tg.div_no_nan(y, tg.maximum(y, 0.0) * 3.0 + 1.0),
}
CALLED = {
    "expm": lambda y: y @ tg.expm(0.1 * tg.matmul(y, y, transpose_a=True)),
    "triangle": lambda y: tg.matrix_triangular_solve(4.0 * np.eye(2) + y[:, :2], y),
}
BODIES = TRACED | CALLED


def looped(body, x, iterations=5, **options):
    """Return ``y = 0.5 * (y + body(y))`` after some iterations."""
    return tg.while_loop(
        lambda i, y: i < iterations, lambda i, y: (i + 1, 0.5 * (y + body(y))), [0, x], name="loop", **options
    )[1]


def program(body, orders=1):
    """Return a placeholder, and what a loop gives with its gradients."""
    x = tg.placeholder("float64", START.shape)
    found = [looped(body, x)]
    for _ in range(orders):
        found += tg.gradients(tg.reduce_sum(tg.square(found[-1])), [x])
    return x, found


async def run(graph, fetches, feeds, settings=ON, **options):
    """Return what a second run gives, and the report of its loops."""
    async with tg.Session(graph, settings=settings, **options) as session:
        for _ in range(2):
            found = await session.run(fetches, feeds)
        return found, session.report().loops


def assert_same_bits(found, wanted):
    assert [each.tobytes() for each in found] == [each.tobytes() for each in wanted]


@pytest.mark.sampled(every=7)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", BODIES)
async def test_bits_are_those_of_the_step_machine(graph, name):
    x, fetches = program(BODIES[name], orders=2)
    wanted, _ = await run(graph, fetches, {x: START}, PLAIN)
    for settings in NATIVE:
        found, loops = await run(graph, fetches, {x: START}, settings)
        assert [loop.not_native for loop in loops if loop.limited_by != "native"] == []
        assert_same_bits(found, wanted)


@pytest.mark.parametrize("name", BODIES)
async def test_what_is_called_is_said(graph, name):
    x = tg.placeholder("float64", START.shape)
    _, (loop,) = await run(graph, looped(BODIES[name], x), {x: START})
    assert loop.limited_by == "native"
    assert (loop.called == ()) == (name in TRACED)
    assert ("which calls" in str(loop)) == (name in CALLED)


@pytest.mark.parametrize(
    "options", [{"memory_limit": "1MiB"}, {"devices": ["/cpu:0", "/cpu:1"]}], ids=["limit", "devices"]
)
@pytest.mark.parametrize("name", BODIES)
async def test_limits_and_devices_change_nothing(graph, name, options):
    x, fetches = program(BODIES[name])
    wanted, loops = await run(graph, fetches, {x: START})
    found, others = await run(graph, fetches, {x: START}, **options)
    assert [each.limited_by for each in others] == [each.limited_by for each in loops] == ["native"] * len(loops)
    assert_same_bits(found, wanted)


# ---- errors, and what gives up


FAILING = {
    "not positive definite": lambda m: tg.cholesky(m, name="root"),  # traced
    "zero on the diagonal": lambda m: tg.matrix_triangular_solve(m, m, name="root"),  # called
}


@pytest.mark.parametrize("message", FAILING)
async def test_an_error_of_a_kernel_is_that_of_the_step_machine(graph, message):
    x = tg.placeholder("float64", [2, 2])
    y = tg.while_loop(lambda i, m: i < 9, lambda i, m: (i + 1, m - 0.0 * FAILING[message](m) - np.eye(2)), [0, x])[1]
    async with tg.Session(graph, settings=ON) as session:
        for _ in range(2):
            with pytest.raises(tg.TagloomError, match=message) as caught:
                await session.run(y, {x: 4.0 * np.eye(2)})
            assert "root" in str(caught.value)
        assert session.report().loops[0].limited_by != "native"
        assert await session.run(y, {x: 20.0 * np.eye(2)}) is not None


async def test_an_error_of_a_called_kernel_is_the_reason_why_its_loop_is_not_native(graph):
    x = tg.placeholder("float64", [2, 2])
    y = looped(lambda m: tg.matrix_triangular_solve(m, m, name="root"), x)
    async with tg.Session(graph, settings=ON) as session:
        with pytest.raises(tg.TagloomError):
            await session.run(y, {x: np.zeros((2, 2))})
        assert "root raised LinAlgError" in session.report().loops[0].not_native


def spin(seconds):
    """Keep a core busy."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


operations.define(
    "TestSlow",
    "x: T -> y: T",
    where={"T": (tg.float64,)},
    attrs={"seconds": 0.0},
    shape=lambda op: op.inputs[0].shape,
    kernel=lambda xp, x, seconds: spin(seconds) or x + 1.0,
    gradient=operations.NotDifferentiable("only the tests here use it"),
)


async def test_a_kernel_that_takes_long_is_left_to_the_step_machine(graph):
    x = tg.placeholder("float64", [])
    y = looped(lambda y: operations.apply("TestSlow", y, seconds=0.01, name="slow"), x, iterations=20)
    found, (loop,) = await run(graph, y, {x: 1.0})
    assert found == 1.0 + 20 * 0.5
    assert "slow takes" in loop.not_native


async def test_kernels_of_outside_packages_are_called(graph):
    x = tg.placeholder("float64", [])
    y = looped(lambda y: operations.apply("TestSlow", y, name="other"), x)
    found, (loop,) = await run(graph, y, {x: 1.0})
    assert (found, loop.limited_by) == (3.5, "native")
    assert [name.rpartition("/")[2] for name in loop.called] == ["other"]


async def test_shapes_that_depend_on_values_are_said(graph, caplog):
    caplog.set_level(logging.INFO, "tagloom")
    x = tg.placeholder("float64", [4])
    y = tg.while_loop(
        lambda i, y: i < 1500,
        lambda i, y: (i + 1, y + 1e-3 * tg.cast(tg.size(tg.unique(y, name="different")[0]), "float64")),
        [0, x],
    )[1]
    for _ in range(2):
        _, (loop,) = await run(graph, y, {x: [1.0, 2.0, 2.0, 3.0]})
    assert "different" in loop.not_native
    assert "depends on a value" in loop.not_native
    said = [record.getMessage() for record in caplog.records if "on the step machine" in record.getMessage()]
    assert len(said) == 2  # once for each compiled step
    assert "different" in said[0]


# ---- memory


SIZE = 1 << 20


async def test_a_program_that_does_not_fit_is_a_loop_that_does(graph):
    """A run has memory for all values of an iteration at once; the step machine releases each after its last use."""
    x = tg.placeholder("float64", [SIZE // 8])

    def body(i, y):
        for k in range(12):
            y = tg.reverse(y + float(k), [0])
        return i + 1, y

    y = tg.while_loop(lambda i, y: i < 3, body, [0, x])[1]
    settings = replace(ON, fuse=False, reuse=False)
    feeds = {x: np.arange(SIZE // 8, dtype=np.float64)}
    wanted, (loop,) = await run(graph, y, feeds, settings)
    assert loop.limited_by == "native"
    found, (loop,) = await run(graph, y, feeds, settings, memory_limit=8 * SIZE)
    assert loop.limited_by != "native"
    assert_same_bits([found], [wanted])


async def test_programs_wait_for_each_others_memory(graph):
    x = tg.placeholder("float64", [SIZE // 8])
    y = tg.reduce_sum(looped(lambda y: tg.roll(y, 1, 0), x))
    async with tg.Session(graph, settings=ON, memory_limit=9 * SIZE) as session:
        steps = [session.run(y, {x: np.full(SIZE // 8, float(k))}) for k in range(6)]
        assert await asyncio.gather(*steps) == [k * SIZE / 8 for k in range(6)]
        assert session.statistics().peak_bytes <= 9 * SIZE
        assert session.statistics().live_bytes < SIZE


async def test_no_run_is_kept_under_a_limit(graph):
    x = tg.placeholder("float64", [2])
    y = looped(tg.softsign, x)
    async with tg.Session(graph, settings=ON, memory_limit="1MiB") as session:
        for _ in range(3):
            await session.run(y, {x: [1.0, 2.0]})
            live = session.statistics().live_bytes
        assert live <= 8  # of constants


# ---- devices


async def test_a_loop_whose_operations_name_one_device_is_native_there(graph):
    x = tg.placeholder("float64", [])
    with tg.device("/cpu:1"):
        y = looped(tg.sin, x)
    found, (loop,) = await run(graph, y, {x: 1.0}, devices=["/cpu:0", "/cpu:1"])
    wanted, _ = await run(graph, y, {x: 1.0}, soft_placement=True)
    assert (found, loop.limited_by) == (wanted, "native")


async def test_a_loop_on_two_devices_is_not(graph):
    x = tg.placeholder("float64", [])

    def body(y):
        with tg.device("/cpu:1"):
            return tg.sin(y, name="elsewhere")

    with tg.device("/cpu:0"):
        y = looped(body, x)
    _, loops = await run(graph, y, {x: 1.0}, devices=["/cpu:0", "/cpu:1"])
    assert {loop.limited_by for loop in loops} != {"native"}
    assert any("names another device" in str(loop.not_native) for loop in loops)
