"""``tensor[key]``: NumPy's indexing as operations of a graph."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base import dtypes
from ..base.errors import GraphError
from .apply import apply, as_symbolic, convert_to_tensor
from .tensor import Tensor

newaxis = None  # a dimension of size 1 in ``t[key]``, as NumPy and TensorFlow call it


def slice_tensor(tensor: Tensor, key: object) -> Tensor:
    """Build ``tensor[key]``: integers, slices, ellipsis, None and scalar tensors; or a single mask; or row numbers."""
    keys = key if isinstance(key, tuple) else (key,)
    if len(keys) == 1 and _is_mask(keys[0]):
        return apply("BooleanMask", tensor, keys[0])
    if len(keys) == 1 and _is_rows(keys[0]):
        return _take_rows(tensor, keys[0])
    spec: list[Any] = []
    dynamic: list[Any] = []
    for part in keys:
        spec.append(_slice_part(tensor, part, dynamic))
    return apply("StridedSlice", tensor, dynamic, spec=tuple(spec))


def _is_mask(key: object) -> bool:
    if isinstance(key, np.ndarray):
        return bool(key.dtype == np.bool_)
    return as_symbolic(key) and convert_to_tensor(key).dtype is dtypes.bool_


def _is_rows(key: object) -> bool:
    """True for a list or an array of row numbers."""
    if isinstance(key, list):
        return bool(key) and all(isinstance(k, (list, int, np.integer)) or as_symbolic(k) for k in key)
    if isinstance(key, np.ndarray):
        return bool(key.ndim and key.dtype.kind in "iu")
    if not as_symbolic(key):
        return False
    symbol = convert_to_tensor(key)
    return symbol.dtype.is_integer and bool(symbol.rank)


def _take_rows(tensor: Tensor, key: object) -> Tensor:
    """Take rows by their numbers, from the end where negative, as NumPy does."""
    if isinstance(key, list) and not as_symbolic(key):
        key = np.asarray(key)
        # A list of bools is a mask, although Python's bools are ints.
        if key.dtype == np.bool_:
            return apply("BooleanMask", tensor, key)
    indices = convert_to_tensor(key)
    if indices.dtype not in dtypes.INDEX:
        indices = apply("Cast", indices, dtype=dtypes.int64)
    # Only indices that may be negative need the number of rows, which is known when the step runs.
    if not isinstance(key, np.ndarray) or (key < 0).any():
        count = apply("Cast", apply("Shape", tensor)[0], dtype=indices.dtype)
        indices = apply("Where", apply("Less", indices, 0), apply("Add", indices, count), indices)
    return apply("Gather", tensor, indices, axis=0)


class Dynamic:
    """Placeholder in the spec of a StridedSlice for a bound passed as input."""

    def __repr__(self) -> str:
        return "DYNAMIC"


DYNAMIC = Dynamic()


def _slice_part(tensor: Tensor, part: object, dynamic: list[Any]) -> Any:
    """Return an index or a slice with static bounds as ints; symbolic bounds are appended to `dynamic`."""

    def convert_bound(value: object) -> Any:
        # In Python a bool is an int, but True is no index here.
        if value is None or isinstance(value, (int, np.integer)) and not isinstance(value, bool):
            return value if value is None else int(value)
        if as_symbolic(value):
            symbol = convert_to_tensor(value)
            if symbol.dtype.is_integer and symbol.rank in (0, None):
                dynamic.append(symbol)
                return DYNAMIC
        raise GraphError(
            "this cannot index a tensor",
            wanted="integers, slices, ..., None, scalar integer tensors or a mask",
            got=repr(value),
            operation=tensor.op,
            hint="use gather along an axis, gather_nd for places in several dimensions, boolean_mask for bools",
        )

    if part is Ellipsis or part is None:
        return part
    if isinstance(part, slice):
        return slice(convert_bound(part.start), convert_bound(part.stop), convert_bound(part.step))
    return convert_bound(part)


def whole_rows(spec: tuple[Any, ...]) -> bool:
    """True if an index expression, after its first index, takes all of the remaining dimensions."""
    return all(part is Ellipsis or (isinstance(part, slice) and part == slice(None)) for part in spec[1:])
