"""Mark the takes of a step whose values only go to its caller: undone if the caller does not receive the values.

A step fetching only elements taken from a queue is a wait: a cancelled wait takes nothing from the queue.
"""

from __future__ import annotations

from collections import defaultdict

from ..ir.operation import Operation
from ..ir.program import Program
from ..ir.traits import Effect, Role
from .partial_run import is_result

MARK = "only_fetched"  # attribute of operations that take


def mark_fetched(program: Program) -> Program:
    """Mark takes whose values no operation computes with, and for which no operation with effects waits.

    An Identity between a take and the caller computes nothing, nor does a NoOp: a function returns its values through
    both. `program` is changed.
    """
    operations = program.graph.root.operations
    takes = [op for op in operations if MARK in op.attrs]
    if takes:
        users = _find_users(program)
        passing = _find_forwarding_operations(operations, users)
        for op in takes:
            op.attrs[MARK] = all(user in passing for user in users[op])
    return program


def _find_users(program: Program) -> dict[Operation, list[Operation]]:
    """Return the readers of each operation's outputs and the operations with a control input from it."""
    users: dict[Operation, list[Operation]] = defaultdict(list)
    for op in program.graph.root.walk():
        for source in op.control_inputs:
            users[source].append(op)
    for op in program.graph.root.operations:
        users[op] += [user for tensor in op.outputs for user in tensor._consumers]
    return users


def _find_forwarding_operations(operations: list[Operation], users: dict[Operation, list[Operation]]) -> set[Operation]:
    """Return the operations that only forward values on their way to the caller."""
    # Greatest fixed point: start with all candidates, drop those with another kind of user, and their sources again.
    passing = {op for op in operations if _computes_nothing(op)}
    work = list(passing)
    while work:
        op = work.pop()
        if op in passing and not all(user in passing for user in users[op]):
            passing.discard(op)
            work += [tensor.op for tensor in op.inputs] + list(op.control_inputs)
    return passing


def _computes_nothing(op: Operation) -> bool:
    if op.role in (Role.IDENTITY, Role.CONTROL_TRIGGER) or is_result(op):
        return True
    return not (op.inputs or op.outputs or op.regions) and op.definition.effects is Effect.NONE


def takes_behind(op: Operation) -> set[str]:
    """Return the names of the takes whose values an operation of a user's graph returns or forwards."""
    takes, work, seen = set(), [op], set()
    while work:
        op = work.pop()
        if op in seen:
            continue
        seen.add(op)
        if MARK in op.attrs:
            takes.add(op.name)
        elif _computes_nothing(op):
            work += [tensor.op for tensor in op.inputs] + list(op.control_inputs)
    return takes
