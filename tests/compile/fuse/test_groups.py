"""Fusing: the same results bit for bit, from fewer operations, and nothing fused that may be dead or late."""

from dataclasses import replace

import numpy as np
import pytest
import tagloom as tg
from tagloom.ir.program import Program

from tests.support.compiling import optimized
from tests.support.running import machine_results, result_pairs
from tests.support.settings import MACHINE, ON

pytestmark = pytest.mark.usefixtures("graph")

OFF = replace(ON, fuse=False)


def types(fetches, feeds=(), settings=ON, region=None):
    """Return the types of all operations of the optimised program."""
    program = optimized(Program(fetches[0].graph, feeds, fetches), settings)
    return [op.type for op in program.graph.root.walk()]


def assert_same(fetches, feeds, arrays):
    for fused, plain in result_pairs(fetches, feeds, arrays, OFF):
        assert fused.dtype == plain.dtype
        np.testing.assert_array_equal(fused, plain)


def cell(z, c):
    """The elementwise part of an LSTM."""
    i, f, g, o = tg.split(z, 4, axis=1)
    c = tg.sigmoid(f + 1.0) * c + tg.sigmoid(i) * tg.tanh(g)
    return tg.sigmoid(o) * tg.tanh(c), c


@pytest.fixture
def random():
    return np.random.default_rng(7)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("batch", "units"), [(1, 1), (3, 5), (4, 32), (7, 700)])
def test_a_cell_and_its_gradient_are_one_operation_each(random, dtype, batch, units):
    z, c = tg.placeholder(dtype, [batch, 4 * units]), tg.placeholder(dtype, [batch, units])
    b = tg.placeholder(dtype, [4 * units])
    h, new = cell(z + b, c)
    gradients = tg.gradients(tg.reduce_sum(h * 2.0 + new), [z, c])
    fetches, feeds = [h, new, *gradients], [z, c, b]
    assert not {"Sigmoid", "Tanh", "Split", "Concat"} & set(types(fetches, feeds))
    assert_same(fetches, feeds, [random.standard_normal(t.shape.as_tuple()).astype(dtype) for t in feeds])


def lstm(length, batch, units, random):
    x = tg.placeholder("float32", [length, batch, units])
    w = tg.constant(random.standard_normal((2 * units, 4 * units)).astype(np.float32))
    b = tg.constant(random.standard_normal(4 * units).astype(np.float32))
    inputs = tg.TensorArray("float32", length).unstack(x)

    def body(t, h, c, out):
        h, c = cell(tg.concat([inputs.read(t), h], 1) @ w + b, c)
        return t + 1, h, c, out.write(t, h)

    zeros = np.zeros((batch, units), np.float32)
    *_, out = tg.while_loop(lambda t, *_: t < length, body, [0, zeros, zeros, tg.TensorArray("float32", length)])
    loss = tg.reduce_mean(tg.square(out.stack()))
    return x, [loss, *tg.gradients(loss, [w, b, x])]


def test_an_lstm_written_by_hand_is_fused_in_its_loops(random):
    x, fetches = lstm(6, 2, 3, random)
    found = types(fetches, [x])
    assert found.count("Fused") == 3  # the cell, its gradient, the loss
    assert "Sigmoid" not in found
    assert "Tanh" not in found
    assert_same(fetches, [x], [random.standard_normal((6, 2, 3)).astype(np.float32)])


async def test_numbers_alone_that_are_too_large_to_be_folded_are_fused():
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [2, 3000])
        summed = tg.reduce_sum(x * 2.0) + tg.reduce_sum(x * 3.0)
        (gradient,) = tg.gradients(summed, [x])
        large = tg.fill([2, 3000], 2.0) * 3.0 + tg.fill([2, 3000], 4.0)
    async with tg.Session(graph, settings=replace(ON, fold_bytes=0)) as session:
        found = await session.run([gradient, large], {x: np.ones((2, 3000))})
    np.testing.assert_array_equal(found[0], np.full((2, 3000), 5))
    np.testing.assert_array_equal(found[1], np.full((2, 3000), 10))


def test_a_setting_turns_it_off():
    x = tg.placeholder("float32", [3])
    assert "Fused" in types([tg.tanh(x + 1.0)], [x])
    assert "Fused" not in types([tg.tanh(x + 1.0)], [x], OFF)


def test_what_is_fetched_inside_stays_available(random):
    x = tg.placeholder("float32", [2, 3])
    y = x * 2.0
    z = tg.exp(y)
    assert_same([y, z, z - y], [x], [random.standard_normal((2, 3)).astype(np.float32)])


def test_operations_around_another_do_not_wait_for_themselves(random):
    x = tg.placeholder("float32", [3, 3])
    y = tg.tanh(x * 2.0)
    z = tg.exp((y @ y) + y) * y
    assert_same([z], [x], [random.standard_normal((3, 3)).astype(np.float32)])


def test_devices_are_fused_each_for_itself(random):
    """What goes to another device and comes back is not one operation with what it left."""
    x = tg.placeholder("float64", [4, 3])
    with tg.device("/cpu:0"):
        a = tg.exp(x) * 2.0
    with tg.device("/cpu:1"):
        b = tg.tanh(a) + 1.0
    with tg.device("/cpu:0"):
        y = tg.sin(a * b) - a
    program = optimized(Program(x.graph, [x], [y]), ON)
    found = [op.device for op in program.graph.root.walk() if op.type == "Fused"]
    assert found == ["/device:CPU:0", "/device:CPU:1", "/device:CPU:0"]
    assert_same([y], [x], [random.normal(size=(4, 3))])


@pytest.mark.parametrize("shape", [[], [0], [2, 0], [3, None], [None], None])
def test_scalars_empty_and_unknown_rows_are_left_alone(shape):
    x = tg.placeholder("float32", shape)
    assert "Fused" not in types([tg.tanh(x + 1.0)], [x])


def test_other_dtypes_are_left_alone():
    x = tg.placeholder("int32", [3])
    assert "Fused" not in types([(x + 1) * x], [x])


def test_what_waits_for_python_is_left_alone():
    x = tg.placeholder("float32", [3])
    slow = tg.py_function(lambda v: v, [x], "float32", output_shapes=[3])
    assert "Fused" not in types([tg.tanh(slow + 1.0)], [x])


def test_what_nothing_waits_for_stays_with_what_it_reads():
    x, u = tg.placeholder("float32", [3, 3]), tg.placeholder("float32", [3, 3])
    hidden = tg.tanh(x * 2.0)
    seen = tg.Variable(np.zeros((3, 3), np.float32)).assign(tg.exp(hidden) + 1.0)
    y = tg.sigmoid(hidden @ u) * 2.0
    program = optimized(Program(x.graph, [x, u], [y], [seen.op]), ON)
    assert [op.type for op in program.graph.root.walk()].count("Fused") == 2


def test_a_control_input_is_kept():
    x = tg.placeholder("float32", [3])
    y = tg.exp(x)
    with tg.control_dependencies([y]):
        z = tg.tanh(x) * 2.0
    program = optimized(Program(x.graph, [x], [z]), ON)
    assert any(op.type == "Exp" for op in program.graph.root.walk())


@pytest.mark.parametrize("shape", [[100_000], [3, 70_000], [1000, 1], [5, 4, 3]])
def test_long_rows_and_many_rows(random, shape):
    x, y = tg.placeholder("float32", shape), tg.placeholder("float32", shape)
    b = tg.placeholder("float32", shape[-1:])
    arrays = [random.standard_normal(t.shape.as_tuple()).astype(np.float32) for t in (x, y, b)]
    assert_same([tg.tanh(x * 2.0) - y], [x, y], arrays[:2])
    assert_same([tg.relu(x + b), tg.concat([x + y, tg.exp(y)], -1)], [x, y, b], arrays)


@pytest.mark.parametrize("terms", [1, 2, 3])
def test_sums_of_few_terms(random, terms):
    x = tg.placeholder("float32", [2, 3])
    y = tg.add_n([tg.exp(x), x, x * 2.0][:terms]) * 0.5
    assert_same([y], [x], [random.standard_normal((2, 3)).astype(np.float32)])


def test_long_chains_become_several(random):
    x = tg.placeholder("float64", [5])
    y = x
    for k in range(150):
        y = tg.sin(y) if k == 70 else y * 1.01 + 0.01
    assert types([y], [x]).count("Fused") > 2
    assert_same([y], [x], [random.standard_normal(5)])


def odd(array):
    """Yield arrays equal to the given one, laid out in unusual ways."""
    wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
    wide[..., ::2] = array
    frozen = array.copy()
    frozen.flags.writeable = False
    unaligned = np.frombuffer(b"x" + array.tobytes(), np.uint8)[1:].view(array.dtype).reshape(array.shape)
    yield from (wide[..., ::2], np.asfortranarray(array), frozen, array[::-1].copy()[::-1], unaligned)
    yield from (array.astype(array.dtype.newbyteorder()), array.view(type("Sub", (np.ndarray,), {})))


def test_odd_arrays_give_the_same(random):
    z, c = tg.placeholder("float32", [3, 8]), tg.placeholder("float32", [3, 2])
    fetches = list(cell(z, c))
    whole, state = (random.standard_normal(s).astype(np.float32) for s in ((3, 8), (3, 2)))
    wanted = machine_results(fetches, [z, c], [whole, state], OFF)
    for left in odd(whole):
        for right in odd(state):
            for got, plain in zip(machine_results(fetches, [z, c], [left, right]), wanted, strict=True):
                np.testing.assert_array_equal(got, plain)
    assert whole.sum() == np.float32(whole.copy().sum())


@pytest.mark.parametrize("columns", [4, 1500])  # those of long rows take turns in the scratch
@pytest.mark.parametrize("seed", range(30))
def test_random_expressions_give_the_same(seed, columns):
    random = np.random.default_rng(seed)
    shapes = [2, 3, columns], [2, 3, columns], [columns], [1, columns], []
    feeds = [tg.placeholder("float32", s) for s in shapes]
    known = list(feeds)
    for _ in range(25):
        known.append(_grow(random, known))
    fetches = [t for t in known[5:] if random.random() < 0.3] + known[-1:]
    assert_same(fetches, feeds, [random.standard_normal(t.shape.as_tuple()).astype(np.float32) for t in feeds])


@pytest.mark.parametrize("columns", [3, 130, 1500])
@pytest.mark.parametrize("seed", range(10))
def test_random_expressions_of_a_native_loop_give_the_same(graph, seed, columns):
    """In line, or, of several blocks, as functions that threads share."""
    random = np.random.default_rng(seed)
    shapes = [7, 5, columns], [7, 5, columns], [columns], [1, columns], []
    feeds = {tg.placeholder("float32", s): random.standard_normal(s).astype(np.float32) for s in shapes}

    def body(i, a, b, c, d, e, *arrays):
        known = [a, b, c, d, e]
        for _ in range(25):
            known.append(_grow(random, known))
        return i + 1, *(x * 0.5 for x in known[:5]), *(t.write(i, x) for t, x in zip(arrays, known[-4:], strict=True))

    arrays = [tg.TensorArray("float32", 3) for _ in range(4)]
    fetches = [each.stack() for each in tg.while_loop(lambda i, *_: i < 3, body, [0, *feeds, *arrays])[6:]]
    found = []
    for settings in (ON, replace(ON, workers=2), MACHINE):
        with tg.SyncSession(graph, settings=settings) as session:
            found.append(session.run(fetches, feeds))
            assert {loop.limited_by == "native" for loop in session.report().loops} == {settings.straight}
    for one, shared, wanted in zip(*found, strict=True):
        np.testing.assert_array_equal(one, wanted)
        np.testing.assert_array_equal(shared, wanted)


def _grow(random, known):
    """Return an operation on random tensors known so far."""
    x, y = (known[i] for i in random.integers(0, len(known), 2))
    match random.integers(0, 7):
        case 0:
            return tg.tanh(x)
        case 1:
            return tg.sigmoid(x)
        case 2 if x.rank and x.shape.as_tuple()[-1] > 1:
            return tg.split(x, [1, x.shape.as_tuple()[-1] - 1], axis=-1)[random.integers(0, 2)]
        case 3 if x.rank and x.shape.as_tuple()[-1] < 5000:
            return tg.concat([x, x], -1)
    last = {each.shape.as_tuple()[-1:] for each in (x, y)}
    if len(last) > 1 and (1,) not in last:
        y = tg.constant(np.float32(0.5))
    return [tg.add, tg.subtract, tg.multiply, tg.maximum][random.integers(0, 4)](x, y)


def test_a_set_does_not_wait_for_itself_by_way_of_another_device():
    x = tg.placeholder("float32", [4])
    with tg.device("/cpu:0"):
        a = x * 2.0
        c = a - 3.0
    with tg.device("/cpu:1"):
        b = tg.sin(a) + 1.0
    with tg.device("/cpu:0"):
        d = tg.cos(c) * b
    program = optimized(Program(d.graph, [x], [d]), ON)
    found = [op.device for op in program.graph.root.operations if op.type == "Fused"]
    assert found == ["/device:CPU:1", "/device:CPU:0"]
