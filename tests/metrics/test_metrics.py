"""Metrics over many steps are what they would be of all labels and predictions at once."""

import re

import numpy as np
import pytest
import tagloom as tg
from tagloom import metrics

RANDOM = np.random.default_rng(3)


class Run:
    """A metric, updated with three batches: what the updates gave, the value at the end, the variables."""

    def __init__(self, name, batches, weights=None, **keywords):
        with tg.Graph().as_default() as graph:
            inputs = [tg.placeholder(x.dtype, x.shape) for x in batches[0]]
            weighting = None if weights is None else tg.placeholder("float32", weights[0].shape)
            value, update = getattr(metrics, name)(*inputs, weights=weighting, **keywords)
            initialize = tg.global_variables_initializer()
            assert not any(v.trainable for v in metrics.metric_variables())
        with tg.SyncSession(graph) as session:
            session.run(initialize)
            self.before, self.updates = session.run(value), []
            for k, batch in enumerate(batches):
                feeds = dict(zip(inputs, batch, strict=True))
                feeds |= {} if weights is None else {weighting: weights[k]}
                both = session.run([value, update], feeds)
                self.updates.append(both[1])
                self.together = both[0]
            self.value = session.run(value)


def joined(batches):
    return [np.concatenate(parts) for parts in zip(*batches, strict=True)]


NUMBERS = [[RANDOM.standard_normal(6), RANDOM.standard_normal(6)] for _ in range(3)]
ANSWERS = [[RANDOM.random(6) < 0.5, RANDOM.random(6) < 0.5] for _ in range(3)]
CLASSES = [[RANDOM.integers(0, 3, 6), RANDOM.integers(0, 3, 6)] for _ in range(3)]
WEIGHTS = [np.float32(RANDOM.integers(0, 3, 6)) for _ in range(3)]


def share(w, chosen, among):
    whole = (w * among).sum()
    return (w * chosen * among).sum() / whole if whole else 0.0


FORMULAS = {
    "mean_squared_error": (NUMBERS, lambda y, p, w: np.average((y - p) ** 2, weights=w)),
    "root_mean_squared_error": (NUMBERS, lambda y, p, w: np.average((y - p) ** 2, weights=w) ** 0.5),
    "mean_absolute_error": (NUMBERS, lambda y, p, w: np.average(np.abs(y - p), weights=w)),
    "accuracy": (CLASSES, lambda y, p, w: np.average(y == p, weights=w)),
    "true_positives": (ANSWERS, lambda y, p, w: (w * (y & p)).sum()),
    "false_positives": (ANSWERS, lambda y, p, w: (w * (~y & p)).sum()),
    "false_negatives": (ANSWERS, lambda y, p, w: (w * (y & ~p)).sum()),
    "true_negatives": (ANSWERS, lambda y, p, w: (w * (~y & ~p)).sum()),
    "precision": (ANSWERS, lambda y, p, w: share(w, y, p)),
    "recall": (ANSWERS, lambda y, p, w: share(w, p, y)),
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", FORMULAS)
def test_metrics_are_those_of_all_batches_together(name, weighted):
    batches, formula = FORMULAS[name]
    weights = WEIGHTS if weighted else None
    run = Run(name, batches, weights)
    for k in range(3):
        w = np.concatenate(WEIGHTS[: k + 1]) if weighted else np.ones(6 * (k + 1))
        assert run.updates[k] == pytest.approx(formula(*joined(batches[: k + 1]), w), rel=1e-6)
    assert run.before == 0
    assert run.value == run.together == run.updates[-1], "in one step, the value stands behind the update"
    assert run.value.dtype == (np.float64 if batches is NUMBERS else np.float32)


def test_means_of_values():
    batches = [[x] for x, _ in NUMBERS]
    (values,) = joined(batches)
    assert Run("mean", batches).value == pytest.approx(values.mean())
    assert Run("mean", batches, WEIGHTS).value == pytest.approx(np.average(values, weights=np.concatenate(WEIGHTS)))
    np.testing.assert_allclose(Run("mean_tensor", batches).value, np.mean([x for x, _ in NUMBERS], 0))
    below = Run("percentage_below", batches, threshold=np.float64(0.25))
    assert below.value == pytest.approx((values < 0.25).mean())
    half = [[np.array([True, False])], [np.array([True, True])]]
    assert Run("mean", half).value == 0.75


def test_relative_errors_and_cosine_distances():
    triples = [[y, p, np.where(np.arange(6) == 2, 0, y)] for y, p in NUMBERS]
    y, p, n = joined(triples)
    wanted = np.where(n == 0, 0, np.abs(y - p) / np.where(n == 0, 1, n)).mean()
    assert Run("mean_relative_error", triples).value == pytest.approx(wanted)
    vectors = [[x.reshape(3, 2) for x in pair] for pair in NUMBERS]
    y, p = joined(vectors)
    assert Run("mean_cosine_distance", vectors, dim=-1).value == pytest.approx(1 - (y * p).sum(1).mean())


@pytest.mark.parametrize("name", ["mean_cosine_distance", *FORMULAS])
def test_the_value_before_the_first_step_is_the_number_in_the_docstring(name):
    about = {"dim": -1} if name == "mean_cosine_distance" else {}
    run = Run(name, NUMBERS if about else FORMULAS[name][0], **about)
    found = re.findall(r"(\d) before\s+the\s+first\s+step", getattr(metrics, name).__doc__)
    assert found == [str(int(run.before))]
    assert run.before == (1 if about else 0), "1 minus a mean of 0, as in TensorFlow"


@pytest.mark.parametrize("weighted", [False, True])
def test_intersection_over_union_and_accuracy_of_classes(weighted):
    weights = WEIGHTS if weighted else None
    y, p = joined(CLASSES)
    w = np.concatenate(WEIGHTS) if weighted else np.ones(18)
    matrix = np.zeros((4, 4))
    np.add.at(matrix, (y, p), w)
    hits = np.diag(matrix)[:3]
    run = Run("mean_iou", CLASSES, weights, num_classes=4)
    np.testing.assert_array_equal(run.updates[-1], matrix)
    wanted = hits / (matrix.sum(0) + matrix.sum(1) - np.diag(matrix))[:3]
    assert run.value == pytest.approx(wanted.mean()), "the class that never comes does not count"
    run = Run("mean_per_class_accuracy", CLASSES, weights, num_classes=3)
    np.testing.assert_allclose(run.updates[-1], hits / matrix.sum(1)[:3], rtol=1e-6)
    assert run.value == pytest.approx((hits / matrix.sum(1)[:3]).mean())


SCORES = [[RANDOM.random(50) < 0.4, RANDOM.random(50).astype(np.float32)] for _ in range(3)]
SCORES = [[y, np.float32(0.6 * p + 0.4 * y)] for y, p in SCORES]


def test_counts_at_thresholds():
    y, p = joined(SCORES)
    limits = [0.2, 0.5, 0.75]
    above = p > np.float32(limits)[:, None]
    tp, fp = (above & y).sum(1), (above & ~y).sum(1)
    wanted = {
        "true_positives": tp,
        "false_positives": fp,
        "false_negatives": y.sum() - tp,
        "true_negatives": (~y).sum() - fp,
        "precision": tp / (tp + fp),
        "recall": tp / y.sum(),
    }
    for name, values in wanted.items():
        found = Run(f"{name}_at_thresholds", SCORES, thresholds=limits).value
        np.testing.assert_allclose(found, values, rtol=1e-6)


def test_area_under_the_curve_is_the_chance_that_a_pair_is_in_order():
    y, p = joined(SCORES)
    differences = p[y][:, None] - p[~y]
    wanted = (differences > 0).mean() + (differences == 0).mean() / 2
    assert Run("auc", SCORES, num_thresholds=2000).value == pytest.approx(wanted, abs=2e-3)
    lower, middle, upper = (
        Run("auc", SCORES, summation_method=m, num_thresholds=20).value for m in ("minoring", "trapezoidal", "majoring")
    )
    assert lower < middle < upper


def test_area_under_precision_and_recall():
    """Of all predictions equal, precision is the share of the positive whatever the recall."""
    equal = [[np.array([True, False, False, True, False]), np.full(5, 0.5, np.float32)]]
    run = Run("auc", equal, curve="PR", summation_method="careful_interpolation", num_thresholds=3)
    assert run.value == pytest.approx(0.4)
    perfect = [[np.array([True, False]), np.float32([0.9, 0.1])]]
    assert Run("auc", perfect, curve="PR").value == pytest.approx(1, abs=1e-5)


def test_points_of_the_curve():
    y, p = joined(SCORES)
    limits = np.float32([-1e-7, *(i / 199 for i in range(1, 199)), 1 + 1e-7])[:, None]
    found, kept = ((p > limits) & y).sum(1) / y.sum(), ((p <= limits) & ~y).sum(1) / (~y).sum()
    at = np.argmin(np.abs(kept - 0.813))
    assert Run("sensitivity_at_specificity", SCORES, specificity=0.813).value == pytest.approx(found[at])
    distance = np.abs(found - 0.613)
    at = np.flatnonzero(distance == distance.min())[-1]
    assert Run("specificity_at_sensitivity", SCORES, sensitivity=0.613).value == pytest.approx(kept[at])


def test_a_reset_lets_metrics_begin_anew():
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [None])
        value, update = metrics.mean(x, name="first", metrics_collections="shown", updates_collections=["run"])
        other, update_other = metrics.mean(x, name="second")
        assert [v.name for v in metrics.metric_variables("first")] == ["first/total", "first/count"]
        assert len(metrics.metric_variables()) == 4
        assert (graph.collections["shown"], graph.collections["run"]) == ([value], [update])
        initialize, reset = metrics.reset(), metrics.reset("first")
    with tg.SyncSession(graph) as session:
        session.run(initialize)
        session.run([update, update_other], {x: [4.0, 6.0]})
        session.run(reset)
        assert session.run([value, other]) == [0, 5]
        assert session.run(update, {x: [3.0]}) == 3


def test_metrics_in_a_loop_and_in_a_function():
    with tg.Graph().as_default() as graph:

        def body(i, last):
            _, update = metrics.mean(tg.cast(i, "float32"))
            return i + 1, update

        _, end = tg.while_loop(lambda i, last: i < 5, body, [0, 0.0])
        initialize = tg.global_variables_initializer()
    with tg.SyncSession(graph) as session:
        session.run(initialize)
        assert session.run(end) == 2

    @tg.function
    def seen(x):
        return metrics.mean(x)[0]

    assert [float(seen.sync(x)) for x in (np.float32(1), np.float32(3), np.float32([8, 8]))] == [1, 2, 5]


def test_counts_stay_exact_beyond_what_float32_can_count():
    with tg.Graph().as_default() as graph:
        weight = tg.placeholder("float32", [])
        _, update = metrics.true_positives([True], [True], weight)
        (count,) = metrics.metric_variables()
        initialize = tg.global_variables_initializer()
    with tg.SyncSession(graph) as session:
        session.run(initialize)
        for w in (2.0**24, 1.0, 1.0, 1.0):
            session.run(update, {weight: w})
        assert session.run(count) == 2**24 + 3


def test_shapes_may_differ_by_a_last_dimension_of_1():
    pairs = [[y[:, None], p] for y, p in CLASSES]
    assert Run("accuracy", pairs).value == Run("accuracy", CLASSES).value
    weights, wanted = [w[:, None] for w in WEIGHTS], Run("accuracy", CLASSES, WEIGHTS).value
    assert Run("accuracy", CLASSES, weights).value == wanted
    columns = [[x[:, None] for x in pair] for pair in CLASSES]
    assert Run("accuracy", columns, WEIGHTS).value == wanted
    values = [[x] for x, _ in NUMBERS]
    assert Run("mean", values, weights).value == Run("mean", values, WEIGHTS).value


def test_weights_without_the_last_dimension_are_of_rows():
    pairs = [[x.reshape(3, 2) for x in pair] for pair in NUMBERS]
    rows, spread = [w[:3] for w in WEIGHTS], [w[:3].repeat(2) for w in WEIGHTS]
    for name in ("mean_squared_error", "mean_absolute_error"):
        assert Run(name, pairs, rows).value == pytest.approx(Run(name, NUMBERS, spread).value, rel=1e-12)


def test_literals_beside_float64_do_not_go_through_float32():
    third = np.array([1 / 3])
    for labels, predictions in (([1 / 3], third), (third, [1 / 3])):
        with tg.Graph().as_default() as graph:
            updates = [
                metrics.mean_absolute_error(labels, predictions)[1],
                metrics.mean_relative_error(labels, predictions, [1 / 3])[1],
            ]
            initialize = tg.global_variables_initializer()
        with tg.SyncSession(graph) as session:
            session.run(initialize)
            assert session.run(updates) == [0, 0]


def test_what_can_not_be_measured_is_refused():
    with tg.Graph().as_default() as graph:
        with pytest.raises(tg.ShapeError, match="differ in shape"):
            metrics.accuracy([1, 2], [1, 2, 3])
        with pytest.raises(tg.ShapeError, match="weights do not fit"):
            metrics.mean([1.0, 2.0], [1.0, 2.0, 3.0])
        with pytest.raises(tg.ShapeError, match="known shape"):
            metrics.mean_tensor(tg.placeholder("float32", [None]))
        for options in ({"curve": "X"}, {"summation_method": "X"}, {"summation_method": "careful_interpolation"}):
            with pytest.raises(tg.GraphError, match="no such area"):
                metrics.auc([1], [0.5], **options)
        with pytest.raises(tg.GraphError, match="two thresholds"):
            metrics.auc([1], [0.5], num_thresholds=1)
        with pytest.raises(tg.GraphError, match="thresholds are numbers"):
            metrics.precision_at_thresholds([1], [0.5], [])
        with pytest.raises(tg.GraphError, match="thresholds are numbers"):
            metrics.auc([1], [0.5], thresholds=[0.5, "high"])
        metrics.specificity_at_sensitivity([1], [0.5], np.float32(0.5), num_thresholds=np.int64(3))
        with pytest.raises(tg.GraphError, match="sensitivity is a fraction"):
            metrics.specificity_at_sensitivity([1], [0.5], 2.0)
        with pytest.raises(tg.GraphError, match="a class at least"):
            metrics.mean_iou([0], [0], 0)
        outside = [metrics.auc([1], [1.5])[1], metrics.mean_iou([0], [2], 2)[1], metrics.mean_iou([0], [-1], 2)[1]]
        initialize = tg.global_variables_initializer()
    with tg.SyncSession(graph) as session:
        session.run(initialize)
        for update in outside:
            with pytest.raises(tg.OpError):
                session.run(update)
