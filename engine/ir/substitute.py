"""Use other tensors in place of some, everywhere in a program that a pass may change."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from .program import Program
from .structured import is_structured, saved_outputs
from .tensor import Tensor


def returned(program: Program) -> Counter[Tensor]:
    """Return how often tensors are used by something else than operations: as results of regions, saved, fetched."""
    found = Counter(program.fetches)
    for op in program.graph.root.walk():
        found.update(t for region in op.regions for t in region.results)
        if is_structured(op):
            found.update(t for e in saved_outputs(op) for t in (e.value, e.index) if t is not None)
    return found


def substitute(program: Program, moved: dict[Tensor, Tensor]) -> None:
    """Use other tensors instead of those that are keys of `moved`, everywhere in the program."""
    if not moved:
        return
    for op in list(program.graph.root.walk()):
        for i, tensor in enumerate(op.inputs):
            if tensor in moved:
                op.update_input(i, moved[tensor])
        for region in op.regions:
            region.results = [moved.get(t, t) for t in region.results]
        if is_structured(op):
            op.attrs["saved_outputs"] = [
                replace(e, value=moved.get(e.value, e.value), index=moved.get(e.index, e.index))  # type: ignore[arg-type]
                for e in saved_outputs(op)
            ]
    program.fetches = [moved.get(t, t) for t in program.fetches]
