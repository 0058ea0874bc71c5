"""An operation of an outside package whose batching rule lets a loop compute all iterations at once."""

import numpy as np
import pytest
import tagloom as tg
from tagloom.testing import check_gradients

from tests.plugins import unit_rows as package
from tests.plugins.unit_rows import CALLS, unit_rows
from tests.support.settings import ON

LENGTH, HEIGHT, SIZE = 6, 32, 96
ROWS = np.random.default_rng(0).standard_normal((LENGTH, HEIGHT, SIZE)).astype(np.float32)
W = np.random.default_rng(1).standard_normal((SIZE, SIZE)).astype(np.float32) / SIZE


@pytest.fixture(autouse=True)
def defined(forget):
    package.define()
    CALLS.clear()


def program():
    """Build a recurrence over products of rows of length 1, with a branch."""
    rows, w = tg.placeholder("float32", ROWS.shape), tg.placeholder("float32", W.shape)
    array = tg.TensorArray("float32", LENGTH).unstack(rows)

    def body(i, h):
        product = tg.matmul(unit_rows(array.read(i)), w)
        return i + 1, tg.cond(i > 2, lambda: tg.tanh(product + h), lambda: tg.tanh(product - h))

    _, h = tg.while_loop(lambda i, _: i < LENGTH, body, [0, tg.zeros([HEIGHT, SIZE])])
    return {rows: ROWS, w: W}, [h, *tg.gradients(tg.reduce_sum(h), [rows, w])]


@pytest.mark.parametrize("options", [{}, {"memory_limit": "8MiB"}, {"executor": "reference"}])
async def test_a_loop_computes_all_iterations_at_once(options):
    with tg.Graph().as_default() as graph:
        feeds, fetches = program()
    async with tg.Session(graph, settings=ON.without("all")) as session:
        wanted = await session.run(fetches, feeds)
    assert CALLS == [(HEIGHT, SIZE)] * LENGTH
    CALLS.clear()
    async with tg.Session(graph, settings=ON, **options) as session:
        for found, expected in zip(await session.run(fetches, feeds), wanted, strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
    assert CALLS == [(LENGTH, HEIGHT, SIZE)]


def test_its_gradient():
    check_gradients(unit_rows, [np.array([[1.0, 2.0, 3.0], [-1.0, 0.5, 2.0]])])
