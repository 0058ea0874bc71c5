"""Norms of vectors and matrices, held against NumPy's, with gradients against differences."""

import itertools

import numpy as np
import pytest
import tagloom as tg

A = np.random.default_rng(7).normal(size=(2, 3, 4))
MATRIX = ["euclidean", "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf]
VECTOR = ["euclidean", 0, 1, 2, 3, 0.5, -1, -2.5, np.inf, -np.inf]


def value_of(x, shape, *args, **kwargs):
    with tg.Graph().as_default() as graph:
        p = tg.placeholder(x.dtype, shape)
        y = tg.norm(p, *args, **kwargs)
    with tg.SyncSession(graph, timeout=30) as session:
        return session.run(y, {p: x})


def by_numpy(x, ord, axis, keepdims):
    return np.linalg.norm(x, "fro" if ord == "euclidean" else ord, axis, keepdims)


@pytest.mark.parametrize("axes", [*itertools.permutations(range(3), 2), (-2, -1), (0, -1), [-1, -3]])
@pytest.mark.parametrize("ord", MATRIX)
def test_matrices(ord, axes):
    for x, keepdims in itertools.product((A, A + 1j * A[::-1]), (False, True)):
        wanted = by_numpy(x, ord, tuple(axes), keepdims)
        for shape in ([2, 3, 4], [None] * 3):
            got = value_of(x, shape, ord, axes, keepdims)
            assert got.dtype == np.float64
            np.testing.assert_allclose(got, wanted, rtol=1e-12)


@pytest.mark.parametrize("ord", MATRIX)
def test_matrices_of_unknown_rank(ord):
    np.testing.assert_allclose(value_of(A, None, ord, (-2, -1)), by_numpy(A, ord, (-2, -1), False))


def test_axes_of_unknown_rank_that_may_be_one():
    with pytest.raises(tg.GraphError, match="rank"):
        value_of(A[0], None, 1, (0, -2))
    with pytest.raises(tg.GraphError, match="rank"):
        value_of(A, None, 2, (0, 1))


@pytest.mark.parametrize("axis", [0, 1, -1, [2]])
@pytest.mark.parametrize("ord", VECTOR)
def test_vectors(ord, axis):
    wanted = np.linalg.norm(A, 2 if ord == "euclidean" else ord, axis if isinstance(axis, int) else axis[0])
    np.testing.assert_allclose(value_of(A, [None] * 3, ord, axis), wanted)


def test_all_values_are_one_vector():
    np.testing.assert_allclose(value_of(A, None), np.linalg.norm(A.ravel()))
    np.testing.assert_allclose(value_of(A[0], [3, 4], 1), np.abs(A[0]).sum())  # as TensorFlow
    np.testing.assert_allclose(value_of(A[0], [3, 4], "nuc"), np.linalg.norm(A[0], "nuc"))
    np.testing.assert_allclose(value_of(A, [2, 3, 4], axis=(0, 1, 2)), np.linalg.norm(A.ravel()))


@pytest.mark.parametrize("ord", MATRIX)
def test_gradients_of_matrix_norms(ord):
    x = A[:, :, :3]

    def total(z):
        return by_numpy(z, ord, (1, 2), False) @ [1.0, -2.0]

    with tg.Graph().as_default() as graph:
        p = tg.placeholder("float64", [None, None, None])
        g = tg.gradients(tg.norm(p, ord, axis=(1, 2)) * [1.0, -2.0], [p])[0]
    with tg.SyncSession(graph, timeout=30) as session:
        got = session.run(g, {p: x})
    for place in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[place] = 1e-6
        np.testing.assert_allclose(got[place], (total(x + step) - total(x - step)) / 2e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("ord", "axis"),
    [(3, (0, 1)), ("nuc", 0), ("fro", 0), ("largest", None), ("fro", None), (1, (0, 1, 2)), (np.nan, 0), (True, 0)],
)
def test_norms_that_there_are_not(ord, axis):
    with pytest.raises(tg.GraphError, match="there is no such norm of"):
        value_of(A, [2, 3, 4], ord, axis)


@pytest.mark.parametrize("axis", [(0, 0), (1, -2)])
def test_one_axis_twice(axis):
    with pytest.raises(tg.ShapeError, match="two axes"):
        value_of(A, [2, 3, 4], 1, axis)
