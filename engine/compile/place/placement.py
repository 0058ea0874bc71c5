"""Placement: a device for each group of operations bound together.

Constraints of the user come first. Then phases (`_PHASES`) place the remaining groups, each by the devices of groups
placed before: arrays and stacks, loop variables, computations, and last constants, feeds and invariants, which are free
to copy. Operations taking a part of a value move to the value's device. See docs/design/0009-devices.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from ...base.device_names import DeviceSpec
from ...base.errors import GraphError
from ...ir.operation import Operation
from ...ir.program import Program, needed
from ...ir.rules.placing import OutlivesStep
from ...ir.tensor import Tensor
from ...ir.topological import topological_order
from ...ir.traits import ABOUT_SERIES, SWITCHES, Role
from .constraints import Choice, Supports, devices_meeting_wishes, is_device_binding
from .groups import PLUMBING, Group, find_groups, is_invariant, is_loop_merge, stored_by, users_of
from .parts import moves, size_of

_SOURCES = SWITCHES | {Role.CONST, Role.FEED, Role.PARTIAL_FEED, Role.ENTER}  # a Switch is grouped with its data


def anywhere(type: str, device: DeviceSpec) -> bool:
    """Return True: every device runs every type, if need be by the CPU kernel in the host's memory."""
    return True


def place(
    program: Program, devices: Sequence[DeviceSpec], soft: bool = False, supports: Supports = anywhere
) -> dict[Operation, DeviceSpec]:
    """Choose a device for each operation needed by fetches and targets.

    Parameters
    ----------
    program : Program
        Lowered; not changed.
    devices : sequence of DeviceSpec
        The session's devices by their full names. Unconstrained groups go to the first.
    soft : bool, optional
        Let a group whose constraints cannot be met go to any device running all its types.
    supports : callable, optional
        ``supports(type, device)`` is True if the device has a kernel.

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
    """Placement of a program: its groups, and the phases choosing their devices.

    Attributes
    ----------
    operations : list of Operation
        Inputs before their users.
    users : dict of Operation to list of Operation
    groups : list of Group
    group_of : dict of Operation to Group
    """

    def __init__(self, operations: Sequence[Operation], choice: Choice) -> None:
        self.operations = topological_order(operations)
        self.users = users_of(operations)
        self.groups = find_groups(operations)
        self.group_of = {op: group for group in self.groups for op in group.members}
        self.choice = choice
        self.place_asked()
        for phase in _PHASES:
            phase(self)

    def place_asked(self) -> None:
        """Find the candidates of all groups; place groups with a single one, and groups with state outliving steps."""
        for group in self.groups:
            group.candidates = self.choice.candidates(group)
            # Every step must find such state on the same device, so the rest of a step may not decide.
            if _outlives_step(group) or len(group.candidates) == 1:
                group.device = group.candidates[0]

    def device(self, op: Operation) -> DeviceSpec:
        device = self.group_of[op].device
        assert device is not None, op
        return device

    def place_group(self, group: Group, places: Iterable[DeviceSpec | None]) -> None:
        """Put an unplaced group on the first candidate of the group among `places`."""
        if group.device is None:
            group.device = next((p for p in places if p in group.candidates), None)

    def place_loops(self) -> None:
        """Place loop variables, inner ones first: where the next value is computed, else where the value is used."""
        for op in reversed(self.operations):
            group = self.group_of[op]
            if is_loop_merge(op) and group.device is None:
                next_values = (op.inputs[0].op for op in group.of_type("NextIteration"))
                self.place_group(group, (self.device_of_maker(maker, {group}) for maker in next_values))
                users = (user for switch in group.of_type("Switch") for user in self.users[switch])
                self.place_group(group, (self.group_of[user].device for user in users))
                self.apply_wishes(group, group.members)

    def device_of_maker(self, op: Operation, seen: set[Group]) -> DeviceSpec | None:
        """Return the device of an operation, or of the first placed operation upstream."""
        todo = [op]
        while todo:
            group = self.group_of[op := todo.pop()]
            if group.device is not None:
                return group.device
            if group not in seen:
                seen.add(group)
                # Reversed, because the last one is visited first.
                todo += [t.op for member in group.members for t in reversed(_data_inputs(member))]
        return None

    def place_states(self) -> None:
        """Place arrays and stacks where a value is stored first (rule 114), series where their value is computed."""
        for group in self.groups:
            if group.device is None and group.holds_state:
                # Wishes of operations that store a value come first, since earlier wishes win.
                wishing = sorted(filter(_may_wish, group.members), key=lambda op: not stored_by(op))
                self.apply_wishes(group, wishing)
                self.place_group(group, (self.group_of[source].device for source in group.stored))

    def apply_wishes(self, group: Group, operations: Sequence[Operation]) -> None:
        """Narrow a group's candidates by the wishes of its operations, and place the group on a single candidate."""
        if group.device is None:
            group.candidates = devices_meeting_wishes(
                [op for op in operations if not is_device_binding(op)], group.candidates
            )
            group.device = group.candidates[0] if len(group.candidates) == 1 else None

    def place_computations(self) -> None:
        """Place computations on the device of most of their data."""
        for op in self.operations:
            group = self.group_of[op]
            # An array is placed at its first write, whose value has a device by then, not at its creation.
            if not _is_source(group) and (stored_by(op) or not group.stored):
                self.place_group(group, self.devices_by_preference(group))
                self.place_group(group, group.candidates)

    def devices_by_preference(self, group: Group) -> Iterator[DeviceSpec | None]:
        """Yield devices for a group, the best first: by bytes of data on the device, then by users of the results."""
        sizes: dict[DeviceSpec, int] = {}  # bytes of the group's data on each device
        for op in _data_producers(group):
            # Of the values stored in state, the first one decides, whatever the bytes.
            if (home := self.device_of_producer(op)) is not None:
                sizes[home] = sizes.get(home, 0) + (0 if group.holds_state else size_of(op.outputs))
        most = max(sizes.values(), default=0)
        largest = [device for device in sizes if sizes[device] == most]
        # A tie goes to the preferred device, so that a program which asks for nothing stays on the first one.
        if group.candidates[0] in largest and not group.holds_state:
            yield group.candidates[0]
        yield from largest
        yield from sizes
        users = (self.group_of[user] for op in group.members for user in self.users[op])
        yield from (other.device for other in users if other is not group)

    def device_of_producer(self, op: Operation) -> DeviceSpec | None:
        """Return the device of a value's producer; for a loop invariant, of the producer outside the loop."""
        device = self.group_of[op].device
        return self.device_of_producer(op.inputs[0].op) if device is None and is_invariant(op) else device

    def take_parts(self) -> None:
        """Move operations taking a part of a value to the value's device, if fewer bytes cross devices then.

        Until now such an operation counted as being on the device of its users. The users stay on their device, and
        receive the part instead of the value.
        """
        for op, device in list(moves(self.operations, lambda op: self.group_of[op].device, self.is_free)):
            if self.choice.runs(op.type, device):
                self.group_of[op].device = device

    def is_free(self, op: Operation) -> bool:
        """Return True if no other operation is bound to this operation, except primitives forwarding its result."""
        return all(member is op or member.role in PLUMBING for member in self.group_of[op].members)

    def place_sources(self) -> None:
        """Place constants, feeds and invariants with their first users; groups without users on a candidate."""
        for op in reversed(self.operations):
            group = self.group_of[op]
            self.place_group(group, (self.group_of[u].device for m in group.members for u in self.users[m]))
        for group in self.groups:
            self.place_group(group, group.candidates)


# States come before loops, so that the device of an array draws the loop variables computed from it. Loops come before
# computations, since a body follows its variables: a variable on another device than its next value would cost a
# message in each iteration. Sources go to their users, so they come last. Parts are taken before sources, because the
# choosing operand of a part may be a feed and follows it, and after them, because the whole may be a feed as well.
_PHASES: tuple[Callable[[_Placement], None], ...] = (
    _Placement.place_states,
    _Placement.place_loops,
    _Placement.place_computations,
    _Placement.take_parts,
    _Placement.place_sources,
    _Placement.take_parts,
)


def _outlives_step(group: Group) -> bool:
    """Return True if the group holds the handle of state outliving steps: every step must find the same place."""
    return any(op.definition.has(OutlivesStep) for op in group.members)


def _is_source(group: Group) -> bool:
    return all(op.role in _SOURCES for op in group.members)


def _may_wish(op: Operation) -> bool:
    """Return False for primitives of series, whose device lowering copied from their loop."""
    return op.role not in ABOUT_SERIES


def _data_producers(group: Group) -> list[Operation]:
    """Return the producers of a group's data: for an array or a series, the stored values."""
    return group.stored or [t.op for op in group.members for t in _data_inputs(op) if t.op not in group.members]


def _data_inputs(op: Operation) -> Sequence[Tensor]:
    return op.inputs[:1] if op.role in SWITCHES else op.inputs
