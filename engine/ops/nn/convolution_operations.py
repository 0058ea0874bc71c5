"""Convolutions and their gradients, which are gradients of each other: Conv is linear in images and in filters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.shapes import Shape
from ...ir.apply import apply
from ...ir.definition import REQUIRED, NotDifferentiable, Sample, define
from ...ir.operation import Operation
from ...ir.rules.fusing import AddsBias, AppliesMask, SumsRows
from ...ir.rules.kernels import Elements
from ...ir.rules.vectorizing import Vectorize
from ...ir.tensor import Tensor
from ..support.arguments import as_sizes
from ..support.array_library import cast_to_accumulator
from ..support.common import shape_of
from ..support.literals import f64, i32
from ..support.tangents import multilinear
from ..support.vectorizing.families import merged_or_one_by_one, one_by_one
from ..support.windows import Windows, check_fits, counts_in, iterate_places, windows_of
from .convolution_shapes import conv_shape, filter_grad_shape, input_grad_shape, num_groups, windows_over

_ATTRS = {"strides": REQUIRED, "padding": REQUIRED, "dilations": REQUIRED}


def _sliding_attrs(attrs: Any) -> dict[str, Any]:
    return {key: attrs[key] for key in _ATTRS}


# ---- kernels by an array library, which define the results; C kernels are in kernels/cpu/convolution.pyx


def _read_windows(
    shape: Sequence[int], filters: Sequence[int], attrs: Any
) -> tuple[dict[str, Any], list[Windows], int]:
    """Return the attributes of the windows, the windows along each axis, and the number of groups."""
    rank = len(attrs["strides"])
    if len(shape) != rank + 2 or len(filters) != rank + 2:
        raise ValueError(f"images and filters need rank {rank + 2}, got shapes {list(shape)} and {list(filters)}")
    groups = num_groups(shape[-1], *filters[-2:])
    if groups == 0:
        raise ValueError(f"filters of shape {list(filters)} do not fit {shape[-1]} channels")
    how = windows_over(filters, attrs)
    return how, windows_of(shape, how), groups


def _window_columns(xp: Any, images: Any, filters: Sequence[int], attrs: Any) -> Any:
    """Return the windows of each group as a matrix, [groups, pixels, elements of a window]."""
    how, along, groups = _read_windows(images.shape, filters, attrs)
    count = math.prod(how["window"])
    # All windows side by side (im2col), so that a single product of matrices per group is enough.
    windows = xp.zeros((*counts_in(images.shape, along, how), count), images.dtype)
    for number, outer, inner in iterate_places(along, how):
        # Elements in the padding stay 0.
        windows[..., number][outer] = images[inner]
    pixels, size = math.prod(windows.shape[:-2]), images.shape[-1] // groups
    # Places before channels, in the order of the rows of filters [*window, inner].
    shaped = windows.reshape(pixels, groups, size, count)
    return shaped.transpose((1, 0, 3, 2)).reshape(groups, pixels, size * count)


def _by_group(x: Any, groups: int) -> Any:
    """Return rows [..., groups * n] as [groups, rows, n]."""
    return x.reshape(math.prod(x.shape[:-1]), groups, x.shape[-1] // groups).transpose((1, 0, 2))


def _join_groups(x: Any) -> Any:
    """Return [groups, rows, n] as rows [rows, groups * n]."""
    return x.transpose((1, 0, 2)).reshape(x.shape[1], x.shape[0] * x.shape[2])


def _multiply_matrices(xp: Any, a: Any, b: Any) -> Any:
    """Multiply matrices; elements of two bytes in float32."""
    return xp.matmul(cast_to_accumulator(xp, a), cast_to_accumulator(xp, b))


def _compute_conv(xp: Any, images: Any, filters: Any, **attrs: Any) -> Any:
    how, along, groups = _read_windows(images.shape, filters.shape, attrs)
    rows = filters.reshape(math.prod(filters.shape[:-1]), filters.shape[-1])
    result = _join_groups(
        _multiply_matrices(xp, _window_columns(xp, images, filters.shape, attrs), _by_group(rows, groups))
    )
    return result.reshape(*counts_in(images.shape, along, how)[:-1], filters.shape[-1]).astype(images.dtype, copy=False)


def _conv_bias(xp: Any, images: Any, filters: Any, bias: Any, relu: bool, **attrs: Any) -> Any:
    result = _compute_conv(xp, images, filters, **attrs) + bias
    return xp.maximum(result, xp.zeros((), result.dtype)) if relu else result


def _input_grad(xp: Any, shape: Any, filters: Any, g: Any, **attrs: Any) -> Any:
    """Multiply the gradient with the filters, and add the products to the windows of the images."""
    sizes = as_sizes(shape)
    how, along, groups = _read_windows(sizes, filters.shape, attrs)
    _check_result(g, sizes, filters.shape, along, how)
    rows = filters.reshape(math.prod(filters.shape[:-1]), filters.shape[-1])
    windows = _multiply_matrices(xp, _by_group(g, groups), _by_group(rows, groups).transpose((0, 2, 1)))
    each = windows.reshape(groups, windows.shape[1], math.prod(how["window"]), filters.shape[-2]).transpose(
        (2, 1, 0, 3)
    )
    result = xp.zeros(sizes, windows.dtype)
    for number, outer, inner in iterate_places(along, how):
        # An image element is in a place of at most one window, so that += meets no element twice.
        result[inner] += each[number].reshape(*g.shape[:-1], sizes[-1])[outer]
    return result.astype(g.dtype, copy=False)


def _input_grad_masked(xp: Any, shape: Any, filters: Any, g: Any, where: Any, **attrs: Any) -> Any:
    result = _input_grad(xp, shape, filters, g, **attrs)
    if where.shape != result.shape:
        raise ValueError(f"a mask {where.shape} does not fit a gradient {result.shape}")
    return xp.where(where > 0, result, xp.zeros((), result.dtype))


def _filter_grad(xp: Any, images: Any, shape: Any, g: Any, **attrs: Any) -> Any:
    sizes = as_sizes(shape)
    how, along, groups = _read_windows(images.shape, sizes, attrs)
    _check_result(g, images.shape, sizes, along, how)
    columns = _window_columns(xp, images, sizes, attrs).transpose((0, 2, 1))
    return (
        _join_groups(_multiply_matrices(xp, columns, _by_group(g, groups))).reshape(sizes).astype(g.dtype, copy=False)
    )


def _check_result(g: Any, images: Sequence[int], filters: Sequence[int], along: list[Windows], how: Any) -> None:
    check_fits(g.shape, (*images[:-1], filters[-1]), along, how)


def _filter_bias_grad(xp: Any, images: Any, shape: Any, g: Any, **attrs: Any) -> Any:
    sums = g.sum(axis=tuple(range(g.ndim - 1)), dtype=g.dtype)
    return _filter_grad(xp, images, shape, g, **attrs), sums


# ---- definitions


def _conv_gradient(op: Operation, g: Tensor) -> list[Any]:
    images, filters = op.inputs
    return [
        apply("ConvInputGrad", shape_of(images), filters, g, **_sliding_attrs(op.attrs)),
        apply("ConvFilterGrad", images, shape_of(filters), g, **_sliding_attrs(op.attrs)),
    ]


def _input_grad_gradient(op: Operation, h: Tensor) -> list[Any]:
    _, filters, g = op.inputs
    return [
        None,
        apply("ConvFilterGrad", h, shape_of(filters), g, **_sliding_attrs(op.attrs)),
        apply("Conv", h, filters, **_sliding_attrs(op.attrs)),
    ]


def _filter_grad_gradient(op: Operation, h: Tensor) -> list[Any]:
    images, _, g = op.inputs
    return [
        apply("ConvInputGrad", shape_of(images), h, g, **_sliding_attrs(op.attrs)),
        None,
        apply("Conv", images, h, **_sliding_attrs(op.attrs)),
    ]


def _conv_elements(images: Any, filters: Any, **attrs: Any) -> int:
    """Return the multiplications of a convolution, divided by 8 to compare with elements of other operations."""
    _, along, _ = _read_windows(images, filters, attrs)
    return int(images[0] * math.prod(s.count for s in along) * math.prod(filters) // 8)


_LINE = f64([[[1], [2], [-1], [3], [0.5]]])
_EDGE = f64([[[1]], [[-2]], [[4]]])
_IMAGES = (np.arange(2 * 5 * 4 * 2).reshape(2, 5, 4, 2) % 7 - 3) / 2
_FILTERS = (np.arange(3 * 2 * 2 * 3).reshape(3, 2, 2, 3) % 5 - 2) / 4
_VOLUME = (np.arange(1 * 3 * 4 * 3 * 1).reshape(1, 3, 4, 3, 1) % 5 - 2) / 2
_CUBE = (np.arange(2 * 2 * 2 * 1 * 2).reshape(2, 2, 2, 1, 2) % 3 - 1) / 2


def _convolve_by_definition(images: Any, filters: Any, strides: Any, before: Any, counts: Any, dilations: Any) -> Any:
    """Compute a convolution element by element, by its definition."""
    groups = images.shape[-1] // filters.shape[-2]
    inner, outer = filters.shape[-2], filters.shape[-1] // groups
    result = np.zeros((len(images), *counts, filters.shape[-1]))
    for at in np.ndindex(*result.shape):
        for place in np.ndindex(*filters.shape[:-1]):
            source = [i * s + k * d - b for i, s, k, d, b in zip(at[1:-1], strides, place, dilations, before)]
            if all(0 <= i < n for i, n in zip(source, images.shape[1:-1])):
                channel = at[-1] // outer * inner + place[-1]
                result[at] += images[(at[0], *source, channel)] * filters[(*place, at[-1])]
    return result


def _expected_conv(before: Any, counts: Any, strides: Any, dilations: Any) -> Any:
    return lambda x, w: _convolve_by_definition(x, w, strides, before, counts, dilations)


define(
    "Conv",
    "input: T, filter: T -> output: T",
    where={"T": dtypes.FLOATING},
    attrs=_ATTRS,
    shape=conv_shape,
    rules=[
        Vectorize(merged_or_one_by_one(0)),
        multilinear(0, 1),
        Elements(lambda images, filters, **attrs: _conv_elements(images.shape, filters.shape, **attrs)),
        AddsBias("ConvBias"),
    ],
    kernel=_compute_conv,
    gradient=_conv_gradient,
    samples=[
        Sample([_LINE, _EDGE], f64([[[-7], [16], [-5]]]), {"strides": (1,), "dilations": (1,), "padding": "VALID"}),
        Sample([_LINE, _EDGE], f64([[[6], [16], [2]]]), {"strides": (2,), "dilations": (1,), "padding": "SAME"}),
        Sample(
            [np.zeros((0, 5, 1)), _EDGE], np.zeros((0, 3, 1)), {"strides": (1,), "dilations": (1,), "padding": "VALID"}
        ),
        Sample(
            [_IMAGES, _FILTERS],
            _expected_conv((1, 0), (3, 4), (2, 1), (1, 1)),
            {"strides": (2, 1), "dilations": (1, 1), "padding": "SAME"},
        ),
        Sample(
            [_IMAGES, _FILTERS[:, :, :1, [0, 1, 2, 0]]],
            _expected_conv((2, 1), (5, 4), (1, 1), (2, 1)),
            {"strides": (1, 1), "dilations": (2, 1), "padding": ((2, 2), (1, 0))},
        ),
        Sample(
            [_IMAGES, _FILTERS[:1, :1]],
            lambda x, w: x @ w[0, 0],
            {"strides": (1, 1), "dilations": (1, 1), "padding": "VALID"},
        ),
        Sample(
            [_VOLUME, _CUBE],
            _expected_conv((0, 0, 0), (2, 2, 2), (1, 2, 1), (1, 1, 1)),
            {"strides": (1, 2, 1), "dilations": (1, 1, 1), "padding": "VALID"},
        ),
    ],
)

define(
    "ConvBias",
    "input: T, filter: T, bias: T -> output: T",
    where={"T": dtypes.FLOATING},
    attrs={**_ATTRS, "relu": False},
    shape=conv_shape,
    rules=[Elements(lambda images, filters, bias, relu, **attrs: _conv_elements(images.shape, filters.shape, **attrs))],
    kernel=_conv_bias,
    gradient=NotDifferentiable("a pass makes it after gradients are made"),
    samples=[
        Sample(
            [_LINE, _EDGE, f64([4])],
            f64([[[-3], [20], [-1]]]),
            {"strides": (1,), "dilations": (1,), "padding": "VALID"},
        ),
        Sample(
            [_LINE, _EDGE, f64([4])],
            f64([[[0], [20], [0]]]),
            {"strides": (1,), "dilations": (1,), "padding": "VALID", "relu": True},
        ),
        Sample(
            [_IMAGES, _FILTERS, f64([0.5, -1, 2])],
            lambda x, w, b: np.maximum(_convolve_by_definition(x, w, (2, 1), (1, 0), (3, 4), (1, 1)) + b, 0),
            {"strides": (2, 1), "dilations": (1, 1), "padding": "SAME", "relu": True},
        ),
        Sample(
            [_IMAGES, _FILTERS[:, :, :1, [0, 1]], f64([0.5, -1])],
            lambda x, w, b: _convolve_by_definition(x, w, (1, 1), (0, 0), (3, 3), (1, 1)) + b,
            {"strides": (1, 1), "dilations": (1, 1), "padding": "VALID"},
        ),
    ],
)

define(
    "ConvInputGrad",
    "input_sizes: host I, filter: T, out_backprop: T -> output: T",
    where={"T": dtypes.FLOATING, "I": dtypes.INDEX},
    attrs=_ATTRS,
    shape=input_grad_shape,
    rules=[
        Vectorize(merged_or_one_by_one(2, sizes=(0,))),
        Elements(lambda shape, filters, g, **attrs: _conv_elements(as_sizes(shape), filters.shape, **attrs)),
        AppliesMask("ConvInputGradMasked"),
    ],
    kernel=_input_grad,
    gradient=_input_grad_gradient,
    samples=[
        Sample(
            [i32([1, 5, 1]), _EDGE, f64([[[1], [2], [3]]])],
            f64([[[1], [0], [3], [2], [12]]]),
            {"strides": (1,), "dilations": (1,), "padding": "VALID"},
        ),
        Sample(
            [i32([1, 4, 1]), _EDGE, f64([[[1], [2]]])],
            f64([[[1], [-2], [6], [-4]]]),
            {"strides": (2,), "dilations": (1,), "padding": "SAME"},
        ),
        Sample(
            [i32([2, 5, 4, 2]), _FILTERS[:, :, :1, [0, 1, 2, 0]], np.arange(16.0).reshape(2, 2, 1, 4)],
            lambda shape, w, g: _transposed_literally(shape, w, g, (2, 3), (0, 0)),
            {"strides": (2, 3), "dilations": (1, 1), "padding": "VALID"},
        ),
    ],
)


define(
    "ConvInputGradMasked",
    "input_sizes: host I, filter: T, out_backprop: T, where: T -> output: T",
    where={"T": dtypes.FLOATING, "I": dtypes.INDEX},
    attrs=_ATTRS,
    shape=input_grad_shape,
    rules=[Elements(lambda shape, filters, g, where, **attrs: _conv_elements(as_sizes(shape), filters.shape, **attrs))],
    kernel=_input_grad_masked,
    gradient=NotDifferentiable("a pass makes it after gradients are made"),
    samples=[
        Sample(
            [i32([1, 5, 1]), _EDGE, f64([[[1], [2], [3]]]), f64([[[1], [0.5], [0], [np.inf], [np.nan]]])],
            f64([[[1], [0], [0], [2], [0]]]),
            {"strides": (1,), "dilations": (1,), "padding": "VALID"},
        ),
        Sample(
            [i32([2, 5, 4, 2]), _FILTERS[:, :, :1, [0, 1, 2, 0]], np.arange(16.0).reshape(2, 2, 1, 4), -_IMAGES],
            lambda shape, w, g, kept: _transposed_literally(shape, w, g, (2, 3), (0, 0)) * (kept > 0),
            {"strides": (2, 3), "dilations": (1, 1), "padding": "VALID"},
        ),
    ],
)


def _transposed_literally(shape: Any, filters: Any, g: Any, strides: Any, before: Any) -> Any:
    """Compute the gradient by the images element by element, by its definition."""
    result = np.zeros(tuple(shape))
    groups = shape[-1] // filters.shape[-2]
    outer = filters.shape[-1] // groups
    for at in np.ndindex(*g.shape):
        for place in np.ndindex(*filters.shape[:-1]):
            target = [i * s + k - b for i, s, k, b in zip(at[1:-1], strides, place, before)]
            if all(0 <= i < n for i, n in zip(target, shape[1:-1])):
                channel = at[-1] // outer * filters.shape[-2] + place[-1]
                result[(at[0], *target, channel)] += g[at] * filters[(*place, at[-1])]
    return result


define(
    "ConvFilterGrad",
    "input: T, filter_sizes: host I, out_backprop: T -> output: T",
    where={"T": dtypes.FLOATING, "I": dtypes.INDEX},
    attrs=_ATTRS,
    shape=filter_grad_shape,
    rules=[
        Vectorize(one_by_one),
        Elements(lambda images, shape, g, **attrs: _conv_elements(images.shape, as_sizes(shape), **attrs)),
        SumsRows("ConvFilterBiasGrad"),
    ],
    kernel=_filter_grad,
    gradient=_filter_grad_gradient,
    samples=[
        Sample(
            [_LINE, i32([3, 1, 1]), f64([[[1], [2], [3]]])],
            f64([[[2]], [[9]], [[6.5]]]),
            {"strides": (1,), "dilations": (1,), "padding": "VALID"},
        ),
        Sample(
            [_IMAGES, i32([1, 1, 2, 3]), np.arange(2 * 5 * 4 * 3.0).reshape(2, 5, 4, 3) / 8],
            lambda x, shape, g: np.einsum("nyxc,nyxf->cf", x, g)[None, None],
            {"strides": (1, 1), "dilations": (1, 1), "padding": "VALID"},
        ),
        Sample(
            [_IMAGES, i32([2, 1, 1, 2]), np.arange(2 * 2 * 2 * 2.0).reshape(2, 2, 2, 2)],
            lambda x, shape, g: np.stack(
                [np.einsum("nyxc,nyxc->c", x[:, k : k + 4 : 3, ::3], g)[None, None] for k in (0, 1)]
            ),
            {"strides": (3, 3), "dilations": (1, 1), "padding": "VALID"},
        ),
    ],
)

define(
    "ConvFilterBiasGrad",
    "input: T, filter_sizes: host I, out_backprop: T -> output: T, bias: T",
    where={"T": dtypes.FLOATING, "I": dtypes.INDEX},
    attrs=_ATTRS,
    shape=lambda op: [filter_grad_shape(op), Shape([op.inputs[2].shape[-1]])],
    rules=[Elements(lambda images, shape, g, **attrs: _conv_elements(images.shape, as_sizes(shape), **attrs))],
    kernel=_filter_bias_grad,
    gradient=NotDifferentiable("a pass makes it after gradients are made"),
    samples=[
        Sample(
            [_LINE, i32([3, 1, 1]), f64([[[1], [2], [3]]])],
            (f64([[[2]], [[9]], [[6.5]]]), f64([6])),
            {"strides": (1,), "dilations": (1,), "padding": "VALID"},
        ),
        Sample(
            [_IMAGES, i32([1, 1, 2, 3]), np.arange(2 * 5 * 4 * 3.0).reshape(2, 5, 4, 3) / 8],
            lambda x, shape, g: (np.einsum("nyxc,nyxf->cf", x, g)[None, None], g.sum((0, 1, 2))),
            {"strides": (1, 1), "dilations": (1, 1), "padding": "VALID"},
        ),
    ],
)
