"""Arithmetic guarded against NaN or cut off towards zero, and polynomials."""

import numpy as np
import pytest
import tagloom as tg

EDGES = np.array([0.0, -0.0, 1.5, -2.5, np.inf, -np.inf, np.nan])


def test_products_with_zero_are_zero():
    x, y = np.meshgrid(EDGES, EDGES)
    with np.errstate(invalid="ignore"):
        wanted = np.where(y == 0, 0, x * y)
    np.testing.assert_array_equal(tg.function(lambda: tg.multiply_no_nan(x, y)).sync(), wanted)


def test_gradients_of_products_with_zero_are_the_other_factors():
    with tg.Graph().as_default() as graph:
        x, y = tg.placeholder("float64", [3]), tg.placeholder("float64", [3])
        gradients = tg.gradients(tg.multiply_no_nan(x, y), [x, y])
    with tg.SyncSession(graph) as session:
        dx, dy = session.run(gradients, {x: [np.inf, 2.0, 3.0], y: [0.0, 0.0, 5.0]})
    assert (dx.tolist(), dy.tolist()) == ([0, 0, 5], [np.inf, 2, 3])


@pytest.mark.parametrize("kind", ["int8", "uint8", "int64", "float32"])
def test_division_is_cut_off_as_in_c(kind):
    low = 0 if kind == "uint8" else -7
    x, y = (v.ravel().astype(kind) for v in np.meshgrid(np.arange(low, 8), [n for n in range(low, 8) if n]))
    quotient, rest = tg.function(lambda: (tg.truncatediv(x, y), tg.truncatemod(x, y))).sync()
    np.testing.assert_array_equal(rest, np.fmod(x, y))
    np.testing.assert_array_equal(quotient, np.trunc(x.astype("float64") / y))
    assert quotient.dtype == rest.dtype == kind


@pytest.mark.parametrize("function", [tg.truncatediv, tg.truncatemod])
def test_integers_are_not_divided_by_zero(function):
    with pytest.raises(tg.OpError, match="division by zero"):
        tg.function(lambda: function(tg.constant([1, 2]), [1, 0])).sync()


def test_polynomials_are_numpys():
    coefficients, x = [2.0, -1.0, 0.5, 3.0], np.linspace(-2, 2, 7)
    found = tg.function(lambda: tg.polyval(coefficients, x)).sync()
    np.testing.assert_allclose(found, np.polyval(coefficients, x))
    assert not tg.function(lambda: tg.polyval([], x)).sync().any()
    with tg.Graph().as_default(), pytest.raises(tg.GraphError, match="are a list"):
        tg.polyval(tg.constant([1.0, 2.0]), x)
