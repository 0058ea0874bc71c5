"""Rows of one id made into one: dtypes, ids that do not come, shapes that are not known, gradients of second order."""

import numpy as np
import pytest
import tagloom as tg

from tests.ops.layouts import differences, second_order


@pytest.fixture(params=["machine", "reference"])
def run(request, graph):
    """Return ``run(fetches, feeds=None)`` of a session; the test runs once on each executor."""
    with tg.SyncSession(graph, executor=request.param, timeout=30.0) as session:
        yield session.run


IDS = [0, 0, 2, 2, 2]
REAL = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
REAL += ["float16", "float32", "float64", "bfloat16"]
DIVISIBLE = ["float16", "float32", "float64", "bfloat16", "complex64", "complex128"]


@pytest.mark.parametrize("kind", [*REAL, "complex64", "complex128"])
def test_every_dtype(run, kind):
    dtype = tg.as_dtype(kind)
    x = tg.constant(np.array([3, 2, 1, 4, 2]).astype(dtype.numpy))
    known = [(tg.segment_sum, [5, 0, 7]), (tg.segment_prod, [6, 1, 8])]
    if not dtype.is_complex:
        known += [(tg.segment_max, [3, 0, 4]), (tg.segment_min, [2, 0, 1])]
    if dtype.is_differentiable:
        known += [(tg.segment_mean, [2.5, 0, 7 / 3])]
    for function, wanted in known:
        found = run(function(x, IDS))
        assert found.dtype == dtype.numpy
        np.testing.assert_allclose(
            found.astype(complex), np.array(wanted).astype(dtype.numpy).astype(complex), rtol=1e-6
        )


@pytest.mark.parametrize("kind", REAL)
def test_ids_that_do_not_come_have_the_limits_of_the_dtype(run, kind):
    dtype = tg.as_dtype(kind)
    x = tg.constant(np.array([3, 2]).astype(dtype.numpy))
    least, largest = run([tg.unsorted_segment_max(x, [1, 1], 2), tg.unsorted_segment_min(x, [1, 1], 2)])
    assert least.tolist() == [np.array(dtype.min, dtype.numpy).tolist(), 3]
    assert largest.tolist() == [np.array(dtype.max, dtype.numpy).tolist(), 2]


def test_infinities_are_extremes_of_runs(run):
    x = tg.constant([-np.inf, 1.0, np.inf])
    assert run([tg.segment_max(x, [0, 2, 2]), tg.segment_min(x, [1, 2, 3])])[0].tolist() == [-np.inf, 0, np.inf]
    assert run(tg.segment_min(-x, [0, 2, 2])).tolist() == [np.inf, 0, -np.inf]
    (slope,) = tg.gradients(tg.segment_max(x, [0, 1, 1]), [x])
    assert run(slope).tolist() == [1, 0, 1]


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_many_short_floats_are_added_up_in_float32(run, kind):
    x, ids = tg.ones([4000], kind), tg.zeros([4000], "int32")
    found = [
        tg.unsorted_segment_sum(x, ids, 1),
        tg.scatter_nd(tg.zeros([4000, 1], "int32"), x, [1]),
        tg.unsorted_segment_mean(x, ids, 1) * 4000,
    ]
    np.testing.assert_allclose(np.ravel(run([tg.cast(y, "float32") for y in found])), [4000.0] * 3, rtol=5e-3)


@pytest.mark.parametrize("name", ["sum", "max", "min", "prod"])
def test_a_step_refuses_ids_that_do_not_fit_the_rows(run, name):
    x, ids = tg.placeholder("float32"), tg.placeholder("int32")
    y = getattr(tg, f"unsorted_segment_{name}")(x, ids, 3)
    assert run(y, {x: np.ones((2, 2)), ids: [[0, 1], [2, 2]]}).shape == (3,)
    with pytest.raises(tg.OpError, match="do not fit the leading dimensions"):
        run(y, {x: np.ones(4), ids: [[0, 1], [2, 2]]})


@pytest.mark.parametrize("kind", DIVISIBLE)
@pytest.mark.parametrize("shape", [(5,), (5, 2), (5, 0)])
def test_means_of_rows(run, kind, shape):
    data = np.arange(np.prod(shape)).reshape(shape).astype(tg.as_dtype(kind).numpy)
    x, ids = tg.constant(data), tg.constant([1, -1, 3, 3, 3])
    mean, root = run([tg.unsorted_segment_mean(x, ids, 4), tg.unsorted_segment_sqrt_n(x, ids, 4)])
    zero = np.zeros(shape[1:])
    wide = data.astype("complex128" if "complex" in kind else "float64")
    np.testing.assert_allclose(mean.astype(wide.dtype), [zero, wide[0], zero, wide[2:].mean(0)], rtol=1e-2)
    np.testing.assert_allclose(root.astype(wide.dtype), [zero, wide[0], zero, wide[2:].sum(0) / 3**0.5], rtol=1e-2)


def test_more_rows_than_a_small_float_can_count(run):
    x, ids = tg.constant(np.float16([4096] + [0] * 4095)), tg.zeros([4096], "int32")
    assert run(tg.unsorted_segment_mean(x, ids, 1)).tolist() == [1.0]
    assert run(tg.unsorted_segment_sqrt_n(x, ids, 1)).tolist() == [64.0]


@pytest.mark.parametrize("shape", [[5, 2], [None, 2], [None, None], None])
@pytest.mark.parametrize("name", ["sum", "mean", "prod", "max", "min"])
def test_shapes_that_are_known_later(run, name, shape):
    data = np.random.default_rng(0).normal(size=(5, 2))
    x, ids = tg.placeholder("float64", shape), tg.placeholder("int32", None if shape is None else [None])
    y = getattr(tg, f"segment_{name}")(x, ids)
    if shape == [5, 2]:
        assert y.shape == [None, 2]
        assert getattr(tg, f"segment_{name}")(x, IDS).shape == [3, 2]
    function = getattr(np, name)
    found = run(y, {x: data, ids: np.int32(IDS)})
    empty = 1.0 if name == "prod" else 0.0
    np.testing.assert_allclose(found, [function(data[:2], 0), [empty] * 2, function(data[2:], 0)])
    if shape != [5, 2]:
        assert run(y, {x: data[:0], ids: np.int32([])}).shape == (0, 2)


X = np.random.default_rng(1).normal(size=(5, 2))
WITH_ZEROS = X * [[1, 1], [0, 1], [1, 0], [0, 0], [1, 0]]


@pytest.mark.parametrize("known", [[5, 2], [None, 2], None])
@pytest.mark.parametrize("x", [X, WITH_ZEROS], ids=["factors", "zeros"])
@pytest.mark.parametrize("ids", [[0, 1, 1, 1, 0], [2, -1, 2, -2, 2], [0, 0, 0, 0, 0]])
def test_products_have_gradients_of_second_order(x, ids, known):
    second_order(lambda t: tg.unsorted_segment_prod(t, ids, 3), x, known)


def test_products_of_elements_have_gradients_of_second_order():
    ids = [[0, 1], [1, 1], [-1, 0], [0, 1], [1, 0]]
    second_order(lambda t: tg.unsorted_segment_prod(t, ids, 2), WITH_ZEROS)


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "max", "min", "sqrt_n"])
def test_unsorted_ones_have_gradients(name):
    function = getattr(tg, f"unsorted_segment_{name}")
    second_order(lambda t: function(t, [0, 1, 1, -1, 0], 2) ** 2, X)


@pytest.mark.parametrize("name", ["sum", "mean", "sqrt_n"])
def test_sparse_ones_have_gradients(name):
    function = getattr(tg, f"sparse_segment_{name}")
    differences(lambda t: function(t, [4, 0, 4, 1], [0, 0, 2, 2], num_segments=4) ** 2, X)


def test_complex_products_are_differentiated(run):
    z = tg.constant(np.array([1 + 2j, 0, 3 - 1j]))
    (g,) = tg.gradients(tg.unsorted_segment_prod(z, [0, 0, 0], 1), [z], tg.constant(np.array([1 + 0j])))
    np.testing.assert_allclose(run(g), np.conj([0, (1 + 2j) * (3 - 1j), 0]))


def test_equals_share_the_gradient_and_nan_takes_none(run):
    x = tg.constant([2.0, 2.0, 1.0, np.nan, 5.0])
    (g,) = tg.gradients(tg.unsorted_segment_max(x, [0, 0, 0, 1, 1], 2), [x])
    assert run(g).tolist() == [0.5, 0.5, 0.0, 0.0, 0.0]


def test_chosen_rows_are_added_up(run):
    data = np.arange(8.0).reshape(4, 2)
    assert run(tg.sparse_segment_sum(data, [3, 0, 3], [0, 0, 2])).tolist() == [[6.0, 8.0], [0.0, 0.0], [6.0, 7.0]]
    assert run(tg.sparse_segment_mean(data, [3, 0], [0, 0], num_segments=2)).tolist() == [[3.0, 4.0], [0.0, 0.0]]
    with pytest.raises(tg.OpError, match=r"\[0, 2\)"):
        run(tg.sparse_segment_sum(data, [3, 0], [0, 2], num_segments=2))


@pytest.mark.parametrize("fed", [True, False])
@pytest.mark.parametrize("ids", [[1, 0], [-1, 0]])
def test_ids_that_are_not_sorted_are_refused(run, ids, fed):
    given = tg.placeholder("int32", [2]) if fed else ids
    with pytest.raises(tg.OpError, match="sorted, from 0 up"):
        run(tg.segment_sum([1, 2], given), {given: ids} if fed else None)


@pytest.mark.parametrize("name", ["max", "min", "prod", "mean", "sqrt_n"])
def test_an_id_that_is_too_large_is_refused(run, name):
    with pytest.raises(tg.OpError):
        run(getattr(tg, f"unsorted_segment_{name}")([1.0, 2.0], [0, 3], 3))


@pytest.mark.parametrize("name", ["sum", "max", "prod"])
def test_without_segments_all_ids_have_to_be_negative(run, name):
    function = getattr(tg, f"unsorted_segment_{name}")
    assert run(function([1.0, 2.0], [-1, -2], 0)).shape == (0,)
    with pytest.raises(tg.OpError, match="no segments"):
        run(function([1.0, 2.0], [-1, 0], 0))


REFUSED = {
    "ids": (lambda: tg.segment_sum([1.0, 2.0], tg.placeholder("int32", [1, 2])), tg.ShapeError, "runs of rows"),
    "rows": (lambda: tg.unsorted_segment_max([1.0, 2.0], [0, 1, 2], 3), tg.ShapeError, "leading dimensions"),
    "integers": (lambda: tg.segment_mean([1, 2], [0, 1]), tg.DtypeError, "divides by counts"),
    "complex": (lambda: tg.segment_max(np.array([1j]), [0]), tg.DtypeError, "UnsortedSegmentMax"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_wrong_is_refused_when_it_is_built(graph, case):
    build, error, text = REFUSED[case]
    with pytest.raises(error, match=text):
        build()
