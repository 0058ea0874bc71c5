"""Warnings for operations that have no effect unless their result is used, once no further use is possible.

A write to a TensorArray happens if the returned array is used, an Assert if another operation waits for it. An
operation neither used in the graph nor held by the program was forgotten, like a coroutine never awaited. The
number of references decides: the graph's own are known, and any other may still lead to a use.
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
from .rules.edges import WarnsUnused

_NOTED = "must_be_used"  # name of the collection of a graph with the recorded operations


def must_be_used(op: Operation, name: str | None) -> None:
    """Record an operation to be used, except a named operation, which may be run later by its name."""
    if name is None:
        op.graph.collections.setdefault(_NOTED, []).append(op)


@contextmanager
def unless_it_fails(graph: Graph) -> Iterator[None]:
    """Drop the operations recorded inside if the block raises: their users were not built."""
    before = list(graph.collections.get(_NOTED, ()))
    try:
        yield
    except BaseException:
        graph.collections[_NOTED] = before
        raise


def warn_of_unused(graph: Graph) -> None:
    """Warn, once per line, of recorded operations without any possible use.

    Parameters
    ----------
    graph : Graph
        The graph whose records are checked; records of possible uses are checked again the next time.

    Warns
    -----
    RuntimeWarning
        At the line of the operation, with the text of its definition.
    """
    # Popped, because only the list `noted` may refer to the operations when references are counted.
    noted: list[Operation] = graph.collections.pop(_NOTED, [])
    lost = [i for i in range(len(noted)) if _is_held_by_none(noted, i)]
    # The walk over all operations is made only if some operation seems lost.
    waited_for = {control for op in graph.root.walk() for control in op.control_inputs} if lost else set()
    forgotten = {noted[i] for i in lost} - waited_for
    warning: dict[tuple[Source | None, str], None] = {}
    for op in noted:
        if op in forgotten:
            rule = op.rule(WarnsUnused)
            assert rule is not None  # types without the rule are never recorded
            warning[op.source, rule.text] = None
        # Without a reader as yet, but within the user's reach: checked again later.
        elif not any(tensor._consumers for tensor in op.outputs):
            must_be_used(op, None)
    for source, text in warning:
        if source is not None:
            warnings.warn_explicit(text, RuntimeWarning, source.file, source.line)


def _is_held_by_none(noted: Sequence[Operation], i: int) -> bool:
    """Return True if nothing outside of the graph refers to an operation's outputs, or to one without outputs."""
    outputs = noted[i].outputs
    if outputs:
        return all(_count_other_references(outputs, k) == 0 for k in range(len(outputs)))
    # References of the graph: its region, its table of names, and `_consumers` of each input.
    return _count_other_references(noted, i) == 2 + len(set(noted[i].inputs))


def _count_other_references(items: Sequence[Any], i: int) -> int:
    """Return the number of references to an element, except by its list."""
    return sys.getrefcount(items[i]) - _ALONE


# References made by the count itself, which vary between versions of Python: measured on an otherwise unused object.
_ALONE = 0
_ALONE = _count_other_references([object()], 0)
