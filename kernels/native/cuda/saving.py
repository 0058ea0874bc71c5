"""Saved values in kernels of native programs: rows of series, one for each slot."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..program import Code, Instruction
from .emitting import does
from .values import NotWritten, Value, c_type, cast
from .written import Saved

if TYPE_CHECKING:
    from .writer import Writer


@does(Code.PUSH)
def _push(w: Writer, i: int, each: Instruction) -> None:
    """Write a row; without room, come back here when there is some."""
    (register,), (source, slot) = each.outputs, each.inputs
    value, index = w.value(source), w.value(slot).code
    saved = _series(w, register, value, slot, i)
    if saved.shape != value.shape:
        raise NotWritten(f"{w.name_of(register)} has values of several shapes")
    w.fail_if(f"{index} < 0")
    w.lines += [f"if ({index} >= n{register}) {{", f"state[2] = {register};", f"LEAVE(NO_ROOM, {i})", "}"]
    w.uses(value)
    w.each(value.size, [f"y{register}[(long long){index} * {value.size} + i] = {value.at('i')};"])
    if saved.count is None:
        w.each(1, [f"w{register}[{index}] = 1;"])


def _series(w: Writer, register: int, value: Value, slot: int, i: int) -> Saved:
    """Return a series that is written, with parameters for it; the first value decides on the shape."""
    found = [saved for saved in w.made.saved if saved.register == register]
    if found:
        return found[0]
    pushes = [each for each in w.program.instructions if each.code is Code.PUSH and each.outputs == (register,)]
    counters = {r for each in w.program.instructions if each.code is Code.COUNT for r in each.outputs}
    is_full = slot in counters and i not in w.branches and len(pushes) == 1
    saved = Saved(register, value.shape, value.dtype, w.made.elements[slot] if is_full else None)
    w.made.saved.append(saved)
    w.parameters += [f"{c_type(value.dtype)}* y{register}", f"long long n{register}"]
    w.parameters += [f"unsigned char* w{register}"] * (not is_full)
    return saved


@does(Code.READ)
def _read(w: Writer, i: int, each: Instruction) -> None:
    """Let a register hold a row; where there is none, zeros if their shape is given."""
    series, slot, *shape = each.inputs
    given, index, (register,) = w.given[series], w.value(slot).code, each.outputs
    if given.dtype is None:
        raise NotWritten(f"{w.name_of(series)} is no series of rows")
    row = Value(given.dtype, given.shape, f"(x{series} + (long long){index} * {math.prod(given.shape)})")
    is_there = f"{index} >= 0 && {index} < n{series}" + f" && w{series}[{index}]" * given.is_masked
    if shape:
        _read_or_zeros(w, register, row, is_there, shape[0])
        return
    is_sure = given.is_masked and not each.is_maybe
    w.fail_if(f"!({is_there})" if is_sure else f"{index} < 0 || {index} >= n{series}")
    if row.is_element:
        w.line(f"{w.make(register, ()).code} = {row.code}[0];")
    else:
        w.values[register] = row


def _read_or_zeros(w: Writer, register: int, row: Value, is_there: str, shape: int) -> None:
    if tuple(map(int, w.known(shape))) != row.shape:
        raise NotWritten(f"{w.name_of(register)} has values of several shapes")
    made = w.make(register, row.shape)
    w.uses(made, written=True)
    w.assign(made, f"{is_there} ? {row.code}[{'0' if row.is_element else 'i'}] : {cast(row.dtype, '0')}")
