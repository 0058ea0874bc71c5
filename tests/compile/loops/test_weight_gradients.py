"""Sums of products behind their loops: the same within rounding, whatever the loop does."""

from dataclasses import replace

import numpy as np
import pytest
import tagloom as tg
from tagloom.ir.program import Program
from tagloom.kernels.cpu.product_sum import ProductSum

from tests.support.compiling import optimized
from tests.support.running import result_pairs
from tests.support.settings import ON

pytestmark = pytest.mark.usefixtures("graph")

OFF = replace(ON, batch=False, accumulate=False)


def inside_loops(fetches, feeds, settings=ON):
    """Return the types of the operations in the bodies of the optimised program."""
    program = optimized(Program(fetches[0].graph, feeds, fetches), settings)
    whiles = [op for op in program.graph.root.walk() if op.type == "While"]
    return [inner.type for op in whiles for inner in op.regions[1].walk()]


def assert_close(fetches, feeds, arrays):
    for a, b in result_pairs(fetches, feeds, arrays, OFF):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def recurrent(n, rows=1, units=6):
    """Return the gradients of a recurrent net run `n` times, and its feeds."""
    h, w, b = (tg.placeholder("float32", s) for s in ([rows, units], [units, units], [units]))
    _, last = tg.while_loop(lambda t, h: t < n, lambda t, h: (t + 1, tg.tanh(h @ w + b)), [0, h])
    return tg.gradients(tg.reduce_sum(last), [w, b, h]), [h, w, b]


def draw(feeds):
    random = np.random.default_rng(3)
    return [random.standard_normal(t.shape.as_tuple()).astype(np.float32) for t in feeds]


def test_weight_gradients_are_gathered():
    fetches, feeds = recurrent(5)
    assert inside_loops(fetches, feeds).count("MatMul") == 2  # forward, and the cotangent of the state
    assert inside_loops(fetches, feeds).count("ProductSumAdd") == 1
    assert inside_loops(fetches, feeds, OFF).count("MatMul") == 3
    assert_close(fetches, feeds, draw(feeds))


@pytest.mark.parametrize("rows", [6, 100, 700, 1500])
def test_any_number_of_rows(rows):
    fetches, feeds = recurrent(5, rows)
    assert_close(fetches, feeds, [a / 8 for a in draw(feeds)])


def test_rows_that_change_in_number():
    x = tg.placeholder("float32", [None, 8])

    def body(t, h, total):
        return t + 1, tg.concat([h, h[:t]], 0), total + tg.matmul(h, h * 2.0, transpose_a=True)

    fetches = list(
        tg.while_loop(lambda t, *_: t < 9, body, [0, x, tg.zeros([8, 8])], shape_invariants=[None, [None, 8], None])[2:]
    )
    assert "ProductSumAdd" in inside_loops(fetches, [x])
    assert_close(fetches, [x], [draw([tg.placeholder("float32", [6, 8])])[0] / 8])


def test_a_constant_that_a_sum_starts_with_stays_as_it_is():
    x = tg.placeholder("float32", [1, 8])
    start = tg.constant(np.ones([8, 8], np.float32))
    total = tg.while_loop(
        lambda t, _: t < 3, lambda t, s: (t + 1, s + tg.matmul(x, x * 2.0, transpose_a=True)), [0, start]
    )[1]
    with tg.SyncSession(total.graph) as session:
        step = session.make_step([total, start], [x])
        first, *_ = step(np.ones([1, 8], np.float32))
        again, kept = step(np.ones([1, 8], np.float32))
    np.testing.assert_array_equal(first, np.full([8, 8], 7))
    np.testing.assert_array_equal(again, first)
    np.testing.assert_array_equal(kept, np.ones([8, 8]))


def test_the_python_kernel():
    found = ProductSum(np.ones([2, 2], np.float32))
    found.add(np.full([3, 2], 2, np.float32), np.ones([3, 2], np.float32))
    assert found.value().tolist() == [[7, 7], [7, 7]]


@pytest.mark.parametrize("count", [0, 1, 40])
def test_any_number_of_iterations(count):
    n = tg.placeholder("int32", [])
    fetches, feeds = recurrent(n)
    assert_close(fetches, [*feeds, n], [*draw(feeds), np.array(count, np.int32)])


def test_nested_loops():
    w, x = tg.placeholder("float32", [8, 8]), tg.placeholder("float32", [1, 8])

    def outer(i, h):
        _, h = tg.while_loop(lambda j, h: j < i, lambda j, h: (j + 1, tg.tanh(h @ w)), [0, h])
        return i + 1, h + x

    _, last = tg.while_loop(lambda i, h: i < 4, outer, [0, x])
    fetches = tg.gradients(tg.reduce_sum(last), [w, x])
    assert_close(fetches, [w, x], draw([w, x]))


def test_second_derivatives():
    fetches, feeds = recurrent(4)
    second = tg.gradients(tg.reduce_sum(tg.square(fetches[0])), feeds)
    assert_close(second, feeds, draw(feeds))


def test_a_sum_that_starts_with_something_keeps_it():
    x, s = tg.placeholder("float32", [1, 8]), tg.placeholder("float32", [8, 8])

    def body(t, h, total):
        return t + 1, tg.tanh(h), total + tg.matmul(h, h * 2.0, transpose_a=True)

    *_, total = tg.while_loop(lambda t, *_: t < 5, body, [0, x, s])
    assert "MatMul" not in inside_loops([total], [x, s])
    assert_close([total], [x, s], draw([x, s]))


def test_a_sum_that_the_loop_looks_at_stays():
    x, s = tg.placeholder("float32", [1, 8]), tg.placeholder("float32", [8, 8])

    def body(t, h, total):
        return t + 1, tg.tanh(h @ total), total + tg.matmul(h, h * 2.0, transpose_a=True)

    fetches = list(tg.while_loop(lambda t, *_: t < 5, body, [0, x, s])[1:])
    assert inside_loops(fetches, [x, s]).count("MatMul") == 2
    assert_close(fetches, [x, s], draw([x, s]))


def test_a_branch_in_the_loop():
    w, x = tg.placeholder("float32", [8, 8]), tg.placeholder("float32", [1, 8])

    def body(t, h):
        return t + 1, tg.cond(tg.equal(t % 2, 0), lambda: tg.tanh(h @ w), lambda: h * 0.5)

    _, last = tg.while_loop(lambda t, h: t < 5, body, [0, x])
    assert_close(tg.gradients(tg.reduce_sum(last), [w, x]), [w, x], draw([w, x]))
