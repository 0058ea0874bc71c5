"""Gradient arrays with more than two addends for an element: their order decides the last bits.

Two addends commute. So writes need an order where an array has more than two, or where a write may meet an element in
several iterations: reads of an element by many others, as of a node by its neighbours.
"""

from __future__ import annotations

from ..ir.accesses import Key
from ..ir.loops import Loop
from ..ir.operation import Operation
from ..ir.region import Region
from ..ir.rules.native import RunsAs
from ..ir.rules.shapes import StoresElement


def keys_of_sums(root: Region) -> dict[Operation, Key]:
    """Return the ordered writes to gradient arrays, with the key of each array."""
    writes: dict[Operation, list[Operation]] = {}
    for op in root.walk():
        if op.definition.has(StoresElement) and _is_sum(op.inputs[0].op):
            writes.setdefault(op.inputs[0].op, []).append(op)
    return {
        op: ("gradient arrays", made.name)
        for made, ops in writes.items()
        if len(ops) > 2 or not all(_meets_once(op, made.region) for op in ops)
        for op in ops
    }


def _is_sum(made: Operation) -> bool:
    """Return True for the maker of a gradient array of a call of ``gradients()``."""
    if _code_of(made) != "NEW":
        return False
    return bool(made.attrs["sums"]) if "sums" in made.attrs else made.attrs["source"] is None


def _meets_once(op: Operation, home: Region) -> bool:
    """Return True if a write meets no element twice; the array is made in region `home`."""
    loops = [region.owner for region in op.region.ancestors() if region.owner is not None and region.owner.is_while]
    loops = [loop for loop in loops if not home.is_inside(loop)]
    if not loops:
        return _code_of(op) != "SCATTER"  # whose indices may repeat
    return len(loops) == 1 and _code_of(op) == "PUT" and bool(Loop(loops[0]).slope(op.inputs[1]))


def _code_of(op: Operation) -> str:
    instruction = op.rule(RunsAs)
    return "" if instruction is None else instruction.code
