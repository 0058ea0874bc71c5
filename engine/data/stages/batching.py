"""Batches: arrays of several elements along a new first axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base.array_like import as_array
from ...base.containers import Dicts
from ...base.dtypes import as_dtype
from ...base.errors import DtypeError, ShapeError
from ...base.nest import rebuild_as
from .elements import describe_element, kind_of_element, leaves_of, parts_of, skeleton_of

Array = np.ndarray[Any, Any]


def batch_of(elements: Sequence[Any]) -> Any:
    """Return a batch of elements of one structure, dtypes and shapes.

    Raises
    ------
    ShapeError, DtypeError
        If they differ.
    """
    return _join_elements(elements, _stack_column, None)


def padded_batch_of(elements: Sequence[Any], padding: object = None) -> Any:
    """Return a batch of elements of one structure and dtypes, each padded at the end of its axes to the largest.

    Parameters
    ----------
    elements : sequence
    padding : scalar or structure of them, optional
        Zero, the empty string or False by default.

    Raises
    ------
    ShapeError, DtypeError
        If structures, dtypes or ranks differ.
    """
    return _join_elements(elements, _pad_column, padding)


def _join_elements(elements: Sequence[Any], join: Any, padding: Any) -> Any:
    """Return the batch of elements: their structure, with columns of leaves joined by a function."""
    first = elements[0]
    wanted = skeleton_of(first)
    if wanted is None:
        return join(elements, padding)
    for each in elements:
        if skeleton_of(each) != wanted:
            raise ShapeError(
                "the elements of a batch have different structures",
                wanted=describe_element(first),
                got=describe_element(each),
                hint="let a map give all elements one structure",
            )
    if isinstance(kind_of_element(first), Dicts):
        # by key, because dicts of equal skeletons may differ in the order of their keys
        columns = [[each[key] for each in elements] for key in first]
        fillings = [padding[key] if isinstance(padding, dict) else padding for key in first]
        return {
            key: _join_elements(column, join, filling)
            for key, column, filling in zip(first, columns, fillings, strict=True)
        }
    fillings = _paddings_of_parts(first, padding)
    columns_of_parts = zip(*(parts_of(each) or [] for each in elements), strict=True)
    parts = [_join_elements(column, join, filling) for column, filling in zip(columns_of_parts, fillings, strict=True)]
    return rebuild_as(first, parts)


def _paddings_of_parts(first: object, padding: object) -> list[Any]:
    """Return the padding of each part of an element: its own where the padding has the element's structure."""
    count = len(parts_of(first) or [])
    if isinstance(padding, tuple):
        return [padding[i] for i in range(count)]
    return parts_of(padding) or [] if type(padding) is type(first) else [padding] * count


def _stack_column(column: Sequence[Any], _: object) -> Array:
    """Return the batch of a column of equal shapes; ShapeError for others."""
    arrays = _column_arrays(column)
    # a column of scalars is joined already
    if isinstance(arrays, np.ndarray):
        return arrays
    if len({array.shape for array in arrays}) > 1:
        raise _mismatch_error(
            "shapes", arrays, "make batches by padded_batch, or let a map give all elements one shape"
        )
    return np.stack(arrays)


def _pad_column(column: Sequence[Any], padding: object) -> Array:
    """Return the batch of a column, filled up with padding to the largest size along each axis."""
    arrays = _column_arrays(column)
    if isinstance(arrays, np.ndarray):
        return arrays
    first = arrays[0]
    if len({array.ndim for array in arrays}) > 1:
        raise _mismatch_error("ranks", arrays, "let a map give all elements one rank")
    if len({array.shape for array in arrays}) == 1:
        return np.stack(arrays)
    largest = [max(sizes) for sizes in zip(*(array.shape for array in arrays), strict=True)]
    # NumPy's strings of variable width cannot be filled with 0
    is_text = first.dtype.kind == "T"
    filling = ("" if is_text else 0) if padding is None else padding
    batch = np.full((len(arrays), *largest), filling, first.dtype)
    # a fast path for sequences, the usual case
    if len(largest) == 1:
        for row, array in zip(batch, arrays, strict=True):
            row[: len(array)] = array
    else:
        for row, array in zip(batch, arrays, strict=True):
            row[tuple(map(slice, array.shape))] = array
    return batch


def _column_arrays(column: Sequence[Any]) -> list[Array] | Array:
    """Return the arrays of a column, or a single array of a column of scalars; DtypeError if dtypes differ."""
    first = column[0]
    if isinstance(first, (bytes, bytearray)):
        raise DtypeError(
            "bytes cannot be in a batch",
            wanted="arrays, numbers or strings",
            got=describe_element(first),
            hint="decode them in a map before",
        )
    # all at once: NumPy finds the common dtype, and a thousand small arrays take long
    if type(first) in (int, float, bool, str, complex):
        return as_array(list(column))
    if isinstance(first, np.generic) and all(type(each) is type(first) for each in column):
        return np.array(column, as_dtype(first.dtype).numpy)
    arrays = [each if isinstance(each, np.ndarray) else as_array(each) for each in column]
    if len({array.dtype for array in arrays}) > 1:
        raise _mismatch_error("dtypes", arrays, "let a map give all elements one dtype")
    as_dtype(arrays[0].dtype)  # raises DtypeError for dtypes of no tensor
    return arrays


def _mismatch_error(what: str, arrays: Sequence[Array], hint: str) -> ShapeError | DtypeError:
    """Return the error of a column, with its first array and the first different array."""
    kind = DtypeError if what == "dtypes" else ShapeError
    other = next(
        each
        for each in arrays
        if (each.dtype if what == "dtypes" else each.ndim if what == "ranks" else each.shape)
        != (arrays[0].dtype if what == "dtypes" else arrays[0].ndim if what == "ranks" else arrays[0].shape)
    )
    return kind(
        f"the elements of a batch have different {what}",
        wanted=describe_element(arrays[0]),
        got=describe_element(other),
        hint=hint,
    )


def length_of(element: object) -> int:
    """Return the length of an element's first leaf."""
    return len(leaves_of(element)[0])
