"""Dropout, batch normalization and other compositions: what is drawn, what gradients see, and what is refused."""

import numpy as np
import pytest
import tagloom as tg
from tagloom.base.errors import DtypeError, GraphError, ShapeError

RANDOM = np.random.default_rng(11)


def test_dropout_keeps_the_mean_and_the_gradient_sees_the_same_elements():
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [None, 100])
        for how in ({"rate": 0.25}, {"keep_prob": 0.75}, {"rate": tg.constant(0.25)}, {"keep_prob": tg.constant(0.75)}):
            y = tg.dropout(x, **how)
            (g,) = tg.gradients(y, [x])
            with tg.SyncSession(graph) as session:
                values, slopes = session.run([y, g], {x: np.ones((200, 100), np.float32)})
            np.testing.assert_array_equal(values, slopes)
            assert set(np.unique(values)) == {0, np.float32(1 / 0.75)}
            assert abs(values.mean() - 1) < 0.02
            assert y.shape == [None, 100]


def test_dropout_draws_anew_in_each_iteration_and_its_gradient_with_it():
    x = np.ones(50)

    def total(x):
        def body(i, y):
            return i + 1, tg.dropout(y, rate=0.1, seed=3)

        return tg.while_loop(lambda i, y: i < 4, body, (0, x))[1]

    values = tg.function(total).sync(x)
    assert 0 < (values == 0).sum() < 50
    with tg.Graph().as_default() as graph:
        given = tg.constant(x)
        y = total(given)
        (g,) = tg.gradients(y, [given])
    with tg.SyncSession(graph) as session:
        found, slope = session.run([y, g])
    np.testing.assert_allclose(found, slope)


def test_dropout_along_a_dimension_and_of_infinities():
    x = np.array([[np.inf, 1.0], [np.nan, 2.0]] * 50)
    y = tg.function(lambda: tg.dropout(x, rate=0.5, noise_shape=[100, 1])).sync()
    gone = (y == 0).all(1)
    assert 20 < gone.sum() < 80
    np.testing.assert_array_equal(y[~gone], x[~gone] * 2)


def test_dropout_of_nothing_is_the_same():
    x = np.arange(3.0)
    assert tg.function(lambda: tg.dropout(x, keep_prob=1.0)).sync().tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: tg.dropout([1.0]), GraphError, "needs one probability"),
        (lambda: tg.dropout([1.0], 0.5, rate=0.5), GraphError, "needs one probability"),
        (lambda: tg.dropout([1.0], rate=1.0), GraphError, "0 <= rate < 1"),
        (lambda: tg.dropout([1.0], keep_prob=1.5), GraphError, "0 <= rate < 1"),
        (lambda: tg.dropout([1.0], rate=np.float32(1.5)), GraphError, "0 <= rate < 1"),
        (lambda: tg.dropout([1.0], rate=tg.constant(1.5)), GraphError, "0 <= rate < 1"),
        (lambda: tg.dropout([1], rate=0.5), DtypeError, "floating"),
        (lambda: tg.fused_batch_norm([[1.0]], [1.0], [0.0], is_training=False), GraphError, "moments"),
        (lambda: tg.fused_batch_norm([[1.0]], [1.0], [0.0], exponential_avg_factor=0.5), GraphError, "moments"),
        (lambda: tg.fused_batch_norm([[1.0]], [1.0], [0.0], data_format="HWC"), GraphError, "data format"),
        (lambda: tg.fused_batch_norm(tg.placeholder("float32"), [1.0], [0.0]), ShapeError, "known rank"),
        (lambda: tg.fused_batch_norm([[1.0], [2.0]], [1.0] * 3, [0.0] * 3), ShapeError, "for each channel"),
        (lambda: tg.fused_batch_norm([[1.0]], [1.0], [0.0], [[1.0]], [1.0], is_training=False), ShapeError, "for each"),
        (lambda: tg.bias_add(tg.placeholder("float32"), [1.0], "NCHW"), ShapeError, "known rank"),
        (lambda: tg.bias_add(tg.zeros([2, 3, 4]), [1.0] * 4, "NCW"), ShapeError, "second dimension"),
        (lambda: tg.sufficient_statistics(tg.placeholder("float32"), [0]), ShapeError, "known to count"),
        (lambda: tg.log_poisson_loss([1.0, 2.0], [1.0]), ShapeError, "contradict"),
    ],
)
def test_what_makes_no_sense_is_refused_while_the_graph_is_built(call, error, message):
    with tg.Graph().as_default(), pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_short_floats_are_normalized_in_float32(dtype):
    x = RANDOM.standard_normal((50, 3)).astype(np.float32)
    with tg.Graph().as_default() as graph:
        y, mean, variance = tg.fused_batch_norm(tg.cast(x, dtype), tg.ones([3]), tg.zeros([3]))
        assert (y.dtype, mean.dtype, variance.dtype) == (dtype, "float32", "float32")
        wide = tg.cast(y, "float32")
    with tg.SyncSession(graph) as session:
        found, center, spread = session.run([wide, mean, variance])
    np.testing.assert_allclose(found.std(0), 1, atol=0.01)
    np.testing.assert_allclose(center, x.mean(0), atol=0.01)
    np.testing.assert_allclose(spread, x.var(0, ddof=1), rtol=0.05)


def test_channels_may_come_first():
    x, scale, offset = RANDOM.standard_normal((2, 3, 4, 5)), RANDOM.standard_normal(3), RANDOM.standard_normal(3)

    def total(x, data_format):
        return tg.fused_batch_norm(x, scale, offset, data_format=data_format)

    first = tg.function(lambda: total(x, "NCHW")).sync()
    last = tg.function(lambda: total(np.moveaxis(x, 1, -1), "NHWC")).sync()
    np.testing.assert_allclose(first[0], np.moveaxis(last[0], -1, 1))
    np.testing.assert_allclose(first[1], last[1])
    np.testing.assert_allclose(first[2], last[2])


@pytest.mark.parametrize("moments", [tg.moments, lambda x, axes: tg.weighted_moments(x, axes, tg.ones_like(x))])
def test_moments_of_short_floats_are_computed_in_float32(moments):
    mean, variance = tg.function(lambda: moments(np.float16([2048, 2050]), [0])).sync()
    assert (mean, variance) == (2048, 1)  # the mean, 2049, is no float16
    assert mean.dtype == variance.dtype == np.float16


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_names_are_those_of_results_whatever_the_dtype(dtype):
    with tg.Graph().as_default():
        x = tg.ones([2, 3, 1], dtype)
        made = [
            tg.moments(x, [0], name="a")[1],
            tg.weighted_moments(x, [0], x, name="b")[1],
            tg.lrn(x, name="c"),
            tg.per_image_standardization(x, name="d"),
            tg.fused_batch_norm(x, [1.0], [0.0], name="e")[0],
        ]
    assert [(y.op.name, y.dtype.name) for y in made] == [(name, dtype) for name in "abcde"]


def test_normalization_is_that_of_the_moments():
    x = RANDOM.standard_normal((6, 4))

    def both(x):
        mean, variance = tg.moments(x, [0])
        by_moments = tg.batch_normalization(x, mean, variance, np.ones(4), np.full(4, 2.0), 0.1)
        return by_moments, tg.fused_batch_norm(x, np.full(4, 2.0), np.ones(4), epsilon=0.1)[0]

    slopes = [tg.grad(lambda x: tg.reduce_sum(both(x)[k] ** 3.0)).sync(x) for k in range(2)]  # noqa: B023
    np.testing.assert_allclose(*tg.function(both).sync(x))
    np.testing.assert_allclose(*slopes)
    with tg.Graph().as_default() as graph:
        given = tg.constant(x)
        twice = [tg.gradients(tg.gradients(y**3.0, [given])[0] ** 2.0, [given])[0] for y in both(given)]
    with tg.SyncSession(graph) as session:
        np.testing.assert_allclose(*session.run(twice))


def test_statistics_of_parts_are_those_of_the_whole():
    x = RANDOM.standard_normal((8, 3)) + 100

    def parts():
        found = [tg.sufficient_statistics(part, [0], 100.0) for part in (x[:3], x[3:])]
        count, total, squares = (a + b for a, b in zip(found[0][:3], found[1][:3], strict=True))
        return tg.normalize_moments(count, total, squares, np.float64(100.0))

    mean, variance = tg.function(parts).sync()
    np.testing.assert_allclose(mean, x.mean(0))
    np.testing.assert_allclose(variance, x.var(0))


@pytest.mark.parametrize(("shape", "axes", "count"), [([None, 4], [0], 5), (None, None, 20)])
def test_statistics_of_sizes_that_are_known_late(shape, axes, count):
    def counted(x):
        return tg.sufficient_statistics(x, axes)[0]

    call = tg.function(counted, input_signature=[tg.TensorSpec(shape, "float64")])
    assert call.sync(RANDOM.standard_normal((5, 4))) == count


def test_full_poisson_losses_have_a_gradient_at_zero():
    counts = np.array([0.0, 0.5, 1.0, 4.0])
    slope = tg.grad(lambda t: tg.reduce_sum(tg.log_poisson_loss(t, tg.zeros_like(t), True))).sync(counts)
    np.testing.assert_allclose(slope, [0, 0, 0, np.log(4) + 1 / 8])


def test_losses_do_not_overflow():
    x = np.array([-1000.0, 1000.0])
    loss = tg.function(lambda: tg.weighted_cross_entropy_with_logits([1.0, 0.0], tg.cast(x, "float32"), 2.0)).sync()
    assert loss.tolist() == [2000, 1000]


def test_the_part_of_nothing_that_is_zero():
    assert np.isnan(tg.function(lambda: tg.zero_fraction(np.zeros(0))).sync())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_many_short_floats_are_summed_in_float32(dtype):
    zeros, label = tg.as_dtype(dtype).numpy.type(0), tg.as_dtype(dtype).numpy.type(1)
    x = np.full(80000, zeros)
    soft, log_soft, loss, class_loss = tg.function(
        lambda: [
            tg.softmax(x),
            tg.log_softmax(x),
            tg.softmax_cross_entropy_with_logits(labels=np.concatenate([[label], x[1:]]), logits=x),
            tg.sparse_softmax_cross_entropy_with_logits(labels=0, logits=x),
        ]
    ).sync()
    assert soft.dtype == log_soft.dtype == loss.dtype == class_loss.dtype == x.dtype
    np.testing.assert_allclose(soft.astype(float), 1 / 80000, rtol=1e-2)
    for each in (-log_soft, loss, class_loss):
        np.testing.assert_allclose(each.astype(float), np.log(80000), rtol=1e-2)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_norms_of_short_floats_neither_overflow_nor_vanish(dtype):
    run = tg.function(lambda x: tg.l2_normalize(tg.cast(x, dtype)))
    np.testing.assert_allclose(run.sync(np.array([300.0, 400.0])).astype(float), [0.6, 0.8], rtol=1e-2)
    assert run.sync(np.zeros(2)).tolist() == [0, 0]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_probabilities_of_no_classes(dtype):
    x = np.zeros((2, 0), dtype)
    made = tg.function(
        lambda: [tg.softmax(x), tg.log_softmax(x), tg.softmax_cross_entropy_with_logits(labels=x, logits=x)]
    ).sync()
    assert [y.shape for y in made] == [(2, 0), (2, 0), (2,)]
    assert tg.function(lambda: tg.softmax(x, 0)).sync().shape == (2, 0)
