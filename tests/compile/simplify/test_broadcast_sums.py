"""Sums that sum nothing go, and only those."""

from dataclasses import replace

import numpy as np
import pytest
import tagloom as tg
from tagloom.ir.program import Program

from tests.support.compiling import optimized
from tests.support.settings import ON

pytestmark = pytest.mark.usefixtures("graph")

OFF = replace(ON, fuse=False)


def types(fetches, feeds):
    program = optimized(Program(fetches[0].graph, feeds, fetches), ON)
    return [op.type for op in program.graph.root.walk()]


def run(fetches, feeds, arrays):
    """Run with and without fusing; both give the same, which is returned."""
    results = []
    for settings in (ON, OFF):
        with tg.SyncSession(fetches[0].graph, settings=settings) as session:
            results.append(session.run(fetches, dict(zip(feeds, arrays, strict=True))))
    for one, other in zip(*results, strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    return results[0]


def draw(*shapes):
    random = np.random.default_rng(0)
    return [random.standard_normal(s).astype(np.float32) for s in shapes]


@pytest.mark.parametrize("rows", [1, 4])
def test_one_feed_gives_its_batch_to_all(rows):
    x, w = feeds = [tg.placeholder("float32", [None, 3]), tg.placeholder("float32", [3, 3])]
    y = tg.tanh(x @ w) * tg.sigmoid(x @ (w * 2.0)) + tg.reduce_mean(x @ w, 1, keepdims=True)
    fetches = tg.gradients(tg.reduce_sum(tg.square(y)), [x, w])
    assert "SumTo" not in types(fetches, feeds)
    run(fetches, feeds, draw((rows, 3), (3, 3)))


@pytest.mark.parametrize("rows", [(4, 4), (1, 4), (4, 1)])
def test_two_feeds_may_be_broadcast(rows):
    x, y = feeds = [tg.placeholder("float32", [None, 3]) for _ in range(2)]
    fetches = tg.gradients(tg.reduce_sum(tg.tanh(x * y)), [x, y])
    assert types(fetches, feeds).count("SumTo") == 2
    results = run(fetches, feeds, draw(*[(n, 3) for n in rows]))
    assert [len(g) for g in results] == list(rows)


@pytest.mark.parametrize("shape", [(4, 3), (4, 1), (1, 3), (1, 1)])
def test_columns_may_be_rows(shape):
    x, y = feeds = [tg.placeholder("float32", [None, None]) for _ in range(2)]
    z = tg.exp(x) * x + y
    fetches = tg.gradients(tg.reduce_sum(tg.tanh(z)), [x, y])
    run(fetches, feeds, draw((4, 3), shape))
    run(fetches, feeds, draw(shape, (4, 3)))


def test_in_a_loop_over_an_unknown_batch():
    x, w, n = tg.placeholder("float32", [None, 3]), tg.placeholder("float32", [3, 3]), tg.placeholder("int32", [])
    _, y = tg.while_loop(lambda i, _: i < n, lambda i, h: (i + 1, tg.tanh(h @ w) * h + x), [0, x])
    fetches = [y, *tg.gradients(tg.reduce_sum(y), [x, w])]
    for steps in (0, 1, 3):
        run(fetches, [x, w, n], [*draw((2, 3), (3, 3)), np.int32(steps)])
