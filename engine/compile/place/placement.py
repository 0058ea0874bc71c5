"""Placement: a device for each group of operations that must be together.

What the user asked for comes first. Then phases place the groups that are left, each by what earlier phases have placed
(`_PHASES`): arrays and stacks, loop variables, computations, and last the constants, feeds and invariants, which cost
nothing to have. What takes a part of a value moves to where that is. See docs/design/0009-devices.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from ...base.device_names import DeviceSpec
from ...base.errors import GraphError
from ...ir.operation import Operation
from ...ir.program import Program, needed
from ...ir.tensor import Tensor
from ...ir.topological import topological_order
from ...ir.traits import ABOUT_SERIES, SWITCHES, Role
from .constraints import Choice, Supports, binds, wished
from .groups import PLUMBING, Group, find_groups, is_invariant, is_loop_merge, stored_by, users_of
from .parts import moves, size_of

_SOURCES = SWITCHES | {Role.CONST, Role.FEED, Role.PARTIAL_FEED, Role.ENTER}  # a Switch is grouped with its data


def anywhere(type: str, device: DeviceSpec) -> bool:
    """Whether a device runs operations of a type: all do, with what has no kernel there done in the host's memory."""
    return True


def place(
    program: Program, devices: Sequence[DeviceSpec], soft: bool = False, supports: Supports = anywhere
) -> dict[Operation, DeviceSpec]:
    """Give each operation that is needed a device.

    Parameters
    ----------
    program : Program
        Lowered; not changed.
    devices : sequence of DeviceSpec
        The session's devices by their full names. What nothing constrains goes to the first.
    soft : bool, optional
        Let a group go to any device that runs it, where what it asks for can not be had.
    supports : callable, optional
        ``supports(type, device)`` says whether there is a kernel.

    Returns
    -------
    dict of Operation to DeviceSpec

    Raises
    ------
    GraphError
        If two operations that must be together ask for different devices, if a device asked for is not there, or if
        no device runs an operation.
    """
    if not devices:
        raise GraphError("there is no device to place operations on", wanted="one or more", hint="give devices")
    operations = needed(program)
    placement = _Placement(operations, Choice(devices, supports, soft))
    return {op: placement.device(op) for op in operations}


class _Placement:
    """Placement of one program: its groups, and the phases that give each a device.

    Attributes
    ----------
    operations : list of Operation
        Inputs before the operations that use them.
    users : dict of Operation to list of Operation
    groups : list of Group
    of : dict of Operation to Group
    """

    def __init__(self, operations: Sequence[Operation], choice: Choice) -> None:
        self.operations = topological_order(operations)
        self.users = users_of(operations)
        self.groups = find_groups(operations)
        self.of = {op: group for group in self.groups for op in group.members}
        self.choice = choice
        self.place_asked()
        for phase in _PHASES:
            phase(self)

    def place_asked(self) -> None:
        """Place groups that may go to one device only: as the user asked, or as another step must find them there."""
        for group in self.groups:
            group.candidates = self.choice.candidates(group)
            # What outlives steps may not depend on what else a step computes: it goes to the first device allowed.
            if _outlives_step(group) or len(group.candidates) == 1:
                group.device = group.candidates[0]

    def device(self, op: Operation) -> DeviceSpec:
        found = self.of[op].device
        assert found is not None, op
        return found

    def settle(self, group: Group, places: Iterable[DeviceSpec | None]) -> None:
        """Put a group on the first device of `places` that the group may go to, if it has no device yet."""
        if group.device is None:
            group.device = next((p for p in places if p in group.candidates), None)

    def place_loops(self) -> None:
        """Place loop variables, inner ones first: where the next value is computed, else where the value is used."""
        for op in reversed(self.operations):
            group = self.of[op]
            if is_loop_merge(op) and group.device is None:
                self.settle(group, (self.maker(n.inputs[0].op, {group}) for n in group.of_type("NextIteration")))
                self.settle(group, (self.of[u].device for s in group.of_type("Switch") for u in self.users[s]))
                self.wish(group, group.members)

    def maker(self, op: Operation, seen: set[Group]) -> DeviceSpec | None:
        """Return the device of an operation, or of the first placed operation that its data comes from."""
        todo = [op]
        while todo:
            group = self.of[op := todo.pop()]
            if group.device is not None:
                return group.device
            if group not in seen:
                seen.add(group)
                todo += [t.op for member in group.members for t in reversed(_data(member))]
        return None

    def place_states(self) -> None:
        """Place arrays and stacks where a value is stored first (rule 114), series where their value is computed."""
        for group in self.groups:
            if group.device is None and group.holds_state:
                self.wish(group, sorted((op for op in group.members if _is_wish(op)), key=lambda op: not stored_by(op)))
                self.settle(group, (self.of[source].device for source in group.stored))

    def wish(self, group: Group, operations: Sequence[Operation]) -> None:
        """Narrow a group to the devices that its operations would like, and place it if that leaves one."""
        if group.device is None:
            group.candidates = wished([op for op in operations if not binds(op)], group.candidates)
            group.device = group.candidates[0] if len(group.candidates) == 1 else None

    def place_computations(self) -> None:
        """Place what computes where most of its data comes from."""
        for op in self.operations:
            group = self.of[op]
            if not _is_source(group) and (stored_by(op) or not group.stored):
                self.settle(group, self.places(group))
                self.settle(group, group.candidates)

    def places(self, group: Group) -> Iterator[DeviceSpec | None]:
        """Yield devices for a group, the best first: by bytes of data that are there, then by users."""
        sizes: dict[DeviceSpec, int] = {}
        for op in _suppliers(group):
            if (found := self.origin(op)) is not None:
                sizes[found] = sizes.get(found, 0) + (0 if group.holds_state else size_of(op.outputs))
        most = max(sizes.values(), default=0)
        largest = [device for device in sizes if sizes[device] == most]
        # A tie goes to the preferred device, so that a program which asks for nothing stays on the first one.
        if group.candidates[0] in largest and not group.holds_state:
            yield group.candidates[0]
        yield from largest
        yield from sizes
        yield from (self.of[u].device for op in group.members for u in self.users[op] if self.of[u] is not group)

    def origin(self, op: Operation) -> DeviceSpec | None:
        """Return the device that a value comes from; a loop invariant comes from outside its loop."""
        found = self.of[op].device
        return self.origin(op.inputs[0].op) if found is None and is_invariant(op) else found

    def take_parts(self) -> None:
        """Move what takes a part of a value to that value, if less crosses to other devices then.

        Until here it counted as being where it was asked for; so what uses the part is there, and gets it there.
        """
        for op, device in list(moves(self.operations, lambda op: self.of[op].device, self.is_free)):
            if self.choice.runs(op.type, device):
                self.of[op].device = device

    def is_free(self, op: Operation) -> bool:
        """Whether nothing has to be with an operation but what passes its result on."""
        return all(member is op or member.role in PLUMBING for member in self.of[op].members)

    def place_sources(self) -> None:
        """Place constants, feeds and invariants where they are used first; groups without users where they may be."""
        for op in reversed(self.operations):
            group = self.of[op]
            self.settle(group, (self.of[u].device for m in group.members for u in self.users[m]))
        for group in self.groups:
            self.settle(group, group.candidates)


# States come before loops, so that the device of an array draws the loop variables computed from it. Loops come before
# computations, since a body follows its variables: a variable on another device than its next value would cost a
# message in each iteration. Sources go wherever they are used, so they come last. Parts are taken before that, as what
# chooses them may be fed where they are taken, and behind it, as they may be of what is fed.
_PHASES: tuple[Callable[[_Placement], None], ...] = (
    _Placement.place_states,
    _Placement.place_loops,
    _Placement.place_computations,
    _Placement.take_parts,
    _Placement.place_sources,
    _Placement.take_parts,
)


def _outlives_step(group: Group) -> bool:
    """Whether the group has the handle of what outlives steps: every step must find that in the same place."""
    return any(op.definition.outlives_step for op in group.members)


def _is_source(group: Group) -> bool:
    return all(op.role in _SOURCES for op in group.members)


def _is_wish(op: Operation) -> bool:
    return op.role not in ABOUT_SERIES


def _suppliers(group: Group) -> list[Operation]:
    """Return what a group gets its data from: what is stored, if it is an array or a series."""
    return group.stored or [t.op for op in group.members for t in _data(op) if t.op not in group.members]


def _data(op: Operation) -> Sequence[Tensor]:
    return op.inputs[:1] if op.role in SWITCHES else op.inputs
