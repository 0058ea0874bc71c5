"""Warnings of operations that do nothing unless they are used, and that nobody can use any more.

A write to a TensorArray happens if the array that it returned is used, an Assert if something waits for it. What is
neither used in the graph nor held by the program was forgotten, as a coroutine that nobody awaited. Python tells by
the number of references: the graph's own are known, and any other may still lead to a use.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from typing import Any

from ..base.source_lines import Source
from .graph import Graph
from .operation import Operation

_NOTED = "must_be_used"  # the collection of a graph


def must_be_used(op: Operation, name: str | None) -> None:
    """Note an operation that the user asked for, unless by a name, under which it may be run later."""
    if name is None:
        op.graph.collections.setdefault(_NOTED, []).append(op)


def warn_of_unused(graph: Graph) -> None:
    """Warn, once for each line, of operations that nobody can use any more.

    Parameters
    ----------
    graph : Graph
        What was noted of it and may still be used is looked at again the next time.

    Warns
    -----
    RuntimeWarning
        At the line that asked for the operation, with the text of its definition.
    """
    noted: list[Operation] = graph.collections.pop(_NOTED, [])
    forgotten = [_is_forgotten(noted, i) for i in range(len(noted))]
    warning: dict[tuple[Source | None, str], None] = {}
    for op, lost in zip(noted, forgotten, strict=True):
        if lost:
            warning[op.source, op.definition.unused] = None
        elif not any(tensor._consumers for tensor in op.outputs):
            must_be_used(op, None)
    for source, text in warning:
        if source is not None:
            warnings.warn_explicit(text, RuntimeWarning, source.file, source.line)


def _is_forgotten(noted: Sequence[Operation], i: int) -> bool:
    """Whether nothing but the graph refers to an operation, or to what it gives."""
    outputs = noted[i].outputs
    known = 2 + len(set(noted[i].inputs)) + len(outputs)  # its region, the graph's names; the tensors that know of it
    return _others(noted, i) == known and all(_others(outputs, k) == 0 for k in range(len(outputs)))


def _others(items: Sequence[Any], i: int) -> int:
    """Return how many references there are to an element beside that of its list."""
    return sys.getrefcount(items[i]) - _ALONE


_ALONE = 0
_ALONE = _others([object()], 0)
