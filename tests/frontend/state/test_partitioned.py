"""Variables in shards: which rows are where, and that all that takes variables takes them."""

import numpy as np
import pytest
import tagloom as tg
from tagloom.training import AdamOptimizer, GradientDescentOptimizer

WHOLE = np.arange(22.0).reshape(11, 2)


@pytest.mark.parametrize("strategy", ["div", "mod"])
@pytest.mark.parametrize("count", [1, 3, 4, 11])
def test_shards_are_parts_and_together_the_whole(run, strategy, count):
    table = tg.PartitionedVariable(WHOLE, tg.fixed_size_partitioner(count), partition_strategy=strategy)
    run(tg.global_variables_initializer())
    wanted = np.array_split(WHOLE, count) if strategy == "div" else [WHOLE[i::count] for i in range(count)]
    assert [v.tolist() for v in run(list(table))] == [part.tolist() for part in wanted]
    assert run([table, table.as_tensor(), table * 1.0])[0].tolist() == WHOLE.tolist()
    for value in run([table, table.as_tensor(), table * 1.0, tg.convert_to_tensor(table)]):
        np.testing.assert_array_equal(value, WHOLE)


def test_columns_can_be_cut_too(run):
    table = tg.PartitionedVariable(WHOLE.T, tg.fixed_size_partitioner(3, axis=-1), name="t")
    run(tg.global_variables_initializer())
    assert [shard.shape.as_tuple() for shard in table.shards] == [(2, 4), (2, 4), (2, 3)]
    assert table.axis == 1
    np.testing.assert_array_equal(run(table), WHOLE.T)


@pytest.mark.parametrize("strategy", ["div", "mod"])
def test_updates_of_the_whole(run, strategy):
    table = tg.PartitionedVariable(WHOLE, tg.fixed_size_partitioner(3), partition_strategy=strategy)
    with tg.control_dependencies(table.assign_add(tg.constant(WHOLE))):
        less = table.assign_sub(WHOLE + 1.0)
    with tg.control_dependencies(less):
        after = tg.identity(table.as_tensor())
    last = table.assign(2 * WHOLE)
    run(tg.global_variables_initializer())
    np.testing.assert_array_equal(run(after), WHOLE - 1.0)
    run(last)
    np.testing.assert_array_equal(run(table), 2 * WHOLE)


@pytest.mark.parametrize("strategy", ["div", "mod"])
@pytest.mark.parametrize("shape", [None, [None, 2]])
def test_a_value_that_turns_out_to_be_of_another_shape_is_refused(run, strategy, shape):
    table = tg.PartitionedVariable(WHOLE, tg.fixed_size_partitioner(3), partition_strategy=strategy)
    value = tg.placeholder("float64", shape)
    update = table.assign(value)
    run(tg.global_variables_initializer())
    run(update, {value: 2 * WHOLE})
    np.testing.assert_array_equal(run(table), 2 * WHOLE)
    for rows in (10, 12, 24):
        with pytest.raises(tg.OpError, match="shape of the new value"):
            run(update, {value: np.ones((rows, 2))})
    np.testing.assert_array_equal(run(table), 2 * WHOLE)


def test_what_makes_shards_is_told_their_shape(run):
    shapes = []

    def make(shape):
        shapes.append(shape)
        return tg.random_uniform(shape, seed=len(shapes))

    table = tg.PartitionedVariable(make, tg.fixed_size_partitioner(2), shape=[5, 3])
    run(tg.global_variables_initializer())
    assert shapes == [[3, 3], [2, 3]]
    assert run(table).shape == (5, 3)
    assert table.dtype is tg.float32


def test_a_tensor_is_cut_in_the_graph(run):
    table = tg.PartitionedVariable(tg.constant(WHOLE) + 1.0, tg.fixed_size_partitioner(4), partition_strategy="mod")
    run(tg.global_variables_initializer())
    np.testing.assert_array_equal(run(table), WHOLE + 1.0)


def test_shards_are_variables_on_devices(graph):
    with tg.name_scope("model"):
        table = tg.PartitionedVariable(
            WHOLE, tg.fixed_size_partitioner(3), name="table", devices=["/cpu:0", "/cpu:1"], trainable=False
        )
    names = [f"model/table/part_{i}" for i in range(3)]
    assert [v.name for v in table] == [v.name for v in tg.global_variables()] == names
    assert tg.trainable_variables() == []
    assert [v.device for v in table] == [f"/device:CPU:{i}" for i in (0, 1, 0)]
    init = tg.global_variables_initializer()
    with tg.SyncSession(graph, devices=2) as session:
        session.run(init)
        values = session.read_variables()
        assert [values[name].tolist() for name in names] == [p.tolist() for p in np.array_split(WHOLE, 3)]
        session.write_variables({names[2]: np.zeros((3, 2))})
        np.testing.assert_array_equal(session.run(table), np.vstack([WHOLE[:8], np.zeros((3, 2))]))


def test_a_snapshot_has_all_shards(graph):
    table = tg.PartitionedVariable(WHOLE, tg.fixed_size_partitioner(3))
    init, clear = tg.global_variables_initializer(), table.assign(np.zeros((11, 2)))
    with tg.SyncSession(graph) as session:
        session.run(init)
        saved = session.snapshot()
        session.run(clear)
        session.restore(saved)
        np.testing.assert_array_equal(session.run(table), WHOLE)


def test_a_gradient_is_a_list_of_the_shards_gradients(run):
    table = tg.PartitionedVariable(WHOLE, tg.fixed_size_partitioner(2), partition_strategy="mod")
    w = tg.Variable(2.0, dtype="float64")
    by_table, by_w = tg.gradients(tg.reduce_sum(table * w * WHOLE), [table, w])
    alone = tg.gradients(tg.reduce_sum(tg.square(table)), table)
    run(tg.global_variables_initializer())
    assert [g.tolist() for g in run(by_table)] == [(2 * WHOLE[i::2]).tolist() for i in range(2)]
    assert run(by_w) == np.sum(WHOLE**2)
    assert [g.tolist() for g in run(alone)] == [(2 * WHOLE[i::2]).tolist() for i in range(2)]


@pytest.mark.parametrize("optimizer", [GradientDescentOptimizer, AdamOptimizer])
@pytest.mark.parametrize("given", [True, False])
def test_optimizers_train_shards(graph, optimizer, given):
    table = tg.PartitionedVariable(WHOLE, tg.fixed_size_partitioner(3), partition_strategy="mod")
    plain = tg.Variable(WHOLE, trainable=False)
    loss = tg.reduce_sum(tg.square(tg.embedding_lookup(table, [4, 9, 4])))
    train = optimizer(0.25).minimize(loss, var_list=[table] if given else None)
    same = optimizer(0.25).minimize(tg.reduce_sum(tg.square(tg.gather(plain, [4, 9, 4]))), var_list=[plain])
    init = tg.global_variables_initializer()
    with tg.SyncSession(graph) as session:
        session.run(init)
        for _ in range(3):
            session.run([train, same])
        whole, wanted = session.run([table, plain])
    np.testing.assert_allclose(whole, wanted)
    assert not np.array_equal(whole, WHOLE)


def test_a_module_has_the_shards_as_parameters():
    class Table(tg.nn.Module):
        def __init__(self):
            super().__init__()
            self.rows = tg.PartitionedVariable(WHOLE, tg.fixed_size_partitioner(2))

    assert [name for name, _ in Table().named_parameters()] == ["rows.0", "rows.1"]


def test_a_function_keeps_its_shards():
    @tg.function
    def count(x):
        table = tg.PartitionedVariable(tg.zeros, tg.fixed_size_partitioner(2), shape=[3], name="counts")
        with tg.control_dependencies(table.assign_add([x, x, x])):
            return tg.identity(table.as_tensor())

    assert [count.sync(np.float32(2)).tolist() for _ in range(2)] == [[2, 2, 2], [4, 4, 4]]


PARTITIONERS = [  # and what TensorFlow 1 gives for them
    (tg.fixed_size_partitioner(4), [10, 3], "float32", [4, 1]),
    (tg.fixed_size_partitioner(4), [3], "float32", [3]),
    (tg.fixed_size_partitioner(4, axis=1), [2, 0], "float32", [1, 1]),
    (tg.variable_axis_size_partitioner(100), [10, 5], "float32", [2, 1]),
    (tg.variable_axis_size_partitioner(1), [10, 5], "float64", [10, 1]),
    (tg.variable_axis_size_partitioner(100, axis=1), [10, 5], "int64", [1, 5]),
    (tg.variable_axis_size_partitioner(100, max_shards=3), [100, 5], "float32", [3, 1]),
    (tg.variable_axis_size_partitioner(64, bytes_per_string_element=32), [10], "string", [5]),
    (tg.min_max_variable_partitioner(16), [1024, 1024], "float32", [16, 1]),
    (tg.min_max_variable_partitioner(5), [1024, 1024], "float32", [5, 1]),
    (tg.min_max_variable_partitioner(), [1024, 1024], "float32", [1, 1]),
    (tg.min_max_variable_partitioner(9, min_slice_size=10), [1024, 2], "string", [9, 1]),
    (
        tg.min_max_variable_partitioner(9, axis=1, min_slice_size=10, bytes_per_string_element=2),
        [3, 4],
        "string",
        [1, 3],
    ),
]


@pytest.mark.parametrize(("partitioner", "shape", "dtype", "wanted"), PARTITIONERS)
def test_partitioners(partitioner, shape, dtype, wanted):
    assert partitioner(shape, dtype) == wanted
    assert partitioner(shape=tg.Shape(shape), dtype=tg.as_dtype(dtype)) == wanted


def make(**changes):
    values = {"initial_value": WHOLE, "partitioner": tg.fixed_size_partitioner(2), **changes}
    return tg.PartitionedVariable(**values)


WRONG = [
    (lambda: make(partition_strategy="round"), tg.GraphError, "no such partition strategy"),
    (lambda: make(partitioner=lambda shape, dtype: [2, 2]), tg.GraphError, "along one dimension"),
    (lambda: make(partitioner=lambda shape, dtype: [2]), tg.GraphError, "along one dimension"),
    (lambda: make(partitioner=lambda shape, dtype: [], initial_value=1.0), tg.ShapeError, "a scalar"),
    (lambda: make(initial_value=tg.zeros), tg.GraphError, "told their shape"),
    (lambda: make(initial_value=tg.zeros, shape=[None, 2]), tg.ShapeError, "known shape"),
    (lambda: make(shape=[5, 2]), tg.ShapeError, "does not fit"),
    (lambda: make().assign(WHOLE[1:]), tg.ShapeError, "does not fit"),
    (lambda: make(partitioner=tg.fixed_size_partitioner(2, 1), partition_strategy="mod"), tg.GraphError, "dimension 0"),
    (lambda: make(partitioner=tg.fixed_size_partitioner(2, 2)), tg.ShapeError, "no such axis"),
    (lambda: tg.fixed_size_partitioner(0), tg.GraphError, "num_shards"),
    (lambda: tg.min_max_variable_partitioner(min_slice_size=0), tg.GraphError, "min_slice_size"),
    (lambda: tg.variable_axis_size_partitioner(0), tg.GraphError, "max_shard_bytes"),
]


@pytest.mark.parametrize(("call", "kind", "text"), WRONG)
def test_what_can_not_be_cut_is_refused(call, kind, text):
    with pytest.raises(kind, match=text):
        call()
