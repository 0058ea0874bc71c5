"""Products that a loop sums up are added where the sum stands."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest
import tagloom as tg
from tagloom.ir.program import Program

from tests.support.compiling import lowered
from tests.support.settings import ON

pytestmark = pytest.mark.usefixtures("graph")

ALONE = replace(ON, batch=False, release=False)
OFF = replace(ALONE, accumulate=False)


def count(fetches, feeds, settings):
    program = lowered(Program(fetches[0].graph, feeds, fetches), settings)
    return [op.type for op in program.graph.root.walk()].count("MatMulAdd")


def results(fetches, feeds, settings):
    with tg.SyncSession(fetches[0].graph, settings=settings) as session:
        return session.run(fetches, feeds)


def recurrent(rows, units, times, dtype="float32"):
    """Return feeds, a loss over a loop whose length is fed, and the gradients of its weights."""
    x, w = tg.placeholder(dtype, [rows, units]), tg.placeholder(dtype, [units, units])
    length = tg.placeholder("int32", [])
    h = tg.while_loop(lambda i, _: i < length, lambda i, h: (i + 1, tg.tanh(h @ w) + x), [0, x])[1]
    loss = tg.reduce_sum(h * h)
    random = np.random.default_rng(0)
    values = [random.normal(size=shape).astype(dtype) for shape in ((rows, units), (units, units))]
    feeds = {x: values[0], w: values[1] / units, length: times}
    return feeds, [loss, *tg.gradients(loss, [w, x])]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("times", [0, 1, 2, 7])
@pytest.mark.parametrize(("rows", "units"), [(2, 3), (40, 50), (33, 200)])
def test_gradients_of_weights(rows, units, times, dtype):
    feeds, fetches = recurrent(rows, units, times, dtype)
    assert count(fetches, [*feeds], ALONE) == 1
    assert count(fetches, [*feeds], OFF) == 0
    for ours, wanted in zip(results(fetches, feeds, ALONE), results(fetches, feeds, OFF), strict=True):
        np.testing.assert_allclose(ours, wanted, rtol=1e-4 if dtype == "float32" else 1e-11, atol=1e-5)


@pytest.mark.parametrize("off", ["reuse", "native", "workers"])
def test_without_other_fast_paths(off):
    feeds, fetches = recurrent(33, 200, 5)
    for ours, wanted in zip(results(fetches, feeds, ALONE.without(off)), results(fetches, feeds, OFF), strict=True):
        np.testing.assert_allclose(ours, wanted, rtol=1e-4, atol=1e-5)


def test_nothing_as_large_as_the_weights_is_made():
    units = 256
    feeds, fetches = recurrent(1, units, 20)

    async def peak(settings):
        async with tg.Session(fetches[0].graph, settings=settings) as session:
            await session.run(fetches, feeds)
            return session.statistics().peak_bytes

    saved = asyncio.run(peak(OFF)) - asyncio.run(peak(ALONE))
    assert saved >= 4 * units * units  # the product that is then added


def test_a_total_that_others_hold_is_not_written_to():
    start = np.ones((3, 3), np.float32)
    x, total = tg.placeholder("float32", [3, 3]), tg.placeholder("float32", [3, 3])
    body = lambda i, t: (i + 1, t + tg.matmul(x, x * tg.cast(i > -1, "float32")))  # noqa: E731
    ends = tg.while_loop(lambda i, t: i < 4, body, [0, total])[1]
    assert count([ends], [x, total], ALONE) == 1
    feeds = {x: np.eye(3, dtype=np.float32), total: start}
    end, before = results([ends, total], feeds, ALONE)
    np.testing.assert_array_equal(end, start + 4 * np.eye(3))
    np.testing.assert_array_equal(before, np.ones((3, 3)))
    np.testing.assert_array_equal(start, np.ones((3, 3)))


@pytest.mark.parametrize("settings", [ON, ALONE, OFF])
def test_a_sum_that_waits_for_an_effect_stays(settings):
    called = []
    x = tg.placeholder("float32", [2, 64])

    def body(i, total):
        product = tg.matmul(x * tg.cast(i, "float32"), x, transpose_a=True)
        effect = tg.py_function(lambda: called.append(1), [], [])
        after = i + 1
        with tg.control_dependencies(effect if isinstance(effect, list) else [effect]):
            return after, total + product

    total = tg.while_loop(lambda i, _: i < 3, body, [0, tg.zeros([64, 64])])[1]
    results([total], {x: np.ones((2, 64), np.float32)}, settings)
    assert len(called) == 3


def test_what_is_no_plain_sum_stays():
    x, row = tg.placeholder("float32", [3, 3]), tg.placeholder("float32", [1, 3])
    wide = tg.while_loop(
        lambda i, t: i < 4,
        lambda i, t: (i + 1, t + tg.matmul(x, x)),
        [0, row],
        shape_invariants=[[], [None, 3]],
    )[1]
    seen = tg.while_loop(lambda i, t: i < 4, lambda i, t: (i + tg.cast(t[0, 0], "int32"), t + x @ x), [0, x])[1]
    assert count([wide, seen], [x, row], ALONE) == 0
