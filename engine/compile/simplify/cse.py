"""Merge duplicates (common subexpressions): one operation where two compute the same value.

An operation merges with a twin of its own region or of a region around it, which runs whenever it would.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir.builder import copied
from ...ir.operation import Operation
from ...ir.program import Program, copy_program
from ...ir.region import Region
from ...ir.tensor import Tensor
from ...ir.traits import UNIQUE


def merge_duplicates(program: Program) -> Program:
    """Return the program with duplicate pure operations merged."""
    seen: dict[tuple[Region, Any], list[Tensor]] = {}

    def transform(op: Operation, inputs: list[Tensor], region: Region) -> list[Tensor] | None:
        if op.role in UNIQUE or op.definition.effects or op.control_inputs or not op.outputs:
            return None
        key = _key(op, inputs)
        for around in region.ancestors():
            if (around, key) in seen:
                return seen[around, key]
        copy = copied(op, region, inputs, origin=None)
        seen[region, key] = copy.outputs
        return copy.outputs

    return copy_program(program, transform)


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
