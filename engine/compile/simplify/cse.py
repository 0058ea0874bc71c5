"""Merge duplicates (common subexpressions): one operation where two compute the same value.

An operation merges with a twin of its own region or of a region around it, which runs whenever it would. What is saved
twice is read from where it was saved first, so that reads of it are twins too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir.builder import copied
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
        key = _key(op, inputs)
        for around in region.ancestors():
            if (around, key) in seen:
                return seen[around, key]
        copy = copied(op, region, inputs, origin=None)
        seen[region, key] = copy.outputs
        return copy.outputs

    return copy_program(program, transform)


class _Saved:
    """Values that are saved by one operation, each of them known by where it is saved first."""

    def __init__(self) -> None:
        self._firsts: dict[Operation, list[Tensor]] = {}

    def first(self, tensor: Tensor) -> Tensor:
        """Return the first output that saves what a tensor is, or the tensor itself."""
        op = tensor.op
        if not is_structured(op) or tensor.index < num_results(op):
            return tensor
        if op not in self._firsts:
            outputs: dict[Any, Tensor] = {}
            pairs = zip(saved_outputs(op), op.outputs[num_results(op) :], strict=True)
            self._firsts[op] = [outputs.setdefault((s.kind, s.value, s.index, s.branch), t) for s, t in pairs]
        return self._firsts[op][tensor.index - num_results(op)]


def _key(op: Operation, inputs: list[Tensor]) -> Any:
    attrs = tuple((name, _freeze(value)) for name, value in sorted(op.attrs.items()))
    return op.type, op.device, tuple(map(id, inputs)), attrs


def _freeze(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        content = tuple(value.ravel().tolist()) if value.dtype.kind == "T" else value.tobytes()
        return value.dtype.str, value.shape, content
    if isinstance(value, slice):
        return "slice", value.start, value.stop, value.step
    if isinstance(value, (list, tuple)):
        return tuple(map(_freeze, value))
    try:
        hash(value)
    except TypeError:
        return id(value)
    return type(value), value
