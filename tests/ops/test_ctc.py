"""Losses and decoders of labels whose times are not known: what has no path, lengths, and what is refused."""

import numpy as np
import pytest
import tagloom as tg
from tagloom.base.errors import GraphError, ShapeError

RANDOM = np.random.default_rng(9)
LOGITS = RANDOM.standard_normal((6, 3, 4))
LABELS, COUNTS, TIMES = np.int32([[1, 2, 2], [3, 0, 0], [1, 1, 1]]), np.int32([3, 1, 3]), np.int32([6, 2, 4])


def loss(x, **how):
    return tg.ctc_loss(LABELS, x, COUNTS, TIMES, **how)


def test_labels_without_a_reading_have_an_infinite_loss_and_no_gradient():
    assert np.isfinite(tg.function(loss).sync(LOGITS)).tolist() == [True, True, False]
    slope = tg.grad(lambda x: tg.reduce_sum(loss(x))).sync(LOGITS)
    assert np.isfinite(slope).all()
    assert not slope[:, 2].any()
    assert slope[:2, 1].all()
    assert not slope[2:, 1].any()


def test_batches_may_come_first():
    turned = LOGITS.transpose(1, 0, 2)
    found = tg.function(lambda x: loss(x, logits_time_major=False)).sync(turned)
    np.testing.assert_array_equal(found, tg.function(loss).sync(LOGITS))


def test_the_blank_may_be_the_last_class():
    last = np.roll(LOGITS, -1, 2)
    moved = tg.function(lambda x: tg.ctc_loss(LABELS - 1, x, COUNTS, TIMES, blank_index=-1)).sync(last)
    np.testing.assert_allclose(moved, tg.function(loss).sync(LOGITS), rtol=1e-12)


def test_the_loss_of_nan_is_nan():
    bad = LOGITS.copy()
    bad[0, 0, 0] = np.nan
    found = tg.function(loss).sync(bad)
    assert np.isnan(found).tolist() == [True, False, False]


def test_the_loss_in_float32_does_not_underflow():
    x = (RANDOM.standard_normal((400, 2, 5)) * 5).astype(np.float32)
    labels = np.tile(np.int32([1, 2, 3, 4]), (2, 20))
    call = tg.function(lambda x: tg.ctc_loss(labels, x, [80, 40], [400, 200]))
    np.testing.assert_allclose(call.sync(x), call.sync(x.astype(np.float64)), rtol=1e-5)
    slope = tg.grad(lambda x: tg.reduce_sum(tg.ctc_loss(labels, x, [80, 40], [400, 200]))).sync(x)
    np.testing.assert_allclose(slope.sum(2), 0, atol=1e-4)


def test_the_hessian_is_symmetric():
    x = LOGITS[:3, :1]
    rows = tg.function(lambda x: tg.hessians(tg.reduce_sum(tg.ctc_loss([[1]], x, [1], [3])), [x])[0]).sync(x)
    matrix = rows.reshape(12, 12)
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-12)
    assert np.abs(matrix).max() > 0.1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[4]], LOGITS[:, :1], [1], [2]), r"labels have to be in \[0, 4\)"),
        (([[0]], LOGITS[:, :1], [1], [2]), "which is the blank"),
        (([[1]], LOGITS[:, :1], [2], [2]), "label_length"),
        (([[1]], LOGITS[:, :1], [1], [7]), "logit_length"),
    ],
)
def test_labels_that_there_are_not_are_refused(arguments, message):
    with pytest.raises(tg.OpError, match=message):
        tg.function(lambda: tg.ctc_loss(*arguments)).sync()


def test_what_does_not_fit_is_refused_while_the_graph_is_built():
    with tg.Graph().as_default():
        with pytest.raises(ShapeError):
            tg.ctc_loss([[1], [2]], LOGITS, [1, 1], [2, 2])
        with pytest.raises(ShapeError):
            tg.ctc_loss([1], LOGITS, [1, 1, 1], [2, 2, 2])
        with pytest.raises(GraphError, match="blank"):
            tg.ctc_loss(LABELS, LOGITS, COUNTS, TIMES, blank_index=4)
        with pytest.raises(GraphError, match="number of classes is not known"):
            tg.ctc_loss(LABELS, tg.placeholder("float32"), COUNTS, TIMES, blank_index=-1)
        with pytest.raises(ShapeError):
            tg.ctc_greedy_decoder(LOGITS, [len(LOGITS)])
        with pytest.raises(ShapeError):
            tg.collapse_repeated([[1, 1], [2, 3]], [2])
        with pytest.raises(ShapeError, match="time steps, rows and classes"):
            tg.ctc_greedy_decoder(LOGITS[0], [3])
        with pytest.raises(GraphError, match="as wide as"):
            tg.ctc_beam_search_decoder(LOGITS, TIMES, beam_width=2, top_paths=3)
        with pytest.raises(GraphError, match="'truth' has to be a sparse tensor"):
            tg.edit_distance(([[0, 0]], [1], [1, 1]), [1, 2])
        with pytest.raises(ShapeError, match="different ranks"):
            tg.edit_distance(([[0, 0]], [1], [1, 1]), ([[0]], [1], [1]))


def test_a_step_counts_lengths_where_the_graph_does_not_know_how_many():
    with tg.Graph().as_default() as graph:
        lengths = tg.placeholder("int32")
        made = [
            tg.ctc_greedy_decoder(np.zeros((4, 2, 3)), lengths)[1],
            tg.collapse_repeated([[1, 1], [2, 3]], lengths)[1],
        ]
    with tg.SyncSession(graph) as session:
        assert session.run(made, {lengths: [1, 2]})[1].tolist() == [1, 2]
        for each in made:
            with pytest.raises(tg.OpError, match="Reshape"):
                session.run(each, {lengths: [1]})


def test_more_paths_than_there_are_are_refused():
    with pytest.raises(tg.OpError, match="there are 1 paths"):
        tg.function(lambda: tg.ctc_beam_search_decoder(LOGITS, [0, 0, 0], 4, 2)[1]).sync()


def test_decoders_agree_where_the_reading_is_certain():
    classes = RANDOM.integers(0, 4, (9, 2))
    x = np.eye(4)[classes] * 50
    with tg.Graph().as_default() as graph:
        (greedy,), _ = tg.ctc_greedy_decoder(x, [9, 5])
        (beam,), score = tg.ctc_beam_search_decoder(x, [9, 5], beam_width=5, merge_repeated=False)
        distance = tg.edit_distance(greedy, beam, normalize=False)
    with tg.SyncSession(graph) as session:
        results = session.run([greedy, beam, distance, score])
    for one, other in zip(*results[:2], strict=True):
        np.testing.assert_array_equal(one, other)
    assert results[2].tolist() == [0, 0]
    np.testing.assert_allclose(results[3], 0, atol=1e-12)


def test_the_beam_finds_the_labels_with_the_smallest_loss():
    x = RANDOM.standard_normal((5, 1, 3))
    with tg.Graph().as_default() as graph:
        (labels,), score = tg.ctc_beam_search_decoder(x, [5], beam_width=200, merge_repeated=False)
        found = tg.ctc_loss(labels.values[None], x, tg.shape(labels.values), [5], blank_index=2)
    with tg.SyncSession(graph) as session:
        best, total = session.run([score, found])
    np.testing.assert_allclose(best[0], -total, rtol=1e-10)


def test_decoders_of_no_rows_and_no_steps():
    for shape in ((4, 0, 3), (0, 2, 3)):
        lengths = np.zeros(shape[1], np.int32)
        with tg.Graph().as_default() as graph:
            (greedy,), total = tg.ctc_greedy_decoder(np.zeros(shape), lengths)
            (beam,), score = tg.ctc_beam_search_decoder(np.zeros(shape), lengths)
        with tg.SyncSession(graph) as session:
            one, other, sums, scores = session.run([greedy, beam, total, score])
        assert one.indices.shape == other.indices.shape == (0, 2)
        assert one.dense_shape.tolist() == other.dense_shape.tolist() == [shape[1], 0]
        assert sums.shape == scores.shape == (shape[1], 1)


def test_repetitions_are_left_out_of_nothing():
    labels, lengths = tg.function(lambda: tg.collapse_repeated(np.zeros((2, 0), np.int32), [0, 0])).sync()
    assert labels.shape == (2, 0)
    assert lengths.tolist() == [0, 0]
