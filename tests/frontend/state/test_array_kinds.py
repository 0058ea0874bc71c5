"""TensorArrays of unusual dtypes and sizes."""

import numpy as np
import pytest
import tagloom as tg


@pytest.mark.parametrize("executor", ["machine", "reference"])
def test_arrays_of_strings(executor):
    with tg.Graph().as_default() as graph:
        words = tg.constant(["a", "b", "c"])
        array = tg.TensorArray("string", 3).unstack(words)
        joined = tg.scan(lambda a, word: a + word, words)
        doubled = tg.map_fn(lambda word: word + word, tg.constant([["a"], ["b"]]))
    with tg.SyncSession(graph, executor=executor) as session:
        found = session.run([array.read(1), joined, doubled])
    assert [value.tolist() for value in found] == ["b", ["a", "ab", "abc"], [["aa"], ["bb"]]]


def test_a_negative_size_is_refused():
    with tg.Graph().as_default() as graph:
        size = tg.TensorArray("float32", tg.placeholder_with_default(-1, [])).size()
    with tg.SyncSession(graph) as session, pytest.raises(tg.TensorArrayError, match="is negative"):
        session.run(size)


def test_lists_with_tensors_are_stacked(run):
    a, b, t = tg.constant(1.0), tg.constant(2.0), tg.constant([1.0, 2.0], "float64")
    assert run(tg.reduce_sum([a, b])) == 3.0
    np.testing.assert_array_equal(run(tg.add([a, 5], [[b, 1.0], [0.0, 0.0]])), [[3.0, 6.0], [1.0, 5.0]])
    np.testing.assert_array_equal(run(t + [t[0], 2.0]), [2.0, 4.0])
    stacked = tg.convert_to_tensor([[0.0, 0.0], t, [1, t[1]]])
    assert stacked.dtype is tg.float64
    np.testing.assert_array_equal(run(stacked), [[0.0, 0.0], [1.0, 2.0], [1.0, 2.0]])
    run(tg.Assert(a < b, [a, [10], [b]]))


@pytest.mark.parametrize(
    ("value", "shape", "wanted"),
    [
        ([1, 2, 3, 4, 5, 6], [2, 3], [[1, 2, 3], [4, 5, 6]]),
        ([[1, 2], [3, 4]], [4], [1, 2, 3, 4]),
        (7, [2, 1], [[7], [7]]),
        ([1, 2], [2, 2], [[1, 2], [1, 2]]),
        ([], [0, 3], []),
        ([5], [], 5),
    ],
)
def test_a_constant_in_a_shape(graph, value, shape, wanted):
    found = tg.constant(value, shape=shape)
    assert found.shape.as_list() == shape
    assert found.op.attrs["value"].tolist() == wanted


@pytest.mark.parametrize(("value", "shape"), [([1.0, 2.0], [3]), ([1, 2, 3], [2, 2]), ([[1, 2]], [3]), ([], [2])])
def test_a_constant_that_does_not_fit_its_shape(graph, value, shape):
    with pytest.raises(tg.ShapeError, match="does not fit the shape"):
        tg.constant(value, shape=shape)
