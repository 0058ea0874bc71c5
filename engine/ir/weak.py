"""Weak tensors: loop variables that begin with a Python literal, while their loop is built, and what is made of them.

A literal has no dtype of its own; beside a tensor it takes that of the tensor. So does a loop variable that begins
with one: where an operation has it beside a tensor that is not weak, it is cast to the dtype of that one, if a literal
of its kind would become it. If the body gives the variable another dtype, the loop is built once more with the literal
in that dtype (`engine/frontend/loops.py`). When the loop is built nothing of it is weak any longer.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import compress

from ..base.dtypes import DType
from .operation import Operation
from .region import Region
from .signature import Signature
from .tensor import Tensor

LITERALS = (int, float, complex)  # types of what takes the dtype of a tensor beside it, bools and strings apart
_KEY = "weak"


def mark_weak(*tensors: Tensor) -> None:
    """Note that tensors have the dtype of literals."""
    for tensor in tensors:
        tensor._derived[_KEY] = True


def is_weak(tensor: Tensor) -> bool:
    """Whether the dtype of a tensor is only that of a literal, so that it gives way to others."""
    return _KEY in tensor._derived


def gives_way(dtype: DType, other: DType) -> bool:
    """Whether a literal whose dtype would be `dtype` may become one of dtype `other`."""
    return 0 < _kind(dtype) <= _kind(other)


def _kind(dtype: DType) -> int:
    return 1 if dtype.is_integer else 2 if dtype.is_floating else 3 if dtype.is_complex else 0


def common_dtype(found: Iterable[DType]) -> DType:
    """Return the first of the dtypes to which the others give way, of literals of several kinds."""
    return max(found, key=_kind)


def mark_results(op: Operation, signature: Signature) -> None:
    """Mark the results of an operation whose dtype is that of weak inputs alone."""
    types: dict[str, bool] = {}
    for parameter, tensor in zip(signature.flat(len(op.inputs)), op.inputs, strict=True):
        types[parameter.type] = types.get(parameter.type, True) and is_weak(tensor)
    weak = {type_ for type_, only in types.items() if only and signature.is_variable(type_)}
    outputs = signature.outputs
    are_weak = [parameter.type in weak for parameter in outputs]
    if are_weak == [True]:  # a list of results too
        mark_weak(*op.outputs)
    elif len(are_weak) == len(op.outputs):
        mark_weak(*compress(op.outputs, are_weak))


def settle(regions: Iterable[Region]) -> None:
    """Let nothing in regions that are built be weak any longer."""
    for region in regions:
        for tensor in region.params:
            tensor._derived.pop(_KEY, None)
        for op in region.walk():
            for tensor in op.outputs:
                tensor._derived.pop(_KEY, None)
