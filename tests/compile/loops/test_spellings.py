"""One recurrent cell, however it is written: the same products are left in its loop, and the results are the same.

No pass may know a spelling by heart: whoever adds one adds programs here that mean the same.
"""

from dataclasses import replace

import numpy as np
import pytest
import tagloom as tg
from tagloom.compile import Target, compile_until
from tagloom.ir.program import Program

from tests.support.running import result_pairs
from tests.support.settings import ON as ALL

pytestmark = pytest.mark.usefixtures("graph")

BATCH, UNITS, LENGTH = 16, 64, 6
WORK = BATCH * UNITS * 4 * UNITS  # multiplications of the state with its weights, in one iteration
ON = ALL.without("straight", "keep_products")  # native programs multiply many rows as fast within a loop
OFF = ON.without("hoist_bytes", "block_bytes", "merge_products", "narrow")
BLOCKS = replace(ON, hoist_bytes=0, block_bytes=3 * BATCH * 6 * UNITS * 4)

LSTM = ("x_first", "h_first", "two_products", "three_parts", "nested", "four_gates", "eight_products", "transposed")
OTHERS = (
    "columns",
    "columns_transposed",
    "summed_apart",
    "normalized_inputs",
    "masked",
    "affine_index",
)


class Cell:
    """What is fed to one recurrent loop, and how it reads its inputs."""

    def __init__(self, batch=BATCH, source="read"):
        self.x = tg.placeholder("float32", [LENGTH, batch, UNITS])
        self.context = tg.placeholder("float32", [batch, UNITS])
        self.kernel = tg.placeholder("float32", [3 * UNITS, 4 * UNITS])
        self.ids = tg.placeholder("int32", [LENGTH, batch])
        self.table = tg.placeholder("float32", [9, UNITS])
        self.feeds = [self.x, self.context, self.kernel, self.ids, self.table]
        self.batch, self.source = batch, source
        rows = self.x if source == "read" else self.ids
        self.array = tg.TensorArray(rows.dtype, LENGTH, clear_after_read=False).unstack(rows)

    def input(self, t):
        """Return the inputs of an iteration."""
        sources = {
            "read": lambda: self.array.read(t),
            "index": lambda: self.x[t],
            "index_rest": lambda: self.x[t, :, ...],
            "gathered_row": lambda: tg.gather(self.x, t),
            "embedded": lambda: tg.gather(self.table, self.array.read(t)),
            "embedded_index": lambda: tg.gather(self.table, self.ids[t]),
            "one_hot": lambda: tg.one_hot(self.ids[t], 9) @ self.table,
        }
        return sources[self.source]()

    def cell(self, spelling):
        """Return what gives the gates of a cell, before their sigmoids, for an iteration, its inputs and the state."""
        wx, wc, wh = (self.kernel[i * UNITS : (i + 1) * UNITS] for i in range(3))
        both, turned, ctx = tg.concat([wx, wh], 0), tg.concat([wh, wx], 0), self.context
        pairs = list(zip(tg.split(wx, 4, axis=1), tg.split(wh, 4, axis=1), strict=True))
        joined = [tg.concat(pair, 0) for pair in pairs]
        sideways = tg.transpose(both)
        matmul, concat, turn = tg.matmul, tg.concat, tg.transpose
        spelled = {
            "x_first": lambda t, x, h: concat([x, h], 1) @ both,
            "h_first": lambda t, x, h: concat([h, x], -1) @ turned,
            "two_products": lambda t, x, h: x @ wx + h @ wh,
            "three_parts": lambda t, x, h: concat([x, ctx, h], 1) @ self.kernel,
            "nested": lambda t, x, h: concat([concat([x, ctx], 1), h], 1) @ self.kernel,
            "four_gates": lambda t, x, h: concat([concat([x, h], 1) @ w for w in joined], 1),
            "eight_products": lambda t, x, h: concat([x @ a + h @ b for a, b in pairs], 1),
            "transposed": lambda t, x, h: matmul(concat([x, h], 1), sideways, transpose_b=True),
            "columns": lambda t, x, h: turn(matmul(both, concat([turn(x), turn(h)], 0), transpose_a=True)),
            "columns_transposed": lambda t, x, h: turn(
                matmul(both, concat([x, h], 1), transpose_a=True, transpose_b=True)
            ),
            "summed_apart": lambda t, x, h: tg.add_n([x @ wx, ctx @ wc, h @ wh]),
            "normalized_inputs": lambda t, x, h: concat([self.normalized(x), h], 1) @ both,
            "masked": lambda t, x, h: (x * tg.cast(t < 4, "float32")) @ wx + h @ wh,
            "affine_index": lambda t, x, h: self.x[LENGTH - 1 - t] @ wx + h @ wh,
            "weights_made_inside": lambda t, x, h: concat([x, h], 1) @ concat([self.kernel[:UNITS], wh * 2.0], 0),
        }
        return spelled[spelling]

    @staticmethod
    def normalized(x):
        mean, variance = tg.moments(x, [1], keepdims=True)
        return (x - mean) * tg.rsqrt(variance + 1e-5)

    def run(self, spelling, going_on=lambda t, h: t < LENGTH, start=0):
        """Return the last state, and the gradients for the weights."""
        gates = self.cell(spelling)

        def body(t, h):
            i, j, f, o = tg.split(gates(t, self.input(t), h), 4, axis=1)
            return t + 1, tg.tanh(i) * tg.sigmoid(j) + tg.sigmoid(f) * tg.tanh(o) * h

        zeros = tg.zeros([BATCH if self.batch is not None else tg.shape(self.x)[1], UNITS])
        _, h = tg.while_loop(going_on, body, [start, zeros])
        return [h, *tg.gradients(tg.reduce_sum(tg.square(h)), [self.kernel])]

    def values(self):
        """Draw what is fed."""
        random = np.random.default_rng(3)
        shapes = [(LENGTH, BATCH, UNITS), (BATCH, UNITS), (3 * UNITS, 4 * UNITS)]
        arrays = [random.standard_normal(s, np.float32) * np.float32(0.2) for s in shapes]
        ids = random.integers(9, size=(LENGTH, BATCH)).astype(np.int32)
        return [*arrays, ids, random.standard_normal((9, UNITS), np.float32)]


def products_of_loops(fetches, cell, settings):
    """Return the products in the forward loop, then those in the backward loop, without sums."""
    shapes = tuple(value.shape for value in cell.values())
    target = Target(settings, shapes=shapes)
    program = compile_until("release", Program(fetches[0].graph, cell.feeds, fetches), target)
    bodies = [op.regions[1] for op in program.graph.root.walk() if op.is_while]
    return [[op for op in body.walk() if op.type == "MatMul" and op.region is body] for body in bodies]


def left_in_loops(fetches, cell, settings=ON):
    """Return the multiplications in one iteration of the forward loop, then of the backward loop, without sums."""
    found = products_of_loops(fetches, cell, settings)
    return [sum(op.outputs[0].shape.num_elements * inner(op) for op in products) for products in found]


def inner(op):
    return op.inputs[0].shape.as_tuple()[0 if op.attrs["transpose_a"] else 1]


def assert_same(fetches, cell, settings=ON):
    for one, other in result_pairs(fetches, cell.feeds, cell.values(), OFF, settings):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("batch", [BATCH, None])
@pytest.mark.parametrize("spelling", LSTM + OTHERS)
def test_the_state_alone_is_multiplied_in_the_loop(spelling, batch):
    cell = Cell(batch)
    fetches = cell.run(spelling)
    assert left_in_loops(fetches, cell) == [WORK, WORK]
    assert_same(fetches, cell)


@pytest.mark.parametrize("spelling", ["x_first", "h_first", "two_products", "eight_products", "transposed"])
def test_native_loops_multiply_inputs_and_state_together(spelling):
    cell = Cell()
    fetches = cell.run(spelling)
    forward, backward = products_of_loops(fetches, cell, ALL)
    assert len(forward) == len(backward) == 1
    assert left_in_loops(fetches, cell, ALL)[0] > WORK
    for one, other in result_pairs(fetches, cell.feeds, cell.values(), OFF, ALL):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-5)


def test_weights_may_be_made_inside():
    cell = Cell()
    fetches = cell.run("weights_made_inside")
    assert left_in_loops(fetches, cell)[0] == WORK
    assert_same(fetches, cell)


@pytest.mark.parametrize("source", ["index", "index_rest", "gathered_row", "embedded", "embedded_index", "one_hot"])
@pytest.mark.parametrize("spelling", ["x_first", "two_products", "eight_products"])
def test_wherever_inputs_come_from(spelling, source):
    cell = Cell(source=source)
    fetches = cell.run(spelling)
    assert left_in_loops(fetches, cell) == [WORK, WORK]
    assert_same(fetches, cell)


PREDICATES = {
    "counted to what is fed": lambda t, h: t < tg.shape(h)[0] - 10,
    "ended by the state": lambda t, h: tg.logical_and(t < LENGTH, tg.reduce_sum(h) < 1e6),
}


@pytest.mark.parametrize("predicate", PREDICATES)
@pytest.mark.parametrize("spelling", ["x_first", "two_products", "three_parts", "masked"])
def test_blocks_are_for_all_of_them(spelling, predicate):
    cell = Cell()
    fetches = cell.run(spelling, PREDICATES[predicate])
    assert left_in_loops(fetches, cell, BLOCKS)[0] == WORK
    assert_same(fetches, cell, BLOCKS)


@pytest.mark.parametrize("start", [0, 2, LENGTH])
@pytest.mark.parametrize("settings", [ON, BLOCKS], ids=["whole", "blocks"])
def test_a_loop_may_begin_anywhere(start, settings):
    cell = Cell()
    fetches = cell.run("x_first", start=start)
    assert_same(fetches, cell, settings)
