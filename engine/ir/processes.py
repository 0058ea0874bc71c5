"""Devices of other processes: no session reaches them, and soft placement does not replace them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ..base.device_names import DeviceSpec, parse_device
from ..base.errors import GraphError
from ..base.wording import short_device
from .operation import Operation


def device_constraint(op: Operation) -> DeviceSpec:
    """Return the device constraint of an operation; GraphError for an invalid device name."""
    try:
        return parse_device(str(op.device))
    except GraphError as error:
        error.operation, error.source = op, op.source or error.source
        raise


def require_here(operations: Iterable[Operation], devices: Sequence[DeviceSpec]) -> None:
    """Raise GraphError if an operation is asked onto a device of another machine, also under soft placement.

    Parameters
    ----------
    operations : iterable of Operation
        Of the program; binding constraints and wishes are both checked.
    devices : sequence of DeviceSpec
        The session's devices by their full names, all of one process.
    """
    seen: dict[str, bool] = {}
    for op in operations:
        name = str(op.device) if op.device else ""
        if name and name not in seen:
            process = replace(device_constraint(op), type=None, index=None)
            seen[name] = any(process.allows(device) for device in devices)
        if name and not seen[name]:
            raise GraphError(
                f"{op.name} is asked onto a device of another machine",
                wanted=f"a device of this process: {', '.join(map(short_device, devices[:4]))}",
                got=short_device(device_constraint(op)),
                operation=op,
                hint="leave job and task out of the name; a session computes in its own process, also under soft "
                "placement: open another session there, and send it the values",
            )
