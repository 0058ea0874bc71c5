"""Products of which only some columns are used."""

from dataclasses import replace

import numpy as np
import pytest
import tagloom as tg
from tagloom.ir.program import Program

from tests.support.compiling import optimized
from tests.support.running import result_pairs
from tests.support.settings import ON

pytestmark = pytest.mark.usefixtures("graph")

OFF = replace(ON, narrow=False)


def shapes(fetches, feeds, settings=ON):
    """Return the shapes of the products that multiply with a transposed matrix."""
    program = optimized(Program(fetches[0].graph, feeds, fetches), settings)
    ops = [op for op in program.graph.root.walk() if op.type == "MatMul" and op.attrs["transpose_b"]]
    return [op.outputs[0].shape.as_tuple() for op in ops]


def recurrent():
    x, h, w = (tg.placeholder("float32", s) for s in ([2, 3], [2, 4], [7, 4]))
    _, last = tg.while_loop(lambda t, h: t < 4, lambda t, h: (t + 1, tg.tanh(tg.concat([x, h], 1) @ w)), [0, h])
    return x, h, w, tg.reduce_sum(last)


def assert_close(fetches, feeds):
    random = np.random.default_rng(1)
    arrays = [random.standard_normal(t.shape.as_tuple()).astype(np.float32) for t in feeds]
    for a, b in result_pairs(fetches, feeds, arrays, OFF):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_only_the_columns_of_the_state_are_computed():
    x, h, w, y = recurrent()
    fetches = tg.gradients(y, [h, w])
    assert shapes(fetches, [x, h, w]) == [(2, 4)]
    assert shapes(fetches, [x, h, w], OFF) == [(2, 7)]
    assert_close(fetches, [x, h, w])


def test_all_columns_stay_where_all_are_used():
    x, h, w, y = recurrent()
    fetches = tg.gradients(y, [x, h, w])
    assert shapes(fetches, [x, h, w]) == [(2, 7)]
    assert_close(fetches, [x, h, w])


def test_a_matrix_of_the_same_region_is_not_cut():
    a, b = tg.placeholder("float32", [2, 4]), tg.placeholder("float32", [6, 4])
    piece = tg.split(tg.matmul(a, b, transpose_b=True), 2, axis=1)[1]
    assert shapes([piece], [a, b]) == [(2, 6)]
    assert_close([piece], [a, b])


def test_a_product_that_is_fetched_stays_whole():
    _, h, w, _ = recurrent()
    g = tg.placeholder("float32", [2, 4])

    def body(t, p, h):
        p = tg.matmul(g, w, transpose_b=True)
        return t + 1, p, tg.split(p, [3, 4], axis=1)[1]

    fetches = list(tg.while_loop(lambda t, *_: t < 2, body, [0, tg.zeros([2, 7]), h])[1:])
    assert shapes(fetches, [g, h, w]) == [(2, 7)]
    assert_close(fetches, [g, h, w])
