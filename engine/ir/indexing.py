"""``tensor[key]``: what NumPy's indexing becomes in a graph."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base import dtypes
from ..base.errors import GraphError
from .apply import apply, as_symbolic, convert_to_tensor
from .tensor import Tensor

newaxis = None  # a dimension of size 1 in ``t[key]``, as NumPy and TensorFlow call it


def slice_tensor(tensor: Tensor, key: Any) -> Tensor:
    """Build ``tensor[key]``: integers, slices, ellipsis, None and scalar tensors, or one boolean mask."""
    keys = key if isinstance(key, tuple) else (key,)
    if len(keys) == 1 and _is_mask(keys[0]):
        return apply("BooleanMask", tensor, keys[0])  # type: ignore[no-any-return]
    spec: list[Any] = []
    dynamic: list[Any] = []
    for part in keys:
        spec.append(_slice_part(tensor, part, dynamic))
    return apply("StridedSlice", tensor, dynamic, spec=tuple(spec))  # type: ignore[no-any-return]


def _is_mask(key: Any) -> bool:
    if isinstance(key, np.ndarray):
        return bool(key.dtype == np.bool_)
    return as_symbolic(key) and convert_to_tensor(key).dtype is dtypes.bool_


class Dynamic:
    """Marks, in the spec of a StridedSlice, a bound that comes as an input."""

    def __repr__(self) -> str:
        return "DYNAMIC"


DYNAMIC = Dynamic()


def _slice_part(tensor: Tensor, part: Any, dynamic: list[Any]) -> Any:
    def bound(value: Any) -> Any:
        if value is None or isinstance(value, (int, np.integer)) and not isinstance(value, bool):
            return value if value is None else int(value)
        if as_symbolic(value):
            symbol = convert_to_tensor(value)
            if symbol.dtype.is_integer and symbol.rank in (0, None):
                dynamic.append(symbol)
                return DYNAMIC
        raise GraphError(
            "this can not index a tensor",
            wanted="integers, slices, ..., None, scalar integer tensors or a mask",
            got=repr(value),
            operation=tensor.op,
            hint="use gather, gather_nd or boolean_mask",
        )

    if part is Ellipsis or part is None:
        return part
    if isinstance(part, slice):
        return slice(bound(part.start), bound(part.stop), bound(part.step))
    return bound(part)
