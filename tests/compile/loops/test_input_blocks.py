"""Rows that were fed are read and multiplied in blocks, which a loop carries."""

from dataclasses import replace

import numpy as np
import pytest
import tagloom as tg
from tagloom.base.errors import TensorArrayError
from tagloom.compile.loops import input_blocks
from tagloom.ir.program import Program

from tests.support.compiling import optimized
from tests.support.running import machine_results, result_pairs
from tests.support.settings import ON as ALL

pytestmark = pytest.mark.usefixtures("graph")

BATCH, UNITS, LENGTH = 16, 64, 7
ROW = BATCH * UNITS * 4  # bytes
PRODUCT = 4 * ROW
ON = ALL.without("straight", "keep_products")  # native programs multiply many rows as fast within a loop
OFF = replace(ON, hoist_bytes=0, block_bytes=0)
BLOCKS = replace(ON, hoist_bytes=0, block_bytes=3 * (PRODUCT + ROW))


def recurrent(*, length=LENGTH, start=0, step=1, index=lambda t: t, computed=False, **options):
    """Return the last state, the sum of what else is read, and what is fed."""
    clear = options.pop("clear_after_read", True)
    shapes = ([LENGTH, BATCH, UNITS], [LENGTH, BATCH, UNITS], [BATCH, UNITS], [2 * UNITS, 4 * UNITS])
    x, y, h, w = feeds = [tg.placeholder("float32", shape) for shape in shapes]
    rows = tg.tanh(x) if computed else x
    xs, ys = (tg.TensorArray("float32", LENGTH, clear_after_read=clear).unstack(each) for each in (rows, y))

    def body(t, h, loss):
        h = tg.tanh(tg.split(tg.concat([xs.read(index(t)), h], 1) @ w, 4, axis=1)[2])
        return t + step, h, loss + tg.reduce_sum(tg.square(h - ys.read(index(t))))

    _, last, loss = tg.while_loop(lambda t, *_: t < length, body, [start, h, 0.0], **options)
    return [last, loss], feeds


def values(feeds):
    random = np.random.default_rng(3)
    return [random.standard_normal(t.shape.as_tuple()).astype(np.float32) * np.float32(0.2) for t in feeds]


def counted(fetches, feeds, settings=BLOCKS):
    """Return for how many iterations each loop has blocks, and the names of the arrays whose rows these hold."""
    ops = list(optimized(Program(fetches[0].graph, feeds, fetches), settings).graph.root.walk())
    rows = [op for op in ops if op.type == "TensorArrayRowOf" and op.outputs[0].shape.as_tuple()[-1] != 4 * UNITS]
    return [op.notes.block for op in ops if op.is_cond and op.notes.block], [op.inputs[0].op.name for op in rows]


def assert_same(fetches, feeds, settings=BLOCKS):
    for a, b in result_pairs(fetches, feeds, values(feeds), OFF, settings):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


def test_products_that_are_too_large_at_once_are_made_in_blocks():
    fetches, feeds = recurrent()
    assert counted(fetches, feeds) == ([3], [])
    assert counted(fetches, feeds, ON) == counted(fetches, feeds, OFF) == ([], [])
    assert_same(fetches, feeds)


@pytest.mark.parametrize("count", [2, 3, 6, 7, 20])
@pytest.mark.parametrize("swap", [False, True])
def test_gradients_are_the_same_whatever_the_size(count, swap):
    fetches, feeds = recurrent(swap_memory=swap)
    fetches += tg.gradients(fetches[1], feeds)
    settings = replace(BLOCKS, block_bytes=count * (PRODUCT + ROW))
    assert counted(fetches, feeds, settings)[0] != []
    assert_same(fetches, feeds, settings)


def test_rows_are_cut_out_of_blocks_under_swap(monkeypatch):
    monkeypatch.setattr(input_blocks, "_SMALL", 1)
    fetches, feeds = recurrent(swap_memory=True)
    assert counted(fetches, feeds) == ([2], ["TensorArray_1"])
    fetches += tg.gradients(fetches[1], feeds[2:])  # for these the rows are joined with the state
    assert counted(fetches, feeds) == ([2], ["TensorArray", "TensorArray_1"])
    assert_same(fetches, feeds)


def test_rows_that_are_saved_are_read_one_by_one(monkeypatch):
    monkeypatch.setattr(input_blocks, "_SMALL", 1)
    x = tg.placeholder("float32", [LENGTH, BATCH, UNITS])
    xs = tg.TensorArray("float32", LENGTH).unstack(x)
    w = tg.placeholder("float32", [UNITS, UNITS])
    body = lambda t, h: (t + 1, tg.tanh(h + xs.read(t) @ w))  # noqa: E731
    last = tg.while_loop(lambda t, _: t < LENGTH, body, [0, np.zeros((BATCH, UNITS), np.float32)], swap_memory=True)[1]
    assert counted([last], [x, w]) == ([7], ["TensorArray"])
    gradients = tg.gradients(tg.reduce_sum(last), [w])
    assert counted(gradients, [x, w]) == ([], [])
    assert_same(gradients, [x, w])


@pytest.mark.parametrize(
    "options",
    [
        {"step": 2},
        {"index": lambda t: LENGTH - 1 - t},
        {"computed": True, "swap_memory": True},
        {"checkpoint_every": 2},
    ],
)
def test_what_is_not_read_in_order_from_a_feed_is_read_row_by_row(options):
    fetches, feeds = recurrent(**options)
    fetches += tg.gradients(fetches[1], feeds)
    assert counted(fetches, feeds) == ([], [])
    assert_same(fetches, feeds)


@pytest.mark.parametrize(("start", "length"), [(0, 0), (0, 1), (2, 4), (5, 7), (6, 7)])
def test_a_loop_may_begin_and_end_within_a_block(start, length):
    fetches, feeds = recurrent(start=start, length=length)
    assert counted(fetches, feeds) == ([3], [])
    assert_same(fetches, feeds)


def test_reading_beyond_the_end_names_the_array(monkeypatch):
    monkeypatch.setattr(input_blocks, "_SMALL", 1)
    for swap in (False, True):
        fetches, feeds = recurrent(length=LENGTH + 1, swap_memory=swap)
        with pytest.raises(TensorArrayError, match=r"index 7 of TensorArray .* is out of bounds"):
            machine_results(fetches, feeds, values(feeds), BLOCKS)


def test_a_row_that_something_waits_for_is_read_as_it_is(monkeypatch):
    monkeypatch.setattr(input_blocks, "_SMALL", 1)
    x = tg.placeholder("float32", [LENGTH, BATCH, UNITS])
    xs = tg.TensorArray("float32", LENGTH).unstack(x)

    def body(t, h):
        row = xs.read(t)
        with tg.control_dependencies([row]):
            return t + 1, tg.tanh(h + row)

    last = tg.while_loop(lambda t, _: t < LENGTH, body, [0, np.zeros((BATCH, UNITS), np.float32)], swap_memory=True)[1]
    assert counted([last], [x]) == ([], [])
    assert_same([last], [x])


def test_blocks_are_no_reason_why_iterations_wait():
    x = tg.placeholder("float32", [40, BATCH, UNITS * 8])
    xs = tg.TensorArray("float32", 40).unstack(x)
    body = lambda t, ys: (t + 1, ys.write(t, tg.tanh(xs.read(t))))  # noqa: E731
    ys = tg.while_loop(lambda t, _: t < 40, body, [0, tg.TensorArray("float32", 40)], swap_memory=True)[1]
    total = tg.reduce_sum(ys.stack())
    assert counted([total], [x], ON)[0] != []
    with tg.SyncSession(total.graph, settings=ON) as session:
        session.run(total, {x: values([x])[0]})
        (loop,) = session.report().loops
    assert loop.variable is None


def test_an_element_may_be_read_once(monkeypatch):
    monkeypatch.setattr(input_blocks, "_SMALL", 1)
    x = tg.placeholder("float32", [LENGTH, BATCH, UNITS])
    xs = tg.TensorArray("float32", LENGTH).unstack(x)
    zeros = np.zeros((BATCH, UNITS), np.float32)
    once = lambda h: tg.while_loop(  # noqa: E731
        lambda t, _: t < LENGTH, lambda t, h: (t + 1, h + xs.read(t)), [0, h], swap_memory=True
    )[1]
    last = once(once(zeros))
    assert counted([last], [x])[1] == ["TensorArray"] * 2
    with pytest.raises(TensorArrayError, match="was already read"):
        machine_results([last], [x], values([x]), BLOCKS)


def test_what_was_never_written_is_zeros_all_the_same(monkeypatch):
    """Rule 108: an array may have more elements than a feed has rows."""
    monkeypatch.setattr(input_blocks, "_SMALL", 1)
    x = tg.placeholder("float32", [LENGTH, BATCH, UNITS])
    for options in ({"size": LENGTH + 3}, {"size": 0, "dynamic_size": True}):
        xs = tg.TensorArray("float32", element_shape=[BATCH, UNITS], **options).unstack(x)
        body = lambda t, h, xs=xs: (t + 1, h + xs.read(t))  # noqa: E731
        start = [0, np.zeros((BATCH, UNITS), np.float32)]
        length = options["size"] or LENGTH
        last = tg.while_loop(lambda t, _, n=length: t < n, body, start, swap_memory=True)[1]
        assert counted([last], [x]) == ([], [])
        (found,) = machine_results([last], [x], values([x]), BLOCKS)
        np.testing.assert_allclose(found, values([x])[0].sum(0), atol=1e-4)


@pytest.mark.parametrize(
    "keep", [lambda row: tg.reshape(row, [UNITS, BATCH]), lambda row: row[1:], lambda row: tg.split(row, 2)[0]]
)
def test_a_row_of_which_there_may_be_views_is_read_by_itself(monkeypatch, keep):
    monkeypatch.setattr(input_blocks, "_SMALL", 1)
    x, y = (tg.placeholder("float32", [LENGTH, BATCH, UNITS]) for _ in range(2))
    xs, ys = (tg.TensorArray("float32", LENGTH).unstack(each) for each in (x, y))
    body = lambda t, h: (t + 1, h + tg.reduce_sum(tg.square(keep(xs.read(t)))) + tg.reduce_sum(ys.read(t) * 2.0))  # noqa: E731
    last = tg.while_loop(lambda t, _: t < LENGTH, body, [0, 0.0], swap_memory=True)[1]
    assert counted([last], [x, y])[1] == ["TensorArray_1"]


def test_all_blocks_of_a_loop_together_have_the_bytes_that_one_may_have(monkeypatch):
    monkeypatch.setattr(input_blocks, "_SMALL", 1)
    feeds = [tg.placeholder("float32", [LENGTH, BATCH, UNITS]) for _ in range(4)]
    arrays = [tg.TensorArray("float32", LENGTH).unstack(x) for x in feeds]
    body = lambda t, h: (t + 1, tg.add_n([h, *(tg.tanh(xs.read(t)) for xs in arrays)]))  # noqa: E731
    start = [0, np.zeros((BATCH, UNITS), np.float32)]
    last = tg.while_loop(lambda t, _: t < LENGTH, body, start, swap_memory=True)[1]
    assert counted([last], feeds, replace(ON, block_bytes=12 * ROW))[0] == [3]
    assert counted([last], feeds, replace(ON, block_bytes=7 * ROW)) == (
        [2],
        [array.handle.op.name for array in arrays[:3]],
    )


def test_loops_that_read_one_array_have_blocks_of_their_own(monkeypatch):
    monkeypatch.setattr(input_blocks, "_SMALL", 1)
    shapes = ([LENGTH, BATCH, UNITS], [BATCH, UNITS], [2 * UNITS, 4 * UNITS])
    feeds = x, h, w = [tg.placeholder("float32", shape) for shape in shapes]
    array = tg.TensorArray("float32", LENGTH, clear_after_read=False).unstack(x)
    once = lambda t, s: (t + 1, s + array.read(t))  # noqa: E731
    body = lambda t, h: (t + 1, tg.tanh(tg.split(tg.concat([array.read(t), h], 1) @ w, 4, axis=1)[2]))  # noqa: E731
    total = tg.while_loop(lambda t, _: t < LENGTH, once, [0, tg.zeros([BATCH, UNITS])], swap_memory=True)[1]
    last = tg.while_loop(lambda t, _: t < LENGTH, body, [0, h], swap_memory=True)[1]
    settings = replace(BLOCKS, block_bytes=7 * ROW + 3 * PRODUCT)
    assert sorted(counted([total, last], feeds, settings)[0]) == [3, 7]
    assert_same([total, last], feeds, settings)


def test_who_multiplies_a_row_has_read_it():
    """Rule 107: an element is read once."""
    x, h, w = (tg.placeholder("float32", s) for s in ([LENGTH, BATCH, UNITS], [BATCH, UNITS], [2 * UNITS, 4 * UNITS]))
    xs = tg.TensorArray("float32", LENGTH).unstack(x)
    body = lambda t, h: (t + 1, tg.tanh(tg.split(tg.concat([xs.read(t), h], 1) @ w, 4, axis=1)[2]))  # noqa: E731
    last = tg.while_loop(lambda t, _: t < LENGTH, body, [0, h])[1]
    with tg.control_dependencies([last]):
        again = xs.read(3)
    assert counted([last, again], [x, h, w])[0] == [3]
    with pytest.raises(TensorArrayError, match="was already read"):
        machine_results([last, again], [x, h, w], values([x, h, w]), BLOCKS)


def ending(count, rows, source=lambda x, t: x[t]):
    """Return a loop that ends after some iterations because of what it computes, and what is fed."""
    x, w = tg.placeholder("float32", [rows, BATCH, UNITS]), tg.placeholder("float32", [UNITS, 4 * UNITS])

    def body(t, h, budget):
        h = tg.tanh(h + source(x, t) @ w)
        return t + 1, h, budget - tg.cast(tg.reduce_max(h) < 9.0, "float32")

    start = [0, tg.zeros([BATCH, 4 * UNITS]), float(count)]
    going_on = lambda t, h, budget: tg.logical_and(t < rows, budget > 0.5)  # noqa: E731
    return tg.while_loop(going_on, body, start)[1], x, w


@pytest.mark.parametrize(("count", "blocks"), [(1, 1), (2, 2), (3, 2), (4, 3), (7, 3), (8, 4), (20, 5)])
def test_a_loop_that_may_end_at_any_time_makes_no_rows_in_vain(fast_paths, count, blocks):
    """Blocks are for 1, 2, 4 ... iterations, so rows that are not reached are hardly ever multiplied."""
    last, x, w = ending(count, 20)
    trace, (rows, weights) = tg.Trace(), values([x, w])
    with tg.SyncSession(last.graph, settings=tg.Settings(keep_products=False)) as session:
        found = session.run(last, {x: rows, w: weights}, trace=trace)
    made = sorted(span.iteration for span in trace.spans if span.type == "MatMul" and span.live)
    assert made == [0, 1, 3, 7, 15][:blocks]
    np.testing.assert_allclose(found, machine_results([last], [x, w], [rows, weights], OFF)[0], rtol=1e-4, atol=1e-5)


def test_rows_that_are_not_reached_are_not_checked_for_numbers():
    last, x, w = ending(4, 20)
    rows, weights = values([x, w])
    rows[4:] = np.nan
    with tg.SyncSession(last.graph, check_numerics=True) as session:
        assert np.isfinite(session.run(last, {x: rows, w: weights})).all()


def test_what_may_fail_is_not_done_before_its_iteration():
    ids, table = tg.placeholder("int32", [20, BATCH]), tg.placeholder("float32", [5, UNITS])
    last, _, w = ending(4, 20, lambda x, t: tg.gather(table, ids[t]))
    values = np.zeros((20, BATCH), np.int32)
    values[4:] = 99
    feeds = {ids: values, table: np.ones((5, UNITS), np.float32), w: np.ones((UNITS, 4 * UNITS), np.float32)}
    with tg.SyncSession(last.graph) as session:
        session.run(last, feeds)
        values[3] = 99
        with pytest.raises(tg.OpError, match="gather"):
            session.run(last, feeds)
