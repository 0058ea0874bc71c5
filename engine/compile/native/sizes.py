"""Registers whose values determine shapes: sizes of results, paddings, bounds.

The memory of a run has fixed addresses, so sizes must be known when the run is recorded. They are, if they come from
outside of the loop, from shapes, or from slots of a series that all have the same value: see `Rows that are sizes` in
kernels/native/saving.pyx.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir.operation import Operation
from ...kernels.native.program import Code, Instruction

_SLOT_INPUTS = {Code.READ: 2, Code.READ_NESTED: 3}  # a further input is the shape of the zeros for an empty slot


def size_inputs(op: Operation, reads: Sequence[int]) -> tuple[int, ...]:
    """Return the inputs of an operation whose values determine shapes; `reads` are those that its C kernel looks at."""
    parameters = op.definition.signature.flat(len(op.inputs))
    on_host = {k for k, parameter in enumerate(parameters) if parameter.is_host and op.inputs[k].dtype.is_integer}
    # Where all inputs are in the host's memory, some are plain numbers, such as the key of a draw.
    if all(parameter.is_host for parameter in parameters) and all(t.shape.is_fully_known for t in op.outputs):
        on_host = set()
    return tuple(sorted(on_host.union(reads)))


def find_sizes(
    instructions: Sequence[Instruction], registers: Sequence[tuple[str, np.dtype[Any] | None]]
) -> tuple[int, ...]:
    """Return the registers that determine shapes, directly or by operations on integers."""
    found: set[int] = set()
    for each in reversed(instructions):
        if each.code in _SLOT_INPUTS:
            found.update(each.inputs[_SLOT_INPUTS[each.code] :])
        if each.computation is None:
            continue
        found.update(each.inputs[k] for k in each.computation.sizes)
        if not each.computation.shape_only and not found.isdisjoint(each.outputs):
            found.update(r for r in each.inputs if _is_integer(registers[r][1]))
    return tuple(sorted(r for r in found if _is_integer(registers[r][1])))


def _is_integer(dtype: np.dtype[Any] | None) -> bool:
    return dtype is not None and dtype.kind in "iu"
