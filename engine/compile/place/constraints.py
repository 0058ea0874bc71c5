"""Candidate devices of a group: the combined constraints of its operations.

An operation's device binds the group. The device of a primitive, or of an operation only using a handle, is a wish:
Switch goes with its data and a read with its variable, wherever the program asked for them (rules 114 and 115).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...base.device_names import DeviceSpec
from ...base.errors import GraphError
from ...base.wording import short_device
from ...ir.operation import Operation
from ...ir.processes import device_constraint
from ...ir.traits import ABOUT_SERIES
from .groups import PLUMBING, Group, is_loop_merge, takes_handle

Supports = Callable[[str, DeviceSpec], bool]
_NAMED = 4  # devices that the text of an error names
_HINT = "change one of the device scopes, or ask for soft placement"


def is_device_binding(op: Operation) -> bool:
    """Return True if the operation's device is binding, not a wish."""
    is_primitive = op.role in PLUMBING | ABOUT_SERIES or is_loop_merge(op)
    return not (is_primitive or takes_handle(op))


class Choice:
    """Devices that groups of operations may be placed on, by supported types and by constraints.

    Parameters
    ----------
    devices : sequence of DeviceSpec
        In order of preference.
    supports : callable
        ``supports(type, device)`` is True if the device runs the type.
    soft : bool
        Ignore constraints of a group that cannot be met.
    """

    def __init__(self, devices: Sequence[DeviceSpec], supports: Supports, soft: bool) -> None:
        self.devices = devices
        self.supports = supports
        self.soft = soft
        # Cached by type and by constraint: there are few of either, but many groups.
        self._unable: dict[str, set[DeviceSpec]] = {}
        self._allowed: dict[DeviceSpec, list[DeviceSpec]] = {}

    def candidates(self, group: Group) -> list[DeviceSpec]:
        """Return the devices allowed for a group, in order of preference.

        Raises
        ------
        GraphError
            If there is none: two operations contradict each other, no device matches the constraint, or none runs all
            types. With soft placement a device only has to run all types.
        """
        unable: set[DeviceSpec] = set().union(*(self._without_kernel(op.type) for op in group.members))
        able = [d for d in self.devices if d not in unable] if unable else list(self.devices)
        if not able:
            raise self._error_for_group(group)
        try:
            return self._devices_meeting_constraints(group, able)
        except GraphError:
            if self.soft:
                return able
            raise

    def runs(self, type: str, device: DeviceSpec) -> bool:
        """Return True if a device runs operations of a type."""
        return device not in self._without_kernel(type)

    def _without_kernel(self, type: str) -> set[DeviceSpec]:
        if type not in self._unable:
            self._unable[type] = {d for d in self.devices if not self.supports(type, d)}
        return self._unable[type]

    def _devices_meeting_constraints(self, group: Group, able: list[DeviceSpec]) -> list[DeviceSpec]:
        """Return the able devices matching all binding constraints of a group; GraphError if there are none."""
        asking = [op for op in group.members if op.device and is_device_binding(op)]
        if not asking:
            return able
        spec = _intersect_constraints(asking)
        if spec not in self._allowed:
            self._allowed[spec] = [device for device in self.devices if spec.allows(device)]
        fitting = [device for device in self._allowed[spec] if device in able]
        if fitting:
            return fitting
        op = asking[0]
        raise GraphError(
            f"{op.name} cannot run on the device asked for",
            wanted=short_device(spec),
            got=f"devices {_name_devices(able)}",
            operation=op,
            hint="ask for one of these, give the session more devices, or ask for soft placement",
        )

    def _error_for_group(self, group: Group) -> GraphError:
        """Return the error of a group whose types no device runs, naming the operation with the fewest devices."""
        op = max(group.members, key=lambda op: len(self._without_kernel(op.type)))
        return GraphError(
            f"no device runs {op.type} and what must be with it",
            wanted=f"one of {_name_devices(self.devices)}",
            got=", ".join(sorted({op.type for op in group.members})),
            operation=op,
            hint="give the session a CPU device",
        )


def _intersect_constraints(operations: Sequence[Operation]) -> DeviceSpec:
    """Return the intersection of the operations' constraints; GraphError if two contradict each other."""
    intersection = DeviceSpec()
    for i, op in enumerate(operations):
        narrowed = intersection.both(device_constraint(op))
        if narrowed is None:
            # Name the two operations that disagree, not the one that the intersection happened to fail on.
            raise _contradiction_error(
                next(o for o in operations[:i] if device_constraint(o).both(device_constraint(op)) is None), op
            )
        intersection = narrowed
    return intersection


def _contradiction_error(one: Operation, other: Operation) -> GraphError:
    return GraphError(
        f"{one.name} and {other.name} must be on one device, but were asked onto two",
        wanted=f"{device_constraint(one)} for {one.name}, built at {one.source}",
        got=f"{device_constraint(other)} for {other.name}, built at {other.source}",
        operation=other,
        hint=_HINT,
    )


def devices_meeting_wishes(operations: Sequence[Operation], candidates: list[DeviceSpec]) -> list[DeviceSpec]:
    """Return the candidates meeting also the wishes of operations, as far as possible; earlier wishes win."""
    for op in operations:
        fitting = [d for d in candidates if device_constraint(op).allows(d)] if op.device else []
        candidates = fitting or candidates
    return candidates


def _name_devices(devices: Sequence[DeviceSpec]) -> str:
    more = [f"{len(devices) - _NAMED} more"] if len(devices) > _NAMED else []
    return ", ".join([*map(short_device, devices[:_NAMED]), *more])
