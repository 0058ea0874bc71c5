"""Static knowledge of tensors while the graph is built: constant values, and shapes held by integer vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.shapes import Shape
from .operation import Operation
from .rules.shapes import ShapeVector
from .tensor import Tensor

_MOST_DIMENSIONS = 64  # NumPy's limit for an array; a longer vector is no shape


def static_value(tensor: Tensor) -> np.ndarray[Any, Any] | None:
    """Return the value of a tensor if known when the graph is built, else None.

    Operations built from the value cannot follow another value, so from now on no step may feed the tensor (rule 58).
    """
    chain = _passed_on(tensor)
    value = _value_of(chain[-1])
    # An empty value cannot be fed differently: its static shape fixes it.
    if value is not None and value.size:
        tensor.graph.unfeedable.update(chain)
    return value


def _passed_on(tensor: Tensor, casts: bool = False) -> list[Tensor]:
    """Return a tensor and the tensors before it in a chain of copies and casts, nearest first."""
    chain = [tensor]
    while _hands_on(chain[-1].op, casts):
        chain.append(chain[-1].op.inputs[0])
    return chain


def _hands_on(op: Operation, casts: bool) -> bool:
    return op.type == "Identity" or (casts and op.type == "Cast")


def _value_of(tensor: Tensor) -> np.ndarray[Any, Any] | None:
    if tensor.op.is_constant:
        value: np.ndarray[Any, Any] = tensor.op.attrs["value"]
        return value
    shape = static_shape(tensor) if tensor.dtype.is_integer and tensor.rank == 1 else None
    if shape is not None and shape.is_fully_known:
        return np.asarray(shape.as_tuple(), tensor.dtype.numpy)
    return None


def static_shape(tensor: Tensor) -> Shape:
    """Return the known part of the shape held by an integer vector (-1 means unknown); see `static_value`."""
    chain = _passed_on(tensor, casts=True)
    shape = _shape_in(chain[-1])
    if shape.rank and any(d is not None for d in shape):
        tensor.graph.unfeedable.update(chain)
    return shape


def _shape_in(tensor: Tensor) -> Shape:
    rule = tensor.op.rule(ShapeVector)
    found = None if rule is None else rule.known(tensor.op)
    if found is not None:
        return found
    length = tensor.shape[0] if tensor.rank == 1 else None
    return Shape(None) if length is None or length > _MOST_DIMENSIONS else Shape([None] * length)


def static_dimension(tensor: Tensor) -> int | None:
    """Return the size held by an integer scalar, if known when the graph is built."""
    chain = _passed_on(tensor, casts=True)
    rule = chain[-1].op.rule(ShapeVector)
    found = None if rule is None else rule.known(chain[-1].op)
    if found is None or found.rank != 1 or found[0] is None:
        return None
    tensor.graph.unfeedable.update(chain)
    size: int = found[0]
    return size
