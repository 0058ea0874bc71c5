"""Products of matrices: right for all sizes and layouts, and the same bits however they are computed."""

import itertools
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
import tagloom as tg
from tagloom.kernels.cpu.views import multiply_views

from tests.support.settings import ON

SIZES = [
    *itertools.product((1, 2, 5, 6, 7, 13), (1, 3, 64, 100), (1, 7, 16, 31, 64, 70, 130)),
    (40, 300, 1100),
    (3, 2048, 20),
    (3, 2049, 20),
    (1, 7000, 70),
    (130, 4100, 9),
    (40, 6200, 100),
    (300, 64, 80),
    (320, 2048, 70),  # left factors of more than 2 MB
    (40, 600, 500),  # rows that a core does not keep
]
TRANSPOSED = list(itertools.product((False, True), repeat=2))


def factors(dtype, rows, inner, columns, transposed, seed=0):
    random = np.random.default_rng(seed)
    a, b = (random.standard_normal(shape).astype(dtype) for shape in ((rows, inner), (inner, columns)))
    return [np.ascontiguousarray(v.T) if turns else v for v, turns in zip((a, b), transposed, strict=True)]


def exact(a, b, transposed):
    a, b = (v.T if turns else v for v, turns in zip((a, b), transposed, strict=True))
    return a.astype(np.longdouble) @ b.astype(np.longdouble)


def product(a, b, transposed, settings):
    with tg.Graph().as_default() as graph, tg.SyncSession(graph, settings=settings) as session:
        x, y = (tg.placeholder(v.dtype, v.shape) for v in (a, b))
        z = tg.matmul(x, y, transpose_a=transposed[0], transpose_b=transposed[1])
        return session.run(z, {x: a, y: b})


@pytest.mark.sampled(every=8)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("transposed", TRANSPOSED)
def test_sizes_and_layouts(vectors, dtype, transposed):
    with tg.Graph().as_default() as graph, tg.SyncSession(graph, settings=ON) as session:
        x, y = (tg.placeholder(dtype, [None, None]) for _ in range(2))
        z = tg.matmul(x, y, transpose_a=transposed[0], transpose_b=transposed[1])
        for rows, inner, columns in SIZES:
            a, b = factors(dtype, rows, inner, columns, transposed)
            wanted = exact(a, b, transposed)
            found = {bits: session.run(z, {x: a, y: b}) for bits in (512, 256, 0) if vectors(bits) == bits}
            for each in found.values():
                np.testing.assert_allclose(each, wanted, atol=np.finfo(dtype).eps * 8 * inner, rtol=0)
            if 512 in found:
                np.testing.assert_array_equal(found[512], found[256])


@pytest.mark.parametrize("transposed", TRANSPOSED)
@pytest.mark.parametrize("sizes", [(130, 500, 300), (64, 1024, 1030), (700, 300, 40), (130, 5000, 70)])
def test_parts_do_not_matter(transposed, sizes):
    a, b = factors("float32", *sizes, transposed)
    at_once = product(a, b, transposed, replace(ON, workers=0))
    np.testing.assert_array_equal(product(a, b, transposed, replace(ON, workers=2, offload_seconds=0.0)), at_once)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("sizes", [(40, 1100, 2050), (40, 4200, 1030)])
def test_other_rows_do_not_matter(vectors, dtype, sizes):
    # Few rows read a second factor of 8 MB in blocks, many have it packed.
    a, b = factors(dtype, *sizes, (False, False))
    total = np.linspace(-1, 1, sizes[0] * sizes[2], dtype=dtype).reshape(sizes[0], sizes[2])
    with tg.Graph().as_default() as graph, tg.SyncSession(graph, settings=ON) as session:
        x, y, z = (tg.placeholder(dtype, [None, None]) for _ in range(3))
        product = tg.matmul(x, y)
        sums = [product, product + z, product + tg.abs(z)]  # each alone, so that the product is added where it is made
        for bits in (512, 256):
            if vectors(bits) != bits:
                continue
            wanted = [session.run(each, {x: a, y: b, z: total}) for each in sums]
            np.testing.assert_allclose(wanted[0], a @ b, atol=np.finfo(dtype).eps * 8 * sizes[1], rtol=0)
            for rows in (1, 3, 6, 7):
                for each, all_rows in zip(sums, wanted, strict=True):
                    found = session.run(each, {x: a[:rows], y: b, z: total[:rows]})
                    np.testing.assert_array_equal(found, all_rows[:rows])


@pytest.mark.parametrize("transposed", TRANSPOSED)
@pytest.mark.parametrize("sizes", [(3, 70, 70), (40, 40, 40), (33, 16, 1100), (100, 200, 70), (40, 2100, 30)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_factors_that_stay_are_packed_once(dtype, transposed, sizes):
    rows, inner, columns = sizes
    a, b = factors(dtype, rows, inner, columns, transposed)
    with tg.Graph().as_default() as graph:
        x, y = (tg.placeholder(dtype, v.shape) for v in (a, b))

        def body(i, x, total):
            return i + 1, -x, total + tg.matmul(x, y, transpose_a=transposed[0], transpose_b=transposed[1])

        result = tg.while_loop(lambda i, *_: i < 3, body, [0, x, tg.zeros((rows, columns), dtype)])[2]
    found = []
    for settings in (ON, ON.without("llvm"), ON.without("straight")):
        with tg.SyncSession(graph, settings=settings) as session:
            found.append(session.run(result, {x: a, y: b}))
            assert {loop.limited_by == "native" for loop in session.report().loops} == {settings.straight}
    np.testing.assert_array_equal(found[0], found[2])
    np.testing.assert_array_equal(found[1], found[2])
    np.testing.assert_allclose(found[0], exact(a, b, transposed), atol=np.finfo(dtype).eps * 16 * inner, rtol=0)


def fused(x, y, total):
    """Return x * y + total, rounded once."""
    exact = Fraction(x) * Fraction(y) + Fraction(total)
    return float(exact) if exact else x * y + total  # which is exact too, and has the sign of a zero


def in_two_steps(x, y, total):
    return x * y + total


def chains(a, b, transposed, total, add):
    a, b = (v.T if turns else v for v, turns in zip((a, b), transposed, strict=True))
    sums = total.copy()
    for i, j, k in itertools.product(range(len(a)), range(len(b.T)), range(len(b))):
        sums[i, j] = add(float(a[i, k]), float(b[k, j]), float(sums[i, j]))
    return sums


@pytest.mark.parametrize("bits", [512, 256, 0])
@pytest.mark.parametrize("transposed", TRANSPOSED)
@pytest.mark.parametrize("sizes", [(1, 1, 1), (2, 2, 2), (1, 9, 7), (4, 4, 4), (3, 1, 5), (8, 2, 4), (1, 1, 64)])
def test_elements_of_small_products_are_one_chain(vectors, sizes, transposed, bits):
    if vectors(bits) != bits:
        pytest.skip(f"there are no vectors of {bits} bits")
    add = fused if bits else in_two_steps
    rows, inner, columns = sizes
    a, b = factors("float64", rows, inner, columns, transposed)
    a.flat[::3] *= 1e-200  # so that some products are less than the smallest number, which has the sign of a zero
    b.flat[::5] *= -1e-200
    a.flat[::4] = -0.0
    total = np.linspace(-1, 1, rows * columns).reshape(rows, columns)
    total.flat[::2] = -0.0
    zeros = np.zeros((rows, columns))
    with tg.Graph().as_default() as graph:
        x, y, z = (tg.placeholder("float64", v.shape) for v in (a, b, total))
        multiply = partial(tg.matmul, transpose_a=transposed[0], transpose_b=transposed[1])
        body = lambda i, x, p, t: (i + 1, -x, multiply(x, y), t + multiply(-x, y))  # noqa: E731
        _, _, product, added = tg.while_loop(lambda i, *_: i < 2, body, [0, x, tg.zeros((rows, columns), "float64"), z])
        fetches = [multiply(x, y), product, added]
    wanted = [chains(a, b, transposed, zeros, add), chains(-a, b, transposed, zeros, add)]
    wanted.append(chains(a, b, transposed, chains(-a, b, transposed, total, add), add))
    for settings in (ON, ON.without("llvm"), ON.without("straight")):
        with tg.SyncSession(graph, settings=settings) as session:
            for value, wants in zip(session.run(fetches, {x: a, y: b, z: total}), wanted, strict=True):
                np.testing.assert_array_equal(value.view("int64"), wants.view("int64"))
            assert {loop.limited_by == "native" for loop in session.report().loops} == {settings.straight}


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_no_number_gets_lost(value):
    a, b = factors("float32", 5, 20, 70, (False, False))
    a[2, 3] = value
    found = product(a, b, (False, False), ON)
    assert not np.isfinite(found[2]).any()
    assert np.isfinite(np.delete(found, 2, axis=0)).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("transposed", TRANSPOSED)
def test_views_have_the_bits_of_plain_matrices(dtype, transposed):
    for sizes in ((1, 3, 1), (5, 64, 17), (16, 300, 33), (7, 2100, 20)):
        a, b = factors(dtype, *sizes, transposed)
        views = [np.ascontiguousarray(v[::-1, ::-1])[::-1, ::-1] for v in (a, b)]
        wanted = product(a, b, transposed, ON)
        for pair in (views, (a, views[1]), (views[0], b)):
            found = multiply_views(*pair, *transposed)
            assert found.tobytes() == wanted.tobytes()
        total = np.ones_like(wanted)
        np.testing.assert_allclose(multiply_views(*views, *transposed, total), wanted + 1, rtol=1e-4, atol=1e-4)


def test_views_that_do_not_fit_are_refused():
    a, b = np.zeros((8, 6))[::2, ::2], np.zeros((8, 8))[::2, ::2]
    with pytest.raises(ValueError, match="inner dimensions"):
        multiply_views(a, b)
    with pytest.raises(ValueError, match="added"):
        multiply_views(a.T, b, total=np.zeros((2, 4)))


def test_rows_of_views_are_gathered_like_plain_rows():
    """On the step machine `reverse` returns a view, in a native program a copy."""
    with tg.Graph().as_default():
        x, w = tg.placeholder("float32", [40, 9, 16]), tg.placeholder("float32", [16, 16])
        body = lambda t, h: (t + 1, tg.tanh(tg.reverse(h, [0, 1]) @ w + x[t]))  # noqa: E731
        h = tg.while_loop(lambda t, _: t < 40, body, [0, tg.zeros([9, 16])])[1]
        fetches = [h, *tg.gradients(tg.reduce_sum(tg.square(h)), [x, w])]
    random = np.random.default_rng(0)
    feeds = {t: random.standard_normal(t.shape.as_tuple()).astype(np.float32) for t in (x, w)}
    variants = ON, ON.without("straight", "cluster")
    tg.testing.assert_same_under(*variants, fetches=fetches, feeds=feeds, rtol=0, atol=0)


def test_a_view_is_added_to_a_sum_like_a_plain_matrix():
    """A chain of a few terms begins with the total."""
    with tg.Graph().as_default():
        x, w = tg.placeholder("float64", [2, 3]), tg.placeholder("float64", [3, 3])
        body = lambda t, y, total: (t + 1, tg.tanh(tg.reverse(y, [0, 1]) + x), total + tg.reverse(y, [0, 1]) @ w)  # noqa: E731
        fetches = tg.while_loop(lambda t, *_: t < 40, body, [0, x, tg.zeros([2, 3], "float64")])[2]
    random = np.random.default_rng(0)
    feeds = {t: random.standard_normal(t.shape.as_tuple()) for t in (x, w)}
    variants = ON, ON.without("straight", "cluster")
    tg.testing.assert_same_under(*variants, fetches=fetches, feeds=feeds, rtol=0, atol=0)
