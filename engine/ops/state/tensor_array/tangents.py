"""Tangents of TensorArrays: an array of tangents beside each array, written and read at the same places.

The tangent of a handle is the handle of this array, the tangent of a flow a flow of it. An array of tangents made in
another way than its array, as the one of a gradient array, reads zeros where nothing was written.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....ir.apply import constant
from ....ir.operation import Operation
from ....ir.rules.forward_mode import Tangents
from ....ir.tensor import Tensor
from ...support.common import shape_of, zeros_like
from ...support.tangents import repeat_operation

Given = Sequence[Tensor | None]


def _make_array(op: Operation, given: Given) -> list[Tensor]:
    return repeat_operation(op, op.inputs)


def _is_twin(handle: Tensor) -> bool:
    """True if an array of tangents was made like its array, so that it has an element for each written element."""
    return handle.op.definition.has(Tangents)


def writes(place: int) -> Tangents:
    """Return the rule of an operation that writes its input at `place`."""

    def push_write(op: Operation, given: Given) -> list[Tensor | None]:
        handle, tangent, flow = given[0], given[place], given[-1]
        assert handle is not None
        if tangent is None:
            if not _is_twin(handle):
                return [flow]
            tangent = zeros_like(op.inputs[place])
        moved = list(op.inputs)
        moved[0], moved[place] = handle, tangent
        moved[-1] = constant(np.float32(0)) if flow is None else flow
        return list(repeat_operation(op, moved))

    return Tangents(push_write)


def reads(place: int, *, has_shape: bool = True) -> Tangents:
    """Return the rule of an operation that reads, with its flow at `place`; a shape of unwritten zeros may follow."""

    def push_read(op: Operation, given: Given) -> list[Tensor | None]:
        handle, flow = given[0], given[place]
        assert handle is not None
        if flow is None:
            return [None for _ in op.outputs]
        moved = list(op.inputs)
        moved[0], moved[place] = handle, flow
        if has_shape and not _is_twin(handle) and len(moved) == place + 1:
            moved.append(shape_of(op.outputs[0]))
        return [repeat_operation(op, moved)[0]]

    return Tangents(push_read)


MAKES = Tangents(_make_array)
