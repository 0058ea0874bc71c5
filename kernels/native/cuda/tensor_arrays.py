"""Elements of TensorArrays in kernels of native programs: rows, with marks of their readers and writers.

Special cases (a missing element, or a second write) are left to the step machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..program import Code, Instruction
from .emitting import emits_code
from .values import NotWritten, Value

if TYPE_CHECKING:
    from .writer import Writer


@emits_code(Code.GET)
def _emit_get(w: Writer, i: int, each: Instruction) -> None:
    """Load an element to a register."""
    (handle, slot, *_, count), (register,) = each.inputs, each.outputs
    given, index, shape = w.given[handle], w.value(slot).code, w.element_shapes.get(handle)
    if given.dtype is None or given.dtype != w.dtype_of(register) or shape is None:
        raise NotWritten(f"{each.name} reads what has no shape or another dtype")
    marks = _access_marks(w, handle)
    w.note_access(marks, each_own=False)
    w.fail_if(f"{index} < 0 || {index} >= n{handle}")
    # the element was there before the run, or this run has written it
    w.fail_if(f"!(b{handle}[{index}] & 1 || d{handle}[n{handle} + {index}])")
    if "kept" not in given.kind:
        w.fail_if(f"d{handle}[{index}]")
    _record_access(w, marks, f"d{handle}[{index}]", each, w.value(count).code)
    row = Value(given.dtype, shape, "", f"x{handle}")
    row.code = f"(x{handle} + (long long){index} * {row.size})"
    if row.is_element:
        w.note_access(row, each_own=False)
        w.add_line(f"{w.make(register, ()).code} = {row.code}[0];")
    else:
        w.values[register] = row


@emits_code(Code.PUT)
def _emit_put(w: Writer, i: int, each: Instruction) -> None:
    """Write an element not written or read before."""
    handle, slot, source, count = each.inputs
    value, index, given = w.value(source), w.value(slot).code, w.given[handle]
    if given.dtype != value.dtype or w.element_shapes.setdefault(handle, value.shape) != value.shape:
        raise NotWritten(f"{each.name} writes what has another shape or dtype")
    marks = _access_marks(w, handle)
    w.fail_if(f"{index} < 0" + f" || {index} >= n{handle}" * ("growing" not in given.kind))
    w.lines += [f"if ({index} >= n{handle}) {{", f"state[2] = {handle};", f"LEAVE(NO_ROOM, {i})", "}"]
    w.note_access(marks, each_own=False)
    # the element was unused before the run, and this run has neither read nor written it
    w.fail_if(f"!(b{handle}[{index}] & 2) || d{handle}[{index}] || d{handle}[n{handle} + {index}]")
    _record_access(w, marks, f"d{handle}[n{handle} + {index}]", each, w.value(count).code)
    w.note_access(value)
    w.note_access(Value(given.dtype, value.shape, f"x{handle}", f"x{handle}"), each_own=False, written=True)
    w.add_loop(value.size, [f"x{handle}[(long long){index} * {value.size} + i] = {value.at('i')};"])


def _access_marks(w: Writer, handle: int) -> Value:
    """Return the marks of elements."""
    return Value(np.dtype(np.int64), (1,), f"d{handle}", f"d{handle}")


def _record_access(w: Writer, marks: Value, place: str, each: Instruction, count: str) -> None:
    """Record the instruction and the iteration of an access."""
    same = [
        k
        for k, other in enumerate(w.program.instructions)
        if other.code is each.code and other.inputs[0] == each.inputs[0]
    ]
    # marks begin at 1, because 0 stands for no access
    number = next(k for k, at in enumerate(same) if w.program.instructions[at] is each)
    w.note_access(marks, each_own=False, written=True)
    w.add_loop(1, [f"{place} = {count} * {len(same)} + {number + 1};"])
