"""Layers of convolution: values by plain sums over windows, shapes of kernels, formats, sizes that are not known.

Values and gradients are compared with PyTorch's in `tests/peers/test_layers.py`.
"""

import numpy as np
import pytest
import tagloom as tg

RANDOM = np.random.default_rng(4)


def draw(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def windows(x, kernel, stride, dilation):
    """Return the VALID convolution of [batch, *sizes, channels] with [*window, channels, filters], window by window."""
    reach = [(k - 1) * dilation + 1 for k in kernel.shape[:-2]]
    counts = [(d - r) // stride + 1 for d, r in zip(x.shape[1:-1], reach)]
    result = np.zeros((x.shape[0], *counts, kernel.shape[-1]))
    for at in np.ndindex(*counts):
        seen = x[(slice(None), *(slice(i * stride, i * stride + r, dilation) for i, r in zip(at, reach)))]
        result[(slice(None), *at)] = np.tensordot(seen, kernel, kernel.ndim - 1)
    return result


CONVOLUTIONS = [(tg.nn.Conv1D, (9,)), (tg.nn.Conv2D, (7, 8)), (tg.nn.Conv3D, (5, 6, 4))]


@pytest.mark.parametrize(("layer", "sizes"), CONVOLUTIONS)
@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (2, 1), (1, 2)])
def test_values(start, layer, sizes, stride, dilation):
    x, kernel, bias = draw(2, *sizes, 3), draw(*[2] * len(sizes), 3, 4), draw(4)
    made = layer(
        4, 2, stride, dilation_rate=dilation, activation="relu", kernel_initializer=kernel, bias_initializer=bias
    )
    y = made(x)
    wanted = np.maximum(windows(x, kernel, stride, dilation) + bias, 0)
    assert y.shape == wanted.shape
    np.testing.assert_allclose(start(y), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("layer", "sizes"), CONVOLUTIONS)
@pytest.mark.parametrize("padding", ["SAME", "valid", "pairs"])
def test_channels_may_be_first(start, layer, sizes, padding):
    rank = len(sizes)
    padding = [(1, 0)] * rank if padding == "pairs" else padding
    x = draw(2, *sizes, 3)
    first = {1: "NCW", 2: "NCHW", 3: "NCDHW"}[rank]
    ours = layer(4, 2, padding=padding, data_format=first, bias_initializer=draw(4))
    other = layer(4, 2, padding=padding, bias_initializer=lambda: ours.bias.initial_value)
    y = ours(np.moveaxis(x, -1, 1).copy())
    other.kernel_initializer = lambda: ours.kernel.initial_value
    found = start([y, other(x)])
    assert ours.kernel.shape == other.kernel.shape == [*[2] * rank, 3, 4]
    np.testing.assert_allclose(np.moveaxis(found[0], 1, -1), found[1], rtol=1e-4, atol=1e-5)


def test_depthwise_filters_have_the_channels_of_the_images(start):
    x, filter = draw(1, 3, 3, 2), draw(2, 2, 4, 1)
    with pytest.raises(tg.ShapeError, match="other channels than the images"):
        tg.depthwise_conv2d(x, filter)
    with pytest.raises(tg.GraphError, match="two names of one argument"):
        tg.depthwise_conv2d(x, filter[:, :, :2], rate=2, dilations=2)
    for mix in (draw(1, 1, 2, 4), draw(2, 2, 4, 4)):
        with pytest.raises(tg.ShapeError, match="mixes what the depthwise one gives"):
            tg.separable_conv2d(x, draw(2, 2, 2, 2), mix)
    later = tg.depthwise_conv2d(tg.placeholder_with_default(x, [None] * 4), filter)
    with pytest.raises(tg.OpError, match="EnsureShape"):
        start(later)


@pytest.mark.parametrize("data_format", ["NHWC", "NCHW"])
def test_a_name_is_that_of_the_result(start, data_format):
    x, filter = draw(1, 3, 3, 3), draw(1, 1, 3, 3)
    made = [
        tg.conv2d(x, filter, data_format=data_format, name="there"),
        tg.conv2d_transpose(x, filter, [1, 3, 3, 3], data_format=data_format, name="back"),
    ]
    assert [y.name for y in made] == ["there:0", "back:0"]


def test_groups_see_their_channels(start):
    x, kernel = draw(2, 5, 5, 4), draw(3, 3, 2, 6)
    layer = tg.nn.Conv2D(6, 3, groups=2, kernel_initializer=kernel)
    parts = [windows(x[..., 2 * g : 2 * g + 2], kernel[..., 3 * g : 3 * g + 3], 1, 1) for g in (0, 1)]
    np.testing.assert_allclose(start(layer(x)), np.concatenate(parts, -1), rtol=1e-4, atol=1e-5)
    assert layer.kernel.shape == [3, 3, 2, 6]


def test_depthwise_and_separable(start):
    x, deep, point, bias = draw(2, 5, 6, 3), draw(2, 3, 3, 2), draw(1, 1, 6, 4), draw(4)
    depthwise = tg.nn.DepthwiseConv2D([2, 3], depth_multiplier=2, depthwise_initializer=deep, use_bias=False)
    separable = tg.nn.SeparableConv2D(
        4, [2, 3], depth_multiplier=2, depthwise_initializer=deep, pointwise_initializer=point, bias_initializer=bias
    )
    found = start([depthwise(x), separable(x)])
    wanted = np.concatenate([windows(x[..., [c]], deep[:, :, [c]], 1, 1) for c in range(3)], -1)
    np.testing.assert_allclose(found[0], wanted, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found[1], wanted @ point[0, 0] + bias, rtol=1e-4, atol=1e-4)
    names = [n for n, _ in separable.named_parameters()]
    assert sorted(names) == ["bias", "depthwise_kernel", "pointwise_kernel"]
    assert depthwise.bias is None


@pytest.mark.parametrize("data_format", ["NWC", "NCW"])
@pytest.mark.parametrize(
    "given",
    [{}, {"strides": 2}, {"dilation_rate": 2}, {"padding": "SAME"}, {"padding": [(2, 1)], "strides": 3}],
)
def test_separable_sequences(start, given, data_format):
    x, deep, point = draw(2, 9, 3), draw(3, 3, 2), draw(1, 6, 4)
    first = data_format == "NCW"
    kernels = {"depthwise_initializer": deep, "pointwise_initializer": point}
    layer = tg.nn.SeparableConv1D(4, 3, depth_multiplier=2, data_format=data_format, **given, **kernels)
    found = start(layer(x.transpose(0, 2, 1) if first else x))
    padding = given.get("padding", [(0, 0)])
    padded = np.pad(x, [(0, 0), (1, 1) if padding == "SAME" else padding[0], (0, 0)])
    how = given.get("strides", 1), given.get("dilation_rate", 1)
    parts = np.concatenate([windows(padded[..., [c]], deep[:, [c]], *how) for c in range(3)], -1)
    wanted = parts @ point[0]
    np.testing.assert_allclose(found.transpose(0, 2, 1) if first else found, wanted, rtol=1e-4, atol=1e-4)


TRANSPOSED = [
    ({"kernel_size": 3, "strides": 2, "padding": "SAME"}, (10, 8)),
    ({"kernel_size": 3, "strides": 2}, (11, 9)),
    ({"kernel_size": 2, "strides": 3}, (15, 12)),
    ({"kernel_size": [1, 4], "strides": [1, 2], "padding": "same"}, (5, 8)),
    ({"kernel_size": 3, "dilation_rate": 2}, (9, 8)),
    ({"kernel_size": 3, "strides": 2, "padding": [(1, 1), (0, 1)]}, (9, 8)),
]


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("data_format", ["NHWC", "NCHW"])
@pytest.mark.parametrize(("given", "sizes"), TRANSPOSED)
def test_transposed_convolutions_are_gradients(start, given, sizes, data_format, known):
    """The layer is linear: its product with images is that of what comes in with their convolution."""
    first = data_format == "NCHW"
    g = draw(2, 3, 5, 4) if first else draw(2, 5, 4, 3)
    x = tg.placeholder("float32", g.shape if known else [3 if d == 3 else None for d in g.shape])
    layer = tg.nn.Conv2DTranspose(2, **given, data_format=data_format, use_bias=False)
    y = layer(x)
    shape = (2, 2, *sizes) if first else (2, *sizes, 2)
    assert y.shape.includes(tg.Shape(shape))
    assert y.shape[1 if first else 3] == 2
    image = draw(*shape)
    back = tg.conv2d(
        image, layer.kernel, layer.strides, layer.padding, data_format=data_format, dilations=layer.dilation_rate
    )
    larger, smaller = start([y, back], {x: g})
    assert larger.shape == shape
    assert float((larger * image).sum()) == pytest.approx(float((smaller * g).sum()), rel=1e-4, abs=1e-4)


def test_transposed_with_a_bias(start):
    layer = tg.nn.Conv2DTranspose(2, 1, kernel_initializer="zeros", bias_initializer=[1.0, 2.0], activation=tg.negative)
    np.testing.assert_array_equal(start(layer(draw(1, 2, 2, 3))), np.broadcast_to([-1, -2], (1, 2, 2, 2)))


def test_sizes_that_are_not_known(start):
    x = tg.placeholder("float32", [None, None, None, 3])
    layer = tg.nn.Conv2D(4, 3, padding="SAME")
    y = layer(x)
    assert y.shape == [None, None, None, 4]
    assert start(y, {x: draw(2, 5, 4, 3)}).shape == (2, 5, 4, 4)
    found = start([y, *tg.gradients(y, [x, layer.kernel])], {x: draw(0, 5, 4, 3)})
    assert [f.shape for f in found] == [(0, 5, 4, 4), (0, 5, 4, 3), (3, 3, 3, 4)]
    np.testing.assert_array_equal(found[2], 0)


def test_what_does_not_fit_is_refused():
    with pytest.raises(tg.ShapeError, match="the groups do not divide"):
        tg.nn.Conv2D(4, 3, groups=3)(tg.ones([1, 5, 5, 6]))
    with pytest.raises(tg.ShapeError, match="Conv2D 'conv2d' does not know the size"):
        tg.nn.Conv2D(4, 3)(tg.placeholder("float32", [None, 5, 5, None]))
    with pytest.raises(tg.GraphError, match="no such data format"):
        tg.nn.Conv1D(4, 3, data_format="NHWC")
    with pytest.raises(tg.GraphError, match="kernel_size"):
        tg.nn.Conv2D(4, [3, 3, 3])
    with pytest.raises(tg.GraphError, match="no such padding"):
        tg.nn.Conv2D(4, 3, padding="FULL")


@pytest.mark.parametrize("where", ["loop", "branch"])
def test_where_it_is_first_called(start, where):
    layer = tg.nn.Conv2D(3, 3, padding="SAME", kernel_initializer="ones", use_bias=False)
    x = tg.ones([1, 1, 1, 3])
    if where == "loop":
        _, y = tg.while_loop(lambda i, x: i < 2, lambda i, x: (i + 1, layer(x)), [0, x])
    else:
        y = tg.cond(tg.placeholder_with_default(True, []), lambda: layer(layer(x)), lambda: x)
    (slope,) = tg.gradients(y, [layer.kernel])
    found = start([y, slope])
    np.testing.assert_array_equal(found[0].ravel(), [9] * 3)
    assert found[1][1, 1].sum() == 2 * 27
    assert layer.kernel.handle.op.region is tg.get_default_graph().root
