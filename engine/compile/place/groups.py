"""Groups of operations bound to a common device: union-find over a lowered program.

Values may cross between devices, handles may not. The primitives of a loop variable stay together (rule 115), so a
Merge never has a remote input and a loop variable costs messages only where its value is used elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from ...base.device_names import DeviceSpec
from ...ir.operation import Operation
from ...ir.tensor import Tensor
from ...ir.traits import SWITCHES, Role

PLUMBING = SWITCHES | {Role.ENTER, Role.EXIT, Role.NEXT_ITERATION, Role.LOOP_COND, Role.TRIP_COUNT}
_WITH_FIRST_INPUT = PLUMBING - {Role.ENTER, Role.NEXT_ITERATION} | {Role.SERIES_EXIT}


@dataclass(eq=False)
class Group:
    """Operations on a common device, in graph order.

    Attributes
    ----------
    members : list of Operation
    candidates : list of DeviceSpec
        Devices allowed for the group, the preferred device first.
    device : DeviceSpec or None
        The chosen device, None until placement decides.
    """

    members: list[Operation]
    candidates: list[DeviceSpec] = field(default_factory=list)
    device: DeviceSpec | None = None

    def of_type(self, *types: str) -> list[Operation]:
        """Return the members of any of these types."""
        return [op for op in self.members if op.type in types]

    @cached_property
    def stored(self) -> list[Operation]:
        """The producers of the values stored in the group's stack, array or series."""
        return [source for op in self.members for source in stored_by(op)]

    @cached_property
    def holds_state(self) -> bool:
        """True if the members share a handle or a series."""
        return any(takes_handle(op) or makes_handle(op) for op in self.members)


def stored_by(op: Operation) -> list[Operation]:
    """Return the producer of the value stored by `op` in a stack, array or series; none for other operations."""
    if op.role is not Role.SERIES_PUSH and not takes_handle(op):
        return []
    names = [parameter.name for parameter in op.definition.signature.inputs]
    return [op.inputs[names.index("value")].op] if "value" in names else []


def makes_handle(op: Operation) -> bool:
    """Return True if a result is a handle or a series."""
    return any(not t.dtype.is_value for t in op.outputs)


def takes_handle(op: Operation) -> bool:
    """Return True if an input is a handle or a series."""
    return any(not t.dtype.is_value for t in op.inputs)


def is_loop_merge(op: Operation) -> bool:
    """Return True for the Merge at the head of a loop variable."""
    return op.role is Role.MERGE and any(t.op.role is Role.NEXT_ITERATION for t in op.inputs)


def is_invariant(op: Operation) -> bool:
    """Return True for a constant Enter."""
    return op.role is Role.ENTER and op.attrs["is_constant"]


def users_of(operations: Sequence[Operation]) -> dict[Operation, list[Operation]]:
    """Return the users of each operation's results, in graph order."""
    users: dict[Operation, list[Operation]] = {op: [] for op in operations}
    for op in operations:
        for source in dict.fromkeys(t.op for t in op.inputs):
            users[source].append(op)
    return users


def find_groups(operations: Sequence[Operation]) -> list[Group]:
    """Return the groups of operations bound to a common device, each operation in a single group.

    Parameters
    ----------
    operations : sequence of Operation
        Of a lowered program, without operations needed by neither fetches nor targets.

    Returns
    -------
    list of Group
        In the order of their first members.
    """
    union = _Union()
    for one, other in _bound_pairs(operations):
        union.join(one, other)
    groups: dict[object, Group] = {}
    for op in operations:
        groups.setdefault(union.find(op), Group([])).members.append(op)
    return list(groups.values())


def _bound_pairs(operations: Sequence[Operation]) -> Iterator[tuple[object, object]]:
    """Yield pairs of keys bound to a common device: operations, and names to colocate with."""
    named = _by_name(operations)
    users = users_of(operations)
    for op in operations:
        yield from ((op, t.op) for i, t in enumerate(op.inputs) if _binds_to_input(op, i, t))
        # An Enter follows its first user; its input may come from another device once per loop.
        if op.role is Role.ENTER and not is_invariant(op) and users[op]:
            yield op, users[op][0]
        # The name may be that of a Cond or While, which lowering has replaced.
        if "colocate" in op.attrs:
            name = op.attrs["colocate"]
            yield from ((op, other) for other in (name, *named.get(name, ())))


def _binds_to_input(op: Operation, index: int, tensor: Tensor) -> bool:
    """Return True if an operation must be on the device of this input."""
    if not tensor.dtype.is_value:
        return True
    # With the data input; the predicate of a Switch may come from another device.
    if op.role in _WITH_FIRST_INPUT:
        return index == 0
    return is_loop_merge(op) and tensor.op.role in (Role.ENTER, Role.NEXT_ITERATION)


def _by_name(operations: Sequence[Operation]) -> dict[str, list[Operation]]:
    """Return operations by name in the user's graph; a Cond or While has the primitive of its first result."""
    named = {op.name: [op] for op in operations}
    for op in operations:
        if op.origin is not None and op.origin.role == "result" and op.origin.index == 0:
            named.setdefault(op.origin.operation, []).append(op)
    return named


class _Union:
    """Union-find with path compression; keys are operations, and names, perhaps without operations."""

    def __init__(self) -> None:
        self.parent: dict[object, object] = {}

    def find(self, key: object) -> object:
        path = []
        while (above := self.parent.get(key, key)) is not key:
            path.append(key)
            key = above
        for below in path:
            self.parent[below] = key
        return key

    def join(self, one: object, other: object) -> None:
        self.parent[self.find(one)] = self.find(other)
