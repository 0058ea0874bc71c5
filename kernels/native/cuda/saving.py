"""Saved values in kernels of native programs: series as arrays with a row per slot.

The saved values of an inner loop are rows of a single series, in the order of the loop's runs; the surrounding series
has the bounds of each run's rows.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ..program import Code, Instruction
from .emitting import emits_code
from .values import NotWritten, Value, c_type, cast
from .written import Saved

if TYPE_CHECKING:
    from .writer import Writer

_BOUNDS = Value(np.dtype(np.int64), (2,), "")  # of a run of an inner loop


@emits_code(Code.PUSH)
def _emit_push(w: Writer, i: int, each: Instruction) -> None:
    """Write a row."""
    (register,), (source, slot) = each.outputs, each.inputs
    value = w.value(source)
    saved = _declare_series(w, register, value, slot, i)
    if saved.shape != value.shape:
        raise NotWritten(f"{w.name_of(register)} has values of several shapes")
    place = _write_slot_address(w, i, saved, slot)
    w.note_access(value)
    w.add_loop(value.size, [f"{place}[i] = {value.at('i')};"])


@emits_code(Code.NEST)
def _emit_nest(w: Writer, i: int, each: Instruction) -> None:
    """Write the bounds of the rows of an inner loop's run."""
    (register,), (first, end, slot, rows) = each.outputs, each.inputs
    place = _write_slot_address(w, i, _declare_series(w, register, _BOUNDS, slot, i, rows), slot)
    w.add_loop(1, [f"{place}[0] = {w.value(first).code};", f"{place}[1] = {w.value(end).code};"])


def _write_slot_address(w: Writer, i: int, saved: Saved, slot: int) -> str:
    """Return C of the address of a slot's row; without room, leave and resume at this instruction."""
    register, index = saved.register, w.value(slot).code
    w.fail_if(f"{index} < 0")
    # the host grows the series and launches again at this instruction
    w.lines += [f"if ({index} >= n{register}) {{", f"state[2] = {register};", f"LEAVE(NO_ROOM, {i})", "}"]
    if saved.count is None:
        w.add_loop(1, [f"w{register}[{index}] = 1;"])
    return f"(y{register} + (long long){index} * {math.prod(saved.shape)})"


def _declare_series(w: Writer, register: int, value: Value, slot: int, i: int, nested: int | None = None) -> Saved:
    """Return a written series, declared with parameters at its first use; the first value fixes the shape."""
    found = [saved for saved in w.made.saved if saved.register == register]
    if found:
        return found[0]
    same = [each for each in w.program.instructions if each.outputs == (register,)]
    counters = {r for each in w.program.instructions if each.code is Code.COUNT for r in each.outputs}
    # slots numbered by a counter are all written, so that their flags can be omitted
    is_full = slot in counters and i not in w.branches and len(same) == 1
    saved = Saved(register, value.shape, value.dtype, w.made.elements[slot] if is_full else None, nested)
    w.made.saved.append(saved)
    w.parameters += [f"{c_type(value.dtype)}* y{register}", f"long long n{register}"]
    w.parameters += [f"unsigned char* w{register}"] * (not is_full)
    return saved


@emits_code(Code.READ)
def _emit_read(w: Writer, i: int, each: Instruction) -> None:
    """Load a row to a register; empty slots read as zeros if a shape is given."""
    series, slot, *shape = each.inputs
    index, given = w.value(slot).code, w.given[series]
    if given.kind != "series":
        raise NotWritten(f"{w.name_of(series)} is no series of rows")
    is_there = f"{index} >= 0 && {index} < n{series}"
    is_written = f" && w{series}[{index}]" * given.is_masked
    _read_row(w, each, f"(long long){index}", is_there, is_written, shape)


@emits_code(Code.READ_NESTED)
def _emit_read_nested(w: Writer, i: int, each: Instruction) -> None:
    """Load a row of a run of an inner loop to a register."""
    series, run, slot, *shape = each.inputs
    number, index, given = w.value(run).code, w.value(slot).code, w.given[series]
    if given.kind != "nested series":
        raise NotWritten(f"{w.name_of(series)} is no series of rows of loops")
    place = f"(t{series}[2 * {number}] + {index})"
    is_there = f"{number} >= 0 && {number} < m{series} && {index} >= 0 && {place} < t{series}[2 * {number} + 1]"
    _read_row(w, each, place, is_there, f" && w{series}[{place}]" * given.is_masked, shape)


def _read_row(w: Writer, each: Instruction, place: str, is_there: str, is_written: str, shape: list[int]) -> None:
    """Load a row at a place to a register; an empty slot fails unless its value is not used."""
    (register,), series = each.outputs, each.inputs[0]
    given = w.given[series]
    assert given.dtype is not None
    row = Value(given.dtype, given.shape, f"(x{series} + {place} * {math.prod(given.shape)})")
    if shape:
        _read_or_zeros(w, register, row, is_there + is_written, shape[0])
        return
    w.fail_if(f"!({is_there}{'' if each.is_maybe else is_written})")
    if row.is_element:
        w.add_line(f"{w.make(register, ()).code} = {row.code}[0];")
    else:
        w.values[register] = row


def _read_or_zeros(w: Writer, register: int, row: Value, is_there: str, shape: int) -> None:
    """Copy a row to a register, or zeros for an empty slot."""
    if tuple(map(int, w.known_value(shape))) != row.shape:
        raise NotWritten(f"{w.name_of(register)} has values of several shapes")
    made = w.make(register, row.shape)
    w.note_access(made, written=True)
    w.assign(made, f"{is_there} ? {row.code}[{'0' if row.is_element else 'i'}] : {cast(row.dtype, '0')}")
