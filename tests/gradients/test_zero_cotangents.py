"""Where the incoming gradient is 0, so is that of an elementwise function, also where its slope is infinite or NaN."""

import numpy as np
import pytest
import tagloom as tg

from tests.gradients.building import repeat, unknown

INF, NAN = np.inf, np.nan
# Functions of one operand, with values at which their slopes are infinite or NaN.
ONE = {
    "sqrt": (tg.sqrt, [0, -1]),
    "rsqrt": (tg.rsqrt, [0, -1]),
    "reciprocal": (tg.reciprocal, [0]),
    "log": (tg.log, [0, NAN]),
    "log1p": (tg.log1p, [-1]),
    "exp": (tg.exp, [1e5]),
    "expm1": (tg.expm1, [1e5]),
    "sinh": (tg.sinh, [1e5]),
    "cosh": (tg.cosh, [-1e5]),
    "tan": (tg.tan, [INF]),
    "asin": (tg.asin, [1, 2]),
    "acos": (tg.acos, [-1, 2]),
    "acosh": (lambda x: tg.acosh(x * 8.0), [0.125, 0]),
    "atanh": (tg.atanh, [1, -1]),
    "erfinv": (tg.erfinv, [1, -1]),
    "ndtri": (tg.ndtri, [0, 1]),
    "erfcinv": (tg.erfcinv, [0]),
    "expint": (tg.expint, [0]),
    "spence": (tg.spence, [0, -1]),
    "lgamma": (tg.lgamma, [0, -1]),
    "digamma": (tg.digamma, [0, -1]),
    "polygamma": (lambda x: tg.polygamma(tg.ones_like(x), x), [0, -1]),
    "bessel_k0": (tg.bessel_k0, [0]),
    "bessel_i0": (tg.bessel_i0, [1e5]),
    "root": (lambda x: x**0.5, [0]),
    "power of a negative number": (lambda x: x**-1.5, [0, -1]),
    "exponential": (lambda x: 3.0**x, [1e5]),
    "norm": (lambda x: tg.norm(x[:, None], axis=1), [0]),
    "divided": (lambda x: 1.0 / x, [0]),
    "by itself": (lambda x: x / x, [0]),
    "xlogy": (lambda x: tg.xlogy(tg.ones_like(x), x), [0]),
    "xdivy": (lambda x: tg.xdivy(tg.ones_like(x), x), [0]),
    "xlog1py": (lambda x: tg.xlog1py(tg.ones_like(x), x), [-1]),
    "atan2": (lambda x: tg.atan2(x, x), [0]),
    "logsumexp": (lambda x: tg.reduce_logsumexp(x[:, None], axis=1), [-INF]),
    "logaddexp": (lambda x: tg.logaddexp(x, x), [-INF]),
    "igamma": (lambda x: tg.igamma(tg.fill(tg.shape(x), tg.constant(0.5, x.dtype)), x), [0]),
    "zeta": (lambda x: tg.zeta(x + 1.0, tg.ones_like(x)), [0]),
}
FEW = ("sqrt", "log", "reciprocal", "root", "exp", "divided", "atan2")


def gradient_with(function, x, g):
    (found,) = tg.gradients(function(x), [x], [g])
    return found


@pytest.mark.parametrize("name", ONE)
def test_a_zero_stays_zero_and_the_rest_is_as_it_was(run, name):
    function, singular = ONE[name]
    x = unknown(np.asarray([*singular, 0.5, 0.25]))
    g = unknown(np.asarray([*np.zeros(len(singular)), 3.0, 0.0]))
    alone = unknown(np.asarray([0.5]))
    got, wanted = run([gradient_with(function, x, g), gradient_with(function, alone, unknown([3.0], dtype=float))])
    np.testing.assert_array_equal(got, [*np.zeros(len(singular)), *wanted, 0])
    assert np.isfinite(wanted).all()


@pytest.mark.parametrize("name", FEW)
def test_without_zero_the_slope_shows(run, name):
    function, singular = ONE[name]
    x = unknown(np.asarray(singular, float))
    assert not np.isfinite(run(gradient_with(function, x, tg.ones_like(x)))).any()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("which", [0, 1], ids=["base", "exponent"])
def test_powers_that_overflow(run, dtype, which):
    x = tg.cast(unknown([3e4, 2.0], dtype="float32"), dtype)
    y = tg.cast(unknown([300.0, 3.0], dtype="float32"), dtype)
    g = tg.cast(unknown([0.0, 1.0], dtype="float32"), dtype)
    got = run(tg.cast(tg.gradients(x**y, [x, y], [g])[which], "float32"))
    np.testing.assert_allclose(got, [0, [12, 8 * np.log(2)][which]], rtol=1e-2)


@pytest.mark.parametrize("name", ONE)
def test_a_guarded_function(run, name):
    """Only the branch that `where` takes has a gradient, to the second order."""
    function, singular = ONE[name]
    x = unknown(np.asarray([*singular, 0.5]))
    safe = unknown(np.asarray([*(False for _ in singular), True]))
    (g,) = tg.gradients(tg.where(safe, function(x), tg.zeros_like(x)), [x])
    (h,) = tg.gradients(g, [x])
    alone = unknown(np.asarray([0.5]))
    (g1,) = tg.gradients(function(alone), [alone])
    (h1,) = tg.gradients(g1, [alone])
    for got, wanted in zip(*(run([g, h]), run([g1, h1])), strict=True):
        np.testing.assert_allclose(got, [*np.zeros(len(singular)), *wanted], rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("name", FEW)
def test_forward_mode_has_the_slopes(run, name):
    """`jvp` differentiates a gradient by the incoming one, at 0: the mask must not stop that."""
    function, _ = ONE[name]
    x = unknown([0.5, 0.75], dtype=float)
    y = function(x)
    v = unknown([2.0, 0.0], dtype=float)
    (g,) = tg.gradients(y, [x])
    moved, slope = run([tg.jvp(y, x, v), g])
    np.testing.assert_allclose(moved, [2 * slope[0], 0], rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("name", FEW)
def test_second_order_by_rows(run, name):
    function, _ = ONE[name]
    x = unknown([0.5, 0.75], dtype=float)
    (g,) = tg.gradients(function(x), [x])
    (h,) = tg.gradients(g, [x])
    matrix, wanted = run([tg.hessians(tg.reduce_sum(function(x)), x)[0], h])
    np.testing.assert_allclose(matrix, np.diag(wanted), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_numbers(run, dtype):
    x = tg.cast(unknown([0.0, 0.5], dtype=float), dtype)
    g = tg.cast(unknown([0.0, 1.0], dtype=float), dtype)
    for function in (tg.sqrt, tg.log, tg.reciprocal, lambda z: z**0.5, lambda z: 1 / z):
        (got,) = tg.gradients(function(x), [x], [g])
        found = run(got)
        assert found[0] == 0
        assert np.isfinite(found).all()
        assert found[1] != 0
    (got,) = tg.gradients(tg.angle(x), [x], [tg.cast(g, "float32" if dtype == "complex64" else "float64")])
    assert run(got)[0] == 0


@pytest.mark.parametrize("off", ["none", "fuse", "native", "fuse,native"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_way_of_running(off, dtype):
    """Fused, recorded as a native program, compiled, and by inner loops alone: the same bits."""

    def build():
        x = unknown(np.tile([0.0, 0.5, 2.0, 0.0], (3, 8)), dtype=dtype)
        mask = unknown(np.tile([0.0, 1.0, 3.0, 0.0], (3, 8)), dtype=dtype)

        def body(i, total, x):
            terms = [tg.sqrt(x), tg.log(x), 1.0 / x, x**-1.5, tg.exp(x * 1e5 * (1 - mask))]
            grads = tg.gradients(terms, [x], [mask] * len(terms))
            return total + grads[0], x

        return repeat(3, body, tg.zeros_like(x), x)[0]

    wanted_session = tg.SyncSession(executor="reference")
    y = build()
    with wanted_session as reference:
        wanted = reference.run(y)
    settings = tg.Settings(**{name: False for name in off.split(",") if name != "none"})
    with tg.SyncSession(settings=settings) as session:
        got = session.run(y)
    assert (got[:, ::4] == 0).all()
    assert np.isfinite(got[:, 2::4]).all()
    np.testing.assert_allclose(got, wanted, rtol=1e-6)


def test_multiply_no_nan(run):
    x, y = unknown([INF, NAN, 2.0, INF], dtype=float), unknown([0.0, -0.0, 3.0, 2.0], dtype=float)
    z = tg.multiply_no_nan(x, y)
    g = unknown([1.0, 1.0, 1.0, 0.0], dtype=float)
    product, by_x, by_y = run([z, *tg.gradients(z, [x, y], [g])])
    np.testing.assert_array_equal(product, [0, 0, 6, INF])
    np.testing.assert_array_equal(by_x, [0, 0, 3, 0])
    np.testing.assert_array_equal(by_y, [INF, NAN, 2, 0])
