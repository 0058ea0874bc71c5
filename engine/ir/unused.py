"""Warnings of operations that do nothing unless they are used, and that nobody can use any more.

A write to a TensorArray happens if the array that it returned is used, an Assert if something waits for it. What is
neither used in the graph nor held by the program was forgotten, as a coroutine that nobody awaited. Python tells by
the number of references: the graph's own are known, and any other may still lead to a use.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..base.source_lines import Source
from .graph import Graph
from .operation import Operation

_NOTED = "must_be_used"  # the collection of a graph


def must_be_used(op: Operation, name: str | None) -> None:
    """Note an operation that the user asked for, unless by a name, under which it may be run later."""
    if name is None:
        op.graph.collections.setdefault(_NOTED, []).append(op)


@contextmanager
def unless_it_fails(graph: Graph) -> Iterator[None]:
    """Forget what was noted inside if that raises: what was to use it was not built."""
    before = list(graph.collections.get(_NOTED, ()))
    try:
        yield
    except BaseException:
        graph.collections[_NOTED] = before
        raise


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
    lost = [i for i in range(len(noted)) if _is_held_by_none(noted, i)]
    waited_for = {control for op in graph.root.walk() for control in op.control_inputs} if lost else set()
    forgotten = {noted[i] for i in lost} - waited_for
    warning: dict[tuple[Source | None, str], None] = {}
    for op in noted:
        if op in forgotten:
            warning[op.source, op.definition.unused] = None
        elif not any(tensor._consumers for tensor in op.outputs):
            must_be_used(op, None)
    for source, text in warning:
        if source is not None:
            warnings.warn_explicit(text, RuntimeWarning, source.file, source.line)


def _is_held_by_none(noted: Sequence[Operation], i: int) -> bool:
    """Whether nothing but the graph refers to what an operation gives, or to one that gives nothing."""
    outputs = noted[i].outputs
    if outputs:
        return all(_others(outputs, k) == 0 for k in range(len(outputs)))
    return _others(noted, i) == 2 + len(set(noted[i].inputs))  # its region, the graph's names, the inputs' users


def _others(items: Sequence[Any], i: int) -> int:
    """Return how many references there are to an element beside that of its list."""
    return sys.getrefcount(items[i]) - _ALONE


_ALONE = 0
_ALONE = _others([object()], 0)
