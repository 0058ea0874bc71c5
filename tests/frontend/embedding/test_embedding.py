"""Rows of tables in shards: the same as of the table, wherever the shards are; only rows travel."""

import re

import numpy as np
import pytest
import tagloom as tg

TABLE = np.random.default_rng(0).standard_normal((11, 3))
IDS = np.array([[4, 0, 10], [4, 9, 1]], np.int64)


def cut(strategy, count, table=TABLE):
    return [table[i::count] for i in range(count)] if strategy == "mod" else np.array_split(table, count)


@pytest.mark.parametrize("strategy", ["mod", "div"])
@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize(
    "ids", [IDS, IDS[0], IDS[:, :0], np.int64(7), IDS.astype(np.int32)], ids=lambda i: str(i.shape)
)
def test_rows_are_those_of_the_table(run, strategy, count, ids):
    x = tg.placeholder(ids.dtype, None)
    shards = [tg.placeholder("float64", None) for _ in range(count)]
    feeds = {x: ids, **dict(zip(shards, cut(strategy, count), strict=True))}
    of_known = tg.embedding_lookup([tg.constant(part) for part in cut(strategy, count)], tg.constant(ids), strategy)
    of_unknown = tg.embedding_lookup(shards, x, strategy)
    assert of_known.shape == [*ids.shape, 3]
    for value in run([of_known, of_unknown], feeds):
        np.testing.assert_array_equal(value, TABLE[ids])


def test_shards_of_any_sizes_are_found_by_div(run):
    parts = [TABLE[:1], TABLE[1:8], TABLE[8:8], TABLE[8:]]
    np.testing.assert_array_equal(run(tg.embedding_lookup(parts, IDS, "div")), TABLE[IDS])


def test_other_dtypes_and_rows_of_rank_0_and_2(run):
    words = np.array(["a", "b", "c"], object)
    assert run(tg.embedding_lookup([tg.constant(words[::2]), tg.constant(words[1::2])], [2, 1])).tolist() == ["c", "b"]
    cubes = TABLE.reshape(11, 3, 1) * np.arange(2)
    np.testing.assert_array_equal(run(tg.embedding_lookup(cut("mod", 3, cubes), IDS)), cubes[IDS])


@pytest.mark.parametrize("count", [1, 3])
def test_the_largest_norm(run, count):
    norms = np.linalg.norm(TABLE[IDS], axis=-1, keepdims=True)
    wanted = TABLE[IDS] * np.minimum(1.0, 1.5 / norms)
    assert 0 < (norms > 1.5).sum() < norms.size
    np.testing.assert_allclose(run(tg.embedding_lookup(cut("mod", count), IDS, max_norm=1.5)), wanted)


@pytest.mark.parametrize("strategy", ["mod", "div"])
def test_gradients_of_any_order_are_those_of_the_table(run, strategy):
    shards = [tg.constant(part) for part in cut(strategy, 3)]
    whole, weights = tg.constant(TABLE), np.random.default_rng(1).standard_normal((2, 3, 3))

    def derivatives(rows, xs):
        first = tg.gradients(tg.reduce_sum(rows**3 * weights), xs)
        second = tg.gradients([tg.reduce_sum(tg.square(tg.convert_to_tensor(g))) for g in first], xs)
        return [tg.convert_to_tensor(g) for g in (*first, *second)]

    found = run(derivatives(tg.embedding_lookup(shards, IDS, strategy), shards))
    wanted = run(derivatives(tg.gather(whole, IDS), [whole]))
    for values, right in zip((found[:3], found[3:]), wanted, strict=True):
        for value, part in zip(values, cut(strategy, 3, right), strict=True):
            np.testing.assert_allclose(value, part)


def test_gradients_are_slices_of_the_rows_that_were_taken(run):
    shards = [tg.constant(part) for part in cut("mod", 2)]
    grads = tg.gradients(tg.embedding_lookup(shards, [1, 4, 1]), shards)
    assert all(isinstance(g, tg.IndexedSlices) for g in grads)
    assert [i.tolist() for i in run([g.indices for g in grads])] == [[2], [0, 0]]


@pytest.mark.parametrize("strategy", ["mod", "div"])
def test_in_loops_and_branches(run, strategy):
    """Ids that differ from iteration to iteration, and a look-up that not every iteration does."""
    shards = [tg.constant(part) for part in cut(strategy, 2)]
    ids = tg.constant(np.array([3, 8, 0, 3, 10]))

    def body(i, total):
        def looked_up():
            return total + tg.reduce_sum(tg.square(tg.embedding_lookup(shards, [ids[i], i], strategy)))

        return i + 1, tg.cond(tg.not_equal(i, 2), looked_up, lambda: total)

    _, total = tg.while_loop(lambda i, _: i < 5, body, [tg.constant(0, "int64"), tg.constant(0.0, "float64")])
    grads = [tg.convert_to_tensor(g) for g in tg.gradients(total, shards)]
    taken = [3, 0, 8, 1, 3, 3, 10, 4]
    wanted = np.zeros_like(TABLE)
    np.add.at(wanted, taken, 2 * TABLE[taken])
    value, *found = run([total, *grads])
    np.testing.assert_allclose(value, np.sum(TABLE[taken] ** 2))
    for grad, part in zip(found, cut(strategy, 2, wanted), strict=True):
        np.testing.assert_allclose(grad, part)


@pytest.mark.parametrize("strategy", ["mod", "div"])
def test_no_table_travels(graph, strategy):
    """A training step on two devices sends numbers and rows, and makes nothing of the table's size."""
    rows, width = 1000, 4
    halves = tg.fixed_size_partitioner(2)
    table = tg.PartitionedVariable(
        tg.ones, halves, shape=[rows, width], devices=["/cpu:0", "/cpu:1"], partition_strategy=strategy
    )
    ids = tg.placeholder("int64", [8])
    with tg.device("/cpu:0"):
        loss = tg.reduce_sum(tg.square(tg.embedding_lookup(table, ids)))
    train = tg.training.GradientDescentOptimizer(0.25).minimize(loss)
    init = tg.global_variables_initializer()
    with tg.SyncSession(graph, devices=2) as session:
        session.run(init)
        step = session.make_step([loss, train], [ids])
        text = step.to_text()
        made = [line for line in text.splitlines() if re.search(rf": float32\[{rows // 2},", line)]
        assert all(re.search(r"= (ReadVariable|ScatterSub)\(", line) for line in made)
        assert not re.search(rf"Recv\(.*{rows // 2}", text)
        step(np.array([1, 999, 1, 998, 3, 500, 2, 0]))
        assert sum(each.bytes for each in session.report().traffic) < 8 * (8 + 8 * width)
        after = session.run(table)
    assert sorted(set(np.flatnonzero(after[:, 0] != 1))) == [0, 1, 2, 3, 500, 998, 999]
    assert after[1, 0] == 0.0  # twice


@pytest.mark.parametrize("strategy", ["mod", "div"])
def test_a_loop_over_devices_trains_what_its_branches_looked_up(graph, strategy):
    halves = tg.fixed_size_partitioner(2)
    table = tg.PartitionedVariable(TABLE, halves, devices=["/cpu:0", "/cpu:1"], partition_strategy=strategy)
    ids = tg.placeholder("int64", [5])

    def body(i, total):
        with tg.device("/cpu:0"):
            rows = tg.cond(
                ids[i] < 9, lambda: tg.embedding_lookup(table, [ids[i], 2]), lambda: tg.zeros([2, 3], "float64")
            )
            return i + 1, total + tg.reduce_sum(tg.square(rows))

    _, total = tg.while_loop(lambda i, _: i < 5, body, [0, tg.constant(0.0, "float64")])
    train = tg.training.GradientDescentOptimizer(0.125).minimize(total)
    init = tg.global_variables_initializer()
    with tg.SyncSession(graph, devices=2) as session:
        session.run(init)
        value, _ = session.run([total, train], {ids: [3, 9, 0, 3, 10]})
        after = session.run(table)
    taken, wanted = [3, 2, 0, 2, 3, 2], TABLE.copy()
    np.testing.assert_allclose(value, np.sum(TABLE[taken] ** 2))
    np.subtract.at(wanted, taken, 0.25 * TABLE[taken])
    np.testing.assert_allclose(after, wanted)


WRONG = [
    (lambda: tg.embedding_lookup([], [0]), tg.GraphError, "at least one shard"),
    (lambda: tg.embedding_lookup([TABLE, TABLE], [0], "round"), tg.GraphError, "no such partition strategy"),
    (lambda: tg.embedding_lookup([TABLE, TABLE[:, :1]], [0]), tg.ShapeError, "rows of one shape"),
    (lambda: tg.embedding_lookup([1.0, 2.0], [0]), tg.ShapeError, "rows of one shape"),
    (lambda: tg.embedding_lookup([TABLE, TABLE.astype("f")], [0]), tg.DtypeError, "one dtype"),
    (lambda: tg.embedding_lookup([TABLE, TABLE], [0.5]), tg.DtypeError, "integers"),
    (lambda: tg.embedding_lookup(tg.placeholder("float32"), [0], max_norm=1.0), tg.ShapeError, "unknown rank"),
    (lambda: tg.embedding_lookup(partitioned(), [0], "mod"), tg.GraphError, "not where this strategy looks"),
    (lambda: tg.embedding_lookup(partitioned(1), [0]), tg.GraphError, "cut along dimension 0"),
]


def partitioned(axis=0):
    return tg.PartitionedVariable(TABLE, tg.fixed_size_partitioner(2, axis))


@pytest.mark.parametrize(("call", "kind", "text"), WRONG)
def test_what_is_no_table_is_refused(call, kind, text):
    with pytest.raises(kind, match=text):
        call()


@pytest.mark.parametrize("strategy", ["mod", "div"])
@pytest.mark.parametrize("wrong", [-1, 11, 12, 1 << 40])
def test_a_row_that_is_not_there_is_an_error(run, strategy, wrong):
    rows = tg.embedding_lookup(cut(strategy, 3), tg.constant(np.array([3, wrong])), strategy)
    with pytest.raises(tg.OpError, match="gather: indices have to be in"):
        run(rows)


def test_what_is_in_one_piece_may_have_any_strategy(run):
    variable = tg.PartitionedVariable(TABLE, tg.fixed_size_partitioner(1))
    run(tg.global_variables_initializer())
    np.testing.assert_array_equal(run(tg.embedding_lookup(variable, IDS, "mod")), TABLE[IDS])
