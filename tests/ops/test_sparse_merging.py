"""Sparse tensors of ids and values, and in other bounds."""

import numpy as np
import pytest
import tagloom as tg

PLACES = [[0, 0], [0, 1], [2, 0]]


def sparse(values, shape=(3, 2), places=PLACES):
    return tg.SparseTensor(places, values, shape)


def dense(build):
    return tg.function(lambda: tg.sparse_tensor_to_dense(build())).sync()


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("is_sorted", [True, False])
def test_values_go_to_their_ids(dtype, is_sorted):
    ids = dtype([1, 4, 0] if is_sorted else [4, 1, 0])
    wanted = np.zeros((3, 5))
    wanted[[0, 0, 2], ids] = [5, 6, 7]
    build = lambda: tg.sparse_merge(sparse(ids), sparse(np.array([5.0, 6, 7])), 5, already_sorted=is_sorted)  # noqa: E731
    np.testing.assert_array_equal(dense(build), wanted)


def test_several_ids_are_several_dimensions():
    wanted = np.zeros((3, 3, 4), np.int32)
    wanted[0, 2, 1], wanted[0, 1, 3], wanted[2, 0, 0] = 5, 6, 7
    build = lambda: tg.sparse_merge([sparse([2, 1, 0]), sparse([1, 3, 0])], sparse([5, 6, 7]), [3, 4])  # noqa: E731
    np.testing.assert_array_equal(dense(build), wanted)


def test_gradients_reach_the_values(graph):
    values = tg.constant([1.0, 2.0, 3.0])
    merged = tg.sparse_merge(sparse([4, 1, 0]), sparse(values), 5)
    slope = tg.convert_to_tensor(tg.gradients(tg.sparse_tensor_to_dense(merged) ** 2.0, values)[0])
    with tg.SyncSession(graph) as session:
        assert session.run(slope).tolist() == [2, 4, 6]


def test_ids_and_values_stand_at_the_same_places(graph):
    merged = tg.sparse_merge(sparse([1, 2, 0]), sparse([1.0, 2.0, 3.0], places=[[0, 0], [1, 1], [2, 0]]), 5)
    with tg.SyncSession(graph) as session, pytest.raises(tg.OpError, match="indices of ids and of values"):
        session.run(merged.indices)
    with pytest.raises(tg.GraphError, match="a size for each"):
        tg.sparse_merge([sparse([1, 2, 0])], sparse([1, 2, 3]), [5, 6])


def shape_of(build):
    return tg.function(lambda: build().dense_shape).sync().tolist()


def test_bounds():
    assert shape_of(lambda: tg.sparse_reset_shape(sparse([1, 2, 3], (9, 9)))) == [3, 2]
    assert shape_of(lambda: tg.sparse_reset_shape(sparse([1, 2, 3], (9, 9)), [9, 12])) == [9, 12]
    empty = lambda: tg.SparseTensor(np.zeros((0, 2), np.int64), np.zeros(0), [4, 4])  # noqa: E731
    assert shape_of(lambda: tg.sparse_reset_shape(empty())) == [0, 0]
    assert dense(lambda: tg.sparse_reset_shape(sparse([1, 2, 3]), [3, 3])).tolist() == [[1, 2, 0], [0, 0, 0], [3, 0, 0]]


def test_bounds_that_are_too_small(graph):
    for shape in ([2, 2], [3, 2, 1], 3):
        with pytest.raises(tg.ShapeError, match="does not fit a new shape"):
            tg.sparse_reset_shape(sparse([1, 2, 3]), shape)
    late = tg.placeholder("int64", [None])
    found = tg.sparse_reset_shape(sparse([1, 2, 3]), late).dense_shape
    with tg.SyncSession(graph) as session:
        assert session.run(found, {late: [3, 4]}).tolist() == [3, 4]
        for wrong in ([3, 1], [3, 2, 1]):
            with pytest.raises(tg.OpError, match=r"new shape of a sparse tensor|of its new shape"):
                session.run(found, {late: wrong})
