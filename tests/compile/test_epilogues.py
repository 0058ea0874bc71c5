"""Convolutions that add a bias and drop what is negative: when they do, and that results stay the same."""

from dataclasses import replace

import numpy as np
import pytest
import tagloom as tg
from tagloom.ir.apply import apply

from tests.support.settings import ON

SPELLINGS = {
    "relu of a sum": (lambda c, b: tg.relu(c + b), "relu=True"),
    "bias first": (lambda c, b: tg.relu(b + c), "relu=True"),
    "bias_add": (lambda c, b: tg.relu(tg.bias_add(c, b)), "relu=True"),
    "no activation": (lambda c, b: c + b, "relu=False"),
    "another": (lambda c, b: tg.sigmoid(c + b), "relu=False"),
    "leaky": (lambda c, b: tg.leaky_relu(c + b, 0.2), "relu=False"),
    "the sum is used too": (lambda c, b: (c + b) * tg.relu(c + b), "relu=False"),
    "only part of the channels": (lambda c, b: tg.relu(c + b[0]), None),
    "the convolution is used too": (lambda c, b: c * tg.relu(c + b), None),
    "only a relu": (lambda c, b: tg.relu(c) + b, None),
    "waits": (lambda c, b: _after_a_check(c, b), None),
}


def _after_a_check(c, b):
    with tg.control_dependencies([tg.Assert(tg.reduce_all(b < 100.0), [b])]):
        return tg.relu(c + b)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_results_and_gradients_are_the_same(spelling, dtype):
    build, found = SPELLINGS[spelling]
    random = np.random.default_rng(0)
    images, filters, bias = (random.standard_normal(s).astype(dtype) for s in ((3, 7, 6, 4), (3, 3, 4, 70), (70,)))
    results = []
    for settings in (ON, ON.without("fuse"), ON.without("native")):
        with tg.Graph().as_default() as graph, tg.SyncSession(graph, settings=settings) as session:
            x, w, b = (tg.placeholder(dtype, v.shape) for v in (images, filters, bias))
            y = build(tg.conv2d(x, w, [1, 1, 1, 1], "SAME"), b)
            step = session.make_step([y, *tg.gradients(tg.reduce_sum(y * y), [x, w, b])], [x, w, b])
            results.append(step(images, filters, bias))
            text = step.to_text()
            assert ("ConvBias" in text) == (found is not None and settings.fuse and settings.native)
            assert found is None or "ConvBias" not in text or found in text
    for value, plain, reference in zip(*results, strict=True):
        np.testing.assert_array_equal(value, plain)
        close, least = {"float32": (2e-4, 1e-4), "float64": (1e-11, 1e-11)}[dtype]
        rounding = np.finfo(dtype).eps * np.abs(reference).max()  # of what is added up
        np.testing.assert_allclose(value, reference, close, max(least, rounding))


def test_a_maximum_with_zero_is_one_too():
    with tg.Graph().as_default() as graph, tg.SyncSession(graph, settings=ON) as session:
        x = tg.placeholder("float32", [None, 5, 4])
        y = tg.maximum(0.0, tg.conv1d(x, tg.ones([2, 4, 3]), 1, "VALID") + tg.constant([0.5, -1.0, -9.0]))
        step = session.make_step([y], [x])
        assert "relu=True" in step.to_text()
        (found,) = step(np.array([[[1.0] * 4] * 5, [[np.nan, 0, 0, 0]] * 5, [[-0.125, 0, 0, 0]] * 5], "float32"))
    np.testing.assert_array_equal(found[:, 0], [[8.5, 7, 0], [np.nan] * 3, [0.25, 0, 0]])


@pytest.mark.parametrize("by_channel", [False, True])
def test_in_loops_and_branches(by_channel):
    with tg.Graph().as_default() as graph:
        x, b = tg.placeholder("float32", [1, 4, 4, 3]), tg.Variable(np.float32([0.1, -0.2, 0.3]))
        w = tg.constant(np.linspace(-1, 1, 27).reshape(3, 3, 3, 1).astype("float32"))

        def layer(x):
            y = tg.depthwise_conv2d(x, w, [1, 1, 1, 1], "SAME") if by_channel else tg.conv2d(x, w, [1] * 4, "SAME")
            return tg.relu(y + b) if by_channel else tg.tile(tg.relu(y + b[:1]), [1, 1, 1, 3])

        looped = tg.while_loop(lambda i, _: i < 3, lambda i, x: (i + 1, layer(x)), [0, x])[1]
        chosen = tg.cond(tg.reduce_sum(x) > 0, lambda: layer(x), lambda: x)
        init = tg.global_variables_initializer()
    results = []
    for settings in (ON, ON.without("fuse")):
        with tg.SyncSession(graph, settings=settings) as session:
            session.run(init)
            results.append(session.run([looped, chosen], {x: np.ones((1, 4, 4, 3), "float32")}))
    np.testing.assert_array_equal(results[0][0], results[1][0])
    np.testing.assert_array_equal(results[0][1], results[1][1])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("groups", [1, 2, 6])
@pytest.mark.parametrize("outer", [6, 12, 36, 150])
def test_gradients_of_images_are_masked_where_they_are_computed(groups, outer, dtype):
    random = np.random.default_rng(0)
    images, filters = (random.standard_normal(s).astype(dtype) for s in ((3, 7, 6, 6), (3, 3, 6 // groups, outer)))
    images[0, 0, 0] = np.nan
    results = []
    for settings in (ON, ON.without("fuse"), ON.without("native")):
        with tg.Graph().as_default() as graph, tg.SyncSession(graph, settings=settings) as session:
            x, w = (tg.placeholder(dtype, v.shape) for v in (images, filters))
            y = tg.conv2d(tg.relu(x), w, [1, 1, 1, 1], "SAME")
            step = session.make_step([tg.gradients(tg.reduce_sum(y * y), [x])], [x, w])
            results.append(step(images, filters)[0][0])
            assert ("ConvInputGradMasked" in step.to_text()) == (settings.fuse and settings.native)
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_allclose(results[0], results[2], *{"float32": (2e-3, 1e-3), "float64": (1e-11, 1e-11)}[dtype])


@pytest.mark.parametrize(
    "mask",
    [
        lambda g, x: tg.where(x >= 0.0, g, 0.0),
        lambda g, x: tg.where(x > 1.0, g, 0.0),
        lambda g, x: tg.where(x > 0.0, 0.0, g),
        lambda g, x: tg.where(x > 0.0, g, 1.0),
        lambda g, x: tg.where(x[:1] > 0.0, g, 0.0),
        lambda g, x: tg.where(x > 0.0, g, 0.0) + g,
    ],
)
def test_other_masks_stay(mask):
    with tg.Graph().as_default() as graph, tg.SyncSession(graph, settings=ON) as session:
        x, w = tg.placeholder("float32", [2, 4, 4, 3]), tg.placeholder("float32", [3, 3, 3, 5])
        (g,) = tg.gradients(tg.reduce_sum(tg.conv2d(x, w, [1, 1, 1, 1], "SAME")), [x])
        assert "Masked" not in session.make_step([mask(g, x)], [x, w]).to_text()


def _trained(loss, w, b):
    return [*tg.gradients(loss, [w, b])]


def _bias_first(loss, w, b):
    """The gradient of the filters waits for something that the gradient of the bias is used for."""
    (g,) = tg.gradients(loss, [b])
    with tg.control_dependencies([tg.Assert(tg.reduce_all(g > -1e9), [g])]):
        return [*tg.gradients(tg.identity(loss) * 1.0, [w]), g]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("channels", "outer"), [(3, 5), (4, 64), (3, 300), (6, 6)])
@pytest.mark.parametrize("by_channel", [False, True])
@pytest.mark.parametrize(("gradients", "joined"), [(_trained, True), (_bias_first, False)])
def test_gradients_of_biases_are_summed_beside_those_of_filters(gradients, joined, by_channel, channels, outer, dtype):
    random = np.random.default_rng(0)
    groups = channels if by_channel else 1
    outer = outer // groups * groups or groups
    shapes = (3, 9, 8, channels), (3, 3, channels // groups, outer), (outer,)
    given = [random.standard_normal(s).astype(dtype) for s in shapes]
    results = []
    for settings in (ON, ON.without("fuse"), replace(ON, workers=2, offload_seconds=0.0)):
        with tg.Graph().as_default() as graph, tg.SyncSession(graph, settings=settings) as session:
            x, w, b = (tg.placeholder(dtype, v.shape) for v in given)
            y = tg.bias_add(tg.conv2d(x, w, [1, 1, 1, 1], "SAME"), b)
            step = session.make_step(gradients(tg.reduce_sum(y * y), w, b), [x, w, b])
            results.append(step(*given))
            assert ("ConvFilterBiasGrad" in step.to_text()) == (settings.fuse and joined)
    for each in results[1:]:
        for value, wanted in zip(results[0], each, strict=True):
            np.testing.assert_array_equal(value, wanted)


def test_sums_that_wait_for_one_another_are_not_joined():
    attrs = {"strides": (1, 1), "padding": "SAME", "dilations": (1, 1)}
    results = []
    for settings in (ON, ON.without("fuse")):
        with tg.Graph().as_default() as graph, tg.SyncSession(graph, settings=settings) as session:
            x, *gradients = (tg.placeholder("float32", [2, 4, 4, 3]) for _ in range(3))
            sums = [apply("SumTo", g, tg.constant(np.array([3], "int32"))) for g in gradients]
            filters = [
                apply("ConvFilterGrad", x + other, tg.constant(np.array([3, 3, 3, 3], "int32")), g, **attrs)
                for g, other in zip(gradients, reversed(sums), strict=True)
            ]
            step = session.make_step([*filters, *sums], [x, *gradients])
            assert step.to_text().count("= ConvFilterBiasGrad(") == settings.fuse
            results.append(step(*(np.arange(96, dtype="float32").reshape(2, 4, 4, 3) % n for n in (7, 5, 3))))
    for joined, plain in zip(*results, strict=True):
        np.testing.assert_array_equal(joined, plain)
