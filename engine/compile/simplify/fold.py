"""Fold constants: compute operations on constants alone at compile time.

Fed tensors are Feed operations by now, so a fed constant is not folded (rule 58). There is no folding by algebra (as
``x * 0 = 0``), because breaking a data dependency changes deadness. For the same reason a known shape counts as a
constant only in a program without hand-made primitives of control flow: values of regions are never dead at their uses.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir.builder import make_constant
from ...ir.operation import Operation
from ...ir.own_kernels import HasOwnKernel, has_no_own_kernel
from ...ir.program import Program, copy_program
from ...ir.region import Region
from ...ir.rules.shapes import ShapeOnly, ShapeVector
from ...ir.static_values import static_shape
from ...ir.structured import saved_value
from ...ir.tensor import Tensor
from ...ir.traits import PRIMITIVES, Role

Array = np.ndarray[Any, Any]


def fold_constants(program: Program, most_bytes: int, has_own_kernel: HasOwnKernel = has_no_own_kernel) -> Program:
    """Return the program with constant operations computed, where results are at most `most_bytes` large.

    Operations with registered kernels are left for these.
    """
    return copy_program(program, _Folding(program, most_bytes, has_own_kernel).transform)


class _Folding:
    """The constants of a program, found during its copy."""

    def __init__(self, program: Program, most_bytes: int, has_own_kernel: HasOwnKernel) -> None:
        self.has_own_kernel = has_own_kernel
        self.most_bytes = most_bytes
        self.is_structured = not any(op.role in PRIMITIVES for op in program.graph.root.walk())
        self.constants: dict[Tensor, Array] = {}  # by the tensors of the given program

    def transform(self, op: Operation, inputs: list[Tensor], region: Region) -> list[Tensor] | None:
        """Return constants for the outputs of an operation, None if the outputs are not constant."""
        if op.is_constant:
            self.constants[op.outputs[0]] = op.attrs["value"]
        if not inputs or op.control_inputs or self.has_own_kernel(op):
            return None
        values = self._shape_only(op, inputs) or self._compute_values(op, inputs)
        if values is None:
            return None
        self.constants.update(zip(op.outputs, values, strict=True))
        return [_emit_constant(op, region, *pair) for pair in zip(op.outputs, values, strict=True)]

    def _shape_only(self, op: Operation, inputs: list[Tensor]) -> list[Array] | None:
        """Return the values of an operation on the shapes of its inputs, not on their elements."""
        if not self.is_structured:
            return None
        if op.role is Role.SERIES_READ and not op.attrs["maybe"]:
            value = saved_value(op.inputs[0])  # the same in every slot, such as a shape known by now
            return [self.constants[value]] if value is not None and value in self.constants else None
        if op.definition.has(ShapeOnly) and inputs[0].shape.is_fully_known:
            # A broadcast view: the operation looks at the shape alone, so no array of this size is allocated.
            return _evaluate_kernel(op, [np.broadcast_to(np.False_, inputs[0].shape.as_tuple())], self.most_bytes)
        return _shape_vector(op)

    def _compute_values(self, op: Operation, inputs: list[Tensor]) -> list[Array] | None:
        """Return the values of an operation whose inputs are all constants, None otherwise."""
        # A constant with a control input may be dead, and so must be results computed from it.
        if any(not t.op.is_constant or t.op.control_inputs for t in inputs):
            return None
        return _evaluate_kernel(op, [t.op.attrs["value"] for t in inputs], self.most_bytes)


def _shape_vector(op: Operation) -> list[Array] | None:
    """Return the integer vector computed by an operation, for a fully known shape."""
    rule = op.rule(ShapeVector)
    if rule is None or op.outputs[0].rank != 1 or not op.outputs[0].dtype.is_integer:
        return None
    if rule.is_checked and not all(static_shape(t).is_fully_known for t in op.inputs):
        return None  # the kernel has to run its check in the step
    shape, output = rule.known(op), op.outputs[0]
    if shape is None or not shape.is_fully_known or output.shape[0] != len(shape):
        return None
    return [np.array(shape.as_tuple(), output.dtype.numpy)]


def _evaluate_kernel(op: Operation, arrays: list[Array], most_bytes: int) -> list[Array] | None:
    """Return the results of an operation on constant arrays; None if they are too large or the kernel fails."""
    definition = op.definition
    if definition.kernel is None or definition.stateful or not op.outputs or _result_bytes(op) > most_bytes:
        return None
    attrs = {key: op.attrs[key] for key in definition.attrs}
    try:
        with np.errstate(all="ignore"):
            result = definition.kernel(np, *arrays, **attrs)
    except Exception:
        return None  # the step reports the error, with its tag, if it ever runs the operation
    results = list(result) if len(op.outputs) > 1 or isinstance(result, (tuple, list)) else [result]
    values = [
        np.asarray(v, t.dtype.numpy if isinstance(v, str) else None) for t, v in zip(op.outputs, results, strict=False)
    ]
    # A result of another dtype than declared is not folded: as a constant it would change its value unseen.
    return values if [v.dtype for v in values] == [t.dtype.numpy for t in op.outputs] else None


def _result_bytes(op: Operation) -> int:
    """Return the bytes of an operation's results, more than any limit if unknown or no array."""
    total = 0
    for tensor in op.outputs:
        if not tensor.dtype.is_value or tensor.dtype.numpy is None:
            return 1 << 62
        elements = tensor.shape.num_elements
        total += (1 << 62) if elements is None else elements * tensor.dtype.numpy.itemsize
    return total


def _emit_constant(op: Operation, region: Region, output: Tensor, value: Array) -> Tensor:
    return make_constant(region, region.graph.unique_name(op.name), np.array(value), output.dtype, like=op)
