"""Random layers of tagloom, and what PyTorch has in their place."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Layer:
    """A layer with its parameters, called once.

    Attributes
    ----------
    kind : str
        Its name in `tagloom.nn`.
    options : dict
        Arguments of it.
    inputs : list of array
        What it is called with.
    parameters : dict of str to array
        By the names of its attributes.
    called : dict
        Keyword arguments of the call.
    """

    kind: str
    options: dict[str, Any]
    inputs: list[np.ndarray]
    parameters: dict[str, np.ndarray]
    called: dict[str, Any] = field(default_factory=dict)


def cotangent(shape, dtype):
    """Return numbers of a shape that differ from each other, the same on both sides."""
    return np.cos(np.arange(np.prod(shape, dtype=int))).reshape(shape).astype(dtype)


def draw(random):
    """Return a random layer, in single or double precision."""
    layer = MAKERS[int(random.integers(len(MAKERS)))](random)
    dtype = random.choice([np.float32, np.float64])
    inputs = [x.astype(dtype) if x.dtype.kind == "f" else x for x in layer.inputs]
    parameters = {name: value.astype(dtype) for name, value in layer.parameters.items()}
    return replace(
        layer, inputs=inputs, parameters=parameters, options={**layer.options, "dtype": np.dtype(dtype).name}
    )


def _floats(random, *shape):
    return random.standard_normal(shape)


def _number(random, low, high):
    return int(random.integers(low, high))


def _bias(random, parameters, size):
    """Return whether there is a bias, which is added to the parameters then."""
    if random.random() < 0.7:
        parameters["bias"] = _floats(random, size)
    return "bias" in parameters


def dense(random):
    """Draw a dense layer on rows of any number of leading dimensions."""
    size, units, lead = _number(random, 1, 6), _number(random, 1, 6), random.integers(1, 4, _number(random, 0, 4))
    parameters = {"kernel": _floats(random, size, units)}
    options = {"units": units, "use_bias": _bias(random, parameters, units)}
    return Layer("Dense", options, [_floats(random, *lead, size)], parameters)


def convolution(random):
    """Draw a convolution of one to three dimensions, in groups."""
    rank, groups = _number(random, 1, 4), _number(random, 1, 3)
    channels, filters = groups * _number(random, 1, 3), groups * _number(random, 1, 3)
    window = [_number(random, 1, 4) for _ in range(rank)]
    stride, dilation = _number(random, 1, 3), _number(random, 1, 3)
    sizes = [(k - 1) * dilation + _number(random, 1, 5) for k in window]
    padding = [[_number(random, 0, 2)] * 2 for _ in range(rank)]
    parameters = {"kernel": _floats(random, *window, channels // groups, filters)}
    options = {
        "filters": filters,
        "kernel_size": window,
        "strides": stride,
        "padding": padding,
        "dilation_rate": dilation,
        "groups": groups,
        "use_bias": _bias(random, parameters, filters),
    }
    return Layer(f"Conv{rank}D", options, [_floats(random, _number(random, 1, 3), *sizes, channels)], parameters)


def transposed(random):
    """Draw a transposed convolution of images, whose windows are no smaller than their strides."""
    groups = _number(random, 1, 3)
    channels, filters = groups * _number(random, 1, 3), groups * _number(random, 1, 3)
    stride, window = _number(random, 1, 3), [_number(random, 2, 4) for _ in range(2)]
    parameters = {"kernel": _floats(random, *window, filters // groups, channels)}
    options = {
        "filters": filters,
        "kernel_size": window,
        "strides": stride,
        "dilation_rate": _number(random, 1, 3),
        "groups": groups,
        "use_bias": _bias(random, parameters, filters),
    }
    image = _floats(random, 2, _number(random, 1, 5), _number(random, 1, 5), channels)
    return Layer("Conv2DTranspose", options, [image], parameters)


def depthwise(random):
    """Draw a depthwise or a separable convolution."""
    channels, multiplier, filters = _number(random, 1, 4), _number(random, 1, 3), _number(random, 1, 4)
    window = [_number(random, 1, 4) for _ in range(2)]
    parameters = {"depthwise_kernel": _floats(random, *window, channels, multiplier)}
    options = {"kernel_size": window, "strides": _number(random, 1, 3), "depth_multiplier": multiplier}
    separable = random.random() < 0.5
    if separable:
        parameters["pointwise_kernel"] = _floats(random, 1, 1, channels * multiplier, filters)
        options["filters"] = filters
    options["use_bias"] = _bias(random, parameters, filters if separable else channels * multiplier)
    image = _floats(random, 2, *(k + _number(random, 0, 4) for k in window), channels)
    return Layer("SeparableConv2D" if separable else "DepthwiseConv2D", options, [image], parameters)


def embedding(random):
    """Draw rows of a table."""
    count, size = _number(random, 1, 6), _number(random, 1, 5)
    ids = random.integers(0, count, random.integers(1, 4, _number(random, 0, 3)))
    return Layer("Embedding", {"count": count, "size": size}, [ids], {"embeddings": _floats(random, count, size)})


def layer_norm(random):
    """Draw a LayerNorm or RMSNorm over the last dimensions."""
    sizes, over = [_number(random, 2, 5) for _ in range(3)], _number(random, 1, 3)
    kind = str(random.choice(["LayerNorm", "RMSNorm"]))
    names = ("gamma", "beta") if kind == "LayerNorm" else ("gamma",)
    parameters = {name: _floats(random, *sizes[3 - over :]) for name in names}
    return Layer(kind, {"axis": list(range(-over, 0)), "epsilon": 1e-3}, [_floats(random, *sizes)], parameters)


def group_norm(random):
    """Draw a GroupNorm or InstanceNorm of images."""
    groups = _number(random, 1, 4)
    channels = groups * _number(random, 1, 4)
    parameters = {name: _floats(random, channels) for name in ("gamma", "beta")}
    image = _floats(random, 2, _number(random, 2, 5), _number(random, 2, 5), channels)
    if random.random() < 0.5:
        return Layer("GroupNorm", {"groups": groups, "epsilon": 1e-3}, [image], parameters)
    return Layer("InstanceNorm", {"epsilon": 1e-3}, [image], parameters)


def batch_norm(random):
    """Draw a BatchNorm, in training or not."""
    channels, rank = _number(random, 1, 5), _number(random, 0, 4)
    parameters = {name: _floats(random, channels) for name in ("gamma", "beta", "moving_mean")}
    parameters["moving_variance"] = 0.5 + random.random(channels)
    image = _floats(random, _number(random, 2, 5), *random.integers(1, 5, rank), channels)
    options = {"momentum": 0.75, "epsilon": 1e-3}
    return Layer("BatchNorm", options, [image], parameters, {"training": bool(random.random() < 0.7)})


def attention(random):
    """Draw self-attention or cross-attention, with masks."""
    heads, batch, queries, keys = (_number(random, 1, 4) for _ in range(4))
    size = heads * _number(random, 1, 4)
    crossed = random.random() < 0.5
    inputs = [_floats(random, batch, queries, size)]
    key_size, value_size = (_number(random, 1, 6), _number(random, 1, 6)) if crossed else (size, size)
    if crossed:
        inputs += [_floats(random, batch, keys, key_size), _floats(random, batch, keys, value_size)]
    parameters = _products(random, {"query": size, "key": key_size, "value": value_size, "output": size}, size, "")
    called = {"causal": bool(not crossed and random.random() < 0.4)}
    if random.random() < 0.5:
        mask = random.random((batch, queries, keys if crossed else queries)) < 0.6
        mask[..., 0] = True  # PyTorch gives NaN where nothing is seen
        called["mask"] = mask
    return Layer("MultiHeadAttention", {"num_heads": heads}, inputs, parameters, called)


def encoder(random):
    """Draw a layer of an encoder."""
    heads, hidden = _number(random, 1, 4), _number(random, 1, 7)
    size = heads * _number(random, 1, 3)
    parameters = _products(random, dict.fromkeys(("query", "key", "value", "output"), size), size, "attention.")
    parameters |= {"hidden.kernel": _floats(random, size, hidden), "hidden.bias": _floats(random, hidden)}
    parameters |= {"output.kernel": _floats(random, hidden, size), "output.bias": _floats(random, size)}
    for i in range(2):
        parameters |= {f"norms.{i}.{name}": _floats(random, size) for name in ("gamma", "beta")}
    options = {
        "num_heads": heads,
        "hidden_size": hidden,
        "activation": str(random.choice(["relu", "gelu"])),
        "norm_first": bool(random.random() < 0.5),
        "epsilon": 1e-3,
    }
    called = {"causal": bool(random.random() < 0.5)}
    image = _floats(random, _number(random, 1, 3), _number(random, 1, 5), size)
    return Layer("TransformerEncoderLayer", options, [image], parameters, called)


def _products(random, sizes, units, prefix):
    found = {}
    for name, size in sizes.items():
        found[f"{prefix}{name}.kernel"] = _floats(random, size, units)
        found[f"{prefix}{name}.bias"] = _floats(random, units)
    return found


MAKERS = [
    dense,
    convolution,
    convolution,
    transposed,
    depthwise,
    embedding,
    layer_norm,
    group_norm,
    batch_norm,
    attention,
    attention,
    encoder,
]
