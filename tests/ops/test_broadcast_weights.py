"""Weights that are spread over values, and what does not fit."""

import numpy as np
import pytest
import tagloom as tg

VALUES = np.zeros((2, 3), np.float32)
FITTING = [(), (1, 1), (2, 1), (1, 3), (2, 3)]
OTHERS = [(1,), (3,), (2, 2), (3, 1), (1, 2, 3)]


def both(shape):
    """Return a graph with the weights' shape known, and one where a step brings it."""
    weights = np.arange(1, 1 + np.prod(shape, dtype=int), dtype=np.int32).reshape(shape)
    for known in (True, False):
        with tg.Graph().as_default() as graph:
            w = tg.constant(weights) if known else tg.placeholder("int32", None)
            yield graph, w, {} if known else {w: weights}, weights


@pytest.mark.parametrize("shape", FITTING)
def test_weights_that_fit(shape):
    for graph, w, feeds, weights in both(shape):
        with graph.as_default():
            spread, check = tg.broadcast_weights(w, VALUES), tg.assert_broadcastable(w, VALUES)
        with tg.SyncSession(graph) as session:
            found, _ = session.run([spread, check], feeds)
        assert spread.shape == [2, 3]
        assert spread.dtype is tg.int32
        np.testing.assert_array_equal(found, np.broadcast_to(weights, (2, 3)))


@pytest.mark.parametrize("shape", OTHERS)
@pytest.mark.parametrize("function", [tg.broadcast_weights, tg.assert_broadcastable])
def test_weights_that_do_not_fit(shape, function):
    (early, late) = both(shape)
    with early[0].as_default(), pytest.raises(tg.ShapeError, match="weights do not fit"):
        function(early[1], VALUES)
    with late[0].as_default():
        made = function(late[1], VALUES)
    with tg.SyncSession(late[0]) as session, pytest.raises(tg.OpError):
        session.run(made, late[2])


@pytest.mark.parametrize(
    ("labels", "predictions", "surplus", "wanted"),
    [
        ([4, 1], [4], 0, ([4], [4])),
        ([4], [4, 1], 0, ([4], [4])),
        ([4], [4, 2], 0, ([4], [4, 2])),
        ([4, 1], [4, 5], 1, ([4], [4, 5])),
        ([4], [4, 5, 1], 1, ([4], [4, 5])),
        ([4, 1], [4, 1], 0, ([4, 1], [4, 1])),
        ([4, None], [4], 0, ([4], [4])),
        (None, [4], 0, (None, [4])),
    ],
)
def test_last_dimensions_of_one(labels, predictions, surplus, wanted):
    with tg.Graph().as_default():
        pair = [tg.placeholder("float32", shape) for shape in (labels, predictions)]
        found = tg.remove_squeezable_dimensions(*pair, surplus)
    assert [t.shape for t in found] == [tg.Shape(shape) for shape in wanted]
