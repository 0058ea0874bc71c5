"""Say which arrays of elements take part in swapping, and which feeds need not be in a device's memory at once.

A loop that may swap what it saves may do so with the elements of its TensorArrays too. What is fed and only taken apart
into such elements stays in the host's memory, from where each row is copied in when it is read.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..ir.operation import Operation
from ..ir.rewrite import Program

_LOOKS_AT = frozenset({"Shape", "Size", "Rank"})  # they do not need the values


def mark_swapped(program: Program) -> Program:
    """Mark TensorArrays used in loops under swap, and what takes feeds apart for them; the given program is changed."""
    for op in program.graph.root.walk():
        if op.type == "While" and op.attrs.get("swap_memory"):
            for array in _arrays(op):
                array.attrs["swap"] = True
    for feed in program.feeds:
        if all(_takes_apart(use) or use.type in _LOOKS_AT for use in feed._consumers):
            for use in feed._consumers:
                if _takes_apart(use):
                    use.attrs["lent"] = True
    return program


def _arrays(loop: Operation) -> Iterator[Operation]:
    """Yield what makes the arrays that a loop reads or writes."""
    for region in loop.regions:
        for op in region.walk():
            if op.type in ("TensorArrayRead", "TensorArrayWrite") and op.inputs[0].op.type == "TensorArrayNew":
                yield op.inputs[0].op


def _takes_apart(op: Operation) -> bool:
    """Whether an operation only makes elements of an array under swap."""
    return op.type == "TensorArrayUnstack" and bool(op.inputs[0].op.attrs.get("swap"))
