"""Dropout: how much is dropped, when, and that gradients and what is computed again see the same."""

import numpy as np
import pytest
import tagloom as tg


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_a_part_is_zero_and_the_mean_stays(start, dtype):
    found = start(tg.nn.Dropout(0.25)(tg.ones([4000], dtype), training=True)).astype(float)
    assert abs((found == 0).mean() - 0.25) < 0.03
    np.testing.assert_allclose(found[found > 0], 4 / 3, rtol=1e-2 if "16" in dtype else 1e-6)


def test_nothing_happens_without_training(start):
    x = tg.constant([1.0, 2.0])
    for layer in (tg.nn.Dropout(0.5), tg.nn.Dropout(0.0)):
        np.testing.assert_array_equal(start(layer(x)), [1, 2])
    np.testing.assert_array_equal(start(tg.nn.Dropout(0.0)(x, training=True)), [1, 2])


def test_training_may_be_a_tensor(start):
    training = tg.placeholder("bool", [])
    y = tg.nn.Dropout(0.5)(tg.ones([100]), training=training)
    assert start(y, {training: False}).tolist() == [1.0] * 100
    assert set(start(y, {training: True}).tolist()) == {0.0, 2.0}


def test_a_rate_may_be_a_tensor(start):
    rate = tg.placeholder("float64", [])
    y = tg.nn.Dropout(tg.cast(rate, "float32"))(tg.ones([1000]), training=True)
    assert abs((start(y, {rate: 0.9}) == 0).mean() - 0.9) < 0.05
    np.testing.assert_array_equal(start(y, {rate: 0.0}), 1)


@pytest.mark.parametrize("rate", [-0.1, 1.0, 1, 2.5, float("nan")])
def test_no_such_rate(rate):
    with pytest.raises(tg.GraphError, match="no such rate"):
        tg.nn.Dropout(rate)


@pytest.mark.parametrize("known", [[20, 30], [None, 30], [None, None]])
@pytest.mark.parametrize("noise", [[None, 1], [1, None], [1, 1]])
def test_elements_go_together(start, known, noise):
    x = tg.placeholder("float32", known)
    found = start(tg.nn.Dropout(0.5, noise_shape=noise)(x, training=True), {x: np.ones((20, 30))})
    assert found.shape == (20, 30)
    for axis, size in enumerate(noise):
        assert size != 1 or (found == np.take(found, [0], axis)).all()
        assert size is None or (noise != [1, 1] and len(np.unique(found)) == 2) or noise == [1, 1]


def test_noise_of_another_rank():
    with pytest.raises(tg.ShapeError):
        tg.nn.Dropout(0.5, noise_shape=[1])(tg.ones([2, 3]), training=True)


def test_an_infinite_element_that_is_dropped_is_gone(start):
    x = tg.fill([100], float("inf"))
    assert set(start(tg.nn.Dropout(0.5, seed=1)(x, training=True)).tolist()) == {0.0, float("inf")}


def test_the_gradient_sees_what_was_dropped(start):
    x = tg.constant(np.arange(1.0, 101.0))
    y = tg.nn.Dropout(0.5)(x, training=True)
    (slope,) = tg.gradients(y, [x])
    for _ in range(2):
        found, slopes = start([y, slope])
        np.testing.assert_array_equal(slopes, np.where(found > 0, 2.0, 0.0))


def test_steps_and_seeds(run):
    x = tg.ones([100])
    first, second, other = (tg.nn.Dropout(0.5, seed=s)(x, training=True) for s in (1, 1, 2))
    a, b, c = run([first, second, other])
    assert (a == b).all()
    assert (a != c).any()
    assert (run(first) != a).any()


@pytest.mark.parametrize("every", [None, 1, 3])
def test_in_a_loop_each_iteration_drops_others_and_the_gradient_the_same(start, every):
    layer = tg.nn.Dropout(0.5)
    w = tg.Variable(np.ones(8))
    given = {} if every is None else {"checkpoint_every": every}

    def step(state, x):
        return tg.tanh(state + layer(w * x, training=True))

    states = tg.scan(step, np.linspace(0.1, 1.0, 7)[:, None] * np.ones(8), tg.zeros([8], "float64"), **given)
    (slope,) = tg.gradients(states[-1], [w])
    found, slopes = start([states, slope])

    x = np.linspace(0.1, 1.0, 7)
    before = np.vstack([np.zeros(8), found[:-1]])
    masks = (np.arctanh(found) - before) / x[:, None]  # what was added, by what it was made of
    assert len({tuple(row > 1) for row in masks}) > 4
    np.testing.assert_allclose(np.minimum(abs(masks), abs(masks - 2)), 0, atol=1e-9)
    wanted = np.zeros(8)
    for t in range(7):
        wanted = (1 - found[t] ** 2) * (wanted + masks[t] * x[t])
    np.testing.assert_allclose(slopes, wanted, rtol=1e-6, atol=1e-9)


def test_recompute_grad_drops_the_same(start):
    layer = tg.nn.Dropout(0.5)
    x = tg.constant(np.arange(1.0, 101.0))
    y = tg.recompute_grad(lambda x: layer(tg.square(x), training=True))(x)
    (slope,) = tg.gradients(y, [x])
    found, slopes = start([y, slope])
    assert 30 < (found > 0).sum() < 70
    np.testing.assert_allclose(slopes, np.where(found > 0, 4 * np.arange(1.0, 101.0), 0))
