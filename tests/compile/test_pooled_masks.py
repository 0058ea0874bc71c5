"""Masks of gradients in front of max pooling: when they are applied to windows, and that results stay the same."""

import numpy as np
import pytest
import tagloom as tg

from tests.support.settings import ON

SPELLINGS = {
    "relu": (lambda x: tg.relu(x), True),
    "maximum": (lambda x: tg.maximum(x, 0.0), False),  # its gradient compares what it was given
    "the mask is of something else": (lambda x: tg.where(x > 0.5, x, 0.0), False),
    "leaky": (lambda x: tg.leaky_relu(x, 0.2), False),
    "used twice": (lambda x: tg.relu(x) * tg.relu(x), False),
}
POOLS = [([1, 2, 2, 1], [1, 2, 2, 1]), ([1, 3, 2, 1], [1, 1, 2, 1])]


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("batch", [3, None])
def test_gradients_are_the_same(spelling, pool, padding, batch):
    build, moves = SPELLINGS[spelling]
    values = np.random.default_rng(0).standard_normal((3, 7, 6, 5)).astype("float32").round(1)
    values[0, 1, 1, 0], values[0, 0, 0, 1] = np.nan, np.inf
    values[1] = -np.abs(values[1])
    found = []
    for settings in (ON, ON.without("fuse")):
        with tg.Graph().as_default() as graph, tg.SyncSession(graph, settings=settings) as session:
            x = tg.placeholder("float32", [batch, *values.shape[1:]])
            y = tg.max_pool(build(x), *pool, padding)
            step = session.make_step([y, *tg.gradients(tg.reduce_sum(y * y), [x])], [x])
            found.append(step(values))
            assert ("MaxPoolGrad/masked" in step.to_text()) == (moves and settings.fuse)
    for masked, plain in zip(*found, strict=True):
        np.testing.assert_array_equal(masked, plain)


def test_what_is_used_besides_stays():
    with tg.Graph().as_default() as graph, tg.SyncSession(graph, settings=ON) as session:
        x = tg.placeholder("float32", [1, 4, 4, 1])
        y = tg.relu(x)
        (g,) = tg.gradients(tg.reduce_sum(tg.max_pool(y, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")), [y])
        (h,) = tg.gradients(y, [x], grad_ys=[g])
        step = session.make_step([g, h], [x])
        assert "masked" not in step.to_text()
        whole, masked = step(-np.ones((1, 4, 4, 1), "float32"))
    assert whole.sum() == 4
    assert not masked.any()


def test_a_pooling_that_waits_for_the_gradient_is_not_used_for_it():
    with tg.Graph().as_default() as graph, tg.SyncSession(graph, settings=ON) as session:
        x = tg.placeholder("float32", [1, 4, 4, 1])
        y = tg.relu(x)
        (place_gradient,) = tg.gradients(tg.reduce_sum(tg.stop_gradient(1.0) * tg.max_pool(y, *POOLS[0], "SAME")), [x])
        with tg.control_dependencies([place_gradient]):
            later = tg.max_pool(y, *POOLS[0], "SAME")
        found = session.run([place_gradient, later], {x: np.arange(-8, 8, dtype="float32").reshape(1, 4, 4, 1)})
    assert found[0].sum() == 2
    assert found[1].max() == 7
