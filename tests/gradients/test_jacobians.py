"""Jacobians, and products with them and with Hessians, against numerical differences; of loops and branches too."""

import numpy as np
import pytest
import tagloom as tg
from tagloom.testing.differences import CENTRAL, derivative

STEP = 1e-6
X = np.float64([0.3, -0.7, 1.1])


def smooth(x):
    """Return a vector of two elements that depends on a vector of three through a loop and a branch."""

    def body(i, s):
        return i + 1, tg.cond(i < 2, lambda: tg.sin(s) * x, lambda: s * s + x[::-1])

    _, s = tg.while_loop(lambda i, _: i < 4, body, [0, x])
    return tg.stack([tg.reduce_sum(s * s), s[0] * s[2]])


def plain(x):
    """Return the same with NumPy."""
    s = x
    for i in range(4):
        s = np.sin(s) * x if i < 2 else s * s + x[::-1]
    return np.stack([np.sum(s * s), s[0] * s[2]])


def differences(function, x):
    """Return the Jacobian by central differences: the dimensions of the result, then those of `x`."""
    columns = []
    for at in np.ndindex(x.shape):
        unit = np.zeros_like(x)
        unit[at] = 1.0
        columns.append(derivative(lambda distance, unit=unit: function(x + distance * unit), STEP, CENTRAL))
    return np.moveaxis(np.array(columns), 0, -1).reshape(*columns[0].shape, *x.shape)


def run(build, *arrays, known=True):
    with tg.Graph().as_default() as graph:
        xs = [tg.placeholder(a.dtype, a.shape if known else None) for a in arrays]
        fetches = build(*xs)
    with tg.SyncSession(graph) as session:
        return session.run(fetches, dict(zip(xs, arrays, strict=True)))


@pytest.mark.parametrize("known", [True, False])
def test_jacobian_is_that_of_differences(known):
    found = run(lambda x: tg.jacobian(smooth(x), x), X, known=known)
    np.testing.assert_allclose(found, differences(plain, X), rtol=1e-6)


def test_jacobian_has_the_structure_of_its_inputs():
    with tg.Graph().as_default() as graph:
        a, b, c = tg.constant(np.ones((2, 3))), tg.Variable(np.ones((3, 4))), tg.constant(1.0)
        found = tg.jacobian(tg.matmul(a, b), {"a": a, "b": b, "c": c})
        zero = tg.jacobian(tg.matmul(a, b), [c], unconnected_gradients="zero")
    assert found["c"] is None
    with tg.SyncSession(graph) as session:
        session.write_variables({b: np.ones((3, 4))})
        by_a, by_b, zeros = session.run([found["a"], found["b"], zero[0]])
    np.testing.assert_array_equal(by_a, np.einsum("il,jk->ijlk", np.eye(2), np.ones((4, 3))))
    np.testing.assert_array_equal(by_b, np.einsum("jl,ik->ijkl", np.eye(4), np.ones((2, 3))))
    assert zeros.shape == (2, 4)


def test_jacobian_of_nothing_is_empty():
    assert run(lambda x: tg.jacobian(x[:0], x), X).shape == (0, 3)
    assert run(lambda x: tg.batch_jacobian(x[:, :0], x), np.ones((2, 3))).shape == (2, 0, 3)
    assert run(lambda x: tg.batch_jacobian(x * x, x), np.ones((0, 3))).shape == (0, 3, 3)


def test_jacobian_is_differentiated():
    def build(x):
        return tg.gradients(tg.reduce_sum(tg.jacobian(smooth(x), x) ** 2), [x])[0]

    def squares(x):
        return np.sum(run(lambda x: tg.jacobian(smooth(x), x), x) ** 2)

    np.testing.assert_allclose(run(build, X), differences(squares, X), rtol=1e-5)


def test_jacobian_of_rows_by_index_is_dense():
    table = np.arange(6.0).reshape(3, 2)
    found = run(lambda t: tg.jacobian(tg.gather(t, [2, 0]), t), table)
    np.testing.assert_array_equal(found, np.einsum("ik,jl->ijkl", np.eye(3)[[2, 0]], np.eye(2)))


@pytest.mark.parametrize("known", [True, False])
def test_batch_jacobian_is_that_of_each_example(known):
    x = np.random.default_rng(3).standard_normal((4, 3, 2))

    def function(x):
        return tg.stack([tg.sin(x[:, 0]) * x[:, 2], x[:, 1] ** 2.0, x[:, 0] + x[:, 2]], axis=1)[:, :, ::-1]

    whole, by_example = run(lambda x: [tg.jacobian(function(x), x), tg.batch_jacobian(function(x), x)], x, known=known)
    np.testing.assert_allclose(by_example, np.einsum("bijbkl->bijkl", whole))


def test_batch_jacobian_refuses_what_has_no_batch():
    with tg.Graph().as_default():
        x = tg.zeros([2, 3])
        with pytest.raises(tg.ShapeError, match="for each example"):
            tg.batch_jacobian(tg.reduce_sum(x), x)
        with pytest.raises(tg.ShapeError, match="for each example"):
            tg.batch_jacobian(tg.zeros([3, 3]), x)
        assert tg.batch_jacobian(tg.zeros([2, 3]), x) is None


@pytest.mark.parametrize("known", [True, False])
def test_products_are_those_of_jacobian_and_hessian(known):
    v = np.float64([1, -2, 0.5])

    def build(x):
        y = smooth(x)
        return [tg.jvp(y, x, v), tg.hessian_vector_product(y[0], x, v)[0], tg.hessians(y[0], [x])[0]]

    moved, product, hessian = run(build, X, known=known)
    np.testing.assert_allclose(moved, differences(plain, X) @ v, rtol=1e-6)
    np.testing.assert_allclose(product, hessian @ v, rtol=1e-10)


def test_products_take_several_inputs_and_outputs():
    a, b, u, v = (np.random.default_rng(k).standard_normal((2, 2)) for k in range(4))

    def build(a, b):
        ys = {"product": tg.matmul(a, b), "other": tg.exp(b), "constant": tg.constant(np.ones(3))}
        return tg.jvp(ys, [a, b], [u, v]), tg.hessian_vector_product(tg.reduce_sum(tg.matmul(a, b)), [a, b], [u, v])

    moved, (to_a, to_b) = run(build, a, b)
    np.testing.assert_allclose(moved["product"], u @ b + a @ v)
    np.testing.assert_allclose(moved["other"], np.exp(b) * v)
    assert moved["constant"].tolist() == [0, 0, 0]
    ones = np.ones((2, 2))
    np.testing.assert_allclose(to_a, ones @ v.T)
    np.testing.assert_allclose(to_b, u.T @ ones)
    with tg.Graph().as_default():
        x = tg.constant([1.0])
        with pytest.raises(tg.GraphError, match="a vector for each x"):
            tg.jvp(x, [x, x], [x])


def test_complex_functions_move_as_their_derivative_says():
    z, v = np.complex128([1 + 2j, 0.5 - 1j]), np.complex128([2 - 1j, 1j])
    np.testing.assert_allclose(run(lambda z: tg.jvp(z * z * z, z, v), z), 3 * z * z * v)


def test_a_step_through_rows_by_index_moves_those():
    table, v = np.arange(6.0).reshape(3, 2), np.ones((3, 2))
    np.testing.assert_array_equal(run(lambda t: tg.jvp(tg.gather(t, [2, 2]) ** 2, t, v), table), 2 * table[[2, 2]])
