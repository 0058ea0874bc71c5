"""Sorting, ranks, places and counts: ties, NaN, sizes that are not known, what is refused, gradients that go on."""

import numpy as np
import pytest
import tagloom as tg

from tests.ops.layouts import differences, second_order


@pytest.fixture(params=["machine", "reference"])
def run(request, graph):
    """Return ``run(fetches, feeds=None)`` of a session; the test runs once on each executor."""
    with tg.SyncSession(graph, executor=request.param, timeout=30.0) as session:
        yield session.run


REAL = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
REAL += ["float16", "float32", "float64", "bfloat16"]


@pytest.mark.parametrize("kind", REAL)
def test_every_real_dtype_is_sorted(run, kind):
    dtype = tg.as_dtype(kind).numpy
    data = np.array([[3, 1, 2, 3, 0, 3], [5, 5, 4, 1, 9, 0]]).astype(dtype)
    x = tg.constant(data)
    assert run(tg.searchsorted(tg.sort(x)[0], x[0], side="right")).tolist() == [6, 2, 3, 6, 1, 6]
    up, down, places, (values, indices), third = run(
        [
            tg.sort(x),
            tg.sort(x, direction="DESCENDING"),
            tg.argsort(x, direction="DESCENDING"),
            tg.top_k(x, 2),
            tg.nth_element(x, 2),
        ]
    )
    assert up.dtype == down.dtype == values.dtype == third.dtype == dtype
    np.testing.assert_array_equal(up.astype(int), [[0, 1, 2, 3, 3, 3], [0, 1, 4, 5, 5, 9]])
    np.testing.assert_array_equal(down.astype(int), [[3, 3, 3, 2, 1, 0], [9, 5, 5, 4, 1, 0]])
    np.testing.assert_array_equal(places, [[0, 3, 5, 2, 1, 4], [4, 0, 1, 2, 3, 5]])
    np.testing.assert_array_equal(indices, [[0, 3], [4, 0]])
    np.testing.assert_array_equal(third.astype(int), [2, 4])


@pytest.mark.parametrize("sorted", [True, False])
@pytest.mark.parametrize("k", [1, 3, 40, 200])
def test_the_largest_are_those_of_a_stable_sort(run, k, sorted):
    rng = np.random.default_rng(k)
    data = rng.integers(0, 50, (3, 2, 200)).astype(np.float32)
    data[rng.random(data.shape) < 0.02] = np.nan
    order = 199 - np.argsort(data[..., ::-1], -1, kind="stable")[..., ::-1][..., :k]
    values, indices = run(tg.top_k(tg.placeholder_with_default(data, [None] * 3), k, sorted=sorted))
    if not sorted:
        order = np.sort(order, -1)
        by_place = np.argsort(indices, -1)
        values, indices = np.take_along_axis(values, by_place, -1), np.take_along_axis(indices, by_place, -1)
    np.testing.assert_array_equal(indices, order)
    np.testing.assert_array_equal(values, np.take_along_axis(data, order, -1))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int8", "uint8", "int64"])
def test_the_least_values_of_a_dtype_are_found_too(run, dtype):
    dtype = tg.as_dtype(dtype)
    least = -np.inf if dtype.is_floating else dtype.min
    data = np.full((2, 40), least).astype(dtype.numpy)
    data[0, [5, 7]], data[1, 39] = 1, 100
    values, indices = run(tg.top_k(data, 4))
    assert values.dtype == dtype.numpy
    assert indices.tolist() == [[5, 7, 0, 1], [39, 0, 1, 2]]
    np.testing.assert_array_equal(values, np.take_along_axis(data, indices, -1))


def test_nan_is_the_largest_everywhere(run):
    x = tg.constant([1.0, np.nan, np.inf, -np.inf])
    assert run(tg.argsort(x)).tolist() == [3, 0, 2, 1]
    assert run(tg.top_k(x, 2)[1]).tolist() == [1, 2]
    assert np.isnan(run(tg.nth_element(x, 0, reverse=True)))
    assert run(tg.searchsorted(tg.sort(x), [np.nan, np.inf], side="right")).tolist() == [4, 3]


@pytest.mark.parametrize("shape", [[2, 5], [None, 5], [None, None], None])
def test_shapes_that_are_known_later(run, shape):
    data = np.random.default_rng(0).normal(size=(2, 5))
    x, k = tg.placeholder("float64", shape), tg.placeholder("int32", [])
    values, indices = tg.top_k(x, k)
    known = (2, None) if shape == [2, 5] else (None, None)
    assert values.shape == indices.shape == tg.Shape(None if shape is None else known)
    found = run([values, tg.sort(x, 0), tg.nth_element(x, k), tg.gradients(values, [x])[0]], {x: data, k: 2})
    np.testing.assert_array_equal(found[0], -np.sort(-data)[:, :2])
    np.testing.assert_array_equal(found[1], np.sort(data, 0))
    np.testing.assert_array_equal(found[2], np.sort(data)[:, 2])
    np.testing.assert_array_equal(found[3], data >= found[0][:, 1:])


def test_equals_share_the_gradient_of_a_rank(run):
    x = tg.constant([2.0, 1.0, 2.0, 5.0])
    assert run(tg.gradients(tg.nth_element(x, 1), [x]))[0].tolist() == [0.5, 0.0, 0.5, 0.0]


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_sorted_values_have_gradients_of_second_order(axis):
    x = np.random.default_rng(1).normal(size=(3, 4))
    second_order(lambda t: tg.sort(t, axis) ** 3, x)


def test_targets_among_the_largest(run):
    scores = np.float32([[1, 2, 2, 0], [np.nan, 2, 1, 0], [1, 2, 3, np.inf], [1, 2, 3, 4], [1, 2, 3, 4]])
    found = run(tg.in_top_k(tg.constant(scores), [1, 1, 2, 4, -1], tg.placeholder_with_default(np.int64(1), [])))
    assert found.tolist() == [True, False, False, False, False]
    assert run(tg.in_top_k(tg.constant(scores), [2, 1, 2, 0, 3], 4)).tolist() == [True, False, False, True, True]
    assert run(tg.in_top_k(tg.zeros([2, 0]), [0, 0], 1)).tolist() == [False, False]


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
@pytest.mark.parametrize("side", ["left", "right"])
def test_places_in_each_sorted_row(run, batch, side):
    rng = np.random.default_rng(len(batch))
    rows, values = np.sort(rng.integers(0, 9, (*batch, 7)), -1), rng.integers(-1, 11, (*batch, 5))
    found = run(tg.searchsorted(tg.constant(rows), tg.constant(values), side=side))
    wanted = [np.searchsorted(r, v, side) for r, v in zip(rows.reshape(-1, 7), values.reshape(-1, 5), strict=True)]
    np.testing.assert_array_equal(found, np.reshape(wanted, values.shape))


@pytest.mark.parametrize("kind", [*REAL, "bool", "complex64", "complex128", "string"])
def test_values_of_every_dtype_without_repetition(run, kind):
    data = np.array([1, 0, 1, 1, 0]).astype(tg.as_dtype(kind).numpy)
    y, places, counts = run(tg.unique_with_counts(tg.constant(data)))
    assert y.tolist() == data[:2].tolist()
    assert places.tolist() == [0, 1, 0, 0, 1]
    assert counts.tolist() == [3, 2]
    out, where = run(tg.setdiff1d(tg.constant(data), tg.constant(data[1:2]), "int64"))
    assert out.tolist() == data[[0, 2, 3]].tolist()
    assert (where.tolist(), where.dtype) == ([0, 2, 3], np.int64)


def test_the_gradient_of_a_value_goes_to_where_it_comes_first(run):
    x = tg.constant([3.0, 1.0, 3.0])
    y, _ = tg.unique(x)
    assert run(tg.convert_to_tensor(tg.gradients(y * y, [x])[0])).tolist() == [6.0, 2.0, 0.0]


def test_a_permutation_is_turned_around_or_refused(run):
    x = tg.placeholder("int64", [None])
    inverse = tg.invert_permutation(x)
    order = np.random.default_rng(3).permutation(50)
    np.testing.assert_array_equal(run(inverse, {x: order}), np.argsort(order))
    for wrong in ([0, 0], [0, 2], [-1, 0]):
        with pytest.raises(tg.OpError):
            run(inverse, {x: np.int64(wrong)})


def test_counts_have_bounds_and_gradients(run):
    arr, weights = tg.placeholder("int32"), tg.placeholder("float64")
    feeds = {arr: np.int32([[1, 3], [1, 0]]), weights: np.array([[1.0, 2.0], [3.0, 4.0]])}
    assert run(tg.bincount(arr), feeds).tolist() == [1, 2, 0, 1]
    assert run(tg.bincount(arr, minlength=6, dtype="int64"), feeds).tolist() == [1, 2, 0, 1, 0, 0]
    total = tg.bincount(arr, weights, maxlength=2)
    assert run(total, feeds).tolist() == [4.0, 4.0]
    assert run(tg.gradients(total, [weights]), feeds)[0].tolist() == [[1.0, 0.0], [1.0, 1.0]]
    assert run(tg.bincount(np.zeros(0, np.int32))).tolist() == []
    assert run(tg.bincount(np.zeros(0, np.int32), minlength=2)).tolist() == [0, 0]
    with pytest.raises(tg.OpError, match="from 0 up"):
        run(tg.bincount(arr), {arr: np.int32([1, -1])})


def test_a_histogram_counts_all_but_nan(run):
    x = np.random.default_rng(4).normal(size=(20, 5)).astype(np.float32)
    x[0, 0] = np.nan
    counts, bins = run(
        [tg.histogram_fixed_width(x, [-1.0, 1.5], 7, "int64"), tg.histogram_fixed_width_bins(x, [-1.0, 1.5], 7)]
    )
    inside = np.clip(x[~np.isnan(x)].astype(float), -1.0, 1.5)
    np.testing.assert_array_equal(counts, np.histogram(inside, 7, (-1.0, 1.5))[0])
    np.testing.assert_array_equal(counts, np.bincount(bins[bins >= 0], minlength=7))
    bounds = tg.placeholder("float32", [2])
    with pytest.raises(tg.OpError, match="value_range"):
        run(tg.histogram_fixed_width(x, bounds), {bounds: [1, 1]})


def test_pairs_of_classes_are_counted(run):
    labels, predictions, weights = np.int64([2, 0, 2]), np.int32([[1], [0], [1]]), np.float32([0.5, 1, 2])
    found = run(tg.confusion_matrix(labels, predictions, weights=weights, dtype="float32"))
    assert found.tolist() == [[1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 2.5, 0.0]]
    with pytest.raises(tg.OpError):
        run(tg.confusion_matrix(labels, labels, num_classes=2))


REFUSED = {
    "direction": (lambda: tg.sort([1], direction="up"), tg.GraphError, "ASCENDING"),
    "axis": (lambda: tg.argsort([1], axis=1), tg.ShapeError, "no such axis"),
    "side": (lambda: tg.searchsorted([1], [1], side="up"), tg.GraphError, "left"),
    "rows": (lambda: tg.searchsorted([[1]], [1]), tg.ShapeError, "as many sorted rows"),
    "k": (lambda: tg.top_k([1, 2], 3), tg.ShapeError, "0 to 2"),
    "k of a scalar": (lambda: tg.top_k(1, 1), tg.ShapeError, "last dimension"),
    "n": (lambda: tg.nth_element([1, 2], 2), tg.ShapeError, "0 to 1"),
    "matrix": (lambda: tg.unique([[1]]), tg.ShapeError, "takes vectors"),
    "range": (lambda: tg.histogram_fixed_width([1.0], [2.0, 1.0]), tg.ShapeError, "begin and end"),
    "infinite": (lambda: tg.histogram_fixed_width([1.0], [-np.inf, np.inf]), tg.ShapeError, "two finite numbers"),
    "unique": (lambda: tg.unique([1], "float32"), tg.GraphError, "out_idx"),
    "counts": (lambda: tg.unique_with_counts([1], "float32"), tg.GraphError, "out_idx"),
    "difference": (lambda: tg.setdiff1d([1], [2], "float32"), tg.GraphError, "index_dtype"),
    "searched": (lambda: tg.searchsorted([1], [1], out_type="float32"), tg.GraphError, "out_type"),
    "histogram": (lambda: tg.histogram_fixed_width([1.0], [0.0, 2.0], dtype="float32"), tg.GraphError, "'dtype'"),
    "argmax": (lambda: tg.argmax([1], output_type="float32"), tg.GraphError, "output_type"),
    "bins": (lambda: tg.histogram_fixed_width([1.0], [1.0, 2.0], 0), tg.ShapeError, "has bins"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_wrong_is_refused_when_it_is_built(graph, case):
    build, error, text = REFUSED[case]
    with pytest.raises(error, match=text):
        build()


@pytest.mark.parametrize("k", [-1, 4])
def test_a_k_that_a_step_knows_is_checked(run, k):
    count = tg.placeholder("int32", [])
    with pytest.raises(tg.OpError, match="k has to be 0 to 3"):
        run(tg.top_k([1, 2, 3], count), {count: k})


def test_gradients_of_the_largest_are_right():
    x = np.random.default_rng(5).normal(size=(2, 30))
    differences(lambda t: tg.top_k(t, 3)[0] ** 2, x)
