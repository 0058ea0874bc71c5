"""Convolutions of one to three dimensions, in groups, dilated, by channel and transposed."""

import numpy as np

from tests.peers.calls import Call, family


def floats(random, *shape):
    """Return normally distributed numbers in float32."""
    return random.standard_normal(shape).astype(np.float32)


def draw(random, low, high, count):
    """Return so many integers from `low` up to `high`."""
    return [int(n) for n in random.integers(low, high + 1, count)]


@family
def convolutions(random):
    """Draw a convolution of images, sequences or volumes."""
    rank = int(random.integers(1, 4))
    window = draw(random, 1, 3, rank)
    sizes = [k + n for k, n in zip(window, draw(random, 0, 4, rank))]
    groups = int(random.choice([1, 1, 2])) if rank == 2 else 1
    inner, outer = draw(random, 1, 4, 2)
    images = floats(random, int(random.integers(1, 3)), *sizes, inner * groups)
    filters = floats(random, *window, inner, outer * groups)
    strides = draw(random, 1, 2, rank)
    padding = str(random.choice(["SAME", "VALID"]))
    if rank == 1:
        keywords = {"stride": strides[0], "padding": padding}
        return Call("conv1d", [images, filters], keywords, "nn.conv1d")
    keywords = {"strides": [1, *strides, 1], "padding": padding}
    if rank == 3:
        return Call("conv3d", [images, filters], keywords, "nn.conv3d")
    if random.random() < 0.3:
        keywords["padding"] = [[0, 0], draw(random, 0, 2, 2), draw(random, 0, 2, 2), [0, 0]]
    # TensorFlow has no gradient of convolutions in groups on CPUs.
    return Call("conv2d", [images, filters], keywords, "nn.conv2d", differentiable=groups == 1)


@family
def dilated(random):
    """Draw a convolution whose windows have gaps."""
    rate = int(random.integers(1, 4))
    window = draw(random, 1, 3, 2)
    sizes = [(k - 1) * rate + 1 + n for k, n in zip(window, draw(random, 0, 4, 2))]
    inner, outer = draw(random, 1, 3, 2)
    images, filters = floats(random, 2, *sizes, inner), floats(random, *window, inner, outer)
    return Call(
        "atrous_conv2d", [images, filters, rate, str(random.choice(["SAME", "VALID"]))], theirs="nn.atrous_conv2d"
    )


@family
def by_channel(random):
    """Draw a depthwise or a separable convolution."""
    window = draw(random, 1, 3, 2)
    sizes = [k + n for k, n in zip(window, draw(random, 0, 4, 2))]
    channels, multiplier, outer = int(random.choice([1, 2, 3, 17])), *draw(random, 1, 2, 2)
    stride = int(random.integers(1, 3))
    keywords = {"strides": [1, stride, stride, 1], "padding": str(random.choice(["SAME", "VALID"]))}
    images = floats(random, 2, *sizes, channels)
    filters = floats(random, *window, channels, multiplier)
    if random.random() < 0.5:
        return Call("depthwise_conv2d", [images, filters], keywords, "nn.depthwise_conv2d")
    pointwise = floats(random, 1, 1, channels * multiplier, outer)
    return Call("separable_conv2d", [images, filters, pointwise], keywords, "nn.separable_conv2d")


@family
def transposed(random):
    """Draw a convolution that goes the other way."""
    rank = int(random.integers(1, 4))
    window, small, strides = draw(random, 1, 3, rank), draw(random, 1, 3, rank), draw(random, 1, 2, rank)
    padding = str(random.choice(["SAME", "VALID"]))
    sizes = [n * s if padding == "SAME" else (n - 1) * s + k for n, s, k in zip(small, strides, window)]
    inner, outer = draw(random, 1, 3, 2)
    shape = [2, *sizes, inner]
    g, filters = floats(random, 2, *small, outer), floats(random, *window, inner, outer)
    if rank == 2 and random.random() < 0.5:
        keywords = {"strides": [1, *strides, 1], "padding": padding}
        if random.random() < 0.5:
            return Call("conv2d_backprop_input", [shape, filters, g], keywords, "nn.conv2d_backprop_input")
        images = floats(random, *shape)
        sizes = [*window, inner, outer]
        return Call("conv2d_backprop_filter", [images, sizes, g], keywords, "nn.conv2d_backprop_filter")
    name = f"conv{rank}d_transpose"
    keywords = {"strides": strides[0] if rank == 1 else [1, *strides, 1], "padding": padding}
    return Call(name, [g, filters, shape], keywords, f"nn.{name}")
