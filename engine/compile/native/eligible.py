"""Eligibility of operations for native programs, and reasons for refusal."""

from __future__ import annotations

from dataclasses import replace
from inspect import iscoroutinefunction

import numpy as np

from ...base import dtypes
from ...base.dtypes import DType
from ...base.settings import Switches
from ...ir.definition import Ufunc
from ...ir.operation import Operation
from ...ir.rules.shapes import ShapeOnly
from ...ir.structured import num_results
from ...ir.tensor import Tensor
from ...ir.traits import Role
from ...kernels.native.program import Computation
from .called import CalledKernel
from .rules import ON_CPU, Rules
from .sizes import size_inputs

HANDLES = frozenset({dtypes.resource, dtypes.series})


class NotNative(Exception):
    """Refusal of a native program: an operation, and the reason against the operation."""

    def __init__(self, op: Operation, reason: str) -> None:
        super().__init__(f"{op.name} ({op.type}) {reason}")
        self.op = op
        self.reason = reason


def computation_of(op: Operation, switches: Switches, rules: Rules = ON_CPU, calls: bool = False) -> Computation:
    """Return the Computation of a pure operation.

    With `calls`, an operation without a C kernel has one too: its Python kernel is called.

    Raises
    ------
    NotNative
        If the operation does more, or no kernel of it can be a step.
    """
    _check_computes(op, rules)
    definition = op.definition
    reads = rules.generator.values_read(op.type)
    ufunc = definition.kernel.name if isinstance(definition.kernel, Ufunc) else None
    kernel = CalledKernel(op) if calls and rules.generator.calls_kernels and _can_be_called(op) else None
    # `reads` is empty if a kernel plans its work by shapes alone, and None if there is no kernel.
    if reads is None and ufunc is None and kernel is None:
        raise NotNative(op, f"has no kernel in {rules.generator.language} that can be repeated")
    _check_dtypes(op, rules)
    # Only declared attributes: the others are notes of passes, which no kernel takes.
    attrs = {key: op.attrs[key] for key in definition.attrs}
    computation = Computation(op.name, op.type, attrs, ufunc, definition.has(ShapeOnly), reads or (), kernel)
    computation = replace(computation, sizes=size_inputs(op, computation.reads))
    input_dtypes, output_dtypes = [[np.dtype(t.dtype.numpy) for t in tensors] for tensors in (op.inputs, op.outputs)]
    if rules.generator.has_kernel(computation, input_dtypes, output_dtypes, switches):
        return computation
    if kernel is not None:
        return replace(computation, is_called=True)
    raise NotNative(
        op, f"has no kernel in {rules.generator.language} for " + ", ".join(t.dtype.name for t in op.inputs)
    )


def _check_computes(op: Operation, rules: Rules) -> None:
    """Refuse operations with handles, with kernels of outside packages, and those that do more than compute."""
    check_handles(op)
    if rules.has_own_kernel(op):
        raise NotNative(op, "has a registered kernel")
    if op.role is not Role.KERNEL or op.definition.stateful or not op.outputs:
        raise NotNative(op, "does more than compute")


def _can_be_called(op: Operation) -> bool:
    """Return True for an operation whose kernel is a function that returns arrays, not an awaitable."""
    return not iscoroutinefunction(op.definition.kernel)


def check_handles(op: Operation) -> None:
    """Refuse operations with handles among their inputs or outputs."""
    for tensor in (*op.inputs, *op.outputs):
        if tensor.dtype in HANDLES:
            raise NotNative(op, f"has values of dtype {tensor.dtype.name}")


def _check_dtypes(op: Operation, rules: Rules) -> None:
    for tensor in (*op.inputs, *op.outputs):
        check_dtype(tensor.dtype, op, rules)


def check_dtype(dtype: DType, op: Operation, rules: Rules = ON_CPU) -> None:
    """Refuse a dtype without support in registers."""
    # Handles have no NumPy dtype, and pass: a register may hold a TensorArray for GET and PUT, for example.
    numpy = dtype.numpy
    if numpy is not None and not rules.generator.has_dtype(np.dtype(numpy)):
        raise NotNative(op, f"has values of dtype {dtype.name}")


def may_be_dead(tensor: Tensor) -> bool:
    """Return True for a value saved by a branch of a Cond, and for its reads: dead if another branch ran."""
    return tensor.op.is_cond and tensor.index >= num_results(tensor.op) or bool(tensor.op.attrs.get("maybe"))


def refuse_swapping(loop: Operation, rules: Rules) -> None:
    """Refuse a loop under a memory limit if its saved values, or those of a loop in it, may leave the memory."""
    inside = (inner for region in loop.regions for inner in region.walk())
    if rules.is_limited and any(each.is_while and each.attrs.get("swap_memory") for each in (loop, *inside)):
        raise NotNative(loop, "saves values that may leave the device's memory")
