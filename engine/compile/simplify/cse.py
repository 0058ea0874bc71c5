"""Merge duplicates (common subexpressions): a single operation in place of two with the same value.

An operation merges with an equal one of its own region or of an enclosing region, which runs whenever the operation
would. A value saved twice is read from its first saved output, so that reads of both merge as well.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir.builder import clone_operation
from ...ir.operation import Operation
from ...ir.program import Program, copy_program
from ...ir.region import Region
from ...ir.structured import is_structured, num_results, saved_outputs
from ...ir.tensor import Tensor
from ...ir.traits import UNIQUE


def merge_duplicates(program: Program) -> Program:
    """Return the program with duplicate pure operations merged."""
    seen: dict[tuple[Region, Any], list[Tensor]] = {}
    saved = _Saved()

    def transform(op: Operation, inputs: list[Tensor], region: Region) -> list[Tensor] | None:
        if op.role in UNIQUE or op.definition.effects or op.control_inputs or not op.outputs:
            return None
        inputs = [saved.first(t) for t in inputs]
        key = _equality_key(op, inputs)
        for around in region.ancestors():
            if (around, key) in seen:
                return seen[around, key]
        copy = clone_operation(op, region, inputs, origin=None)
        seen[region, key] = copy.outputs
        return copy.outputs

    return copy_program(program, transform)


class _Saved:
    """The saved values of structured operations, each mapped to the first output with the value."""

    def __init__(self) -> None:
        self._firsts: dict[Operation, list[Tensor]] = {}

    def first(self, tensor: Tensor) -> Tensor:
        """Return the first output with the same saved value as `tensor`, or `tensor` itself."""
        op = tensor.op
        if not is_structured(op) or tensor.index < num_results(op):
            return tensor
        if op not in self._firsts:
            outputs: dict[Any, Tensor] = {}
            pairs = zip(saved_outputs(op), op.outputs[num_results(op) :], strict=True)
            self._firsts[op] = [outputs.setdefault((s.kind, s.value, s.index, s.branch), t) for s, t in pairs]
        return self._firsts[op][tensor.index - num_results(op)]


def _equality_key(op: Operation, inputs: list[Tensor]) -> Any:
    # Inputs by identity: they are copies already merged, so equal tensors are one object.
    attrs = tuple((name, _freeze_value(value)) for name, value in sorted(op.attrs.items()))
    return op.type, op.device, tuple(map(id, inputs)), attrs


def _freeze_value(value: object) -> Any:
    """Return a hashable form of an attribute's value, equal for equal values of a type."""
    if isinstance(value, np.ndarray):
        content = tuple(value.ravel().tolist()) if value.dtype.kind == "T" else value.tobytes()
        # Bytes, not values: -0.0 and 0.0 differ, and NaN equals itself. Strings (kind T) hold pointers, not characters.
        return value.dtype.str, value.shape, content
    if isinstance(value, slice):
        return "slice", value.start, value.stop, value.step
    if isinstance(value, (list, tuple)):
        return tuple(map(_freeze_value, value))
    try:
        hash(value)
    except TypeError:
        return id(value)
    # With the type, because True == 1 == 1.0.
    return type(value), value
