"""Losses over many classes: all of them in shards, or a sample of them."""

import re

import numpy as np
import pytest
import tagloom as tg
from tagloom.frontend.embedding import sampled as module

CLASSES, WIDTH, BATCH = 9, 4, 5
RANDOM = np.random.default_rng(0)
WEIGHTS, BIASES = RANDOM.standard_normal((CLASSES, WIDTH)), RANDOM.standard_normal(CLASSES)
INPUTS = RANDOM.standard_normal((BATCH, WIDTH))
LABELS = np.array([0, 8, 4, 4, 1])
SAMPLE = np.array([4, 7, 0])
EXPECTED = RANDOM.uniform(0.1, 1.0, (BATCH, 1)), RANDOM.uniform(0.1, 1.0, 3)


def cut(values, strategy, count):
    return [values[i::count] for i in range(count)] if strategy == "mod" else np.array_split(values, count)


def logits_of(labels=LABELS[:, None], remove=True):
    """Return the logits of the true and of the sampled classes, less the logarithms of what is expected."""
    logits = INPUTS @ WEIGHTS.T + BIASES
    true = np.take_along_axis(logits, labels, 1) - np.log(EXPECTED[0])
    others = logits[:, SAMPLE] - np.log(EXPECTED[1])
    if remove:
        others[(labels[:, :, None] == SAMPLE).any(1)] = -np.inf
    return true, others


def softmax_loss(true, others):
    shares = np.exp(np.hstack([true, others]))
    return -np.log(shares[:, : true.shape[1]] / shares.sum(1, keepdims=True)).mean(1)


def nce(true, others):
    return np.log1p(np.exp(others)).sum(1) + (np.log1p(np.exp(true)) - true / true.shape[1]).sum(1)


@pytest.mark.parametrize("labels", [LABELS[:, None], np.stack([LABELS, (LABELS + 3) % CLASSES], 1)], ids=["one", "two"])
@pytest.mark.parametrize("remove", [True, False])
@pytest.mark.parametrize(("strategy", "count"), [("mod", 1), ("mod", 2), ("div", 4)])
def test_sampled_losses(run, labels, remove, strategy, count):
    weights, biases = ([tg.constant(p) for p in cut(v, strategy, count)] for v in (WEIGHTS, BIASES))
    x, true = tg.constant(INPUTS), labels.shape[1]
    sample = SAMPLE, np.tile(EXPECTED[0], true), EXPECTED[1]
    keywords = {
        "num_true": true,
        "sampled_values": sample,
        "remove_accidental_hits": remove,
        "partition_strategy": strategy,
    }
    losses = [f(weights, biases, labels, x, 3, CLASSES, **keywords) for f in (tg.sampled_softmax_loss, tg.nce_loss)]
    for value, reference in zip(run(losses), (softmax_loss, nce), strict=True):
        np.testing.assert_allclose(value, reference(*logits_of(labels, remove)))


def test_sampling_does_not_matter_to_what_expects_all_classes(run):
    """A sample of all classes but the true one, each expected once, is the whole softmax."""
    everything = np.arange(CLASSES), np.ones((BATCH, 1)), np.ones(CLASSES)
    given = tg.constant(WEIGHTS), tg.constant(BIASES)
    of_sample = tg.sampled_softmax_loss(
        *given, LABELS[:, None], tg.constant(INPUTS), CLASSES, CLASSES, sampled_values=everything
    )
    full = tg.full_softmax_loss(*given, LABELS, tg.constant(INPUTS))
    a, b = run([of_sample, full])
    np.testing.assert_allclose(a, b)
    for wanted, got in zip(
        run(tg.gradients(full, given)), map(tg.convert_to_tensor, tg.gradients(of_sample, given)), strict=True
    ):
        np.testing.assert_allclose(run(got), wanted, atol=1e-12)


def test_single_and_half_precision_and_unknown_shapes(run):
    for dtype, bound in (("float32", 1e-5), ("float16", 2e-2)):
        w, b, x, labels, sampled = (tg.placeholder(t, None) for t in (*[dtype] * 3, "int32", "int64"))
        expected = [e.astype(dtype) for e in EXPECTED]
        loss = tg.sampled_softmax_loss(w, b, labels, x, 3, CLASSES, sampled_values=(sampled, *expected))
        arrays = [v.astype(dtype) for v in (WEIGHTS, BIASES, INPUTS)]
        feeds = dict(zip((w, b, x, labels, sampled), [*arrays, LABELS[:, None].astype("int32"), SAMPLE], strict=True))
        value, gradient = run([loss, tg.gradients(loss, x)[0]], feeds)
        assert value.dtype == dtype
        np.testing.assert_allclose(value, softmax_loss(*logits_of()), rtol=bound)
        assert np.isfinite(gradient).all()


def test_what_is_expected_less_often_than_float16_can_say(run):
    arrays = [tg.constant(v.astype("float16")) for v in (WEIGHTS, BIASES)]
    rare = [1e-9 * e for e in EXPECTED]
    inputs = tg.constant(INPUTS.astype("float16"))
    loss = tg.sampled_softmax_loss(*arrays, LABELS[:, None], inputs, 3, CLASSES, sampled_values=(SAMPLE, *rare))
    np.testing.assert_allclose(run(loss), softmax_loss(*logits_of()), rtol=3e-2)


@pytest.mark.parametrize("split", [True, False])
def test_a_shard_without_classes(run, split):
    parts = [(WEIGHTS[a:b], BIASES[a:b]) for a, b in ((0, 4), (4, 4), (4, 9))]
    weights, biases = ([tg.constant(p) for p in each] for each in zip(*parts, strict=True))
    loss = tg.full_softmax_loss(weights, biases if split else tg.constant(BIASES), LABELS, tg.constant(INPUTS), "div")
    by_weights = tg.gradients(loss, [weights[0], weights[2]])
    np.testing.assert_allclose(run(loss), full_loss())
    assert all(np.isfinite(g).all() for g in run(by_weights))


def test_weights_take_the_dtype_of_the_inputs(run):
    arguments = WEIGHTS.astype("f"), BIASES.astype("f"), LABELS[:, None], tg.constant(INPUTS), 3, CLASSES
    loss = tg.nce_loss(*arguments, sampled_values=(SAMPLE, *EXPECTED))
    np.testing.assert_allclose(run(loss), nce(*logits_of(remove=False)), rtol=1e-6)


def test_no_examples_have_no_loss(run):
    sample = SAMPLE, np.ones((0, 1)), EXPECTED[1]
    arguments = tg.constant(WEIGHTS), tg.constant(BIASES), np.zeros((0, 1), int), tg.zeros([0, WIDTH], "float64"), 3
    loss = tg.sampled_softmax_loss(*arguments, CLASSES, sampled_values=sample)
    by_weights = tg.convert_to_tensor(tg.gradients(loss, arguments[0])[0])
    assert run(loss).shape == (0,)
    assert run(by_weights).tolist() == np.zeros((CLASSES, WIDTH)).tolist()


def test_gradients_are_rows_and_the_sample_has_none(run):
    weights, expected = tg.constant(WEIGHTS), [tg.constant(e) for e in EXPECTED]
    loss = tg.sampled_softmax_loss(
        weights,
        tg.constant(BIASES),
        LABELS[:, None],
        tg.constant(INPUTS),
        3,
        CLASSES,
        sampled_values=(SAMPLE, *expected),
    )
    by_weights, *others = tg.gradients(loss, [weights, *expected])
    assert others == [None, None]
    assert isinstance(by_weights, tg.IndexedSlices)
    assert run(by_weights.indices).tolist() == [*LABELS, *SAMPLE]


@pytest.mark.parametrize("loss", ["sampled_softmax_loss", "nce_loss"])
def test_the_sample_comes_from_a_sampler_by_default(run, monkeypatch, loss):
    calls = []

    def sampler(true_classes, num_true, num_sampled, unique, range_max, seed=None):
        calls.append((true_classes.dtype, true_classes.shape, num_true, num_sampled, unique, range_max, seed))
        return tg.constant(SAMPLE), *map(tg.constant, EXPECTED)

    monkeypatch.setattr(module, "log_uniform_candidate_sampler", sampler)
    arguments = WEIGHTS, BIASES, LABELS[:, None].astype("int32"), tg.constant(INPUTS), 3, CLASSES
    by_default = getattr(tg, loss)(*arguments, seed=7)
    given = getattr(tg, loss)(*arguments, sampled_values=(SAMPLE, *EXPECTED))
    a, b = run([by_default, given])
    np.testing.assert_array_equal(a, b)
    assert calls == [("int64", (BATCH, 1), 1, 3, True, CLASSES, 7)]


def test_accidental_hits(run):
    classes, sampled = [[1, 2], [3, 3], [5, 9], [9, 1]], [9, 1, 7]
    examples, ids, weights = run(list(tg.compute_accidental_hits(classes, sampled, 2)))
    assert (examples.tolist(), ids.tolist()) == ([0, 2, 3, 3], [1, 0, 0, 1])
    assert (examples.dtype, ids.dtype, weights.dtype) == ("int32", "int64", "float32")
    assert (weights == np.finfo(np.float32).min).all()
    assert [part.shape for part in run(list(tg.compute_accidental_hits(classes, [100], 2)))] == [(0,)] * 3


def test_all_of_a_class_that_was_sampled_twice_are_hits(run):
    assert run(list(tg.compute_accidental_hits([[3]], [3, 1, 3], 1)))[1].tolist() == [0, 2]


def full_loss():
    logits = INPUTS @ WEIGHTS.T + BIASES
    return np.log(np.exp(logits).sum(1)) - logits[np.arange(BATCH), LABELS]


@pytest.mark.parametrize(("strategy", "count"), [("mod", 1), ("mod", 2), ("div", 2), ("mod", 4), ("div", 4)])
@pytest.mark.parametrize("split", [True, False])
def test_the_full_softmax_and_its_gradients(run, strategy, count, split):
    weights = [tg.constant(p) for p in cut(WEIGHTS, strategy, count)]
    biases = [tg.constant(p) for p in cut(BIASES, strategy, count)] if split else [tg.constant(BIASES)]
    x = tg.constant(INPUTS)
    loss = tg.full_softmax_loss(weights, biases, LABELS, x, strategy)
    whole = tg.constant(WEIGHTS), tg.constant(BIASES)
    plain = tg.sparse_softmax_cross_entropy_with_logits(
        labels=LABELS, logits=tg.matmul(x, whole[0], transpose_b=True) + whole[1]
    )

    def derivatives(loss, xs):
        first = tg.gradients(tg.square(loss), xs)
        return [*first, *tg.gradients([tg.reduce_sum(tg.square(g)) for g in first], xs)]

    value, found = run([loss, derivatives(loss, [x, *weights])])
    np.testing.assert_allclose(value, full_loss())
    by_x, by_weights, again_x, again_weights = run(derivatives(plain, [x, whole[0]]))
    wanted = [by_x, *cut(by_weights, strategy, count), again_x, *cut(again_weights, strategy, count)]
    for got, right in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got, right, atol=1e-10)
    by_biases = run(tg.gradients(loss, biases))
    (right,) = run(tg.gradients(plain, whole[1:]))
    for got, part in zip(by_biases, cut(right, strategy, len(biases)), strict=True):
        np.testing.assert_allclose(got, part, atol=1e-12)


def test_large_logits_and_unknown_shapes(run):
    w, b, x, labels = (tg.placeholder(t, None) for t in (*["float32"] * 3, "int32"))
    loss = tg.full_softmax_loss([w, w[:1]], [b, b[:1]], labels, x, "div")
    feeds = {w: [[1000.0], [0.0]], b: [0.0, 5.0], x: [[1.0], [-1.0]], labels: [0, 1]}
    np.testing.assert_allclose(run(loss, feeds), [np.log(2), 0.0], atol=1e-4)  # of a sum near 1000


@pytest.mark.parametrize("strategy", ["mod", "div"])
@pytest.mark.parametrize("wrong", [-1, CLASSES, 1000])
def test_a_class_that_is_not_there_is_an_error(run, strategy, wrong):
    labels = tg.constant(np.array([1, 2, wrong, 0, 3]))
    loss = tg.full_softmax_loss(cut(WEIGHTS, strategy, 3), cut(BIASES, strategy, 3), labels, INPUTS, strategy)
    with pytest.raises(tg.OpError, match="indices have to be in"):
        run(loss)


@pytest.mark.parametrize("strategy", ["mod", "div"])
def test_logits_stay_where_their_weights_are(graph, strategy):
    """A training step sends inputs, labels and a few numbers for each example, but neither logits nor weights."""
    classes, width, batch = 1000, 4, 8
    keywords = {"devices": ["/cpu:0", "/cpu:1"], "partition_strategy": strategy}
    halves = tg.fixed_size_partitioner(2)
    weights = tg.PartitionedVariable(tg.ones, halves, shape=[classes, width], **keywords)
    biases = tg.PartitionedVariable(tg.zeros, halves, shape=[classes], **keywords)
    x, labels = tg.placeholder("float32", [batch, width]), tg.placeholder("int64", [batch])
    with tg.device("/cpu:0"):
        loss = tg.reduce_mean(tg.full_softmax_loss(weights, biases, labels, x))
    train = tg.training.GradientDescentOptimizer(0.5).minimize(loss)
    by_x, init = tg.gradients(loss, x), tg.global_variables_initializer()
    with tg.SyncSession(graph, devices=2) as session:
        session.run(init)
        step = session.make_step([loss, by_x, train], [x, labels])
        assert not re.search(rf"Recv\(.*{classes // 2}", step.to_text())
        value, _, _ = step(np.ones((batch, width), np.float32), np.arange(batch))
        np.testing.assert_allclose(value, np.log(classes), rtol=1e-5)
        assert sum(each.bytes for each in session.report().traffic) < batch * (2 * width * 4 + 40)


def sampled(*expected, weights=WEIGHTS, biases=BIASES):
    """Return a loss with other expected counts or parameters, which could broadcast."""
    sample = SAMPLE, *expected
    return tg.sampled_softmax_loss(weights, biases, LABELS[:, None], INPUTS, 3, CLASSES, sampled_values=sample)


SAMPLED = {"sampled_values": (SAMPLE, *EXPECTED)}
WRONG = [
    (lambda: tg.sampled_softmax_loss(WEIGHTS, BIASES, LABELS, INPUTS, 3, CLASSES, **SAMPLED), "as many as num_true"),
    (lambda: tg.nce_loss(WEIGHTS, BIASES, LABELS[:, None], INPUTS, 3, CLASSES, 2, **SAMPLED), "as many as num_true"),
    (lambda: tg.nce_loss(WEIGHTS, BIASES, LABELS[:, None], INPUTS, 4, CLASSES, **SAMPLED), "as num_sampled"),
    (lambda: sampled(EXPECTED[0][:, 0], EXPECTED[1]), "true_expected_count"),
    (lambda: sampled(EXPECTED[0], EXPECTED[1][:, None]), "sampled_expected_count"),
    (lambda: tg.full_softmax_loss(WEIGHTS, BIASES[:, None], LABELS, INPUTS), "biases of classes"),
    (
        lambda: tg.nce_loss(WEIGHTS, BIASES[:, None], LABELS[:, None], INPUTS, 3, CLASSES, **SAMPLED),
        "biases of classes",
    ),
    (lambda: tg.nce_loss(WEIGHTS[:, 0], BIASES, LABELS[:, None], INPUTS, 3, CLASSES, **SAMPLED), "weights of classes"),
    (lambda: tg.compute_accidental_hits([1, 2], SAMPLE, 1), "as many as num_true"),
    (lambda: tg.full_softmax_loss(WEIGHTS, BIASES, LABELS[:, None], INPUTS), "one label"),
    (lambda: tg.full_softmax_loss(WEIGHTS, BIASES, LABELS[1:], INPUTS), "one label"),
    (lambda: tg.full_softmax_loss([WEIGHTS] * 3, [BIASES] * 2, LABELS, INPUTS), "other shards than the weights"),
]


@pytest.mark.parametrize(("call", "text"), WRONG)
def test_what_does_not_fit_is_refused(call, text):
    with pytest.raises((tg.ShapeError, tg.GraphError), match=text):
        call()
