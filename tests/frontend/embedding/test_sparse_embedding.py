"""Rows of a table that sparse ids name, combined: the same whether the table is in one piece or in shards."""

import numpy as np
import pytest
import tagloom as tg

TABLE = np.random.default_rng(0).standard_normal((7, 3))
PLACES = np.array([[0, 0], [0, 2], [1, 1], [3, 0], [3, 1], [3, 2]])
IDS, WEIGHTS = np.array([5, 0, 6, 2, 2, 3]), np.array([1.0, 2.0, -1.0, 0.5, 0.5, 3.0])


def cut(strategy, count):
    return [TABLE[i::count] for i in range(count)] if strategy == "mod" else np.array_split(TABLE, count)


def sparse(values):
    return tg.SparseTensor(PLACES, values, [5, 3])


def combined(combiner, weights):
    """Return what is wanted, in plain NumPy."""
    result = np.zeros((5, 3))
    for row in range(5):
        here = PLACES[:, 0] == row
        if not here.any():
            continue
        w = weights[here]
        norm = {"sum": 1.0, "mean": w.sum(), "sqrtn": np.sqrt((w**2).sum())}[combiner]
        result[row] = (TABLE[IDS[here]] * w[:, None]).sum(0) / norm
    return result


@pytest.mark.parametrize("strategy", ["mod", "div"])
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
def test_rows_of_shards_are_combined(run, strategy, count, combiner):
    shards = [tg.placeholder("float64", None) for _ in range(count)]
    feeds = dict(zip(shards, cut(strategy, count), strict=True))
    plain = tg.embedding_lookup_sparse(shards, sparse(IDS), None, strategy, combiner=combiner)
    weighted = tg.embedding_lookup_sparse(shards, sparse(IDS), sparse(WEIGHTS), strategy, combiner=combiner)
    found = run([plain, weighted], feeds)
    np.testing.assert_allclose(found[0], combined(combiner, np.ones(6)), rtol=1e-12)
    np.testing.assert_allclose(found[1], combined(combiner, WEIGHTS), rtol=1e-12)


def test_a_partitioned_variable_knows_where_its_rows_are(run):
    variable = tg.PartitionedVariable(TABLE, tg.fixed_size_partitioner(2))
    rows = tg.embedding_lookup_sparse(variable, sparse(IDS), None, max_norm=1.0)
    shards = tg.gradients(tg.reduce_sum(tg.square(rows)), list(variable))
    run(tg.global_variables_initializer())
    assert all(isinstance(g, tg.IndexedSlices) for g in shards)
    (found,) = run([rows])
    lengths = np.linalg.norm(TABLE, axis=1, keepdims=True)
    clipped = tg.embedding_lookup_sparse(TABLE / np.maximum(lengths, 1), sparse(IDS), None)
    np.testing.assert_allclose(found, run(clipped), rtol=1e-12)


def test_operations_are_named(graph):
    tg.embedding_lookup_sparse(cut("mod", 2), sparse(IDS), None, name="mine")
    assert any(op.name == "mine/DivNoNan" for op in graph.root.operations)


def test_what_is_no_table_is_refused():
    with pytest.raises(tg.GraphError, match="at least one shard"):
        tg.embedding_lookup_sparse([], sparse(IDS), None)
    with pytest.raises(tg.ShapeError, match="rows of one shape"):
        tg.embedding_lookup_sparse([TABLE, TABLE[:, :1]], sparse(IDS), None)
    with pytest.raises(tg.GraphError, match="strategy"):
        tg.embedding_lookup_sparse(TABLE, sparse(IDS), None, "other")
