"""dynamic_partition and dynamic_stitch: dealing out and putting together, whatever the order and the shapes."""

import numpy as np
import pytest
import tagloom as tg


@pytest.fixture(params=["machine", "reference"])
def run(request, graph):
    """Return ``run(fetches, feeds=None)`` of a session; the test runs once on each executor."""
    with tg.SyncSession(graph, executor=request.param, timeout=30.0) as session:
        yield session.run


def test_what_is_dealt_out_is_put_together_again(run):
    rng = np.random.default_rng(0)
    data, parts = rng.normal(size=(4, 5, 2)), rng.integers(0, 3, (4, 5))
    x, numbers = tg.placeholder("float64"), tg.placeholder("int64")
    places = tg.dynamic_partition(tg.reshape(tg.range(tg.size(numbers)), tg.shape(numbers)), numbers, 3)
    y = tg.dynamic_stitch(places, tg.dynamic_partition(x, numbers, 3))
    np.testing.assert_array_equal(run(y, {x: data, numbers: parts}), data.reshape(20, 2))


def test_a_part_may_be_empty_and_rows_keep_their_order(run):
    parts = tg.dynamic_partition(tg.constant(["a", "b", "c"]), [2, 0, 2], 4)
    assert [p.tolist() for p in run(parts)] == [["b"], [], ["a", "c"], []]


def test_the_last_row_of_an_index_holds_and_gets_the_gradient(run):
    x, y = tg.constant([1.0, 2.0]), tg.constant([[3.0], [4.0]])
    merged = tg.dynamic_stitch([[4, 1], [[1], [1]]], [x, y])
    slopes = tg.gradients(merged, [x, y], grad_ys=tg.constant([1.0, 10.0, 100.0, 1000.0, 1e4]))
    value, (dx, dy) = run([merged, slopes])
    assert value.tolist() == [0.0, 4.0, 0.0, 0.0, 1.0]
    assert dx.tolist() == [1e4, 0.0]
    assert dy.tolist() == [[0.0], [10.0]]


def test_the_gradient_of_one_part_alone(run):
    x = tg.constant([1.0, 2.0, 3.0])
    _, odd = tg.dynamic_partition(x, [1, 0, 1], 2)
    assert run(tg.gradients(odd * odd, [x]))[0].tolist() == [2.0, 0.0, 6.0]


def test_experts_in_a_loop(run):
    """Each iteration sends rows to one of two functions, and back to their places; the gradient goes the same way."""
    x, count = tg.constant(np.linspace(-2.0, 2.0, 6)), tg.placeholder("int32", [])

    def body(i, a):
        which = tg.cast(a > 0.1, "int32")
        low, high = tg.dynamic_partition(a, which, 2)
        places = tg.dynamic_partition(tg.range(6), which, 2)
        return i + 1, tg.reshape(tg.dynamic_stitch(places, [low + 1.0, high * 0.5]), [6])

    _, y = tg.while_loop(lambda i, _: i < count, body, [0, x])
    value, (slope,) = run([y, tg.gradients(y, [x])], {count: 3})
    wanted, factor = np.linspace(-2.0, 2.0, 6), np.ones(6)
    for _ in range(3):
        factor = np.where(wanted > 0.1, factor * 0.5, factor)
        wanted = np.where(wanted > 0.1, wanted * 0.5, wanted + 1.0)
    np.testing.assert_allclose(value, wanted)
    np.testing.assert_allclose(slope, factor)


def test_static_shapes(graph):
    x = tg.placeholder("float32", [None, 4, 3])
    (part,) = tg.dynamic_partition(x, tg.placeholder("int32", [None, 4]), 1)
    assert part.shape == [None, 3]
    merged = tg.dynamic_stitch([[0, 5], tg.constant(2)], [tg.zeros([2, 3]), tg.placeholder("float32")])
    assert merged.shape == [6, 3]
    assert tg.dynamic_stitch([tg.placeholder("int32", [2])], [tg.zeros([2, 3])]).shape == [None, 3]


@pytest.mark.parametrize(
    ("build", "error", "text"),
    [
        (lambda: tg.dynamic_partition(tg.zeros([3]), [0, 1], 2), tg.ShapeError, "leading dimensions of the data"),
        (lambda: tg.dynamic_partition(tg.zeros([3]), [0, 1, 1], 0), tg.ShapeError, "at least one part"),
        (lambda: tg.dynamic_stitch([[0, 1]], [tg.zeros([3])]), tg.ShapeError, "a row for each index"),
        (lambda: tg.dynamic_stitch([0, 1], [tg.zeros([3]), tg.zeros([2])]), tg.ShapeError, r"\[3\](.|\n)*\[2\]"),
        (lambda: tg.dynamic_stitch([0], []), tg.GraphError, "a tensor of data for each"),
        (lambda: tg.dynamic_stitch([], []), tg.GraphError, "a tensor of data for each"),
    ],
)
def test_what_can_not_fit_is_refused_while_building(graph, build, error, text):
    with pytest.raises(error, match=text):
        build()


def test_numbers_out_of_range(run):
    numbers, data = tg.placeholder("int32", [2]), tg.placeholder("float32")
    parts, merged = tg.dynamic_partition([1.0, 2.0], numbers, 2), tg.dynamic_stitch([numbers], [data])
    with pytest.raises(tg.OpError, match=r"dynamic_partition: indices have to be in \[0, 2\), got 0 to 2") as caught:
        run(parts, {numbers: [0, 2]})
    assert caught.value.source.file == __file__
    with pytest.raises(tg.OpError, match="at least 0, got -1"):
        run(merged, {numbers: [0, -1], data: [1.0, 2.0]})
    with pytest.raises(tg.OpError, match="do not fit indices"):
        run(merged, {numbers: [0, 1], data: [1.0, 2.0, 3.0]})
