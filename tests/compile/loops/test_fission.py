"""Products of what a loop reads from an array, in front of the loop."""

from dataclasses import replace

import numpy as np
import pytest
import tagloom as tg
from tagloom.base.errors import TensorArrayError
from tagloom.ir.program import Program
from tagloom.kernels.cpu.linear import limit_vectors

from tests.support.compiling import optimized
from tests.support.running import machine_results, result_pairs
from tests.support.settings import ON as ALL

pytestmark = pytest.mark.usefixtures("graph")

ON = ALL.without("straight", "keep_products")  # native programs multiply many rows as fast within a loop
OFF = replace(ON, hoist_bytes=0, block_bytes=0)
BATCH, UNITS, LENGTH = 16, 64, 3


def products(fetches, feeds, settings=ON):
    """Return the shapes of all products inside loops and of those outside."""
    program = optimized(Program(fetches[0].graph, feeds, fetches), settings)
    ops = [op for op in program.graph.root.walk() if op.type == "MatMul"]
    shapes = [(op.region is program.graph.root, op.inputs[0].shape.as_tuple()) for op in ops]
    return [s for outside, s in shapes if not outside], [s for outside, s in shapes if outside]


def recurrent(length=LENGTH, units=UNITS, index=lambda t: t, **options):
    x, h, w = (tg.placeholder("float32", s) for s in ([LENGTH, BATCH, units], [BATCH, units], [2 * units, 4 * units]))
    xs = tg.TensorArray("float32", LENGTH, clear_after_read=False).unstack(x)

    def body(t, h):
        return t + 1, tg.tanh(tg.split(tg.concat([xs.read(index(t)), h], 1) @ w, 4, axis=1)[2])

    _, last = tg.while_loop(lambda t, h: t < length, body, [0, h], **options)
    return last, [x, h, w]


def assert_close(fetches, feeds):
    random = np.random.default_rng(2)
    arrays = [random.standard_normal(t.shape.as_tuple()).astype(np.float32) * np.float32(0.2) for t in feeds]
    for a, b in result_pairs(fetches, feeds, arrays, OFF):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_inputs_are_multiplied_at_once():
    last, feeds = recurrent()
    assert products([last], feeds) == ([(BATCH, UNITS)], [(LENGTH * BATCH, UNITS)])
    assert products([last], feeds, OFF) == ([(BATCH, 2 * UNITS)], [])
    assert_close([last], feeds)


def test_products_of_many_rows_stay_in_native_loops():
    """They go with those of the state; a product that is the same in all iterations leaves the loop."""
    last, feeds = recurrent()
    assert products([last], feeds, ALL) == ([(BATCH, 2 * UNITS)], [])
    assert_close([last], feeds)
    x, w = tg.placeholder("float32", [BATCH, UNITS]), tg.placeholder("float32", [UNITS, 4 * UNITS])
    total = tg.while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, y + x @ w), [0, tg.zeros([BATCH, 4 * UNITS])])[1]
    assert products([total], [x, w], ALL) == ([], [(BATCH, UNITS)])


def test_products_of_few_rows_leave_native_loops():
    """Weights would be read again for each of them."""
    x, h, w = (tg.placeholder("float32", s) for s in ([LENGTH, 2, 256], [2, 256], [512, 1024]))
    _, last = tg.while_loop(
        lambda t, _: t < LENGTH, lambda t, h: (t + 1, tg.tanh(tg.concat([x[t], h], 1) @ w)[:, :256]), [0, h]
    )
    assert products([last], [x, h, w], ALL)[1] == [(2 * LENGTH, 256)]


def test_products_by_blas_leave_native_loops():
    last, feeds = recurrent()
    bits = limit_vectors(512)
    limit_vectors(0)
    try:
        assert products([last], feeds, ALL)[1] == [(LENGTH * BATCH, UNITS)]
    finally:
        limit_vectors(bits)


def test_products_are_split_alike_whether_or_not_a_loop_is_native():
    """Where the loop runs again for its gradient it may be native, and has to give the same bits."""
    last, feeds = recurrent(index=lambda t: tg.py_function(lambda t: t, [t], "int32", stateful=False))
    assert products([last], feeds, ALL) == ([(16, 128)], [])


def test_products_leave_loops_that_are_not_native():
    x, w = tg.placeholder("float32", [LENGTH, BATCH, UNITS]), tg.placeholder("float32", [UNITS, 4 * UNITS])

    def body(t, y):
        return t + 1, tg.print_(y, [t]) + x[t] @ w

    total = tg.while_loop(lambda t, _: t < LENGTH, body, [0, tg.zeros([BATCH, 4 * UNITS])])[1]
    assert products([total], [x, w], ALL) == ([], [(LENGTH * BATCH, UNITS)])


def test_gradients_stay_the_same():
    last, feeds = recurrent()
    assert_close([last, *tg.gradients(tg.reduce_sum(tg.square(last)), feeds)], feeds)


def test_products_are_not_held_for_a_loop_that_recomputes():
    last, feeds = recurrent(checkpoint_every=2)
    assert products([last], feeds)[1] != []
    gradients = tg.gradients(tg.reduce_sum(tg.square(last)), feeds)
    assert (LENGTH * BATCH, UNITS) not in products(gradients, feeds)[1]
    assert_close([last, *gradients], feeds)


def test_elements_may_be_read_in_any_order():
    last, feeds = recurrent(index=lambda t: LENGTH - 1 - t)
    assert_close([last], feeds)


@pytest.mark.parametrize("length", [0, 1, 2])
def test_a_loop_may_read_fewer(length):
    last, feeds = recurrent(length)
    assert_close([last], feeds)


def test_small_products_stay_in_the_loop():
    last, feeds = recurrent(units=8)
    assert products([last], feeds)[1] == []


def test_large_products_stay_in_the_loop():
    last, feeds = recurrent()
    assert products([last], feeds, replace(OFF, hoist_bytes=LENGTH * BATCH * 4 * UNITS * 4 - 1))[1] == []
    assert products([last], feeds, replace(ON, hoist_bytes=LENGTH * BATCH * 4 * UNITS * 4))[1] != []


def test_reading_beyond_the_end_names_the_array():
    last, feeds = recurrent(LENGTH + 1)
    arrays = [np.zeros(t.shape.as_tuple(), np.float32) for t in feeds]
    for settings in (ON, OFF):
        with pytest.raises(TensorArrayError, match="index 3 of TensorArray 'TensorArray' is out of bounds"):
            machine_results([last], feeds, arrays, settings)


def test_a_counter_that_begins_with_what_is_fed_is_one_all_the_same():
    x, h, w = (tg.placeholder("float32", s) for s in ([LENGTH, BATCH, 64], [BATCH, 256], [64, 256]))
    first = tg.placeholder("int32", [])

    def body(t, k, h):
        return t + 1, k - 2, tg.tanh(h + (x[t] * tg.cast(k, "float32")) @ w)

    last = tg.while_loop(lambda t, k, h: t < LENGTH, body, [0, first, h])[2]
    feeds = [x, h, w, first]
    assert products([last], feeds) == ([], [(LENGTH * BATCH, 64)])
    random = np.random.default_rng(0)
    arrays = [random.standard_normal(t.shape.as_tuple(), np.float32) * np.float32(0.1) for t in feeds[:3]]
    for a, b in result_pairs([last], feeds, [*arrays, np.int32(3)], OFF):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("hoist", [True, False])
def test_a_product_of_invariants_may_be_the_next_value_and_be_saved(hoist):
    x, w = (tg.placeholder("float32", s) for s in ([64, 64], [64, 64]))

    def body(i, a, b):
        product = x @ w
        return i + 1, product, b * tg.tanh(product) + a

    ends = tg.while_loop(lambda i, a, b: i < 3, body, [0, x, w])[1:]
    fetches = [*ends, *tg.gradients(tg.reduce_sum(ends[0] + ends[1]), [x, w])]
    on = replace(ON, hoist=hoist)
    random = np.random.default_rng(0)
    arrays = [random.standard_normal((64, 64), np.float32) * np.float32(0.1) for _ in range(2)]
    for a, b in result_pairs(fetches, [x, w], arrays, replace(OFF, hoist=False), on):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
