"""Partitioners: functions from shape and dtype of a large variable to the number of its shards."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...base.dtypes import DType, as_dtype, string
from ...base.errors import GraphError, ShapeError
from ...base.shapes import Shape
from ...ir.entry import public
from ...ops.support.arguments import axis_within

Partitioner = Callable[..., list[int]]


@public
def fixed_size_partitioner(num_shards: int, axis: int = 0) -> Partitioner:
    """Return a partitioner that cuts a variable into a fixed number of shards.

    Parameters
    ----------
    num_shards : int
        At least 1; at most as many shards as the dimension's size are made.
    axis : int
        The dimension to cut.

    Returns
    -------
    callable
        ``partitioner(shape, dtype)`` returns the number of parts of each dimension, for `PartitionedVariable`.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.fixed_size_partitioner(3)([10, 4], "float32")
    [3, 1]
    """
    _check_positive("num_shards", num_shards)
    return lambda shape, dtype: _parts_along(shape, axis, num_shards)


@public
def variable_axis_size_partitioner(
    max_shard_bytes: int, axis: int = 0, bytes_per_string_element: int = 16, max_shards: int | None = None
) -> Partitioner:
    """Return a partitioner with a bound on the bytes of a shard, as far as a cut along a single dimension allows.

    Parameters
    ----------
    max_shard_bytes : int
    axis : int
        The dimension to cut.
    bytes_per_string_element : int
        Assumed size of a string.
    max_shards : int, optional
        Maximum number of shards; they may then be larger.

    Returns
    -------
    callable
        ``partitioner(shape, dtype)`` returns the number of parts of each dimension, for `PartitionedVariable`.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.variable_axis_size_partitioner(1 << 10)([100, 16], "float32")
    [7, 1]
    """
    _check_positive("max_shard_bytes", max_shard_bytes)
    _check_positive("max_shards", max_shards or 1)

    def choose_parts(shape: Any, dtype: Any) -> list[int]:
        size = _size_along(shape, axis)
        # Bytes of a slice of size 1 along the axis.
        row = _count_bytes(shape, dtype, bytes_per_string_element) // max(size, 1)
        # A slice of size 1 is never cut, so that a large slice may exceed the bound.
        rows_each = max(1, max_shard_bytes // max(row, 1))
        count = math.ceil(size / rows_each)
        return _parts_along(shape, axis, count if max_shards is None else min(count, max_shards))

    return choose_parts


@public
def min_max_variable_partitioner(
    max_partitions: int = 1, axis: int = 0, min_slice_size: int = 256 << 10, bytes_per_string_element: int = 16
) -> Partitioner:
    """Return a partitioner with as many shards as allowed, up to a minimum size of the shards.

    Parameters
    ----------
    max_partitions : int
        Maximum number of shards.
    axis : int
        The dimension to cut.
    min_slice_size : int
        Desired minimum bytes of a shard; since the number of shards is rounded up, they may be somewhat smaller.
    bytes_per_string_element : int
        Assumed size of a string.

    Returns
    -------
    callable
        ``partitioner(shape, dtype)`` returns the number of parts of each dimension, for `PartitionedVariable`.

    Examples
    --------
    >>> import tagloom as tg
    >>> partitioner = tg.min_max_variable_partitioner(8)
    >>> partitioner([1000, 64], "float32"), partitioner([100000, 64], "float32")
    ([1, 1], [8, 1])
    """
    _check_positive("max_partitions", max_partitions)
    _check_positive("min_slice_size", min_slice_size)

    def choose_parts(shape: Any, dtype: Any) -> list[int]:
        # Number of shards of `min_slice_size` bytes; the last may be smaller.
        worth = math.ceil(_count_bytes(shape, dtype, bytes_per_string_element) / min_slice_size)
        return _parts_along(shape, axis, min(max_partitions, worth))

    return choose_parts


def _parts_along(shape: Any, axis: int, count: int) -> list[int]:
    """Return the number of parts of each dimension: `count` along `axis`, but at most its size, and 1 elsewhere."""
    parts = [1] * len(Shape(shape))
    parts[axis] = max(1, min(count, _size_along(shape, axis)))
    return parts


def _size_along(shape: Any, axis: int) -> int:
    dims = known_dims(shape)
    return dims[axis_within(axis, len(dims))]


def known_dims(shape: Any) -> tuple[int, ...]:
    """Return the dimensions of a variable to be sharded; ShapeError if any is unknown."""
    if not Shape(shape).is_fully_known:
        raise ShapeError(
            "only a variable of known shape can be cut into shards",
            wanted="a number for each dimension",
            got=Shape(shape),
            hint="give shape=, without None",
        )
    return Shape(shape).as_tuple()


def _count_bytes(shape: Any, dtype: Any, of_string: int) -> int:
    kind: DType = as_dtype(dtype)
    # Strings have no fixed size: the caller estimates their mean.
    itemsize = of_string if kind is string or kind.numpy is None else kind.numpy.itemsize
    return math.prod(known_dims(shape)) * itemsize


def _check_positive(what: str, number: int) -> None:
    if number < 1:
        raise GraphError(
            f"'{what}' of a partitioner has to be positive",
            wanted="1 or more",
            got=number,
            hint="1 shard leaves a variable whole",
        )
