"""What users write by hand becomes few operations, forward and backward, with the same results."""

from dataclasses import replace

import numpy as np
import pytest
import tagloom as tg
from tagloom.ir.program import Program
from tagloom.training import AdamOptimizer, MomentumOptimizer

from tests.support.compiling import optimized
from tests.support.running import machine_results, result_pairs
from tests.support.settings import ON

pytestmark = pytest.mark.usefixtures("graph")

OFF = replace(ON, fuse=False)
STAYS = {"Const", "Feed", "Fused", "MatMul"}


def left(fetches, feeds):
    """Return how many operations are fused ones, and the types of the rest, sorted."""
    program = optimized(Program(fetches[0].graph, feeds, fetches), ON)
    types = [op.type for op in program.graph.root.walk()]
    return types.count("Fused"), sorted(t for t in types if t not in STAYS)


def assert_same(fetches, feeds, batch=5, seed=3):
    random = np.random.default_rng(seed)
    arrays = [
        random.standard_normal([batch if d is None else d for d in t.shape.dims]).astype(t.dtype.numpy) for t in feeds
    ]
    for fused, plain in result_pairs(fetches, feeds, arrays, OFF):
        assert fused.dtype == plain.dtype
        assert fused.shape == plain.shape
        np.testing.assert_allclose(fused, plain, rtol=1e-6, atol=1e-6)


def inputs(*shapes, dtype="float32"):
    return [tg.placeholder(dtype, shape) for shape in shapes]


def squares(y, feeds):
    """Return the gradients of a scalar made from `y`."""
    return tg.gradients(tg.reduce_sum(y * y), feeds)


def gru(batch):
    x, h, w, u, b, c = feeds = inputs([batch, 4], [batch, 6], [10, 12], [10, 6], [12], [6])
    update, reset = tg.split(tg.sigmoid(tg.concat([x, h], 1) @ w + b), 2, axis=1)
    candidate = tg.tanh(tg.concat([x, reset * h], 1) @ u + c)
    return update * h + (1.0 - update) * candidate, feeds


def lstm(batch):
    x, h, c, w, b = feeds = inputs([batch, 4], [batch, 6], [batch, 6], [10, 24], [24])
    i, j, f, o = tg.split(tg.concat([x, h], 1) @ w + b, 4, axis=1)
    new = tg.sigmoid(f + 1.0) * c + tg.sigmoid(i) * tg.tanh(j)
    return tg.concat([tg.sigmoid(o) * tg.tanh(new), new], 1), feeds


def dense(activation):
    def build(batch):
        x, w, b = feeds = inputs([batch, 4], [4, 6], [6])
        return activation(x @ w + b), feeds

    return build


def layer_norm(batch):
    x, scale, offset = feeds = inputs([batch, 8], [8], [8])
    mean = tg.reduce_mean(x, -1, keepdims=True)
    variance = tg.reduce_mean(tg.square(x - mean), -1, keepdims=True)
    return (x - mean) / tg.sqrt(variance + 1e-5) * scale + offset, feeds


def rms_norm(batch):
    x, scale = feeds = inputs([batch, 8], [8])
    return x * tg.rsqrt(tg.reduce_mean(tg.square(x), 1, keepdims=True) + 1e-5) * scale, feeds


def attention(batch):
    q, k, mask = feeds = inputs([batch, 8], [7, 8], [7])
    return tg.softmax(tg.matmul(q, k, transpose_b=True) * 0.35 + mask), feeds


def softmax_by_hand(batch):
    (x,) = feeds = inputs([batch, 8])
    powers = tg.exp(x - tg.reduce_max(x, 1, keepdims=True))
    return powers / tg.reduce_sum(powers, 1, keepdims=True), feeds


# What is left beside products and fused operations: the concatenation that feeds a product, the sums over the batch
# that are the gradients of biases and scales.
PATTERNS = [
    (gru, (2, ["Concat"]), (4, ["Concat", "SumTo", "SumTo"])),
    (lstm, (1, ["Concat"]), (1, ["Concat", "SplitV", "SumTo"])),
    (dense(tg.relu), (1, []), (1, ["SumTo"])),
    (dense(tg.tanh), (1, []), (1, ["SumTo"])),
    (dense(tg.sigmoid), (1, []), (1, ["SumTo"])),
    (dense(tg.softplus), (1, []), (1, ["SumTo"])),
    (layer_norm, (1, []), (1, ["SumTo", "SumTo"])),
    (rms_norm, (1, []), (1, ["SumTo"])),
    (attention, (1, []), (1, ["SumTo"])),
    (softmax_by_hand, (1, []), (1, [])),
]
NAMES = ["gru", "lstm", "relu", "tanh", "sigmoid", "softplus", "layer norm", "rms norm", "attention", "softmax"]


@pytest.mark.parametrize(("build", "forward", "backward"), PATTERNS, ids=NAMES)
def test_patterns_become_few_operations(build, forward, backward):
    y, feeds = build(5)
    assert left([y], feeds) == forward
    gradients = squares(y, feeds)
    assert left(gradients, feeds) == backward
    assert_same([y, *gradients], feeds)


@pytest.mark.parametrize(("build", "forward", "backward"), PATTERNS, ids=NAMES)
@pytest.mark.parametrize("batch", [1, 2, 9])
def test_the_batch_need_not_be_known(build, forward, backward, batch):
    y, feeds = build(None)
    assert left([y], feeds) == forward
    assert_same([y, *squares(y, feeds)], feeds, batch)


def test_a_batch_that_is_broadcast_when_run():
    x, y, z = feeds = inputs([None, 4], [None, 4], [None, 1])
    fetches = [tg.tanh(x * y) + z, tg.exp(tg.square(y) + 1.0), tg.reduce_sum(tg.exp(y), 1, keepdims=True) * 2.0]
    random = np.random.default_rng(0)
    assert left(fetches, feeds)[0] > 0
    for sizes in [(3, 3, 3), (3, 1, 3), (1, 3, 1), (1, 1, 3), (1, 1, 1), (0, 1, 0)]:
        arrays = [
            random.standard_normal((n, t.shape[-1])).astype(np.float32) for n, t in zip(sizes, feeds, strict=True)
        ]
        for fused, plain in result_pairs(fetches, feeds, arrays, OFF):
            assert fused.shape == plain.shape
            np.testing.assert_array_equal(fused, plain)


def test_shapes_that_do_not_fit_are_an_error_as_before():
    x, y = feeds = inputs([None, 4], [None, 4])
    arrays = [np.ones((2, 4), np.float32), np.ones((3, 4), np.float32)]
    for settings in (ON, OFF):
        with pytest.raises(ValueError, match="broadcast"):
            machine_results([tg.tanh(x + y)], feeds, arrays, settings)


@pytest.mark.parametrize("batch", [5, None])
def test_cross_entropies(batch):
    x, p = inputs([batch, 7], [batch, 7])
    labels = tg.placeholder("int32", [batch])
    dense_loss = tg.reduce_mean(tg.softmax_cross_entropy_with_logits(labels=tg.softmax(p), logits=x))
    sparse_loss = tg.reduce_mean(tg.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=x))
    fetches = [dense_loss, *tg.gradients(dense_loss, [x, p]), sparse_loss, *tg.gradients(sparse_loss, [x])]
    random = np.random.default_rng(1)
    arrays = [random.standard_normal((4 if batch is None else batch, 7)).astype(np.float32) for _ in range(2)]
    arrays.append(random.integers(0, 7, len(arrays[0])).astype(np.int32))
    feeds = [x, p, labels]
    assert left(fetches, feeds)[1].count("Softmax") == (batch is None)  # that of the labels
    for fused, plain in result_pairs(fetches, feeds, arrays, OFF):
        np.testing.assert_allclose(fused, plain, rtol=1e-6, atol=1e-7)


def test_a_comparison_used_elsewhere_is_kept():
    x, y = feeds = inputs([3, 4], [3, 4])
    z = x * y + 1.0
    mask = z > y
    chosen = tg.exp(tg.where(mask, z, y))
    assert left([chosen], feeds) == (1, [])
    assert left([chosen, mask], feeds) == (1, ["Greater"])
    assert_same([chosen, mask, tg.cast(mask, "int32")], feeds)


@pytest.mark.parametrize("seed", range(30))
def test_random_programs_with_rows_and_columns(seed):
    random = np.random.default_rng(seed)
    batch = None if seed % 2 else 3
    feeds = inputs([batch, 4], [batch, 4], [4], [batch, 1], [], dtype="float64")
    known = list(feeds)
    for _ in range(20):
        known.append(_grow(random, known))
    fetches = [t for t in known[5:] if random.random() < 0.3] + known[-1:]
    assert_same(fetches, feeds, 3, seed)


def _grow(random, known):
    """Return an operation on random tensors known so far."""
    x, y, z = (known[i] for i in random.integers(0, len(known), 3))
    match random.integers(0, 8):
        case 0:
            return tg.tanh(x)
        case 1 if x.rank == 2:
            reduce = [tg.reduce_sum, tg.reduce_mean, tg.reduce_max, tg.reduce_min][random.integers(0, 4)]
            return reduce(x, -1, keepdims=True)
        case 2 if x.rank == 2:
            return tg.softmax(x)
        case 3:
            return tg.where(x > y, z, tg.sigmoid(y))
        case 4:
            return tg.cast(x <= y, "float64") * z
    return [tg.add, tg.subtract, tg.multiply, tg.maximum, tg.squared_difference][random.integers(0, 5)](x, y)


def adam_by_hand(w, gradient):
    m, v = (tg.Variable(np.zeros((3, 4), np.float32), trainable=False) for _ in range(2))
    mean = m.assign(0.9 * m + 0.1 * gradient)
    square = v.assign(0.99 * v + 0.01 * tg.square(gradient))
    return w.assign_sub(0.1 * mean / (tg.sqrt(square) + 1e-8)).op


def momentum_by_hand(w, gradient):
    m = tg.Variable(np.zeros((3, 4), np.float32), trainable=False)
    return w.assign(w - 0.1 * m.assign(0.9 * m + gradient)).op


def by(optimizer):
    return lambda w, gradient: optimizer.apply_gradients([(gradient, w)])


UPDATES = {
    "adam": by(AdamOptimizer(0.1)),
    "momentum": by(MomentumOptimizer(0.1, 0.9)),
    "adam by hand": adam_by_hand,
    "momentum by hand": momentum_by_hand,
}


@pytest.mark.parametrize("update", UPDATES)
def test_an_update_is_one_operation(update):
    graph = tg.get_default_graph()
    start = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    w, x = tg.Variable(start), tg.placeholder("float32", [5, 3])
    (gradient,) = tg.gradients(tg.reduce_sum(tg.square(x @ w)), [w])
    train = UPDATES[update](w, gradient)
    program = optimized(Program(graph, [gradient], [], [train]), ON)
    assert [op.type for op in program.graph.root.walk()].count("Fused") == 1

    def trained(settings):
        with tg.SyncSession(graph, settings=settings) as session:
            session.run(tg.global_variables_initializer())
            for seed in range(3):
                batch = np.random.default_rng(seed).standard_normal((5, 3)).astype(np.float32)
                session.run(train, {x: batch})
            return session.run([v.read_value() for v in tg.global_variables()])

    for fused, plain in zip(trained(ON), trained(OFF), strict=True):
        np.testing.assert_array_equal(fused, plain)


def test_an_assignment_that_is_read_ahead_of_still_happens():
    w = tg.Variable(np.ones(4, np.float32))
    doubled = tg.exp(w.assign(w * 2.0) + 1.0) * 3.0
    with tg.SyncSession(tg.get_default_graph()) as session:
        session.run(w.initializer)
        np.testing.assert_allclose(session.run(doubled), np.exp(np.full(4, 3.0)) * 3, rtol=1e-6)
        assert session.run(w.read_value()).tolist() == [2.0] * 4


def ends(settings, train, read):
    """Return what a step of `train` leaves, or gives, for several orders of what is ready."""
    found = []
    for seed in range(20):
        with tg.SyncSession(tg.get_default_graph(), settings=replace(settings, shuffle_seed=seed)) as session:
            session.run(tg.global_variables_initializer())
            result = session.run(train)
            found.append(result.tolist() if read is None else session.run(read).tolist())
    return found


@pytest.mark.parametrize("settings", [ON, OFF])
def test_a_later_assignment_of_the_same_variable_still_comes_later(settings):
    w = tg.Variable(np.zeros(2, np.float32))
    again = w.assign(w.assign(tg.placeholder_with_default(np.ones(2, np.float32), [2])) * 2.0 + 1.0)
    assert ends(settings, again, w.read_value()) == [[3.0, 3.0]] * 20


@pytest.mark.parametrize("settings", [ON, OFF])
def test_a_read_behind_what_was_computed_still_sees_the_assignment(settings):
    w = tg.Variable(np.zeros(2, np.float32))
    doubled = w.assign(tg.placeholder_with_default(np.ones(2, np.float32), [2])) * 2.0 + 1.0
    with tg.control_dependencies([tg.group(tg.exp(doubled))]):
        read = w.read_value()
    assert ends(settings, read, None) == [[1.0, 1.0]] * 20


@pytest.mark.parametrize("settings", [ON, OFF])
def test_a_read_behind_an_update_still_sees_the_moment(settings):
    w, m = (tg.Variable(np.zeros(2, np.float32)) for _ in range(2))
    update = w.assign_sub(m.assign(tg.placeholder_with_default(np.ones(2, np.float32), [2])) * 2.0 + 1.0)
    with tg.control_dependencies([update]):
        read = m.read_value()
    assert ends(settings, read, None) == [[1.0, 1.0]] * 20


def test_an_assignment_that_may_be_dead_is_not_read_ahead_of():
    w = tg.Variable(np.ones(4, np.float32))
    _, taken = tg.switch(tg.constant(1.0), tg.placeholder_with_default(tg.constant(False), []))
    with tg.control_dependencies([tg.identity(taken)]):
        assigned = w.assign(tg.exp(w.read_value()) * 2.0)
    total = tg.exp(assigned + 1.0) * 3.0
    with tg.SyncSession(tg.get_default_graph()) as session:
        session.run(w.initializer)
        with pytest.raises(tg.TagloomError, match="dead"):
            session.run(total)
