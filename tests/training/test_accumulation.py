"""Gradients that are kept over several steps are applied as one."""

import numpy as np
import pytest
import tagloom as tg
from tagloom.training import AdagradOptimizer, GradientAccumulator, GradientDescentOptimizer, MomentumOptimizer

START = np.array([[1.0, -2.0], [3.0, 0.5], [-1.0, 4.0]])


def trained(optimizer, loss_of, feeds):
    """Return the values of a variable after each step, and the number of updates counted."""
    with tg.Graph().as_default() as graph:
        w = tg.Variable(START, name="w")
        x = tg.placeholder(feeds[0].dtype, [None])
        step = tg.training.get_or_create_global_step()
        train = optimizer.minimize(loss_of(w, x), global_step=step)
        initialize = tg.global_variables_initializer()
    values = []
    with tg.SyncSession(graph) as session:
        session.run(initialize)
        for feed in feeds:
            session.run(train, {x: feed})
            values.append(session.run(w))
        return values, int(session.run(step))


def dense(w, x):
    return tg.reduce_sum(w * w) * tg.reduce_sum(x)


@pytest.mark.parametrize("average", [True, False])
def test_the_mean_or_the_sum_is_applied(average):
    optimizer = GradientAccumulator(MomentumOptimizer(0.1, 0.5), 3, average)
    values, count = trained(optimizer, dense, [np.array([k, 1.0]) for k in range(7)])
    w, momentum = START, 0.0
    for first in (0, 3):
        np.testing.assert_array_equal(values[first], w)
        np.testing.assert_array_equal(values[first + 1], w)
        total = sum(2 * w * (k + 1.0) for k in range(first, first + 3))
        momentum = 0.5 * momentum + (total / 3 if average else total)
        w = w - 0.1 * momentum
        np.testing.assert_allclose(values[first + 2], w, rtol=1e-12)
    assert count == 2


def rows(w, x):
    return tg.reduce_sum(tg.square(tg.gather(w, x)))


def test_rows_are_kept_as_rows():
    optimizer = GradientAccumulator(AdagradOptimizer(0.1), 2)
    feeds = [np.array(x, np.int64) for x in ([2, 2], [], [0], [2, 0], [], [])]
    values, count = trained(optimizer, rows, feeds)
    w, total = START.copy(), np.full_like(START, 0.1)
    w2 = w.copy()
    total[2] += (2 * w[2]) ** 2
    w2[2] -= 0.1 * 2 * w[2] / np.sqrt(total[2])
    np.testing.assert_allclose(values[1], w2, rtol=1e-12)
    g = 2 * w2 * [[2], [0], [1]] / 2
    w3 = w2 - 0.1 * g / np.sqrt(total + g * g)
    np.testing.assert_allclose(values[3], w3, rtol=1e-12)
    np.testing.assert_array_equal(values[5], values[3])
    assert count == 3
    assert optimizer.get_slot_names() == ["accumulated_indices", "accumulated_rows", "count"]


def test_it_works_in_a_loop_and_on_another_device():
    with tg.Graph().as_default() as graph:
        with tg.device("/cpu:1"):
            w = tg.Variable(START, name="w")
        optimizer = GradientAccumulator(GradientDescentOptimizer(0.1), 5)

        def body(i):
            with tg.control_dependencies([optimizer.minimize(tg.reduce_sum(w * w))]):
                return i + 1

        loop = tg.while_loop(lambda i: i < 12, body, [0])
        initialize = tg.global_variables_initializer()
    assert {v.device for v in optimizer.variables()} == {"/device:CPU:1"}
    with tg.SyncSession(graph, devices=2) as session:
        session.run(initialize)
        session.run(loop)
        np.testing.assert_allclose(session.run(w), START * 0.8**2, rtol=1e-12)


def test_what_can_not_be_accumulated_is_refused():
    with pytest.raises(tg.GraphError, match="over steps"):
        GradientAccumulator(GradientDescentOptimizer(0.1), 0)
    with tg.Graph().as_default():
        w = tg.Variable(np.zeros((3, 2)), shape=[3, None])
        with pytest.raises(tg.GraphError, match="rows of an unknown shape"):
            GradientAccumulator(GradientDescentOptimizer(0.1), 2).minimize(tg.reduce_sum(tg.gather(w, [1])))
        v, mixed = tg.Variable(START), GradientAccumulator(GradientDescentOptimizer(0.1), 2)
        mixed.minimize(tg.reduce_sum(v * v), var_list=v)
        with pytest.raises(tg.GraphError, match="accumulated together"):
            mixed.minimize(tg.reduce_sum(tg.gather(v, [1])), var_list=v)
        with pytest.raises(tg.GraphError, match="no variable has a gradient"):
            GradientAccumulator(GradientDescentOptimizer(0.1), 2).apply_gradients([(None, w)])
