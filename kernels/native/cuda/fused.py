"""Fused operations in kernels of native programs: a function for all their steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...cuda.launching import WIDEST
from ...cuda.writing import Input, find_widths, has_reductions, is_flat, write_fused
from ...steps import STEPS, find_batch_dims, has_all_rows, stands_for_all_rows
from ..program import Computation, Instruction
from .emitting import emits_operations
from .reductions import lanes_for
from .values import NotWritten, Shape, Value, c_type

if TYPE_CHECKING:
    from .writer import Writer


@emits_operations("Fused", kinds="f")
def _emit_fused(w: Writer, computation: Computation, values: Sequence[Value], each: Instruction) -> None:
    """Call a function of all steps."""
    attrs = computation.attrs
    steps, results = attrs["steps"], attrs["results"]
    batch_dims = _batch_dims(computation, values)
    constants = [w.add_constant(constant) for constant in attrs["constants"]]
    inputs = [*_describe_inputs(values, attrs["has_rows"]), *[Input(0, False, is_value=True)] * len(constants)]
    widths = _register_widths(computation, inputs)
    made = [w.make(r, (*batch_dims, widths[i])) for r, i in zip(each.outputs, results, strict=True)]
    rows, flat = math.prod(batch_dims), is_flat(steps, inputs)
    if flat:  # each element becomes a row of its own
        rows, inputs = made[0].size, [each._replace(width=min(each.width, 1)) for each in inputs]
    for value in values:
        w.note_access(value, each_own=flat)
    for value in made:
        w.note_access(value, each_own=flat, written=True)
    text = write_fused(steps, inputs, results, inside=True)
    if has_reductions(steps):
        lanes = lanes_for(rows, max(widths))
        text = f"#undef LANES\n#define LANES {lanes}u\n{text}"
    name = w.add_function(text)
    codes = [value.code for value in (*values, *constants, *made)]
    w.add_line(f"{name}<{c_type(values[0].dtype)}>({rows}, {', '.join(codes)});")
    size = max(value.size for value in made)
    w.note_elements(max(size, rows * max(widths)) if has_reductions(steps) else size, cost=len(steps))


def _describe_inputs(values: Sequence[Value], has_rows: Sequence[bool]) -> list[Input]:
    pairs = zip(values, has_rows, strict=True)
    return [Input(value.shape[-1] if value.shape else 0, has, is_value=value.is_element) for value, has in pairs]


def _register_widths(computation: Computation, inputs: Sequence[Input]) -> list[int]:
    """Return the width of each register; NotWritten for incompatible inputs, or rows too wide."""
    steps = computation.attrs["steps"]
    try:
        widths = find_widths(steps, inputs)
    except ValueError as error:
        raise NotWritten(str(error)) from error
    if has_reductions(steps) and max(widths) > WIDEST:
        raise NotWritten(f"{computation.name} reduces {max(widths)} columns")
    return widths


def _batch_dims(computation: Computation, values: Sequence[Value]) -> Shape:
    """Return the dimensions of all rows; NotWritten for inputs of unexpected shapes."""
    attrs = computation.attrs
    given = [(value.shape, has_rows) for value, has_rows in zip(values, attrs["has_rows"], strict=True)]
    batch_dims = find_batch_dims(given, attrs["batch_dims"])
    for dims, has_rows in given:
        if not (has_all_rows(dims, batch_dims) if has_rows else stands_for_all_rows(dims, batch_dims)):
            raise NotWritten(f"{computation.name} was not made for {list(dims)}")
    if any(constant.dtype != values[0].dtype for constant in attrs["constants"]):
        raise NotWritten(f"{computation.name} has constants of another dtype")
    if None in batch_dims or not all(name in STEPS for name, *_ in attrs["steps"]):
        raise NotWritten(f"{computation.name} has rows or steps that are not known")
    return batch_dims
