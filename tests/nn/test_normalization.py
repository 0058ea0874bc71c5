"""LayerNorm, RMSNorm, GroupNorm and InstanceNorm: values, shapes that are not known, dtypes, gradients."""

import numpy as np
import pytest
import tagloom as tg

RANDOM = np.random.default_rng(5)


def normalized(x, axes, epsilon):
    mean = x.mean(axes, keepdims=True)
    return (x - mean) / np.sqrt(np.square(x - mean).mean(axes, keepdims=True) + epsilon)


def open_shape(shape, kept):
    return [d if i in kept else None for i, d in enumerate(shape)]


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((3, 4), -1), ((2, 3, 4), 2), ((2, 3, 4), [1, 2]), ((2, 3, 4), 1), ((2, 3, 4, 2), [1, 3]), ((2, 3, 4), [-1, 1])],
)
def test_layer_norm(start, shape, axis, known):
    data = RANDOM.standard_normal(shape)
    axes = tuple(np.atleast_1d(axis) % len(shape))
    sizes = [shape[a] for a in axes]
    gamma, beta = RANDOM.standard_normal((2, *sizes))
    x = tg.placeholder("float64", shape if known else open_shape(shape, axes))
    layer = tg.nn.LayerNorm(axis, beta_initializer=beta, gamma_initializer=gamma)
    y = layer(x)
    assert layer.gamma.shape == layer.beta.shape == sizes
    assert y.shape == x.shape
    along = [d if i in axes else 1 for i, d in enumerate(shape)]
    gamma, beta = (v.transpose(np.argsort(axes)).reshape(along) for v in (gamma, beta))
    wanted = normalized(data, axes, 1e-5) * gamma + beta
    np.testing.assert_allclose(start(y, {x: data}), wanted, rtol=1e-9, atol=1e-12)


def test_rms_norm(start):
    data, gamma = RANDOM.standard_normal((2, 3, 4)), RANDOM.standard_normal(4)
    layer = tg.nn.RMSNorm(gamma_initializer=gamma)
    found = start(layer(data))
    assert layer.parameters() == [layer.gamma]
    np.testing.assert_allclose(found, data / np.sqrt(np.square(data).mean(-1, keepdims=True) + 1e-5) * gamma, rtol=1e-9)


@pytest.mark.parametrize("known", ["all", "channels", "spatial"])
@pytest.mark.parametrize("groups", [1, 2, 6])
@pytest.mark.parametrize(("shape", "axis"), [((3, 6), -1), ((3, 4, 6), -1), ((2, 6, 3, 4), 1), ((2, 3, 4, 6), 3)])
def test_group_norm(start, shape, axis, groups, known):
    data = RANDOM.standard_normal(shape)
    gamma, beta = RANDOM.standard_normal((2, 6))
    at = axis % len(shape)
    static = {"all": shape, "channels": open_shape(shape, [at]), "spatial": [None, *shape[1:]]}[known]
    x = tg.placeholder("float64", static)
    y = tg.nn.GroupNorm(groups, axis, beta_initializer=beta, gamma_initializer=gamma)(x)
    assert y.shape == x.shape
    last = np.moveaxis(data, at, -1)
    split = last.reshape(*last.shape[:-1], groups, 6 // groups)
    over = tuple(i for i in range(1, split.ndim) if i != split.ndim - 2)
    wanted = normalized(split, over, 1e-5).reshape(last.shape) * gamma + beta
    np.testing.assert_allclose(start(y, {x: data}), np.moveaxis(wanted, -1, at), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("shape", "axis"), [((3, 4, 6), -1), ((2, 6, 3, 4), 1), ((2, 3, 4, 6), -1)])
def test_instance_norm(start, shape, axis):
    data = RANDOM.standard_normal(shape)
    over = tuple(i for i in range(1, len(shape)) if i != axis % len(shape))
    found = start(tg.nn.InstanceNorm(axis)(data))
    np.testing.assert_allclose(found, normalized(data, over, 1e-5), rtol=1e-9, atol=1e-12)


LAYERS = {
    "layer": lambda: tg.nn.LayerNorm(),
    "rms": lambda: tg.nn.RMSNorm(),
    "group": lambda: tg.nn.GroupNorm(2),
    "instance": lambda: tg.nn.InstanceNorm(),
}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", LAYERS)
def test_moments_of_two_bytes_are_computed_in_four(start, name, dtype):
    data = (RANDOM.standard_normal((2, 3, 64)) * 300).astype(tg.as_dtype(dtype).numpy)  # whose squares are no float16
    layer, wide = LAYERS[name](), LAYERS[name]()
    y, wanted = layer(data), wide(data.astype(np.float32))
    assert y.dtype is tg.as_dtype(dtype)
    assert {v.dtype for v in layer.parameters()} == {tg.float32}
    found = start([y, wanted])
    np.testing.assert_allclose(found[0].astype(float), found[1], rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("name", LAYERS)
def test_gradients_are_the_derivatives(start, name):
    data, weights = RANDOM.standard_normal((2, 2, 3, 4))
    x = tg.placeholder("float64", [2, 3, 4])
    total = tg.reduce_sum(tg.tanh(LAYERS[name]()(x)) * weights)
    (slope,) = start(tg.gradients(total, [x]), {x: data})
    for at in np.ndindex(2, 3, 4):
        values = []
        for sign in (1, -1):
            moved = data.copy()
            moved[at] += sign * 1e-6
            values.append(start(total, {x: moved}))
        assert slope[at] == pytest.approx((values[0] - values[1]) / 2e-6, rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("name", LAYERS)
def test_a_constant_is_zero_and_nothing_is_nothing(start, name):
    x = tg.placeholder("float32", [None, 3, 4])
    y = LAYERS[name]()(x)
    found = start(y, {x: np.full((2, 3, 4), 7.0)})
    np.testing.assert_allclose(found, 1.0 if name == "rms" else 0.0, atol=1e-5)
    assert start(y, {x: np.zeros((0, 3, 4))}).shape == (0, 3, 4)


def test_without_parameters():
    for layer in (tg.nn.LayerNorm(center=False, scale=False), tg.nn.RMSNorm(scale=False)):
        layer(tg.ones([2, 3]))
        assert layer.parameters() == []


def test_sizes_may_be_given():
    assert tg.nn.LayerNorm([1, 2], input_size=[3, 4]).gamma.shape == [3, 4]
    assert tg.nn.GroupNorm(2, input_size=4, dtype="float64").beta.dtype is tg.float64


def test_what_does_not_fit_is_refused():
    with pytest.raises(tg.ShapeError, match="the groups do not divide the channels"):
        tg.nn.GroupNorm(4)(tg.ones([2, 6]))
    with pytest.raises(tg.ShapeError, match="no pixels"):
        tg.nn.InstanceNorm()(tg.ones([2, 6]))
    with pytest.raises(tg.ShapeError, match="does not know the size"):
        tg.nn.LayerNorm()(tg.placeholder("float32", [2, None]))
    with pytest.raises(tg.ShapeError, match="has to know the rank"):
        tg.nn.LayerNorm(input_size=3)(tg.placeholder("float32"))


@pytest.mark.parametrize("make", [tg.nn.BatchNorm, tg.nn.InstanceNorm, lambda axis: tg.nn.GroupNorm(1, axis)])
def test_channels_are_one_axis(make):
    with pytest.raises(tg.GraphError, match="'axis' has to be an integer"):
        make([1, 2])


@pytest.mark.parametrize("make", [tg.nn.LayerNorm, tg.nn.RMSNorm, tg.nn.BatchNorm])
def test_a_layer_is_for_one_size(make):
    layer = make(input_size=3)
    with pytest.raises(tg.ShapeError, match="for inputs of another size"):
        layer(tg.ones([2, 1]))  # which would broadcast
