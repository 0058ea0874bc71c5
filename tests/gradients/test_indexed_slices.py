"""IndexedSlices that do not say what they are slices of: allowed wherever nobody has to know."""

import numpy as np
import pytest
import tagloom as tg
from tagloom.training import GradientDescentOptimizer

from tests.gradients.building import unknown


def slices():
    return tg.IndexedSlices(unknown(np.array([[1.0, 2.0], [3.0, 4.0]])), tg.constant([2, 2]))


def test_what_is_known_of_the_shape():
    assert slices().shape == [None, 2]
    assert tg.IndexedSlices(tg.zeros([2, 3]), tg.constant([0, 1]), tg.constant([5, 3])).shape == [5, 3]


def test_making_them_dense_is_an_error_that_says_what_lacks():
    with pytest.raises(tg.GraphError, match="without a dense shape") as caught:
        tg.convert_to_tensor(slices())
    assert "dense_shape=tg.shape(x)" in str(caught.value)


def test_a_variable_takes_them(session):
    v = tg.Variable(np.zeros((3, 2)))
    update = v.scatter_add(slices())
    train = GradientDescentOptimizer(1.0).apply_gradients([(slices(), v)])
    session.run(tg.global_variables_initializer())
    assert session.run(update).tolist() == [[0, 0], [0, 0], [4, 6]]
    session.run(train)
    assert session.run(v).tolist() == [[0, 0], [0, 0], [0, 0]]


def test_branches_and_loops_carry_them(run):
    chosen = tg.cond(unknown(True), slices, slices)
    assert chosen.dense_shape is None
    _, after = tg.while_loop(
        lambda i, _: i < 3,
        lambda i, s: (i + 1, tg.IndexedSlices(s.values * 2.0, s.indices)),
        [0, chosen],
    )
    assert run([after.values, after.indices])[0].tolist() == [[8, 16], [24, 32]]
    whole = tg.IndexedSlices(chosen.values, chosen.indices, tg.constant([3, 2]))
    with pytest.raises(tg.BranchMismatchError, match="3 elements on one side and 2 on the other"):
        tg.cond(unknown(True), lambda: chosen, lambda: whole)


@pytest.mark.parametrize("times", [1, 2])
def test_a_gradient_function_may_return_them(run, times):
    @tg.custom_gradient
    def rows(table):
        return tg.reduce_sum(table), lambda dy: slices()

    table = unknown(np.zeros((3, 2)))
    (g,) = tg.gradients([rows(table) for _ in range(times)], [table])
    assert isinstance(g, tg.IndexedSlices)
    assert run(tg.convert_to_tensor(g)).tolist() == [[0, 0], [0, 0], [4.0 * times, 6.0 * times]]


def test_a_cotangent_takes_the_shape_of_its_y(run):
    x = unknown(np.ones((3, 2)))
    (g,) = tg.gradients([x * 5.0], [x], grad_ys=[slices()])
    assert run(g).tolist() == [[0, 0], [0, 0], [20, 30]]
