"""Methods, products with vectors and rows by number, held against NumPy's on arrays."""

import numpy as np
import pytest
import tagloom as tg

from tests.support.cases import each

X = np.float32([[1.5, -2.5, 3.0], [0.5, 2.5, -1.0]])
METHODS = (
    {
        f"{name}({given})": lambda x, name=name, given=given: getattr(x, name)(**given)
        for name in ("sum", "mean", "prod", "max", "min", "any", "all", "std", "var")
        for given in ({}, {"axis": 0}, {"axis": -1, "keepdims": True}, {"axis": (0, 1)})
    }
    | {
        f"{name}({axis})": lambda x, name=name, axis=axis: getattr(x, name)(axis)
        for name in ("argmax", "argmin", "cumsum", "cumprod")
        for axis in (None, 0, 1)
    }
    | {
        "transpose()": lambda x: x.transpose(),
        "transpose(1, 0)": lambda x: x.transpose(1, 0),
        "transpose([1, 0])": lambda x: x.transpose([1, 0]),
        "transpose(None)": lambda x: x.transpose(None),
        "squeeze": lambda x: x[None, :, None].squeeze(),
        "squeeze axis": lambda x: x[None, :, None].squeeze(0),
        "flatten": lambda x: x.flatten(),
        "ravel": lambda x: x.ravel(),
        "mean of integers": lambda x: x.astype("int32").mean(1),
        "any of integers": lambda x: x.astype("int32").any(1),
        "any of bools": lambda x: (x > 2).any(0),
    }
)
INDICES = {
    "list": [1, 0, 1],
    "nested": [[1, 0], [0, 0]],
    "negative": [-1, 0],
    "array": np.array([1, 1]),
    "negative array": np.array([-2, 1]),
    "int8": np.array([1], np.int8),
    "empty": np.array([], np.int64),
    "mask": [True, False],
}


@each("name", METHODS)
def test_methods_are_numpys(run, name):
    wanted = METHODS[name](X)
    for x in (tg.constant(X), tg.placeholder_with_default(tg.constant(X), [None, None])):
        got = run(METHODS[name](x))
        assert got.shape == wanted.shape
        np.testing.assert_allclose(got, wanted, rtol=1e-6)


def test_variables_have_methods():
    w = tg.Variable(X)
    assert w.sum(axis=0).shape == [3]
    assert w[[1, 0, 0]].shape == [3, 3]
    assert (w @ [1.0, 2.0, 3.0]).shape == [2]


@pytest.mark.parametrize("name", INDICES)
def test_rows_by_number(run, name):
    key = INDICES[name]
    np.testing.assert_array_equal(run(tg.constant(X)[key]), X[key])
    if name != "mask":
        np.testing.assert_array_equal(run(tg.constant(X)[tg.constant(key)]), X[key])


def test_rows_by_number_out_of_range(run):
    with pytest.raises(tg.TagloomError, match=r"\[0, 2\)"):
        run(tg.constant(X)[[2]])


V, W = np.float32([1, 2, 3]), np.float32([4, 5])
PRODUCTS = [(X, V), (W, X), (V, V), (X, X.T), (np.stack([X, X]), V), (W, np.stack([X, X])), (np.stack([X, X]), X.T)]


@pytest.mark.parametrize(("a", "b"), PRODUCTS)
def test_products_with_vectors(run, a, b):
    x, y = tg.constant(a), tg.constant(b)
    for got in (x @ y, x @ b, a @ y, x @ b.tolist(), a.tolist() @ y):
        np.testing.assert_allclose(run(got), a @ b)
    weights = np.ones(np.shape(a @ b), "f")
    gx, gy = tg.gradients(x @ y, [x, y], [weights])
    assert (gx.shape, gy.shape) == (x.shape, y.shape)
    np.testing.assert_allclose(np.sum(run(gx) * a), np.sum(a @ b), rtol=1e-5)


def test_products_with_scalars_are_refused():
    with pytest.raises(tg.ShapeError, match="with a scalar"):
        tg.constant(X) @ 2.0


@pytest.mark.parametrize("shape", [[2, 3], None])
def test_logaddexp(run, shape):
    x = tg.placeholder_with_default(tg.constant(X), shape)
    y = np.float32([-np.inf, 100.0, 3.0])
    z = tg.logaddexp(x, y)
    np.testing.assert_allclose(run(z), np.logaddexp(X, y), rtol=1e-6)
    np.testing.assert_allclose(run(tg.gradients(z, [x])[0]), np.exp(X - np.logaddexp(X, y)), rtol=1e-5)
    assert run(tg.logaddexp(np.float32(-np.inf), np.float32(-np.inf))) == -np.inf


def test_assignment_to_elements_says_what_to_write():
    for x in (tg.constant(X), tg.Variable(X)):
        with pytest.raises(tg.GraphError, match="tensor_scatter_update"):
            x[0] = 5
