"""Mark the TensorArrays taking part in swapping, and the feeds that stay in the host's memory.

A loop that may swap its saved values may swap elements of its TensorArrays as well. A feed only unstacked into
elements for such a loop, or for a loop with recomputation, stays in the host's memory: each row is copied to the device
when read, and need not be copied back when saved.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.operation import Operation
from ...ir.program import Program
from ...ir.rules.shapes import ShapeOnly
from ...ir.tensor import Tensor

_USES = frozenset({"TensorArrayRead", "TensorArrayReadBlock", "TensorArrayWrite"})


def set_swap_memory(program: Program, wanted: bool | None) -> Program:
    """Set `swap_memory` of all loops to `wanted`, whatever they ask for; `program` is changed."""
    for op in program.graph.root.walk():
        if op.is_while:
            op.attrs["swap_memory"] = wanted
    return program


def mark_swapped(program: Program) -> Program:
    """Mark TensorArrays used in loops under swap, and operations unstacking feeds for them; `program` is changed."""
    loops = [op for op in program.graph.root.walk() if op.is_while]
    for loop in loops:
        swaps = bool(loop.attrs.get("swap_memory"))
        for array in _find_array_producers(loop) if swaps or "checkpoint_every" in loop.attrs else ():
            array.attrs["accepts_host_rows"] = True
            array.attrs["swappable"] |= swaps
    host_backed = [use for feed in program.feeds for use in _taking_apart(feed)]
    for op in host_backed:
        op.attrs["host_backed"] = True
    for loop in loops if host_backed else ():
        loop.note(host_backed=True)
    return program


def _find_array_producers(loop: Operation) -> Iterator[Operation]:
    """Yield the producers of the arrays read or written by a loop."""
    for region in loop.regions:
        for op in region.walk():
            if op.type in _USES and op.inputs[0].op.type == "TensorArrayNew":
                yield op.inputs[0].op


def _taking_apart(feed: Tensor) -> list[Operation]:
    """Return the operations unstacking a feed into swappable arrays, if the feed has no other uses."""
    uses = [use for use in feed._consumers if not use.definition.has(ShapeOnly)]
    return (
        uses if is_unstacked_only(feed) and all(use.inputs[0].op.attrs.get("accepts_host_rows") for use in uses) else []
    )


def is_unstacked_only(feed: Tensor) -> bool:
    """Return True if all uses of a feed are unstacking into arrays and reads of the shape."""
    return all(use.definition.has(ShapeOnly) or use.type == "TensorArrayUnstack" for use in feed._consumers)
