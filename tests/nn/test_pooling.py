"""Layers of pooling, and transposed convolutions of sequences and volumes, against plain loops in NumPy."""

from itertools import product

import numpy as np
import pytest
import tagloom as tg

RANDOM = np.random.default_rng(8)
SIZES = {1: (7,), 2: (6, 7), 3: (4, 6, 5)}
FIRST = {1: "NCW", 2: "NCHW", 3: "NCDHW"}
REDUCE = {"Max": np.max, "Average": np.mean}


def pooled(x, sizes, strides, reduce):
    """Pool VALID windows of [batch, *sizes, channels]."""
    counts = [(d - k) // s + 1 for d, k, s in zip(x.shape[1:-1], sizes, strides, strict=True)]
    found = np.zeros((x.shape[0], *counts, x.shape[-1]), x.dtype)
    for at in product(*map(range, counts)):
        window = tuple(slice(i * s, i * s + k) for i, k, s in zip(at, sizes, strides, strict=True))
        found[(slice(None), *at)] = reduce(x[(slice(None), *window)], axis=tuple(range(1, x.ndim - 1)))
    return found


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("strides", [None, 1])
@pytest.mark.parametrize("rank", SIZES)
@pytest.mark.parametrize("kind", REDUCE)
def test_windows(start, kind, rank, strides, first):
    x = RANDOM.standard_normal((2, *SIZES[rank], 3)).astype(np.float32)
    sizes = [2, 3, 2][:rank]
    layer = getattr(tg.nn, f"{kind}Pooling{rank}D")(sizes, strides, data_format=FIRST[rank] if first else None)
    y = layer(np.moveaxis(x, -1, 1) if first else x)
    found = start(y)
    wanted = pooled(x, sizes, sizes if strides is None else [1] * rank, REDUCE[kind])
    assert y.shape == found.shape
    np.testing.assert_allclose(np.moveaxis(found, 1, -1) if first else found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("rank", SIZES)
@pytest.mark.parametrize("kind", REDUCE)
def test_all_pixels(start, kind, rank, keepdims, first):
    x = RANDOM.standard_normal((2, *SIZES[rank], 3)).astype(np.float32)
    x = np.moveaxis(x, -1, 1) if first else x
    layer = getattr(tg.nn, f"Global{kind}Pooling{rank}D")(FIRST[rank] if first else None, keepdims)
    axes = tuple(range(2, 2 + rank) if first else range(1, 1 + rank))
    np.testing.assert_allclose(start(layer(x)), REDUCE[kind](x, axis=axes, keepdims=keepdims), rtol=1e-5, atol=1e-6)


def test_same_padding_covers_what_is_left(start):
    x = RANDOM.standard_normal((1, 5, 5, 2)).astype(np.float32)
    y = tg.nn.MaxPooling2D(2, padding="SAME")(x)
    assert y.shape == [1, 3, 3, 2]
    np.testing.assert_array_equal(start(y)[0, 2, 2], x[0, 4, 4])


def test_other_ranks_are_refused(graph):
    for layer in (tg.nn.MaxPooling2D(2), tg.nn.GlobalAveragePooling2D()):
        with pytest.raises(tg.ShapeError):
            layer(np.zeros((2, 3, 4), np.float32))


def test_pooling_in_a_sequence_of_layers(start):
    model = tg.nn.Sequential(tg.nn.Conv2D(4, 3), tg.nn.MaxPooling2D(2), tg.nn.GlobalAveragePooling2D(), tg.nn.Dense(2))
    y = model(np.ones((3, 8, 8, 1), np.float32))
    assert sorted(v.shape.as_list() for v in model.parameters()) == [[2], [3, 3, 1, 4], [4], [4, 2]]
    assert start(y).shape == (3, 2)


def spread(x, kernel, strides):
    """Add up what each element of [batch, *sizes, channels] spreads over its window: a VALID transposed convolution."""
    lengths = kernel.shape[:-2]
    sizes = [(d - 1) * s + k for d, k, s in zip(x.shape[1:-1], lengths, strides, strict=True)]
    found = np.zeros((x.shape[0], *sizes, kernel.shape[-2]))
    for at in product(*map(range, x.shape[1:-1])):
        window = tuple(slice(i * s, i * s + k) for i, k, s in zip(at, lengths, strides, strict=True))
        found[(slice(None), *window)] += np.einsum("bi,...oi->b...o", x[(slice(None), *at)], kernel)
    return found


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("rank", SIZES)
def test_transposed_convolutions(start, rank, first):
    x = RANDOM.standard_normal((2, *SIZES[rank], 3)).astype(np.float32)
    kernel = RANDOM.standard_normal((*[3, 2, 3][:rank], 4, 3)).astype(np.float32)
    bias, strides = RANDOM.standard_normal(4).astype(np.float32), [2, 1, 2][:rank]
    layer = getattr(tg.nn, f"Conv{rank}DTranspose")(
        4,
        kernel.shape[:rank],
        strides,
        data_format=FIRST[rank] if first else None,
        kernel_initializer=kernel,
        bias_initializer=bias,
    )
    y = layer(np.moveaxis(x, -1, 1).copy() if first else x)
    found = start(y)
    assert y.shape == found.shape
    wanted = spread(x, kernel, strides) + bias
    np.testing.assert_allclose(np.moveaxis(found, 1, -1) if first else found, wanted, rtol=1e-4, atol=1e-4)
