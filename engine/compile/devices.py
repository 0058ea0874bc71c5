"""Rows of the pipeline for placement and partition on the devices of a target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..base.device_names import DeviceSpec
from ..ir.operation import Operation
from ..ir.program import Program
from .partition.cut import partition
from .partition.partitioned import Partitioned
from .place.placement import place
from .target import Target


@dataclass(frozen=True, slots=True)
class Placed:
    """A lowered program and a device for each of its operations.

    Attributes
    ----------
    program : Program
    placement : mapping of Operation to DeviceSpec, or None
        None for a single device that no operation contradicts.
    """

    program: Program
    placement: Mapping[Operation, DeviceSpec] | None


def place_step(program: Program, target: Target) -> Placed:
    """Choose a device for each operation of a lowered program.

    Raises
    ------
    GraphError
        If there is no device for an operation, naming the constraints that contradict each other.
    """
    devices = [device.spec for device in target.devices]
    if not devices or (len(devices) == 1 and not any(op.device for op in program.graph.root.operations)):
        return Placed(program, None)
    return Placed(program, place(program, devices, target.soft_placement))


def partition_step(placed: Placed, target: Target) -> Partitioned:
    """Cut a placed program by device; a program for one device stays whole."""
    program, placement = placed.program, placed.placement
    if placement is not None:
        return partition(program, placement, target.settings.switches.coalesce_dead_signals)
    device = target.devices[0].spec if target.devices else DeviceSpec()
    feeds = [(device, k) for k in range(len(program.feeds))]
    fetches = [(device, k) for k in range(len(program.fetches))]
    return Partitioned({device: program}, (), feeds, fetches, program)
