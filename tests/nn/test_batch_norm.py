"""Batch normalization: values, moving averages under loops, branches and functions, gradients."""

import numpy as np
import pytest
import tagloom as tg

RANDOM = np.random.default_rng(11)


def normalized(x, mean, variance, epsilon=1e-3):
    return (x - mean) / np.sqrt(variance + epsilon)


class Averages:
    """What moving averages become."""

    def __init__(self, channels, momentum=0.99):
        self.mean, self.variance, self.momentum = np.zeros(channels), np.ones(channels), momentum

    def see(self, batch):
        batch = np.reshape(batch, (-1, np.shape(batch)[-1]))
        variance = batch.var(0, ddof=1) if len(batch) > 1 else batch.var(0)
        self.mean += (1 - self.momentum) * (batch.mean(0) - self.mean)
        self.variance += (1 - self.momentum) * (variance - self.variance)

    def check(self, run, norm):
        found = run([norm.moving_mean.read_value(), norm.moving_variance.read_value()])
        np.testing.assert_allclose(found[0], self.mean, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(found[1], self.variance, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("shape", [(6, 3), (1, 3), (4, 5, 3), (2, 4, 5, 3), (2, 2, 3, 2, 3)])
def test_training_takes_moments_of_the_batch_and_moves_the_averages(start, run, shape, known):
    data = [RANDOM.standard_normal(shape) + 5 for _ in range(3)]
    x = tg.placeholder("float64", shape if known else [*[None] * (len(shape) - 1), 3])
    gamma, beta = RANDOM.standard_normal(3), RANDOM.standard_normal(3)
    norm = tg.nn.BatchNorm(momentum=0.8, gamma_initializer=gamma, beta_initializer=beta)
    y, later = norm(x, training=True), norm(x)
    averages, axes = Averages(3, 0.8), tuple(range(len(shape) - 1))
    start(tg.no_op())
    for batch in data:
        found = run(y, {x: batch})
        wanted = normalized(batch, batch.mean(axes), batch.var(axes)) * gamma + beta
        np.testing.assert_allclose(found, wanted, rtol=1e-9)
        averages.see(batch)
        averages.check(run, norm)
    wanted = normalized(data[0], averages.mean, averages.variance) * gamma + beta
    np.testing.assert_allclose(run(later, {x: data[0]}), wanted, rtol=1e-9)
    averages.check(run, norm)
    assert norm.parameters(trainable=False) == [norm.moving_mean, norm.moving_variance]
    assert y.shape == x.shape


def test_channels_may_be_another_axis(start):
    data = RANDOM.standard_normal((4, 3, 5, 2)).astype(np.float32)
    norm, last = tg.nn.BatchNorm(axis=1), tg.nn.BatchNorm()
    y, wanted = norm(data, training=True), last(np.moveaxis(data, 1, -1).copy(), training=True)
    before = norm(data)
    found = start([y, wanted, before])
    np.testing.assert_allclose(found[0], np.moveaxis(found[1], -1, 1), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(start(norm.moving_variance), start(last.moving_variance), rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_moments_of_two_bytes_are_computed_in_four(start, dtype):
    data = (RANDOM.standard_normal((512, 2)) + 300).astype(tg.as_dtype(dtype).numpy)
    norm = tg.nn.BatchNorm(momentum=0.0, epsilon=0.0)
    y = norm(data, training=True)
    assert y.dtype is tg.as_dtype(dtype)
    assert {v.dtype for v in norm.parameters()} == {tg.float32}
    wide = data.astype(np.float32)
    np.testing.assert_allclose(
        start(y).astype(float), normalized(wide, wide.mean(0), wide.var(0), 0.0), rtol=1e-2, atol=1e-2
    )
    np.testing.assert_allclose(start(norm.moving_mean), 0)


def test_without_scale_and_center(start):
    norm = tg.nn.BatchNorm(center=False, scale=False)
    y = norm([[1.0], [3.0]], training=True)
    assert norm.gamma is norm.beta is None
    assert len(norm.parameters()) == 2
    np.testing.assert_allclose(start(y), [[-1], [1]], rtol=1e-3)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_an_empty_batch_leaves_the_averages(start, run, known):
    x = tg.placeholder("float32", [0 if known else None, 3])
    norm = tg.nn.BatchNorm()
    assert start(norm(x, training=True), {x: np.zeros((0, 3))}).shape == (0, 3)
    Averages(3).check(run, norm)


def test_what_is_not_fetched_updates_nothing(start, run):
    norm = tg.nn.BatchNorm()
    norm(tg.constant([[1.0], [3.0]]), training=True)
    other = norm(tg.constant([[1.0], [3.0]]))
    start(other)
    Averages(1).check(run, norm)


def test_a_gradient_alone_updates_the_averages_once(start, run):
    data = RANDOM.standard_normal((5, 2)).astype(np.float32)
    x = tg.placeholder("float32", [5, 2])
    norm = tg.nn.BatchNorm()
    loss = tg.reduce_sum(tg.square(norm(tg.tanh(x), training=True)) * tg.constant([1.0, 2.0]))
    start(tg.gradients(loss, [x, norm.gamma]), {x: data})
    averages = Averages(2)
    averages.see(np.tanh(data))
    averages.check(run, norm)


def test_what_comes_later_in_the_step_sees_the_update(start):
    norm = tg.nn.BatchNorm(momentum=0.0, epsilon=0.0)
    x = tg.constant([[1.0], [3.0]])
    before = norm(x)
    trained = norm(x, training=True)
    with tg.control_dependencies([trained]):
        after = norm(x)
    found = start([before, after, trained])
    np.testing.assert_allclose(found[0], [[1], [3]])
    np.testing.assert_allclose(found[1], [[-np.sqrt(0.5)], [np.sqrt(0.5)]], rtol=1e-6)


class TestTrainingAsATensor:
    def test_each_step_does_what_it_is_told(self, start, run):
        data = RANDOM.standard_normal((5, 2))
        training = tg.placeholder("bool", [])
        norm = tg.nn.BatchNorm()
        x = tg.constant(data)
        y = norm(x, training=training)
        (slope,) = tg.gradients(y, [x], RANDOM.standard_normal((5, 2)))
        averages = Averages(2)
        np.testing.assert_allclose(start(y, {training: False}), normalized(data, 0, 1), rtol=1e-9)
        averages.check(run, norm)
        np.testing.assert_allclose(run(y, {training: True}), normalized(data, data.mean(0), data.var(0)), rtol=1e-9)
        averages.see(data)
        averages.check(run, norm)
        assert abs(run(slope, {training: True}).sum(0)).max() < 1e-9
        assert abs(run(slope, {training: False}).sum(0)).max() > 1e-3

    def test_in_a_loop_some_iterations_train(self, start, run):
        data = RANDOM.standard_normal((6, 4, 2))
        norm = tg.nn.BatchNorm(momentum=0.9)

        def body(i, total):
            y = norm(tg.gather(data, i), training=tg.equal(i % 2, 0))
            return i + 1, total + tg.reduce_sum(y * y)

        _, total = tg.while_loop(lambda i, t: i < 6, body, [0, tg.constant(0.0, "float64")])
        averages, wanted = Averages(2, 0.9), 0.0
        for i, batch in enumerate(data):
            moments = (averages.mean, averages.variance) if i % 2 else (batch.mean(0), batch.var(0))
            wanted += np.square(normalized(batch, *moments)).sum()
            if i % 2 == 0:
                averages.see(batch)
        np.testing.assert_allclose(start(total), wanted, rtol=1e-6)
        averages.check(run, norm)


class TestUnderControlFlow:
    @pytest.mark.parametrize("parallel", [1, 10])
    @pytest.mark.parametrize("gradient", [False, True])
    def test_a_loop_updates_once_in_each_iteration(self, start, run, parallel, gradient):
        data = RANDOM.standard_normal((7, 4, 2)).astype(np.float32)
        norm = tg.nn.BatchNorm(momentum=0.5)

        def body(i, total):
            return i + 1, total + tg.reduce_sum(tg.square(norm(tg.gather(data, i), training=True)), 0)

        _, total = tg.while_loop(lambda i, t: i < 7, body, [0, tg.zeros([2])], parallel_iterations=parallel)
        averages, wanted = Averages(2, 0.5), np.zeros(2)
        for batch in data:
            wanted += np.square(normalized(batch, batch.mean(0), batch.var(0))).sum(0)
            averages.see(batch)
        slope = tg.gradients(total, [norm.gamma]) if gradient else []
        found, *slopes = start([total, *slope])
        np.testing.assert_allclose(found, wanted, rtol=1e-5)
        averages.check(run, norm)
        for each in slopes:
            np.testing.assert_allclose(each, 2 * wanted, rtol=1e-5)

    @pytest.mark.parametrize("every", [1, 2])
    def test_what_a_gradient_computes_again_updates_nothing(self, start, run, every):
        data = RANDOM.standard_normal((5, 4, 2))
        norm = tg.nn.BatchNorm(momentum=0.5)
        w = tg.Variable(1.5, dtype="float64")

        def loss(**given):
            states = tg.scan(
                lambda s, x: tg.tanh(s + norm(w * x, training=True)), data, tg.zeros([4, 2], "float64"), **given
            )
            return tg.reduce_sum(tg.square(states[-1]))

        slopes = tg.gradients(loss(checkpoint_every=every), [w, norm.gamma])
        plain = tg.gradients(loss(), [w, norm.gamma])
        found = start(slopes)
        averages = Averages(2, 0.5)
        for batch in data:
            averages.see(1.5 * batch)
        averages.check(run, norm)
        for ours, wanted in zip(found, run(plain)):
            np.testing.assert_allclose(ours, wanted, rtol=1e-7)

    def test_recompute_grad_updates_once(self, start, run):
        data = RANDOM.standard_normal((5, 2))
        x = tg.constant(data)
        norm, plain = tg.nn.BatchNorm(momentum=0.5), tg.nn.BatchNorm(momentum=0.5)
        losses = [
            tg.reduce_sum(tg.tanh(tg.recompute_grad(lambda x: norm(tg.square(x), training=True))(x)) ** 3.0),
            tg.reduce_sum(tg.tanh(plain(tg.square(x), training=True)) ** 3.0),
        ]
        found = start([tg.gradients(losses[0], [x, norm.gamma]), tg.gradients(losses[1], [x, plain.gamma])])
        for ours, wanted in zip(*found):
            np.testing.assert_allclose(ours, wanted, rtol=1e-9, atol=1e-12)
        averages = Averages(2, 0.5)
        averages.see(np.square(data))
        averages.check(run, norm)

    def test_only_the_branch_that_is_taken_updates(self, start, run):
        p = tg.placeholder("bool", [])
        norm = tg.nn.BatchNorm()
        x = np.float32([[1.0], [3.0]])
        y = tg.cond(p, lambda: norm(x, training=True), lambda: tg.constant(x) * 2.0)
        averages = Averages(1)
        start(y, {p: False})
        averages.check(run, norm)
        run(y, {p: True})
        averages.see(x)
        averages.check(run, norm)

    def test_a_function_updates_when_it_is_called(self):
        norm = tg.nn.BatchNorm()
        batches = [RANDOM.standard_normal((n, 2)).astype(np.float32) for n in (4, 4, 7)]

        @tg.function
        def f(x):
            norm(x, training=True)  # whose result is not used
            return tg.reduce_sum(norm(x, training=True)), norm.moving_mean.read_value()

        averages = Averages(2)
        for batch in batches:
            _, mean = f.sync(batch)
            averages.see(batch)
            averages.see(batch)
            np.testing.assert_allclose(mean, averages.mean, rtol=1e-5)
        assert f.traces == 2

    def test_a_trained_function(self):
        norm = tg.nn.BatchNorm()

        @tg.function
        def f(x, training):
            return norm(x, training=training)

        x = np.float32([[1.0], [3.0]])
        np.testing.assert_allclose(f.sync(x, True), [[-1], [1]], rtol=1e-3)
        np.testing.assert_allclose(f.sync(x, False), normalized(x, 0.02, 1.01), rtol=1e-5)


@pytest.mark.parametrize("training", [True, False])
def test_gradients_are_the_derivatives(start, run, training):
    data, weights = RANDOM.standard_normal((2, 4, 3, 2))
    x = tg.placeholder("float64", [4, 3, 2])
    norm = tg.nn.BatchNorm(gamma_initializer=[1.5, -0.5], beta_initializer=[0.2, 0.1])
    y = norm(x, training=training)
    total = tg.reduce_sum(tg.tanh(y) * weights)
    slopes = start(tg.gradients(total, [x, norm.gamma, norm.beta]), {x: data})
    step = 1e-6
    for at in np.ndindex(4, 3, 2):
        values = []
        for sign in (1, -1):
            moved = data.copy()
            moved[at] += sign * step
            values.append(start(total, {x: moved}))
        assert slopes[0][at] == pytest.approx((values[0] - values[1]) / (2 * step), rel=1e-5, abs=1e-7)
    found = start(y, {x: data})
    back = (1 - np.tanh(found) ** 2) * weights
    np.testing.assert_allclose(slopes[2], back.sum((0, 1)), rtol=1e-6)
    np.testing.assert_allclose(slopes[1], (back * (found - [0.2, 0.1]) / [1.5, -0.5]).sum((0, 1)), rtol=1e-6)


@pytest.mark.parametrize("shape", [None, [2, None]])
def test_unknown_channels_are_refused(shape):
    with pytest.raises(tg.ShapeError, match="BatchNorm 'batchnorm' does not know the size"):
        tg.nn.BatchNorm()(tg.placeholder("float32", shape))


def test_an_unknown_rank_is_refused():
    with pytest.raises(tg.ShapeError, match="has to know the rank"):
        tg.nn.BatchNorm(input_size=2)(tg.placeholder("float32"))
