"""Topological order of operations: each after its sources, except for the back edges of loops (rule 55)."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence

from ..base.errors import GraphError
from .operation import Operation
from .traits import Role

Captured = dict[Operation, list[Operation]]


def topological_order(operations: Sequence[Operation], captured: Captured | None = None) -> list[Operation]:
    """Return operations of a region, each after its sources; the existing order is kept where possible.

    Parameters
    ----------
    operations : sequence of Operation
    captured : dict, optional
        Cache for callers sorting all regions of an unchanging graph in turn: the outside operations used by
        the regions of each Cond and While.

    Raises
    ------
    GraphError
        If there is a cycle other than from a NextIteration to a Merge.
    """
    needs = _find_needs(operations, {} if captured is None else captured)
    seen: set[Operation] = set()
    # Most regions are in order already, which a scan finds without sorting.
    for op in operations:
        if not needs[op] <= seen:
            return _sort_by_needs(operations, needs)
        seen.add(op)
    return list(operations)


def _find_needs(operations: Sequence[Operation], captured: Captured) -> dict[Operation, set[Operation]]:
    """Return for each operation its sources among `operations`, including those of operations in its regions."""
    inside = set(operations)
    return {op: {source for source in uses(op, captured) if source in inside} for op in operations}


def uses(op: Operation, captured: Captured | None = None) -> Iterator[Operation]:
    """Yield the sources of an operation, and of the operations in its regions; back edges of loops left out."""
    for tensor in op.inputs:
        if not (op.role is Role.MERGE and tensor.op.role is Role.NEXT_ITERATION):
            yield tensor.op
    yield from op.control_inputs
    if op.regions:
        yield from captures(op, {} if captured is None else captured)


def captures(op: Operation, known: Captured) -> list[Operation]:
    """Return the outside operations used by the regions of a Cond or While; `known` caches results by operation."""
    work = [] if op in known else [op]
    while work:  # innermost first: the captures of an inner owner are needed for those around
        inner = [o for region in work[-1].regions for o in region.operations if o.regions and o not in known]
        if inner:
            work += inner
        else:
            # All structured operations inside are in `known` by now.
            owner = work.pop()
            saved = owner.attrs.get("saved_outputs", ())
            found = {t.op: None for e in saved for t in (e.value, e.index) if t is not None}
            for region in owner.regions:
                found.update(dict.fromkeys(tensor.op for tensor in region.results))
                for each in region.operations:
                    found.update(dict.fromkeys(uses(each, known)))
            known[owner] = [source for source in found if source.region.owner is not owner]
    return known[op]


def _sort_by_needs(operations: Sequence[Operation], needs: dict[Operation, set[Operation]]) -> list[Operation]:
    """Return operations sorted by sources; a heap of positions keeps the existing order among the ready ones."""
    position = {op: i for i, op in enumerate(operations)}
    waiting = {op: len(needs[op]) for op in operations}
    users: dict[Operation, list[Operation]] = {op: [] for op in operations}
    for op in operations:
        for source in needs[op]:
            users[source].append(op)
    # Sorted already, and so a heap: positions grow along `operations`.
    ready = [position[op] for op in operations if not waiting[op]]
    found = []
    while ready:
        op = operations[heapq.heappop(ready)]
        found.append(op)
        for user in users[op]:
            waiting[user] -= 1
            if not waiting[user]:
                heapq.heappush(ready, position[user])
    if len(found) < len(operations):
        _refuse_cycle([op for op in operations if waiting[op]])
    return found


def _refuse_cycle(stuck: list[Operation]) -> None:
    raise GraphError(
        "the graph contains a cycle",
        got=", ".join(op.name for op in stuck[:8]),
        operation=stuck[0],
        hint="the only cycles allowed go from a NextIteration to a Merge",
    )
