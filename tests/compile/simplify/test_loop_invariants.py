"""Loop variables that never change are read from outside the loop, with the same results."""

from dataclasses import replace

import numpy as np
import pytest
import tagloom as tg
from tagloom.ir.program import Program

from tests.support.compiling import lowered
from tests.support.settings import ON

pytestmark = pytest.mark.usefixtures("graph")

OFF = replace(ON, loop_invariants=False)


def count(fetches, feeds, type, settings=ON):
    program = lowered(Program(fetches[0].graph, feeds, fetches), settings)
    return [op.type for op in program.graph.root.walk()].count(type)


def assert_same(fetches, feeds, arrays):
    values = dict(zip(feeds, arrays, strict=True))
    results = []
    for settings in (ON, OFF):
        with tg.SyncSession(fetches[0].graph, settings=settings) as session:
            results.append(session.run(fetches, values))
    for one, other in zip(*results, strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def loop(times, x, w):
    """Return both results of a loop that hands its weights through."""
    return tg.while_loop(lambda i, *_: i < times, lambda i, x, w: (i + 1, tg.tanh(x @ w), w), [0, x, w])[1:]


@pytest.fixture
def feeds():
    return [tg.placeholder("float32", [2, 3]), tg.placeholder("float32", [3, 3]), tg.placeholder("int32", [])]


@pytest.fixture
def arrays():
    random = np.random.default_rng(0)
    return [random.standard_normal(s).astype(np.float32) for s in ((2, 3), (3, 3))]


@pytest.mark.parametrize("times", [0, 1, 4])
def test_weights_handed_through_are_invariants(feeds, arrays, times):
    x, w, n = feeds
    y, _ = loop(n, x, w)
    fetches = [y, *tg.gradients(tg.reduce_sum(y), [x, w])]
    assert count([y], feeds, "NextIteration") == 2
    assert count([y], feeds, "NextIteration", OFF) == 3
    assert_same(fetches, feeds, [*arrays, np.int32(times)])


@pytest.mark.parametrize("times", [0, 3])
def test_a_variable_wanted_behind_the_loop_stays(feeds, arrays, times):
    x, w, n = feeds
    y, after = loop(n, x, w)
    fetches = [y, after, tg.reduce_sum(after), *tg.gradients([y, after], [x, w])]
    assert_same(fetches, feeds, [*arrays, np.int32(times)])


def test_through_nested_loops(feeds, arrays):
    x, w, n = feeds

    def body(i, x, w):
        return i + 1, loop(2, x, w)[0] + 0.5, w

    y = tg.while_loop(lambda i, *_: i < n, body, [0, x, w])[1]
    assert count([y], feeds, "NextIteration") == 4
    assert_same([y, *tg.gradients(tg.reduce_sum(y), [x, w])], feeds, [*arrays, np.int32(3)])


def test_in_the_condition(feeds, arrays):
    x, _, n = feeds
    y = tg.while_loop(lambda i, limit, x: i < limit, lambda i, limit, x: (i + 1, limit, x * 2.0), [0, n, x])[2]
    assert count([y], feeds, "NextIteration") == 2
    assert_same([y], feeds, [*arrays, np.int32(3)])


@pytest.mark.parametrize("settings", [ON, OFF])
def test_what_is_dead_stays_dead(feeds, arrays, settings):
    x, w, n = feeds
    _, dead = tg.switch(w, n > 5)
    count, y, _ = tg.while_loop(lambda i, *_: i < n, lambda i, x, w: (i + 1, tg.tanh(x @ w), w), [0, x, dead])
    values = dict(zip(feeds, [*arrays, np.int32(2)], strict=True))
    with tg.SyncSession(y.graph, settings=settings) as session:
        assert session.run(count, values) == 2
        with pytest.raises(tg.TagloomError, match="dead"):
            session.run(y, values)
