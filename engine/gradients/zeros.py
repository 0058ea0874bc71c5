"""Zero cotangents, and the shape, of anything a gradient can flow to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..base.dtypes import DType, resource, series
from ..ir.apply import apply, constant
from ..ir.tensor import Tensor
from ..ops.support.common import shape_of, zeros_like
from ..ops.support.indexed_slices import IndexedSlices


def zeros_for(tensor: Tensor) -> Tensor:
    """Return the zero cotangent of a tensor, a series, or the variable of a handle."""
    if tensor.dtype is series:
        return apply("SeriesEmpty")
    if tensor.dtype is not resource:
        return zeros_like(tensor)
    return _fill_zeros(shape_of_value(tensor), tensor.op.attrs["dtype"])


def shape_of_value(tensor: Tensor) -> Tensor:
    """Return the run-time shape of a tensor, or of the variable a handle stands for."""
    if tensor.dtype is not resource:
        return shape_of(tensor)
    attrs = tensor.op.attrs
    return shape_of(apply("ReadVariable", tensor, dtype=attrs["dtype"], shape=attrs["shape"]))


def no_slices(like: IndexedSlices, shape: Tensor) -> IndexedSlices:
    """Return slices without rows, with the row shape of a tensor of shape `shape`."""
    rows = apply("Concat", [constant([0], shape.dtype), shape[1:]], axis=0)
    return IndexedSlices(_fill_zeros(rows, like.values.dtype), constant(np.zeros(0, np.int64)), shape)


def with_shape(cotangent: object, tensor: Tensor) -> Any:
    """Return a cotangent of a tensor; slices without a dense shape get the shape of the tensor."""
    if isinstance(cotangent, IndexedSlices) and cotangent.dense_shape is None:
        return replace(cotangent, dense_shape=shape_of_value(tensor))
    return cotangent


def _fill_zeros(shape: Tensor, dtype: DType) -> Tensor:
    return apply("Fill", shape, constant(np.zeros((), dtype.numpy)))
