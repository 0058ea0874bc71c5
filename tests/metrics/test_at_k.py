"""Metrics at k are what sets of Python say of all rows at once."""

import numpy as np
import pytest
import tagloom as tg
from tagloom import metrics

RANDOM = np.random.default_rng(12)
CLASSES, LABELS, ROWS = 6, 3, 5
SCORES = np.tile(np.arange(CLASSES) / 7.0, (ROWS, 1))
BATCHES = [(RANDOM.integers(-1, CLASSES, (ROWS, LABELS)), RANDOM.permuted(SCORES, axis=1)) for _ in range(3)]
WEIGHTS = [RANDOM.integers(0, 3, ROWS).astype(np.float32) for _ in range(3)]


def sets(labels, scores, k, class_id):
    """Yield the best and the right classes of each row."""
    for row, values in zip(labels, scores, strict=True):
        best, right = list(np.argsort(-values, kind="stable")[:k]), set(row.tolist())
        if class_id is not None:
            best, right = [c for c in best if c == class_id], right & {class_id}
        yield best, right


def precision(rows, weights, k):
    right = sum(w * len(set(best) & labels) for (best, labels), w in zip(rows, weights, strict=True))
    among = sum(w * len(best) for (best, _), w in zip(rows, weights, strict=True))
    return right / among if among else 0


def recall(rows, weights, k):
    right = sum(w * len(set(best) & labels) for (best, labels), w in zip(rows, weights, strict=True))
    among = sum(w * len(labels) for (_, labels), w in zip(rows, weights, strict=True))
    return right / among if among else 0


def average_precision(rows, weights, k):
    total = 0
    for (best, labels), w in zip(rows, weights, strict=True):
        found = [len(set(best[: i + 1]) & labels) / (i + 1) for i, c in enumerate(best) if c in labels]
        total += w * sum(found) / min(k, len(labels))
    return total / sum(weights)


FORMULAS = {"precision_at_k": precision, "recall_at_k": recall, "average_precision_at_k": average_precision}


def streamed(build, batches, weights):
    with tg.Graph().as_default() as graph:
        inputs = [tg.placeholder(x.dtype, [None, *x.shape[1:]]) for x in batches[0]]
        weighting = tg.placeholder("float32", [None])
        value, update = build(*inputs, weighting)
        init = tg.global_variables_initializer()
    with tg.SyncSession(graph) as session:
        session.run(init)
        assert session.run(value) == 0
        for batch, w in zip(batches, weights, strict=True):
            last = session.run(update, {**dict(zip(inputs, batch, strict=True)), weighting: w})
        assert session.run(value) == last
        return last


@pytest.mark.parametrize("class_id", [None, 0, 2, 9])
@pytest.mark.parametrize("k", [1, 3, CLASSES])
@pytest.mark.parametrize("name", FORMULAS)
def test_over_steps(name, k, class_id):
    keywords = {"k": k} if name.startswith("average") else {"k": k, "class_id": class_id}
    if name.startswith("average") and class_id is not None:
        pytest.skip("has no class_id")
    found = streamed(lambda y, p, w: getattr(metrics, name)(y, p, weights=w, **keywords), BATCHES, WEIGHTS)
    rows = [pair for y, p in BATCHES for pair in sets(y, p, k, class_id)]
    np.testing.assert_allclose(found, FORMULAS[name](rows, np.concatenate(WEIGHTS), k), rtol=1e-6)


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("kind", ["precision", "recall"])
def test_of_classes_that_are_sorted_already(kind, k):
    batches = [(y, np.argsort(-p, axis=-1)) for y, p in BATCHES]
    found = streamed(lambda y, p, w: getattr(metrics, f"{kind}_at_top_k")(y, p, k, weights=w), batches, WEIGHTS)
    wanted = streamed(lambda y, p, w: getattr(metrics, f"{kind}_at_k")(y, p, k, weights=w), BATCHES, WEIGHTS)
    assert found == wanted


def value(build):
    with tg.Graph().as_default() as graph:
        _, update = build()
        init = tg.global_variables_initializer()
    with tg.SyncSession(graph) as session:
        session.run(init)
        return session.run(update)


@pytest.mark.parametrize("name", FORMULAS)
def test_sparse_labels(name):
    scores = BATCHES[0][1]
    rows = [[1, 2], [], [5], [0, 3, 4], [2]]
    indices = [[i, j] for i, row in enumerate(rows) for j in range(len(row))]
    sparse = tg.SparseTensorValue(np.int64(indices), np.int64([c for row in rows for c in row]), np.int64([5, 3]))
    found = value(lambda: getattr(metrics, name)(sparse, scores, k=2))
    best = np.argsort(-scores, axis=-1)[:, :2].tolist()
    pairs = [(b, set(r)) for b, r in zip(best, rows, strict=True)]
    if name.startswith("average"):
        wanted = average_precision([p for p in pairs if p[1]], np.ones(4), 2) * 4 / 5  # a row without labels is 0
    else:
        wanted = FORMULAS[name](pairs, np.ones(5), 2)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_one_label_for_each_row_is_top_k_accuracy():
    scores, labels = BATCHES[0][1], np.int32([0, 1, 2, 3, 4])
    wanted = np.mean([label in np.argsort(-row)[:2] for row, label in zip(scores, labels, strict=True)])
    np.testing.assert_allclose(value(lambda: metrics.recall_at_k(labels, scores, 2)), wanted)


def test_more_dimensions():
    labels, scores = BATCHES[0]
    flat = value(lambda: metrics.precision_at_k(labels[:4], scores[:4], 2))
    deep = value(lambda: metrics.precision_at_k(labels[:4].reshape(2, 2, LABELS), scores[:4].reshape(2, 2, CLASSES), 2))
    assert flat == deep


def test_a_label_given_twice_counts_once():
    assert value(lambda: metrics.recall_at_k([[1, 1, 0]], [[0.1, 0.9]], 1)) == 0.5
    assert value(lambda: metrics.precision_at_top_k([[1]], [[1, 1]])) == 1


@pytest.mark.parametrize("shapes", [((1, 1), (4, 3)), ((4, 1), (1, 3)), ((1,), (4, 3)), ((2, 1), (4, 3))])
def test_rows_that_only_the_step_knows_are_not_broadcast(shapes):
    labels, scores = (np.ones(shape, dtype) for shape, dtype in zip(shapes, ("int64", "float32")))
    measures = [
        lambda y, x: metrics.precision_at_k(y, x, 2),
        lambda y, x: metrics.recall_at_k(y, x, 2),
        lambda y, x: metrics.average_precision_at_k(y, x, 2),
        lambda y, x: metrics.precision_at_top_k(y, tg.cast(x, "int64"), 2),
    ]
    for measure in measures:
        with tg.Graph().as_default() as graph:
            y, x = (tg.placeholder(a.dtype, [None] * a.ndim) for a in (labels, scores))
            update, init = measure(y, x)[1], tg.global_variables_initializer()
        with tg.SyncSession(graph) as session:
            session.run(init)
            with pytest.raises(tg.OpError, match="rows of labels and predictions"):
                session.run(update, {y: labels, x: scores})


def test_what_does_not_fit(graph):
    labels, scores = BATCHES[0]
    with pytest.raises(tg.ShapeError, match="other rows"):
        metrics.precision_at_k(labels[:3], scores, 2)
    with pytest.raises(tg.DtypeError, match="numbers of classes"):
        metrics.recall_at_k(labels * 1.0, scores, 2)
    with pytest.raises(tg.DtypeError, match="floating"):
        metrics.recall_at_k(labels, labels, 2)
    with pytest.raises(tg.GraphError, match="'k'"):
        metrics.recall_at_k(labels, scores, 0)
