"""Weak tensors: loop variables starting with a Python literal, while their loop is built, and tensors made of them.

A literal has no dtype of its own and takes the dtype of a tensor operand. So does a loop variable starting with a
literal: an operation with a strong (not weak) operand casts the variable to the operand's dtype, if a literal of
its kind may take this dtype. If the body returns the variable in another dtype, the loop is built once more with the
literal in the new dtype (`engine/frontend/control/loops.py`). After the loop is built, none of its tensors is weak.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import compress

from ..base.dtypes import DType
from .operation import Operation
from .region import Region
from .signature import Signature
from .tensor import Tensor

LITERALS = (int, float, complex)  # types of literals that take the dtype of a tensor operand; not bools and strings
_KEY = "weak"


def mark_weak(*tensors: Tensor) -> None:
    """Mark tensors as having the dtype of a literal."""
    for tensor in tensors:
        tensor._derived[_KEY] = True


def is_weak(tensor: Tensor) -> bool:
    """True if the dtype of a tensor comes from a literal alone, and so gives way to others."""
    return _KEY in tensor._derived


def gives_way(dtype: DType, other: DType) -> bool:
    """True if a literal of default dtype `dtype` may become a value of dtype `other`."""
    return 0 < _rank_of_kind(dtype) <= _rank_of_kind(other)


def _rank_of_kind(dtype: DType) -> int:
    # Kinds in the order of promotion; 0 for dtypes that never give way, such as bool and string.
    return 1 if dtype.is_integer else 2 if dtype.is_floating else 3 if dtype.is_complex else 0


def common_dtype(found: Iterable[DType]) -> DType:
    """Return the dtype, of literals of several kinds, to which the others give way."""
    return max(found, key=_rank_of_kind)


def mark_results(op: Operation, signature: Signature) -> None:
    """Mark the results of an operation whose dtype is determined by weak inputs alone."""
    types: dict[str, bool] = {}
    for parameter, tensor in zip(signature.flat(len(op.inputs)), op.inputs, strict=True):
        # A type variable is weak only if all its inputs are weak.
        types[parameter.type] = types.get(parameter.type, True) and is_weak(tensor)
    weak = {type_ for type_, only in types.items() if only and signature.is_variable(type_)}
    outputs = signature.outputs
    are_weak = [parameter.type in weak for parameter in outputs]
    if are_weak == [True]:  # a list of results too
        mark_weak(*op.outputs)
    elif len(are_weak) == len(op.outputs):
        mark_weak(*compress(op.outputs, are_weak))


def settle(regions: Iterable[Region]) -> None:
    """Make all tensors of finished regions strong."""
    for region in regions:
        for tensor in region.params:
            tensor._derived.pop(_KEY, None)
        for op in region.walk():
            for tensor in op.outputs:
                tensor._derived.pop(_KEY, None)
