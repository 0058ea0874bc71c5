"""Constants stand in front of the loops that use them."""

from dataclasses import replace

import numpy as np
import pytest
import tagloom as tg
from tagloom.ir.program import Program

from tests.support.compiling import optimized
from tests.support.execute import execute
from tests.support.settings import ON

pytestmark = pytest.mark.usefixtures("graph")

OFF = replace(ON, hoist=False)


def constants_inside(fetches, feeds=(), settings=ON):
    """Return how many constants the loops of the optimised program hold."""
    program = optimized(Program(fetches[0].graph, feeds, fetches), settings)
    whiles = [op for op in program.graph.root.walk() if op.type == "While"]
    return sum(op.type == "Const" for w in whiles for region in w.regions for op in region.walk())


async def test_a_counter_has_no_constants_in_its_loop():
    i = tg.while_loop(lambda i: i < 5, lambda i: i + 1, [0])
    assert constants_inside([i]) == 0
    assert constants_inside([i], settings=OFF) > 0
    assert await execute([i]) == [5]


async def test_constants_leave_all_loops_around_them():
    def outer(i, x):
        _, x = tg.while_loop(lambda j, x: j < 3, lambda j, x: (j + 1, x * 2.0), [0, x])
        return i + 1, x

    fetches = list(tg.while_loop(lambda i, x: i < 2, outer, [0, 1.0]))
    assert constants_inside(fetches) == 0
    assert await execute(fetches) == [2, 64.0]


async def test_a_constant_as_result_and_saved():
    x = tg.placeholder("float32", [2])

    def body(t, a, b):
        return t + 1, tg.constant(np.array([2, 3], np.float32)), a * b * x

    _, a, b = tg.while_loop(lambda t, *_: t < 3, body, [0, x, x])
    fetches = [a, b, *tg.gradients(tg.reduce_sum(b), [x])]
    assert constants_inside(fetches, [x]) == 0
    found = await execute(fetches, {x: [5, 7]})
    np.testing.assert_allclose(found[0], [2, 3])
    np.testing.assert_allclose(found[1], [2 * 2 * 5.0**5, 3 * 3 * 7.0**5])
    np.testing.assert_allclose(found[2], [2 * 2 * 5 * 5.0**4, 3 * 3 * 5 * 7.0**4])


async def test_a_constant_in_a_branch_stays_there():
    def body(t, x):
        return t + 1, tg.cond(t < 2, lambda: tg.constant(4.0), lambda: x + 1.0)

    fetches = list(tg.while_loop(lambda t, x: t < 4, body, [0, 0.0]))
    assert constants_inside(fetches) == 2
    assert await execute(fetches) == [4, 6.0]


async def test_a_constant_that_something_waits_for_stays():
    def body(t):
        one = tg.constant(1)
        with tg.control_dependencies([one]):
            return t + 1

    t = tg.while_loop(lambda t: t < 3, body, [0])
    assert constants_inside([t]) >= 1
    assert await execute([t]) == [3]
