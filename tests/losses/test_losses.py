"""Losses have the values that their formulas give, in every reduction, and refuse what would be broadcast."""

import numpy as np
import pytest
import tagloom as tg
from tagloom import losses
from tagloom.compat import tf1
from tagloom.losses import Reduction

LABELS = np.array([[1.0, 0.0, 1.0], [0.0, 0.0, 1.0]])
X = np.array([[0.5, -1.5, 3.0], [2.0, 0.25, -0.75]])
P = np.array([[0.9, 0.2, 0.5], [0.3, 0.7, 0.1]])
ROW = np.array([[2.0], [0.0]])
KINDS = ["none", "weighted_sum", "weighted_sum_over_batch_size", "weighted_mean", "weighted_sum_by_nonzero_weights"]


def value(function, *arguments, **keywords):
    with tg.Graph().as_default() as graph:
        result = function(*arguments, **keywords)
    with tg.SyncSession(graph) as session:
        return session.run(result)


def reduced(each, weights, kind):
    """Reduce losses of elements in plain NumPy."""
    weights = np.broadcast_to(weights, each.shape)
    total = (each * weights).sum()
    divisor = {
        "weighted_sum": 1,
        "weighted_sum_over_batch_size": each.size,
        "weighted_mean": weights.sum(),
        "weighted_sum_by_nonzero_weights": np.count_nonzero(weights),
    }
    return each * weights if kind == "none" else total / divisor[kind] if divisor[kind] else 0.0


def log_sigmoid(x):
    return -np.log1p(np.exp(-x))


def huber(d):
    return np.where(np.abs(d) <= 1.5, d * d / 2, 1.5 * np.abs(d) - 1.5**2 / 2)


SIGNS = 2 * LABELS - 1
SMOOTH = LABELS * 0.8 + 0.1
SOFT = LABELS / LABELS.sum(1, keepdims=True)
SOFTER = SOFT * 0.7 + 0.1
LOG_SOFTMAX = X - np.log(np.exp(X).sum(1, keepdims=True))
CASES = {
    "absolute_difference": ((LABELS, X), {}, np.abs(X - LABELS)),
    "mean_squared_error": ((LABELS, X), {}, (X - LABELS) ** 2),
    "huber_loss": ((LABELS, X), {"delta": 1.5}, huber(X - LABELS)),
    "hinge_loss": ((LABELS, X), {}, np.maximum(0, 1 - SIGNS * X)),
    "log_loss": ((LABELS, P), {"epsilon": 0.01}, -np.log(np.where(LABELS > 0, P, 1 - P) + 0.01)),
    "cosine_distance": ((LABELS, X), {"axis": -1}, 1 - (LABELS * X).sum(1, keepdims=True)),
    "sigmoid_cross_entropy": (
        (LABELS, X),
        {"label_smoothing": 0.2},
        -SMOOTH * log_sigmoid(X) - (1 - SMOOTH) * log_sigmoid(-X),
    ),
    "softmax_cross_entropy": ((SOFT, X), {"label_smoothing": 0.3}, -(SOFTER * LOG_SOFTMAX).sum(1)),
    "sparse_softmax_cross_entropy": ((np.array([2, 0]), X), {}, -LOG_SOFTMAX[[0, 1], [2, 0]]),
    "compute_weighted_loss": ((X,), {}, X),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CASES)
def test_losses_are_weighted_and_reduced(name, kind):
    arguments, keywords, each = CASES[name]
    row = ROW[:, 0] if each.ndim == 1 else ROW
    for weights in (1.0, 0.5, row, 0.0, np.arange(each.size).reshape(each.shape)):
        found = value(getattr(losses, name), *arguments, weights=weights, reduction=kind, **keywords)
        np.testing.assert_allclose(found, reduced(each, weights, kind), rtol=1e-10, atol=1e-12)
        assert found.dtype == np.float64


def test_pairwise_error_is_the_mean_over_pairs():
    d = X - LABELS
    pairs = [(i, j) for i in range(3) for j in range(i + 1, 3)]
    each = np.array([np.mean([(row[i] - row[j]) ** 2 for i, j in pairs]) for row in d])
    found = value(losses.mean_pairwise_squared_error, LABELS, X, ROW)
    assert found == pytest.approx(each[0] * 2)
    assert value(losses.mean_pairwise_squared_error, LABELS, X) == pytest.approx(each.sum())
    assert value(losses.mean_pairwise_squared_error, LABELS[:, :1], X[:, :1]) == 0


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_pairwise_error_of_many_elements_far_from_their_labels(dtype):
    """Neither does the number of pairs overflow, nor is the variance the small difference of large sums."""
    x = (np.arange(400) % 7 + 121)[None]
    found = value(lambda: losses.mean_pairwise_squared_error(tg.zeros([1, 400], dtype), tg.cast(x, dtype)))
    assert float(found) == pytest.approx(2 * np.var(x, ddof=1), rel=1e-2)
    large = 2.0**13 + np.arange(4.0)[None]
    found = value(losses.mean_pairwise_squared_error, np.zeros((1, 4), "f"), large.astype("f"))
    assert found == pytest.approx(2 * np.var(large, ddof=1), rel=1e-6)


@pytest.mark.parametrize("name", [n for n in CASES if n != "compute_weighted_loss"])
def test_an_empty_batch_has_the_loss_0(name):
    arguments, keywords, _ = CASES[name]
    found = value(getattr(losses, name), *(x[:0] for x in arguments), **keywords)
    assert (found, found.shape) == (0, ())


@pytest.mark.parametrize("dtype", ["float16", "float32", "bfloat16"])
def test_small_dtypes_stay_and_are_summed_in_float32(dtype):
    with tg.Graph().as_default() as graph:
        x = tg.cast(tg.fill([5000], 1.0), dtype)
        loss = losses.mean_squared_error(tg.zeros_like(x), x)
    assert loss.dtype == dtype
    with tg.SyncSession(graph) as session:
        assert float(session.run(loss)) == 1.0


def test_a_fraction_may_be_a_number_of_any_kind():
    plain, small = (value(losses.sigmoid_cross_entropy, LABELS, X, label_smoothing=s) for s in (0.25, np.float32(0.25)))
    assert plain == small


def test_integer_labels_and_columns_of_class_numbers():
    assert value(losses.absolute_difference, [1, 2], [1.5, 2.5]) == 0.5
    column = value(losses.sparse_softmax_cross_entropy, [[2], [0]], X, ROW)
    assert column == value(losses.sparse_softmax_cross_entropy, [2, 0], X, ROW[:, 0])


def test_gradients_leave_out_what_has_no_weight_and_labels_of_softmax():
    with tg.Graph().as_default() as graph:
        labels, x = tg.constant(SOFT), tg.constant(X)
        loss = losses.softmax_cross_entropy(labels, x, ROW[:, 0])
        to_labels, to_x = tg.gradients(loss, [labels, x])
    assert to_labels is None
    with tg.SyncSession(graph) as session:
        found = session.run(to_x)
    np.testing.assert_allclose(found[0], 2 * (np.exp(LOG_SOFTMAX[0]) - SOFT[0]), rtol=1e-12)
    np.testing.assert_array_equal(found[1], 0)


def test_weights_of_0_have_no_gradient_either_where_pairs_are_compared():
    with tg.Graph().as_default() as graph:
        weights = tg.constant(ROW)
        (by_weights,) = tg.gradients(losses.mean_pairwise_squared_error(LABELS, X, weights), [weights])
    with tg.SyncSession(graph) as session:
        found = session.run(by_weights)
    np.testing.assert_allclose(found, [[2 * np.var((X - LABELS)[0], ddof=1)], [0]])


def test_shapes_that_do_not_fit_are_refused():
    with tg.Graph().as_default():
        with pytest.raises(tg.ShapeError, match="labels and predictions"):
            losses.mean_squared_error(LABELS, X[:, :1])
        for weights in (np.ones(3), np.ones((3, 1)), np.ones((1, 2, 3))):
            with pytest.raises(tg.ShapeError, match="weights do not fit"):
                losses.mean_squared_error(LABELS, X, weights)
        with pytest.raises(tg.ShapeError, match="weights do not fit"):
            losses.mean_pairwise_squared_error(LABELS, X, np.ones((2, 3)))
        with pytest.raises(tg.ShapeError, match="needs the axis"):
            losses.cosine_distance(LABELS, X)
        with pytest.raises(tg.ShapeError, match="of one example"):
            losses.mean_pairwise_squared_error(LABELS[0], X[0])
        with pytest.raises(tg.DtypeError, match="floating numbers"):
            losses.mean_squared_error([1], [2])
        with pytest.raises(tg.DtypeError, match="floating numbers"):
            losses.compute_weighted_loss([1])
        with pytest.raises(tg.GraphError, match=r"no such reduction(.|\n)*got: mean"):
            losses.mean_squared_error(LABELS, X, reduction="mean")
        with pytest.raises(tg.GraphError, match="is a fraction"):
            losses.softmax_cross_entropy(SOFT, X, label_smoothing=2)


@pytest.mark.parametrize("shape", [None, [None, None]])
def test_shapes_that_only_a_step_knows_are_refused_by_it(shape):
    with tg.Graph().as_default() as graph:
        labels, x, weights = (tg.placeholder("float64", shape) for _ in range(3))
        loss = losses.mean_squared_error(labels, x, weights)
    ones = np.ones((2, 3))
    with tg.SyncSession(graph) as session:
        for fitting in (ones, ones[:1], ones[:, :1], *([] if shape else [np.float64(1)])):
            assert session.run(loss, {labels: LABELS, x: LABELS + 2.0, weights: fitting}) == 4.0
        wrong = [(LABELS[:, :1], X, ones), (LABELS, X, np.ones((3, 1))), (LABELS, X, np.ones((2, 2)))]
        if shape is None:
            wrong += [(LABELS[0], X, ones), (LABELS, X, ones[0])]
        for arrays in wrong:
            with pytest.raises(tg.OpError):
                session.run(loss, dict(zip((labels, x, weights), arrays, strict=True)))


def test_losses_are_noted_and_added_up():
    with tg.Graph().as_default() as graph:
        with tg.name_scope("head"):
            first = losses.mean_squared_error(LABELS, X)
        second = losses.absolute_difference(LABELS, X)
        losses.hinge_loss(LABELS, X, loss_collection=None)
        losses.hinge_loss(LABELS, X, reduction=Reduction.NONE)
        penalty = tg.constant(np.float64(7))
        losses.add_loss(penalty, "regularization_losses")
        assert losses.get_losses() == [first, second]
        assert losses.get_losses("head") == [first]
        assert losses.get_regularization_losses() == [penalty]
        totals = [losses.get_total_loss(), losses.get_total_loss(False), losses.get_total_loss(scope="head")]
        terms = [first, second, penalty]
    with tg.SyncSession(graph) as session:
        (a, b, c), found = session.run([terms, totals])
    assert found == [pytest.approx(a + b + c), pytest.approx(a + b), pytest.approx(a)]


def test_the_total_of_nothing_is_0_and_that_of_vectors_is_refused():
    assert value(losses.get_total_loss) == 0
    with tg.Graph().as_default():
        losses.add_loss(tg.constant([1.0, 2.0]))
        with pytest.raises(tg.GraphError, match="not a scalar"):
            losses.get_total_loss()


def test_a_function_sees_its_own_losses():
    """All functions build in one graph, and one that is traced again builds once more."""

    @tg.function
    def total(x):
        losses.mean_squared_error(tg.zeros_like(x), x)
        return losses.get_total_loss(scope="mean")

    assert [total.sync(np.full(2, v)) for v in (1.0, 2.0)] == [1, 4]
    assert total.sync(np.float32([3.0])) == 9


def test_the_reductions_are_those_of_the_tests():
    assert {v for k, v in vars(Reduction).items() if k.isupper()} == set(KINDS)


@pytest.mark.parametrize("partitioner", [None, tg.fixed_size_partitioner(2)], ids=["whole", "in shards"])
def test_regularizers_of_variables_are_part_of_the_total(partitioner):
    with tg.Graph().as_default() as graph:
        with tf1.variable_scope("a", regularizer=lambda w: 0.5 * tg.l2_loss(w)):
            w = tf1.get_variable("w", initializer=np.full((4, 2), 2.0, np.float32), partitioner=partitioner)
            tf1.get_variable("v", initializer=[3.0], regularizer=lambda w: None)
        tf1.get_variable("b", initializer=[5.0], regularizer=tg.l2_loss)
        loss = losses.mean_squared_error([[1.0]], [[3.0]])
        totals = [losses.get_total_loss(), losses.get_total_loss(False), losses.get_total_loss(scope="a/")]
        assert len(losses.get_regularization_losses()) == len(tf1.get_regularization_losses()) == 2
        gradient = tg.gradients(totals[0], [*tg.trainable_variables()])[0]
        init = tg.global_variables_initializer()
    with tg.SyncSession(graph) as session:
        session.run(init)
        assert session.run([loss, *totals]) == [4.0, 4.0 + 8.0 + 12.5, 4.0, 8.0]
        assert (session.run(gradient) == 1.0).all()
    assert w.shape.as_list() == [4, 2]
