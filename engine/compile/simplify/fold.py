"""Fold constants: compute while compiling what depends on constants alone.

Fed tensors are Feed operations by now, so a constant that is fed is none (rule 58). Nothing is folded by algebra
(as ``x * 0 = 0``): breaking a data dependency changes deadness.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir.builder import make_constant
from ...ir.operation import Operation
from ...ir.program import Program, copy_program
from ...ir.region import Region
from ...ir.tensor import Tensor


def fold_constants(program: Program, most_bytes: int) -> Program:
    """Return the program with constant operations computed, where results are at most `most_bytes` large."""

    def transform(op: Operation, inputs: list[Tensor], region: Region) -> list[Tensor] | None:
        if not inputs or op.control_inputs or any(not t.op.is_constant or t.op.control_inputs for t in inputs):
            return None
        values = _evaluate(op, inputs, most_bytes)
        return (
            None if values is None else [_constant(op, region, *pair) for pair in zip(op.outputs, values, strict=True)]
        )

    return copy_program(program, transform)


def _evaluate(op: Operation, inputs: list[Tensor], most_bytes: int) -> list[np.ndarray[Any, Any]] | None:
    definition = op.definition
    if definition.kernel is None or definition.stateful or not op.outputs or _size(op) > most_bytes:
        return None
    attrs = {key: op.attrs[key] for key in definition.attrs}
    try:
        with np.errstate(all="ignore"):
            result = definition.kernel(np, *[t.op.attrs["value"] for t in inputs], **attrs)
    except Exception:
        return None  # the step reports it, with its tag, if it is ever run
    results = list(result) if len(op.outputs) > 1 or isinstance(result, (tuple, list)) else [result]
    values = [
        np.asarray(v, t.dtype.numpy if isinstance(v, str) else None) for t, v in zip(op.outputs, results, strict=False)
    ]
    return values if [v.dtype for v in values] == [t.dtype.numpy for t in op.outputs] else None


def _size(op: Operation) -> int:
    total = 0
    for tensor in op.outputs:
        if not tensor.dtype.is_value or tensor.dtype.numpy is None:
            return 1 << 62
        elements = tensor.shape.num_elements
        total += (1 << 62) if elements is None else elements * tensor.dtype.numpy.itemsize
    return total


def _constant(op: Operation, region: Region, output: Tensor, value: np.ndarray[Any, Any]) -> Tensor:
    return make_constant(region, region.graph.unique_name(op.name), np.array(value), output.dtype, like=op)
