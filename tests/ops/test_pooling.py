"""Pooling: both layouts, ties, shapes that are known late, and what is refused."""

import numpy as np
import pytest
import tagloom as tg
from tagloom.base.errors import GraphError, ShapeError

RANDOM = np.random.default_rng(5)
POOLS = {1: (tg.max_pool1d, tg.avg_pool1d), 2: (tg.max_pool, tg.avg_pool), 3: (tg.max_pool3d, tg.avg_pool3d)}
FORMATS = {1: "NCW", 2: "NCHW", 3: "NCDHW"}
CASES = [(pool, rank, padding) for rank, pools in POOLS.items() for pool in pools for padding in ("SAME", "VALID")]


def value_and_gradient(pool, x, *how):
    def weighted(x):
        y = pool(x, *how)
        return tg.reduce_sum(y * y)

    return tg.function(lambda x: pool(x, *how)).sync(x), tg.grad(weighted).sync(x)


@pytest.mark.parametrize(("pool", "rank", "padding"), CASES)
def test_channels_may_come_first(pool, rank, padding):
    x = RANDOM.standard_normal((2, *range(4, 4 + rank), 3))
    last = value_and_gradient(pool, x, 3, 2, padding)
    first = value_and_gradient(pool, np.moveaxis(x, -1, 1), 3, 2, padding, FORMATS[rank])
    for one, other in zip(last, first, strict=True):
        np.testing.assert_allclose(np.moveaxis(other, 1, -1), one, rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_means_of_short_floats_are_summed_in_float32(dtype):
    x = np.full((1, 64, 64, 1), 1.0)
    mean = tg.function(lambda: tg.cast(tg.avg_pool(tg.cast(x, dtype), 64, 1, "VALID"), "float64")).sync()
    assert mean.tolist() == [[[[1.0]]]]


def test_the_gradient_of_equal_elements_goes_to_the_first():
    x = np.ones((1, 3, 3, 1))
    total = tg.grad(lambda x: tg.reduce_sum(tg.max_pool(x, 2, 1, "VALID"))).sync(x)
    assert total[0, :, :, 0].tolist() == [[1, 1, 0], [1, 1, 0], [0, 0, 0]]


def test_padding_may_be_given_in_numbers():
    x = np.arange(1.0, 5).reshape(1, 2, 2, 1)
    pairs = [[0, 0], [1, 0], [0, 1], [0, 0]]
    largest = tg.function(lambda: tg.max_pool(x, 2, 1, pairs)).sync()
    assert largest[0, :, :, 0].tolist() == [[2, 2], [4, 4]]
    assert tg.function(lambda: tg.avg_pool(x, 2, 1, pairs[1:3])).sync()[0, :, :, 0].tolist() == [[1.5, 2], [2.5, 3]]


def test_shapes_may_be_known_late():
    x = RANDOM.standard_normal((2, 5, 6, 3)).astype(np.float32)
    with tg.Graph().as_default() as graph:
        for known in (None, [None] * 4, [None, 5, None, 3]):
            feed = tg.placeholder("float32", known, name="x")
            y = tg.max_pool(feed, 2, 2, "SAME")
            assert y.shape.rank == 4
            (g,) = tg.gradients(tg.avg_pool(y, 2, 1, "VALID"), [feed])
            with tg.SyncSession(graph) as session:
                largest, slope = session.run([y, g], {feed: x})
            assert largest.shape == (2, 3, 3, 3)
            assert slope.shape == x.shape
    assert y.shape == [None, 3, None, 3]


@pytest.mark.parametrize("include", [False, True])
def test_places_are_where_the_largest_elements_are(include):
    x = RANDOM.standard_normal((3, 7, 6, 2))
    largest, places = tg.function(
        lambda: tg.max_pool_with_argmax(x, 3, 2, "SAME", output_dtype="int32", include_batch_in_index=include)
    ).sync()
    flat = x.ravel()[None] if include else x.reshape(3, -1)
    found = np.take_along_axis(flat, places.reshape(len(flat), -1), 1)
    np.testing.assert_array_equal(found.reshape(largest.shape), largest)


X = np.zeros((1, 4, 4, 1))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: tg.max_pool(X, 5, 1, "VALID"), None, ""),
        (lambda: tg.max_pool(X, 6, 1, "VALID"), ShapeError, "larger than the image"),
        (lambda: tg.max_pool(X, [2, 2, 2, 1], 1, "SAME"), GraphError, "'ksize'"),
        (lambda: tg.max_pool(X, 2, 0, "SAME"), GraphError, "'strides'"),
        (lambda: tg.max_pool(X, 2, [1, 2, 3], "SAME"), GraphError, "'strides'"),
        (lambda: tg.max_pool(X, 2, 1, "REFLECT"), GraphError, "no such padding"),
        (lambda: tg.max_pool(X, 2, 1, [[1, -1], [0, 0]]), GraphError, "no such padding"),
        (lambda: tg.max_pool(X, 2, 1, "SAME", "NCWH"), GraphError, "data format"),
        (lambda: tg.max_pool(X[0], 2, 1, "SAME"), ShapeError, "contradict"),
        (lambda: tg.avg_pool3d(X, 2, 1, "SAME"), ShapeError, "contradict"),
        (lambda: tg.pool(X, [2, 2], "MIN", "SAME"), GraphError, "no such pooling"),
        (lambda: tg.pool(X, "2", "MAX", "SAME"), GraphError, "'window_shape'"),
        (lambda: tg.pool(X, [2] * 4, "MAX", "SAME"), GraphError, "one to three"),
        (lambda: tg.max_pool_with_argmax(X, 2, 1, "SAME", output_dtype="int8"), GraphError, "int8"),
        (lambda: tg.lrn(X, -1), GraphError, "radius"),
    ],
)
def test_what_is_no_window_is_refused_while_the_graph_is_built(call, error, message):
    with tg.Graph().as_default():
        if error is None:
            assert call().shape == [1, 0, 0, 1]
            return
        with pytest.raises(error, match=message):
            call()


def test_a_window_of_padding_alone_is_refused():
    pools = [lambda: tg.max_pool(X, 2, 1, [[2, 0], [0, 0]]), lambda: tg.pool(X, [2, 2], "AVG", "SAME", 9)]
    for pool in pools:
        with pytest.raises(tg.OpError, match="lies in the padding"):
            tg.function(pool).sync()


def test_images_of_another_rank_are_refused_by_a_step():
    run = tg.function(lambda x: tg.max_pool(x, 2, 1, "SAME"), input_signature=[tg.TensorSpec(None, "float64")])
    with pytest.raises(tg.OpError, match="2 spatial dimensions"):
        run.sync(np.ones((2, 3)))


def test_a_window_may_be_an_array():
    x = np.arange(4.0).reshape(1, 4, 1)
    for window in (np.int64(2), np.array([2])):
        assert tg.function(lambda: tg.pool(x, window, "MAX", "VALID")).sync().ravel().tolist() == [1, 2, 3]  # noqa: B023


def test_normalization_by_channels_of_short_floats_does_not_overflow():
    found = tg.function(lambda: tg.lrn(np.float16([[300, 400]]), bias=0.0)).sync()
    assert found.dtype == np.float16
    np.testing.assert_allclose(found, [[0.6, 0.8]], rtol=1e-3)


def test_normalization_by_channels_is_of_any_rank():
    x = RANDOM.standard_normal(7)
    squares = np.convolve(x**2, np.ones(5), "same")
    found = tg.function(lambda x: tg.lrn(x, 2, 1.5, 0.3, 0.75), input_signature=[tg.TensorSpec(None, "float64")])
    np.testing.assert_allclose(found.sync(x), x / (1.5 + 0.3 * squares) ** 0.75, rtol=1e-12)
