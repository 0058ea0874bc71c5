"""Gradients in every floating and complex dtype, and across casts (rule 95)."""

import numpy as np
import pytest
import tagloom as tg

from tests.gradients.building import assert_near, choose, derivatives, repeat, unknown

FLOATS = pytest.mark.parametrize(
    ("dtype", "rtol"), [("float16", 5e-3), ("bfloat16", 5e-2), ("float32", 1e-5), ("float64", 1e-12)]
)


def value(x, dtype):
    return unknown(np.asarray(x, tg.as_dtype(dtype).numpy))


@FLOATS
def test_a_loop_keeps_the_dtype(run, dtype, rtol):
    x = value(1.25, dtype)
    (y,) = repeat(3, lambda i, a: (a * x,), x)
    (g,) = tg.gradients(y, [x])
    got = run(g)
    assert got.dtype == tg.as_dtype(dtype).numpy
    np.testing.assert_allclose(got.astype(float), 4 * 1.25**3, rtol=rtol)


@FLOATS
@pytest.mark.parametrize("taken", [True, False])
def test_a_branch_in_a_loop_keeps_the_dtype_to_second_order(run, dtype, rtol, taken):
    x, pred = value([0.5, 1.0], dtype), unknown(taken)
    (y,) = repeat(2, lambda i, a: (tg.cond(pred, lambda: tg.sin(a) * x, lambda: a + a),), x)
    plain = tg.sin(tg.sin(x) * x) * x if taken else x * 4.0
    for got, wanted in zip(run(derivatives(y, x, 2)[1:]), run(_derivatives(plain, x)), strict=True):
        assert got.dtype == tg.as_dtype(dtype).numpy
        np.testing.assert_allclose(got.astype(float), wanted.astype(float), rtol=rtol, atol=rtol)


def _derivatives(y, x):
    (g,) = tg.gradients(y, [x])
    (h,) = tg.gradients(tg.reduce_sum(g), [x], unconnected_gradients="zero")
    return [tg.reduce_sum(g), tg.reduce_sum(h)]


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_products_in_a_loop(run, dtype):
    rtol = 1e-5 if dtype == "complex64" else 1e-12
    x, w = value(1 + 0.5j, dtype), value(0.25 - 1j, dtype)
    (y,) = repeat(3, lambda i, a: (a * w,), x)
    g_x, g_w = run(tg.gradients(y, [x, w]))
    np.testing.assert_allclose(g_x, np.conj((0.25 - 1j) ** 3), rtol=rtol)
    np.testing.assert_allclose(g_w, np.conj(3 * (1 + 0.5j) * (0.25 - 1j) ** 2), rtol=rtol)


@pytest.mark.parametrize("taken", [True, False])
def test_complex_values_in_branches_loops_and_arrays_are_as_without(run, taken):
    def program(x, flow):
        ta = tg.TensorArray("complex128", size=2, clear_after_read=False).write(0, x).write(1, x * x)

        def body(i, a):
            return (tg.cond(flow, lambda: tg.exp(a * 0.5) * ta.read(1), lambda: a * ta.read(0)),)

        return repeat(2, body, x)[0]

    x = unknown(np.array(0.5 + 0.25j))
    y = program(x, unknown(taken))
    plain = tg.exp(tg.exp(x * 0.5) * x * x * 0.5) * x * x if taken else x * x * x
    assert_near(run(tg.gradients(tg.abs(y), [x])), run(tg.gradients(tg.abs(plain), [x])))


def test_a_real_loss_of_a_complex_loop(run):
    x = unknown(np.array([0.5, 1.0]))

    def body(i, a):
        return (a * tg.exp(tg.complex(tg.zeros_like(x), x)),)

    (y,) = repeat(3, body, tg.cast(x, "complex128"))
    loss = tg.reduce_sum(tg.real(y))
    # y = x exp(3ix): its real part is x cos 3x
    assert_near(run(tg.gradients(loss, [x])), [np.cos(3 * run(x)) - 3 * run(x) * np.sin(3 * run(x))])


@pytest.mark.rule(95)
@pytest.mark.parametrize(("through", "wanted"), [("float32", 4.0), ("int32", None), ("bool", None), ("complex64", 4.0)])
def test_casts_pass_gradients_between_floats_only(run, through, wanted):
    x = unknown(np.float64(2.0))
    (y,) = repeat(2, lambda i, a: (tg.cast(tg.cast(a, through), "float64") * 2.0,), x)
    (g,) = tg.gradients(y, [x], unconnected_gradients="zero")
    assert run(g) == (wanted or 0.0)


@pytest.mark.rule(95)
def test_an_integer_result_of_a_branch_cuts_the_path(run):
    x = unknown(np.float64(2.5))
    k, y = choose(True, lambda: (tg.cast(x, "int32"), x * x), lambda: (0, x))
    assert tg.gradients(tg.cast(k, "float64"), [x]) == [None]
    assert_near(run(tg.gradients(tg.cast(k, "float64") * y, [x])), [10.0])
