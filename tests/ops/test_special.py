import math

import numpy as np
import pytest
import scipy.stats
import tagloom as tg
from tagloom.base.errors import DtypeError
from tagloom.ir.apply import apply
from tagloom.ops.math import gamma_slopes
from tagloom.ops.math.gamma_slopes import incomplete_gamma_slopes


def value(build, *arguments):
    return tg.function(build).sync(*arguments)


def slopes(function, x, order):
    """Return the derivative of an order, by gradients of gradients."""

    def derived(t):
        y = function(t)
        for _ in range(order):
            (y,) = tg.gradients(y, [t])
        return y

    return value(derived, x)


def differences(function, x, h=1e-3):
    """Return the first and the second derivative by differences of the fourth order."""
    at = [value(function, x + k * h) for k in (-2, -1, 0, 1, 2)]
    first = (at[0] - 8 * at[1] + 8 * at[3] - at[4]) / (12 * h)
    second = (-at[0] + 16 * at[1] - 30 * at[2] + 16 * at[3] - at[4]) / (12 * h * h)
    return first, second


@pytest.mark.parametrize(("a", "b"), [(0.5, 2.5), (1.0, 3.0), (4.0, 1.0)])
def test_incomplete_beta_function_has_a_gradient_by_x(a, b):
    x = np.array([0.1, 0.4, 0.85])

    def function(t):
        return tg.betainc(np.float64(a), np.float64(b), t)

    first, second = differences(function, x)
    np.testing.assert_allclose(slopes(function, x, 1), first, rtol=1e-7)
    np.testing.assert_allclose(slopes(function, x, 2), second, rtol=1e-5, atol=1e-5)


def test_derivatives_of_the_gamma_function_go_on():
    x = np.array([1.0, 2.5])
    wanted = [6 * math.pi**4 / 90, 6 * sum((2.5 + k) ** -4.0 for k in range(20000))]
    np.testing.assert_allclose(slopes(tg.lgamma, x, 4), wanted, rtol=1e-8)


@pytest.mark.parametrize(
    ("function", "series"),
    [  # coefficients of x, x**3, x**5
        (tg.bessel_i1, (1 / 2, 1 / 16, 1 / 384)),
        (tg.bessel_j1, (1 / 2, -1 / 16, 1 / 384)),
    ],
)
def test_derivatives_of_bessel_functions_are_right_at_0(function, series):
    zero = np.zeros(1)
    found = [slopes(function, zero, n)[0] for n in range(1, 6)]
    np.testing.assert_allclose(found, [series[0], 0, 6 * series[1], 0, 120 * series[2]], atol=1e-12)


def test_derivatives_of_spence_are_right_at_1():
    one = np.ones(1)
    found = [slopes(tg.spence, one, n)[0] for n in range(1, 5)]
    # log(x) / (1 - x) is -1 + u / 2 - u**2 / 3 + u**3 / 4 - ...
    np.testing.assert_allclose(found, [-1, 1 / 2, -2 / 3, 6 / 4], rtol=1e-9)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_spence_has_a_slope_near_0(dtype):
    x = np.array([1e-30, 1e-8, 1e-4, 0.5], dtype)
    np.testing.assert_allclose(slopes(tg.spence, x, 1), np.log(x) / (1 - x), rtol=1e-6 if dtype == "float32" else 1e-14)


def test_scaled_bessel_functions_have_slopes_where_they_are_large():
    x = np.array([1e8, 1e10, 1e30, -1e10, -np.inf])
    size = np.abs(x)
    root = np.sqrt(2 * np.pi * size)
    np.testing.assert_allclose(slopes(tg.bessel_i1e, x, 1), -1 / (2 * size * root), atol=1e-21, rtol=1e-5)
    second, third = value(lambda: [apply("BesselI", x, order=n, scaled=True) for n in (2, 3)])
    np.testing.assert_allclose(second, 1 / root, rtol=1e-7)
    np.testing.assert_allclose(third, np.sign(x) / root, rtol=1e-7)


def test_incomplete_gamma_function_of_large_parameters():
    # d/da of P(a, x) nearly is minus the density where x is near a.
    a, x = np.array([1e3, 1e4]), np.array([1.01e3, 0.99e4])

    def by_a(t):
        return tg.gradients(tg.igamma(t, x), [t])[0]

    at = [value(lambda t: tg.igamma(t, x), a + k * 0.25) for k in (-2, -1, 1, 2)]
    wanted = (at[0] - 8 * at[1] + 8 * at[2] - at[3]) / (12 * 0.25)
    np.testing.assert_allclose(value(by_a, a), wanted, rtol=1e-8)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_slopes_of_very_large_parameters_are_those_of_large_ones(monkeypatch, order):
    a = np.full(5, 1e6)
    x = a + np.array([-8, -1, 0, 1, 8]) * np.sqrt(a)
    wanted = incomplete_gamma_slopes(a, x, order)
    monkeypatch.setattr(gamma_slopes, "_LARGE", 1e5)
    found = incomplete_gamma_slopes(a, x, order)
    assert (found != wanted).all()  # it is another expansion
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9 * 1e3 ** (1 - order))


def test_slopes_of_very_large_parameters_are_found_soon():
    a = np.array([1e12, 1e17, 1e30, 1e300])
    np.testing.assert_allclose(incomplete_gamma_slopes(a, a, 1), -1, rtol=1e-12)
    np.testing.assert_allclose(incomplete_gamma_slopes(a, a * 1.005, 1), -1.005 * np.log(1.005) / 0.005, rtol=1e-12)


@pytest.mark.parametrize("a", [10.0, 1e3, 1e5, 1e6])
def test_densities_keep_the_digits_of_float32(a):
    a, x, half = np.float32(a), np.float32(a + 0.5 * np.sqrt(a)), np.float32(0.4999)

    def gamma(a, x):
        return tg.gradients(tg.igamma(a, x), [x])[0]

    def beta(a, x):
        return tg.gradients(tg.betainc(a, a, x), [x])[0]

    np.testing.assert_allclose(value(gamma, a, x), scipy.stats.gamma.pdf(float(x), float(a)), rtol=1e-6)
    np.testing.assert_allclose(value(beta, a, half), scipy.stats.beta.pdf(float(half), float(a), float(a)), rtol=1e-6)


def test_incomplete_gamma_function_at_0_has_gradients():
    def build(a, x):
        return tg.gradients(tg.igamma(a, x), [a, x])

    by_a, by_x = value(build, np.array([1.0, 2.0]), np.zeros(2))
    np.testing.assert_array_equal(by_a, [0, 0])
    np.testing.assert_array_equal(by_x, [1, 0])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize(
    "function", [tg.lgamma, tg.digamma, tg.bessel_i0, tg.spence, tg.fresnel_sin, lambda x: tg.igamma(x, x)]
)
def test_small_floats_keep_their_dtype(function, dtype):
    x = np.array([0.75, 2.5])
    precise = value(function, x)

    def build(t):
        small = tg.cast(t, dtype)
        return [y := function(small), tg.gradients(y, [small])[0]]

    y, g = value(build, x)
    assert y.dtype == g.dtype == tg.as_dtype(dtype).numpy
    np.testing.assert_allclose(y.astype(float), precise, rtol=2e-2, atol=2e-2)


def test_products_with_0_have_no_gradient():
    def build(x, y):
        return [tg.gradients(function(x, y), [x, y]) for function in (tg.xdivy, tg.xlog1py)]

    np.testing.assert_array_equal(value(build, np.zeros(2), np.array([0.0, -1.0])), np.zeros((2, 2, 2)))


def test_beta_function_of_nothing():
    assert value(lambda: tg.lbeta(np.zeros((2, 0)))).tolist() == [-math.inf] * 2


def test_integers_are_refused():
    with pytest.raises(DtypeError):
        value(lambda: tg.lgamma(np.arange(3)))
