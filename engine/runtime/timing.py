"""Devices with a time of their own: when a kernel counts as done that was computed at once."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from typing import Any

from ..base.tags import Kind
from ..partition.partitioned import Channel
from ..plan.plan import Plan
from ..streams.contract import Device
from ..streams.event import Event
from .devices import SessionDevice

COPY_OUT, COPY_IN = "DeviceToHost", "HostToDevice"


class Occupation:
    """A kernel that occupies a stream of its device.

    Await it until the kernel is over, for when it began and ended, in seconds by the device's clock. Who is cancelled
    there takes it back, if it has not begun.
    """

    __slots__ = ("_event",)

    def __init__(self, event: Event[Any]) -> None:
        self._event = event

    def __await__(self) -> Generator[Any, None, tuple[float, float]]:
        event = self._event
        try:
            yield from event.__await__()
        except asyncio.CancelledError:
            event.withdraw()
            raise
        assert event.began is not None and event.ended is not None
        return event.began, event.ended

    def close(self) -> None:
        """Take it back, since nobody will await it."""
        self._event.withdraw()


class Schedule:
    """Puts the kernels of one device's plan, and the copies of what it receives, on the streams of the devices.

    Parameters
    ----------
    plan : Plan
    device : Device
        Whose plan it is.
    sources : sequence of Device
        For each channel the device that sends.
    """

    def __init__(self, plan: Plan, device: Device, sources: Sequence[Device]) -> None:
        self._nodes = plan.nodes
        self._device = device
        self._sources = sources
        self._delayed = [node.kind is Kind.KERNEL and device.delays(node.type) for node in plan.nodes]

    def __call__(self, node: int, nbytes: int) -> Occupation | None:
        """Submit a kernel that has been computed and made `nbytes` bytes; None if it is over."""
        if self._delayed[node]:
            return Occupation(self._device.compute.submit(kind=self._nodes[node].type))
        if self._nodes[node].kind is Kind.RECV:
            return self._copy(self._sources[self._nodes[node].index], nbytes)
        return None

    def _copy(self, source: Device, nbytes: int) -> Occupation | None:
        """Submit a copy: out of the memory of one device, then into that of the other."""
        last = None
        if source.delays(COPY_OUT, nbytes):
            last = source.device_to_host.submit(kind=COPY_OUT, nbytes=nbytes)
        if self._device.delays(COPY_IN, nbytes):
            after = [] if last is None else [last]
            last = self._device.host_to_device.submit(kind=COPY_IN, nbytes=nbytes, after=after)
        return None if last is None else Occupation(last)


def schedules_of(
    plans: Sequence[tuple[Plan, int]], channels: Sequence[Channel], devices: Sequence[SessionDevice]
) -> list[Schedule | None]:
    """Return the schedule of each device's plan; None for all where no device has a time of its own.

    Parameters
    ----------
    plans : sequence of (Plan, int)
        With the number of its device.
    channels : sequence of Channel
    devices : sequence of SessionDevice
    """
    if not any(each.has_time for each in devices):
        return [None] * len(plans)
    by_name = {each.spec: each.device for each in devices}
    sources = [by_name[channel.source] for channel in channels]
    return [Schedule(plan, devices[number].device, sources) for plan, number in plans]
