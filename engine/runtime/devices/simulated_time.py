"""Devices with a time of their own: when a kernel counts as done that was computed at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Any

from ...compile.partition.partitioned import Channel
from ...compile.plan.plan import Node, Plan
from ...kernels.core.table import Kind
from ...streams.capabilities import models_time
from ...streams.contract import Clock, Device
from ...streams.event import Event
from .session_devices import SessionDevice

COPY_OUT, COPY_IN = "DeviceToHost", "HostToDevice"


@contextmanager
def held(clocks: Sequence[Clock]) -> Iterator[None]:
    """Keep clocks that are free to jump where they are, while work is under way that takes real time."""
    for clock in clocks:
        clock.hold()
    try:
        yield
    finally:
        for clock in clocks:
            clock.release()


@dataclass(slots=True)
class Usage:
    """How a loop, or a whole step, has used the compute stream of a device; seconds by the device's clock.

    Attributes
    ----------
    began, ended : float
        First and last moment of a kernel of its own.
    busy : dict of str to float
        Time of its kernels, by operation.
    """

    began: float = inf
    ended: float = -inf
    busy: dict[str, float] = field(default_factory=dict)

    def note(self, operation: str, began: float, ended: float) -> None:
        """Count a kernel."""
        self.began, self.ended = min(self.began, began), max(self.ended, ended)
        self.busy[operation] = self.busy.get(operation, 0.0) + ended - began


class Occupation:
    """A kernel that occupies a stream of its device.

    Await it until the kernel is over, for when it began and ended, in seconds by the device's clock. Who is cancelled
    there takes it back, if it has not begun.

    Parameters
    ----------
    event : Event
    note : callable, optional
        Told when it began and ended.
    """

    __slots__ = ("_event", "_note")

    def __init__(self, event: Event[Any], note: Callable[[float, float], None] | None = None) -> None:
        self._event = event
        self._note = note

    def __await__(self) -> Generator[Any, None, tuple[float, float]]:
        event = self._event
        try:
            yield from event.__await__()
        except asyncio.CancelledError:
            event.withdraw()
            raise
        assert event.began is not None
        assert event.ended is not None
        if self._note is not None:
            self._note(event.began, event.ended)
        return event.began, event.ended

    def close(self) -> None:
        """Take it back, since nobody will await it."""
        self._event.withdraw()


class Schedule:
    """Puts the kernels of one device in a step, and the copies of what it receives, on the devices' streams.

    Parameters
    ----------
    plan : Plan
    device : Device
        Whose plan it is.
    sources : sequence of Device
        For each channel the device that sends.
    delayed : sequence of bool
        For each node whether its kernel takes time of the device's own.

    Attributes
    ----------
    usage : dict of int to Usage
        What kernels took that are over, by frame; those of inner loops are in the frames around as well.
    """

    def __init__(self, plan: Plan, device: Device, sources: Sequence[Device], delayed: Sequence[bool]) -> None:
        self._plan = plan
        self._device = device
        self._sources = sources
        self._delayed = delayed
        self.usage: dict[int, Usage] = {}

    def __call__(self, node: int, nbytes: int) -> Occupation | None:
        """Submit a kernel that has been computed and made `nbytes` bytes; None if it is over."""
        what = self._plan.nodes[node]
        if self._delayed[node]:
            return Occupation(self._device.compute.submit(kind=what.type), partial(self._note, what))
        if what.kind is Kind.RECV:
            return self._copy(self._sources[what.index], nbytes)
        return None

    def _note(self, node: Node, began: float, ended: float) -> None:
        frame = node.frame
        while frame >= 0:
            self.usage.setdefault(frame, Usage()).note(node.name, began, ended)
            frame = self._plan.frames[frame].parent

    def _copy(self, source: Device, nbytes: int) -> Occupation | None:
        """Submit a copy: out of the memory of one device, then into that of the other."""
        last: Event[Any] | None = None
        if models_time(source, COPY_OUT, nbytes):
            last = source.device_to_host.submit(kind=COPY_OUT, nbytes=nbytes)
        if models_time(self._device, COPY_IN, nbytes):
            after = [] if last is None else [last]
            last = self._device.host_to_device.submit(kind=COPY_IN, nbytes=nbytes, after=after)
        return None if last is None else Occupation(last)


def schedulers(
    plans: Sequence[tuple[Plan, int]], channels: Sequence[Channel], devices: Sequence[SessionDevice]
) -> list[Callable[[], Schedule] | None]:
    """Return for each plan what makes a schedule for one step; None where no device has a time of its own.

    Parameters
    ----------
    plans : sequence of (Plan, int)
        With the number of its device.
    channels : sequence of Channel
    devices : sequence of SessionDevice
    """
    if not any(each.is_simulated for each in devices):
        return [None] * len(plans)
    by_name = {each.spec: each.device for each in devices}
    sources = [by_name[channel.source] for channel in channels]
    return [_scheduler(plan, devices[number].device, sources) for plan, number in plans]


def _scheduler(plan: Plan, device: Device, sources: Sequence[Device]) -> Callable[[], Schedule]:
    delayed = [node.kind is Kind.KERNEL and models_time(device, node.type) for node in plan.nodes]
    return partial(Schedule, plan, device, sources, delayed)
