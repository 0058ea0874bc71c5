"""Counts of non-negative integers, and of pairs of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base import dtypes
from ...base.dtypes import as_dtype
from ...ir.apply import apply, constant, convert_to_tensor
from ...ir.definition import NotDifferentiable, Sample, define
from ...ir.entry import public
from ...ir.rules.kernels import ReadsValues
from ...ir.rules.vectorizing import Vectorize
from ...ir.tensor import Tensor
from ..math.casting import cast
from ..support.arguments import index_tensor
from ..support.common import same_as, shape_of
from ..support.literals import i32, i64
from ..support.vectorizing.families import one_by_one


def ones_for(like: Tensor, dtype: Any) -> Tensor:
    """Return ones of `dtype` in the shape of `like`, as the weights of a count."""
    return apply("Fill", shape_of(like), constant(np.ones((), as_dtype(dtype).numpy)))


def _bin_numbers(xp: Any, arr: Any, size: Any) -> Any:
    if arr.size and int(arr.min()) < 0:
        raise ValueError(f"bincount counts numbers from 0 up, got {int(arr.min())}")
    # UnsortedSegmentSum leaves rows with a negative id out
    return xp.where(arr < int(size), arr, xp.full((), -1, dtype=arr.dtype))


define(
    "BinNumbers",
    "arr: I, size: host J -> numbers: I",
    where={"I": dtypes.INDEX, "J": dtypes.INDEX},
    shape=same_as(0),
    rules=[Vectorize(one_by_one), ReadsValues()],
    kernel=_bin_numbers,
    gradient=NotDifferentiable("its results are integers"),
    samples=[
        Sample([i32([3, 0, 5, 2]), i32(3)], i32([-1, 0, -1, 2])),
        Sample([np.zeros((2, 0), np.int64), i64(0)], np.zeros((2, 0), np.int64)),
    ],
)


def above_all(*values: Tensor) -> Tensor:
    """Return the largest of all integer `values` plus 1; 0 if there are none."""
    flat = [apply("Reshape", v, constant(i32([-1]))) for v in values]
    # Max of an empty tensor has no value: -1 is a lower bound, and makes the result 0
    lowest = constant(np.full(1, -1, values[0].dtype.numpy))
    return apply("Max", apply("Concat", [*flat, lowest], axis=0)) + 1


@public
def bincount(
    arr: Any,
    weights: Any = None,
    minlength: Any = None,
    maxlength: Any = None,
    dtype: Any = dtypes.int32,
    name: str | None = None,
) -> Tensor:
    """Count each number from 0 up, or add up the weights of each; gradients go to the weights.

    Parameters
    ----------
    arr : int32 or int64 Tensor of any shape
        From 0 up.
    weights : Tensor of any numeric dtype, optional
        Of the shape of `arr`: the weight of each number; 1 when None.
    minlength, maxlength : int32 or int64 scalar, optional
        Least and largest length of the result. Numbers from `maxlength` on are left out.
    dtype : dtype-like
        Of the counts, where there are no weights.

    Returns
    -------
    Tensor
        A vector of length ``max(arr) + 1``, within these bounds; of `dtype`, or the dtype of the weights.

    Raises
    ------
    OpError
        When the step runs, if a number is negative.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.bincount([1, 3, 1, 0])).sync()
    array([1, 2, 0, 1], dtype=int32)
    >>> tg.function(lambda: tg.bincount([1, 3, 1, 0], weights=[0.5, 2.0, 1.0, 3.0], maxlength=2)).sync()
    array([3. , 1.5], dtype=float32)
    """
    numbers = index_tensor(arr)
    size = above_all(numbers)
    # In this order: `maxlength` limits a larger `minlength` too.
    for bound, limit in (("Maximum", minlength), ("Minimum", maxlength)):
        if limit is not None:
            size = apply(bound, size, cast(index_tensor(limit), size.dtype))
    ids = apply("BinNumbers", numbers, size)
    values = ones_for(numbers, dtype) if weights is None else convert_to_tensor(weights)
    return apply("UnsortedSegmentSum", values, ids, size, name=name)


@public
def confusion_matrix(
    labels: Any,
    predictions: Any,
    num_classes: Any = None,
    dtype: Any = dtypes.int32,
    name: str | None = None,
    weights: Any = None,
) -> Tensor:
    """Count the predictions of each class for each class of labels.

    Parameters
    ----------
    labels, predictions : int32 or int64 Tensor of shape [n]
        Class numbers from 0 up; either may have another dimension, of size 1.
    num_classes : int32 or int64 scalar, optional
        The largest class number plus 1 when None.
    dtype : dtype-like
        Of the counts.
    weights : Tensor of any numeric dtype, optional
        Of shape [n]: the weight of each pair; 1 when None.

    Returns
    -------
    Tensor
        Of shape [num_classes, num_classes]: rows are labels, columns predictions.

    Raises
    ------
    OpError
        When the step runs, if a class number is out of range.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.confusion_matrix([1, 2, 2], [1, 2, 0])).sync()
    array([[0, 0, 0],
           [0, 1, 0],
           [1, 0, 1]], dtype=int32)
    """
    rows, columns = _without_last(index_tensor(labels), index_tensor(predictions))
    rows, columns = cast(rows, dtypes.int64), cast(columns, dtypes.int64)
    count = above_all(rows, columns) if num_classes is None else cast(index_tensor(num_classes), dtypes.int64)
    values = ones_for(rows, dtype) if weights is None else cast(convert_to_tensor(weights), dtype)
    places = apply("Stack", [rows, columns], axis=-1)
    shape = apply("Stack", [count, count], axis=0)
    # ScatterNd adds up the weights of repeated pairs
    return apply("ScatterNd", places, values, shape, name=name)


def _without_last(labels: Tensor, predictions: Tensor) -> tuple[Tensor, Tensor]:
    """Drop the last dimension, of size 1, of the tensor of higher rank."""
    ranks = (labels.rank, predictions.rank)
    if ranks[0] is None or ranks[1] is None or ranks[0] == ranks[1]:
        return labels, predictions
    if ranks[0] == ranks[1] + 1:
        return apply("Squeeze", labels, axis=(-1,)), predictions
    return labels, apply("Squeeze", predictions, axis=(-1,))
