"""Attributes of convolutions, and the shapes of their results and gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...base.errors import ShapeError
from ...base.shapes import Shape
from ...ir.operation import Operation
from ...ir.static_values import static_shape
from ..support.windows import check_windows, windows_shape


def windows_over(filters: Sequence[Any], attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of the windows of filters of shape [*window, inner, outer]."""
    how = {"strides": attrs["strides"], "rates": attrs["dilations"], "padding": attrs["padding"]}
    return {"window": tuple(filters[:-2]), "channels_first": False, **how}


def _result_shape(images: Shape, filters: Shape, op: Operation) -> Shape:
    """Return the static shape of a convolution's result."""
    rank = len(op.attrs["strides"])
    # Windows of size 1, to check strides, dilations and padding even of filters of unknown size.
    check_windows(windows_over([1] * (rank + 2), op.attrs))
    images, filters = _with_rank(images, rank, "the input", op), _with_rank(filters, rank, "the filter", op)
    _check_channels(images[-1], filters[-2], filters[-1], op)
    # The number of windows depends on their size.
    if None in filters[:-2].dims:
        return Shape([images[0], *[None] * rank, filters[-1]])
    return Shape([*windows_shape(images, windows_over(filters.dims, op.attrs))[:-1], filters[-1]])


def _with_rank(shape: Shape, rank: int, what: str, op: Operation) -> Shape:
    """Return a shape with `rank` spatial dimensions, a batch and channels; ShapeError for another rank."""
    if shape.rank not in (None, rank + 2):
        raise ShapeError(
            f"{what} of a convolution has another rank",
            wanted=f"rank {rank + 2}",
            got=shape,
            operation=op,
            hint="add a dimension with expand_dims, or take another function",
        )
    return shape.merge(Shape([None] * (rank + 2)))


def num_groups(channels: int, inner: int, outer: int | None) -> int:
    """Return the number of groups of channels, or 0 if filters do not fit the channels."""
    # Each group of results sees `inner` channels of the images.
    groups = 0 if inner == 0 or channels % inner else channels // inner
    return 0 if groups == 0 or (outer is not None and outer % groups) else groups


def _check_channels(channels: int | None, inner: int | None, outer: int | None, op: Operation) -> None:
    """Raise ShapeError if the channels of the images are known not to fit the filters."""
    if channels is not None and inner is not None and num_groups(channels, inner, outer) == 0:
        raise ShapeError(
            "the filter does not fit the channels",
            wanted="input channels that divide those of the images, and output channels for each group",
            got=f"{inner} and {outer} for {channels} channels",
            operation=op,
            hint="a filter has the shape [*window, input channels, output channels]",
        )


def conv_shape(op: Operation) -> Shape:
    """Shape rule of a convolution."""
    return _result_shape(op.inputs[0].shape, op.inputs[1].shape, op)


def input_grad_shape(op: Operation) -> Shape:
    """Shape rule of the gradient of a convolution by its images."""
    images = static_shape(op.inputs[0])
    _check_gradient_shape(op.inputs[2].shape, _result_shape(images, op.inputs[1].shape, op), op)
    return images


def filter_grad_shape(op: Operation) -> Shape:
    """Shape rule of the gradient of a convolution by its filters."""
    filters = static_shape(op.inputs[1])
    _check_gradient_shape(op.inputs[2].shape, _result_shape(op.inputs[0].shape, filters, op), op)
    return filters


def _check_gradient_shape(given: Shape, result: Shape, op: Operation) -> None:
    """Raise ShapeError if the shape `given` of a gradient is known to differ from the convolution's result."""
    if not given.is_compatible_with(result):
        raise ShapeError(
            "this is not what a convolution to such a shape would come from",
            wanted=result,
            got=given,
            operation=op,
            hint="strides and padding say how large it is",
        )
